/* sources: c/probe/enter.c c/probe/site.c c/probe/request.c c/probe/arrival.c c/probe/reuse.c c/probe/event.c */
/* The usage table of buffers against a dumb twin: an array by buffer number. */
#include "check.h"
#include "fixture.h"

enum { BUFFERS = 3000, ACCESSES = 400000 };

struct twin {
    uint32_t accesses, last;
};

static uint64_t sum(const uint64_t *bins, int n)
{
    uint64_t all = 0;
    for (int i = 0; i < n; i++) {
        all += bins[i];
    }
    return all;
}

static const struct mt_seg_buffer *find(const struct fixture *f,
                                        uint64_t address, uint32_t path)
{
    for (uint32_t i = 0; i < f->shard.reuse.rows; i++) {
        const struct mt_seg_buffer *b = &f->buffer_rows[i];
        if (b->address == address && b->path == path) {
            return b;
        }
    }
    return NULL;
}

static void use(struct fixture *f, uint64_t address, uint64_t bytes,
                uint32_t path)
{
    mt_reuse(&f->shard, (const void *)(uintptr_t)address, bytes, path);
}

/* All buffers are in frequent use, so the table grows to hold them all. */
static void test_twin(void)
{
    static struct twin twin[MPITRACE_PATH_PATHS][BUFFERS];
    struct fixture *f = fixture_make(FIXTURE_SITES);
    uint64_t reused[MPITRACE_PATH_PATHS] = {0}, all[MPITRACE_PATH_PATHS] = {0};
    uint64_t distances[MPITRACE_DISTANCE_BINS] = {0};
    unsigned long long state = 11;
    fixture_extras(f);
    for (uint32_t n = 1; n <= ACCESSES; n++) {
        /* later buffers come into use once the earlier ones are old */
        uint32_t known = 64 + n / 100 < BUFFERS ? 64 + n / 100 : BUFFERS;
        uint32_t i = (uint32_t)(check_random(&state) % known);
        uint32_t path = (uint32_t)(check_random(&state) % MPITRACE_PATH_PATHS);
        struct twin *t = &twin[path][i];
        use(f, 0x7f0000000000 + i * 4096, 8, path);
        all[path]++;
        if (t->accesses++ > 0) {
            reused[path]++;
            distances[mt_bin(n - t->last, MPITRACE_DISTANCE_BINS)]++;
        }
        t->last = n;
    }
    uint64_t got[MPITRACE_DISTANCE_BINS] = {0};
    for (uint32_t path = 0; path < MPITRACE_PATH_PATHS; path++) {
        const struct mt_seg_reuse *p = &f->paths[path];
        uint32_t missing = 0;
        for (uint32_t i = 0; i < BUFFERS; i++) {
            const struct mt_seg_buffer *b =
                find(f, 0x7f0000000000 + i * 4096, path);
            if (b == NULL) {
                missing += twin[path][i].accesses;
            } else {
                CHECK_EQ(b->accesses, twin[path][i].accesses);
                CHECK_EQ(b->last, twin[path][i].last);
            }
        }
        CHECK_EQ(p->untracked, missing);
        CHECK_EQ(sum(p->accesses, MPITRACE_SIZE_BINS), all[path]);
        if (missing == 0) {
            CHECK_EQ(sum(p->reused, MPITRACE_SIZE_BINS), reused[path]);
        }
        for (int b = 0; b < MPITRACE_DISTANCE_BINS; b++) {
            got[b] += p->distances[b];
        }
    }
    if (f->shard.reuse.stopped == 0) {
        for (int b = 0; b < MPITRACE_DISTANCE_BINS; b++) {
            CHECK_EQ(got[b], distances[b]);
        }
    }
    CHECK(f->shard.reuse.rows > 2 * MT_REUSE_CHUNK);
    free(f);
}

/* Buffers that are never used again: the first rows, and no more. */
static void test_stop(void)
{
    struct fixture *f = fixture_make(FIXTURE_SITES);
    fixture_extras(f);
    for (uint32_t i = 0; i < 10000; i++) {
        use(f, 0x1000 + i * 64, 100, MPITRACE_PATH_SEND);
        use(f, 0x999, 100, MPITRACE_PATH_SEND);
    }
    CHECK_EQ(f->shard.reuse.rows, MT_REUSE_CHUNK);
    CHECK_EQ(f->paths[MPITRACE_PATH_SEND].stopped, 1);
    CHECK_EQ(f->paths[MPITRACE_PATH_SEND].untracked,
             10000 - (MT_REUSE_CHUNK - 1));
    CHECK_EQ(find(f, 0x999, MPITRACE_PATH_SEND)->accesses, 10000);
    free(f);
}

/* No room, however frequently the buffers are used. */
static void test_full(void)
{
    struct fixture *f = fixture_make(FIXTURE_SITES);
    fixture_extras(f);
    f->full = true;
    use(f, 0x1000, 1, MPITRACE_PATH_ORIGIN);
    CHECK_EQ(f->paths[MPITRACE_PATH_ORIGIN].untracked, 1);
    CHECK_EQ(f->shard.reuse.stopped, 1);
    free(f);
}

/* One address with several lengths, and an address that is none. */
static void test_lengths(void)
{
    struct fixture *f = fixture_make(FIXTURE_SITES);
    fixture_extras(f);
    for (uint32_t i = 0; i < 100; i++) {
        use(f, 0x5000, 1 + i % 2, MPITRACE_PATH_RECEIVE);
        use(f, 0, 8, MPITRACE_PATH_RECEIVE);
    }
    const struct mt_seg_buffer *b = find(f, 0x5000, MPITRACE_PATH_RECEIVE);
    CHECK_EQ(b->accesses, 100);
    CHECK_EQ(b->resized, 99);
    CHECK_EQ(b->bytes, 2);
    CHECK_EQ(f->paths[MPITRACE_PATH_RECEIVE].untracked, 100);
    CHECK_EQ(f->paths[MPITRACE_PATH_RECEIVE].accesses[1], 50);
    CHECK_EQ(f->paths[MPITRACE_PATH_RECEIVE].reused[2], 50);
    free(f);
}

int main(void)
{
    test_twin();
    test_stop();
    test_full();
    test_lengths();
    return check_failures != 0;
}
