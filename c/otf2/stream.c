/* stream.c: reads and checks the stream of stream.h. Nothing in it is trusted:
 * it may come from anybody's file. It knows nothing of the library. */
#include "stream.h"

#include <stdlib.h>
#include <string.h>

/* What a location has got so far. */
struct location {
    uint64_t time;
    uint32_t *open; /* regions entered and not left */
    uint32_t depth, room;
    bool seen, closed;
};

/* What is numbered, and the largest number that was used of it. */
enum kind { STRINGS, NODES, PROCESSES, LOCATIONS, REGIONS, GROUPS, COMMS, KINDS };

struct parser {
    FILE *in;
    const struct mt_otf2_sink *sink;
    struct mt_otf2_outcome *out;
    unsigned char *payload;
    size_t room, bytes, at;
    struct location *locations;
    size_t location_count;
    uint64_t defined[KINDS], wanted[KINDS]; /* wanted: number plus 1 */
    uint64_t *members;
    size_t member_room;
    uint64_t byte;
    bool defining, clock, ended;
};

static const char *const memory = "out of memory";

static uint64_t number(struct parser *p, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; i++) {
        v |= (uint64_t)p->payload[p->at++] << (8 * i);
    }
    return v;
}

static uint32_t u32(struct parser *p) { return (uint32_t)number(p, 4); }
static uint64_t u64(struct parser *p) { return number(p, 8); }

/* A reference to something that is, or will be, defined. */
static uint32_t reference(struct parser *p, enum kind kind)
{
    uint32_t v = u32(p);
    if (p->wanted[kind] < (uint64_t)v + 1) {
        p->wanted[kind] = (uint64_t)v + 1;
    }
    return v;
}

/* The exact size of a record, 0 if it varies or is not known. */
static size_t size_of(uint32_t type)
{
    switch (type) {
    case MT_OTF2_ENTER:
    case MT_OTF2_LEAVE: return 20;
    case MT_OTF2_SEND:
    case MT_OTF2_RECV: return 36;
    case MT_OTF2_ISEND:
    case MT_OTF2_IRECV: return 44;
    case MT_OTF2_IRECV_REQUEST: return 24;
    case MT_OTF2_COLLECTIVE_BEGIN: return 16;
    case MT_OTF2_COLLECTIVE_END: return 44;
    case MT_OTF2_CLOSE: return 8;
    case MT_OTF2_CLOCK: return 32;
    case MT_OTF2_NODE: return 12;
    case MT_OTF2_PROCESS:
    case MT_OTF2_LOCATION:
    case MT_OTF2_COMM: return 8;
    case MT_OTF2_REGION: return 20;
    case MT_OTF2_PROPERTY: return 12;
    case MT_OTF2_END: return 8;
    default: return 0;
    }
}

/* Room in an array that grows; NULL without memory. */
static void *room_for(void *array, size_t *room, size_t wanted, size_t size)
{
    if (wanted <= *room) {
        return array;
    }
    size_t more = *room * 2 > wanted ? *room * 2 : wanted;
    void *grown = realloc(array, more * size);
    if (grown != NULL) {
        memset((char *)grown + *room * size, 0, (more - *room) * size);
        *room = more;
    }
    return grown;
}

static const char *find_location(struct parser *p, uint64_t number,
                                 struct location **location_p)
{
    if (number >= MT_OTF2_LOCATIONS_MAX) {
        return "the number of a location is too large";
    }
    struct location *grown =
        room_for(p->locations, &p->location_count, (size_t)number + 1,
                 sizeof(*grown));
    if (grown == NULL) {
        return memory;
    }
    p->locations = grown;
    *location_p = &grown[number];
    if (!grown[number].seen) {
        grown[number].seen = true;
        p->out->locations++;
    }
    if (p->wanted[LOCATIONS] < number + 1) {
        p->wanted[LOCATIONS] = number + 1;
    }
    return grown[number].closed ? "the location was closed before" : NULL;
}

static const char *enter(struct location *l, uint32_t region)
{
    size_t room = l->room;
    uint32_t *grown = room_for(l->open, &room, (size_t)l->depth + 1,
                               sizeof(*grown));
    if (grown == NULL) {
        return memory;
    }
    l->open = grown;
    l->room = (uint32_t)room;
    l->open[l->depth++] = region;
    return NULL;
}

static const char *leave(struct location *l, uint32_t region)
{
    if (l->depth == 0 || l->open[l->depth - 1] != region) {
        return "a region is left that was not entered last";
    }
    l->depth--;
    return NULL;
}

static const char *close_location(struct parser *p, struct mt_otf2_record *r)
{
    struct location *l = NULL;
    r->location = u64(p);
    const char *why = find_location(p, r->location, &l);
    if (why == NULL && l->depth > 0) {
        why = "a location is closed within a region";
    }
    if (why == NULL) {
        l->closed = true;
        free(l->open);
        l->open = NULL;
        l->room = 0;
    }
    return why;
}

/* The part of a message that all of them have. */
static void message(struct parser *p, struct mt_otf2_record *r)
{
    r->comm = reference(p, COMMS);
    r->rank = u32(p);
    r->tag = u32(p);
    r->bytes = u64(p);
}

static const char *event(struct parser *p, struct mt_otf2_record *r)
{
    struct location *l = NULL;
    r->location = u64(p);
    r->time = u64(p);
    const char *why = find_location(p, r->location, &l);
    if (why != NULL) {
        return why;
    }
    if (r->time < l->time) {
        return "time runs backward";
    }
    l->time = r->time;
    p->out->events++;
    switch (r->type) {
    case MT_OTF2_ENTER:
        r->region = reference(p, REGIONS);
        return enter(l, r->region);
    case MT_OTF2_LEAVE:
        r->region = reference(p, REGIONS);
        return leave(l, r->region);
    case MT_OTF2_SEND:
    case MT_OTF2_RECV: message(p, r); break;
    case MT_OTF2_ISEND:
    case MT_OTF2_IRECV:
        message(p, r);
        r->request = u64(p);
        break;
    case MT_OTF2_IRECV_REQUEST: r->request = u64(p); break;
    case MT_OTF2_COLLECTIVE_END:
        r->comm = reference(p, COMMS);
        r->rank = u32(p);
        r->operation = u32(p);
        r->bytes = u64(p);
        r->received = u64(p);
        break;
    default: break;
    }
    return NULL;
}

static const char *group(struct parser *p, struct mt_otf2_record *r)
{
    if (p->bytes < 8 || p->bytes % 8 != 0) {
        return "a group has an odd size";
    }
    r->name = reference(p, STRINGS);
    r->kind = u32(p);
    r->member_count = (uint32_t)((p->bytes - 8) / 8);
    uint64_t *grown = room_for(p->members, &p->member_room,
                               (size_t)r->member_count + 1, sizeof(*grown));
    if (grown == NULL) {
        return memory;
    }
    p->members = grown;
    for (uint32_t i = 0; i < r->member_count; i++) {
        grown[i] = u64(p);
    }
    r->members = grown;
    return NULL;
}

static const char *define(struct parser *p, struct mt_otf2_record *r,
                          enum kind kind)
{
    if (p->defined[kind] >= MT_OTF2_DEFINITIONS_MAX) {
        return "too many definitions";
    }
    r->self = (uint32_t)p->defined[kind]++;
    switch (r->type) {
    case MT_OTF2_STRING:
        if (memchr(p->payload, 0, p->bytes) != NULL) {
            return "a text holds a NUL";
        }
        r->text = (const char *)p->payload; /* read() appends a NUL */
        return NULL;
    case MT_OTF2_NODE:
        r->name = reference(p, STRINGS);
        r->kind = reference(p, STRINGS);
        r->parent = u32(p);
        return r->parent != MT_OTF2_NONE && r->parent >= r->self
                   ? "a node comes before its parent"
                   : NULL;
    case MT_OTF2_PROCESS:
        r->name = reference(p, STRINGS);
        r->parent = reference(p, NODES);
        return NULL;
    case MT_OTF2_LOCATION:
        r->name = reference(p, STRINGS);
        r->parent = reference(p, PROCESSES);
        return NULL;
    case MT_OTF2_REGION:
        r->name = reference(p, STRINGS);
        r->description = reference(p, STRINGS);
        r->role = u32(p);
        r->file = reference(p, STRINGS);
        r->line = u32(p);
        return NULL;
    case MT_OTF2_GROUP: return group(p, r);
    case MT_OTF2_COMM:
        r->name = reference(p, STRINGS);
        r->parent = reference(p, GROUPS);
        return NULL;
    default: return "not a definition";
    }
}

static const char *end(struct parser *p)
{
    static const char *const missing[KINDS] = {
        "a text is referred to that is not defined",
        "a node is referred to that is not defined",
        "a process is referred to that is not defined",
        "a location is referred to that is not defined",
        "a region is referred to that is not defined",
        "a group is referred to that is not defined",
        "a communicator is referred to that is not defined",
    };
    if (u64(p) != p->out->records) {
        return "records are missing";
    }
    for (int i = 0; i < KINDS; i++) {
        if (p->wanted[i] > p->defined[i]) {
            return missing[i];
        }
    }
    if (!p->clock) {
        return "the clock is not defined";
    }
    p->ended = true;
    return NULL;
}

static const char *definition(struct parser *p, struct mt_otf2_record *r)
{
    switch (r->type) {
    case MT_OTF2_CLOCK:
        for (int i = 0; i < 4; i++) {
            r->clock[i] = u64(p);
        }
        p->clock = true;
        return r->clock[0] == 0 ? "a clock without rate" : NULL;
    case MT_OTF2_STRING: return define(p, r, STRINGS);
    case MT_OTF2_NODE: return define(p, r, NODES);
    case MT_OTF2_PROCESS: return define(p, r, PROCESSES);
    case MT_OTF2_LOCATION: return define(p, r, LOCATIONS);
    case MT_OTF2_REGION: return define(p, r, REGIONS);
    case MT_OTF2_GROUP: return define(p, r, GROUPS);
    case MT_OTF2_COMM: return define(p, r, COMMS);
    case MT_OTF2_PROPERTY:
        r->parent = reference(p, PROCESSES);
        r->name = reference(p, STRINGS);
        r->value = reference(p, STRINGS);
        return NULL;
    case MT_OTF2_END: return end(p);
    default: return "a record of unknown type";
    }
}

/* All locations must be left whole before definitions come. */
static const char *begin_definitions(struct parser *p)
{
    for (size_t i = 0; i < p->location_count; i++) {
        if (p->locations[i].seen && !p->locations[i].closed) {
            return "a location was not closed before the definitions";
        }
    }
    p->defining = true;
    return NULL;
}

/* Reads the payload and appends a NUL. */
static const char *payload(struct parser *p, uint32_t type)
{
    size_t want = size_of(type);
    if (p->bytes > MT_OTF2_PAYLOAD_MAX) {
        return "a record is too large";
    }
    if (want != 0 && want != p->bytes) {
        return "a record has the wrong size for its type";
    }
    unsigned char *grown = room_for(p->payload, &p->room, p->bytes + 1, 1);
    if (grown == NULL) {
        return memory;
    }
    p->payload = grown;
    if (fread(grown, 1, p->bytes, p->in) != p->bytes) {
        return "the stream ends within a record";
    }
    grown[p->bytes] = 0;
    p->at = 0;
    return NULL;
}

static const char *one_record(struct parser *p)
{
    unsigned char head[8];
    size_t got = fread(head, 1, sizeof(head), p->in);
    if (got < sizeof(head)) {
        return "the stream ends without END";
    }
    uint32_t type = 0, bytes = 0;
    for (int i = 0; i < 4; i++) {
        type |= (uint32_t)head[i] << (8 * i);
        bytes |= (uint32_t)head[4 + i] << (8 * i);
    }
    p->bytes = bytes;
    const char *why = payload(p, type);
    struct mt_otf2_record r = {.type = (enum mt_otf2_type)type};
    if (why == NULL && type > MT_OTF2_CLOSE && !p->defining) {
        why = begin_definitions(p);
    } else if (why == NULL && type <= MT_OTF2_CLOSE && p->defining) {
        why = "an event comes after the definitions";
    }
    if (why == NULL) {
        if (type > MT_OTF2_CLOSE) {
            why = definition(p, &r);
        } else if (type == MT_OTF2_CLOSE) {
            why = close_location(p, &r);
        } else {
            why = type == 0 ? "a record of unknown type" : event(p, &r);
        }
    }
    if (why == NULL && !p->ended) {
        why = p->sink->record(p->sink->self, &r);
        p->out->records++;
    }
    p->byte += sizeof(head) + p->bytes;
    return why;
}

void mt_otf2_read(FILE *in, const struct mt_otf2_sink *sink,
                  struct mt_otf2_outcome *outcome_p)
{
    static const char magic[8] = {'M', 'P', 'T', 'O', 'T', 'F', '2', 1};
    struct parser p = {.in = in, .sink = sink, .out = outcome_p, .byte = 8};
    char begin[8];
    *outcome_p = (struct mt_otf2_outcome){0};
    if (fread(begin, 1, sizeof(begin), in) != sizeof(begin) ||
        memcmp(begin, magic, sizeof(begin)) != 0) {
        outcome_p->why = "not a stream of mpitrace, or of another version";
    }
    while (outcome_p->why == NULL && !p.ended) {
        outcome_p->byte = p.byte;
        outcome_p->why = one_record(&p);
    }
    if (outcome_p->why == NULL && getc(in) != EOF) {
        outcome_p->byte = p.byte;
        outcome_p->why = "something follows END";
    }
    for (size_t i = 0; i < p.location_count; i++) {
        free(p.locations[i].open);
    }
    free(p.locations);
    free(p.members);
    free(p.payload);
}
