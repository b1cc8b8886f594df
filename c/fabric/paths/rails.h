/* rails.h: the ports that messages go over, chosen by name. Each has what a
 * queue pair needs: an opened device (shared by its ports), a protection domain
 * and two completion queues. */
#ifndef MPITRACE_FABRIC_PATHS_RAILS_H
#define MPITRACE_FABRIC_PATHS_RAILS_H

#include "paths.h"

enum { MT_RAILS = 16 };

struct mt_rail {
    char name[MT_FABRIC_NAME_BYTES]; /* of the port */
    struct mt_fabric_context *context;
    const struct mt_fabric_caps *caps;
    struct mt_fabric_pd *pd; /* of the context */
    struct mt_fabric_cq *send_cq, *receive_cq;
    uint32_t port; /* from 1 */
};

struct mt_rails {
    uint32_t count;
    uint32_t context_count;
    struct mt_rail rails[MT_RAILS];
    struct mt_fabric_context *contexts[MT_RAILS];
    struct mt_fabric_pd *pds[MT_RAILS];
};

struct mt_rails_options {
    /* Names of ports or devices with * ? [ ] as in file names, divided by
     * commas: "mlx5_*,iwarp:eth0". A port that is down is left out. */
    const char *patterns;
    uint32_t per_port; /* rails of each port, 0: 1 */
    uint32_t cq_depth;
    struct mt_fabric_options fabric;
};

/* In the order of the patterns; a port that two of them name counts once.
 * MT_ENODEVICE: a pattern names nothing; say() gets the names that exist.
 * MT_EINVAL: more than MT_RAILS. */
enum mt_status mt_rails_open(const struct mt_rails_options *options,
                             struct mt_rails *rails);
/* When all queue pairs and memory of theirs are destroyed. */
enum mt_status mt_rails_close(struct mt_rails *rails);

#endif
