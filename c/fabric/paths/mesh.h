/* mesh.h: queue pairs to all ranks: RC, one for each peer and rail, and a UD
 * queue pair for each rail with a table of everybody's addresses. Addresses
 * travel by struct mt_fabric_wireup, twice: first what each rank is (so that
 * another version of the protocol is refused by all before anything is made),
 * then the addresses.
 *
 * Every rank gets the same verdict: a rank that cannot make its part, or does not
 * reach another one, tells the others in the exchange that it takes part in anyway.
 *
 * Addresses of a full RC mesh are size * size * rails: for thousands of ranks
 * take UD, and RC for few. */
#ifndef MPITRACE_FABRIC_PATHS_MESH_H
#define MPITRACE_FABRIC_PATHS_MESH_H

#include "rails.h"

/* Of what ranks tell each other, the formats of the helpers of this folder
 * included. */
enum { MT_MESH_VERSION = 2 };

struct mt_mesh_options {
    /* Transport, queues and port are set for each rail. send_depth 0: no RC. */
    struct mt_fabric_qp_options rc;
    /* send_depth 0: no UD */
    struct mt_fabric_qp_options ud;
    /* Called for each RC queue pair in INIT, before its address is given away:
     * to post receives. NULL: nothing. */
    enum mt_status (*prepare)(void *user, uint32_t peer, uint32_t rail,
                              struct mt_fabric_qp *qp);
    void *user;
    /* What went wrong. */
    void (*say)(void *user, const char *text);
    void *say_user;
};

struct mt_mesh {
    const struct mt_rails *rails;
    uint32_t rank, size;
    struct mt_fabric_qp **rc; /* [peer * rails + rail]; NULL: this rank */
    struct mt_fabric_qp **ud; /* [rail] */
    struct mt_fabric_ah **ah; /* [peer * rails + rail] */
};

/* MT_EVERSION: ranks of another version, named; MT_EINVAL: ranks with another
 * number of rails or transports. */
enum mt_status mt_mesh_create(const struct mt_rails *rails,
                              const struct mt_fabric_wireup *wireup,
                              const struct mt_mesh_options *options,
                              struct mt_mesh *mesh);
void mt_mesh_destroy(struct mt_mesh *mesh);

MT_INLINE struct mt_fabric_qp *mt_mesh_qp(const struct mt_mesh *mesh,
                                          uint32_t peer, uint32_t rail)
{
    return mesh->rc[(size_t)peer * mesh->rails->count + rail];
}

MT_INLINE struct mt_fabric_ah *mt_mesh_ah(const struct mt_mesh *mesh,
                                          uint32_t peer, uint32_t rail)
{
    return mesh->ah[(size_t)peer * mesh->rails->count + rail];
}

#endif
