/* engine.h: messages between the processes of a job, matched as MPI matches
 * them (MPI 4.1, 3.5), carried over a device of fabric.h. It knows ranks, tags
 * and contexts, and nothing of MPI's handles, types, statuses or functions: those
 * are the caller's (c/act/).
 *
 * Threads. Every function may be called from any thread; one lock of the
 * engine's serialises them. None blocks: who waits calls mt_engine_progress
 * until the request is done.
 *
 * Peers. A process that is gone, or that breaks the protocol, is done with for
 * good: requests that name it end with MT_EPEER, at once if they are new. A
 * receive from any source stays, whoever is left. A peer is also ended when there
 * is no memory to keep a message of its. A device that is lost (its driver says
 * so, at the latest when somebody has waited for a while) takes all peers with it,
 * and then receives from any source end, too, where there are others.
 *
 * Memory. A caller lends each struct mt_engine_request until it is done, and
 * the buffer behind it as long. Sending and receiving allocate only for what MPI
 * demands memory for: unexpected messages, and packed copies of what is not
 * contiguous. */
#ifndef MPITRACE_ENGINE_H
#define MPITRACE_ENGINE_H

#include "base.h"
#include "counts.gen.h"
#include "fabric.h"
#include "status.h"

struct mt_engine;
struct mt_engine_context;
struct mt_engine_message; /* one that a probe took out of the queues */

/* As a source or a tag of a receive or probe. Other tags are not negative. */
enum { MT_ENGINE_ANY = -1 };

/* ---- memory of a message ---- */

struct mt_block {
    int64_t offset; /* from the address of the element */
    uint64_t bytes;
};

/* How an element lies in memory; elements follow each other extent apart.
 * Blocks are in the order in which their bytes go into a message. */
struct mt_layout {
    const struct mt_block *blocks;
    uint32_t block_count;
    int64_t extent;
    uint64_t size; /* sum of the blocks' bytes */
};

struct mt_buffer {
    void *address;
    const struct mt_layout *layout; /* NULL: contiguous */
    uint64_t bytes;                 /* of payload; a multiple of layout->size */
    uint64_t site; /* of a send: where in the program; messages of one place wait
                    * alike. 0: the memory is a copy, not the program's */
    /* NULL: as all others. Stay until the engine is closed. */
    const struct mt_engine_terms *terms;
    bool blocks; /* the caller does nothing else until it is done; not of matched
                  * receives, of which nobody asks */
};

/* ---- the engine ---- */

/* How a message above the eager limit travels (Sur and others, PPoPP 2006). */
enum mt_engine_rendezvous {
    MT_ENGINE_RGET = 0, /* the receiver reads */
    MT_ENGINE_RPUT,     /* the receiver replies, the sender writes */
    MT_ENGINE_RTR,      /* the receiver asks first, if it can (Rashti, 2010),
                         * and the sender writes; else the receiver reads */
};

/* Whether contiguous messages up to the eager limit leave straight from the
 * program's memory (Rashti and Afsahi, 2009), which they have not done before
 * that was read: their requests are done later than those of copies. */
enum mt_engine_reuse {
    MT_ENGINE_COPIES = 0,
    MT_ENGINE_TRIES_REUSE, /* as below, where that is shown to be faster */
    MT_ENGINE_REUSES, /* from buffers that are used often, by reuse.h */
    MT_ENGINE_REUSES_ALWAYS, /* wherever it can be, whatever it costs: for tests */
};

/* How a message travels, as far as each end decides it: the sender all but whether
 * the receiver asks first. */
struct mt_engine_terms {
    uint64_t eager_limit; /* longest payload that is copied, at most 512 KiB */
    enum mt_engine_reuse reuse;
    uint64_t reuse_from; /* shorter messages are copied; never below 128 bytes */
    enum mt_engine_rendezvous rendezvous;
    /* What is tried, and taken where it is shown to be faster, for each context
     * and size: */
    bool try_written; /* by a sender: RPUT against RGET */
    bool try_asking;  /* by a receiver: RTR against what the senders do */
};

/* Registrations that somebody keeps from message to message. get: one that
 * covers the bytes and allows everything, until put; false: not now, and the
 * engine registers the memory for this message, or copies a short one. Both are
 * called from any thread with the engine's lock: they neither wait nor call the
 * engine. */
struct mt_engine_kept {
    const void *reference; /* not NULL */
    uint32_t lkey, rkey;
};
struct mt_engine_keeper {
    bool (*get)(void *user, void *address, uint64_t bytes,
                struct mt_engine_kept *kept_p);
    void (*put)(void *user, const void *reference);
    void *user;
};

/* What a message took. */
enum mt_engine_way {
    MT_ENGINE_NO_WAY = 0,
    MT_ENGINE_EAGER,
    MT_ENGINE_READ,
    MT_ENGINE_WRITTEN,
    MT_ENGINE_FRAGMENTS,
    MT_ENGINE_WAYS,
};

enum mt_engine_mode {
    MT_ENGINE_STANDARD = 0,
    MT_ENGINE_SYNCHRONOUS, /* done only after a receive has matched it */
};

struct mt_engine_options {
    const char *device; /* of fabric.h */
    struct mt_fabric_options fabric;
    struct mt_fabric_wireup wireup; /* rank and size: of processes */
    /* Of messages whose buffer has none of its own. Those must want no more:
     * neither longer eager messages, nor reuse where this is without, or for
     * shorter ones. */
    struct mt_engine_terms terms;
    uint64_t ring_bytes;  /* memory for short messages of a peer that sends much,
                           * which it writes there; 0: all go by SEND */
    uint32_t speculation; /* per cent of the uses that pay for registering a
                           * buffer after which it is: 25, 50 or 100 */
    /* Of MT_ENGINE_RTR: per cent of what a receiver asks for that must be of
     * use, or it stops asking; and how many are counted before that. */
    uint32_t rtr_usage, rtr_sample;
    /* One message in so many is checked end to end; 0: none. After one that
     * arrived wrong its sender takes that way to this peer no more. */
    uint32_t verify_every;
    /* Peers are reached by datagrams first, and by a connection when so many
     * messages were sent to them, as long as there are fewer connections than
     * that. */
    struct {
        bool first;
        uint32_t connections, after;
        uint32_t tries; /* of a datagram, see datagrams.h; 0: the default */
    } datagrams;
    /* How many requests that the program was given it has seen end: counted by the
     * caller, atomic, may wrap. It tells bursts of messages apart where the policy
     * leaves open how they go. NULL: they are not counted. */
    const uint32_t *ended;
    /* The program has one thread at a time in what is called for messages. */
    bool alone;
    /* A thread that makes progress while the program is elsewhere (in a call of
     * its MPI library, or computing) and somebody depends on this process. */
    bool thread;
    /* Called by this thread about ten times a second, without the engine's lock;
     * the first time perhaps before mt_engine_open returns. NULL: it is not. */
    void (*watch)(void *user, const struct mt_engine *engine);
    void (*say)(void *user, const char *text);
    void *user;
};

/* Collective over wireup; all processes get the same verdict. */
enum mt_status mt_engine_open(const struct mt_engine_options *options,
                              struct mt_engine **engine_p);
/* After a barrier of the caller's, behind which nobody sends any more, and with
 * mt_engine_obligations at 0. */
enum mt_status mt_engine_close(struct mt_engine *engine);
/* What is sent and received is registered with this domain, of this device. */
struct mt_fabric_pd *mt_engine_pd(const struct mt_engine *engine);
const struct mt_fabric_device *mt_engine_device(const struct mt_engine *engine);
/* From now on; NULL: nobody any more, with no request under way. */
void mt_engine_keep(struct mt_engine *engine,
                    const struct mt_engine_keeper *keeper);
/* Why no message leaves straight from the program's memory; NULL: they may. */
const char *mt_engine_reuse_off(const struct mt_engine *engine);
/* In a child of fork: touches nothing shared. The engine does nothing there from
 * now on (MT_ESTATE), and its memory stays. */
void mt_engine_forget(struct mt_engine *engine);

/* A communicator: processes[r] is the process (of wireup) of rank r, this one's
 * rank is rank. id: the same on all members, and of no other open context that
 * a member is in. What arrives before a context is opened waits for it; after
 * closing, requests that are under way still end. */
enum mt_status mt_engine_context_open(struct mt_engine *engine, uint32_t id,
                                      uint32_t rank, uint32_t size,
                                      const uint32_t *processes,
                                      struct mt_engine_context **context_p);
void mt_engine_context_close(struct mt_engine_context *context);

/* ---- requests ---- */

struct mt_engine_request {
    /* Set before done is. */
    enum mt_status status; /* MT_OK, MT_ETRUNCATED (receive), MT_EPEER, .. */
    int32_t source;        /* receive: rank of the sender in the context */
    int32_t tag;
    uint64_t bytes; /* receive: of payload that came; truncated: that fitted */
    bool cancelled;
    enum mt_engine_way wrong; /* receive: what came by this way is not what was
                               * sent; MT_ENGINE_NO_WAY: nothing says so */
    uint32_t done; /* mt_engine_done */
    uint32_t timed; /* it is to be known how long somebody waits for it, .. */
    uint64_t awaited_ns; /* .. since then; 0: nobody does */

    /* The engine's own. */
    struct mt_engine_request *next, **link;
    struct mt_engine_context *context;
    struct mt_engine_peer *peer;
    struct mt_engine_transfer *transfer; /* of what is not copied at once */
    struct mt_engine_message *parked;    /* a send that waits to be matched */
    struct mt_choice *choice; /* that it is an instance of; NULL: of none */
    bool spoilt;              /* it did not go the way that was chosen */
    struct mt_buffer buffer;
    uint64_t number; /* of a receive as it was posted; then the peer's */
    uint32_t mark;   /* of a receive that asks first */
    int32_t want_source, want_tag;
    enum mt_engine_mode mode;
    uint32_t state;
    uint32_t check, checksum; /* of a send, see verify.c */
};

void mt_engine_awaited(const struct mt_engine_request *request);

/* Who asks, and learns that it is not, is taken to wait for it from then on. */
MT_INLINE bool mt_engine_done(const struct mt_engine_request *request)
{
    if (__atomic_load_n(&request->done, __ATOMIC_ACQUIRE) != 0) {
        return true;
    }
    if (mt_unlikely(__atomic_load_n(&request->timed, __ATOMIC_RELAXED) != 0)) {
        mt_engine_awaited(request);
    }
    return false;
}

/* Start; the request is done at once or later. Anything but MT_OK: it was not
 * started (MT_EINVAL: no such rank; MT_ENOMEM). Messages from one process to
 * another in one context match in the order of these calls, whatever way each
 * takes. */
enum mt_status mt_engine_send(struct mt_engine_context *context,
                              struct mt_engine_request *request, int32_t rank,
                              int32_t tag, enum mt_engine_mode mode,
                              const struct mt_buffer *buffer);
enum mt_status mt_engine_receive(struct mt_engine_context *context,
                                 struct mt_engine_request *request,
                                 int32_t source, int32_t tag,
                                 const struct mt_buffer *buffer);

/* Takes back a receive that nothing matched yet, or a send that has not left
 * (MPI 4.1, 3.8.4): done and cancelled then. Otherwise it goes on. A receive that
 * has asked first is done when the peer's engine has answered. */
void mt_engine_cancel(struct mt_engine_request *request);

struct mt_engine_envelope {
    int32_t source, tag;
    uint64_t bytes;
};

/* MT_EAGAIN: no such message is here; MT_EPEER: and none will come. message_p NULL:
 * it stays where it is (Iprobe), else it is taken out, for one
 * mt_engine_receive_message (Improbe). */
enum mt_status mt_engine_probe(struct mt_engine_context *context,
                               int32_t source, int32_t tag,
                               struct mt_engine_envelope *envelope_p,
                               struct mt_engine_message **message_p);
enum mt_status mt_engine_receive_message(struct mt_engine_context *context,
                                         struct mt_engine_request *request,
                                         struct mt_engine_message *message,
                                         const struct mt_buffer *buffer);

/* Receives what no receive was posted for, into nothing: senders that wait for it
 * go on. For the end, when nobody will receive it; as long as something may arrive,
 * again. Returns of how many messages the sender waited since the last call, those
 * that were there when their context was closed included. */
uint32_t mt_engine_discard(struct mt_engine *engine);

/* Moves what can be moved. True: something happened. */
bool mt_engine_progress(struct mt_engine *engine);
/* The same for who looks again at once: most of its turns look at rings only. */
bool mt_engine_spin(struct mt_engine *engine);
/* The program waits or looks, though perhaps without a turn, for what it wants is here:
 * what was held back for the sake of later messages leaves. How often it was called. */
uint32_t mt_engine_look(struct mt_engine *engine);
/* A call that waits for long, and takes turns as long as it does: meanwhile nobody
 * depends on the engine's thread. In pairs. */
void mt_engine_attend(struct mt_engine *engine);
void mt_engine_leave(struct mt_engine *engine);

/* How many things other processes may wait for this one to do: requests that are
 * not done, and peers that something is still on its way to or owed. 0: nobody
 * depends on calls of mt_engine_progress, but for the last messages of a ring, which
 * a device in software sends while somebody polls, as the thread does. Pending
 * receives count, since their sender may wait for them to be matched. */
uint32_t mt_engine_obligations(const struct mt_engine *engine);

/* struct mt_engine_counts is of spec/act.json. rtr_sent = rtr_used + rtr_crossed +
 * rtr_mispredicted + rtr_revoked, but for those under way, and of peers that
 * ended. */
void mt_engine_count(const struct mt_engine *engine,
                     struct mt_engine_counts *counts_p);

/* How peers are reached, and what that takes: buffers and structures of this
 * process, not what the device or the system has for it. */
struct mt_engine_peers {
    uint32_t datagrams; /* that messages went to or came from, without .. */
    uint32_t connected; /* .. and those with a connection */
    uint32_t idle;      /* neither */
    uint64_t datagrams_bytes, connected_bytes; /* for each */
    uint64_t shared_bytes; /* for the datagrams of all */
    uint64_t ring_bytes;   /* of all rings that peers write into */
};
void mt_engine_count_peers(const struct mt_engine *engine,
                           struct mt_engine_peers *peers_p);

/* What was tried for the messages of a context and size (policy/proof): of long
 * sends RPUT against RGET, of long receives RTR against none, of short messages that
 * reuse.h would have leave straight from memory that against a copy. */
enum mt_engine_tried {
    MT_ENGINE_TRIED_WRITING = 0,
    MT_ENGINE_TRIED_ASKING,
    MT_ENGINE_TRIED_REUSE,
    MT_ENGINE_TRIALS,
};
struct mt_engine_decision {
    uint32_t context; /* id; UINT32_MAX: of all that found no place */
    uint64_t from, to; /* payload, of receives their room; to: less than, 0: no limit */
    enum mt_engine_tried tried;
    bool newcomer; /* is what was decided for */
    const char *state;  /* trying, kept, retreated */
    const char *reason; /* open, faster, slower, no-loss, no-gain */
    double change;      /* newcomer's time over known's less 1, median of .. */
    uint32_t judged;    /* .. so many pairs of epochs */
    uint32_t pairs;     /* in all trials */
    uint32_t fall_backs;
    double known_ns, newcomer_ns; /* of a message in the latest trial; 0: none */
    uint64_t decided_ns; /* since the engine was opened; 0: not decided yet */
    uint64_t messages[2], bytes[2]; /* by known, by newcomer */
};

/* What sending straight from memory rests on: medians and means of the latest
 * times, in ns, of messages of from to less than 2 * from bytes. */
struct mt_engine_reuse_cost {
    uint64_t from, messages;
    double copy_ns;     /* Cm; 0: not known */
    double register_ns; /* Rm; 0: all memory is registered */
    uint32_t places;    /* of the program, whose wait is known */
    uint32_t waiting;   /* of these, that wait longer than a copy takes */
    double exposed_ns;  /* Lm: mean of the places */
};
/* Of sizes that were sent: how many, at most room. look_p: V, both look-ups. */
uint32_t mt_engine_reuse_costs(const struct mt_engine *engine,
                               struct mt_engine_reuse_cost *out, uint32_t room,
                               double *look_p);
/* How many there are; out has so many of them as there is room. */
uint32_t mt_engine_decisions(const struct mt_engine *engine,
                             struct mt_engine_decision *out, uint32_t room);

#endif
