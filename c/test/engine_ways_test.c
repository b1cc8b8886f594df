/* sources: c/engine/?*.c c/fabric/?*.c c/fabric/fault/?*.c c/fabric/iwarp/?*.c c/fabric/paths/?*.c c/fabric/shm/?*.c c/fabric/soft/?*.c c/fabric/verbs/?*.c */
/* engine_ways_test.c: which way a long message goes before anything is known, where
 * the policy leaves open whether it is read or written. */
#include "engine_fixture.h"

enum { EAGER = 1000, MESSAGES = 4 };

/* What of the first messages is written: those that the sender waits for, over TCP. */
static void run_ways(void *argument)
{
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    static char data[100 * EAGER];
    uint64_t written = 0;
    fix_open(&o);
    struct mt_engine_context *c = fix_context(7);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        struct mt_engine_request r;
        struct mt_engine_counts counts;
        struct mt_buffer b = flat(data, sizeof(data));
        b.blocks = i % 2 == 0;
        written += b.blocks && strcmp(o.device, "iwarp:lo") == 0;
        if (fix.rank == 0) {
            fill(data, sizeof(data), (unsigned)i);
            EQ(mt_engine_send(c, &r, 1, 0, MT_ENGINE_STANDARD, &b), MT_OK);
        } else {
            start_receive(c, &r, 0, 0, data, sizeof(data));
        }
        finish(&r);
        mt_engine_count(fix.engine, &counts);
        if (fix.rank == 0) {
            EQ(counts.written_messages, written);
            EQ(counts.read_messages, i + 1 - written);
        } else {
            filled(data, sizeof(data), (unsigned)i);
        }
    }
    mt_engine_context_close(c);
    fix_close();
}

int main(void)
{
    static const char *const devices[] = {"shm", "iwarp:lo"};
    bool right = true;
    for (unsigned d = 0; d < 2; d++) {
        struct mt_engine_options o = {
            .device = devices[d],
            .fabric.engine_cpu = -1,
            .terms = {.eager_limit = EAGER, .try_written = true}};
        right = fix_run(devices[d], 2, run_ways, &o) && right;
    }
    return !right;
}
