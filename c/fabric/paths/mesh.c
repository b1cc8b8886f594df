/* mesh.c: see mesh.h. Cold. */
#include "mesh.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What a rank says first: of one size in all versions. */
struct mt_mesh_hello {
    char magic[8];
    uint32_t version;
    uint32_t address_bytes; /* of struct mt_fabric_address */
    uint32_t rails;
    uint32_t transports;
    uint32_t status; /* enum mt_status: what it could not make */
    uint32_t reserved;
};

static const char mt_magic[8] = "mtfabric";

/* Who knows that somebody does not answer tells the others after that at the latest. */
enum { MT_MESH_TURN_MS = 500 };

static uint32_t mt_transports(const struct mt_mesh_options *o)
{
    return (o->rc.send_depth > 0 ? (uint32_t)MT_FABRIC_RC : 0) |
           (o->ud.send_depth > 0 ? (uint32_t)MT_FABRIC_UD : 0);
}

/* Whether rank i may take part; says why not, but of what a rank could not make,
 * which that rank says itself: it knows more. */
static enum mt_status mt_hello_check(const struct mt_mesh_hello *mine,
                                     const struct mt_mesh_hello *theirs,
                                     uint32_t i, uint32_t rank,
                                     const struct mt_mesh_options *o)
{
    if (memcmp(theirs->magic, mt_magic, sizeof(mt_magic)) != 0) {
        mt_path_say(o->say, o->say_user,
                    "rank %u does not speak the protocol of the fabric", i);
        return MT_EVERSION;
    }
    if (theirs->version != mine->version ||
        theirs->address_bytes != mine->address_bytes) {
        mt_path_say(
            o->say, o->say_user,
            "rank %u speaks version %u of the fabric's protocol, this one "
            "version %u: run the same mpitrace everywhere",
            i, theirs->version, mine->version);
        return MT_EVERSION;
    }
    if (theirs->status != MT_OK) {
        if (i == rank && theirs->status != MT_EAGAIN) {
            mt_path_say(o->say, o->say_user, "cannot take part: %s",
                        mt_status_text((enum mt_status)theirs->status));
        }
        return theirs->status < MT_STATUSES ? (enum mt_status)theirs->status
                                            : MT_EINVAL;
    }
    if (theirs->rails != mine->rails ||
        theirs->transports != mine->transports) {
        mt_path_say(o->say, o->say_user,
                    "rank %u has %u rails, this one %u: name as many on all", i,
                    theirs->rails, mine->rails);
        return MT_EINVAL;
    }
    return MT_OK;
}

/* status: whether this rank can go on. The verdict on all; MT_EAGAIN: of some it is
 * not known yet, and nobody cannot. */
static enum mt_status mt_meet(const struct mt_mesh *mesh,
                              const struct mt_fabric_wireup *wireup,
                              const struct mt_mesh_options *o,
                              enum mt_status status)
{
    struct mt_mesh_hello mine = {.version = MT_MESH_VERSION,
                                 .address_bytes =
                                     sizeof(struct mt_fabric_address),
                                 .rails = mesh->rails->count,
                                 .transports = mt_transports(o),
                                 .status = status};
    struct mt_mesh_hello *all = calloc(wireup->size, sizeof(*all));
    memcpy(mine.magic, mt_magic, sizeof(mt_magic));
    enum mt_status verdict =
        wireup->exchange(wireup->user, &mine, sizeof(mine), all);
    bool waits = false;
    for (uint32_t i = 0; i < wireup->size && verdict == MT_OK; i++) {
        verdict = mt_hello_check(&mine, &all[i], i, wireup->rank, o);
        if (verdict == MT_EAGAIN) {
            waits = true;
            verdict = MT_OK;
        }
    }
    free(all);
    return verdict == MT_OK && waits ? MT_EAGAIN : verdict;
}

static enum mt_status mt_mesh_make(struct mt_mesh *mesh,
                                   const struct mt_mesh_options *o)
{
    uint32_t rails = mesh->rails->count;
    enum mt_status status = MT_OK;
    for (uint32_t r = 0; r < rails && status == MT_OK; r++) {
        const struct mt_rail *rail = &mesh->rails->rails[r];
        struct mt_fabric_qp_options q = o->rc;
        q.send_cq = rail->send_cq;
        q.receive_cq = rail->receive_cq;
        q.port = rail->port;
        q.transport = MT_FABRIC_RC;
        for (uint32_t p = 0; p < mesh->size && status == MT_OK; p++) {
            struct mt_fabric_qp **place = &mesh->rc[(size_t)p * rails + r];
            if (p != mesh->rank && o->rc.send_depth > 0) {
                status = mt_fabric_qp_create(rail->pd, &q, place);
            }
            if (status == MT_OK && *place != NULL && o->prepare != NULL) {
                status = o->prepare(o->user, p, r, *place);
            }
        }
        if (o->ud.send_depth > 0 && status == MT_OK) {
            q = o->ud;
            q.send_cq = rail->send_cq;
            q.receive_cq = rail->receive_cq;
            q.port = rail->port;
            q.transport = MT_FABRIC_UD;
            status = mt_fabric_qp_create(rail->pd, &q, &mesh->ud[r]);
        }
    }
    return status;
}

/* What a rank has for each peer: of each rail the RC address for it, then the UD
 * one. */
static size_t mt_mesh_piece(const struct mt_mesh *mesh)
{
    return (size_t)2 * mesh->rails->count;
}

static enum mt_status mt_mesh_addresses(const struct mt_mesh *mesh,
                                        struct mt_fabric_address *mine)
{
    uint32_t rails = mesh->rails->count;
    enum mt_status status = MT_OK;
    for (uint32_t p = 0; p < mesh->size && status == MT_OK; p++) {
        struct mt_fabric_address *piece = &mine[p * mt_mesh_piece(mesh)];
        for (uint32_t r = 0; r < rails && status == MT_OK; r++) {
            struct mt_fabric_qp *rc = mesh->rc[(size_t)p * rails + r];
            if (rc != NULL) {
                status = mt_fabric_qp_address(rc, &piece[r]);
            }
            if (mesh->ud[r] != NULL && status == MT_OK) {
                status = mt_fabric_qp_address(mesh->ud[r], &piece[rails + r]);
            }
        }
    }
    return status;
}

static enum mt_status mt_mesh_connect(struct mt_mesh *mesh,
                                      const struct mt_mesh_options *o,
                                      const struct mt_fabric_address *all)
{
    uint32_t rails = mesh->rails->count;
    enum mt_status status = MT_OK;
    for (uint32_t r = 0; r < rails && status == MT_OK; r++) {
        if (mesh->ud[r] != NULL) {
            status = mt_fabric_qp_connect(mesh->ud[r], NULL);
        }
        for (uint32_t p = 0; p < mesh->size && status == MT_OK; p++) {
            const struct mt_fabric_address *theirs =
                &all[p * mt_mesh_piece(mesh)];
            size_t at = (size_t)p * rails + r;
            if (mesh->rc[at] != NULL) {
                status = mt_fabric_qp_connect(mesh->rc[at], &theirs[r]);
            }
            if (mesh->ud[r] != NULL && status == MT_OK) {
                status = mt_fabric_ah_create(mesh->rails->rails[r].pd,
                                             &theirs[rails + r], &mesh->ah[at]);
            }
            if (status != MT_OK) {
                mt_path_say(o->say, o->say_user,
                            "rank %u cannot be reached over %s: %s", p,
                            mesh->rails->rails[r].name, mt_status_text(status));
            }
        }
    }
    return status;
}

/* Until all other sides have answered, one will not, or MT_MESH_TURN_MS have passed:
 * MT_EAGAIN. Nobody sends before all have met again: what is polled meanwhile brings
 * the connections about, and no completion. Who has all of its own may stop polling,
 * for the others have theirs with it, or its answer is on the way. */
static enum mt_status mt_mesh_await(const struct mt_mesh *mesh,
                                    const struct mt_mesh_options *o)
{
    const struct timespec nap = {.tv_nsec = 20000};
    const uint64_t until = mt_path_now_ns() + MT_MESH_TURN_MS * UINT64_C(1000000);
    uint32_t rails = mesh->rails->count, at = 0;
    while (at < mesh->size * rails) {
        const struct mt_rail *rail = &mesh->rails->rails[at % rails];
        enum mt_status status = mesh->rc[at] != NULL
                                    ? mt_fabric_qp_established(mesh->rc[at])
                                    : MT_OK;
        if (status == MT_OK) {
            at++;
        } else if (status == MT_EAGAIN && mt_path_now_ns() < until) {
            struct mt_fabric_completion none;
            mt_fabric_poll(rail->send_cq, &none, 1);
            mt_fabric_poll(rail->receive_cq, &none, 1);
            nanosleep(&nap, NULL);
        } else {
            if (status != MT_EAGAIN) {
                mt_path_say(o->say, o->say_user,
                            "rank %u does not answer over %s: name a device by "
                            "which all ranks reach each other",
                            at / rails, rail->name);
            }
            return status;
        }
    }
    return MT_OK;
}

/* Where the wire-up knows only how to tell everybody everything. */
static enum mt_status mt_deal_all(const struct mt_fabric_wireup *w,
                                  const char *mine, size_t bytes, char *all)
{
    char *every = calloc((size_t)w->size * w->size, bytes);
    enum mt_status status = w->exchange(w->user, mine, w->size * bytes, every);
    for (size_t p = 0; p < w->size && every != NULL && status == MT_OK; p++) {
        memcpy(all + p * bytes, every + (p * w->size + w->rank) * bytes, bytes);
    }
    free(every);
    return every != NULL ? status : MT_ENOMEM;
}

/* With what this rank could make (status), so that all can judge. */
static enum mt_status mt_mesh_join(struct mt_mesh *mesh,
                                   const struct mt_fabric_wireup *wireup,
                                   const struct mt_mesh_options *o,
                                   enum mt_status status)
{
    size_t each = mt_mesh_piece(mesh);
    struct mt_fabric_address *mine = calloc(each * mesh->size, sizeof(*mine));
    struct mt_fabric_address *all = calloc(each * mesh->size, sizeof(*all));
    if (status == MT_OK && (mine == NULL || all == NULL)) {
        status = MT_ENOMEM;
    }
    if (status == MT_OK) {
        status = mt_mesh_addresses(mesh, mine);
    }
    status = mt_meet(mesh, wireup, o, status);
    if (status == MT_OK) {
        size_t bytes = each * sizeof(*mine);
        status = wireup->deal != NULL
                     ? wireup->deal(wireup->user, mine, bytes, all)
                     : mt_deal_all(wireup, (const char *)mine, bytes,
                                   (char *)all);
    }
    if (status == MT_OK) {
        status = mt_mesh_connect(mesh, o, all);
        /* a message to a rank that is not connected yet is no business of
         * anybody: all are, or none goes on */
        do {
            status = status == MT_OK || status == MT_EAGAIN
                         ? mt_mesh_await(mesh, o)
                         : status;
            status = mt_meet(mesh, wireup, o, status);
        } while (status == MT_EAGAIN);
    }
    free(mine);
    free(all);
    return status;
}

enum mt_status mt_mesh_create(const struct mt_rails *rails,
                              const struct mt_fabric_wireup *wireup,
                              const struct mt_mesh_options *options,
                              struct mt_mesh *mesh)
{
    *mesh = (struct mt_mesh){
        .rails = rails, .rank = wireup->rank, .size = wireup->size};
    enum mt_status status = mt_meet(mesh, wireup, options, MT_OK);
    if (status != MT_OK) {
        return status;
    }
    size_t places = (size_t)wireup->size * rails->count;
    mesh->rc = calloc(places, sizeof(*mesh->rc));
    mesh->ah = calloc(places, sizeof(*mesh->ah));
    mesh->ud = calloc(rails->count, sizeof(*mesh->ud));
    status = mesh->rc != NULL && mesh->ah != NULL && mesh->ud != NULL
                 ? mt_mesh_make(mesh, options)
                 : MT_ENOMEM;
    status = mt_mesh_join(mesh, wireup, options, status);
    if (status != MT_OK) {
        mt_mesh_destroy(mesh);
    }
    return status;
}

void mt_mesh_destroy(struct mt_mesh *mesh)
{
    size_t places = (size_t)mesh->size * mesh->rails->count;
    for (size_t i = 0; i < places; i++) {
        if (mesh->ah != NULL && mesh->ah[i] != NULL) {
            mt_fabric_ah_destroy(mesh->ah[i]);
        }
        if (mesh->rc != NULL && mesh->rc[i] != NULL) {
            mt_fabric_qp_destroy(mesh->rc[i]);
        }
    }
    for (uint32_t r = 0; mesh->ud != NULL && r < mesh->rails->count; r++) {
        if (mesh->ud[r] != NULL) {
            mt_fabric_qp_destroy(mesh->ud[r]);
        }
    }
    free(mesh->rc);
    free(mesh->ah);
    free(mesh->ud);
    mesh->rc = mesh->ud = NULL;
    mesh->ah = NULL;
}
