/* random.c: a random program. Arguments: a seed, how many messages, and "short" for
 * messages of a few bytes, but for one in 20, "threads" for such programs at once, each
 * in a thread and with communicators of its own. Every rank draws the same plan from
 * the seed and does its part of each step, in one order, so that no library may hang;
 * what is received, and what statuses say, does not depend on timing, wildcards or not.
 * Every message is checked against what was sent, with the gaps of its datatype,
 * and goes into a digest that has to be the same by whatever way messages go. */
#include "program.h"

#include <pthread.h>
#include <stdbool.h>

typedef uint64_t u64;

/* MPICH 4.2 makes a persistent request inactive by looking at it. */
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 40200000
#define PEEKS 0
#else
#define PEEKS 1
#endif

enum {
    PHASE = 60,      /* steps between two meetings of all */
    PENDING = 256,   /* at most; a step adds no more than STORM * ranks */
    STORM = 4,
    RANKS = 8,
    LONGEST_INTS = 75000,
    BUFFERED_MOST = 4104, /* ints of a buffered message */
    OWN_TAG = 1000, /* and above: of one message, or storm; below: of exchanges */
    OWN_TAGS = 20000,
    THREADS = 3,
};

/* ---- drawing ---- */

static u64 mix(u64 x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static _Thread_local u64 plan, mine; /* the same on all ranks; of this one */

static unsigned draw(u64 *state, unsigned below)
{
    *state = mix(*state);
    return (unsigned)((*state >> 33) % below);
}

static int threads = 1, brief; /* "short" */

static int draw_ints(void)
{
    static const int some[] = {0,    1,    2,    24,   24,   252,   1020, 4092,
                               4095, 4096, 4097, 4104, 16380, 16392, LONGEST_INTS};
    unsigned at = draw(&plan, sizeof(some) / sizeof(some[0]));
    unsigned few = draw(&plan, 25);
    if (brief && draw(&plan, 20) == 0) { /* so that there are some of every way */
        return draw(&plan, 6) == 0 ? LONGEST_INTS : 32 + (int)draw(&plan, 225);
    }
    return brief || at < 6 ? (int)few : some[at];
}

#include "layouts.h"

/* ---- communicators: of all ranks in some order, or of a part ---- */

struct comm {
    MPI_Comm handle; /* MPI_COMM_NULL: not of this rank */
    int size, member[RANKS]; /* ranks of MPI_COMM_WORLD */
};

/* Ours and, last, one of the library's (MPI_Comm_idup); the two before it are
 * made by one split. */
enum { WORLD, COPY, REVERSED, EVEN, ODD, THEIRS, COMMS };
static _Thread_local struct comm comms[COMMS];
static _Thread_local MPI_Comm base; /* of all */

static void comm_list(struct comm *c, int first, int step)
{
    c->size = 0;
    for (int r = first; r >= 0 && r < size; r += step) {
        c->member[c->size++] = r;
    }
}

static int rank_in(const struct comm *c, int process)
{
    int r = 0;
    while (r < c->size && c->member[r] != process) {
        r++;
    }
    return r < c->size ? r : -1;
}

static void comm_make(int which)
{
    MPI_Comm made;
    MPI_Request request;
    comm_list(&comms[which], 0, 1);
    switch (which) {
    case COPY:
        MPI_Comm_dup(base, &comms[COPY].handle);
        break;
    case REVERSED:
        MPI_Comm_split(base, 0, -rank, &comms[REVERSED].handle);
        comm_list(&comms[REVERSED], size - 1, -1);
        break;
    case EVEN:
        MPI_Comm_split(comms[COPY].handle, rank % 2, rank, &made);
        comms[EVEN].handle = rank % 2 == 0 ? made : MPI_COMM_NULL;
        comms[ODD].handle = rank % 2 == 1 ? made : MPI_COMM_NULL;
        comm_list(&comms[EVEN], 0, 2);
        comm_list(&comms[ODD], 1, 2);
        break;
    case THEIRS:
        MPI_Comm_idup(base, &comms[THEIRS].handle, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
    default:
        comms[WORLD].handle = base;
    }
}

static void comm_free(int which)
{
    int last = which == EVEN ? ODD : which;
    for (int i = which; i <= last; i++) {
        if (comms[i].handle != MPI_COMM_NULL) {
            MPI_Comm_free(&comms[i].handle);
        }
    }
}

/* ---- one message ---- */

struct message {
    u64 id;
    const struct comm *comm;
    int from, to; /* ranks of MPI_COMM_WORLD */
    int ints, tag;
    int any_source, any_tag;
    enum layout out, in;
};

static _Thread_local u64 messages, digest;

static struct message draw_message(void)
{
    static _Thread_local u64 next = 1;
    struct message m = {.id = next++};
    unsigned way = draw(&plan, 6);
    do {
        m.comm = &comms[draw(&plan, COMMS)];
    } while (m.comm->size == 0);
    m.from = m.comm->member[draw(&plan, (unsigned)m.comm->size)];
    m.to = m.comm->member[draw(&plan, (unsigned)m.comm->size)];
    m.ints = draw_ints();
    m.any_source = way == 0;
    m.any_tag = way == 1;
    m.tag = (int)draw(&plan, 3);
    if (m.any_source) {
        m.tag = OWN_TAG + (int)(m.id % OWN_TAGS);
    }
    m.out = draw_layout(m.ints);
    m.in = draw_layout(m.ints);
    return m;
}

static int *memory(enum layout l, int n)
{
    size_t ints = (size_t)room(l, n) + 1;
    int *p = malloc(ints * sizeof(int));
    for (size_t i = 0; i < ints; i++) {
        p[i] = GAP;
    }
    return p;
}

static int *memory_of(const struct message *m)
{
    int *p = memory(m->out, m->ints);
    for (int i = 0; i < m->ints; i++) {
        p[place(m->out, i)] = value(m->id, i);
    }
    return p;
}

static void note(u64 id, int source, int tag, int bytes)
{
    messages++;
    digest += mix(mix(mix(id) + (u64)source) * 31 + (u64)tag) + (u64)bytes;
}

/* What came for a message is right. */
static void check(const struct message *m, const int *p,
                  const MPI_Status *status)
{
    int bytes = -1, wrong = 0, ints = 0, all = room(m->in, m->ints) + 1;
    int source = rank_in(m->comm, m->from);
    for (int i = 0; i < m->ints; i++) {
        wrong += p[place(m->in, i)] != value(m->id, i);
    }
    for (int i = 0; i < all; i++) {
        ints += p[i] != GAP;
    }
    MPI_Get_count(status, MPI_BYTE, &bytes);
    if (wrong != 0 || ints > m->ints || bytes != 4 * m->ints ||
        status->MPI_SOURCE != source || status->MPI_TAG != m->tag) {
        failures++;
        say("message %llu of %d ints from %d to %d, tag %d, layouts %d %d: %d "
            "wrong, %d written, status %d %d %d",
            (unsigned long long)m->id, m->ints, m->from, m->to, m->tag, m->out,
            m->in, wrong, ints, status->MPI_SOURCE, status->MPI_TAG, bytes);
    }
    note(m->id, status->MPI_SOURCE, status->MPI_TAG, bytes);
}

/* ---- what is under way ---- */

static _Thread_local MPI_Request requests[PENDING];
static _Thread_local struct pending {
    struct message m;
    int *memory;
    int receives, persistent;
} pendings[PENDING];
static _Thread_local int pending_count;

/* Of requests that were freed, until all ranks have met. */
static _Thread_local int *kept[PHASE], kept_count;

static void ended(int i, const MPI_Status *status)
{
    struct pending *p = &pendings[i];
    if (p->receives) {
        check(&p->m, p->memory, status);
    }
    if (p->persistent) {
        MPI_Request_free(&requests[i]);
    }
    free(p->memory);
    p->memory = NULL;
}

static void pend(MPI_Request request, const struct message *m, int *p,
                 int receives, int persistent)
{
    requests[pending_count] = request;
    pendings[pending_count++] =
        (struct pending){*m, p, receives, persistent};
}

static void end_some(int all)
{
    static _Thread_local MPI_Status statuses[PENDING];
    static _Thread_local int indices[PENDING];
    int n = 0;
    do {
        if (all) {
            MPI_Waitsome(pending_count, requests, &n, indices, statuses);
        } else {
            MPI_Testsome(pending_count, requests, &n, indices, statuses);
        }
        for (int i = 0; i < n; i++) {
            ended(indices[i], &statuses[i]);
        }
    } while (all && n != MPI_UNDEFINED);
}

static void end_any(int tests)
{
    MPI_Status status;
    int i = 0, done = 1;
    while (i != MPI_UNDEFINED || !done) {
        if (tests) {
            MPI_Testany(pending_count, requests, &i, &done, &status);
        } else {
            MPI_Waitany(pending_count, requests, &i, &status);
        }
        if (done && i != MPI_UNDEFINED) {
            ended(i, &status);
        }
    }
}

static void end_all(int tests)
{
    static _Thread_local MPI_Status statuses[PENDING];
    int done = 0;
    while (tests && !done) {
        MPI_Testall(pending_count, requests, &done, statuses);
    }
    if (!tests) {
        MPI_Waitall(pending_count, requests, statuses);
    }
    for (int i = 0; i < pending_count; i++) {
        if (pendings[i].memory != NULL) {
            ended(i, &statuses[i]);
        }
    }
}

static void end_each(int tests)
{
    MPI_Status status;
    for (int i = pending_count - 1; i >= 0; i--) {
        int done = 0;
        while (tests && !done) {
            if (PEEKS || !pendings[i].persistent) {
                MPI_Request_get_status(requests[i], &done, MPI_STATUS_IGNORE);
            }
            MPI_Test(&requests[i], &done, &status);
        }
        if (!tests) {
            MPI_Wait(&requests[i], &status);
        }
        if (pendings[i].memory != NULL) {
            ended(i, &status);
        }
    }
}

/* Ends all that is under way, in one of many ways. */
static void end_pending(void)
{
    int tests = (int)draw(&mine, 2);
    switch (draw(&mine, 4)) {
    case 0:
        end_some(!tests); /* and then in another way, if it only tests */
        end_all(0);
        break;
    case 1:
        end_any(tests);
        break;
    case 2:
        end_all(tests);
        break;
    default:
        end_each(tests);
    }
    pending_count = 0;
}

/* ---- steps ---- */

enum { SEND, SSEND, BSEND, BLOCKING_SENDS, ISEND = BLOCKING_SENDS, ISSEND,
       IBSEND, SEND_INIT, SSEND_INIT, FREED, SENDS };

static void do_send(const struct message *m, unsigned way)
{
    MPI_Comm comm = m->comm->handle;
    int to = rank_in(m->comm, m->to), n, own, *p = memory_of(m);
    MPI_Datatype type = type_of(m->out, m->ints, &n, &own);
    MPI_Request request = MPI_REQUEST_NULL;
    switch (way) {
    case SEND:
        MPI_Send(p, n, type, to, m->tag, comm);
        break;
    case SSEND:
        MPI_Ssend(p, n, type, to, m->tag, comm);
        break;
    case BSEND:
        MPI_Bsend(p, n, type, to, m->tag, comm);
        break;
    case ISSEND:
        MPI_Issend(p, n, type, to, m->tag, comm, &request);
        break;
    case IBSEND:
        MPI_Ibsend(p, n, type, to, m->tag, comm, &request);
        break;
    case SEND_INIT:
        MPI_Send_init(p, n, type, to, m->tag, comm, &request);
        MPI_Start(&request);
        break;
    case SSEND_INIT:
        MPI_Ssend_init(p, n, type, to, m->tag, comm, &request);
        MPI_Start(&request);
        break;
    default:
        MPI_Isend(p, n, type, to, m->tag, comm, &request);
    }
    if (own) {
        MPI_Type_free(&type);
    }
    if (way < BLOCKING_SENDS) {
        free(p);
    } else if (way == FREED) {
        MPI_Request_free(&request);
        kept[kept_count++] = p;
    } else {
        pend(request, m, p, 0, way == SEND_INIT || way == SSEND_INIT);
    }
}

enum { RECV, IRECV, RECV_INIT, PROBE, IPROBE, MPROBE, IMRECV, IMPROBE,
       RECEIVES };

static void do_receive(const struct message *m, unsigned way)
{
    MPI_Comm comm = m->comm->handle;
    int from = m->any_source ? MPI_ANY_SOURCE : rank_in(m->comm, m->from);
    int tag = m->any_tag ? MPI_ANY_TAG : m->tag, n, own, found = 0;
    int *p = memory(m->in, m->ints);
    MPI_Datatype type = type_of(m->in, m->ints, &n, &own);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message;
    MPI_Status status;
    switch (way) {
    case IRECV:
        MPI_Irecv(p, n, type, from, tag, comm, &request);
        break;
    case RECV_INIT:
        MPI_Recv_init(p, n, type, from, tag, comm, &request);
        MPI_Start(&request);
        break;
    case PROBE:
        MPI_Probe(from, tag, comm, &status);
        MPI_Recv(p, n, type, status.MPI_SOURCE, status.MPI_TAG, comm, &status);
        break;
    case IPROBE:
        while (!found) {
            MPI_Iprobe(from, tag, comm, &found, &status);
        }
        MPI_Recv(p, n, type, from, tag, comm, &status);
        break;
    case MPROBE:
        MPI_Mprobe(from, tag, comm, &message, &status);
        MPI_Mrecv(p, n, type, &message, &status);
        break;
    case IMRECV:
        MPI_Mprobe(from, tag, comm, &message, &status);
        MPI_Imrecv(p, n, type, &message, &request);
        break;
    case IMPROBE:
        while (!found) {
            MPI_Improbe(from, tag, comm, &found, &message, &status);
        }
        MPI_Mrecv(p, n, type, &message, &status);
        break;
    default:
        MPI_Recv(p, n, type, from, tag, comm, &status);
    }
    if (own) {
        MPI_Type_free(&type);
    }
    if (request != MPI_REQUEST_NULL) {
        pend(request, m, p, 1, way == RECV_INIT);
    } else {
        check(m, p, &status);
        free(p);
    }
}

static void one_message(void)
{
    struct message m = draw_message();
    unsigned sends = draw(&plan, SENDS), receives = draw(&plan, RECEIVES);
    if (m.from == m.to && sends < BLOCKING_SENDS) {
        sends += ISEND - SEND;
    }
    if ((sends == BSEND || sends == IBSEND) &&
        (m.ints > BUFFERED_MOST || threads > 1)) { /* they would share a buffer */
        sends = ISEND;
    }
    if (m.from == rank) {
        do_send(&m, sends);
    }
    if (m.to == rank) {
        do_receive(&m, receives);
    }
}

/* A message each way, by MPI_Sendrecv or, of one length, MPI_Sendrecv_replace. */
static void exchange(void)
{
    struct message there = draw_message(), back = there;
    int replaces = (int)draw(&plan, 2), n_out, n_in, own_out, own_in;
    MPI_Status status;
    there.any_source = there.any_tag = 0;
    there.tag %= OWN_TAG;
    back = there;
    back.id += UINT64_C(1) << 40;
    back.from = there.to;
    back.to = there.from;
    const struct message *out = there.from == rank ? &there : &back;
    const struct message *in = there.from == rank ? &back : &there;
    if (there.from == there.to) {
        in = out;
    }
    if (there.from != rank && there.to != rank) {
        return;
    }
    int peer = rank_in(out->comm, out->to);
    int *p = memory_of(out), *q = memory(in->in, in->ints);
    MPI_Datatype type = type_of(out->out, out->ints, &n_out, &own_out);
    MPI_Datatype type_in = type_of(in->in, in->ints, &n_in, &own_in);
    if (replaces) {
        struct message same = *in;
        same.in = in->out; /* it is received with the type that it was sent by */
        MPI_Sendrecv_replace(p, n_out, type, peer, out->tag, peer, in->tag,
                             out->comm->handle, &status);
        check(&same, p, &status);
    } else {
        MPI_Sendrecv(p, n_out, type, peer, out->tag, q, n_in, type_in, peer,
                     in->tag, out->comm->handle, &status);
        check(in, q, &status);
    }
    if (own_out) {
        MPI_Type_free(&type);
    }
    if (own_in) {
        MPI_Type_free(&type_in);
    }
    free(p);
    free(q);
}

/* One persistent pair, used again and again. */
static void again(void)
{
    struct message m = draw_message();
    unsigned times = 1 + draw(&plan, 4);
    int n, own;
    MPI_Request both[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[2];
    int *p = memory(INTS, m.ints), *q = memory(INTS, m.ints);
    MPI_Datatype type = type_of(INTS, m.ints, &n, &own);
    m.out = m.in = INTS;
    if (m.from == rank) {
        MPI_Send_init(p, n, type, rank_in(m.comm, m.to), m.tag,
                      m.comm->handle, &both[0]);
    }
    if (m.to == rank) {
        MPI_Recv_init(q, n, type,
                      m.any_source ? MPI_ANY_SOURCE : rank_in(m.comm, m.from),
                      m.tag, m.comm->handle, &both[1]);
    }
    for (unsigned t = 0; t < times; t++) {
        m.id += UINT64_C(1) << 41;
        for (int i = 0; i < m.ints; i++) {
            p[i] = value(m.id, i);
        }
        if (m.to == rank) {
            MPI_Start(&both[1]);
        }
        if (m.from == rank) {
            MPI_Start(&both[0]);
        }
        MPI_Waitall(2, both, statuses);
        if (m.to == rank) {
            check(&m, q, &statuses[1]);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (both[i] != MPI_REQUEST_NULL) {
            MPI_Request_free(&both[i]);
        }
    }
    free(p);
    free(q);
}

/* A ready send, whose receive is known to be there. */
static void ready(void)
{
    struct message m = draw_message();
    int from = rank_in(m.comm, m.from), to = rank_in(m.comm, m.to), n, own;
    MPI_Request request;
    MPI_Status status;
    if (m.from == m.to || (m.from != rank && m.to != rank)) {
        return;
    }
    int sends = m.from == rank, *p = sends ? memory_of(&m) : memory(m.in, m.ints);
    MPI_Datatype type = type_of(sends ? m.out : m.in, m.ints, &n, &own);
    if (sends) {
        MPI_Recv(NULL, 0, MPI_INT, to, m.tag, m.comm->handle, &status);
        MPI_Rsend(p, n, type, to, m.tag, m.comm->handle);
    } else {
        MPI_Irecv(p, n, type, m.any_source ? MPI_ANY_SOURCE : from, m.tag,
                  m.comm->handle, &request);
        MPI_Send(NULL, 0, MPI_INT, from, m.tag, m.comm->handle);
        MPI_Wait(&request, &status);
        check(&m, p, &status);
    }
    if (own) {
        MPI_Type_free(&type);
    }
    free(p);
}

/* All members send to one of them, which takes what comes first. */
static void storm(void)
{
    static _Thread_local int space[LONGEST_INTS];
    struct message first = draw_message(); /* for its communicator and root */
    const struct comm *c = first.comm;
    int each = 1 + (int)draw(&plan, STORM), all = each * c->size;
    int tag = OWN_TAG + (int)(first.id % OWN_TAGS);
    for (int i = 0; i < all; i++) {
        struct message m = draw_message();
        m.comm = c;
        m.from = c->member[i % c->size];
        m.to = first.to;
        m.tag = tag;
        m.ints += m.ints == 0;
        m.out = INTS;
        if (m.from == rank) {
            do_send(&m, ISEND);
        }
    }
    for (int i = 0; i < all && first.to == rank; i++) {
        MPI_Status status;
        int n = 0, wrong = 0;
        MPI_Recv(space, LONGEST_INTS, MPI_INT, MPI_ANY_SOURCE, tag,
                 c->handle, &status);
        MPI_Get_count(&status, MPI_INT, &n);
        u64 id = (u64)(unsigned)space[0];
        for (int k = 1; k < n; k++) {
            wrong += space[k] != value(id, k);
        }
        CHECK(wrong == 0 && id > first.id && id <= first.id + (u64)all);
        CHECK(status.MPI_SOURCE == (int)((id - first.id - 1) % (u64)c->size));
        note(id, status.MPI_SOURCE, status.MPI_TAG, 4 * n);
    }
}

/* A receive that nothing matches. */
static void cancelled(void)
{
    struct message m = draw_message();
    MPI_Request request;
    MPI_Status status;
    int is = 0, number;
    if (m.to == rank) {
        MPI_Irecv(&number, 1, MPI_INT, MPI_ANY_SOURCE, OWN_TAG + OWN_TAGS,
                  m.comm->handle, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &is);
        CHECK(is);
    }
}

static void collective(void)
{
    struct message m = draw_message();
    unsigned kind = draw(&plan, 3);
    MPI_Comm comm = m.comm->handle;
    if (comm == MPI_COMM_NULL) {
        return;
    }
    if (kind == 0) {
        MPI_Barrier(comm);
    } else if (kind == 1) {
        int one = rank + 1, sum = 0, right = 0;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
        for (int i = 0; i < m.comm->size; i++) {
            right += m.comm->member[i] + 1;
        }
        CHECK(sum == right);
    } else {
        m.out = m.in = INTS;
        int *p = m.from == rank ? memory_of(&m) : memory(INTS, m.ints), wrong = 0;
        MPI_Bcast(p, m.ints, MPI_INT, rank_in(m.comm, m.from), comm);
        for (int i = 0; i < m.ints; i++) {
            wrong += p[i] != value(m.id, i);
        }
        CHECK(wrong == 0);
        free(p);
    }
}

static void step(void)
{
    unsigned what = draw(&plan, 100);
    if (what < 78) {
        one_message();
    } else if (what < 84) {
        exchange();
    } else if (what < 88) {
        again();
    } else if (what < 91) {
        ready();
    } else if (what < 93) {
        storm();
    } else if (what < 94) {
        cancelled();
    } else {
        collective();
    }
    /* a step adds two at most, but a storm */
    if (draw(&mine, 8) == 0 || pending_count > PENDING - 2 - STORM) {
        end_pending();
    }
}

static void phase(void *buffer, int bytes)
{
    if (threads == 1) {
        MPI_Buffer_attach(buffer, bytes);
    }
    for (int i = 0; i < PHASE; i++) {
        step();
    }
    /* what is under way on a communicator outlives it */
    int which = 1 + (int)draw(&plan, brief ? 40 : EVEN);
    if (which <= EVEN) {
        comm_free(which);
    }
    end_pending();
    if (threads == 1) {
        MPI_Buffer_detach(&buffer, &bytes);
    }
    MPI_Barrier(base);
    while (kept_count > 0) {
        free(kept[--kept_count]);
    }
    if (which <= EVEN) {
        comm_make(which);
    }
}

struct program {
    pthread_t thread;
    MPI_Comm base;
    u64 seed, wanted, messages, digest;
};

static void *run(void *arg)
{
    enum { BUFFER = PHASE * (4 * BUFFERED_MOST + MPI_BSEND_OVERHEAD + 64) };
    struct program *p = arg;
    u64 mine_all[2], all[2] = {0};
    base = p->base;
    plan = mix(p->seed);
    mine = mix(p->seed * 1000 + (u64)rank);
    for (int i = 0; i < COMMS; i++) {
        if (i != ODD) {
            comm_make(i);
        }
    }
    void *buffer = malloc(BUFFER);
    while (all[0] < p->wanted && all[1] == 0) {
        phase(buffer, BUFFER);
        mine_all[0] = messages;
        mine_all[1] = (u64)failures;
        MPI_Allreduce(mine_all, all, 2, MPI_UINT64_T, MPI_SUM, base);
    }
    free(buffer);
    for (int i = COPY; i < COMMS; i++) {
        if (i != ODD) {
            comm_free(i);
        }
    }
    p->messages = messages;
    p->digest = digest;
    return NULL;
}

int main(int argc, char **argv)
{
    struct program programs[THREADS] = {0};
    unsigned long long sent = 0, sum = 0;
    u64 seed = strtoull(argv[1], NULL, 10), wanted = strtoull(argv[2], NULL, 10);
    for (int i = 3; i < argc; i++) {
        brief |= strcmp(argv[i], "short") == 0;
        threads = strcmp(argv[i], "threads") == 0 ? THREADS : threads;
    }
    if (threads > 1) {
        begin_threads(&argc, &argv, MPI_THREAD_MULTIPLE);
    } else {
        begin(&argc, &argv);
    }
    types_make();
    for (int i = 0; i < threads; i++) {
        struct program *p = &programs[i];
        p->seed = seed + (u64)i * 100000;
        p->wanted = wanted / (u64)threads;
        MPI_Comm_dup(MPI_COMM_WORLD, &p->base);
    }
    for (int i = 1; i < threads; i++) {
        if (pthread_create(&programs[i].thread, NULL, run, &programs[i]) != 0) {
            abort();
        }
    }
    run(&programs[0]);
    for (int i = 0; i < threads; i++) {
        if (i > 0) {
            pthread_join(programs[i].thread, NULL);
        }
        MPI_Comm_free(&programs[i].base);
        sent += programs[i].messages;
        sum += programs[i].digest;
    }
    types_free();
    say("%llu messages, digest %016llx", sent, sum);
    return end();
}
