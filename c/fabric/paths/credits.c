/* credits.c: see credits.h. */
#include "credits.h"

#include <string.h>

struct mt_credits_header {
    uint32_t credits; /* that come back */
    uint32_t count;   /* bytes of the message, or MT_ONLY_CREDITS */
};

#define MT_ONLY_CREDITS UINT32_MAX

static char *mt_slot(const struct mt_credits *c, const struct mt_fabric_mr *mr,
                     uint32_t slot)
{
    return (char *)mr->address + (size_t)slot * c->slot_bytes;
}

static enum mt_status mt_mail_post(struct mt_credits *c, uint32_t slot)
{
    struct mt_fabric_piece piece = {.address = mt_slot(c, c->receives, slot),
                                    .bytes = c->slot_bytes,
                                    .lkey = c->receives->lkey};
    struct mt_fabric_receive work = {.id = mt_path_id(MT_PATH_MAIL, slot),
                                     .piece_count = 1,
                                     .pieces = &piece};
    return mt_fabric_post_receive(c->o.qp, &work);
}

enum mt_status mt_credits_open(struct mt_credits *c,
                               const struct mt_credits_options *options)
{
    const uint32_t most = UINT32_C(1) << 20;
    memset(c, 0, sizeof(*c));
    if (options->window < MT_CREDITS_WINDOW_LEAST || options->window > most ||
        options->peer_window < MT_CREDITS_WINDOW_LEAST ||
        options->peer_window > most || options->bytes > most) {
        return MT_EINVAL;
    }
    c->o = *options;
    c->available = options->peer_window;
    c->slot_bytes =
        (options->bytes + (uint32_t)sizeof(struct mt_credits_header) + 7) &
        ~(uint32_t)7;
    enum mt_status status = mt_fabric_mr_allocate(
        options->pd, (size_t)options->window * c->slot_bytes,
        MT_FABRIC_LOCAL_WRITE, &c->receives);
    if (status == MT_OK) {
        status = mt_fabric_mr_allocate(
            options->pd, (size_t)options->peer_window * c->slot_bytes,
            MT_FABRIC_LOCAL_WRITE, &c->sends);
    }
    for (uint32_t i = 0; i < options->window && status == MT_OK; i++) {
        status = mt_mail_post(c, i);
    }
    return status;
}

void mt_credits_close(struct mt_credits *c)
{
    if (c->receives != NULL) {
        mt_fabric_mr_destroy(c->receives);
    }
    if (c->sends != NULL) {
        mt_fabric_mr_destroy(c->sends);
    }
    c->receives = c->sends = NULL;
}

/* Sends what lies behind the header of the next slot, and the rest. count: of all
 * of the message, or MT_ONLY_CREDITS. */
static enum mt_status mt_message_post(struct mt_credits *c, uint32_t count,
                                      uint32_t flags,
                                      const struct mt_path_rest *rest)
{
    struct mt_credits_header header = {.credits = c->owed, .count = count};
    uint32_t payload = count == MT_ONLY_CREDITS ? 0 : count;
    char *at = mt_slot(c, c->sends, c->send_slot);
    memcpy(at, &header, sizeof(header));
    struct mt_fabric_piece pieces[2] = {
        {.address = at,
         .bytes = (uint32_t)sizeof(header) + payload,
         .lkey = c->sends->lkey}};
    if (rest != NULL) {
        pieces[0].bytes -= rest->piece.bytes;
        pieces[1] = rest->piece;
    }
    struct mt_fabric_send work = {
        .id = mt_path_id(MT_PATH_MESSAGE, rest != NULL ? rest->value : 0),
        .opcode = MT_FABRIC_SEND,
        .flags = MT_FABRIC_SIGNALED | flags,
        .piece_count = rest != NULL ? 2 : 1,
        .pieces = pieces};
    enum mt_status status = mt_fabric_post_send(c->o.qp, &work);
    if (status == MT_OK) {
        c->send_tail++;
        c->send_slot = c->send_slot + 1 < c->o.peer_window ? c->send_slot + 1 : 0;
        c->available--;
        c->owed = 0;
    }
    return status;
}

static bool mt_has_slot(const struct mt_credits *c)
{
    return c->send_tail - c->send_head < c->o.peer_window;
}

enum mt_status mt_credits_reserve(const struct mt_credits *c, void **place_p)
{
    if (c->available <= 1 || !mt_has_slot(c)) {
        return MT_EAGAIN;
    }
    *place_p = mt_slot(c, c->sends, c->send_slot) +
               sizeof(struct mt_credits_header);
    return MT_OK;
}

enum mt_status mt_credits_commit(struct mt_credits *c, uint32_t count,
                                 uint32_t flags,
                                 const struct mt_path_rest *rest)
{
    uint64_t all = count + (rest != NULL ? (uint64_t)rest->piece.bytes : 0);
    return all <= c->o.bytes ? mt_message_post(c, (uint32_t)all, flags, rest)
                             : MT_EINVAL;
}

enum mt_status mt_credits_send(struct mt_credits *c, const void *bytes,
                               uint32_t count)
{
    void *place;
    if (count > c->o.bytes) {
        return MT_EINVAL;
    }
    enum mt_status status = mt_credits_reserve(c, &place);
    if (status != MT_OK) {
        return status;
    }
    if (count > 0) {
        memcpy(place, bytes, count);
    }
    return mt_message_post(c, count, 0, NULL);
}

enum mt_status mt_credits_sent(struct mt_credits *c,
                               const struct mt_fabric_completion *completion)
{
    c->send_head++; /* sends complete in order */
    return completion->status;
}

enum mt_status
mt_credits_received(struct mt_credits *c,
                    const struct mt_fabric_completion *completion,
                    struct mt_credits_message *message)
{
    struct mt_credits_header header;
    uint32_t slot = (uint32_t)mt_path_value(completion->id);
    if (completion->status != MT_OK) {
        return completion->status;
    }
    if (slot >= c->o.window || completion->bytes < sizeof(header)) {
        return MT_EPEER;
    }
    const char *at = mt_slot(c, c->receives, slot);
    memcpy(&header, at, sizeof(header));
    uint32_t payload = header.count == MT_ONLY_CREDITS ? 0 : header.count;
    if (completion->bytes - sizeof(header) != payload ||
        header.credits > c->o.peer_window - c->available) {
        return MT_EPEER;
    }
    c->available += header.credits;
    *message = (struct mt_credits_message){
        .bytes = at + sizeof(header), .count = payload, .slot = slot};
    if (header.count != MT_ONLY_CREDITS) {
        return MT_OK;
    }
    enum mt_status status = mt_credits_release(c, message);
    return status == MT_OK ? MT_EAGAIN : status;
}

enum mt_status mt_credits_release(struct mt_credits *c,
                                  const struct mt_credits_message *message)
{
    enum mt_status status = mt_mail_post(c, message->slot);
    if (status != MT_OK) {
        return status;
    }
    c->owed++;
    status = mt_credits_flush(c);
    return status == MT_EAGAIN ? MT_OK : status;
}

enum mt_status mt_credits_flush(struct mt_credits *c)
{
    /* solicited: who has none may sleep until some come */
    if (!mt_credits_owing(c)) {
        return MT_OK;
    }
    return c->available > 0 && mt_has_slot(c)
               ? mt_message_post(c, MT_ONLY_CREDITS, MT_FABRIC_SOLICITED, NULL)
               : MT_EAGAIN;
}
