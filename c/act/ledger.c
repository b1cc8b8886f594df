/* ledger.c: what this rank has carried, as act-WORLD-RANK.json. */
#define _GNU_SOURCE
#include "ledger.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cache.h"

enum { MT_ACT_DECISIONS = 160 }; /* more than there are sizes and contexts */

struct mt_act_ledger_count {
    const char *name;
    uint64_t value;
};

/* UINT64_MAX if there is no limit. */
static uint64_t limit_of(__rlimit_resource_t resource)
{
    struct rlimit limit;
    return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
               ? limit.rlim_cur
               : UINT64_MAX;
}

/* ---- the text ---- */

static void put_string(FILE *file, const char *text, size_t n)
{
    fputc('"', file);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < ' ') {
            fprintf(file, "\\u%04x", c);
        } else {
            fprintf(file, c == '"' || c == '\\' ? "\\%c" : "%c", c);
        }
    }
    fputc('"', file);
}

static void put_lines(FILE *file, const char *text)
{
    const char *between = "\n    ";
    fprintf(file, "[");
    for (const char *line = text; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        if (n > 0) {
            fprintf(file, "%s", between);
            put_string(file, line, n);
            between = ",\n    ";
        }
        line += n + (line[n] != '\0');
    }
    fprintf(file, "\n  ]");
}

static void put_numbers(FILE *file, const struct mt_act_ledger_count *counts,
                        size_t n)
{
    fprintf(file, "{");
    for (size_t i = 0; i < n; i++) {
        fprintf(file, "%s\n    \"%s\": %" PRIu64, i > 0 ? "," : "",
                counts[i].name, counts[i].value);
    }
    fprintf(file, "\n  }");
}

static void put_counts(FILE *file, const struct mt_engine_counts *c)
{
    struct mt_regservice_figures f;
    mt_act_cache_count(&f);
    const struct mt_act_ledger_count counts[] = {
        {"eager_messages", c->eager_messages},
        {"eager_bytes", c->eager_bytes},
        {"ring_messages", c->ring_messages},
        {"datagram_messages", c->datagram_messages},
        {"rendezvous_messages", c->rendezvous_messages},
        {"rendezvous_bytes", c->rendezvous_bytes},
        {"read_messages", c->read_messages},
        {"read_bytes", c->read_bytes},
        {"written_messages", c->written_messages},
        {"written_bytes", c->written_bytes},
        {"fragment_messages", c->fragment_messages},
        {"fragment_bytes", c->fragment_bytes},
        {"unexpected_messages", c->unexpected_messages},
        {"unexpected_bytes", c->unexpected_bytes},
        {"copied_bytes", c->copied_bytes},
        {"packed_bytes", c->packed_bytes},
        {"credit_stalls", c->credit_stalls},
        {"rtr_sent", c->rtr_sent},
        {"rtr_used", c->rtr_used},
        {"rtr_crossed", c->rtr_crossed},
        {"rtr_mispredicted", c->rtr_mispredicted},
        {"rtr_revoked", c->rtr_revoked},
        {"rtr_suspended", c->rtr_suspended},
        {"rtr_resumed", c->rtr_resumed},
        {"rtr_extra_bytes", c->rtr_extra_bytes},
        {"registrations", c->registrations},
        {"registrations_refused", c->registrations_refused},
        {"cache_hits", f.hits},
        {"cache_misses", f.misses},
        {"cache_registrations", f.registrations},
        {"cache_merges", f.merges},
        {"cache_evictions", f.evictions},
        {"cache_invalidations", f.invalidations},
        {"cache_refused", f.refused},
        {"cache_pinned_bytes", f.pinned_bytes},
        {"fall_backs", c->fall_backs},
        {"verified_messages", c->verified_messages},
        {"verified_bytes", c->verified_bytes},
        {"wrong_messages", c->wrong_messages},
        {"quarantined_paths", c->shunned},
    };
    put_numbers(file, counts, sizeof(counts) / sizeof(counts[0]));
}

static void put_peers(FILE *file, const struct mt_engine *engine)
{
    struct mt_engine_peers p;
    mt_engine_count_peers(engine, &p);
    const struct mt_act_ledger_count counts[] = {
        {"by_connection", p.connected},
        {"by_datagrams", p.datagrams},
        {"idle", p.idle},
        {"connection_bytes", p.connected_bytes},
        {"datagrams_bytes", p.datagrams_bytes},
        {"datagrams_shared_bytes", p.shared_bytes},
        {"ring_bytes", p.ring_bytes},
    };
    put_numbers(file, counts, sizeof(counts) / sizeof(counts[0]));
}

/* The number behind a name in /proc/self/status; 0: there is none. */
static uint64_t status_of(const char *name)
{
    char line[256];
    uint64_t value = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0) {
            value = strtoull(line + strlen(name), NULL, 10);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return value;
}

/* Of the whole process, the program's own included (Rashti 2010, table 6.1). */
static void put_memory(FILE *file)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const struct mt_act_ledger_count counts[] = {
        {"page_bytes", page},
        {"resident_pages", status_of("VmRSS:") * 1024 / page},
        {"most_resident_pages", status_of("VmHWM:") * 1024 / page},
    };
    put_numbers(file, counts, sizeof(counts) / sizeof(counts[0]));
}

/* Of what is 0 nothing is said. */
static void put_left(FILE *file, const struct mt_act_left *left)
{
    const struct mt_act_ledger_count counts[] = {
        {"communicators_of_library", left->communicators[MT_ACT_LEFT_PARENT]},
        {"intercommunicators",
         left->communicators[MT_ACT_LEFT_INTERCOMMUNICATOR]},
        {"communicators_of_processes",
         left->communicators[MT_ACT_LEFT_PROCESSES]},
        {"communicators_of_sessions",
         left->communicators[MT_ACT_LEFT_SESSION]},
        {"communicators_by_idup", left->communicators[MT_ACT_LEFT_IDUP]},
        {"communicators_without_memory",
         left->communicators[MT_ACT_LEFT_MEMORY]},
        {"messages_of_communicators",
         left->messages[MT_ACT_LEFT_COMMUNICATOR]},
        {"bytes_of_communicators", left->bytes},
        {"messages_by_arguments", left->messages[MT_ACT_LEFT_ARGUMENTS]},
    };
    struct mt_act_ledger_count some[sizeof(counts) / sizeof(counts[0])];
    size_t n = 0;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        if (counts[i].value > 0) {
            some[n++] = counts[i];
        }
    }
    put_numbers(file, some, n);
}

/* ---- decisions ---- */

static const char *way_name(enum mt_engine_rendezvous way)
{
    return way == MT_ENGINE_RPUT ? "write" : "read";
}

static void put_context(FILE *file, uint32_t id)
{
    switch (id) {
    case 0:
        fprintf(file, "\"MPI_COMM_WORLD\"");
        break;
    case 1:
        fprintf(file, "\"MPI_COMM_SELF\"");
        break;
    case UINT32_MAX:
        fprintf(file, "\"others\"");
        break;
    default: /* the same on all of its members */
        fprintf(file, "\"communicator %u\"", id);
        break;
    }
}

static void put_decision(FILE *file, const struct mt_engine_decision *d)
{
    bool newcomer = d->chosen == d->newcomer;
    fprintf(file, "{\"communicator\": ");
    put_context(file, d->context);
    fprintf(file,
            ", \"from\": %" PRIu64 ", \"to\": %" PRIu64
            ", \"chosen\": \"%s\", \"runner_up\": \"%s\", "
            "\"newcomer\": \"%s\", \"state\": \"%s\", \"reason\": \"%s\", "
            "\"change\": %.6g, \"judged_pairs\": %u, \"pairs\": %u, "
            "\"fall_backs\": %u, \"measured_ns\": %.6g, "
            "\"runner_up_ns\": %.6g, \"decided_ns\": %" PRIu64
            ", \"messages\": %" PRIu64 ", \"newcomer_messages\": %" PRIu64
            ", \"bytes\": %" PRIu64 "}",
            d->from, d->to, way_name(d->chosen),
            way_name(newcomer ? d->known : d->newcomer), way_name(d->newcomer),
            d->state, d->reason, d->change, d->judged, d->pairs, d->fall_backs,
            newcomer ? d->newcomer_ns : d->known_ns,
            newcomer ? d->known_ns : d->newcomer_ns, d->decided_ns,
            d->messages[0] + d->messages[1], d->messages[1],
            d->bytes[0] + d->bytes[1]);
}

static void put_decisions(FILE *file, const struct mt_engine *engine)
{
    struct mt_engine_decision d[MT_ACT_DECISIONS];
    uint32_t n = mt_engine_decisions(engine, d, MT_ACT_DECISIONS);
    fprintf(file, "[");
    for (uint32_t i = 0; i < n && i < MT_ACT_DECISIONS; i++) {
        fprintf(file, "%s\n    ", i > 0 ? "," : "");
        put_decision(file, &d[i]);
    }
    fprintf(file, "%s]", n > 0 ? "\n  " : "");
}

static void put_ledger(FILE *file, const struct mt_act_host *host,
                       const struct mt_engine *engine,
                       const struct mt_act_left *left)
{
    struct mt_engine_counts counts;
    mt_engine_count(engine, &counts);
    uint64_t locked = limit_of(RLIMIT_MEMLOCK);
    fprintf(file, "{\n  \"schema\": 1,\n  \"world\": ");
    put_string(file, host->world, strlen(host->world));
    fprintf(file, ",\n  \"rank\": %u,\n  \"ranks\": %u,\n  \"policy\": ",
            host->world_rank, host->world_size);
    put_lines(file, host->policy);
    if (locked != UINT64_MAX) {
        fprintf(file, ",\n  \"locked_memory\": %" PRIu64, locked);
    }
    if (mt_act_cache_off() != NULL) {
        fprintf(file, ",\n  \"cache_off\": ");
        put_string(file, mt_act_cache_off(), strlen(mt_act_cache_off()));
    }
    fprintf(file, ",\n  \"counts\": ");
    put_counts(file, &counts);
    fprintf(file, ",\n  \"peers\": ");
    put_peers(file, engine);
    fprintf(file, ",\n  \"memory\": ");
    put_memory(file);
    fprintf(file, ",\n  \"left\": ");
    put_left(file, left);
    fprintf(file, ",\n  \"decisions\": ");
    put_decisions(file, engine);
    fprintf(file, "\n}\n");
}

/* ---- the file ---- */

/* One mpitrace run may start several jobs, whose ranks have the same numbers. */
static void name_of(char *name, size_t size, const struct mt_act_host *host)
{
    snprintf(name, size, "act-%s-%u.json", host->world, host->world_rank);
    for (char *c = name; *c != '\0'; c++) {
        if (!isalnum((unsigned char)*c) && strchr(".-_", *c) == NULL) {
            *c = '_';
        }
    }
}

/* Whole or not at all; 0, or an errno. Beyond the limit of files a signal would
 * end the process. */
static int write_file(const char *directory, const char *name,
                      const char *text, size_t n)
{
    char temporary[PATH_MAX], path[PATH_MAX];
    snprintf(temporary, sizeof(temporary), "%s/.%s", directory, name);
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    if (n > limit_of(RLIMIT_FSIZE)) {
        return EFBIG;
    }
    FILE *file = fopen(temporary, "we");
    if (file == NULL) {
        return errno;
    }
    bool whole = fwrite(text, 1, n, file) == n;
    int error = errno;
    if (fclose(file) != 0 && whole) {
        whole = false;
        error = errno;
    }
    if (whole && rename(temporary, path) == 0) {
        return 0;
    }
    error = whole ? errno : error;
    remove(temporary);
    return error;
}

void mt_act_ledger_write(const struct mt_act_host *host,
                         const struct mt_engine *engine,
                         const struct mt_act_left *left)
{
    const char *directory = getenv("MPITRACE_OUTPUT");
    char name[NAME_MAX], line[512], *text = NULL;
    size_t n = 0;
    if (directory == NULL) {
        return;
    }
    name_of(name, sizeof(name), host);
    FILE *memory = open_memstream(&text, &n);
    int error = ENOMEM;
    if (memory != NULL) {
        put_ledger(memory, host, engine, left);
        if (fclose(memory) == 0) {
            error = write_file(directory, name, text, n);
        }
        free(text);
    }
    if (error != 0) {
        snprintf(line, sizeof(line), "%s is missing: %s%s", name,
                 strerror(error), error == EFBIG ? ": raise ulimit -f" : "");
        host->say(false, line);
    }
}
