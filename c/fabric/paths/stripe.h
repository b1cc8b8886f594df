/* stripe.h: messages over several rails (Qian 2010, 3.5). A message above a
 * threshold is split evenly over all rails; below it goes whole over one, taken
 * in turn. Each rail that carries a part of a message brings one notice
 * (put.h), and the message is there when all of them are.
 *
 * Which part goes where follows from the number of bytes and of messages so
 * far, so both sides work it out alike; the target must know the bytes. */
#ifndef MPITRACE_FABRIC_PATHS_STRIPE_H
#define MPITRACE_FABRIC_PATHS_STRIPE_H

#include "put.h"
#include "rails.h"

enum {
    MT_STRIPE_THRESHOLD = 1024, /* bytes; Qian 2010, 3.5 */
    MT_STRIPE_ALIGN = 64,       /* no line of a cache in two parts */
};

struct mt_stripe_part {
    uint32_t rail;
    uint64_t offset, bytes;
};

/* The parts of the message with this number (from 0). Returns how many: 1, or
 * one for each rail that gets something. */
uint32_t mt_stripe_plan(uint64_t bytes, uint32_t rails, uint64_t threshold,
                        uint64_t number, struct mt_stripe_part parts[MT_RAILS]);

/* A message on its way, lent by the caller until pending is 0 and the parts are
 * posted. */
struct mt_stripe_message {
    uint32_t part_count, posted, pending;
    enum mt_status status; /* the first that went wrong */
    struct mt_stripe_part parts[MT_RAILS];
};

/* Local memory as each rail knows it. */
struct mt_stripe_memory {
    char *address;
    uint32_t lkeys[MT_RAILS];
};

struct mt_stripe_remote {
    uint64_t address;
    uint32_t rkeys[MT_RAILS];
};

/* The side that puts: one opened mt_put for each rail. */
struct mt_stripe {
    uint32_t rails;
    uint64_t threshold;
    uint64_t messages; /* so far */
    struct mt_put puts[MT_RAILS];
};

/* Begins a message. MT_EAGAIN: not all of it could be posted;
 * mt_stripe_continue goes on, before another message begins. */
enum mt_status mt_stripe_put(struct mt_stripe *stripe,
                             struct mt_stripe_message *message,
                             const struct mt_stripe_memory *from,
                             const struct mt_stripe_remote *to, uint64_t bytes);
enum mt_status mt_stripe_continue(struct mt_stripe *stripe,
                                  struct mt_stripe_message *message,
                                  const struct mt_stripe_memory *from,
                                  const struct mt_stripe_remote *to);
/* Notices that had to wait. For the round of progress. */
enum mt_status mt_stripe_flush(struct mt_stripe *stripe);

/* A completion of kind MT_PATH_PUT or MT_PATH_PUT_DATA: counts it. */
void mt_stripe_done(const struct mt_fabric_completion *c);

/* The side that is put to. */
struct mt_stripe_target {
    uint32_t rails;
    uint64_t threshold;
    uint64_t messages;
    uint64_t expected[MT_RAILS]; /* sequence by rail */
    struct mt_put_target targets[MT_RAILS];
};

/* What must have come for a message to be there. */
struct mt_stripe_arrival {
    uint32_t count;
    struct {
        uint32_t rail;
        uint64_t sequence;
    } notices[MT_RAILS];
};

/* The next message, of so many bytes. */
void mt_stripe_expect(struct mt_stripe_target *target, uint64_t bytes,
                      struct mt_stripe_arrival *arrival_p);
bool mt_stripe_test(const struct mt_stripe_target *target,
                    const struct mt_stripe_arrival *arrival);

#endif
