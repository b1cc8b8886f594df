/* put.c: see put.h. */
#include "put.h"

#include <string.h>

enum { MT_WORD = sizeof(uint64_t) };

enum mt_fabric_notify mt_put_choose(const struct mt_fabric_caps *caps)
{
    static const enum mt_fabric_notify best[] = {MT_FABRIC_NOTIFY_FLAG_WRITE,
                                                 MT_FABRIC_NOTIFY_IMM,
                                                 MT_FABRIC_NOTIFY_SEND};
    for (unsigned i = 0; i < sizeof(best) / sizeof(best[0]); i++) {
        if ((caps->notify & best[i]) != 0) {
            return best[i];
        }
    }
    return 0;
}

enum mt_status mt_put_open(struct mt_put *put,
                           const struct mt_put_options *options)
{
    bool flag = options->how == MT_FABRIC_NOTIFY_FLAG_WRITE;
    memset(put, 0, sizeof(*put));
    if (options->depth < 2 || (flag && options->flag_address % MT_WORD != 0) ||
        (!flag && options->window == 0)) {
        return MT_EINVAL;
    }
    put->o = *options;
    put->allowed = flag ? UINT64_MAX : options->window;
    /* more words than notices that can be on their way at once */
    return options->inline_bytes >= MT_WORD ||
                   options->how == MT_FABRIC_NOTIFY_IMM
               ? MT_OK
               : mt_fabric_mr_allocate(options->pd,
                                       ((size_t)options->depth + 1) * MT_WORD,
                                       MT_FABRIC_LOCAL_WRITE, &put->words);
}

void mt_put_close(struct mt_put *put)
{
    if (put->words != NULL) {
        mt_fabric_mr_destroy(put->words);
    }
    put->words = NULL;
}

enum mt_status mt_put_flush(struct mt_put *put)
{
    uint64_t word = put->sequence;
    struct mt_fabric_piece piece = {.address = &word, .bytes = MT_WORD};
    bool flag = put->o.how == MT_FABRIC_NOTIFY_FLAG_WRITE;
    if (!put->owes) {
        return MT_OK;
    }
    if (put->words != NULL) {
        uint64_t *words = put->words->address;
        piece.address = &words[put->sequence % (put->o.depth + 1)];
        piece.lkey = put->words->lkey;
        memcpy(piece.address, &word, MT_WORD);
    }
    struct mt_fabric_send notice = {
        .id = put->owed_id,
        .opcode = flag ? MT_FABRIC_WRITE : MT_FABRIC_SEND,
        .flags = put->owed_flags |
                 (put->words == NULL ? (uint32_t)MT_FABRIC_INLINE : 0),
        .piece_count = 1,
        .pieces = &piece,
        .remote_address = flag ? put->o.flag_address : 0,
        .rkey = flag ? put->o.flag_rkey : 0};
    enum mt_status status = mt_fabric_post_send(put->o.qp, &notice);
    put->owes = status == MT_EAGAIN;
    return status;
}

enum mt_status mt_put_post(struct mt_put *put, const struct mt_put_work *work)
{
    bool with_imm = put->o.how == MT_FABRIC_NOTIFY_IMM;
    enum mt_status status = mt_put_flush(put);
    if (status != MT_OK) {
        return status;
    }
    if (put->sequence >= put->allowed) {
        return MT_EAGAIN;
    }
    /* only what comes last is signaled, and solicited */
    const uint32_t of_notice = MT_FABRIC_SIGNALED | MT_FABRIC_SOLICITED;
    uint64_t id = mt_path_id(MT_PATH_PUT, work->value);
    struct mt_fabric_send data = {
        .id = with_imm ? id : mt_path_id(MT_PATH_PUT_DATA, work->value),
        .opcode = with_imm ? MT_FABRIC_WRITE_WITH_IMM : MT_FABRIC_WRITE,
        .flags = with_imm ? work->flags : work->flags & ~of_notice,
        .immediate = (uint32_t)(put->sequence + 1),
        .piece_count = work->piece_count,
        .pieces = work->pieces,
        .remote_address = work->remote_address,
        .rkey = work->rkey};
    status = mt_fabric_post_send(put->o.qp, &data);
    if (status != MT_OK) {
        return status;
    }
    put->sequence++;
    if (with_imm) {
        return MT_OK;
    }
    put->owes = true;
    put->owed_id = id;
    put->owed_flags = work->flags & of_notice;
    if (put->o.how == MT_FABRIC_NOTIFY_FLAG_WRITE) {
        put->owed_flags &= ~(uint32_t)MT_FABRIC_SOLICITED;
    }
    status = mt_put_flush(put);
    return status == MT_EAGAIN ? MT_OK : status;
}

/* ---- target ---- */

static enum mt_status mt_notice_post(struct mt_put_target *t, uint32_t slot)
{
    struct mt_fabric_piece piece = {.bytes = MT_WORD};
    struct mt_fabric_receive work = {.id = mt_path_id(MT_PATH_NOTICE, slot)};
    if (t->words != NULL) {
        piece.address = (uint64_t *)t->words->address + slot;
        piece.lkey = t->words->lkey;
        work.piece_count = 1;
        work.pieces = &piece;
    }
    return mt_fabric_post_receive(t->qp, &work);
}

enum mt_status mt_put_target_open(struct mt_put_target *t,
                                  const struct mt_put_options *options,
                                  const uint64_t *flag)
{
    enum mt_status status = MT_OK;
    memset(t, 0, sizeof(*t));
    t->how = options->how;
    t->flag = flag;
    t->qp = options->qp;
    if (t->how == MT_FABRIC_NOTIFY_FLAG_WRITE) {
        return flag != NULL && (uintptr_t)flag % MT_WORD == 0 ? MT_OK
                                                              : MT_EINVAL;
    }
    t->window = options->window;
    if (t->how == MT_FABRIC_NOTIFY_SEND) {
        status = mt_fabric_mr_allocate(options->pd, (size_t)t->window * MT_WORD,
                                       MT_FABRIC_LOCAL_WRITE, &t->words);
    }
    for (uint32_t i = 0; i < t->window && status == MT_OK; i++) {
        status = mt_notice_post(t, i);
    }
    return status;
}

void mt_put_target_close(struct mt_put_target *t)
{
    if (t->words != NULL) {
        mt_fabric_mr_destroy(t->words);
    }
    t->words = NULL;
}

enum mt_status mt_put_target_noticed(struct mt_put_target *t,
                                     const struct mt_fabric_completion *c)
{
    uint64_t slot = mt_path_value(c->id);
    uint64_t word =
        t->seen + 1; /* notices come in order, each brings one more */
    if (c->status != MT_OK) {
        return c->status;
    }
    if (slot >= t->window) {
        return MT_EPEER;
    }
    bool right = t->words != NULL
                     ? !c->has_immediate && c->bytes == MT_WORD &&
                           memcmp((uint64_t *)t->words->address + slot, &word,
                                  MT_WORD) == 0
                     : c->has_immediate && c->immediate == (uint32_t)word;
    if (!right) {
        return MT_EPEER;
    }
    t->seen = word;
    return mt_notice_post(t, (uint32_t)slot);
}
