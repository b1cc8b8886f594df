/* mail.c: see mail.h. */
#include "mail.h"

#include <stdlib.h>
#include <string.h>

static uint32_t mt_room(const struct mt_mail *m)
{
    return m->o.headroom + MT_MAIL_BYTES;
}

static enum mt_status mt_mail_listen(struct mt_mail *m, uint32_t slot)
{
    struct mt_fabric_piece piece = {
        .address = (char *)m->receives->address + (size_t)slot * mt_room(m),
        .bytes = mt_room(m),
        .lkey = m->receives->lkey};
    struct mt_fabric_receive work = {.id = mt_path_id(MT_PATH_LETTER_IN, slot),
                                     .piece_count = 1,
                                     .pieces = &piece};
    return mt_fabric_post_receive(m->qp, &work);
}

static enum mt_status mt_mail_make(struct mt_mail *m)
{
    const struct mt_fabric_qp_options q = {.transport = MT_FABRIC_UD,
                                           .send_cq = m->o.send_cq,
                                           .receive_cq = m->o.receive_cq,
                                           .send_depth = MT_MAIL_SENDS,
                                           .receive_depth = m->o.receives,
                                           .pieces = 1,
                                           .port = m->o.port};
    enum mt_status status = mt_fabric_qp_create(m->o.pd, &q, &m->qp);
    if (status == MT_OK) {
        status = mt_fabric_mr_allocate(m->o.pd, MT_MAIL_SENDS * MT_MAIL_BYTES,
                                       0, &m->sends);
    }
    if (status == MT_OK) {
        status =
            mt_fabric_mr_allocate(m->o.pd, (size_t)m->o.receives * mt_room(m),
                                  MT_FABRIC_LOCAL_WRITE, &m->receives);
    }
    for (uint32_t i = 0; i < m->o.receives && status == MT_OK; i++) {
        status = mt_mail_listen(m, i);
    }
    return status == MT_OK ? mt_fabric_qp_connect(m->qp, NULL) : status;
}

/* A rank that could not make its part takes part all the same: its address is
 * empty, and everybody knows. */
static enum mt_status mt_mail_join(struct mt_mail *m, enum mt_status status)
{
    const struct mt_fabric_wireup *w = m->wireup;
    struct mt_fabric_address mine = {.bytes = 0};
    struct mt_fabric_address *all = calloc(w->size, sizeof(*all));
    m->ah = calloc(w->size, sizeof(struct mt_fabric_ah *));
    if (m->ah == NULL) {
        status = MT_ENOMEM;
    }
    if (status == MT_OK) {
        status = mt_fabric_qp_address(m->qp, &mine);
    }
    enum mt_status exchanged = w->exchange(w->user, &mine, sizeof(mine), all);
    status = status == MT_OK ? exchanged : status;
    for (uint32_t i = 0; i < w->size && status == MT_OK; i++) {
        status = all[i].bytes == 0 ? MT_EPEER
                 : i != w->rank
                     ? mt_fabric_ah_create(m->o.pd, &all[i], &m->ah[i])
                     : MT_OK;
    }
    free(all);
    return status;
}

enum mt_status mt_mail_open(struct mt_mail *m,
                            const struct mt_mail_options *options,
                            const struct mt_fabric_wireup *wireup)
{
    *m = (struct mt_mail){.o = *options, .wireup = wireup};
    enum mt_status status = mt_mail_join(m, mt_mail_make(m));
    if (status != MT_OK) {
        mt_mail_close(m);
    }
    return status;
}

void mt_mail_close(struct mt_mail *m)
{
    for (uint32_t i = 0; m->ah != NULL && i < m->wireup->size; i++) {
        if (m->ah[i] != NULL) {
            mt_fabric_ah_destroy(m->ah[i]);
        }
    }
    if (m->qp != NULL) {
        mt_fabric_qp_destroy(m->qp);
    }
    if (m->receives != NULL) {
        mt_fabric_mr_destroy(m->receives);
    }
    if (m->sends != NULL) {
        mt_fabric_mr_destroy(m->sends);
    }
    free(m->ah);
    *m = (struct mt_mail){.o = m->o};
}

enum mt_status mt_mail_send(struct mt_mail *m, uint32_t rank, const void *bytes,
                            uint32_t count)
{
    if (count > MT_MAIL_BYTES || rank >= m->wireup->size ||
        m->ah[rank] == NULL) {
        return MT_EINVAL;
    }
    uint32_t slot = (uint32_t)__builtin_ctz(~m->busy);
    if (slot >= MT_MAIL_SENDS) {
        return MT_EAGAIN;
    }
    char *at = (char *)m->sends->address + (size_t)slot * MT_MAIL_BYTES;
    memcpy(at, bytes, count);
    struct mt_fabric_piece piece = {
        .address = at, .bytes = count, .lkey = m->sends->lkey};
    struct mt_fabric_send work = {.id = mt_path_id(MT_PATH_LETTER, slot),
                                  .opcode = MT_FABRIC_SEND,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &piece,
                                  .ah = m->ah[rank]};
    enum mt_status status = mt_fabric_post_send(m->qp, &work);
    m->busy |= status == MT_OK ? UINT32_C(1) << slot : 0;
    return status;
}

void mt_mail_sent(struct mt_mail *m, const struct mt_fabric_completion *c)
{
    m->busy &= ~(UINT32_C(1) << mt_path_value(c->id));
}

const void *mt_mail_received(const struct mt_mail *m,
                             const struct mt_fabric_completion *c,
                             uint32_t *count_p)
{
    if (c->status != MT_OK || c->bytes < m->o.headroom) {
        return NULL;
    }
    *count_p = c->bytes - m->o.headroom;
    return (const char *)m->receives->address +
           mt_path_value(c->id) * mt_room(m) + m->o.headroom;
}

enum mt_status mt_mail_release(struct mt_mail *m,
                               const struct mt_fabric_completion *c)
{
    return mt_mail_listen(m, (uint32_t)mt_path_value(c->id));
}
