/* socket.h: wire-up over stream sockets, for tools and tests: rank 0 listens,
 * the others connect; an exchange goes through rank 0. Every wait has a bound.
 *
 * It trusts who connects: for the network of a cluster, not for the world. */
#ifndef MPITRACE_FABRIC_PATHS_SOCKET_H
#define MPITRACE_FABRIC_PATHS_SOCKET_H

#include "paths.h"

struct mt_socket_options {
    uint32_t rank, size;
    /* "HOST:PORT", "HOST", ":PORT"; of rank 0, which listens there (without
     * HOST: everywhere; port 0: any that is free). IPv6 as "[::1]:7000". */
    const char *address;
    uint32_t timeout_ms; /* for any wait */
    /* Called while waiting, NULL: nothing: to let a provider move data. */
    void (*idle)(void *user);
    void *idle_user;
    void (*say)(void *user, const char *text);
    void *say_user;
};

enum { MT_SOCKET_PORT = 18515 }; /* as perftest's, when none is given */

struct mt_socket {
    struct mt_socket_options o;
    int listener;  /* rank 0; -1: none */
    int *fds;      /* rank 0: by rank; else fds[0] is rank 0. -1: not there */
    uint16_t port; /* that rank 0 listens at */
};

/* Rank 0: listens; mt_socket_join waits for the others, however many strangers come.
 * MT_ETIMEOUT; MT_ENOMEM: the system has no descriptor for who came. Both are said. */
enum mt_status mt_socket_listen(const struct mt_socket_options *options,
                                struct mt_socket *sockets);
enum mt_status mt_socket_join(struct mt_socket *sockets);
/* Another rank: connects, and tries again until the time is over. */
enum mt_status mt_socket_connect(const struct mt_socket_options *options,
                                 struct mt_socket *sockets);
/* Two ranks with a connected socket between them, which is taken over. */
enum mt_status mt_socket_pair(const struct mt_socket_options *options, int fd,
                              struct mt_socket *sockets);
void mt_socket_close(struct mt_socket *sockets);

/* The exchange of struct mt_fabric_wireup; user is the struct mt_socket.
 * MT_ETIMEOUT, MT_EPEER: said which rank is missing. */
enum mt_status mt_socket_exchange(void *user, const void *mine, size_t bytes,
                                  void *all);

/* ---- what comes from outside, taken apart ---- */

struct mt_host_port {
    char host[256]; /* empty: any */
    char port[16];
};

/* "HOST", "HOST:PORT", "[IPv6]" or "[IPv6]:PORT"; false: none of them. */
bool mt_host_port_read(const char *text, struct mt_host_port *a);

/* What a rank says when it has connected. */
struct mt_socket_hello {
    char magic[8];
    uint32_t version;
    uint32_t rank, size;
};

/* Whether it may come in: MT_EINVAL, MT_EVERSION: no. */
enum mt_status mt_socket_admit(const struct mt_socket *s,
                               const struct mt_socket_hello *hello);

#endif
