/* buffered.c: MPI_Bsend and its kin. The message is copied into memory of ours
 * and goes on its own; the application's buffer is attached to the library as
 * ever, for messages that are the library's, and bounds how much we copy. */
#include <stdlib.h>

#include "act.h"

struct mt_act_bsend {
    struct mt_act_operation operation;
    struct mt_act_bsend *next;
    uint64_t bytes; /* of the attached buffer that it would take */
    char payload[];
};

enum { MT_ACT_SWEEP = 32 };

static struct mt_act_bsend *mt_bsends; /* under mt_act.lock, all five */
static uint64_t mt_attached, mt_used;
/* How many there are, and how many are worth a look at all of them: twice what
 * the last one left, so that looking costs each only so much. */
static uint32_t mt_bsend_count, mt_bsend_many = MT_ACT_SWEEP;

bool mt_act_buffered_sweep(void)
{
    struct mt_act_bsend *done = NULL;
    mt_act_lock();
    struct mt_act_bsend **link = &mt_bsends;
    while (*link != NULL) {
        struct mt_act_bsend *bsend = *link;
        if (mt_engine_done(&bsend->operation.engine)) {
            *link = bsend->next;
            bsend->next = done;
            done = bsend;
            mt_used -= bsend->bytes;
            mt_bsend_count--;
        } else {
            link = &bsend->next;
        }
    }
    bool none = mt_bsends == NULL;
    mt_bsend_many = 2 * mt_bsend_count + MT_ACT_SWEEP;
    mt_act_unlock();
    while (done != NULL) {
        struct mt_act_bsend *bsend = done;
        done = bsend->next;
        mt_act_finish(&bsend->operation);
        free(bsend);
    }
    return none;
}

/* Takes room in the attached buffer. */
static bool reserve(uint64_t bytes)
{
    mt_act_lock();
    bool room = mt_used + bytes <= mt_attached;
    mt_used += room ? bytes : 0;
    mt_act_unlock();
    return room;
}

static void unreserve(uint64_t bytes)
{
    mt_act_lock();
    mt_used -= bytes;
    mt_act_unlock();
}

static bool reserve_now(uint64_t bytes)
{
    if (reserve(bytes)) {
        return true;
    }
    mt_act_buffered_sweep();
    if (reserve(bytes)) {
        return true;
    }
    mt_engine_progress(mt_act.engine);
    mt_act_buffered_sweep();
    return reserve(bytes);
}

static void let_go(struct mt_act_bsend *bsend)
{
    mt_act_lock();
    bsend->next = mt_bsends;
    mt_bsends = bsend;
    bool many = ++mt_bsend_count >= mt_bsend_many;
    mt_act_unlock();
    if (many) {
        mt_act_buffered_sweep();
    }
}

static int buffered(struct mt_act_comm *comm, const struct mt_act_message *m,
                    const struct mt_act_type *type)
{
    uint64_t payload = (uint64_t)m->count * type->layout.size;
    uint64_t bytes = payload + MT_BSEND_OVERHEAD;
    if (!reserve_now(bytes)) {
        return MT_ERR_BUFFER;
    }
    struct mt_act_bsend *bsend = malloc(sizeof(*bsend) + payload);
    int error = bsend != NULL ? MT_SUCCESS : MT_ERR_NO_MEM;
    if (error == MT_SUCCESS) {
        bsend->bytes = bytes;
        error = mt_act_type_pack(type, m->buffer, m->count, bsend->payload)
                    ? mt_act_send_bytes(&bsend->operation, comm, m,
                                        bsend->payload, payload)
                    : MT_ERR_OTHER;
    }
    if (error == MT_SUCCESS) {
        let_go(bsend);
    } else {
        free(bsend);
        unreserve(bytes);
    }
    return error;
}

int mt_act_buffered(struct mt_act_comm *comm, const struct mt_act_message *m,
                    struct mt_act_type *type)
{
    int error = buffered(comm, m, type);
    mt_act_type_put(type);
    return error;
}

static void attached(int64_t bytes)
{
    mt_act_lock();
    mt_attached = (uint64_t)bytes;
    mt_act_unlock();
}

/* The newest is likely to be the last to go: while it has not, it is not worth
 * looking at the others. */
static bool newest_done(void)
{
    mt_act_lock();
    bool done =
        mt_bsends == NULL || mt_engine_done(&mt_bsends->operation.engine);
    mt_act_unlock();
    return done;
}

/* A buffer may be detached when its messages have left it. */
static void drain(void)
{
    struct mt_act_wait wait = {0};
    while (!mt_act_buffered_sweep()) {
        do {
            mt_act_turn(&wait);
        } while (!newest_done());
    }
    mt_act_waited(&wait);
}

static int Buffer_attach(void *buffer, int size)
{
    int rc = MT_PMPI(Buffer_attach)(buffer, size);
    if (rc == MT_SUCCESS) {
        attached(size);
    }
    return rc;
}

static int Buffer_attach_c(void *buffer, MT_Count size)
{
    int rc = MT_PMPI_c(Buffer_attach)(buffer, size);
    if (rc == MT_SUCCESS) {
        attached(size);
    }
    return rc;
}

static int Buffer_detach(void *buffer, int *size)
{
    drain();
    int rc = MT_PMPI(Buffer_detach)(buffer, size);
    if (rc == MT_SUCCESS) {
        attached(0);
    }
    return rc;
}

static int Buffer_detach_c(void *buffer, MT_Count *size)
{
    drain();
    int rc = MT_PMPI_c(Buffer_detach)(buffer, size);
    if (rc == MT_SUCCESS) {
        attached(0);
    }
    return rc;
}

void mt_act_buffered_functions(struct mt_act_functions *functions)
{
    MT_ACT_TAKE_BOTH(functions, Buffer_attach);
    MT_ACT_TAKE_BOTH(functions, Buffer_detach);
}
