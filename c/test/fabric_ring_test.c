/* sources: c/fabric/paths/ring.c */
/* Messages by WRITE into the ring of a peer (c/fabric/paths/ring.h), against a twin
 * that knows what was written. */
#include "../fabric/paths/ring.h"
#include "toy.h"

/* Which messages each flag stands for: all up to here, exclusive. */
struct flags {
    uint32_t ends[2000], count, told;
};

/* Nothing is held any more: what was written before has its flag. */
static void flags_note(struct flags *f, uint32_t written)
{
    if (written > (f->count > 0 ? f->ends[f->count - 1] : 0)) {
        f->ends[f->count++] = written;
    }
}

/* What the writer is to be told, in order; each by a WRITE of its own. */
struct words {
    uint64_t heads[2000];
    uint32_t count, came;
};

/* A WRITE of the reader's may have been carried out. */
static void words_come(struct words *words, const struct mt_path_ring_writer *w)
{
    uint64_t word = *(const uint64_t *)w->memory->address;
    if (word != (words->came > 0 ? words->heads[words->came - 1] : 0)) {
        CHECK(words->came < words->count && word == words->heads[words->came]);
        words->came++;
    }
}

/* The twin knows what was written, in order. shared: by storing into the ring. */
static void ring_test(bool shared)
{
    enum { MESSAGES = 900, MOST = MT_PATH_RING_LEAST / 2 };
    /* where laps may end early there is something behind these */
    const uint64_t ring = (shared ? 8 : 1) * (uint64_t)MT_PATH_RING_LEAST;
    static struct mt_fabric_qp pair[2];
    static uint32_t sizes[MESSAGES];
    static unsigned char rests[MESSAGES][MOST]; /* sent straight from there */
    struct mt_path_ring_writer w;
    struct mt_path_ring_reader r;
    static bool straight[MESSAGES];
    uint32_t written = 0, read = 0, stalls = 0, silent = 0, held = 0;
    static struct flags flags;
    static struct words words;
    uint32_t completed = 0, late = 0, early = 0;
    flags = (struct flags){.count = 0};
    words = (struct words){.count = 0};
    toy_pair(pair);
    CHECK(mt_path_ring_reader_open(&r, NULL, &pair[1], ring) == MT_OK);
    CHECK(mt_path_ring_writer_open(&w, NULL, &pair[0],
                                   (uintptr_t)r.memory->address, 0, ring,
                                   !shared) == MT_OK);
    CHECK(w.shared == shared);
    CHECK(mt_path_ring_reserve(&w, ring / 2 + 1) == NULL);
    while (read < MESSAGES || mt_path_ring_writing(&w) || r.telling) {
        struct mt_fabric_completion c;
        const void *message;
        uint32_t bytes;
        bool behind = written / 128 % 2 == 1; /* else the reader keeps up */
        if (written < MESSAGES && toy_random(2) == 0) {
            uint32_t n = 1 + toy_random(toy_random(3) == 0 ? MOST : 100);
            unsigned char *at = mt_path_ring_reserve(&w, n);
            stalls += at == NULL;
            if (w.held == 0) {
                flags_note(&flags, written);
            }
            if (at != NULL && toy_random(8) > 0) {
                uint32_t here =
                    !shared && toy_random(3) == 0 ? 1 + toy_random(n) : n;
                unsigned char *rest = rests[written];
                struct mt_path_rest more = {
                    .piece = {.address = rest, .bytes = n - here},
                    .value = written + 1};
                memset(at, (int)(written * 7 + 1), here);
                memset(rest, (int)(written * 7 + 1), n - here);
                sizes[written] = n;
                straight[written] = here < n;
                bool hold = here == n && toy_random(3) > 0;
                uint64_t lap = w.lap, end = w.at + mt_path_ring_lines(n);
                enum mt_status status = mt_path_ring_commit(
                    &w, here, here < n ? &more : NULL, hold);
                CHECK(status == MT_OK || status == MT_EAGAIN);
                CHECK(!shared || (status == MT_OK && w.held == 0));
                if (status == MT_OK) {
                    early += w.lap != lap && end < ring;
                    if (here < n) { /* what was held left before it */
                        flags_note(&flags, written);
                    }
                    held += w.held > 1;
                    written++;
                }
            }
        }
        if (toy_random(3) == 0 || written == MESSAGES) {
            enum mt_status status = mt_path_ring_flush(&w);
            CHECK(status == MT_OK || status == MT_EAGAIN);
            CHECK(w.owes == (status == MT_EAGAIN));
        }
        if (w.held == 0) {
            flags_note(&flags, written);
        }
        toy_step(&pair[toy_random(2)]);
        words_come(&words, &w);
        while (toy_poll(&pair[0], &c)) {
            CHECK(!shared && mt_path_kind(c.id) == MT_PATH_RING);
            /* of those that went straight each completes, of others some, for
             * all before them */
            while (!straight[flags.ends[flags.told] - 1] &&
                   silent < MT_PATH_RING_COMPLETES - 1) {
                silent++;
                flags.told++;
            }
            silent = 0;
            CHECK(flags.told < flags.count);
            uint32_t last = flags.ends[flags.told++] - 1;
            CHECK(mt_path_value(c.id) == (straight[last] ? last + 1 : 0));
            memset(rests[last], 0, MOST); /* it may change now */
            CHECK(mt_path_ring_written(&w, &c) == MT_OK);
        }
        while (toy_poll(&pair[1], &c)) {
            CHECK(mt_path_kind(c.id) == MT_PATH_RING_TOLD);
            CHECK(mt_path_ring_told(&r, &c) == MT_OK && !r.telling);
            completed++;
        }
        if ((!behind || toy_random(8) == 0) &&
            mt_path_ring_peek(&r, &message, &bytes) == MT_OK) {
            const unsigned char *m = message;
            CHECK(mt_path_ring_waits(&r) && read < written);
            CHECK(bytes == sizes[read]);
            for (uint32_t i = 0; i < bytes; i++) {
                CHECK(m[i] == (unsigned char)(read * 7 + 1));
            }
            mt_path_ring_drop(&r, bytes);
            read++;
        }
        if (read > 0 && toy_random(20) == 0) { /* until then it gets no room */
            mt_path_ring_word(&r, (uintptr_t)w.memory->address, 0);
            CHECK(r.word == w.memory->address);
            if (!shared) { /* as on another node */
                r.word = NULL;
                r.part = ring / 4;
            }
        }
        CHECK(mt_path_ring_owing(&r) || !mt_path_ring_late(&r));
        late += mt_path_ring_late(&r);
        if (mt_path_ring_owing(&r) && toy_random(3) == 0) {
            enum mt_status status = mt_path_ring_tell(
                &r, toy_random(2) == 0 ? MT_FABRIC_MORE : 0);
            CHECK(status == MT_OK || (status == MT_EAGAIN && !shared));
            CHECK(!shared || (r.told == r.head && !r.telling));
            if (status == MT_OK) {
                words.heads[words.count++] = r.head;
            }
        }
    }
    CHECK(stalls > 0 && (shared || held > 0) && w.tail == r.head);
    CHECK((early > 0) == shared);
    CHECK(late > 0 && words.count >= MT_PATH_RING_WORDS);
    CHECK(completed == (shared ? 0 : words.count / MT_PATH_RING_WORDS));
    if (!shared) {
        CHECK(flags.told > flags.count - MT_PATH_RING_COMPLETES);
        CHECK(flags.count < MESSAGES);
        CHECK(flags.ends[flags.count - 1] == MESSAGES);
    }
    mt_path_ring_writer_close(&w);
    mt_path_ring_reader_close(&r);
}

/* A writer and a reader of one process. */
struct stream {
    struct mt_path_ring_writer w;
    struct mt_path_ring_reader r;
    uint64_t written, read;
    bool varies; /* in how long its messages are */
};

static uint32_t stream_bytes(const struct stream *s, uint64_t i)
{
    return s->varies ? 8 + (uint32_t)(i * 97 % 200) : 8;
}

static bool stream_write(struct stream *s)
{
    const void *at;
    uint32_t bytes = stream_bytes(s, s->written);
    CHECK(s->written > s->read ||
          mt_path_ring_peek(&s->r, &at, &bytes) == MT_EAGAIN);
    unsigned char *to = mt_path_ring_reserve(&s->w, bytes);
    if (to != NULL) {
        memset(to, 1, bytes); /* what looks like a flag */
        memcpy(to, &s->written, sizeof(s->written));
        s->written++;
        CHECK(mt_path_ring_commit(&s->w, bytes, NULL, false) == MT_OK);
    }
    return to != NULL;
}

static void stream_read(struct stream *s)
{
    const void *at;
    uint32_t bytes;
    uint64_t value;
    CHECK(mt_path_ring_peek(&s->r, &at, &bytes) == MT_OK &&
          bytes == stream_bytes(s, s->read));
    memcpy(&value, at, sizeof(value));
    CHECK(value == s->read++);
    mt_path_ring_drop(&s->r, bytes);
    if (mt_path_ring_owing(&s->r)) {
        CHECK(mt_path_ring_tell(&s->r, 0) == MT_OK);
    }
}

/* In lockstep. */
static void stream_talk(struct stream *s, uint64_t messages)
{
    for (uint64_t i = 0; i < messages; i++) {
        CHECK(stream_write(s));
        stream_read(s);
    }
}

/* As many as there is room for, and then all are read. Returns their number. */
static uint64_t stream_burst(struct stream *s)
{
    while (stream_write(s)) {
    }
    CHECK(!stream_write(s)); /* that changes nothing */
    uint64_t n = s->written - s->read;
    while (s->read < s->written) {
        stream_read(s);
    }
    return n;
}

/* Few lines of a ring are used while its reader keeps up, more when it does not, and few
 * again when it has kept up for long. */
static void ring_span_test(bool varies)
{
    enum { RING = 16 * MT_PATH_RING_LAP_LEAST,
           LINES = RING / MT_PATH_RING_LINE,
           LAP = MT_PATH_RING_LAP_LEAST / MT_PATH_RING_LINE };
    static struct mt_fabric_qp pair[2];
    struct stream s = {.varies = varies};
    toy_pair(pair);
    CHECK(mt_path_ring_reader_open(&s.r, NULL, &pair[1], RING) == MT_OK);
    CHECK(mt_path_ring_writer_open(&s.w, NULL, &pair[0],
                                   (uintptr_t)s.r.memory->address, 0, RING,
                                   false) == MT_OK);
    mt_path_ring_word(&s.r, (uintptr_t)s.w.memory->address + 4, 0);
    CHECK(s.r.word == NULL && s.r.part == RING / 4); /* it must be written to */
    mt_path_ring_word(&s.r, (uintptr_t)s.w.memory->address, 0);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 5 * LAP; i++) {
            stream_talk(&s, 1);
            CHECK(s.w.at <= MT_PATH_RING_LAP_LEAST);
        }
        CHECK(s.w.span == MT_PATH_RING_LAP_LEAST);
        CHECK(s.r.reached < 2 * MT_PATH_RING_LAP_LEAST);
        while (s.w.at / MT_PATH_RING_LINE != 50 && !varies) {
            stream_talk(&s, 1);
        }
        uint64_t n = stream_burst(&s); /* into the next lap, which is short */
        CHECK(varies || (n < LAP && s.w.span == 2 * MT_PATH_RING_LAP_LEAST));
        while (s.w.at / MT_PATH_RING_LINE != LAP && !varies) {
            stream_talk(&s, 1);
        }
        for (unsigned i = 0; i < LAP / 2 + 1; i++) { /* to be read later */
            CHECK(stream_write(&s));
        }
        stream_talk(&s, LAP / 2); /* to where a lap would end */
        CHECK(varies || s.w.span == 4 * MT_PATH_RING_LAP_LEAST);
        while (s.read < s.written) {
            stream_read(&s);
        }
        for (unsigned bursts = 0; s.w.span < RING; bursts++) {
            stream_talk(&s, 3);
            CHECK(bursts < 10 && stream_burst(&s) > 0);
        }
        n = stream_burst(&s);
        CHECK(varies || n >= LINES / 8 * 7 - LAP); /* what was not told is missing */
        CHECK(s.r.part >= RING / 16);
        uint64_t calm = 0, wide = s.w.span;
        while (s.w.span > MT_PATH_RING_LAP_LEAST) {
            stream_talk(&s, 1);
            calm += mt_path_ring_lines(stream_bytes(&s, s.read - 1));
            if (s.w.span < wide) {
                CHECK(calm > MT_PATH_RING_CALM / 4 * 3 && /* laps end before the span */
                      calm <= MT_PATH_RING_CALM + wide);
                wide = s.w.span;
                calm = 0;
            }
        }
    }
    CHECK(s.w.tail == s.r.head);
    mt_path_ring_writer_close(&s.w);
    mt_path_ring_reader_close(&s.r);
}

/* Nothing that the other side writes is believed. */
static void ring_refuse_test(void)
{
    static struct mt_fabric_qp pair[2];
    struct mt_path_ring_writer w;
    struct mt_path_ring_reader r;
    const void *message;
    uint32_t bytes;
    toy_pair(pair);
    pair[0].full = 0;
    CHECK(!mt_path_ring_right(MT_PATH_RING_LEAST - 64));
    CHECK(!mt_path_ring_right(MT_PATH_RING_LEAST + 8));
    CHECK(mt_path_ring_reader_open(&r, NULL, &pair[1], 100) == MT_EINVAL);
    CHECK(mt_path_ring_reader_open(&r, NULL, &pair[1], 4096) == MT_OK);
    CHECK(mt_path_ring_writer_open(&w, NULL, &pair[0],
                                   (uintptr_t)r.memory->address, 0, 4096,
                                   true) == MT_OK);
    uint64_t *flag = (uint64_t *)r.ring;
    unsigned last = 0;
    for (unsigned i = 0; i < 2000; i++) {
        *flag = (uint64_t)toy_random(32) << 32 | toy_random(1u << 12);
        enum mt_status status = mt_path_ring_peek(&r, &message, &bytes);
        CHECK(status == MT_EPEER || status == MT_EAGAIN ||
              (status == MT_OK && bytes <= 2048));
        if (status == MT_OK) {
            mt_path_ring_drop(&r, bytes);
            CHECK(r.at < r.bytes && r.reached <= r.bytes);
            last += r.at == 0;
        }
        r.head = r.at = r.reached = 0;
        r.lap = MT_PATH_RING_FIRST_LAP;
    }
    CHECK(last > 0);
    static const unsigned char whole[8] = {100, 2, 0, 0, 1}; /* 612 bytes */
    *flag = 0;
    for (unsigned i = 0; i <= 4; i++) { /* it comes byte by byte */
        CHECK(mt_path_ring_peek(&r, &message, &bytes) == MT_EAGAIN);
        memcpy(flag, whole, i + 1);
    }
    CHECK(mt_path_ring_peek(&r, &message, &bytes) == MT_OK && bytes == 612);
    *flag = UINT64_C(5) << 32; /* twice nothing until the end */
    CHECK(mt_path_ring_peek(&r, &message, &bytes) == MT_EAGAIN);
    for (unsigned i = 0; i < 2; i++) { /* fill it, and lie about what was read */
        CHECK(mt_path_ring_reserve(&w, 2000) != NULL);
        CHECK(mt_path_ring_commit(&w, 2000, NULL, false) == MT_OK);
        while (mt_path_ring_flush(&w) == MT_EAGAIN) {
            toy_step(&pair[0]);
        }
        toy_step(&pair[0]);
        toy_step(&pair[0]);
    }
    *(uint64_t *)w.memory->address = UINT64_MAX / 2;
    CHECK(mt_path_ring_reserve(&w, 2000) == NULL);
    *(uint64_t *)w.memory->address = w.tail;
    CHECK(mt_path_ring_reserve(&w, 2000) != NULL);
    mt_path_ring_writer_close(&w);
    CHECK(mt_path_ring_writer_open(&w, NULL, &pair[0],
                                   (uintptr_t)r.memory->address + 4, 0, 4096,
                                   false) == MT_OK);
    CHECK(!w.shared); /* no flag can be stored at such an address */
    mt_path_ring_writer_close(&w);
    mt_path_ring_reader_close(&r);
}

int main(void)
{
    for (toy_seed = 1; toy_seed <= 40; toy_seed++) {
        toy_state = toy_seed * UINT64_C(0x9e3779b97f4a7c15);
        ring_test(false);
        ring_test(true);
        ring_refuse_test();
    }
    ring_span_test(false);
    ring_span_test(true);
    printf("fabric_ring_test: ok\n");
    return 0;
}
