/* helper.c: asking the helper (internal/memmon) to have this process watched by
 * its program in the kernel; include/memmon.h has the protocol. Whatever the
 * helper sends is checked, and every wait ends at the deadline. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "monitors.h"

/* What a descriptor is of: a program may close all that it finds, and open others. */
static uint64_t mt_memhook_file_of(int fd)
{
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0
               ? mt_hash(st.st_dev) ^ (uint64_t)st.st_ino
               : 0;
}

static enum mt_status mt_memhook_connect(int *fd_p, const char *path,
                                         uint64_t deadline_ns,
                                         struct mt_memhook_why *why)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        mt_memhook_because(why, "socket path of %zu characters, %zu fit",
                           strlen(path), sizeof address.sun_path - 1);
        return MT_EINVAL;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        mt_memhook_because(why, "socket: %m");
        return MT_EIO;
    }
    /* does not wait: EAGAIN says that many are waiting to be accepted */
    while (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        if ((errno != EAGAIN && errno != EINTR) ||
            mt_memhook_now_ns() >= deadline_ns) {
            mt_memhook_because(why, "no memory monitor at %s: %m", path);
            close(fd);
            return MT_ENODEVICE;
        }
        poll(NULL, 0, 1);
    }
    *fd_p = fd;
    return MT_OK;
}

static bool mt_memhook_wait(int fd, uint64_t deadline_ns)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    for (;;) {
        uint64_t now = mt_memhook_now_ns();
        int left_ms = now >= deadline_ns
                          ? 0
                          : (int)((deadline_ns - now) / UINT64_C(1000000)) + 1;
        int n = poll(&p, 1, left_ms);
        if (n > 0 || left_ms == 0 || (n < 0 && errno != EINTR)) {
            return n > 0;
        }
    }
}

/* Takes over the descriptors of a message; those beyond the room are closed by
 * the kernel. */
static unsigned mt_memhook_take(struct msghdr *message,
                                int fds[MT_MEMMON_MAX_FILES])
{
    unsigned taken = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL;
         c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        unsigned n = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (unsigned i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (taken < MT_MEMMON_MAX_FILES) {
                fds[taken++] = fd;
            } else {
                close(fd);
            }
        }
    }
    return taken;
}

/* Receives one answer with its descriptors, which are the caller's whatever is
 * returned. */
static ssize_t mt_memhook_receive(struct mt_memhook_helper *helper,
                                  struct mt_memmon_answer *answer)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(MT_MEMMON_MAX_FILES * sizeof(int))];
    } control;
    struct iovec part = {answer, sizeof *answer};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof control,
    };
    ssize_t n = recvmsg(helper->connection, &message,
                        MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0) {
        return n;
    }
    helper->held = mt_memhook_take(&message, helper->holds);
    for (unsigned i = 0; i < helper->held; i++) {
        helper->hold_files[i] = mt_memhook_file_of(helper->holds[i]);
    }
    return (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ? 0 : n;
}

static const char *mt_memhook_refused(unsigned result)
{
    static const char *const texts[] = {
        [MT_MEMMON_OTHER_VERSION] = "it speaks another version",
        [MT_MEMMON_MALFORMED] = "it did not understand the request",
        [MT_MEMMON_REFUSED] = "this user is not served",
        [MT_MEMMON_FULL] = "it watches as many processes as it may",
        [MT_MEMMON_FAILED] = "it failed, see its log",
    };
    return result < sizeof texts / sizeof texts[0] && texts[result] != NULL
               ? texts[result]
               : "unknown reason";
}

static enum mt_status mt_memhook_check(const struct mt_memhook_helper *helper,
                                       const struct mt_memmon_answer *answer,
                                       ssize_t received,
                                       struct mt_memhook_why *why)
{
    if (received != (ssize_t)sizeof *answer ||
        answer->magic != MT_MEMMON_MAGIC) {
        mt_memhook_because(why, "what answers is no memory monitor");
        return MT_EPEER;
    }
    if (answer->version != MT_MEMMON_VERSION) {
        mt_memhook_because(why, "the memory monitor has version %u, not %u",
                           answer->version, MT_MEMMON_VERSION);
        return MT_EVERSION;
    }
    if (answer->result != MT_MEMMON_OK) {
        mt_memhook_because(why, "the memory monitor refuses: %s",
                           mt_memhook_refused(answer->result));
        return MT_EPERM;
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (answer->buckets != MT_MEMHOOK_BUCKETS ||
        answer->shift != MT_MEMHOOK_SHIFT || answer->files != helper->held ||
        helper->held < 2 ||
        answer->bytes < sizeof(struct mt_memmon_slot) ||
        answer->bytes % page != 0) {
        mt_memhook_because(why, "the memory monitor's answer makes no sense");
        return MT_EPEER;
    }
    return MT_OK;
}

/* The map is the first descriptor. It is of no use in a child of fork, and a
 * child must not read it by mistake. */
static enum mt_status mt_memhook_map(struct mt_memhook_helper *helper,
                                     size_t bytes, struct mt_memhook_why *why)
{
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, helper->holds[0], 0);
    if (map == MAP_FAILED) {
        mt_memhook_because(why, "mapping the generations: %m");
        return MT_EIO;
    }
    if (madvise(map, bytes, MADV_DONTFORK) != 0) {
        mt_memhook_because(why, "madvise(MADV_DONTFORK): %m");
        munmap(map, bytes);
        return MT_EIO;
    }
    close(helper->holds[0]);
    helper->holds[0] = -1;
    helper->map = map;
    helper->map_bytes = bytes;
    return MT_OK;
}

static bool mt_memhook_send(int fd, enum mt_memmon_type type)
{
    struct mt_memmon_request request = {
        .magic = MT_MEMMON_MAGIC,
        .version = MT_MEMMON_VERSION,
        .type = (uint16_t)type,
    };
    return send(fd, &request, sizeof request, MSG_NOSIGNAL | MSG_DONTWAIT) ==
           (ssize_t)sizeof request;
}

static enum mt_status mt_memhook_ask(struct mt_memhook_helper *helper,
                                     uint64_t deadline_ns,
                                     struct mt_memhook_why *why)
{
    if (!mt_memhook_send(helper->connection, MT_MEMMON_WATCH)) {
        mt_memhook_because(why, "asking the memory monitor: %m");
        return MT_EPEER;
    }
    if (!mt_memhook_wait(helper->connection, deadline_ns)) {
        mt_memhook_because(why, "the memory monitor does not answer");
        return MT_ETIMEOUT;
    }
    struct mt_memmon_answer answer = {0};
    ssize_t received = mt_memhook_receive(helper, &answer);
    enum mt_status status = mt_memhook_check(helper, &answer, received, why);
    if (status == MT_OK) {
        helper->token = answer.token;
        status = mt_memhook_map(helper, answer.bytes, why);
    }
    return status;
}

enum mt_status mt_memhook_helper_open(struct mt_memhook_helper *helper,
                                      const char *socket, uint64_t deadline_ns,
                                      struct mt_memhook_why *why)
{
    *helper = (struct mt_memhook_helper){.connection = -1};
    enum mt_status status =
        mt_memhook_connect(&helper->connection, socket, deadline_ns, why);
    if (status != MT_OK) {
        return status;
    }
    helper->connection_file = mt_memhook_file_of(helper->connection);
    status = mt_memhook_ask(helper, deadline_ns, why);
    if (status != MT_OK) {
        mt_memhook_helper_close(helper);
    }
    return status;
}

void mt_memhook_helper_attach(const struct mt_memhook_helper *helper)
{
    /* the system call itself: libc's function may be hooked by others */
    syscall(SYS_madvise, helper->token, (size_t)0, MT_MEMMON_ATTACH);
}

void mt_memhook_helper_close(struct mt_memhook_helper *helper)
{
    if (mt_memhook_file_of(helper->connection) == helper->connection_file) {
        /* unsent, the helper finds out when the process ends */
        (void)mt_memhook_send(helper->connection, MT_MEMMON_DETACH);
        close(helper->connection);
    }
    for (unsigned i = 0; i < helper->held; i++) {
        if (helper->holds[i] >= 0 &&
            mt_memhook_file_of(helper->holds[i]) == helper->hold_files[i]) {
            close(helper->holds[i]);
        }
    }
    if (helper->map != NULL) {
        munmap(helper->map, helper->map_bytes);
    }
    *helper = (struct mt_memhook_helper){.connection = -1};
}
