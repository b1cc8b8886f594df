/* sources: c/memhook/memhook.c c/memhook/helper.c c/memhook/ucm.c */
/* memhook_test.c: a process and a helper that is not there, says nothing, or
 * says what it should not: no monitor, one line of explanation, nothing left
 * open. (test/stale has what needs the kernel program.) */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../include/memmon.h"
#include "../memhook/monitors.h"
#include "check.h"

/* What a helper does: how many bytes of which answer, with how many files. */
struct behaviour {
    const char *name, *expect; /* a part of the line */
    struct mt_memmon_answer answer;
    size_t bytes;
    int files;
};

#define RESULT(r) {MT_MEMMON_MAGIC, MT_MEMMON_VERSION, (r), 0, 0, 0, 0, 0}
#define SHAPE(buckets, bytes)                                                \
    {MT_MEMMON_MAGIC, MT_MEMMON_VERSION, MT_MEMMON_OK, (buckets),            \
     MT_MEMHOOK_SHIFT, 1, 3, (bytes)}
#define GOOD SHAPE(MT_MEMHOOK_BUCKETS, sizeof(struct mt_memmon_slot))
enum { WHOLE = sizeof(struct mt_memmon_answer) };

static const struct behaviour behaviours[] = {
    {"silent", "does not answer", {0}, 0, 0},
    {"short", "no memory monitor", GOOD, 7, 0},
    {"another magic", "no memory monitor", {.magic = 1}, WHOLE, 0},
    {"another version", "version 9, not 1",
     {.magic = MT_MEMMON_MAGIC, .version = 9}, WHOLE, 0},
    {"full", "as many processes", RESULT(MT_MEMMON_FULL), WHOLE, 0},
    {"refused", "user is not served", RESULT(MT_MEMMON_REFUSED), WHOLE, 0},
    {"no reason", "unknown reason", RESULT(99), WHOLE, 0},
    {"other buckets", "makes no sense", SHAPE(512, 8192), WHOLE, 3},
    {"files missing", "makes no sense", GOOD, WHOLE, 2},
    {"no files", "makes no sense", GOOD, WHOLE, 0},
    {"too many files", "no memory monitor", GOOD, WHOLE, 9},
    {"odd map", "makes no sense", SHAPE(MT_MEMHOOK_BUCKETS, 8193), WHOLE, 3},
    {"dead map", "watches another kernel", GOOD, WHOLE, 3},
};

struct helper {
    pthread_t thread;
    int listener;
    const struct behaviour *behaviour;
};

static void answer(int connection, const struct behaviour *b)
{
    enum { MOST = 16 };
    int files[MOST];
    for (int i = 0; i < b->files; i++) {
        files[i] = memfd_create("generations", 0);
        if (ftruncate(files[i], sizeof(struct mt_memmon_slot)) != 0) {
            check_failures++;
        }
    }
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof files)];
    } control;
    memset(&control, 0, sizeof control);
    struct iovec part = {(void *)&b->answer, b->bytes};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    size_t bytes = (size_t)b->files * sizeof(int);
    if (b->files > 0) {
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(bytes);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(c), files, bytes);
    }
    sendmsg(connection, &m, MSG_NOSIGNAL);
    for (int i = 0; i < b->files; i++) {
        close(files[i]);
    }
}

/* Serves until the listener is shut down. */
static void *serve(void *argument)
{
    struct helper *h = argument;
    for (;;) {
        int connection = accept(h->listener, NULL, NULL);
        if (connection < 0) {
            return NULL;
        }
        struct mt_memmon_request request;
        CHECK_EQ(recv(connection, &request, sizeof request, 0), sizeof request);
        CHECK_EQ(request.magic, MT_MEMMON_MAGIC);
        CHECK_EQ(request.version, MT_MEMMON_VERSION);
        CHECK_EQ(request.type, MT_MEMMON_WATCH);
        CHECK_EQ(request.reserved, 0);
        if (h->behaviour->bytes > 0) {
            answer(connection, h->behaviour);
        }
        /* until the other side has gone */
        while (recv(connection, &request, sizeof request, 0) > 0) {
        }
        close(connection);
    }
}

static unsigned descriptors(void)
{
    unsigned n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d) != NULL) {
        n++;
    }
    closedir(d);
    return n;
}

struct said {
    unsigned lines;
    char text[600];
};

static void say(void *argument, const char *line)
{
    struct said *s = argument;
    s->lines++;
    snprintf(s->text, sizeof s->text, "%s", line);
}

static void expect_none(const char *socket, unsigned timeout_ms,
                        const char *name, const char *expect)
{
    struct said said = {0};
    struct mt_memhook_options options = {
        .socket = socket,
        .timeout_ms = timeout_ms,
        .say = say,
        .argument = &said,
    };
    CHECK_EQ(mt_memhook_start(&options), MT_ENOTSUP);
    CHECK(mt_memhook.generations == NULL);
    CHECK_EQ(mt_memhook.monitor, MT_MEMHOOK_NONE);
    CHECK_EQ(said.lines, 1);
    if (strstr(said.text, expect) == NULL ||
        strstr(said.text, "libucm is not loaded") == NULL) {
        printf("%s: \"%s\" lacks \"%s\"\n", name, said.text, expect);
        check_failures++;
    }
}

static void test_behaviours(const char *directory)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/s", directory);
    for (size_t i = 0; i < sizeof behaviours / sizeof behaviours[0]; i++) {
        const struct behaviour *b = &behaviours[i];
        struct helper h = {.behaviour = b};
        h.listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        CHECK_EQ(bind(h.listener, (struct sockaddr *)&address, sizeof address), 0);
        CHECK_EQ(listen(h.listener, 4), 0);
        pthread_create(&h.thread, NULL, serve, &h);
        unsigned before = descriptors();
        expect_none(address.sun_path, b->bytes == 0 ? 50 : 120000, b->name,
                    b->expect);
        shutdown(h.listener, SHUT_RDWR);
        pthread_join(h.thread, NULL);
        CHECK_EQ(descriptors(), before);
        close(h.listener);
        unlink(address.sun_path);
    }
}

/* A program that has closed all descriptors and opened its own: they stay as they are. */
static void test_descriptors(const char *directory)
{
    const struct behaviour good = {"good", "", GOOD, WHOLE, 3};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/s", directory);
    struct helper h = {.behaviour = &good};
    h.listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    CHECK_EQ(bind(h.listener, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQ(listen(h.listener, 4), 0);
    pthread_create(&h.thread, NULL, serve, &h);
    struct mt_memhook_helper helper;
    struct mt_memhook_why why = {0};
    CHECK_EQ(mt_memhook_helper_open(&helper, address.sun_path,
                                    mt_memhook_now_ns() + UINT64_C(120000000000),
                                    &why),
             MT_OK);
    int own[2], connection = helper.connection, hold = helper.holds[1];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, own), 0);
    CHECK_EQ(dup2(own[1], connection), connection);
    CHECK_EQ(dup2(own[1], hold), hold);
    mt_memhook_helper_close(&helper);
    CHECK(fcntl(connection, F_GETFD) >= 0 && fcntl(hold, F_GETFD) >= 0);
    char byte;
    CHECK_EQ(recv(own[0], &byte, 1, MSG_DONTWAIT), -1);
    close(connection);
    close(hold);
    close(own[0]);
    close(own[1]);
    shutdown(h.listener, SHUT_RDWR);
    pthread_join(h.thread, NULL);
    close(h.listener);
    unlink(address.sun_path);
}

static void test_nobody(void)
{
    char path[200];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    expect_none("/nowhere/s", 0, "nobody", "no memory monitor at /nowhere/s");
    expect_none(path, 0, "long path", "socket path of 199 characters");
    CHECK_EQ(mt_memhook_start(&(struct mt_memhook_options){
                 .socket = "/nowhere/s"}), MT_ENOTSUP);
    mt_memhook_stop(); /* nothing was started */
}

static void *start_and_stop(void *path)
{
    for (int i = 0; i < 50; i++) {
        mt_memhook_start(&(struct mt_memhook_options){.socket = path});
        mt_memhook_stop();
    }
    return NULL;
}

static void test_threads(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, start_and_stop, "/nowhere/s");
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK(mt_memhook.generations == NULL);
}

/* The sum against one that looks at every page. */
static void test_stamp(void)
{
    static volatile uint64_t generations[MT_MEMHOOK_BUCKETS];
    unsigned long long random = 1;
    for (int i = 0; i < 2000; i++) {
        uintptr_t address = (uintptr_t)(check_random(&random) >> 17);
        size_t bytes = check_random(&random) % (16u << 20) + 1;
        uint64_t before = mt_memhook_stamp(generations, address, bytes);
        uintptr_t lost = (uintptr_t)(address + check_random(&random) % (24u << 20));
        generations[mt_memhook_bucket(lost)]++;
        bool touched = false;
        for (uintptr_t a = address; a - address < bytes; a += 4096) {
            touched |= mt_memhook_bucket(a) == mt_memhook_bucket(lost);
        }
        touched |= mt_memhook_bucket(address + bytes - 1) == mt_memhook_bucket(lost);
        CHECK_EQ(mt_memhook_stamp(generations, address, bytes) != before, touched);
    }
    uint64_t before = mt_memhook_stamp(generations, 4096, SIZE_MAX / 2);
    generations[700]++;
    CHECK_EQ(mt_memhook_stamp(generations, 4096, SIZE_MAX / 2), before + 1);
}

int main(void)
{
    char directory[] = "/tmp/memhookXXXXXX";
    CHECK(mkdtemp(directory) != NULL);
    test_stamp();
    test_behaviours(directory);
    test_descriptors(directory);
    if (access(MT_MEMMON_SOCKET, F_OK) != 0) {
        test_nobody();
        test_threads();
    } else {
        puts("mpitrace memmon serves this machine: being without is not tested");
    }
    rmdir(directory);
    return check_failures != 0;
}
