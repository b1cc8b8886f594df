/* mail.h: small messages to ranks by datagrams, which may be lost. It has a UD
 * queue pair of its own and everybody's address, and nothing for a peer beyond
 * that. Messages are copied. */
#ifndef MPITRACE_FABRIC_PATHS_MAIL_H
#define MPITRACE_FABRIC_PATHS_MAIL_H

#include "paths.h"

enum { MT_MAIL_BYTES = 512, MT_MAIL_SENDS = 16 };

struct mt_mail_options {
    struct mt_fabric_pd *pd;
    struct mt_fabric_cq *send_cq, *receive_cq;
    uint32_t port;
    uint32_t receives; /* messages that may wait to be polled */
    uint32_t headroom; /* of the device: ud_headroom */
};

struct mt_mail {
    struct mt_mail_options o;
    const struct mt_fabric_wireup *wireup;
    struct mt_fabric_qp *qp;
    struct mt_fabric_mr *sends, *receives;
    uint32_t busy; /* slots of sends that are in use, a bit each */
    struct mt_fabric_ah **ah; /* by rank */
};

/* Exchanges addresses: all ranks call it. */
enum mt_status mt_mail_open(struct mt_mail *mail,
                            const struct mt_mail_options *options,
                            const struct mt_fabric_wireup *wireup);
void mt_mail_close(struct mt_mail *mail);

/* MT_EAGAIN: no room now; MT_EINVAL: longer than MT_MAIL_BYTES. */
enum mt_status mt_mail_send(struct mt_mail *mail, uint32_t rank,
                            const void *bytes, uint32_t count);
/* A completion of kind MT_PATH_LETTER. */
void mt_mail_sent(struct mt_mail *mail, const struct mt_fabric_completion *c);
/* A completion of kind MT_PATH_LETTER_IN: the message, valid until its receive is
 * posted again by mt_mail_release with the same completion. NULL: none. */
const void *mt_mail_received(const struct mt_mail *mail,
                             const struct mt_fabric_completion *c,
                             uint32_t *count_p);
enum mt_status mt_mail_release(struct mt_mail *mail,
                               const struct mt_fabric_completion *c);

#endif
