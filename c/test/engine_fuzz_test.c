/* sources: c/engine/arrive.c c/engine/choice.c c/engine/eager.c c/engine/hold.c c/engine/keeper.c c/engine/layout.c c/engine/lock.c c/engine/match.c c/engine/progress.c c/engine/receive.c c/engine/reuse.c c/engine/ring.c c/engine/rtr.c c/engine/send.c c/engine/transfer.c c/engine/trial.c c/engine/usage.c c/engine/verify.c c/engine/wire.c c/fabric/crc32c.c c/fabric/paths/credits.c c/fabric/paths/paths.c c/fabric/paths/reads.c c/fabric/paths/ring.c */
/* Messages of a hostile peer: LLVMFuzzerTestOneInput takes any input, main feeds
 * it many that are nearly right. Each message lies in memory of exactly its size.
 * Nothing may crash, nothing outside the receives may change, and once the peer
 * has broken the protocol everything that depended on it must be done. */
#include <stdlib.h>
#include <string.h>

#include "../engine/rings.h"
#include "check.h"
#include "bare_device.h"

enum { RECEIVES = 4, SENDS = 4, ROOM = 300, GUARD = 32, WINDOW = 16, EAGER = 64, RING = 4096 };

/* ---- a device that takes everything, and reads zeros ---- */

struct mt_fabric_qp {
    const struct mt_fabric_ops *ops;
};

struct mt_fabric_cq {
    const struct mt_fabric_ops *ops;
    struct mt_fabric_completion done[64];
    uint32_t count;
};

static struct mt_fabric_cq cqs[2]; /* of sends, of receives */
static bool failed;
static uint32_t turn;
static uint32_t registered, memories; /* so far; that there are */

static enum mt_status toy_post_send(struct mt_fabric_qp *qp,
                                    const struct mt_fabric_send *work)
{
    (void)qp;
    if (cqs[0].count == 64) {
        return MT_EAGAIN;
    }
    if (work->opcode == MT_FABRIC_READ && !failed) {
        memset(work->pieces[0].address, 0, work->pieces[0].bytes);
    }
    cqs[0].done[cqs[0].count++] =
        (struct mt_fabric_completion){.id = work->id,
                                      .status = failed ? MT_EFLUSHED : MT_OK,
                                      .qp = 1};
    return MT_OK;
}

static enum mt_status toy_post_receive(struct mt_fabric_qp *qp,
                                       const struct mt_fabric_receive *work)
{
    (void)qp;
    (void)work;
    return MT_OK;
}

static uint32_t toy_poll(struct mt_fabric_cq *cq,
                         struct mt_fabric_completion *completions,
                         uint32_t limit)
{
    uint32_t n = cq->count < limit ? cq->count : limit;
    memcpy(completions, cq->done, n * sizeof(*completions));
    memmove(cq->done, cq->done + n, (cq->count - n) * sizeof(*completions));
    cq->count -= n;
    return n;
}

static const struct mt_fabric_ops toy_ops = {.post_send = toy_post_send,
                                             .post_receive = toy_post_receive,
                                             .poll = toy_poll};

enum mt_status mt_fabric_mr_allocate(struct mt_fabric_pd *pd, size_t bytes,
                                     uint32_t access, struct mt_fabric_mr **mr_p)
{
    *mr_p = calloc(1, sizeof(**mr_p));
    memories++;
    (*mr_p)->address = calloc(1, bytes);
    (*mr_p)->bytes = bytes;
    (void)pd;
    (void)access;
    return MT_OK;
}

enum mt_status mt_fabric_mr_implicit(struct mt_fabric_pd *pd,
                                     struct mt_fabric_mr **mr_p)
{
    (void)pd;
    (void)mr_p;
    return MT_ENOTSUP;
}

enum mt_status mt_fabric_mr_register(struct mt_fabric_pd *pd, void *address,
                                     size_t bytes, uint32_t access,
                                     struct mt_fabric_mr **mr_p)
{
    (void)pd;
    (void)access;
    if (++registered % 5 == 0) {
        return MT_ENOMEM;
    }
    *mr_p = calloc(1, sizeof(**mr_p));
    memories++;
    (*mr_p)->address = address;
    (*mr_p)->bytes = bytes;
    (*mr_p)->lkey = 1; /* not one of allocated memory */
    (*mr_p)->rkey = 7;
    return MT_OK;
}

enum mt_status mt_fabric_mr_destroy(struct mt_fabric_mr *mr)
{
    if (mr->lkey == 0) {
        free(mr->address);
    }
    free(mr);
    memories--;
    return MT_OK;
}

enum mt_status mt_fabric_qp_fail(struct mt_fabric_qp *qp)
{
    (void)qp;
    failed = true;
    return MT_OK;
}

enum mt_status mt_fabric_event_take(struct mt_fabric_context *context,
                                    struct mt_fabric_event *event_p)
{
    (void)context;
    (void)event_p;
    return MT_EAGAIN;
}

uint32_t mt_fabric_qp_number(const struct mt_fabric_qp *qp)
{
    (void)qp;
    return 1;
}

void mt_thread_call(struct mt_engine *e)
{
    (void)e;
}

void mt_thread_noted(struct mt_engine *e)
{
    (void)e;
}

void mt_thread_watches(struct mt_engine *e)
{
    (void)e;
}

/* ---- an engine with one peer ---- */

static struct mt_engine engine;
static struct mt_engine_peer peers[2], *by_qp[4];
static struct mt_fabric_qp qp = {.ops = &toy_ops};
static struct mt_engine_context *context;
static struct mt_engine_request receives[RECEIVES], sends[SENDS];
static unsigned char memory[RECEIVES][ROOM + 2 * GUARD], payload[SENDS][ROOM];

static const struct mt_block halves[] = {{0, 5}, {8, 5}};
static const struct mt_layout spread = {halves, 2, 15, 10};

static void begin(void)
{
    static const uint32_t processes[] = {0, 1};
    static struct mt_fabric_caps caps;
    memset(&engine, 0, sizeof(engine));
    memset(peers, 0, sizeof(peers));
    memset(cqs, 0, sizeof(cqs));
    memset(memory, 0xee, sizeof(memory));
    failed = false;
    cqs[0].ops = cqs[1].ops = &toy_ops;
    engine.o.terms.eager_limit = EAGER;
    engine.processes = 2;
    engine.peers = peers;
    engine.by_qp = by_qp;
    engine.by_qp_mask = 3;
    engine.reads = true;
    engine.max_work = 100;
    engine.message_bytes = 2 * EAGER;
    engine.writes = true;
    engine.ring_bytes = RING;
    engine.o.terms.rendezvous = (enum mt_engine_rendezvous)(turn % 3);
    engine.o.terms.try_written = turn / 3 % 2 == 0;
    engine.o.terms.try_asking = turn / 6 % 2 == 0;
    engine.o.verify_every = turn % 4;
    caps.writes_end_early = turn / 12 % 2 == 0;
    turn++;
    engine.rails.rails[0].caps = &caps;
    engine.rails.rails[0].send_cq = &cqs[0];
    engine.rails.rails[0].receive_cq = &cqs[1];
    by_qp[1] = &peers[1];
    for (uint32_t i = 0; i < 2; i++) {
        peers[i].engine = &engine;
        peers[i].process = i;
        peers[i].qp = &qp;
        peers[i].leaving_tail = &peers[i].leaving;
    }
    struct mt_credits_options o = {.qp = &qp,
                                   .window = WINDOW,
                                   .peer_window = WINDOW,
                                   .bytes = 2 * EAGER};
    CHECK(mt_credits_open(&peers[1].credits, &o) == MT_OK);
    CHECK(mt_reads_open(&peers[1].reads, &qp, 2) == MT_OK);
    peers[1].arrived = 100; /* it has sent much */
    mt_ring_offer(&peers[1]);
    CHECK_EQ(engine.ring_count, 1);
    CHECK(mt_engine_context_open(&engine, 3, 0, 2, processes, &context) ==
          MT_OK);
    for (int i = 0; i < RECEIVES; i++) {
        struct mt_buffer b = {memory[i] + GUARD, i == 2 ? &spread : NULL,
                              i == 2 ? ROOM / 15 * 10 : ROOM, 0, NULL, false};
        CHECK(mt_engine_receive(context, &receives[i],
                                i % 2 == 0 ? 1 : MT_ENGINE_ANY,
                                i == 3 ? MT_ENGINE_ANY : i, &b) == MT_OK);
    }
    for (int i = 0; i < SENDS; i++) {
        struct mt_buffer b = {payload[i], NULL, i % 2 == 0 ? ROOM : 8, 0, NULL,
                              i % 3 == 0};
        CHECK(mt_engine_send(context, &sends[i], 1, i,
                             MT_ENGINE_SYNCHRONOUS, &b) == MT_OK);
    }
}

static void end(void)
{
    while (cqs[0].count > 0) {
        mt_engine_progress(&engine);
    }
    mt_peer_end(&peers[1]);
    for (uint32_t n = 0; n < 10; n++) {
        mt_engine_progress(&engine);
    }
    for (int i = 0; i < RECEIVES; i++) {
        if (i % 2 == 0) { /* it named the peer */
            CHECK(mt_engine_done(&receives[i]));
        }
        if (!mt_engine_done(&receives[i])) {
            mt_engine_cancel(&receives[i]);
        }
        for (int k = 0; k < GUARD; k++) {
            CHECK_EQ(memory[i][k], 0xee);
            CHECK_EQ(memory[i][GUARD + ROOM + k], 0xee);
        }
    }
    for (int i = 0; i < SENDS; i++) {
        CHECK(mt_engine_done(&sends[i]));
    }
    CHECK_EQ(engine.pending, 0);
    mt_engine_context_close(context);
    mt_contexts_free(&engine);
    mt_discards_free(&engine);
    mt_messages_free(&engine);
    mt_transfers_free(&engine);
    mt_ring_free(&peers[1]);
    for (unsigned i = 0; i < MT_ENGINE_TRIALS; i++) {
        mt_choices_free(&engine.choices[i]);
    }
    mt_credits_close(&peers[1].credits);
    free(peers[1].rtr);
    CHECK_EQ(memories, 0);
}

/* Input: messages, each behind a byte with its length, and with BY_RING if it lies
 * in the ring. A byte of the header says the number to be used: mostly one that
 * exists. */
enum { BY_RING = 128 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void arrive(const uint8_t *data, uint32_t count, bool by_ring)
{
    char *exact = malloc(count > 0 ? count : 1);
    struct mt_wire_message m;
    memcpy(exact, data, count);
    if (count >= sizeof(struct mt_wire_token)) {
        struct mt_wire_token *head = (struct mt_wire_token *)exact;
        head->sequence += peers[1].arrived + 1; /* 0: the right one */
    }
    if (mt_wire_parse(exact, count, &m) == MT_OK) {
        CHECK((const char *)m.payload + m.payload_bytes == exact + count);
        CHECK(m.head.kind != MT_WIRE_EAGER || m.rest.bytes == m.payload_bytes);
    }
    if (!peers[1].ended && !by_ring && mt_arrive_early(&peers[1], exact, count)) {
        /* it would be kept */
    } else if (!peers[1].ended) {
        enum mt_status status = by_ring
                                    ? mt_arrive_ring(&peers[1], exact, count)
                                    : mt_arrive(&peers[1], exact, count);
        if (status != MT_OK && !(by_ring && status == MT_EAGAIN)) {
            mt_peer_end(&peers[1]);
        }
    }
    free(exact);
    peers[1].credits.available = WINDOW; /* a generous peer */
    mt_engine_progress(&engine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    begin();
    while (size > 0) {
        uint32_t count = data[0] % BY_RING;
        count = count < size - 1 ? count : (uint32_t)size - 1;
        arrive(data + 1, count, data[0] >= BY_RING);
        data += 1 + count;
        size -= 1 + count;
    }
    end();
    return 0;
}

/* ---- nearly right messages ---- */

static unsigned long long state = 88172645463325252ULL;

static uint32_t dice(uint32_t below)
{
    return (uint32_t)(check_random(&state) >> 33) % below;
}

/* In the ring. */
static uint32_t draw_short(uint8_t *to)
{
    struct mt_wire head = {.kind = MT_WIRE_EAGER,
                           .entry = (uint16_t)dice(dice(10) == 0 ? 20 : 3),
                           .sequence = dice(20) == 0,
                           .context = 3,
                           .source = 1,
                           .tag = (int32_t)dice(5) - (dice(30) == 0)};
    struct mt_wire_token token = {.kind = MT_WIRE_TOKEN,
                                  .entry = (uint8_t)head.entry,
                                  .sequence = head.sequence};
    bool known = dice(2) == 0;
    uint32_t count = known ? sizeof(token) : sizeof(head);
    memcpy(to, known ? (void *)&token : (void *)&head, count);
    for (uint32_t bytes = dice(4) == 0 ? 0 : dice(100); bytes > 0; bytes--) {
        to[count++] = (uint8_t)bytes;
    }
    if (dice(20) == 0) {
        to[dice(count)] ^= (uint8_t)(1 << dice(8));
        count = dice(3) == 0 ? dice(count) : count;
    }
    return count;
}

static uint32_t draw_message(uint8_t *to)
{
    struct mt_wire head = {.kind = (uint8_t)(1 + dice(MT_WIRE_KINDS - 1)),
                           .flags = (uint8_t)(dice(3) == 0 ? dice(8) : 0)};
    struct mt_wire_rest rest = {0};
    uint32_t bytes = 0;
    bool asks = head.kind == MT_WIRE_RTR;
    bool names = head.kind == MT_WIRE_EAGER || head.kind == MT_WIRE_RTS;
    if (asks) {
        head.flags = 0;
        head.context = dice(10) == 0 ? dice(5) : 3;
        head.tag = (int32_t)dice(SENDS);
        head.rkey = 9;
        rest.number = dice(9);
        rest.bytes = 1 + dice(2 * ROOM);
        rest.address = 4096;
        rest.answer = (uint64_t)dice(9) << 32 | dice(3);
    } else if (names) {
        head.context = dice(10) == 0 ? dice(5) : 3;
        head.source = dice(20) == 0 ? dice(4) : 1;
        head.tag = (int32_t)dice(5) - (dice(30) == 0);
        rest.number = dice(5);
    } else {
        /* as transfer.c numbers them: place, and a count above */
        rest.number = (uint64_t)(1 + dice(8)) << 32 | dice(6);
    }
    if (head.kind == MT_WIRE_EAGER || head.kind == MT_WIRE_FRAGMENT) {
        bytes = dice(4) == 0 ? 0 : dice(70);
    }
    if (head.kind == MT_WIRE_RTS && dice(8) > 0) {
        bool is_plain = head.flags == 0;
        rest.bytes = dice(2 * ROOM);
        rest.address = is_plain ? 4096 : 0;
        head.rkey = is_plain ? 9 : 0;
    }
    if (head.kind == MT_WIRE_FILLED) {
        rest.bytes = 1 + dice(2 * ROOM);
    }
    if (head.kind == MT_WIRE_REVOKE || head.kind == MT_WIRE_REVOKED) {
        rest.number = dice(4);
    }
    if (head.kind == MT_WIRE_PULL || head.kind == MT_WIRE_CTS) {
        rest.bytes = dice(10) == 0 ? dice(2 * ROOM) : 1 + dice(ROOM);
        rest.answer = dice(9);
        rest.address = head.kind == MT_WIRE_CTS ? 4096 : 0;
        head.rkey = head.kind == MT_WIRE_CTS ? 9 : 0;
        head.flags = 0;
    }
    if (head.kind == MT_WIRE_RING || head.kind == MT_WIRE_WORD) {
        rest.number = dice(10) == 0;
        rest.bytes = head.kind == MT_WIRE_RING ? RING : 0;
        rest.address = 4096;
        head.rkey = 9;
        head.flags = 0;
    }
    if (head.kind == MT_WIRE_CHECK) {
        rest.number = dice(20) == 0 ? MT_WIRE_CHECKED : dice(9);
    }
    if (head.kind == MT_WIRE_WRONG) {
        rest.number = dice(2) == 0 ? 0 : rest.number;
        rest.answer = dice(MT_ENGINE_WAYS + 1);
    }
    if (dice(40) == 0) {
        rest.bytes = check_random(&state);
    }
    uint32_t count = sizeof(head);
    memcpy(to, &head, sizeof(head));
    if (mt_wire_long(head.kind, head.flags)) {
        memcpy(to + count, &rest, sizeof(rest));
        count += (uint32_t)sizeof(rest);
    }
    for (uint32_t i = 0; i < bytes; i++) {
        to[count++] = (uint8_t)i;
    }
    if (dice(20) == 0) { /* a bit, or an end */
        to[dice(count)] ^= (uint8_t)(1 << dice(8));
        count = dice(3) == 0 ? dice(count) : count;
    }
    return count;
}

int main(void)
{
    static uint8_t input[64 * 256];
    for (int n = 0; n < 20000 && check_failures == 0; n++) {
        size_t size = 0;
        for (uint32_t k = 1 + dice(20); k > 0; k--) {
            bool by_ring = dice(2) == 0;
            uint32_t count = by_ring ? draw_short(input + size + 1)
                                     : draw_message(input + size + 1);
            input[size] = (uint8_t)(count + (by_ring ? BY_RING : 0));
            size += 1 + count;
        }
        LLVMFuzzerTestOneInput(input, size);
    }
    for (int n = 0; n < 20000 && check_failures == 0; n++) { /* any bytes */
        size_t size = dice(200);
        for (size_t i = 0; i < size; i++) {
            input[i] = (uint8_t)dice(dice(2) == 0 ? 256 : 4);
        }
        LLVMFuzzerTestOneInput(input, size);
    }
    return check_failures != 0;
}
