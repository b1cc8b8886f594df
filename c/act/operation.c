/* operation.c: from what the application says of a message to what the engine
 * wants, and back: ranks and tags, memory, errors. */
#include <pthread.h>
#include <stdlib.h>

#include "act.h"

/* Of MPI_BOTTOM, which is NULL, no bytes are meant that lie within its first page:
 * the type has no addresses, and the library says what is wrong with the buffer. */
MT_COLD static bool relative(const struct mt_act_type *type)
{
    enum { PAGE = 4096 };
    int64_t at = type->shape == MT_ACT_BLOCKS ? type->blocks[0].offset
                                              : type->offset;
    return type->layout.size > 0 && at > -PAGE && at < PAGE;
}

bool mt_act_check(const struct mt_act_comm *comm, const struct mt_act_message *m,
                  enum mt_act_use use, struct mt_act_type **type_p)
{
    bool receives = use == MT_ACT_RECEIVES;
    bool rank = (uint32_t)m->rank < (uint32_t)comm->size ||
                (receives && m->rank == MT_ANY_SOURCE);
    bool tag = (m->tag >= 0 && m->tag <= mt_act.tag_limit) ||
               (receives && m->tag == MT_ANY_TAG);
    if (mt_unlikely(!rank || !tag || m->count < 0)) {
        return false;
    }
    struct mt_act_type *type = mt_act_type_find(m->datatype);
    if (mt_unlikely(type == NULL)) {
        return false;
    }
    if (mt_unlikely(m->buffer == NULL && m->count > 0 && relative(type))) {
        mt_act_type_put(type);
        return false;
    }
    *type_p = type;
    return true;
}

/* What the rules of the policy say of a message. */
static const struct mt_engine_terms *
terms_of(const struct mt_act_comm *comm, const struct mt_act_message *m,
         uint64_t bytes)
{
    bool somebody = m->rank != MT_ANY_SOURCE && mt_act.nodes != NULL;
    uint8_t where =
        somebody ? mt_act.nodes[comm->processes[m->rank]] : MT_ACT_UNKNOWN;
    struct mt_act_asked asked = {
        .rules = __atomic_load_n(&comm->rules, __ATOMIC_RELAXED),
        .call = m->call,
        .peer = (enum mt_act_where)where,
        .bytes = bytes,
        .site = mt_act.rules.with_sites != 0 ? mt_act.host->site() : 0};
    return mt_act_rules_terms(&mt_act.rules, &asked);
}

/* Where the bytes lie. What is not needed while the message is under way is
 * given back. Of MT_ACT_NATIVE: room for the packed bytes. */
static bool describe(struct mt_act_operation *operation,
                     struct mt_act_comm *comm, const struct mt_act_message *m,
                     struct mt_act_type *type, struct mt_buffer *buffer_p)
{
    const struct mt_layout *layout = &type->layout;
    operation->comm = comm;
    operation->type = NULL;
    operation->packed = NULL;
    *buffer_p = (struct mt_buffer){
        .address = m->buffer,
        .bytes = (uint64_t)m->count * layout->size,
        .blocks = m->call == MT_ACT_CALL_SEND || m->call == MT_ACT_CALL_RECV};
    if (mt_unlikely(mt_act.rules.count > 0)) {
        buffer_p->terms = terms_of(comm, m, buffer_p->bytes);
    }
    if (mt_likely(type->shape == MT_ACT_PLAIN)) {
        buffer_p->address = (char *)m->buffer + type->offset;
    } else if (type->shape == MT_ACT_BLOCKS && m->count == 1 &&
               layout->block_count == 1) {
        buffer_p->address = (char *)m->buffer + layout->blocks[0].offset;
    } else if (buffer_p->bytes > 0) {
        operation->type = type;
        operation->buffer = m->buffer;
        if (type->shape == MT_ACT_BLOCKS) {
            buffer_p->layout = layout;
            return true;
        }
        operation->packed = malloc(buffer_p->bytes);
        buffer_p->address = operation->packed;
        return operation->packed != NULL;
    }
    mt_act_type_put(type);
    return true;
}

static void release(struct mt_act_operation *operation)
{
    if (mt_unlikely(operation->type != NULL)) {
        free(operation->packed);
        mt_act_type_put(operation->type);
        operation->type = NULL;
        operation->packed = NULL;
    }
}

static int started(struct mt_act_operation *operation, enum mt_status status)
{
    if (mt_unlikely(status != MT_OK)) {
        release(operation);
    }
    return mt_act_error_of(status);
}

int mt_act_send(struct mt_act_operation *operation, struct mt_act_comm *comm,
                const struct mt_act_message *m, struct mt_act_type *type,
                enum mt_engine_mode mode)
{
    struct mt_buffer buffer;
    operation->receive = false;
    if (!describe(operation, comm, m, type, &buffer)) {
        return started(operation, MT_ENOMEM);
    }
    if (mt_unlikely(operation->packed != NULL) &&
        !mt_act_type_pack(type, m->buffer, m->count, operation->packed)) {
        return started(operation, MT_EINVAL);
    }
    if (mt_unlikely(mt_act.reuses) && operation->packed == NULL) {
        buffer.site = mt_act.host->site();
    }
    return started(operation,
                   mt_engine_send(comm->context, &operation->engine, m->rank,
                                  m->tag, mode, &buffer));
}

int mt_act_send_bytes(struct mt_act_operation *operation,
                      struct mt_act_comm *comm, const struct mt_act_message *m,
                      void *address, uint64_t bytes)
{
    struct mt_buffer buffer = {.address = address, .bytes = bytes};
    if (mt_unlikely(mt_act.rules.count > 0)) {
        buffer.terms = terms_of(comm, m, bytes);
    }
    operation->receive = false;
    operation->comm = comm;
    operation->type = NULL;
    operation->packed = NULL;
    return started(operation, mt_engine_send(comm->context, &operation->engine,
                                             m->rank, m->tag,
                                             MT_ENGINE_STANDARD, &buffer));
}

int mt_act_receive(struct mt_act_operation *operation, struct mt_act_comm *comm,
                   const struct mt_act_message *m, struct mt_act_type *type)
{
    struct mt_buffer buffer;
    operation->receive = true;
    if (!describe(operation, comm, m, type, &buffer)) {
        return started(operation, MT_ENOMEM);
    }
    int32_t source = m->rank == MT_ANY_SOURCE ? MT_ENGINE_ANY : m->rank;
    int32_t tag = m->tag == MT_ANY_TAG ? MT_ENGINE_ANY : m->tag;
    return started(operation,
                   mt_engine_receive(comm->context, &operation->engine, source,
                                     tag, &buffer));
}

int mt_act_receive_message(struct mt_act_operation *operation,
                           struct mt_act_comm *comm,
                           const struct mt_act_message *m,
                           struct mt_act_type *type,
                           struct mt_engine_message *message)
{
    struct mt_buffer buffer;
    operation->receive = true;
    if (!describe(operation, comm, m, type, &buffer)) {
        return started(operation, MT_ENOMEM);
    }
    return started(operation,
                   mt_engine_receive_message(comm->context, &operation->engine,
                                             message, &buffer));
}

void mt_act_unpack(struct mt_act_operation *operation)
{
    static pthread_mutex_t unpacking = PTHREAD_MUTEX_INITIALIZER;
    if (mt_likely(__atomic_load_n(&operation->packed, __ATOMIC_ACQUIRE) == NULL ||
                  !operation->receive)) {
        return;
    }
    pthread_mutex_lock(&unpacking);
    if (operation->packed != NULL) {
        if (!operation->engine.cancelled &&
            !mt_act_type_unpack(operation->type, operation->packed,
                                operation->engine.bytes, operation->buffer)) {
            operation->engine.status = MT_EINVAL;
        }
        free(operation->packed);
        __atomic_store_n(&operation->packed, NULL, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&unpacking);
}

int mt_act_finish(struct mt_act_operation *operation)
{
    if (mt_unlikely(operation->receive &&
                    operation->engine.wrong != MT_ENGINE_NO_WAY)) {
        mt_act_wrong(operation);
    }
    mt_act_unpack(operation);
    release(operation);
    if (mt_unlikely(mt_act.unpacked_late != 0)) {
        mt_act_requests_sweep(); /* this message may tell that they are done */
    }
    return mt_act_error_of(operation->engine.status);
}

void mt_act_status(const struct mt_act_operation *operation, MT_Status *status)
{
    const struct mt_engine_request *engine = &operation->engine;
    if (status == MT_STATUS_IGNORE) {
        return;
    }
    if (mt_unlikely(engine->cancelled)) {
        mt_status_set(status, MT_ANY_SOURCE, MT_ANY_TAG, 0, 1);
        return;
    }
    mt_status_set(status, engine->source, engine->tag, engine->bytes, 0);
}
