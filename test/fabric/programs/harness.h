/* harness.h: two processes with a queue pair between them, and what a test needs
 * to say that something is wrong. Each test runs in two processes made by fork,
 * joined by a socket for wire-up; it ends within its time or fails. */
#ifndef MPITRACE_TEST_FABRIC_HARNESS_H
#define MPITRACE_TEST_FABRIC_HARNESS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../c/include/fabric.h"

/* What a test is run with. */
struct setting {
    const char *device;
    struct mt_fabric_options options;
    uint64_t seed;
    uint64_t operations; /* of random tests */
    uint64_t queue_pairs; /* where there are many: 1,000 at most */
    uint64_t limit_ms;   /* for any wait in which nothing moves */
};

/* One side. */
struct side {
    const struct setting *setting;
    int rank; /* 0 or 1 */
    int wire; /* socket to the other */
    struct mt_fabric_context *context;
    const struct mt_fabric_caps *caps;
    struct mt_fabric_pd *pd;
    struct mt_fabric_channel *channel; /* NULL unless asked for */
    struct mt_fabric_cq *send_cq, *receive_cq;
    struct mt_fabric_qp *qp;
    /* send completions that post() had to take; next() gives them first */
    struct mt_fabric_completion taken[1024];
    uint32_t taken_head, taken_tail;
};

struct test {
    const char *name;
    void (*run)(struct side *side);
    /* "" to run, else which capability is missing */
    const char *(*missing)(const struct mt_fabric_caps *caps);
};

extern const struct test tests_messages[], tests_onesided[], tests_events[],
    tests_datagrams[], tests_errors[], tests_random[], tests_paths[],
    tests_life[], tests_demand[];
/* both sides on one host: they meet at its own address, or look at what the two
 * hold together */
extern const struct test tests_meeting[], tests_stress[], tests_stopped[];
/* they need a hand from outside, a namespace of their own, or a fault script, or
 * one that loses no datagram */
extern const struct test tests_apart[], tests_links[], tests_faults[],
    tests_faults_ud[], tests_fair[], tests_slow[];

#define FAIL(...) fail(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            FAIL("%s", #condition);                                            \
        }                                                                      \
    } while (0)
#define EQ(got, want)                                                          \
    do {                                                                       \
        long long got_ = (long long)(got), want_ = (long long)(want);          \
        if (got_ != want_) {                                                   \
            FAIL("%s is %lld, not %s = %lld", #got, got_, #want, want_);       \
        }                                                                      \
    } while (0)
#define OK(call)                                                               \
    do {                                                                       \
        enum mt_status status_ = (call);                                       \
        if (status_ != MT_OK) {                                                \
            FAIL("%s: %s", #call, mt_status_text(status_));                    \
        }                                                                      \
    } while (0)

void fail(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));

/* Ends a process of a test that went well. The test fails after all if memory was
 * lost, which a build under the address sanitizer can tell. */
void leave(void) __attribute__((noreturn));

uint64_t now_ms(void);

/* Time limits are for waits in which neither side gets anything done, so that a
 * loaded machine is not taken for a hang. What is done is counted, for both
 * sides together where both are ours; harness_open comes before they fork. */
void harness_open(void);
uint64_t moves(void);

/* A wait; zeroed to begin with. Asked again and again, idle_ms is how long nothing has
 * moved. Of the time between two questions a second counts at most: the clock of a
 * machine that was stopped as a whole goes on. */
struct idle {
    uint64_t seen, asked, ms;
    uint64_t times; /* asked since something moved */
};
uint64_t idle_ms(struct idle *idle);
void moved(void);
/* In a loop that waits: fails when nothing has moved for too long, and lets
 * others run now and then. */
void waiting(const struct side *s);

/* How long it takes until something is noticed. What is to be noticed happens now,
 * whichever process of this test will notice it; harness_begin forgets the one of
 * the test before. */
void harness_begin(void);
void happens(void);
/* It is noticed: prints after how long, and fails if that is longer than most_ms
 * (0: only prints). Of what happened where this process cannot know when, it says
 * nothing. */
void noticed(const char *what, uint64_t most_ms);
/* The most for a peer that was killed: 10 s where its kernel tells, which is more
 * than a loaded machine needs; a real device has its own time limits. */
uint64_t death_ms(const struct side *s);

/* For struct mt_fabric_options: prints, and remembers. */
void say(void *user, const char *text);
/* How often the fabric has said something with this in it, in this process. */
unsigned times_said(const char *part);

/* From here on two system calls (or one, twice) fail with this error, in this
 * process and its children. */
void refuse_calls(int first, int second, int error);

/* Both get what the other gave. */
void swap(struct side *s, const void *mine, void *theirs, size_t bytes);
void meet(struct side *s);
/* Receives are posted: the other may send. Where a SEND waits for its receive,
 * that needs no meeting. */
void ready(struct side *s);

/* Options that suit most tests. */
struct mt_fabric_qp_options rc_options(const struct side *s);
struct mt_fabric_qp_options ud_options(const struct side *s);

/* Opens the device, with a channel or without. */
void side_open(struct side *s, bool channel);
/* A connected queue pair in s->qp. */
void side_connect(struct side *s);
struct mt_fabric_qp *connect_with(struct side *s,
                                  const struct mt_fabric_qp_options *options);
/* A queue pair for datagrams, and a handle of the one that the other made. */
struct mt_fabric_ah *ud_connect(struct side *s, struct mt_fabric_qp **qp_p);
/* Its own queue pair: from here nothing is written to what its receives name. */
void side_qp_destroy(struct side *s);
void side_close(struct side *s);
/* ... without waiting for the other, which is gone. */
void side_close_alone(struct side *s);

/* Memory with bytes that depend on its place and a seed. */
void fill(void *memory, size_t bytes, uint64_t seed);
bool filled(const void *memory, size_t bytes, uint64_t seed);

struct mt_fabric_mr *registered(struct side *s, size_t bytes);
struct mt_fabric_mr *allocated(struct side *s, size_t bytes);
void release(struct mt_fabric_mr *mr); /* of registered: frees the memory, too */

struct mt_fabric_piece piece(const struct mt_fabric_mr *mr, size_t offset,
                             size_t bytes);

/* Remote memory, as its owner tells it. */
struct remote {
    uint64_t address;
    uint32_t rkey;
    uint32_t reserved;
};
struct remote remote_of(struct side *s, const struct mt_fabric_mr *mr);

void post_receive(struct side *s, struct mt_fabric_qp *qp, uint64_t id,
                  struct mt_fabric_piece p);
/* Posts; while the queue is full, takes completions of sends for next(). */
void post(struct side *s, struct mt_fabric_qp *qp,
          const struct mt_fabric_send *work);

/* Takes a completion, if there is one. */
bool took(struct mt_fabric_cq *cq, struct mt_fabric_completion *c);
/* The next completion, within the limit. */
struct mt_fabric_completion next(struct side *s, struct mt_fabric_cq *cq);
/* ... which must be right. */
struct mt_fabric_completion next_ok(struct side *s, struct mt_fabric_cq *cq);
/* Drives the provider for a while and demands that nothing completes. */
void quiet(struct side *s, struct mt_fabric_cq *cq, unsigned ms);

/* Sleeps on the channel until a queue has fired, NULL: not in that time. */
struct mt_fabric_cq *sleep_on(struct side *s, int ms);

/* For struct test. */
const char *needs_events(const struct mt_fabric_caps *caps);
const char *needs_ud(const struct mt_fabric_caps *caps);

/* xorshift64*: Vigna 2016. */
uint64_t random_next(uint64_t *state);

#endif
