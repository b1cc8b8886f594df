/* sources: c/engine/?*.c c/fabric/?*.c c/fabric/fault/?*.c c/fabric/iwarp/?*.c c/fabric/paths/?*.c c/fabric/shm/?*.c c/fabric/soft/?*.c c/fabric/verbs/?*.c */
/* engine_connect_test.c: datagrams first: that all are there is found out at the
 * beginning; and which peers get the connections that there are. */
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

/* Half of the datagrams are lost; each process has heard the others at distances of 1, 2
 * and 4, and nothing is left to be repeated. */
static void run_greeting(void *argument)
{
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    fix_open(&o);
    for (uint32_t far = 1; far < fix.size; far *= 2) {
        EQ(fix.engine->peers[(fix.rank + fix.size - far) % fix.size].arrived, 1);
        CHECK(mt_datagrams_flushed(&fix.engine->datagrams,
                                   (fix.rank + far) % fix.size));
    }
    fix_close();
}

/* Nothing arrives that process 1 sends: nobody goes on. */
static void run_silent(void *argument)
{
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    struct mt_engine *engine;
    o.fabric.faults = fix.rank == 1 ? o.fabric.faults : NULL;
    o.wireup = (struct mt_fabric_wireup){
        .rank = fix.rank, .size = fix.size, .exchange = fix_exchange};
    o.say = fix_say;
    EQ(mt_engine_open(&o, &engine), MT_EPEER);
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
        o.fabric.faults = fix_script("seed 3\ndrop 1/2 ud\n");
        right = fix_run("all are there", ALL, run_greeting, &o) && right;
        remove(o.fabric.faults);
        o.fabric.faults = fix_script("drop 1/1 ud\n");
        o.datagrams.tries = 4;
        right = fix_run("one is silent", ALL, run_silent, &o) && right;
        remove(o.fabric.faults);
    }
    return !right;
}
