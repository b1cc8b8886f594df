/* match.c: contexts and their queues: receives that wait for a message, and
 * messages that wait for a receive. Both have a queue for each source, and one
 * for wildcards, so that who knows its source looks only at what is of it.
 *
 * Order (MPI 4.1, 3.5). Of the receives that a message matches it gets the one
 * posted first: the first of its source's queue or of the wildcards', whichever
 * has the lower number. Of the messages that a receive matches it gets the one
 * that arrived first: the first that matches in the queue of its source, or in
 * the one of all sources. */
#include "inside.h"

#include <stdlib.h>

/* ---- contexts ---- */

static struct mt_engine_context **mt_bucket(struct mt_engine *engine,
                                            uint32_t id)
{
    return &engine->contexts[mt_hash(id) >> 56];
}

_Static_assert(MT_ENGINE_BUCKETS == 256, "the upper 8 bits of a hash");

static void mt_source_add(struct mt_source *s, struct mt_engine_message *m)
{
    m->next = NULL;
    m->link = s->messages_tail;
    *s->messages_tail = m;
    s->messages_tail = &m->next;
}

static void mt_source_begin(struct mt_source *s)
{
    s->posted = NULL;
    s->posted_tail = &s->posted;
    s->messages = NULL;
    s->messages_tail = &s->messages;
}

struct mt_engine_context *mt_context_get(struct mt_engine *engine, uint32_t id)
{
    struct mt_engine_context **bucket = mt_bucket(engine, id);
    struct mt_engine_context *c = *bucket;
    while (c != NULL && c->id != id) {
        c = c->next;
    }
    if (mt_likely(c != NULL)) {
        return c;
    }
    c = calloc(1, sizeof(*c));
    if (c != NULL) {
        c->engine = engine;
        c->id = id;
        c->next = *bucket;
        mt_source_begin(&c->any);
        *bucket = c;
    }
    return c;
}

static void mt_context_free(struct mt_engine_context *context)
{
    while (context->any.messages != NULL) {
        struct mt_engine_message *m = context->any.messages;
        mt_message_remove(m);
        mt_message_free(context->engine, m);
    }
    free(context->sources);
    free(context->processes);
    free(context);
}

void mt_context_put(struct mt_engine_context *context)
{
    if (context->open || context->requests > 0) {
        return;
    }
    struct mt_engine_context **c = mt_bucket(context->engine, context->id);
    while (*c != NULL && *c != context) {
        c = &(*c)->next;
    }
    if (*c == context) {
        *c = context->next;
    }
    mt_context_free(context);
}

void mt_contexts_free(struct mt_engine *engine)
{
    for (unsigned i = 0; i < MT_ENGINE_BUCKETS; i++) {
        while (engine->contexts[i] != NULL) {
            struct mt_engine_context *c = engine->contexts[i];
            engine->contexts[i] = c->next;
            mt_context_free(c);
        }
    }
}

/* Fills a context that this process knows of by its messages at most. */
static enum mt_status mt_context_fill(struct mt_engine_context *c,
                                      uint32_t rank, uint32_t size,
                                      const uint32_t *processes)
{
    struct mt_source *sources = calloc(size, sizeof(*sources));
    uint32_t *copy = calloc(size, sizeof(*copy));
    if (sources == NULL || copy == NULL) {
        free(sources);
        free(copy);
        return MT_ENOMEM;
    }
    for (uint32_t i = 0; i < size; i++) {
        mt_source_begin(&sources[i]);
        copy[i] = processes[i];
    }
    c->rank = rank;
    c->size = size;
    c->sources = sources;
    c->processes = copy;
    c->open = true;
    return MT_OK;
}

bool mt_context_has(const struct mt_engine_context *context, uint32_t rank,
                    uint32_t process)
{
    return rank < context->size && context->processes[rank] == process;
}

/* What came before it was opened, into the queues of its sources. */
static void mt_context_sort(struct mt_engine_context *c)
{
    struct mt_engine_message *next, *m = c->any.messages;
    for (; m != NULL; m = next) {
        next = m->all_next;
        if (mt_context_has(c, m->head.source, m->peer->process)) {
            mt_source_add(&c->sources[m->head.source], m);
        } else {
            mt_peer_end(m->peer);
            mt_message_remove(m);
            mt_message_free(c->engine, m);
        }
    }
}

enum mt_status mt_engine_context_open(struct mt_engine *engine, uint32_t id,
                                      uint32_t rank, uint32_t size,
                                      const uint32_t *processes,
                                      struct mt_engine_context **context_p)
{
    bool right = rank < size && size <= INT32_MAX &&
                 processes[rank] == engine->process;
    for (uint32_t i = 0; i < size && right; i++) {
        right = processes[i] < engine->processes;
    }
    if (!right) {
        return MT_EINVAL;
    }
    if (engine->forgotten) {
        return MT_ESTATE;
    }
    mt_engine_lock(engine);
    struct mt_engine_context *c = mt_context_get(engine, id);
    enum mt_status status = c == NULL                     ? MT_ENOMEM
                            : c->open || c->requests > 0 ? MT_ESTATE
                                                          : MT_OK;
    if (status == MT_OK) {
        status = mt_context_fill(c, rank, size, processes);
    }
    if (status == MT_OK) {
        mt_context_sort(c);
        *context_p = c;
    }
    mt_engine_unlock(engine);
    return status;
}

void mt_engine_context_close(struct mt_engine_context *context)
{
    struct mt_engine *engine = context->engine;
    if (engine->forgotten) {
        return;
    }
    mt_engine_lock(engine);
    while (context->any.messages != NULL &&
           mt_message_discard(context->any.messages)) {
    }
    mt_discards_free(engine);
    context->open = false;
    mt_context_put(context);
    mt_engine_unlock(engine);
}

/* ---- receives ---- */

static bool mt_tag_fits(int32_t wanted, int32_t tag)
{
    return wanted == tag || wanted == MT_ENGINE_ANY;
}

static struct mt_source *mt_source_of(struct mt_engine_context *context,
                                      int32_t source)
{
    return source == MT_ENGINE_ANY ? &context->any : &context->sources[source];
}

void mt_posted_add(struct mt_engine_context *context,
                   struct mt_engine_request *request)
{
    struct mt_source *s = mt_source_of(context, request->want_source);
    request->state = MT_REQUEST_POSTED;
    mt_engine_add(&context->engine->posted, 1);
    request->number = context->receives++;
    request->next = NULL;
    request->link = s->posted_tail;
    *s->posted_tail = request;
    s->posted_tail = &request->next;
}

void mt_posted_remove(struct mt_engine_request *request)
{
    struct mt_source *s =
        mt_source_of(request->context, request->want_source);
    *request->link = request->next;
    if (request->next != NULL) {
        request->next->link = request->link;
    } else {
        s->posted_tail = request->link;
    }
    request->state = MT_REQUEST_IDLE;
    mt_engine_add(&request->context->engine->posted, -1);
}

static struct mt_engine_request *mt_posted_first(const struct mt_source *s,
                                                 int32_t tag)
{
    struct mt_engine_request *r = s->posted;
    while (r != NULL && !mt_tag_fits(r->want_tag, tag)) {
        r = r->next;
    }
    return r;
}

struct mt_engine_request *mt_match_arrival(struct mt_engine_context *context,
                                           uint32_t source, int32_t tag)
{
    struct mt_engine_request *named =
        mt_posted_first(&context->sources[source], tag);
    struct mt_engine_request *any = mt_posted_first(&context->any, tag);
    bool takes_any =
        any != NULL && (named == NULL || any->number < named->number);
    struct mt_engine_request *first = takes_any ? any : named;
    if (first != NULL) {
        mt_posted_remove(first);
    }
    return first;
}

static bool mt_posted_asks(const struct mt_engine_request *r, bool silent)
{
    return r->mark == MT_RTR_ASKED || (silent && r->mark == MT_RTR_SILENT);
}

bool mt_posted_ahead(const struct mt_engine_request *request, bool silent,
                     uint32_t *ahead_p)
{
    const struct mt_engine_context *c = request->context;
    uint32_t ahead = 0, looks = 0;
    const struct mt_engine_request *r = c->sources[request->want_source].posted;
    for (; r != request && looks < MT_RTR_LOOKS; r = r->next, looks++) {
        if (mt_tag_fits(r->want_tag, request->want_tag)) {
            if (!mt_posted_asks(r, silent) || ++ahead == MT_RTR_OFFERS) {
                return false;
            }
        }
    }
    /* what is in the other queue is all ahead, and never asks */
    const struct mt_engine_request *any = c->any.posted;
    for (; any != NULL && looks < MT_RTR_LOOKS; any = any->next, looks++) {
        if (mt_tag_fits(any->want_tag, request->want_tag)) {
            return false;
        }
    }
    *ahead_p = ahead;
    return looks < MT_RTR_LOOKS;
}

static void mt_queue_end(struct mt_source *s)
{
    while (s->posted != NULL) {
        struct mt_engine_request *r = s->posted;
        mt_posted_remove(r);
        mt_request_end(r, MT_EPEER);
    }
}

static void mt_named_end(struct mt_engine_context *c, uint32_t process)
{
    for (uint32_t rank = 0; rank < c->size; rank++) {
        if (c->processes[rank] == process) {
            mt_queue_end(&c->sources[rank]);
        }
    }
}

static void mt_any_end(struct mt_engine_context *c, uint32_t process)
{
    (void)process;
    if (c->size > 1) {
        mt_queue_end(&c->any);
    }
}

static void mt_contexts_end(struct mt_engine *engine,
                            void (*end)(struct mt_engine_context *c,
                                        uint32_t process),
                            uint32_t process)
{
    for (unsigned i = 0; i < MT_ENGINE_BUCKETS; i++) {
        struct mt_engine_context *next, *c = engine->contexts[i];
        for (; c != NULL; c = next) {
            next = c->next;
            c->requests++; /* or it may go with its last one */
            end(c, process);
            c->requests--;
            if (c->size > 0) {
                mt_context_put(c);
            }
        }
    }
}

void mt_posted_end(struct mt_engine *engine, uint32_t process)
{
    mt_contexts_end(engine, mt_named_end, process);
}

void mt_posted_end_any(struct mt_engine *engine)
{
    mt_contexts_end(engine, mt_any_end, 0);
}

/* ---- messages ---- */

void mt_message_add(struct mt_engine_context *context,
                    struct mt_engine_message *m)
{
    struct mt_source *all = &context->any;
    m->all_next = NULL;
    m->all_link = all->messages_tail;
    *all->messages_tail = m;
    all->messages_tail = &m->all_next;
    m->link = NULL;
    if (context->sources != NULL) {
        mt_source_add(&context->sources[m->head.source], m);
    }
}

void mt_message_remove(struct mt_engine_message *m)
{
    struct mt_engine_context *context = m->context;
    *m->all_link = m->all_next;
    if (m->all_next != NULL) {
        m->all_next->all_link = m->all_link;
    } else {
        context->any.messages_tail = m->all_link;
    }
    if (m->link == NULL) {
        return;
    }
    *m->link = m->next;
    if (m->next != NULL) {
        m->next->link = m->link;
    } else {
        context->sources[m->head.source].messages_tail = m->link;
    }
}

struct mt_engine_message *
mt_match_receive(const struct mt_engine_context *context, int32_t source,
                 int32_t tag)
{
    struct mt_engine_message *m;
    if (source == MT_ENGINE_ANY) {
        m = context->any.messages;
        while (m != NULL && !mt_tag_fits(tag, m->head.tag)) {
            m = m->all_next;
        }
    } else {
        m = context->sources[source].messages;
        while (m != NULL && !mt_tag_fits(tag, m->head.tag)) {
            m = m->next;
        }
    }
    return m;
}
