/* presence.c: proof, without MPI, that every rank of MPI_COMM_WORLD is one of
 * ours, of the same making and of the same mind: a line to the rendezvous of
 * mpitrace run and its answer (internal/presence). Every wait ends. It knows
 * nothing of what is done with the verdict. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../include/act.h"
#include "../include/version.gen.h"
#include "state.h"

enum {
    MT_PRESENCE_VERSION = 1,
    MT_GREETING_MS = 15000, /* for the greeting; many ranks come at once */
    MT_NEXT_MS = 250,      /* until the next address is tried as well */
    MT_CANDIDATES = 32,
    MT_MARGIN_S = 15,      /* the rendezvous decides before we give up */
    MT_LINE = 4096,
    MT_PLACE = 64,
};

static int mt_presence_fd = -1;

static uint64_t mt_presence_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Until the descriptor is ready, or the time has come. */
static bool mt_presence_ready(int fd, short events, uint64_t end)
{
    for (;;) {
        uint64_t now = mt_presence_ms();
        struct pollfd p = {.fd = fd, .events = events};
        int n = now < end ? poll(&p, 1, (int)(end - now)) : 0;
        if (n >= 0 || errno != EINTR) {
            return n > 0;
        }
    }
}

/* A line without its break; false: it did not come whole. */
static bool mt_presence_read(int fd, char *line, size_t size, uint64_t end)
{
    for (size_t n = 0; n < size && mt_presence_ready(fd, POLLIN, end);) {
        ssize_t got = recv(fd, line + n, 1, 0);
        if (got == 1 && line[n] == '\n') {
            line[n] = '\0';
            return true;
        }
        if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) {
            break;
        }
        n += got == 1;
    }
    return false;
}

static bool mt_presence_write(int fd, const char *text, size_t n, uint64_t end)
{
    while (n > 0 && mt_presence_ready(fd, POLLOUT, end)) {
        ssize_t put = send(fd, text, n, MSG_NOSIGNAL);
        if (put < 0 && errno != EINTR && errno != EAGAIN) {
            break;
        }
        text += put > 0 ? put : 0;
        n -= put > 0 ? (size_t)put : 0;
    }
    return n == 0;
}

/* ---- reaching it ---- */

/* "1.2.3.4:5" or "[::1]:5". */
static socklen_t mt_presence_address(char *place,
                                     struct sockaddr_storage *address_p)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)address_p;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address_p;
    char *colon = strrchr(place, ':');
    if (colon == NULL) {
        return 0;
    }
    uint16_t port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    memset(address_p, 0, sizeof(*address_p));
    if (place[0] == '[' && colon[-1] == ']') {
        colon[-1] = '\0';
        v6->sin6_family = AF_INET6;
        v6->sin6_port = port;
        return inet_pton(AF_INET6, place + 1, &v6->sin6_addr) == 1 ? sizeof(*v6)
                                                                   : 0;
    }
    *colon = '\0';
    v4->sin_family = AF_INET;
    v4->sin_port = port;
    return inet_pton(AF_INET, place, &v4->sin_addr) == 1 ? sizeof(*v4) : 0;
}

/* A connection on its way to one that says the greeting. */
struct mt_candidate {
    int fd;
    size_t heard;
    char line[128];
};

static void mt_candidate_start(struct mt_candidate *c, const char *text,
                               size_t length)
{
    struct sockaddr_storage address;
    char place[MT_PLACE];
    snprintf(place, sizeof(place), "%.*s", (int)length, text);
    socklen_t size = mt_presence_address(place, &address);
    *c = (struct mt_candidate){.fd = -1};
    if (size != 0) {
        c->fd = socket(address.ss_family,
                       SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    if (c->fd >= 0 &&
        connect(c->fd, (const struct sockaddr *)&address, size) != 0 &&
        errno != EINPROGRESS) {
        close(c->fd);
        c->fd = -1;
    }
}

/* True: it has said the greeting, behind which nothing comes yet. One that has said
 * something else, or is gone, is closed. */
static bool mt_candidate_hear(struct mt_candidate *c, const char *greeting)
{
    ssize_t got = recv(c->fd, c->line + c->heard, sizeof(c->line) - c->heard, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    c->heard += got > 0 ? (size_t)got : 0;
    char *end = memchr(c->line, '\n', c->heard);
    if (end != NULL) {
        *end = '\0';
        if (strcmp(c->line, greeting) == 0) {
            return true;
        }
    }
    if (got <= 0 || end != NULL || c->heard == sizeof(c->line)) {
        close(c->fd);
        c->fd = -1;
    }
    return false;
}

/* The first that says the greeting before the time has come; NULL if none does, at once
 * if none is left. */
static struct mt_candidate *mt_candidates_hear(struct mt_candidate *c, unsigned n,
                                               const char *greeting, uint64_t end)
{
    for (;;) {
        struct pollfd p[MT_CANDIDATES];
        uint64_t now = mt_presence_ms();
        bool left = false;
        for (unsigned i = 0; i < n; i++) {
            p[i] = (struct pollfd){.fd = c[i].fd, .events = POLLIN};
            left |= c[i].fd >= 0;
        }
        if (!left || now >= end) {
            return NULL;
        }
        int ready = poll(p, n, (int)(end - now));
        for (unsigned i = 0; ready > 0 && i < n; i++) {
            if (p[i].revents != 0 && mt_candidate_hear(&c[i], greeting)) {
                return &c[i];
            }
        }
    }
}

/* A connection to the first of its addresses that answers, -1 if none does. The next
 * is tried when those before have not answered for a moment, so that one that leads
 * nowhere does not hold up the job, and as a rule there is one connection. */
static int mt_presence_reach(const char *rendezvous)
{
    struct mt_candidate c[MT_CANDIDATES], *found = NULL;
    char greeting[128];
    int id = (int)strcspn(rendezvous, "@");
    snprintf(greeting, sizeof(greeting), "mpitrace-presence %d %.*s",
             MT_PRESENCE_VERSION, id, rendezvous);
    const char *p = rendezvous + id;
    unsigned n = 0;
    while (found == NULL && *p != '\0' && n < MT_CANDIDATES) {
        size_t length = strcspn(p + 1, ",");
        mt_candidate_start(&c[n++], p + 1, length);
        p += 1 + length;
        bool last = *p == '\0' || n == MT_CANDIDATES;
        found = mt_candidates_hear(
            c, n, greeting,
            mt_presence_ms() + (last ? MT_GREETING_MS : MT_NEXT_MS));
    }
    for (unsigned i = 0; i < n; i++) {
        if (c[i].fd >= 0 && &c[i] != found) {
            close(c[i].fd);
        }
    }
    return found != NULL ? found->fd : -1;
}

/* ---- what is said ---- */

struct mt_line {
    char text[MT_LINE];
    size_t used;
};

/* A line has no other breaks in it. */
static void mt_presence_plain(char *text)
{
    for (char *c = text; *c != '\0'; c++) {
        *c = *c < ' ' || *c > '~' ? '?' : *c;
    }
}

/* Appends, keeping what fits. */
static void mt_line_add(struct mt_line *line, const char *name,
                        const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void mt_line_add(struct mt_line *line, const char *name,
                        const char *format, ...)
{
    char value[MT_WHY + 256];
    va_list list;
    va_start(list, format);
    vsnprintf(value, sizeof(value), format, list);
    va_end(list);
    mt_presence_plain(value);
    size_t left = sizeof(line->text) - 1 - line->used;
    int n = snprintf(line->text + line->used, left, "\t%s=%s", name, value);
    line->used += (size_t)n < left ? (size_t)n : left - 1;
}

int mt_presence_hash(const char *policy, const char **hash_p)
{
    const char *at = strstr(policy, "\nhash=");
    *hash_p = at != NULL ? at + 6 : "";
    return (int)strcspn(*hash_p, "\n");
}

/* What all ranks must have in common, and who this one is. */
static void mt_presence_line(struct mt_line *line, const char *policy,
                             const char *runtime, const char *refused)
{
    char shim[128];
    const char *hash;
    const struct mt_seg_header *h = mt_process.header;
    mt_module_build_id((uintptr_t)&mt_presence_line, shim, sizeof(shim));
    line->used = (size_t)snprintf(line->text, sizeof(line->text), "report");
    mt_line_add(line, "secret", "%s", mt_process.knobs.act_secret);
    mt_line_add(line, "world", "%s", h->world);
    mt_line_add(line, "size", "%d", mt_process.world_size);
    mt_line_add(line, "rank", "%d", mt_process.world_rank);
    mt_line_add(line, "host", "%s", h->node);
    mt_line_add(line, "pid", "%u", mt_process.pid);
    mt_line_add(line, "shim", "%s %s", MPITRACE_VERSION, shim);
    mt_line_add(line, "runtime", "%s", runtime);
    mt_line_add(line, "protocol", "%d", MT_ACT_VERSION);
    int length = mt_presence_hash(policy, &hash);
    mt_line_add(line, "policy", "%.*s", length, hash);
    mt_line_add(line, "refused", "%s", refused);
    line->text[line->used++] = '\n';
}

/* ---- the two steps ---- */

static enum mt_presence mt_presence_end(enum mt_presence verdict)
{
    close(mt_presence_fd);
    mt_presence_fd = -1;
    return verdict;
}

/* Says a line and hears the verdict. */
static enum mt_presence mt_presence_ask(const char *text, size_t n, char *why)
{
    char line[MT_LINE];
    uint64_t wait = strtoul(mt_process.knobs.act_wait, NULL, 10) + MT_MARGIN_S;
    uint64_t end = mt_presence_ms() + wait * 1000;
    if (!mt_presence_write(mt_presence_fd, text, n, end) ||
        !mt_presence_read(mt_presence_fd, line, sizeof(line), end)) {
        snprintf(why, MT_WHY, "rank %d on %s has no answer from mpitrace run",
                 mt_process.world_rank, mt_process.header->node);
        return mt_presence_end(MT_PRESENCE_ALONE);
    }
    return strcmp(line, "go") == 0 ? MT_PRESENCE_GO
                                   : mt_presence_end(MT_PRESENCE_OBSERVE);
}

enum mt_presence mt_presence_report(const char *policy, const char *runtime,
                                    const char *refused, char *why)
{
    struct mt_line line;
    const char *rendezvous = mt_process.knobs.act_rendezvous;
    if (rendezvous[0] == '\0') {
        if (mt_process.world_size == 1 && refused[0] == '\0') {
            return MT_PRESENCE_GO;
        }
        snprintf(why, MT_WHY, "%s",
                 refused[0] != '\0'
                     ? refused
                     : "start the job by mpitrace run, where its ranks report");
        return MT_PRESENCE_ALONE;
    }
    mt_presence_fd = mt_presence_reach(rendezvous);
    if (mt_presence_fd < 0) {
        snprintf(why, MT_WHY, "rank %d on %s cannot reach mpitrace run at %s",
                 mt_process.world_rank, mt_process.header->node,
                 rendezvous + strcspn(rendezvous, "@"));
        return MT_PRESENCE_ALONE;
    }
    mt_presence_line(&line, policy, runtime, refused);
    return mt_presence_ask(line.text, line.used, why);
}

enum mt_presence mt_presence_loaded(const char *refused, char *why)
{
    char line[MT_WHY + 16] = "loaded";
    if (refused[0] != '\0') {
        snprintf(line, sizeof(line), "refused %s", refused);
    }
    mt_presence_plain(line);
    strcat(line, "\n");
    if (mt_presence_fd < 0) { /* alone in the world */
        snprintf(why, MT_WHY, "%s", refused);
        return refused[0] == '\0' ? MT_PRESENCE_GO : MT_PRESENCE_ALONE;
    }
    enum mt_presence verdict = mt_presence_ask(line, strlen(line), why);
    return verdict == MT_PRESENCE_GO ? mt_presence_end(verdict) : verdict;
}
