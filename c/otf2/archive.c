/* archive.c: the only place that knows libotf2. One event writer is open per
 * location that has begun and not ended, each with one chunk of memory. */
#include "archive.h"

#include <otf2/otf2.h>
#include <stdlib.h>

enum { EVENT_CHUNK = 1 << 18, DEFINITION_CHUNK = 1 << 22 };

struct writer {
    OTF2_EvtWriter *events;
    uint64_t count;
    bool used;
};

struct mt_archive {
    OTF2_Archive *archive;
    OTF2_GlobalDefWriter *definitions;
    struct writer *writers;
    size_t writer_count;
    bool failed;
};

static OTF2_FlushType pre_flush(void *user, OTF2_FileType type,
                                OTF2_LocationRef location, void *caller,
                                bool final)
{
    (void)user, (void)type, (void)location, (void)caller, (void)final;
    return OTF2_FLUSH;
}

/* No time of ours goes into the trace. */
static OTF2_FlushCallbacks callbacks = {.otf2_pre_flush = pre_flush,
                                        .otf2_post_flush = NULL};

/* The error that the library reported last, in its own words. */
static const char *said(OTF2_ErrorCode code)
{
    return code == OTF2_SUCCESS ? NULL : OTF2_Error_GetDescription(code);
}

struct mt_archive *mt_archive_open(const char *directory, const char *name,
                                   const char **why_p)
{
    struct mt_archive *a = calloc(1, sizeof(*a));
    if (a == NULL) {
        *why_p = "out of memory";
        return NULL;
    }
    a->archive = OTF2_Archive_Open(directory, name, OTF2_FILEMODE_WRITE,
                                   EVENT_CHUNK, DEFINITION_CHUNK,
                                   OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
    if (a->archive == NULL) {
        free(a);
        *why_p = "the archive could not be made";
        return NULL;
    }
    OTF2_ErrorCode code =
        OTF2_Archive_SetFlushCallbacks(a->archive, &callbacks, NULL);
    if (code == OTF2_SUCCESS) {
        code = OTF2_Archive_SetSerialCollectiveCallbacks(a->archive);
    }
    if (code == OTF2_SUCCESS) {
        code = OTF2_Archive_SetCreator(a->archive, "mpitrace");
    }
    if (code == OTF2_SUCCESS) {
        code = OTF2_Archive_OpenEvtFiles(a->archive);
    }
    *why_p = said(code);
    if (*why_p != NULL) {
        OTF2_Archive_Close(a->archive);
        free(a);
        return NULL;
    }
    return a;
}

/* The event writer of a location, opened the first time. */
static struct writer *writer_of(struct mt_archive *a, uint64_t location)
{
    if (location >= a->writer_count) {
        size_t n = a->writer_count * 2 > location + 1 ? a->writer_count * 2
                                                      : (size_t)location + 1;
        struct writer *grown = realloc(a->writers, n * sizeof(*grown));
        if (grown == NULL) {
            return NULL;
        }
        for (size_t i = a->writer_count; i < n; i++) {
            grown[i] = (struct writer){0};
        }
        a->writers = grown;
        a->writer_count = n;
    }
    struct writer *w = &a->writers[location];
    if (w->events == NULL && !w->used) {
        w->events = OTF2_Archive_GetEvtWriter(a->archive, location);
        w->used = true;
    }
    return w;
}

static OTF2_ErrorCode write_event(OTF2_EvtWriter *w,
                                  const struct mt_otf2_record *r)
{
    switch (r->type) {
    case MT_OTF2_ENTER:
        return OTF2_EvtWriter_Enter(w, NULL, r->time, r->region);
    case MT_OTF2_LEAVE:
        return OTF2_EvtWriter_Leave(w, NULL, r->time, r->region);
    case MT_OTF2_SEND:
        return OTF2_EvtWriter_MpiSend(w, NULL, r->time, r->rank, r->comm,
                                      r->tag, r->bytes);
    case MT_OTF2_ISEND:
        return OTF2_EvtWriter_MpiIsend(w, NULL, r->time, r->rank, r->comm,
                                       r->tag, r->bytes, r->request);
    case MT_OTF2_RECV:
        return OTF2_EvtWriter_MpiRecv(w, NULL, r->time, r->rank, r->comm,
                                      r->tag, r->bytes);
    case MT_OTF2_IRECV_REQUEST:
        return OTF2_EvtWriter_MpiIrecvRequest(w, NULL, r->time, r->request);
    case MT_OTF2_IRECV:
        return OTF2_EvtWriter_MpiIrecv(w, NULL, r->time, r->rank, r->comm,
                                       r->tag, r->bytes, r->request);
    case MT_OTF2_COLLECTIVE_BEGIN:
        return OTF2_EvtWriter_MpiCollectiveBegin(w, NULL, r->time);
    default:
        return OTF2_EvtWriter_MpiCollectiveEnd(
            w, NULL, r->time, (OTF2_CollectiveOp)r->operation, r->comm, r->rank,
            r->bytes, r->received);
    }
}

static const char *close_writer(struct mt_archive *a, struct writer *w)
{
    OTF2_ErrorCode code = OTF2_EvtWriter_GetNumberOfEvents(w->events, &w->count);
    if (code == OTF2_SUCCESS) {
        code = OTF2_Archive_CloseEvtWriter(a->archive, w->events);
    }
    w->events = NULL;
    return said(code);
}

/* The definitions of each location come before the global ones: there are
 * none, but readers look for the files. */
static const char *begin_definitions(struct mt_archive *a)
{
    OTF2_ErrorCode code = OTF2_Archive_CloseEvtFiles(a->archive);
    if (code == OTF2_SUCCESS) {
        code = OTF2_Archive_OpenDefFiles(a->archive);
    }
    for (size_t i = 0; code == OTF2_SUCCESS && i < a->writer_count; i++) {
        if (a->writers[i].used) {
            OTF2_DefWriter *w = OTF2_Archive_GetDefWriter(a->archive, i);
            if (w == NULL) {
                return "a file of definitions could not be made";
            }
            code = OTF2_Archive_CloseDefWriter(a->archive, w);
        }
    }
    if (code == OTF2_SUCCESS) {
        code = OTF2_Archive_CloseDefFiles(a->archive);
    }
    a->definitions = OTF2_Archive_GetGlobalDefWriter(a->archive);
    if (code == OTF2_SUCCESS && a->definitions == NULL) {
        return "the file of definitions could not be made";
    }
    return said(code);
}

static OTF2_ErrorCode write_location(struct mt_archive *a,
                                     const struct mt_otf2_record *r)
{
    uint64_t count = r->self < a->writer_count ? a->writers[r->self].count : 0;
    return OTF2_GlobalDefWriter_WriteLocation(a->definitions, r->self, r->name,
                                              OTF2_LOCATION_TYPE_CPU_THREAD,
                                              count, r->parent);
}

static OTF2_ErrorCode write_property(OTF2_GlobalDefWriter *w,
                                     const struct mt_otf2_record *r)
{
    OTF2_AttributeValue value = {.stringRef = r->value};
    return OTF2_GlobalDefWriter_WriteLocationGroupProperty(
        w, r->parent, r->name, OTF2_TYPE_STRING, value);
}

static OTF2_ErrorCode write_definition(struct mt_archive *a,
                                       const struct mt_otf2_record *r)
{
    OTF2_GlobalDefWriter *w = a->definitions;
    switch (r->type) {
    case MT_OTF2_CLOCK:
        return OTF2_GlobalDefWriter_WriteClockProperties(
            w, r->clock[0], r->clock[1], r->clock[2], r->clock[3]);
    case MT_OTF2_STRING:
        return OTF2_GlobalDefWriter_WriteString(w, r->self, r->text);
    case MT_OTF2_NODE:
        return OTF2_GlobalDefWriter_WriteSystemTreeNode(
            w, r->self, r->name, r->kind,
            r->parent == MT_OTF2_NONE ? OTF2_UNDEFINED_SYSTEM_TREE_NODE
                                      : r->parent);
    case MT_OTF2_PROCESS:
        return OTF2_GlobalDefWriter_WriteLocationGroup(
            w, r->self, r->name, OTF2_LOCATION_GROUP_TYPE_PROCESS, r->parent,
            OTF2_UNDEFINED_LOCATION_GROUP);
    case MT_OTF2_LOCATION: return write_location(a, r);
    case MT_OTF2_REGION:
        return OTF2_GlobalDefWriter_WriteRegion(
            w, r->self, r->name, r->name, r->description,
            (OTF2_RegionRole)r->role, OTF2_PARADIGM_MPI, OTF2_REGION_FLAG_NONE,
            r->file, r->line, r->line);
    case MT_OTF2_GROUP:
        return OTF2_GlobalDefWriter_WriteGroup(
            w, r->self, r->name, (OTF2_GroupType)r->kind, OTF2_PARADIGM_MPI,
            OTF2_GROUP_FLAG_NONE, r->member_count, r->members);
    case MT_OTF2_COMM:
        return OTF2_GlobalDefWriter_WriteComm(w, r->self, r->name, r->parent,
                                              OTF2_UNDEFINED_COMM,
                                              OTF2_COMM_FLAG_NONE);
    default: return write_property(w, r);
    }
}

const char *mt_archive_record(void *self, const struct mt_otf2_record *r)
{
    struct mt_archive *a = self;
    const char *why = NULL;
    if (r->type <= MT_OTF2_CLOSE) {
        struct writer *w = writer_of(a, r->location);
        if (w == NULL || w->events == NULL) {
            why = "the file of a location could not be made";
        } else if (r->type == MT_OTF2_CLOSE) {
            why = close_writer(a, w);
        } else {
            why = said(write_event(w->events, r));
        }
    } else {
        why = a->definitions == NULL ? begin_definitions(a) : NULL;
        if (why == NULL) {
            why = said(write_definition(a, r));
        }
    }
    a->failed = a->failed || why != NULL;
    return why;
}

const char *mt_archive_close(struct mt_archive *a)
{
    OTF2_ErrorCode code = OTF2_SUCCESS;
    if (a->definitions != NULL && !a->failed) {
        code = OTF2_Archive_CloseGlobalDefWriter(a->archive, a->definitions);
    }
    OTF2_ErrorCode closed = OTF2_Archive_Close(a->archive);
    free(a->writers);
    free(a);
    return said(code == OTF2_SUCCESS ? closed : code);
}
