/* tool.h: mpitrace-fabric, the user's tool: what devices are there, and what
 * they are worth between two processes. The program is two processes, ranks 0
 * and 1, of this host (it forks) or of two (--listen, --connect). Rank 0 says
 * what is done and prints; both check the data.
 *
 * Must not: know a provider. Every wait ends within --timeout. */
#ifndef MPITRACE_FABRIC_TOOL_H
#define MPITRACE_FABRIC_TOOL_H

#include "../paths/credits.h"
#include "../paths/rails.h"
#include "../paths/put.h"
#include "../paths/socket.h"
#include "../paths/stripe.h"
#include "config.h"

struct tool_options {
    struct tool_config config;
    const char *patterns; /* of rails; NULL: the first device */
    const char *listen, *connect;
    const char *faults;
    uint32_t per_port;
    uint32_t timeout_ms;
    enum mt_fabric_engine engine;
    int cpus[2];        /* of ranks 0 and 1, -1: anywhere */
    int engine_cpus[2]; /* of their engine threads */
    bool json;
};

struct tool_table {
    bool open;
    uint32_t rows;
    const struct tool_column *columns;
};

struct tool {
    struct tool_options o;
    struct tool_config config;
    uint32_t rank;
    int child; /* of rank 0, -1: none */
    struct mt_socket socket;
    struct mt_rails rails;
    struct tool_table table;
};

struct tool_mode {
    const char *name, *help;
    bool alone; /* needs no second process */
    void (*run)(struct tool *t);
};

extern const struct tool_mode tool_modes[]; /* TOOL_MODES; the last has no name */

void tool_list(struct tool *t);
void tool_pingpong(struct tool *t);
void tool_bandwidth(struct tool *t);
void tool_registration(struct tool *t);
void tool_connections(struct tool *t);
void tool_rails(struct tool *t);
void tool_memory(struct tool *t);
void tool_datagrams(struct tool *t);
void tool_rendezvous(struct tool *t);

/* ---- session.c ---- */

/* Says what is wrong and ends this process with status 1. */
void tool_fail(const char *format, ...)
    __attribute__((noreturn, format(printf, 1, 2)));
/* ... unless status is MT_OK. */
void tool_check(enum mt_status status, const char *what);

/* Forks or connects, opens the rails; ends with status. */
void tool_start(struct tool *t);
int tool_stop(struct tool *t);

/* Both get what the other brought. */
void tool_swap(struct tool *t, const void *mine, void *theirs, size_t bytes);
void tool_meet(struct tool *t);

uint64_t tool_size(const struct tool *t, uint32_t i, const uint64_t *defaults,
                   uint32_t default_count); /* 0: there is no ith size */

/* A deadline that costs nothing until it is looked at for the 65536th time; its
 * time begins then. */
struct tool_wait {
    uint64_t until_ns;
    uint32_t turns;
};
/* Fails when the time is over, saying what did not come. */
void tool_wait_slow(const struct tool *t, struct tool_wait *w,
                    const char *what);
MT_INLINE void tool_wait(const struct tool *t, struct tool_wait *w,
                         const char *what)
{
    if (mt_unlikely(++w->turns % 65536 == 0)) {
        tool_wait_slow(t, w, what);
    }
}

uint64_t tool_now_ns(void);

/* ---- link.c ---- */

/* Memory of this side that the other may write. */
struct tool_memory {
    struct mt_fabric_mr *mr;
    char *at;
    uint64_t bytes;
    uint64_t remote_at;
    uint32_t remote_rkey;
    bool registered; /* mapped by this process, not by the device */
};
void tool_memory_open(struct tool *t, const struct mt_rail *rail,
                      uint64_t bytes, struct tool_memory *m);
/* The same for what is sent and received: as --buffers says. */
void tool_data_open(struct tool *t, const struct mt_rail *rail, uint64_t bytes,
                    struct tool_memory *m);
void tool_memory_close(struct tool_memory *m);

/* Queue pairs of the two ranks over one rail. */
struct mt_fabric_qp_options tool_rc_options(const struct mt_rail *rail,
                                            uint32_t depth);
void tool_connect(struct tool *t, const struct mt_rail *rail,
                  const struct mt_fabric_qp_options *options, uint32_t count,
                  struct mt_fabric_qp **qps);

/* Connects one queue pair that was made with receives posted. */
void tool_join_qp(struct tool *t, struct mt_fabric_qp *qp);

/* Completions, checked. */
uint32_t tool_poll(struct mt_fabric_cq *cq, struct mt_fabric_completion *c,
                   uint32_t limit);
/* When all queue pairs are destroyed: what is left of them, mostly flushed
 * receives, is nobody's. */
void tool_drain(struct tool *t);
struct mt_fabric_completion tool_next(struct tool *t, struct mt_fabric_cq *cq,
                                      const char *what);

/* Bytes that depend on place and seed. */
void tool_fill(void *memory, uint64_t bytes, uint64_t seed);
void tool_verify(const void *memory, uint64_t bytes, uint64_t seed,
                 const char *what);

/* The first and the last word of a message tell its number. */
void tool_stamp(char *at, uint64_t bytes, uint64_t number);
void tool_stamped(const char *at, uint64_t bytes, uint64_t number);

/* ---- stream.c ---- */

enum { TOOL_WINDOW = 128, TOOL_BATCH = 32 };

/* Messages over the first rails, both ways: puts with a notice (stripe.h), and
 * acknowledgements over a queue pair of their own (credits.h). */
struct tool_stream {
    uint32_t rails;
    struct mt_stripe out;
    struct mt_stripe_target in;
    struct mt_fabric_qp *qps[MT_RAILS], *control;
    struct mt_credits credits;
    struct tool_memory data; /* first half: sent from; second: written to */
    struct mt_fabric_mr *mrs[MT_RAILS]; /* the same for other devices */
    struct tool_memory flags[MT_RAILS];
    struct mt_stripe_memory from;
    struct mt_stripe_remote to;
    uint64_t acknowledged, seen, told; /* messages */
    struct mt_stripe_message messages[TOOL_WINDOW];
};

void tool_stream_open(struct tool *t, uint32_t rails, uint64_t bytes,
                      uint64_t threshold, struct tool_stream *s);
void tool_stream_close(struct tool *t, struct tool_stream *s);

enum tool_traffic { TOOL_UNI, TOOL_BI, TOOL_BOTH };

/* Bytes a second of count messages: one way until the last is acknowledged,
 * there and back in turn, or both ways at once (Qian 2010, 3.3). Data is
 * checked afterwards. */
double tool_stream_run(struct tool *t, struct tool_stream *s,
                       enum tool_traffic traffic, uint64_t bytes,
                       uint64_t count);

/* ---- sends.c ---- */

/* Messages of one length by SEND over the first rail, in a window. */
struct tool_sends {
    enum mt_fabric_transport transport;
    const struct mt_rail *rail;
    struct mt_fabric_qp *qp, *control;
    struct mt_fabric_ah *ah; /* of UD */
    struct mt_credits credits;
    struct tool_memory data; /* first half: sent from; second: received into */
    uint64_t bytes, slot_bytes;
    uint32_t headroom;
    uint32_t window; /* messages on their way, and receives posted */
    uint32_t slots;  /* places of messages: window, or 1 for all */
    bool inlines;
    /* of one run; messages have numbers from first on */
    uint64_t first, sent, acknowledged, seen, told;
    uint64_t skipped, told_skipped; /* lost, if they have not come */
    uint64_t posted;                /* SENDs that have not completed */
    uint64_t came;
    uint64_t last_slot;
    bool again; /* one came twice: the answer to it was lost */
};

/* What a run took, and how many messages came at both sides together. */
struct tool_sent {
    double seconds;
    uint64_t expected, came;
};

/* bytes: of UD from 8 to ud_payload. */
void tool_sends_open(struct tool *t, enum mt_fabric_transport transport,
                     uint64_t bytes, struct tool_sends *s);
void tool_sends_close(struct tool *t, struct tool_sends *s);

/* count messages, or count each way. Those that came are checked: their
 * numbers, and all of the last one. */
struct tool_sent tool_sends_run(struct tool *t, struct tool_sends *s,
                                enum tool_traffic traffic, uint64_t count);

/* ---- out.c ---- */

/* The median of batches, which are sorted: the first is then the least, what
 * other load leaves of them. */
double tool_median(double *batches, uint32_t count);

struct tool_column {
    const char *key;   /* in JSON, with the unit */
    const char *title; /* of the text */
    int decimals;      /* -1: the column holds text */
};

struct tool_cell {
    const char *text;
    double number;
};

void tool_table_begin(struct tool *t, const struct tool_column *columns);
void tool_row(struct tool *t, const struct tool_cell *cells);
void tool_table_end(struct tool *t);

#endif
