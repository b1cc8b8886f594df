/* buffered.c: MPI_Bsend and its kin. The message is copied into memory of ours
 * and goes on its own; the application's buffers are attached to the library as
 * ever, for messages that are the library's, and bound how much we copy. */
#include <stdlib.h>

#include "act.h"

struct mt_act_bsend {
    struct mt_act_operation operation;
    struct mt_act_bsend *next;
    struct mt_act_buffer *buffer;
    uint64_t bytes; /* of the attached buffer that it would take; 0: it needs none */
    char payload[];
};

enum {
    MT_ACT_SWEEP = 32,
    /* Of each message there: less than MPI_BSEND_OVERHEAD of any version of either
     * family, whichever the program was built with. */
    MT_ACT_OVERHEAD = 64,
};

static struct mt_act_bsend *mt_bsends; /* under mt_act.lock, all of them */
static struct mt_act_buffer mt_process_buffer;
/* How many there are, and how many are worth a look at all of them: twice what
 * the last one left, so that looking costs each only so much. */
static uint32_t mt_bsend_count, mt_bsend_many = MT_ACT_SWEEP;

void mt_act_buffered_sweep(void)
{
    struct mt_act_bsend *done = NULL;
    mt_act_lock();
    struct mt_act_bsend **link = &mt_bsends;
    while (*link != NULL) {
        struct mt_act_bsend *bsend = *link;
        if (mt_engine_done(&bsend->operation.engine)) {
            *link = bsend->next;
            bsend->next = done;
            done = bsend;
            bsend->buffer->used -= bsend->bytes;
            mt_bsend_count--;
        } else {
            link = &bsend->next;
        }
    }
    mt_bsend_many = 2 * mt_bsend_count + MT_ACT_SWEEP;
    mt_act_unlock();
    while (done != NULL) {
        struct mt_act_bsend *bsend = done;
        done = bsend->next;
        mt_act_finish(&bsend->operation);
        free(bsend);
    }
}

bool mt_act_buffered_uses(const struct mt_act_comm *comm)
{
    mt_act_buffered_sweep();
    mt_act_lock();
    bool uses = comm->buffer.used > 0;
    for (const struct mt_act_bsend *b = mt_bsends; b != NULL; b = b->next) {
        uses |= b->operation.comm == comm;
    }
    mt_act_unlock();
    return uses;
}

/* The newest of them is likely to be the last to go: while it has not, it is not
 * worth looking at the others. */
static bool newest_done(const struct mt_act_buffer *buffer)
{
    mt_act_lock();
    const struct mt_act_bsend *newest = mt_bsends;
    while (newest != NULL && (newest->buffer != buffer || newest->bytes == 0)) {
        newest = newest->next;
    }
    bool done = newest == NULL || mt_engine_done(&newest->operation.engine);
    mt_act_unlock();
    return done;
}

static bool empty(const struct mt_act_buffer *buffer)
{
    mt_act_buffered_sweep();
    mt_act_lock();
    bool none = buffer->used == 0;
    mt_act_unlock();
    return none;
}

/* A buffer may be detached when its messages have left it. */
static void drain(struct mt_act_buffer *buffer)
{
    struct mt_act_wait wait = {0};
    while (!empty(buffer)) {
        do {
            mt_act_turn(&wait);
        } while (!newest_done(buffer));
    }
    mt_act_waited(&wait);
    __atomic_store_n(&buffer->flushes, false, __ATOMIC_RELAXED);
}

/* Takes room in a buffer. */
static bool reserve(struct mt_act_buffer *buffer, uint64_t bytes)
{
    mt_act_lock();
    bool room = buffer->used + bytes <= buffer->room;
    buffer->used += room ? bytes : 0;
    mt_act_unlock();
    return room;
}

static void unreserve(struct mt_act_buffer *buffer, uint64_t bytes)
{
    mt_act_lock();
    buffer->used -= bytes;
    mt_act_unlock();
}

static bool reserve_now(struct mt_act_buffer *buffer, uint64_t bytes)
{
    if (reserve(buffer, bytes)) {
        return true;
    }
    mt_act_buffered_sweep();
    if (reserve(buffer, bytes)) {
        return true;
    }
    mt_engine_progress(mt_act.engine);
    mt_act_buffered_sweep();
    if (__atomic_load_n(&buffer->flushes, __ATOMIC_RELAXED) &&
        bytes <= buffer->room) {
        drain(buffer);
    }
    return reserve(buffer, bytes);
}

static void let_go(struct mt_act_bsend *bsend)
{
    mt_act_lock();
    bsend->next = mt_bsends;
    mt_bsends = bsend;
    bool many = ++mt_bsend_count >= mt_bsend_many;
    mt_act_unlock();
    if (many) {
        mt_act_buffered_sweep();
    }
}

static int buffered(struct mt_act_comm *comm, const struct mt_act_message *m,
                    const struct mt_act_type *type)
{
    struct mt_act_buffer *buffer =
        __atomic_load_n(&comm->buffer.attached, __ATOMIC_RELAXED)
            ? &comm->buffer
            : &mt_process_buffer;
    uint64_t payload = (uint64_t)m->count * type->layout.size;
    uint64_t bytes = payload + MT_ACT_OVERHEAD;
    if (!reserve_now(buffer, bytes)) {
        if ((int64_t)payload > MT_BSEND_UNBUFFERED) {
            return MT_ERR_BUFFER;
        }
        bytes = 0;
    }
    struct mt_act_bsend *bsend = malloc(sizeof(*bsend) + payload);
    int error = bsend != NULL ? MT_SUCCESS : MT_ERR_NO_MEM;
    if (error == MT_SUCCESS) {
        bsend->buffer = buffer;
        bsend->bytes = bytes;
        error = mt_act_type_pack(type, m->buffer, m->count, bsend->payload)
                    ? mt_act_send_bytes(&bsend->operation, comm, m,
                                        bsend->payload, payload)
                    : MT_ERR_OTHER;
    }
    if (error == MT_SUCCESS) {
        let_go(bsend);
    } else {
        free(bsend);
        unreserve(buffer, bytes);
    }
    return error;
}

int mt_act_buffered(struct mt_act_comm *comm, const struct mt_act_message *m,
                    struct mt_act_type *type)
{
    int error = buffered(comm, m, type);
    mt_act_type_put(type);
    return error;
}

/* The library has attached this memory. */
static void attached(struct mt_act_buffer *buffer, const void *memory,
                     int64_t bytes)
{
    mt_act_lock();
    buffer->room =
        memory == MT_BUFFER_AUTOMATIC ? INT64_MAX : (uint64_t)bytes;
    __atomic_store_n(&buffer->attached, true, __ATOMIC_RELAXED);
    mt_act_unlock();
}

static void detached(struct mt_act_buffer *buffer)
{
    mt_act_lock();
    buffer->room = 0;
    __atomic_store_n(&buffer->attached, false, __ATOMIC_RELAXED);
    mt_act_unlock();
}

/* NULL: the communicator is the library's. */
static struct mt_act_buffer *buffer_of(MT_Comm handle)
{
    struct mt_act_comm *comm = mt_act_comm_find(handle);
    return comm != NULL ? &comm->buffer : NULL;
}

/* A function, and its large-count form, of the process and of a communicator. */
#define MT_BUFFERS(large, count_type, pmpi)                                  \
    static int Buffer_attach##large(void *memory, count_type size)           \
    {                                                                        \
        int rc = pmpi(Buffer_attach)(memory, size);                          \
        if (rc == MT_SUCCESS) {                                              \
            attached(&mt_process_buffer, memory, size);                      \
        }                                                                    \
        return rc;                                                           \
    }                                                                        \
    static int Buffer_detach##large(void *memory, count_type *size)          \
    {                                                                        \
        drain(&mt_process_buffer);                                           \
        int rc = pmpi(Buffer_detach)(memory, size);                          \
        if (rc == MT_SUCCESS) {                                              \
            detached(&mt_process_buffer);                                    \
        }                                                                    \
        return rc;                                                           \
    }                                                                        \
    static int Comm_attach_buffer##large(MT_Comm comm, void *memory,         \
                                         count_type size)                    \
    {                                                                        \
        struct mt_act_buffer *buffer = buffer_of(comm);                      \
        int rc = pmpi(Comm_attach_buffer)(comm, memory, size);               \
        if (rc == MT_SUCCESS && buffer != NULL) {                            \
            attached(buffer, memory, size);                                  \
        }                                                                    \
        return rc;                                                           \
    }                                                                        \
    static int Comm_detach_buffer##large(MT_Comm comm, void *memory,         \
                                         count_type *size)                   \
    {                                                                        \
        struct mt_act_buffer *buffer = buffer_of(comm);                      \
        if (buffer != NULL) {                                                \
            drain(buffer);                                                   \
        }                                                                    \
        int rc = pmpi(Comm_detach_buffer)(comm, memory, size);               \
        if (rc == MT_SUCCESS && buffer != NULL) {                            \
            detached(buffer);                                                \
        }                                                                    \
        return rc;                                                           \
    }
MT_BUFFERS(, int, MT_PMPI)
MT_BUFFERS(_c, MT_Count, MT_PMPI_c)

/* The library's request is done at once, messages of ours are not in its buffer. So
 * whoever finds no room afterwards, although the application has waited for it, waits
 * then. */
static int Buffer_iflush(MT_Request *request)
{
    __atomic_store_n(&mt_process_buffer.flushes, true, __ATOMIC_RELAXED);
    return MT_PMPI(Buffer_iflush)(request);
}

static int Comm_iflush_buffer(MT_Comm comm, MT_Request *request)
{
    struct mt_act_buffer *buffer = buffer_of(comm);
    if (buffer != NULL) {
        __atomic_store_n(&buffer->flushes, true, __ATOMIC_RELAXED);
    }
    return MT_PMPI(Comm_iflush_buffer)(comm, request);
}

static int Buffer_flush(void)
{
    drain(&mt_process_buffer);
    return MT_PMPI(Buffer_flush)();
}

static int Comm_flush_buffer(MT_Comm comm)
{
    struct mt_act_buffer *buffer = buffer_of(comm);
    if (buffer != NULL) {
        drain(buffer);
    }
    return MT_PMPI(Comm_flush_buffer)(comm);
}

void mt_act_buffered_functions(struct mt_act_functions *functions)
{
    MT_ACT_TAKE_BOTH(functions, Buffer_attach);
    MT_ACT_TAKE_BOTH(functions, Buffer_detach);
    MT_ACT_TAKE(functions, Buffer_flush);
    MT_ACT_TAKE(functions, Buffer_iflush);
    MT_ACT_TAKE_BOTH(functions, Comm_attach_buffer);
    MT_ACT_TAKE_BOTH(functions, Comm_detach_buffer);
    MT_ACT_TAKE(functions, Comm_flush_buffer);
    MT_ACT_TAKE(functions, Comm_iflush_buffer);
}
