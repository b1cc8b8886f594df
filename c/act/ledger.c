/* ledger.c: what this rank has carried, as act-WORLD-RANK.json. */
#define _GNU_SOURCE
#include "ledger.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cache.h"

enum { MT_ACT_REUSE_SIZES = 64 };

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

/* The counts from..to; those that are 0 only if all are wanted. */
static void put_counts(FILE *file, const struct mt_act_counts *counts,
                       uint32_t from, uint32_t to, bool all)
{
    const uint64_t *value = (const uint64_t *)counts;
    const char *between = "";
    fprintf(file, "{");
    for (uint32_t i = from; i < to; i++) {
        if (all || value[i] > 0) {
            fprintf(file, "%s\n    \"%s\": %" PRIu64, between,
                    mt_act_count_names[i], value[i]);
            between = ",";
        }
    }
    fprintf(file, "\n  }");
}

struct mt_act_number {
    const char *name;
    uint64_t value;
};

static void put_numbers(FILE *file, const struct mt_act_number *numbers,
                        size_t count)
{
    fprintf(file, "{");
    for (size_t i = 0; i < count; i++) {
        fprintf(file, "%s\n    \"%s\": %" PRIu64, i > 0 ? "," : "",
                numbers[i].name, numbers[i].value);
    }
    fprintf(file, "\n  }");
}

static void put_peers(FILE *file, const struct mt_engine *engine)
{
    struct mt_engine_peers p;
    mt_engine_count_peers(engine, &p);
    const struct mt_act_number numbers[] = {
        {"by_connection", p.connected},
        {"by_datagrams", p.datagrams},
        {"idle", p.idle},
        {"connection_bytes", p.connected_bytes},
        {"datagrams_bytes", p.datagrams_bytes},
        {"datagrams_shared_bytes", p.shared_bytes},
        {"ring_bytes", p.ring_bytes},
    };
    put_numbers(file, numbers, sizeof(numbers) / sizeof(numbers[0]));
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
    uint64_t now = status_of("VmRSS:"), most = status_of("VmHWM:");
    most = most > now ? most : now; /* the kernel keeps up its maximum now and then */
    const struct mt_act_number numbers[] = {
        {"page_bytes", page},
        {"resident_pages", now * 1024 / page},
        {"most_resident_pages", most * 1024 / page},
    };
    put_numbers(file, numbers, sizeof(numbers) / sizeof(numbers[0]));
}

/* ---- decisions ---- */

static void put_decision(FILE *file, const struct mt_seg_act_decision *d)
{
    fprintf(file,
            "{\"communicator\": \"%s\", \"from\": %" PRIu64
            ", \"to\": %" PRIu64
            ", \"chosen\": \"%.8s\", \"runner_up\": \"%.8s\", "
            "\"newcomer\": \"%.8s\", \"state\": \"%s\", \"reason\": \"%s\", "
            "\"change\": %.6g, \"judged_pairs\": %u, \"pairs\": %u, "
            "\"fall_backs\": %" PRIu64 ", \"measured_ns\": %.6g, "
            "\"runner_up_ns\": %.6g, \"decided_ns\": %" PRIu64
            ", \"messages\": %" PRIu64 ", \"newcomer_messages\": %" PRIu64
            ", \"bytes\": %" PRIu64 "}",
            d->communicator, d->from, d->to, d->chosen, d->runner_up,
            d->newcomer, d->state, d->reason, d->change, d->judged_pairs,
            d->pairs, d->fall_backs, d->measured_ns, d->runner_up_ns,
            d->decided_ns, d->messages, d->newcomer_messages, d->bytes);
}

static void put_decisions(FILE *file, const struct mt_act_figures *f)
{
    fprintf(file, "[");
    for (uint32_t i = 0; i < f->decisions; i++) {
        fprintf(file, "%s\n    ", i > 0 ? "," : "");
        put_decision(file, &f->decision[i]);
    }
    fprintf(file, "%s]", f->decisions > 0 ? "\n  " : "");
}

/* What sending straight from memory rests on, or why it is not done. */
static void put_reuse(FILE *file, const struct mt_engine *engine)
{
    struct mt_engine_reuse_cost costs[MT_ACT_REUSE_SIZES];
    const char *off = mt_engine_reuse_off(engine);
    double look_ns = 0;
    if (off != NULL) {
        fprintf(file, ",\n  \"reuse_off\": ");
        put_string(file, off, strlen(off));
        return;
    }
    uint32_t n =
        mt_engine_reuse_costs(engine, costs, MT_ACT_REUSE_SIZES, &look_ns);
    fprintf(file, ",\n  \"look_up_ns\": %.1f,\n  \"reuse_costs\": [",
            look_ns);
    for (uint32_t i = 0; i < n; i++) {
        const struct mt_engine_reuse_cost *c = &costs[i];
        fprintf(file,
                "%s\n    {\"from\": %" PRIu64 ", \"to\": %" PRIu64
                ", \"messages\": %" PRIu64
                ", \"copy_ns\": %.1f, \"register_ns\": %.1f, "
                "\"places\": %u, \"places_that_wait\": %u, "
                "\"exposed_ns\": %.1f}",
                i > 0 ? "," : "", c->from, 2 * c->from, c->messages, c->copy_ns,
                c->register_ns, c->places, c->waiting, c->exposed_ns);
    }
    fprintf(file, "%s]", n > 0 ? "\n  " : "");
}

static void put_ledger(FILE *file, const struct mt_act_host *host,
                       const struct mt_act_figures *f,
                       const struct mt_engine *engine)
{
    const uint32_t left =
        offsetof(struct mt_act_counts, left) / sizeof(uint64_t);
    uint64_t locked = limit_of(RLIMIT_MEMLOCK);
    fprintf(file, "{\n  \"schema\": 1,\n  \"world\": ");
    put_string(file, host->world, strlen(host->world));
    fprintf(file, ",\n  \"rank\": %u,\n  \"ranks\": %u,\n  \"policy\": ",
            host->world_rank, host->world_size);
    put_lines(file, host->policy);
    const char *device = mt_engine_device(engine)->name;
    fprintf(file, ",\n  \"device\": ");
    put_string(file, device, strlen(device));
    if (locked != UINT64_MAX) {
        fprintf(file, ",\n  \"locked_memory\": %" PRIu64, locked);
    }
    const char *off = mt_act_cache_off();
    const char *cache = off != NULL ? off : mt_act_cache_watch();
    fprintf(file, ",\n  \"%s\": ", off != NULL ? "cache_off" : "cache_watch");
    put_string(file, cache, strlen(cache));
    put_reuse(file, engine);
    fprintf(file, ",\n  \"counts\": ");
    put_counts(file, &f->counts, 0, left, true);
    fprintf(file, ",\n  \"peers\": ");
    put_peers(file, engine);
    fprintf(file, ",\n  \"memory\": ");
    put_memory(file);
    fprintf(file, ",\n  \"left\": ");
    put_counts(file, &f->counts, left, MPITRACE_COUNTS, false);
    fprintf(file, ",\n  \"decisions\": ");
    put_decisions(file, f);
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
                         const struct mt_act_figures *figures,
                         const struct mt_engine *engine)
{
    const char *directory = host->output;
    char name[NAME_MAX], line[512], *text = NULL;
    size_t n = 0;
    if (directory == NULL) {
        return;
    }
    name_of(name, sizeof(name), host);
    /* numbers have a decimal point, whatever the program's language is */
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    FILE *memory = plain != (locale_t)0 ? open_memstream(&text, &n) : NULL;
    int error = ENOMEM;
    if (memory != NULL) {
        locale_t before = uselocale(plain);
        put_ledger(memory, host, figures, engine);
        uselocale(before);
        if (fclose(memory) == 0) {
            error = write_file(directory, name, text, n);
        }
        free(text);
    }
    if (plain != (locale_t)0) {
        freelocale(plain);
    }
    if (error != 0) {
        snprintf(line, sizeof(line), "%s is missing: %s%s", name,
                 strerror(error), error == EFBIG ? ": raise ulimit -f" : "");
        host->say(MT_ACT_ANY_RANK, line);
    }
}
