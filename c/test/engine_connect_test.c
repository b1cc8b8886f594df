/* sources: c/engine/?*.c c/fabric/?*.c c/fabric/fault/?*.c c/fabric/iwarp/?*.c c/fabric/paths/?*.c c/fabric/shm/?*.c c/fabric/soft/?*.c c/fabric/verbs/?*.c */
/* engine_connect_test.c: which peers of datagrams get the connections that there
 * are. */
#include "../engine/inside.h"
#include "engine_fixture.h"

enum { AFTER = 50, FEW = AFTER + 10, MANY = 4 * AFTER, CONNECTIONS = 4, ALL = 7 };

static void messages(struct mt_engine_context *c, int to, int n)
{
    struct mt_engine_request r;
    int number;
    for (int i = 0; i < n; i++) {
        number = i;
        if (fix.rank == 0) {
            start_send(c, &r, to, 1, &number, sizeof(number));
            finish(&r);
        } else if ((int)fix.rank == to) {
            start_receive(c, &r, 0, 1, &number, sizeof(number));
            finish(&r);
            EQ(number, i);
        }
    }
}

static int connections(void)
{
    int n = 0;
    for (uint32_t i = 0; i < fix.size; i++) {
        n += fix.engine->peers[i].connection != MT_CONNECTION_NONE;
    }
    return n;
}

/* A program that has a few words with everybody first: what it then has with one alone
 * goes by a connection. */
static void run_busiest(void *argument)
{
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    const int busiest = ALL - 1;
    fix_open(&o);
    struct mt_engine_context *c = fix_context(7);
    for (int to = 1; to < busiest; to++) {
        messages(c, to, FEW);
    }
    fix_barrier();
    if (fix.rank == 0) {
        EQ(connections(), 1);
    }
    messages(c, busiest, MANY);
    while (fix.rank == 0 &&
           fix.engine->peers[busiest].connection != MT_CONNECTION_MADE) {
        fix_turn("a connection to the busiest");
    }
    fix_barrier();
    if (fix.rank == 0) {
        EQ(connections(), 2);
    }
    mt_engine_context_close(c);
    fix_close();
}

int main(void)
{
    static const char *const devices[] = {"shm", "iwarp:lo"};
    bool right = true;
    for (unsigned d = 0; d < 2; d++) {
        struct mt_engine_options o = {.device = devices[d],
                                      .fabric.engine_cpu = -1,
                                      .terms.eager_limit = 1000,
                                      .datagrams = {.first = true,
                                                    .after = AFTER,
                                                    .connections = CONNECTIONS}};
        right = fix_run("the busiest is connected", ALL, run_busiest, &o) && right;
    }
    return !right;
}
