/* ring.c: see ring.h. */
#include "ring.h"

#include <string.h>

/* With the lap, in place of a length: the rest of the ring is empty; and with a length:
 * it is behind this message. */
#define MT_FLAG_SKIP (UINT64_C(4) << 32)
#define MT_FLAG_LAST (UINT64_C(8) << 32)

enum { MT_RING_PAGE = 4096 };

/* So that no message waits for a page. The other side may write there meanwhile. */
static void mt_ring_touch(char *place, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += MT_RING_PAGE) {
        __atomic_fetch_add((uint64_t *)(place + i), 0, __ATOMIC_RELAXED);
    }
}

/* Where this process itself stores words to; NULL: it cannot, or they would not be
 * aligned there. */
static void *mt_ring_pointer(const struct mt_fabric_qp *qp, uint64_t address,
                             uint32_t rkey, uint64_t bytes)
{
    void *pointer = mt_fabric_remote_pointer(qp, address, rkey, bytes);
    return (uintptr_t)pointer % sizeof(uint64_t) == 0 ? pointer : NULL;
}

/* ---- writing ---- */

enum { MT_RING_AHEAD = 4 * MT_PATH_RING_LINE };

/* The line of a message to come, which the reader had in the last lap, to this processor:
 * it takes as long as a message, and otherwise all that the program stores behind that
 * message would wait for it. */
static void mt_writer_fetches(const struct mt_path_ring_writer *w)
{
    uint64_t at = w->at + MT_RING_AHEAD;
    mt_prefetch_to_write(w->place + (at < w->span ? at : at - w->span));
}

enum mt_status mt_path_ring_writer_open(struct mt_path_ring_writer *w,
                                        struct mt_fabric_pd *pd,
                                        struct mt_fabric_qp *qp,
                                        uint64_t remote_address, uint32_t rkey,
                                        uint64_t bytes, bool rests)
{
    if (!mt_path_ring_right(bytes)) {
        return MT_EINVAL;
    }
    char *ring = rests ? NULL : mt_ring_pointer(qp, remote_address, rkey, bytes);
    *w = (struct mt_path_ring_writer){.qp = qp,
                                      .bytes = bytes,
                                      .remote_address = remote_address,
                                      .rkey = rkey,
                                      .lap = MT_PATH_RING_FIRST_LAP,
                                      .span = MT_PATH_RING_LAP_LEAST,
                                      .place = ring};
    enum mt_status status = mt_fabric_mr_allocate(
        pd, MT_PATH_RING_LINE + (ring == NULL ? bytes : 0),
        MT_FABRIC_LOCAL_WRITE | MT_FABRIC_REMOTE_WRITE, &w->memory);
    if (status != MT_OK) {
        w->memory = NULL;
        return status;
    }
    w->shared = ring != NULL;
    if (ring == NULL) {
        w->place = (char *)w->memory->address + MT_PATH_RING_LINE;
    }
    mt_ring_touch(w->place, bytes);
    return MT_OK;
}

void mt_path_ring_writer_close(struct mt_path_ring_writer *w)
{
    if (w->memory != NULL) {
        mt_fabric_mr_destroy(w->memory);
    }
    w->memory = NULL;
}

/* What lies in the copy, and the rest behind it, to where it belongs in the ring. */
static enum mt_status mt_ring_post(struct mt_path_ring_writer *w, uint64_t from,
                                   uint64_t bytes,
                                   const struct mt_fabric_piece *rest,
                                   uint64_t id, uint32_t flags)
{
    struct mt_fabric_piece pieces[2] = {{.address = w->place + from,
                                         .bytes = (uint32_t)bytes,
                                         .lkey = w->memory->lkey}};
    bool both = rest != NULL && rest->bytes > 0;
    if (mt_unlikely(both)) {
        pieces[1] = *rest;
    }
    struct mt_fabric_send work = {.id = id,
                                  .opcode = MT_FABRIC_WRITE,
                                  .flags = flags,
                                  .piece_count = both ? 2 : 1,
                                  .pieces = pieces,
                                  .remote_address = w->remote_address + from,
                                  .rkey = w->rkey};
    return mt_fabric_post_send(w->qp, &work);
}

/* In the ring itself it pairs with mt_path_ring_peek. */
static void mt_write_flag(struct mt_path_ring_writer *w, uint64_t flag)
{
    __atomic_store_n((uint64_t *)(w->place + w->at), w->lap | flag,
                     __ATOMIC_RELEASE);
}

static enum mt_status mt_post_flag(struct mt_path_ring_writer *w)
{
    uint64_t value = w->rest.piece.bytes > 0 ? w->rest.value : 0;
    /* whoever waits for its rest wants to know when that has left */
    bool completes = w->silent + 1 == MT_PATH_RING_COMPLETES || value != 0;
    enum mt_status status = mt_ring_post(
        w, w->first, MT_PATH_RING_FLAG, NULL, mt_path_id(MT_PATH_RING, value),
        completes ? MT_FABRIC_SIGNALED : 0);
    if (status == MT_OK) {
        w->silent = completes ? 0 : w->silent + 1;
        w->posted += completes;
    }
    return status;
}

/* A lap is over. */
static void mt_writer_laps(struct mt_path_ring_writer *w)
{
    w->calm += w->span;
    if (w->calm >= MT_PATH_RING_CALM) {
        w->span = w->span > 2 * MT_PATH_RING_LAP_LEAST ? w->span / 2
                                                       : MT_PATH_RING_LAP_LEAST;
        w->calm = w->span;
    }
}

static void mt_writer_move(struct mt_path_ring_writer *w, uint64_t bytes)
{
    w->tail += bytes;
    w->at += bytes;
    if (mt_unlikely(w->at == w->bytes)) {
        w->at = 0;
        w->lap ^= MT_PATH_RING_LAPS;
        mt_writer_laps(w);
    }
}

enum mt_status mt_path_ring_flush(struct mt_path_ring_writer *w)
{
    enum mt_status status = MT_OK;
    if (mt_likely(w->held == 0)) {
        return MT_OK;
    }
    if (mt_likely(!w->moved)) {
        uint64_t from = w->first + MT_PATH_RING_FLAG;
        status = mt_ring_post(w, from, w->end - from, &w->rest.piece,
                              mt_path_id(MT_PATH_RING_DATA, 0), MT_FABRIC_MORE);
        w->moved = status == MT_OK;
    }
    if (mt_likely(status == MT_OK)) {
        status = mt_post_flag(w);
    }
    if (mt_likely(status == MT_OK)) {
        w->held = 0;
        w->moved = false;
    }
    w->owes = status != MT_OK;
    return status;
}

/* How much was read, as far as it was told. False: nonsense. */
static bool mt_writer_looks(struct mt_path_ring_writer *w)
{
    /* pairs with the store, or WRITE, of the reader */
    const uint64_t *word = w->memory->address;
    uint64_t head = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    bool sound = head - w->head <= w->tail - w->head;
    if (sound) {
        w->head = head;
    }
    return sound;
}

static bool mt_is_free(const struct mt_path_ring_writer *w, uint64_t need)
{
    return w->tail + need - w->head <= w->bytes;
}

/* Whether so many lines are free, all of the rest of the ring among them if they
 * do not fit there. */
static bool mt_has_room(struct mt_path_ring_writer *w, uint64_t need)
{
    return mt_likely(mt_is_free(w, need)) ||
           (mt_writer_looks(w) && mt_is_free(w, need));
}

/* ---- early ends of laps ---- */

static void mt_widen(struct mt_path_ring_writer *w, uint64_t least)
{
    w->calm = 0;
    do {
        w->span = w->span < w->bytes / 2 ? w->span * 2 : w->bytes;
    } while (w->span < least && w->span < w->bytes);
}

/* Whether a message of so many lines is to be the last of its lap, since no other one
 * would be within the span: if a third of that holds it, and all that was not read. So the
 * reader is close behind, and the next lap has room for another one. */
static bool mt_ends_early(struct mt_path_ring_writer *w, uint64_t lines)
{
    bool early =
        mt_writer_looks(w) && 3 * (w->tail + lines - w->head) <= w->span;
    if (!early) {
        mt_widen(w, w->at + 2 * lines);
    }
    return early;
}

void *mt_path_ring_reserve(struct mt_path_ring_writer *w, uint64_t bytes)
{
    uint64_t lines = mt_path_ring_lines(bytes);
    uint64_t to_end = w->bytes - w->at;
    if (w->owes || bytes > w->bytes / 2) {
        return NULL;
    }
    bool wraps = lines > to_end;
    if (!mt_has_room(w, wraps ? to_end + lines : lines)) {
        if (w->calm > 0) { /* once in a lap, however often it is tried */
            mt_widen(w, 0);
        }
        return NULL;
    }
    if (mt_unlikely(wraps)) {
        if (mt_path_ring_flush(w) != MT_OK) {
            return NULL;
        }
        mt_write_flag(w, MT_FLAG_SKIP);
        if (!w->shared &&
            mt_ring_post(w, w->at, MT_PATH_RING_FLAG, NULL,
                         mt_path_id(MT_PATH_RING_DATA, 0), 0) != MT_OK) {
            return NULL;
        }
        mt_writer_move(w, to_end);
    }
    return w->place + w->at + MT_PATH_RING_FLAG;
}

enum mt_status mt_path_ring_commit(struct mt_path_ring_writer *w,
                                   uint64_t bytes,
                                   const struct mt_path_rest *rest, bool hold)
{
    uint64_t more = rest != NULL ? rest->piece.bytes : 0;
    enum mt_status status = MT_OK;
    if (w->shared) {
        if (mt_unlikely(more > 0)) {
            return MT_EINVAL;
        }
        uint64_t lines = mt_path_ring_lines(bytes);
        bool last = mt_unlikely(w->at + 2 * lines > w->span) &&
                    mt_ends_early(w, lines);
        mt_write_flag(w, bytes | (mt_unlikely(last) ? MT_FLAG_LAST : 0));
        mt_writer_move(w, mt_unlikely(last) ? w->bytes - w->at : lines);
        mt_writer_fetches(w);
        return MT_OK;
    }
    if (mt_unlikely(more > 0) && w->held > 0) {
        status = mt_path_ring_flush(w); /* a rest ends what leaves together */
    }
    if (status != MT_OK) {
        return status;
    }
    uint64_t at = w->at, lap = w->lap, tail = w->tail, end = w->end;
    mt_write_flag(w, bytes + more);
    w->first = w->held == 0 ? w->at : w->first;
    w->end = w->at + MT_PATH_RING_FLAG + bytes;
    w->held++;
    w->rest.piece.bytes = 0;
    if (mt_unlikely(more > 0)) {
        w->rest = *rest;
    }
    mt_writer_move(w, mt_path_ring_lines(bytes + more));
    if (mt_likely(!hold) || w->at == 0) { /* the next one lies elsewhere */
        status = mt_path_ring_flush(w);
    }
    if (mt_unlikely(status != MT_OK && status != MT_EAGAIN)) {
        w->held--; /* those before it may yet be sent, and again */
        w->at = at;
        w->lap = lap;
        w->tail = tail;
        w->end = end;
        w->moved = w->owes = false;
        return status;
    }
    return MT_OK;
}

/* ---- reading ---- */

enum mt_status mt_path_ring_reader_open(struct mt_path_ring_reader *r,
                                        struct mt_fabric_pd *pd,
                                        struct mt_fabric_qp *qp,
                                        uint64_t bytes)
{
    if (!mt_path_ring_right(bytes)) {
        return MT_EINVAL;
    }
    *r = (struct mt_path_ring_reader){.qp = qp,
                                      .bytes = bytes,
                                      .lap = MT_PATH_RING_FIRST_LAP};
    enum mt_status status = mt_fabric_mr_allocate(
        pd, bytes + MT_PATH_RING_LINE,
        MT_FABRIC_LOCAL_WRITE | MT_FABRIC_REMOTE_WRITE, &r->memory);
    if (status != MT_OK) {
        r->memory = NULL;
        return status;
    }
    r->ring = r->memory->address;
    mt_ring_touch(r->ring, bytes);
    return MT_OK;
}

void mt_path_ring_reader_close(struct mt_path_ring_reader *r)
{
    if (r->memory != NULL) {
        mt_fabric_mr_destroy(r->memory);
    }
    r->memory = NULL;
}

/* Of what it has read it tells so much at once: less where that is a store, for whoever
 * ends laps early has to know. */
static uint64_t mt_reader_part(const struct mt_path_ring_reader *r)
{
    enum { LEAST = MT_PATH_RING_LAP_LEAST / 4 };
    uint64_t lap = r->reached / 8;
    return r->word == NULL ? r->bytes / 4 : lap > LEAST ? lap : LEAST;
}

static void mt_reader_move(struct mt_path_ring_reader *r, uint64_t bytes)
{
    uint64_t at = r->at + bytes;
    r->head += bytes;
    if (mt_unlikely(at == r->bytes)) {
        at = 0;
        r->part = mt_reader_part(r);
        __atomic_store_n(&r->lap, r->lap ^ MT_PATH_RING_LAPS, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&r->at, at, __ATOMIC_RELAXED);
}

/* What begins these lines is no flag, whatever it looks like. */
static void mt_reader_zero(struct mt_path_ring_reader *r, uint64_t from,
                           uint64_t bytes)
{
    for (uint64_t i = from; i < from + bytes; i += MT_PATH_RING_LINE) {
        __atomic_store_n((uint64_t *)(r->ring + i), 0, __ATOMIC_RELAXED);
    }
}

/* The lap has ended there. Behind that there may be flags of the lap before, which has the
 * number of the one to come. */
static void mt_reader_laps(struct mt_path_ring_reader *r, uint64_t end)
{
    mt_reader_zero(r, end, r->reached - end);
    r->reached = end;
    mt_reader_move(r, r->bytes - r->at);
}

static void mt_reader_reaches(struct mt_path_ring_reader *r, uint64_t end)
{
    r->reached = end > r->reached ? end : r->reached;
}

enum mt_status mt_path_ring_peek(struct mt_path_ring_reader *r,
                                 const void **message_p, uint32_t *bytes_p)
{
    uint64_t *at = (uint64_t *)(r->ring + r->at);
    uint64_t flag = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    if (flag == (r->lap | MT_FLAG_SKIP)) {
        mt_reader_reaches(r, r->at + MT_PATH_RING_LINE);
        mt_reader_laps(r, r->at);
        at = (uint64_t *)r->ring;
        flag = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    }
    if ((flag & MT_PATH_RING_LAPS) != r->lap) {
        return MT_EAGAIN; /* none, or not all of it yet */
    }
    r->last = (flag & MT_FLAG_LAST) != 0;
    uint64_t bytes = flag - r->lap - (r->last ? MT_FLAG_LAST : 0);
    if (bytes > r->bytes / 2 ||
        mt_path_ring_lines(bytes) > r->bytes - r->at) {
        return MT_EPEER;
    }
    *message_p = (const char *)at + MT_PATH_RING_FLAG;
    *bytes_p = (uint32_t)bytes;
    return MT_OK;
}

void mt_path_ring_drop(struct mt_path_ring_reader *r, uint32_t bytes)
{
    uint64_t lines = mt_path_ring_lines(bytes);
    mt_reader_reaches(r, r->at + lines);
    mt_reader_zero(r, r->at + MT_PATH_RING_LINE, lines - MT_PATH_RING_LINE);
    if (mt_unlikely(r->last)) {
        mt_reader_laps(r, r->at + lines);
    } else {
        mt_reader_move(r, lines);
    }
}

void mt_path_ring_word(struct mt_path_ring_reader *r, uint64_t address,
                       uint32_t rkey)
{
    r->word_address = address;
    r->word_rkey = rkey;
    r->word = mt_ring_pointer(r->qp, address, rkey, sizeof(*r->word));
    r->part = mt_reader_part(r);
}

enum mt_status mt_path_ring_tell(struct mt_path_ring_reader *r, uint32_t flags)
{
    if (r->word != NULL) { /* pairs with mt_writer_looks */
        __atomic_store_n(r->word, r->head, __ATOMIC_RELEASE);
        r->told = r->head;
        return MT_OK;
    }
    if (r->telling) {
        return MT_EAGAIN;
    }
    bool completes = r->words + 1 == MT_PATH_RING_WORDS;
    uint64_t *word = (uint64_t *)(r->ring + r->bytes) + r->words;
    struct mt_fabric_piece piece = {.address = word,
                                    .bytes = sizeof(*word),
                                    .lkey = r->memory->lkey};
    struct mt_fabric_send work = {.id = mt_path_id(MT_PATH_RING_TOLD, 0),
                                  .opcode = MT_FABRIC_WRITE,
                                  .flags = flags |
                                           (completes ? MT_FABRIC_SIGNALED : 0),
                                  .piece_count = 1,
                                  .pieces = &piece,
                                  .remote_address = r->word_address,
                                  .rkey = r->word_rkey};
    *word = r->head;
    enum mt_status status = mt_fabric_post_send(r->qp, &work);
    if (status == MT_OK) {
        r->telling = completes;
        r->words = completes ? 0 : r->words + 1;
        r->told = r->head;
    }
    return status;
}
