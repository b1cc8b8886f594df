/* ud.c: datagrams. See inbox.h for how they travel. */
#define _GNU_SOURCE 1
#include "shm.h"

#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t mt_inbox_bytes(uint32_t count)
{
    return sizeof(struct mt_inbox) + count * sizeof(struct mt_inbox_cell);
}

/* ---- sending ---- */

/* Claims the first free cell; NULL: the inbox is full, or gone. */
static struct mt_inbox_cell *mt_claim(struct mt_inbox *inbox, uint32_t count,
                                      int32_t pid, uint64_t *turn_p)
{
    uint64_t at = __atomic_load_n(&inbox->hint, __ATOMIC_RELAXED);
    for (uint32_t n = 0; n <= count; n++, at++) {
        struct mt_inbox_cell *cell = &inbox->cells[at & (count - 1)];
        uint64_t turn = (uint32_t)(at / count);
        uint64_t free_word = mt_inbox_word(turn, MT_INBOX_FREE, 0);
        uint64_t word = __atomic_load_n(&cell->word, __ATOMIC_RELAXED);
        if (word >> 32 != turn) {
            int32_t ahead = (int32_t)((uint32_t)(word >> 32) - (uint32_t)turn);
            if (ahead < 0) {
                return NULL; /* of the turn before: nobody has read it */
            }
            continue;
        }
        /* pairs with the release of mt_cell_free */
        if (word == free_word &&
            __atomic_compare_exchange_n(
                &cell->word, &free_word,
                mt_inbox_word(turn, MT_INBOX_CLAIMED, pid), false,
                __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            /* while the cell is claimed nobody takes the inbox away */
            __atomic_store_n(&inbox->hint, at + 1, __ATOMIC_RELAXED);
            *turn_p = turn;
            return cell;
        }
    }
    return NULL;
}

/* Complete once the transport has taken it: what finds no room, or nobody
 * there, is lost. */
enum mt_status mt_shm_datagram(struct mt_shm_qp *qp, struct mt_soft_work *w)
{
    struct mt_shm_context *context = mt_shm_context_of(qp);
    const struct mt_shm_ah *ah = (const struct mt_shm_ah *)w->ah;
    const struct mt_shm_identity *self = &context->arena.root->identity;
    uint64_t turn = 0;
    struct mt_inbox *inbox =
        mt_shm_at(ah->peer, ah->offset, sizeof(struct mt_inbox));
    uint32_t count = inbox != NULL ? inbox->count : 0;
    bool sound = count >= MT_INBOX_CELLS_LEAST &&
                 count <= MT_INBOX_CELLS_MOST && (count & (count - 1)) == 0 &&
                 mt_shm_at(ah->peer, ah->offset, mt_inbox_bytes(count)) != NULL;
    struct mt_inbox_cell *cell =
        sound ? mt_claim(inbox, count, self->pid, &turn) : NULL;
    if (cell == NULL) {
        return MT_OK;
    }
    bool solicited = (w->flags & MT_FABRIC_SOLICITED) != 0;
    cell->life = ah->life;
    cell->bytes = (uint32_t)w->bytes;
    cell->solicited = solicited;
    cell->source.words[0] =
        (uint64_t)(uint32_t)self->pid | (uint64_t)(uint32_t)self->fd << 32;
    cell->source.words[1] = self->pid_start;
    cell->source.words[2] = mt_shm_offset(&context->arena, qp->inbox);
    cell->source.words[3] =
        (uint32_t)qp->life | (uint64_t)self->arena_id << 32;
    mt_soft_gather(w->pieces, w->piece_count, 0, cell->payload, w->bytes);
    /* pairs with mt_shm_take_datagrams */
    __atomic_store_n(&cell->word, mt_inbox_word(turn, MT_INBOX_READY, 0),
                     __ATOMIC_RELEASE);
    mt_shm_wake(context, ah->peer, solicited);
    return MT_OK;
}

/* ---- receiving ---- */

enum mt_status mt_shm_inbox_open(struct mt_shm_context *context,
                                 struct mt_shm_qp *qp, uint32_t depth)
{
    /* more than there can be receives for is lost anyway */
    uint32_t count = mt_soft_slots(depth);
    count = count < MT_INBOX_CELLS_LEAST  ? MT_INBOX_CELLS_LEAST
            : count > MT_INBOX_CELLS_MOST ? MT_INBOX_CELLS_MOST
                                          : count;
    qp->inbox = mt_shm_arena_take(&context->arena, mt_inbox_bytes(count));
    if (qp->inbox == NULL) {
        return MT_ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        qp->inbox->cells[i].word = mt_inbox_word(0, MT_INBOX_FREE, 0);
    }
    qp->inbox->count = qp->inbox_count = count;
    return MT_OK;
}

static struct mt_inbox_cell *mt_head(const struct mt_shm_qp *qp)
{
    return &qp->inbox->cells[qp->inbox_head & (qp->inbox_count - 1)];
}

/* Gives the cell at the head to the next turn. */
static void mt_cell_free(struct mt_shm_qp *qp)
{
    uint64_t turn = (uint32_t)(qp->inbox_head / qp->inbox_count + 1);
    __atomic_store_n(&mt_head(qp)->word, mt_inbox_word(turn, MT_INBOX_FREE, 0),
                     __ATOMIC_RELEASE);
    qp->inbox_head++;
}

static void mt_take_datagram(struct mt_shm_qp *qp,
                             const struct mt_inbox_cell *cell)
{
    struct mt_soft_receives *receives = qp->soft.receives;
    const struct mt_soft_receive *to = mt_soft_receive_first(receives);
    /* once: the peer may change it any time */
    uint32_t bytes = __atomic_load_n(&cell->bytes, __ATOMIC_RELAXED);
    if (bytes > MT_INBOX_PAYLOAD) {
        mt_fabric_throw_away(&mt_shm_context_of(qp)->soft.base);
        return;
    }
    /* without a receive, or with one too short, a datagram is lost; so is one
     * for an inbox that had this memory before */
    if (to == NULL || bytes > to->bytes ||
        cell->life != (uint32_t)qp->life) {
        return;
    }
    struct mt_fabric_completion c = {
        .opcode = MT_FABRIC_RECEIVE, .bytes = bytes, .source = cell->source};
    uint64_t id = to->id;
    mt_soft_scatter(to->pieces, to->piece_count, 0, cell->payload, bytes);
    mt_soft_receive_drop(receives);
    mt_soft_received(&qp->soft, id, &c, cell->solicited != 0);
}

bool mt_shm_take_datagrams(struct mt_shm_qp *qp)
{
    enum { AT_ONCE = 16 };
    unsigned n = 0;
    for (; n < AT_ONCE; n++) {
        const struct mt_inbox_cell *cell = mt_head(qp);
        uint64_t word = __atomic_load_n(&cell->word, __ATOMIC_ACQUIRE);
        if (mt_inbox_kind(word) != MT_INBOX_READY) {
            break;
        }
        mt_take_datagram(qp, cell);
        mt_cell_free(qp);
    }
    return n > 0;
}

/* ---- senders that died, and the end ---- */

bool mt_shm_pid_died(int32_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0) { /* there is no descriptor left, or no such call */
        return mt_shm_pid_ended(pid);
    }
    struct pollfd p = {.fd = fd, .events = POLLIN};
    bool died = poll(&p, 1, 0) == 1;
    close(fd);
    return died;
}

void mt_shm_inbox_look(struct mt_shm_qp *qp)
{
    struct mt_inbox_cell *cell = mt_head(qp);
    uint64_t word = __atomic_load_n(&cell->word, __ATOMIC_ACQUIRE);
    bool stuck = mt_inbox_kind(word) == MT_INBOX_CLAIMED;
    if (stuck && word == qp->inbox_stuck && mt_shm_pid_died(mt_inbox_pid(word)) &&
        /* it may have finished before it died */
        __atomic_load_n(&cell->word, __ATOMIC_ACQUIRE) == word) {
        mt_cell_free(qp);
        stuck = false;
    }
    qp->inbox_stuck = stuck ? word : 0;
}

bool mt_shm_inbox_sealed(struct mt_inbox *inbox, uint32_t count)
{
    bool sealed = true;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t *place = &inbox->cells[i].word;
        uint64_t word = __atomic_load_n(place, __ATOMIC_ACQUIRE);
        uint64_t closed = mt_inbox_word(word >> 32, MT_INBOX_CLOSED, 0);
        bool busy = mt_inbox_kind(word) == MT_INBOX_CLAIMED;
        if (busy ? !mt_shm_pid_died(mt_inbox_pid(word))
                 : !__atomic_compare_exchange_n(place, &word, closed, false,
                                                __ATOMIC_ACQ_REL,
                                                __ATOMIC_RELAXED)) {
            sealed = false;
        }
    }
    return sealed;
}
