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

#include "cache.h"

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

static void put_counts(FILE *file, const struct mt_engine_counts *c)
{
    struct mt_regservice_figures f;
    mt_act_cache_count(&f);
    const struct mt_act_ledger_count counts[] = {
        {"eager_messages", c->eager_messages},
        {"eager_bytes", c->eager_bytes},
        {"ring_messages", c->ring_messages},
        {"rendezvous_messages", c->rendezvous_messages},
        {"rendezvous_bytes", c->rendezvous_bytes},
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
    };
    fprintf(file, "{");
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        fprintf(file, "%s\n    \"%s\": %" PRIu64, i > 0 ? "," : "",
                counts[i].name, counts[i].value);
    }
    fprintf(file, "\n  }");
}

static void put_ledger(FILE *file, const struct mt_act_host *host,
                       const struct mt_engine_counts *counts)
{
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
    put_counts(file, counts);
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
                         const struct mt_engine *engine)
{
    const char *directory = getenv("MPITRACE_OUTPUT");
    struct mt_engine_counts counts;
    char name[NAME_MAX], line[512], *text = NULL;
    size_t n = 0;
    if (directory == NULL) {
        return;
    }
    mt_engine_count(engine, &counts);
    name_of(name, sizeof(name), host);
    FILE *memory = open_memstream(&text, &n);
    int error = ENOMEM;
    if (memory != NULL) {
        put_ledger(memory, host, &counts);
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
