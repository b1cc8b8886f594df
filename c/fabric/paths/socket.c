/* socket.c: see socket.h. Cold. */
#define _GNU_SOURCE 1
#include "socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const char mt_magic[8] = "mtwireup";

enum {
    MT_SOCKET_VERSION = 1,
    MT_RETRY_MS = 50,
    MT_WAIT_MS = 10,
    MT_STRANGERS = 8 /* who say nothing take all the time to join */
};

static uint64_t mt_now_ms(void)
{
    return mt_path_now_ns() / 1000000;
}

/* Waits for events at fd; MT_ETIMEOUT when until has passed. */
static enum mt_status mt_await(const struct mt_socket *s, int fd, short events,
                               uint64_t until)
{
    struct pollfd p = {.fd = fd, .events = events};
    for (;;) {
        int n = poll(&p, 1, s->o.idle != NULL ? 0 : MT_WAIT_MS);
        if (n > 0) {
            return MT_OK;
        }
        if (n < 0 && errno != EINTR) {
            return MT_EIO;
        }
        if (mt_now_ms() >= until) {
            return MT_ETIMEOUT;
        }
        if (s->o.idle != NULL) {
            s->o.idle(s->o.idle_user);
        }
    }
}

/* Of a rank that is not known yet: somebody who only looked in. */
#define MT_STRANGER UINT32_MAX

static void mt_gone(const struct mt_socket *s, uint32_t rank, const char *why)
{
    if (rank != MT_STRANGER) {
        mt_path_say(s->o.say, s->o.say_user, "rank %u is gone: %s", rank, why);
    }
}

/* All of the bytes, either way, within the time. */
static enum mt_status mt_move_within(const struct mt_socket *s, int fd,
                                     bool out, void *bytes, size_t n,
                                     uint32_t rank, uint32_t timeout_ms)
{
    uint64_t until = mt_now_ms() + timeout_ms;
    while (n > 0) {
        ssize_t did = out ? send(fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT)
                          : recv(fd, bytes, n, MSG_DONTWAIT);
        if (did > 0) {
            bytes = (char *)bytes + did;
            n -= (size_t)did;
            continue;
        }
        if (did == 0 || (errno != EAGAIN && errno != EINTR)) {
            mt_gone(s, rank, did == 0 ? "closed" : strerror(errno));
            return MT_EPEER;
        }
        enum mt_status status = mt_await(s, fd, out ? POLLOUT : POLLIN, until);
        if (status != MT_OK) {
            mt_gone(s, rank, "no answer in time");
            return status;
        }
    }
    return MT_OK;
}

static enum mt_status mt_move(const struct mt_socket *s, int fd, bool out,
                              void *bytes, size_t n, uint32_t rank)
{
    return mt_move_within(s, fd, out, bytes, n, rank, s->o.timeout_ms);
}

/* ---- addresses ---- */

bool mt_host_port_read(const char *text, struct mt_host_port *a)
{
    const char *colon = strrchr(text, ':');
    const char *end = text + strlen(text);
    if (text[0] == '[') {
        const char *bracket = strchr(text, ']');
        if (bracket == NULL || (bracket[1] != '\0' && bracket[1] != ':')) {
            return false;
        }
        colon = bracket[1] == ':' ? bracket + 1 : NULL;
        end = bracket;
        text++;
    } else if (colon != NULL && strchr(text, ':') != colon) {
        colon = NULL; /* an IPv6 address without a port */
    } else if (colon != NULL) {
        end = colon;
    }
    if ((size_t)(end - text) >= sizeof(a->host)) {
        return false;
    }
    snprintf(a->host, sizeof(a->host), "%.*s", (int)(end - text), text);
    snprintf(a->port, sizeof(a->port), "%d", MT_SOCKET_PORT);
    if (colon != NULL) {
        char *stop;
        unsigned long port = strtoul(colon + 1, &stop, 10);
        if (colon[1] < '0' || colon[1] > '9' || *stop != '\0' || port > 65535) {
            return false;
        }
        snprintf(a->port, sizeof(a->port), "%lu", port);
    }
    return true;
}

static enum mt_status mt_resolve(const struct mt_socket_options *o,
                                 bool passive, struct addrinfo **list_p)
{
    struct mt_host_port a;
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = passive ? AI_PASSIVE : 0};
    if (!mt_host_port_read(o->address, &a) || (!passive && a.host[0] == '\0')) {
        mt_path_say(o->say, o->say_user, "%s is not HOST or HOST:PORT",
                    o->address);
        return MT_EINVAL;
    }
    int error =
        getaddrinfo(a.host[0] != '\0' ? a.host : NULL, a.port, &hints, list_p);
    if (error != 0) {
        mt_path_say(o->say, o->say_user, "%s: %s", o->address,
                    gai_strerror(error));
        return MT_EINVAL;
    }
    return MT_OK;
}

static int mt_socket_made(int fd)
{
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

/* ---- joining ---- */

static enum mt_status mt_start(struct mt_socket *s,
                               const struct mt_socket_options *options)
{
    memset(s, 0, sizeof(*s));
    s->o = *options;
    s->listener = -1;
    if (options->size < 1 || options->rank >= options->size) {
        return MT_EINVAL;
    }
    s->fds = malloc(options->size * sizeof(*s->fds));
    if (s->fds == NULL) {
        return MT_ENOMEM;
    }
    for (uint32_t i = 0; i < options->size; i++) {
        s->fds[i] = -1;
    }
    return MT_OK;
}

/* A socket that listens at an address; -1: errno says why not. */
static int mt_listen_at(const struct addrinfo *a, uint16_t *port_p)
{
    const int one = 1;
    struct sockaddr_storage name;
    socklen_t bytes = sizeof(name);
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&name, &bytes) != 0) {
        int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    /* the port lies at the same place in both families */
    *port_p = ntohs(((struct sockaddr_in *)&name)->sin_port);
    return fd;
}

enum mt_status mt_socket_listen(const struct mt_socket_options *options,
                                struct mt_socket *s)
{
    struct addrinfo *list = NULL;
    enum mt_status status = mt_start(s, options);
    if (status == MT_OK) {
        status = mt_resolve(options, true, &list);
    }
    for (const struct addrinfo *a = list; a != NULL && s->listener < 0;
         a = a->ai_next) {
        s->listener = mt_listen_at(a, &s->port);
    }
    if (status == MT_OK && s->listener < 0) {
        mt_path_say(options->say, options->say_user, "listening at %s: %s",
                    options->address, strerror(errno));
        status = MT_EIO;
    }
    if (list != NULL) {
        freeaddrinfo(list);
    }
    if (status != MT_OK) {
        mt_socket_close(s);
    }
    return status;
}

enum mt_status mt_socket_admit(const struct mt_socket *s,
                               const struct mt_socket_hello *hello)
{
    if (memcmp(hello->magic, mt_magic, sizeof(mt_magic)) != 0) {
        return MT_EINVAL;
    }
    if (hello->version != MT_SOCKET_VERSION) {
        mt_path_say(s->o.say, s->o.say_user,
                    "a rank speaks version %u of the wire-up, this one %d",
                    hello->version, MT_SOCKET_VERSION);
        return MT_EVERSION;
    }
    if (hello->size != s->o.size || hello->rank == 0 ||
        hello->rank >= s->o.size || s->fds[hello->rank] >= 0) {
        mt_path_say(s->o.say, s->o.say_user,
                    "rank %u of %u came to %u ranks, or came twice",
                    hello->rank, hello->size, s->o.size);
        return MT_EINVAL;
    }
    return MT_OK;
}

/* Who connected; MT_EINVAL: somebody else, who is sent away. One who says nothing
 * does not take all the time that ranks have for coming. */
static enum mt_status mt_welcome(struct mt_socket *s, int fd, uint64_t until)
{
    struct mt_socket_hello hello;
    uint64_t now = mt_now_ms(), left = until > now ? until - now : 0;
    uint32_t most = s->o.timeout_ms / MT_STRANGERS;
    enum mt_status status =
        mt_move_within(s, fd, false, &hello, sizeof(hello), MT_STRANGER,
                       left < most ? (uint32_t)left : most);
    status = status == MT_OK ? mt_socket_admit(s, &hello) : MT_EINVAL;
    if (status == MT_OK) {
        s->fds[hello.rank] = fd;
    }
    return status;
}

/* One who comes within the time; MT_EINVAL: no rank. */
static enum mt_status mt_accept(struct mt_socket *s, uint64_t until)
{
    enum mt_status status = mt_await(s, s->listener, POLLIN, until);
    if (status != MT_OK) {
        return status;
    }
    int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
                   errno == ENOMEM)) {
        mt_path_say(s->o.say, s->o.say_user,
                    "accepting a connection at port %u: %s", s->port,
                    strerror(errno));
        return MT_ENOMEM;
    }
    if (fd < 0) {
        return MT_EINVAL; /* it is gone again */
    }
    status = mt_welcome(s, mt_socket_made(fd), until);
    if (status != MT_OK) {
        close(fd);
    }
    return status;
}

enum mt_status mt_socket_join(struct mt_socket *s)
{
    uint64_t until = mt_now_ms() + s->o.timeout_ms;
    uint32_t here = 1;
    enum mt_status status = MT_OK;
    while (here < s->o.size && (status == MT_OK || status == MT_EINVAL)) {
        status = mt_accept(s, until);
        here += status == MT_OK;
        if (status == MT_EINVAL && mt_now_ms() >= until) {
            status = MT_ETIMEOUT; /* however many strangers come */
        }
    }
    if (status == MT_ETIMEOUT || status == MT_EIO) {
        mt_path_say(s->o.say, s->o.say_user,
                    "%u of %u ranks came to port %u within %u s", here,
                    s->o.size, s->port, s->o.timeout_ms / 1000);
    }
    return status;
}

/* One try; -1: not now. */
static int mt_connect_once(const struct mt_socket *s,
                           const struct addrinfo *list, uint64_t until)
{
    for (const struct addrinfo *a = list; a != NULL; a = a->ai_next) {
        int error = 0;
        socklen_t bytes = sizeof(error);
        int fd = socket(a->ai_family,
                        a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        bool begun = fd >= 0 && (connect(fd, a->ai_addr, a->ai_addrlen) == 0 ||
                                 errno == EINPROGRESS);
        if (begun && mt_await(s, fd, POLLOUT, until) == MT_OK &&
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 &&
            error == 0) {
            return mt_socket_made(fd);
        }
        if (error != 0) {
            errno = error;
        }
        if (fd >= 0) {
            int why = errno;
            close(fd);
            errno = why;
        }
    }
    return -1;
}

enum mt_status mt_socket_connect(const struct mt_socket_options *options,
                                 struct mt_socket *s)
{
    struct addrinfo *list = NULL;
    uint64_t until = mt_now_ms() + options->timeout_ms;
    struct mt_socket_hello hello = {.version = MT_SOCKET_VERSION,
                                    .rank = options->rank,
                                    .size = options->size};
    memcpy(hello.magic, mt_magic, sizeof(mt_magic));
    enum mt_status status = mt_start(s, options);
    if (status == MT_OK) {
        status = mt_resolve(options, false, &list);
    }
    while (status == MT_OK &&
           (s->fds[0] = mt_connect_once(s, list, until)) < 0) {
        if (mt_now_ms() >= until) {
            mt_path_say(options->say, options->say_user, "connecting to %s: %s",
                        options->address, strerror(errno));
            status = MT_ETIMEOUT;
        } else {
            nanosleep(&(struct timespec){.tv_nsec = MT_RETRY_MS * 1000000L},
                      NULL);
        }
    }
    if (list != NULL) {
        freeaddrinfo(list);
    }
    if (status == MT_OK) {
        status = mt_move(s, s->fds[0], true, &hello, sizeof(hello), 0);
    }
    if (status != MT_OK) {
        mt_socket_close(s);
    }
    return status;
}

enum mt_status mt_socket_pair(const struct mt_socket_options *options, int fd,
                              struct mt_socket *s)
{
    enum mt_status status =
        options->size == 2 ? mt_start(s, options) : MT_EINVAL;
    if (status == MT_OK) {
        s->fds[options->rank == 0 ? 1 : 0] = fd;
    }
    return status;
}

void mt_socket_close(struct mt_socket *s)
{
    for (uint32_t i = 0; s->fds != NULL && i < s->o.size; i++) {
        if (s->fds[i] >= 0) {
            close(s->fds[i]);
        }
    }
    if (s->listener >= 0) {
        close(s->listener);
    }
    free(s->fds);
    s->fds = NULL;
    s->listener = -1;
}

/* ---- exchange ---- */

/* Each contribution follows its length: ranks that disagree find out. */
static enum mt_status mt_put_block(const struct mt_socket *s, int fd,
                                   const void *bytes, size_t n, uint32_t rank)
{
    uint64_t length = n;
    enum mt_status status = mt_move(s, fd, true, &length, sizeof(length), rank);
    return status == MT_OK ? mt_move(s, fd, true, (void *)bytes, n, rank)
                           : status;
}

static enum mt_status mt_get_block(const struct mt_socket *s, int fd,
                                   void *bytes, size_t n, uint32_t rank)
{
    uint64_t length;
    enum mt_status status =
        mt_move(s, fd, false, &length, sizeof(length), rank);
    if (status == MT_OK && length != n) {
        mt_path_say(s->o.say, s->o.say_user,
                    "rank %u exchanges %llu bytes, this one %zu", rank,
                    (unsigned long long)length, n);
        status = MT_EPEER;
    }
    return status == MT_OK ? mt_move(s, fd, false, bytes, n, rank) : status;
}

enum mt_status mt_socket_exchange(void *user, const void *mine, size_t bytes,
                                  void *all)
{
    struct mt_socket *s = user;
    enum mt_status status = MT_OK;
    if (all == NULL) {
        for (uint32_t i = 0; i < s->o.size; i++) {
            shutdown(s->fds[i], SHUT_RDWR); /* which nobody has to wait for */
        }
        return MT_ENOMEM;
    }
    if (s->o.rank != 0) {
        status = mt_put_block(s, s->fds[0], mine, bytes, 0);
        return status == MT_OK
                   ? mt_get_block(s, s->fds[0], all, bytes * s->o.size, 0)
                   : status;
    }
    memcpy(all, mine, bytes);
    for (uint32_t i = 1; i < s->o.size && status == MT_OK; i++) {
        status = mt_get_block(s, s->fds[i], (char *)all + i * bytes, bytes, i);
    }
    for (uint32_t i = 1; i < s->o.size && status == MT_OK; i++) {
        status = mt_put_block(s, s->fds[i], all, bytes * s->o.size, i);
    }
    return status;
}
