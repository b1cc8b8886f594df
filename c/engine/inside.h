/* inside.h: the engine's own structures, and what its files call of each other.
 *
 *   open.c      wire-up, the end, counts
 *   thread.c    progress while the program is elsewhere
 *   progress.c  completions, peers that are gone, the device if it is
 *   arrive.c    what a message from a peer means
 *   send.c      sends, and whatever else leaves for a peer
 *   ring.c      short messages by WRITE, for peers that send much
 *   eager.c     short messages straight from the program's memory
 *   reuse.c     ... whether that pays
 *   hold.c      several short messages that leave together
 *   connect.c   datagrams for peers that have no connection yet
 *   receive.c   receives, probes, the messages that they found
 *   match.c     contexts and their queues: who is matched with whom
 *   transfer.c  payload that is not copied at once
 *   rtr.c       receives that ask first
 *   usage.c     whether that pays
 *   lock.c      the lock of all this
 *   keeper.c    registrations that somebody else keeps
 *   choice.c    which way it goes, where the policy leaves that open
 *   trial.c     ... whether one way takes less time than another
 *   decisions.c ... as the segment and the ledger tell it
 *   verify.c    whether it arrives as it was sent
 *   layout.c    memory that is not contiguous
 *   wire.c      headers
 *
 * Everything is behind one lock. Who has it neither blocks nor calls out. */
#ifndef MPITRACE_ENGINE_INSIDE_H
#define MPITRACE_ENGINE_INSIDE_H

#include <pthread.h>
#include <time.h>

#include "../fabric/paths/credits.h"
#include "../fabric/paths/datagrams.h"
#include "../fabric/paths/demand.h"
#include "../fabric/paths/mesh.h"
#include "../fabric/paths/reads.h"
#include "../fabric/paths/ring.h"
#include "../include/engine.h"
#include "choice.h"
#include "lock.h"
#include "layout.h"
#include "reuse.h"
#include "rtr.h"
#include "wire.h"

/* Where a request is. */
enum mt_request_state {
    MT_REQUEST_IDLE = 0,  /* done */
    MT_REQUEST_POSTED,    /* a receive in the queue of its context */
    MT_REQUEST_PARKED,    /* a send to this process that nothing matched yet */
    /* In the queue of what leaves for a peer: what is to be sent. */
    MT_REQUEST_EAGER,
    MT_REQUEST_RTS,
    MT_REQUEST_DONE,
    MT_REQUEST_WRONG, /* the same, of a message that arrived wrong */
    MT_REQUEST_PULL,
    MT_REQUEST_FRAGMENTS,
    MT_REQUEST_CTS,
    MT_REQUEST_PUT, /* WRITEs, and then .. */
    MT_REQUEST_FIN,
    MT_REQUEST_FILLED, /* .. in place of FIN: by an RTR of the receiver */
    /* Waiting for a peer, by number. */
    MT_REQUEST_ANSWER,    /* a send: for DONE, or PULL */
    MT_REQUEST_COLLECT,   /* a receive: for FRAGMENTs, or FIN */
    /* Waiting for the device. */
    MT_REQUEST_READ,
    MT_REQUEST_WRITE,
};

/* What a request needs whose payload does not travel with its header, or that
 * the peer answers. */
struct mt_engine_transfer {
    struct mt_engine_transfer *next; /* free ones */
    struct mt_engine_request *request;
    uint64_t number; /* the peer calls it by this */
    struct mt_fabric_mr *mr;     /* its own, or .. */
    struct mt_fabric_mr kept_mr; /* borrowed of .. */
    const void *kept; /* .. the keeper's; NULL: of all memory */
    void *packed;       /* copy of what is not contiguous */
    uint64_t bytes;     /* that travel */
    uint64_t moved;     /* so far */
    struct mt_place place; /* of the latest fragment */
    uint64_t remote_number, remote_address;
    uint32_t remote_key;
    uint32_t writing; /* WRITEs that have not completed, or the message of a
                       * send that left straight */
    bool failed;      /* one of them, or the peer before them */
    bool offered;     /* they go where an RTR wants them */
    uint8_t way;      /* enum mt_wire_flag of its RTS */
    uint64_t check;   /* of a receive: see mt_wire_rest.answer */
    struct mt_read read;
};

/* One that arrived, and that no receive was posted for. In the list of its
 * source, and in the one of all sources. */
struct mt_engine_message {
    struct mt_engine_message *next, **link;
    struct mt_engine_message *all_next, **all_link;
    struct mt_engine_context *context;
    struct mt_engine_peer *peer;       /* NULL: this process */
    struct mt_engine_request *parked; /* its send, if the payload is there */
    bool taken;                       /* by a probe: in no queue */
    bool kept;                        /* for the next one, when it is free */
    struct mt_wire head;
    struct mt_wire_rest rest;
    char payload[]; /* of EAGER */
};

/* Queues of one source. A tail is where the next one is linked. */
struct mt_source {
    struct mt_engine_request *posted, **posted_tail;
    struct mt_engine_message *messages, **messages_tail;
};

struct mt_engine_context {
    struct mt_engine *engine;
    struct mt_engine_context *next; /* in the same bucket */
    uint32_t id, rank, size;
    bool open; /* false: nobody opened it yet, or it was closed */
    uint32_t *processes;
    uint32_t requests; /* that are under way */
    uint64_t receives; /* posted so far */
    struct mt_source *sources; /* by rank; NULL: it was never open */
    struct mt_source any;      /* receives from any source; all messages */
};

/* Sending straight from memory. */
struct mt_eager {
    struct mt_reuse reuse;
    struct mt_fabric_mr *implicit; /* all memory; NULL: the keeper is asked */
    uint64_t clock_ns; /* what reading the clock takes */
    uint32_t looked;   /* at the table, */
    uint32_t borrowed; /* and for a registration, so often */
    /* A wait that the next one may make up for. */
    uint64_t waited_ns; /* 0: there is none */
    uint64_t waited_site, waited_bytes;
    uint64_t idle_ns;   /* of the next one, so far, */
    uint64_t looked_ns; /* as of then; 0: it has not begun */
};

/* Messages that were sent by a ring one after the other (hold.c). */
struct mt_run {
    uint64_t sent_ns;  /* the latest message */
    uint64_t held_ns;  /* the oldest one that is held */
    uint32_t looks;    /* that there had been when it began */
    uint32_t length;   /* messages so far, */
    uint32_t busy;     /* of which so many came after a gap */
    uint32_t before;   /* the length of the one before it */
    uint32_t expected; /* how long it will be; 0: nobody knows */
    uint32_t pause;    /* runs without coalescing to come */
    uint32_t longer;   /* how many they were at first, the last time */
};

/* Rings between this process and a peer, one for each direction. */
struct mt_engine_ring {
    struct mt_engine_peer *peer;
    struct mt_path_ring_writer out; /* no memory: it did not offer one */
    struct mt_path_ring_reader in;  /* no memory: it was not offered one */
    bool offers, accepts;           /* what it is to be told yet */
    struct mt_wire_cache sent, came;
    /* Messages that came by SEND and wait for what lies in the ring: so many, from the
     * first one on, in a circle of as many as there are receives. */
    struct mt_credits_message *early;
    uint32_t early_first, early_count;
    struct mt_run run;
    bool holds; /* in the list of those that hold messages back, or did */
    struct mt_engine_ring *holds_next;
};

/* To a peer that datagrams come first to. */
enum mt_connection {
    MT_CONNECTION_NONE = 0,
    MT_CONNECTION_WANTED,  /* of either, and on its way */
    MT_CONNECTION_MADE,    /* both are known to be connected */
};

struct mt_engine_peer {
    struct mt_engine *engine;
    uint32_t process;
    bool ended;
    bool busy; /* in the list of peers that progress looks at */
    struct mt_engine_peer *busy_next;
    bool datagrams; /* what leaves for it goes by them yet */
    enum mt_connection connection;
    uint32_t connect_after; /* messages that were sent to it */
    struct mt_fabric_qp *qp; /* NULL: no connection */
    struct mt_credits credits;
    struct mt_reads reads;
    uint32_t writing;       /* of its transfers */
    uint64_t sent;    /* messages; the lower half is the sequence of the last one */
    uint32_t arrived; /* sequence of the last message */
    bool greeted, greets; /* of these one, either way, was before all others */
    bool offered;           /* a ring, or there was none left */
    struct mt_engine_ring *ring; /* NULL: it has not sent much, nor did we */
    uint32_t shunned; /* ways to it that are not used any more, 1 << way */
    uint64_t check;   /* of the next message from it, see mt_wire_rest */
    struct mt_engine_request *leaving, **leaving_tail;
    struct mt_rtr *rtr; /* NULL: no RTR was exchanged with it */
};

enum {
    MT_ENGINE_BUCKETS = 256,
    MT_MUCH = 1 << 20, /* bytes in one work request */
    MT_ENGINE_RINGS = 32, /* that a process polls, at most */
};

enum mt_sleep {
    MT_AWAKE = 0,
    MT_ASLEEP, /* nobody depends on the thread, or who does waits himself */
    MT_CALLED, /* somebody does, and has woken it or set its timer */
};

/* Which events the thread waits for. */
enum mt_waiting {
    MT_WAITING_NOT = 0,
    MT_WAITING_SOLICITED, /* of what a peer wants to be noticed */
    MT_WAITING_ALL,       /* and of anything that completes */
};

struct mt_engine {
    struct mt_engine_options o;
    struct mt_engine_keeper keeper; /* get NULL: there is none */
    struct mt_lock lock; /* of all that is not said to be without it */
    bool forgotten;
    bool reads, writes; /* the devices have them */
    uint64_t ring_bytes; /* of each; 0: none, the same on all processes */
    struct mt_engine_ring *rings[MT_ENGINE_RINGS]; /* those that are polled */
    uint32_t ring_count, ring_turn;
    uint32_t ring_first; /* which is polled first the next time */
    uint32_t ring_skips; /* rounds in which all receives had their messages already */
    bool rings_owe; /* of one a quarter was read, which its writer was not told */
    struct mt_engine_ring *holding; /* both are read without the lock */
    uint32_t looks;                 /* of mt_engine_look */
    uint64_t hold_gap_ns;           /* between messages of a run, and that one is
                                     * held, at most; 0: none is */
    uint32_t process, processes;
    struct mt_engine_peer *peers; /* by process; peers[process] is not used */
    struct mt_engine_peer **by_qp; /* hash by number of queue pair */
    uint32_t by_qp_mask;
    struct mt_engine_peer *busy;
    uint32_t busy_count;    /* read without the lock, as pending */
    uint32_t pending;       /* requests that are not done, and .. */
    uint32_t posted;        /* .. those of them that wait for a message */
    struct mt_engine_context *contexts[MT_ENGINE_BUCKETS];
    struct mt_engine_message *messages_free; /* of those that are kept, by next */
    uint32_t messages_kept;
    struct mt_engine_context nowhere;   /* of receives of the engine's own, .. */
    struct mt_engine_discard *discards; /* .. which are these */
    uint32_t discarded; /* messages whose senders waited, not told yet */
    struct mt_engine_transfer **transfers; /* by the lower half of a number */
    uint32_t transfer_count, transfer_room, transfer_turn;
    struct mt_engine_transfer *transfers_free;
    struct mt_engine_counts counts;
    struct mt_choices choices[MT_ENGINE_TRIALS]; /* where the policy leaves it
                                                  * open */
    uint32_t receives; /* begun; may wrap */
    struct mt_eager *eager;  /* NULL: all short messages are copied, and .. */
    const char *eager_off;   /* .. this is why; or they are for now */
    uint64_t opened_ns;
    uint32_t unchecked; /* messages since the last with a checksum */
    uint64_t max_work; /* bytes of a READ or WRITE */
    bool moved_much;   /* a long one was posted, which took time under the lock
                        * where the process moves data itself */
    uint32_t message_bytes; /* longest one, with headers */
    /* of the device */
    struct mt_fabric_context *device;
    bool device_lost; /* and all peers with it; read without the lock */
    uint32_t idle_turns;
    struct mt_fabric_pd *pd;
    struct mt_rails rails;
    struct mt_mesh mesh; /* or, where datagrams come first: */
    struct mt_datagrams datagrams;
    struct mt_demand demand;
    uint32_t connections; /* made, or wanted */
    /* thread.c */
    uint32_t rounds;  /* of progress, by anybody else */
    uint32_t spins;   /* of mt_engine_spin */
    uint32_t sleep;   /* enum mt_sleep */
    bool listens;     /* .. and events of the device wake it, too */
    bool patient;     /* calls of the thread are in vain: the program comes back */
    uint32_t rounds_called; /* rounds, when it was called */
    uint32_t attended; /* calls that wait, and go on with whatever there is */
    uint32_t closing;  /* 1: it shall end */
    int wake_fd, timer_fd;
    enum mt_waiting waiting; /* under the lock, all three */
    bool noted; /* mt_thread_note: before the lock is given back */
    bool polls; /* the thread waits for an event, and for nothing else */
    struct mt_fabric_channel *channel; /* NULL: no events */
    bool has_thread;
    pthread_t thread;
};

/* ---- lock, and who sleeps (thread.c) ---- */

void mt_thread_call(struct mt_engine *engine);
void mt_thread_noted(struct mt_engine *engine);

/* By the program, in what it calls for each message; all else is from aside. */
MT_INLINE void mt_engine_lock(struct mt_engine *engine)
{
    mt_lock_take(&engine->lock);
}

MT_INLINE void mt_engine_lock_aside(struct mt_engine *engine)
{
    mt_lock_take_aside(&engine->lock);
}

MT_INLINE uint32_t mt_engine_owes(const struct mt_engine *engine)
{
    bool holds = __atomic_load_n(&engine->holding, __ATOMIC_RELAXED) != NULL;
    return __atomic_load_n(&engine->pending, __ATOMIC_RELAXED) +
           __atomic_load_n(&engine->busy_count, __ATOMIC_RELAXED) + holds;
}

/* NULL: there are no events, or none come any more. */
MT_INLINE struct mt_fabric_channel *
mt_engine_channel(const struct mt_engine *engine)
{
    return __atomic_load_n(&engine->device_lost, __ATOMIC_RELAXED)
               ? NULL
               : engine->channel;
}

/* Whether somebody depends on the thread that sleeps. Who has posted a receive does
 * not where the event of its message wakes it. */
MT_INLINE bool mt_engine_calls(const struct mt_engine *engine)
{
    uint32_t posted = __atomic_load_n(&engine->listens, __ATOMIC_RELAXED)
                          ? __atomic_load_n(&engine->posted, __ATOMIC_RELAXED)
                          : 0;
    return __atomic_load_n(&engine->attended, __ATOMIC_RELAXED) == 0 &&
           mt_engine_owes(engine) > posted;
}

/* At the end of what is done under the lock. True: the thread is to be called, once it
 * was given back: who goes to sleep has it behind this one, or had it before. */
MT_INLINE bool mt_engine_leaves(struct mt_engine *engine)
{
    if (mt_unlikely(engine->noted)) {
        mt_thread_noted(engine);
    }
    bool asleep =
        __atomic_load_n(&engine->sleep, __ATOMIC_RELAXED) == MT_ASLEEP;
    return mt_unlikely(asleep) && mt_engine_calls(engine);
}

MT_INLINE void mt_engine_unlock(struct mt_engine *engine)
{
    bool calls = mt_engine_leaves(engine);
    mt_lock_give(&engine->lock);
    if (mt_unlikely(calls)) {
        mt_thread_call(engine);
    }
}

MT_INLINE void mt_engine_unlock_aside(struct mt_engine *engine)
{
    bool calls = mt_engine_leaves(engine);
    mt_lock_give_aside(&engine->lock);
    if (mt_unlikely(calls)) {
        mt_thread_call(engine);
    }
}

MT_INLINE uint64_t mt_engine_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Of a message with this buffer. */
MT_INLINE const struct mt_engine_terms *
mt_terms(const struct mt_engine *engine, const struct mt_buffer *buffer)
{
    return mt_unlikely(buffer->terms != NULL) ? buffer->terms
                                              : &engine->o.terms;
}

MT_INLINE bool mt_terms_eager(const struct mt_engine *engine,
                              const struct mt_buffer *buffer)
{
    return buffer->bytes <= engine->o.terms.eager_limit &&
           (mt_likely(buffer->terms == NULL) ||
            buffer->bytes <= buffer->terms->eager_limit);
}

/* Counters that are read without the lock. */
MT_INLINE void mt_engine_add(uint32_t *counter, int32_t by)
{
    __atomic_store_n(counter, *counter + (uint32_t)by, __ATOMIC_RELAXED);
}

/* ---- match.c ---- */

/* The context of this id; unknown: one that is not open, NULL: no memory. */
struct mt_engine_context *mt_context_get(struct mt_engine *engine, uint32_t id);
/* Frees it if nothing needs it any more. */
void mt_context_put(struct mt_engine_context *context);
void mt_contexts_free(struct mt_engine *engine);

/* Whether this rank of it is this process. */
bool mt_context_has(const struct mt_engine_context *context, uint32_t rank,
                    uint32_t process);

/* Takes out the receive that a message matches, NULL: none is posted. */
struct mt_engine_request *mt_match_arrival(struct mt_engine_context *context,
                                           uint32_t source, int32_t tag);
/* Finds the message that a receive or probe matches, NULL: none is here. */
struct mt_engine_message *
mt_match_receive(const struct mt_engine_context *context, int32_t source,
                 int32_t tag);
void mt_posted_add(struct mt_engine_context *context,
                   struct mt_engine_request *request);
void mt_posted_remove(struct mt_engine_request *request);
/* Of one that names its source and tag and was added last: whether all receives
 * ahead of it that may match its message have asked for it, or would have, if
 * silent; and how many they are. False also if there are too many. */
bool mt_posted_ahead(const struct mt_engine_request *request, bool silent,
                     uint32_t *ahead_p);
/* A message for a context that is not open waits in the list of all only. */
void mt_message_add(struct mt_engine_context *context,
                    struct mt_engine_message *message);
void mt_message_remove(struct mt_engine_message *message);
/* Ends receives that name this process. */
void mt_posted_end(struct mt_engine *engine, uint32_t process);
/* Ends receives from any source where there are other processes. */
void mt_posted_end_any(struct mt_engine *engine);

/* ---- requests (receive.c) ---- */

MT_INLINE bool mt_buffer_right(const struct mt_buffer *b)
{
    return b->bytes == 0 || b->layout == NULL || b->layout->size > 0;
}

/* Of a receive or probe. */
MT_INLINE bool mt_names_right(const struct mt_engine_context *context,
                              int32_t source, int32_t tag)
{
    return source >= MT_ENGINE_ANY && tag >= MT_ENGINE_ANY &&
           (source < 0 || (uint32_t)source < context->size);
}

void mt_request_begin(struct mt_engine_context *context,
                      struct mt_engine_request *request,
                      const struct mt_buffer *buffer);
/* It is one more of its context and size, which choose the way between them. True:
 * by what is tried. */
bool mt_request_choose(struct mt_engine_request *request,
                       enum mt_engine_tried what);
/* Those that follow are not chosen for, for a while: the time until then is no measure of
 * the few that were. */
void mt_request_halt(const struct mt_engine_request *request,
                     enum mt_engine_tried what);
/* Done: the caller of the engine may have taken it back when this returns. */
void mt_request_end(struct mt_engine_request *request, enum mt_status status);
/* The same, once the device has no work of it any more. */
void mt_request_wait(struct mt_engine_request *request, enum mt_status status);
/* The same without a word: it was not started. */
void mt_request_forget(struct mt_engine_request *request);
/* A receive gets a message of this process. */
void mt_receive_self(struct mt_engine_request *receive,
                     const struct mt_wire *head,
                     struct mt_engine_request *send);
/* It has got its message: tells the sender, by its number of it; 0: only if it
 * arrived wrong. */
void mt_receive_thank(struct mt_engine_request *request, uint64_t number);
/* ... of a peer; payload: of an EAGER one. */
void mt_receive_begin(struct mt_engine_request *request,
                      struct mt_engine_peer *peer, const struct mt_wire *head,
                      const struct mt_wire_rest *rest, const void *payload);

/* ---- what leaves (send.c) ---- */

/* Sends what the request's state says, now or in turn. */
void mt_leave(struct mt_engine_peer *peer, struct mt_engine_request *request);
/* What waits, as far as it goes. False: something is left. */
bool mt_leave_flush(struct mt_engine_peer *peer);
void mt_leave_remove(struct mt_engine_request *request);
/* A message of no request, at once or not at all. */
enum mt_status mt_leave_note(struct mt_engine_peer *peer,
                             const struct mt_wire *head,
                             const struct mt_wire_rest *rest,
                             const void *payload, uint32_t payload_bytes);

/* ---- by datagrams or connection (connect.c) ---- */

MT_INLINE bool mt_datagrams_first(const struct mt_engine *engine)
{
    return mt_unlikely(engine->o.datagrams.first);
}

/* Whether READs and WRITEs may be used, and messages that tell of memory. */
MT_INLINE bool mt_peer_connected(const struct mt_engine_peer *peer)
{
    return mt_likely(!peer->datagrams) ||
           peer->connection == MT_CONNECTION_MADE;
}

enum mt_status mt_connect_reserve(struct mt_engine_peer *peer, void **place_p);
enum mt_status mt_connect_commit(struct mt_engine_peer *peer, uint32_t count,
                                 uint32_t flags);

/* What is held back in its ring leaves (ring.c). False: not all of it now. */
bool mt_ring_release(struct mt_engine_peer *peer);

/* As of credits.h, by whichever way messages leave for a peer now. */
MT_INLINE enum mt_status mt_channel_reserve(struct mt_engine_peer *peer,
                                            void **place_p)
{
    if (mt_unlikely(peer->ring != NULL && peer->ring->out.held > 0) &&
        !mt_ring_release(peer)) {
        return MT_EAGAIN;
    }
    return mt_unlikely(peer->datagrams)
               ? mt_connect_reserve(peer, place_p)
               : mt_credits_reserve(&peer->credits, place_p);
}

MT_INLINE enum mt_status mt_channel_commit(struct mt_engine_peer *peer,
                                           uint32_t count, uint32_t flags,
                                           const struct mt_path_rest *rest)
{
    return mt_unlikely(peer->datagrams)
               ? mt_connect_commit(peer, count, flags)
               : mt_credits_commit(&peer->credits, count, flags, rest);
}

/* A CONNECT came. */
enum mt_status mt_connect_heard(struct mt_engine_peer *peer,
                                const struct mt_wire_message *message);
/* Of kind MT_PATH_PACKET or MT_PATH_PACKET_IN. */
void mt_connect_completion(struct mt_engine *engine,
                           const struct mt_fabric_completion *c);
/* What is due to a peer. True: something is left. */
bool mt_connect_serve(struct mt_engine_peer *peer);
/* When that has to be called at the latest (mt_path_now_ns). */
uint64_t mt_connect_due(const struct mt_engine *engine);
void mt_connect_end(struct mt_engine_peer *peer);
/* How deep completion queues must be for datagrams. */
uint32_t mt_connect_sends(const struct mt_engine *engine);
uint32_t mt_connect_receives(void);

enum {
    MT_OPEN_MS = 60000, /* until a peer has come, which may be stopped */
    MT_MESH_MS = 20000, /* when all are there: TCP asks 1, 3, 7 and 15 s later again */
};

/* Collective. rc: of each connection. */
enum mt_status mt_connect_open(struct mt_engine *engine,
                               const struct mt_fabric_qp_options *rc);
/* Sends a few others something, and waits for them, and for what others send: MT_EAGAIN:
 * not long, and somebody has not answered; MT_EPEER: somebody does not, until end_ns. */
enum mt_status mt_connect_greet(struct mt_engine *engine);
enum mt_status mt_connect_await(struct mt_engine *engine, uint64_t end_ns);
void mt_connect_close(struct mt_engine *engine);
/* The queue pair of a peer is found by its number, and has what it needs before
 * the peer sends (open.c). */
void mt_peer_enter(struct mt_engine_peer *peer);
enum mt_status mt_peer_prepare(struct mt_engine_peer *peer);

/* ---- messages that are held back (hold.c) ---- */

/* With the device open. */
void mt_hold_open(struct mt_engine *engine);
/* Whether a message of so many bytes, with its header, waits for the next ones. */
bool mt_hold_wants(struct mt_engine_ring *ring, uint64_t bytes);
/* The thread looks for what is held from now on (thread.c). */
void mt_thread_watches(struct mt_engine *engine);
/* It was sent, or is held. */
void mt_hold_sent(struct mt_engine_ring *ring, bool held);
/* All that are held leave. */
void mt_hold_end(struct mt_engine *engine);
/* The same for the thread: those that the program has left for long. True: others
 * are held. */
bool mt_hold_late(struct mt_engine *engine, uint64_t now_ns);

/* A receive that only has to tell that it has got its message. */
MT_INLINE bool mt_leave_thanks(const struct mt_engine_request *request)
{
    return request->state == MT_REQUEST_DONE ||
           request->state == MT_REQUEST_WRONG;
}

/* ---- straight from memory (eager.c) ---- */

/* What there is to do before the queue pairs are made, with the device open, and
 * at the end. */
void mt_eager_open(struct mt_engine *engine);
void mt_eager_close(struct mt_engine *engine);
/* The keeper is another one. */
void mt_eager_keeper(struct mt_engine *engine);
/* A short send begins: it may get a transfer, whose registration it leaves by. */
void mt_eager_choose(struct mt_engine_request *request);
/* Its payload, where it is copied. */
void mt_eager_copy_timed(struct mt_engine_request *request, void *to);
MT_INLINE void mt_eager_copy(struct mt_engine_request *request, void *to)
{
    if (mt_unlikely(request->timed != 0)) {
        mt_eager_copy_timed(request, to);
    } else {
        mt_layout_pack(&request->buffer, 0, to, request->buffer.bytes, NULL);
    }
}
/* The payload behind its header. */
struct mt_path_rest mt_eager_rest(const struct mt_engine_request *request);
/* Its message is posted. */
void mt_eager_posted(struct mt_engine_request *request);
/* The value of a message that has completed; 0: it was a copy. */
void mt_eager_left(uint64_t value, enum mt_status status);

/* Somebody looks whether anything has come; before the round, and after it. */
void mt_eager_idles(struct mt_engine *engine);
void mt_eager_moved(struct mt_engine *engine);

/* May be asked without the lock. */
MT_INLINE bool mt_eager_waited(const struct mt_engine *engine)
{
    return mt_unlikely(engine->eager != NULL) &&
           __atomic_load_n(&engine->eager->waited_ns, __ATOMIC_RELAXED) != 0;
}

MT_INLINE bool mt_eager_straight(const struct mt_engine_request *request)
{
    return request->state == MT_REQUEST_EAGER && request->transfer != NULL &&
           request->transfer->mr != NULL;
}

/* ---- transfers (transfer.c) ---- */

/* NULL: no memory. */
struct mt_engine_transfer *mt_transfer_new(struct mt_engine_request *request);
void mt_transfer_free(struct mt_engine_transfer *transfer);
/* NULL: nobody of this peer's is called so. */
struct mt_engine_transfer *mt_transfer_find(struct mt_engine_peer *peer,
                                            uint64_t number);
void mt_transfers_free(struct mt_engine *engine);
/* Memory of the payload that a device can reach: that of the request, or a
 * packed copy. */
enum mt_status mt_transfer_register(struct mt_engine_transfer *transfer,
                                    uint32_t access);
/* A long send: lets the peer read the payload, or makes it ready to be written.
 * Where that cannot be it is left to fragments. */
void mt_transfer_expose(struct mt_engine_transfer *transfer);
/* A receive of it: READs, or asks for it. */
void mt_transfer_fetch(struct mt_engine_transfer *transfer);
/* The next WRITE of a send. MT_EAGAIN: not now. */
enum mt_status mt_transfer_put(struct mt_engine_transfer *transfer);
/* Payload that was written, or read, is in the buffer of its receive. */
void mt_transfer_land(struct mt_engine_transfer *transfer);
/* Adds it to the counts of its way, or takes it away again. */
void mt_transfer_count(struct mt_engine_transfer *transfer, int by);
/* A receive whose sender waits for nothing has all its payload. */
void mt_transfer_whole(struct mt_engine_transfer *transfer,
                       enum mt_engine_way way);
/* A WRITE is done. */
void mt_transfer_written(struct mt_engine_transfer *transfer,
                         enum mt_status status);
/* A READ is done. */
void mt_transfer_read(struct mt_engine_transfer *transfer,
                      enum mt_status status);

/* ---- registered memory (keeper.c) ---- */

/* Contiguous payload gets a registration that is kept. False: there is none. */
bool mt_transfer_borrow(struct mt_engine_transfer *transfer, uint64_t bytes);
/* Whosever it is. */
void mt_transfer_unregister(struct mt_engine_transfer *transfer);

/* ---- rtr.c ---- */

/* Whether a long receive asks, if it can, by its policy or what was found out. */
bool mt_rtr_wanted(struct mt_engine_request *request);
/* One that was posted asks, if it may. */
void mt_rtr_ask(struct mt_engine_request *request);
/* Its message came, and not by the RTR. Keeps its transfer for an RTS. */
void mt_rtr_settle(struct mt_engine_request *request,
                   const struct mt_wire *head, uint64_t bytes);
/* A receive that asked is to be taken back. */
void mt_rtr_cancel(struct mt_engine_request *request);
/* An RTS that is about to leave becomes WRITEs if there is an RTR for it. */
void mt_rtr_take(struct mt_engine_request *request);
/* A message of an envelope left. */
void mt_rtr_left(struct mt_engine_peer *peer, uint32_t context, int32_t tag);
/* REVOKE and REVOKED that are due. False: something is left. */
bool mt_rtr_flush(struct mt_engine_peer *peer);

/* What arrives. */
enum mt_status mt_rtr_arrive(struct mt_engine_peer *peer,
                             const struct mt_wire_message *message);
enum mt_status mt_rtr_filled(struct mt_engine_transfer *transfer,
                             uint64_t bytes);
enum mt_status mt_rtr_revoke(struct mt_engine_peer *peer, uint64_t number);
enum mt_status mt_rtr_revoked(struct mt_engine_peer *peer, uint64_t number);

/* ---- verification (verify.c) ---- */

/* struct mt_engine_request, of a send. */
enum mt_check {
    MT_CHECK_NONE = 0,
    MT_CHECK_DUE,
    MT_CHECK_SUMMED, /* and did not find room to leave yet */
    MT_CHECK_SENT, /* its message must follow */
};

/* A send begins: perhaps it is to have a checksum. */
void mt_verify_sample(struct mt_engine_request *request);
/* Sends it. MT_EAGAIN: not now. */
enum mt_status mt_verify_announce(struct mt_engine_request *request);
/* Its payload is in the buffer of its receive: is it what was sent? */
void mt_verify_arrived(struct mt_engine_request *request,
                       enum mt_engine_way way, uint64_t check);
/* A peer says that a message of ours arrived wrong. False: it makes no sense. */
bool mt_verify_shun(struct mt_engine_peer *peer, uint64_t way);

MT_INLINE bool mt_verify_shuns(const struct mt_engine_peer *peer,
                               enum mt_engine_way way)
{
    return mt_unlikely((peer->shunned & 1U << way) != 0);
}

/* ---- peers (progress.c) ---- */

/* Progress has to look at it. */
void mt_peer_busy(struct mt_engine_peer *peer);
/* It is gone, or broke the protocol. */
void mt_peer_end(struct mt_engine_peer *peer);
/* Asks the device for what no completion says: whether it is lost. May enter the
 * kernel: for who found nothing to do for a while, and for the thread. */
void mt_device_look(struct mt_engine *engine);
/* Moves what can be moved, under the lock. True: something happened. */
bool mt_engine_round(struct mt_engine *engine);

/* ---- arrive.c ---- */

/* A message of a peer. Not MT_OK: it is not to be trusted any more, or there is
 * no memory. */
/* Takes what is ahead of a message that came by SEND, as long as receives wait. True: there
 * is more, so it may wait until it is its turn, for nobody waits for it. */
bool mt_arrive_early(struct mt_engine_peer *peer, const void *bytes,
                     uint32_t count);
/* A message that came by SEND, and its receive is posted again. */
enum mt_status mt_mail_arrive(struct mt_engine_peer *peer,
                              const struct mt_credits_message *message);
enum mt_status mt_arrive(struct mt_engine_peer *peer, const void *bytes,
                         uint32_t count);
/* One that lies in its ring. MT_EAGAIN: another one comes before it. */
enum mt_status mt_arrive_ring(struct mt_engine_peer *peer, const void *bytes,
                              uint32_t count);
/* A message that no receive was posted for (receive.c), with room for so much
 * payload; NULL: no memory. */
struct mt_engine_message *
mt_message_new(struct mt_engine_context *context, struct mt_engine_peer *peer,
               const struct mt_wire *head, const struct mt_wire_rest *rest,
               uint64_t payload);
void mt_message_free(struct mt_engine *engine,
                     struct mt_engine_message *message);
/* Those that were kept for the next ones. */
void mt_messages_free(struct mt_engine *engine);
/* Forgets a message whose send is cancelled. False: a probe has it. */
bool mt_message_cancel(struct mt_engine_message *message);
/* Receives a message into nothing. False: there is no memory for that. */
bool mt_message_discard(struct mt_engine_message *message);
/* Frees what that took, as far as it is done. */
void mt_discards_free(struct mt_engine *engine);

/* ---- thread.c ---- */

enum mt_status mt_thread_start(struct mt_engine *engine);
void mt_thread_stop(struct mt_engine *engine);

/* Something began that will go on by events which the thread does not wait for yet, but
 * will when the lock is given back: a READ, a WRITE, a message without a credit. */
MT_INLINE void mt_thread_note(struct mt_engine *engine)
{
    engine->noted =
        engine->noted || mt_unlikely(engine->waiting == MT_WAITING_SOLICITED);
}

#endif
