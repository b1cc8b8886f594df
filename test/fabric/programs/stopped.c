/* stopped.c: the other process does not run any more, but its kernel still takes
 * what is sent, until its buffers and ours are full. Then it goes on, or is
 * killed. */
#include <signal.h>
#include <unistd.h>

#include "harness.h"

enum {
    BYTES = 4000,
    SLOTS = 64,
    MOST = 20000,
    QUIET_MS = 200,
    QUIET_TURNS = 200, /* time alone passes without this process too */
};

/* The provider alone decides when it has enough: a device that reaches the
 * memory of a process that does not run never has. */
struct stream {
    uint64_t posted, done;
    enum mt_status first_wrong;
};

static void take(struct side *s, struct stream *w)
{
    struct mt_fabric_completion c;
    if (took(s->send_cq, &c)) {
        w->done++;
        if (w->first_wrong == MT_OK) {
            w->first_wrong = c.status;
        }
        CHECK(c.status == MT_OK || c.status == MT_EPEER ||
              c.status == MT_EFLUSHED);
    }
}

static struct mt_fabric_send write_of(const struct mt_fabric_piece *p,
                                      struct remote there, uint64_t slot)
{
    return (struct mt_fabric_send){.opcode = MT_FABRIC_WRITE,
                                   .flags = MT_FABRIC_SIGNALED,
                                   .piece_count = 1,
                                   .pieces = p,
                                   .remote_address = there.address +
                                                     slot * BYTES,
                                   .rkey = there.rkey};
}

/* Until nothing moves any more, or so many are posted. */
static void pour(struct side *s, struct stream *w, const struct mt_fabric_mr *mr,
                 struct remote there, uint64_t most, unsigned quiet_ms)
{
    uint64_t quiet_since = now_ms(), turns = 0;
    while ((now_ms() - quiet_since < quiet_ms || turns++ < QUIET_TURNS) &&
           w->posted < most) {
        uint64_t slot = w->posted % SLOTS, done = w->done;
        struct mt_fabric_piece p = piece(mr, slot * BYTES, BYTES);
        struct mt_fabric_send work = write_of(&p, there, slot);
        enum mt_status status = mt_fabric_post_send(s->qp, &work);
        waiting(s);
        CHECK(status == MT_OK || status == MT_EAGAIN);
        w->posted += status == MT_OK;
        take(s, w);
        if (status == MT_OK || w->done > done) {
            quiet_since = now_ms();
            turns = 0;
        }
    }
}

static void await_all(struct side *s, struct stream *w)
{
    while (w->done < w->posted) {
        waiting(s);
        take(s, w);
    }
}

/* The one that asks where all has arrived. */
static enum mt_status read_back(struct side *s, const struct mt_fabric_mr *mr,
                                struct remote there)
{
    struct mt_fabric_piece p = piece(mr, SLOTS * BYTES, 8);
    struct mt_fabric_send work = {.opcode = MT_FABRIC_READ,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p,
                                  .remote_address = there.address,
                                  .rkey = there.rkey};
    post(s, s->qp, &work);
    return next(s, s->send_cq).status;
}

static void stop_and(struct side *s, bool dies)
{
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, SLOTS * BYTES + 8);
    struct remote there = remote_of(s, mr);
    pid_t mine = getpid(), other;
    swap(s, &mine, &other, sizeof(mine));
    if (s->rank == 1) {
        meet(s); /* stopped in there, and continued or not */
        CHECK(filled(mr->address, SLOTS * BYTES, 8));
        meet(s);
        release(mr);
        side_close(s);
        return;
    }
    struct stream w = {0, 0, MT_OK};
    fill(mr->address, SLOTS * BYTES, 8);
    CHECK(kill(other, SIGSTOP) == 0);
    pour(s, &w, mr, there, MOST, QUIET_MS);
    /* a stream of bytes was full, then: nobody took them out */
    CHECK(s->caps->waits_for_receive || w.posted > w.done);
    happens();
    CHECK(kill(other, dies ? SIGKILL : SIGCONT) == 0);
    if (dies) {
        char rest; /* of what it said; then it is gone */
        while (read(s->wire, &rest, 1) > 0) {
        }
    } else { /* each place at least once */
        pour(s, &w, mr, there, SLOTS, (unsigned)s->setting->limit_ms);
    }
    await_all(s, &w);
    if (dies) {
        /* the kernel may close the wire before it closes the device */
        uint64_t until = now_ms() + s->setting->limit_ms;
        while (w.first_wrong == MT_OK) {
            CHECK(now_ms() < until);
            w.first_wrong = read_back(s, mr, there);
        }
        noticed("the death of one that was stopped", death_ms(s));
        release(mr);
        side_close_alone(s);
        return;
    }
    EQ(w.first_wrong, MT_OK);
    EQ(read_back(s, mr, there), MT_OK);
    meet(s);
    meet(s);
    release(mr);
    side_close(s);
}

static void stopped(struct side *s)
{
    stop_and(s, false);
}

static void stopped_killed(struct side *s)
{
    stop_and(s, true);
}

static const char *needs_reads(const struct mt_fabric_caps *caps)
{
    return (caps->rc_operations & MT_FABRIC_READ) != 0 ? "" : "READ";
}

const struct test tests_stopped[] = {
    {"peer stopped while it is written to", stopped, needs_reads},
    {"peer stopped and killed", stopped_killed, needs_reads},
    {NULL, NULL, NULL},
};
