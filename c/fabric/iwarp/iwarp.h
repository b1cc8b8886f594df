/* iwarp.h: the provider between hosts without RDMA hardware: DDP and RDMAP in
 * user space. RC is a TCP connection with MPA framing (stream.c, out.c, in.c);
 * UD is a UDP socket with one DDP message a datagram (ud.c; Rashti 2010, 6.3).
 *
 * A context is one network interface: a listening socket, an epoll instance
 * over all its sockets, a table of registered regions. Sockets never block;
 * what cannot be sent now goes when somebody polls. Whoever posts writes to the
 * socket (engine=inline, and peer, which is the same here: the side that polls
 * takes what came in), or the engine thread does.
 *
 * Nothing that comes from a socket is trusted. */
#ifndef MPITRACE_FABRIC_IWARP_H
#define MPITRACE_FABRIC_IWARP_H

#include <sys/socket.h>
#include <sys/uio.h>

#include "../soft/soft.h"
#include "wire.h"

enum {
    MT_IWARP_VERSION = 3,
    MT_IWARP_QPS = 4096,
    MT_IWARP_REGIONS = 1 << 14,
    MT_IWARP_READS = 16,
    MT_IWARP_HOT = 4, /* queue pairs whose sockets are read in each round */
    /* accepted connections that wait for a word, or for their queue pair */
    MT_IWARP_GUESTS = MT_IWARP_QPS,
    /* Unless the options of the queue pair say. A process that died is known by
     * FIN or RST: this is for machines, and as long as a switch takes to begin anew.
     * What was lost goes again after 0.2, 0.6, 1.4 .. 25.4, 51 s (RFC 6298). */
    MT_IWARP_TIMEOUT_MS = 60000,
    MT_IWARP_GUEST_MS = 10000, /* for who connected to say what for */
    MT_IWARP_LINGER_MS = 2000,   /* for the peer to read what was sent last */
    /* payload of a DDP segment; length field and header fit into 16 bits */
    MT_IWARP_SEGMENT = 65280,
    /* payload that is copied next to its header instead of gathered */
    MT_IWARP_COPY = 256,
    MT_IWARP_FRAMES = 8,        /* of one sendmsg */
    MT_IWARP_BATCH = 4 * 65536, /* its bytes, about */
    MT_IWARP_FRAME_PIECES = MT_SOFT_PIECES + 2,
    /* read from a socket at once: 32 KiB with all that goes along, for a second read
     * waits until whoever delivers has given the lock of the socket back */
    MT_IWARP_INPUT = 36 << 10,
    /* what is left of a frame, and what comes behind it */
    MT_IWARP_ARRIVED = 72 << 10,
    /* what is missing of a frame goes straight to its place from here on */
    MT_IWARP_DIRECT = 4096,
    /* of an answer to a READ, who sleeps is woken by so many bytes at the latest */
    MT_IWARP_WAKES_AT = 512 << 10,
    MT_IWARP_KEY = 16,
    MT_IWARP_ADDRESS = 48,
    /* UD: 65,507 bytes of UDP over IPv4 less our header, in whole lines */
    MT_IWARP_UD_HEAD = 32,
    MT_IWARP_UD_PAYLOAD = 65472,
    MT_IWARP_UD_BATCH = 16, /* datagrams of one recvmmsg or sendmmsg */
    /* UD: destinations with a socket of their own, and works to one between two
     * tries to make it */
    MT_IWARP_UD_SOCKETS = 8,
    MT_IWARP_UD_OFTEN = 256,
};

struct mt_iwarp_qp;

/* One address of one queue pair, as struct mt_fabric_address carries it. */
struct mt_iwarp_address {
    uint32_t version;
    uint8_t family; /* 4 or 6 */
    uint8_t transport;
    uint16_t port;
    uint32_t number;
    uint8_t ip[16];            /* IPv4: ::ffff:a.b.c.d */
    uint8_t key[MT_IWARP_KEY]; /* of this life of the queue pair; UD: 4 bytes */
};

void mt_address_write(const struct mt_iwarp_address *a,
                      struct mt_fabric_address *to);
/* MT_EINVAL: not of this provider and transport; MT_EVERSION. */
enum mt_status mt_address_read(const struct mt_fabric_address *from,
                               enum mt_fabric_transport transport,
                               struct mt_iwarp_address *a);
/* Its socket address; scope: interface of link-local addresses. */
socklen_t mt_address_socket(const struct mt_iwarp_address *a, uint32_t scope,
                            struct sockaddr_storage *to);
/* Fills family, ip and port; false: of another family. */
bool mt_address_of_socket(const struct sockaddr_storage *from,
                          struct mt_iwarp_address *a);

struct mt_iwarp_mr {
    struct mt_fabric_mr base;
    uint32_t index;
    bool allocated;
};

struct mt_iwarp_region {
    uint64_t address, bytes;
    uint32_t key; /* 0: free */
    uint32_t access;
    uint32_t turns; /* uses so far */
    bool allocated; /* memory of the fabric's own */
};

struct mt_iwarp_ah {
    struct mt_fabric_ah base;
    struct sockaddr_storage to;
    socklen_t to_bytes;
    uint8_t key[4];
    int fd; /* a socket that is connected to it; -1: none */
    uint32_t works; /* sent to it without one */
};

/* How far the connection of an RC queue pair is. */
enum mt_iwarp_link {
    MT_LINK_NONE,
    MT_LINK_AWAITED,    /* the peer connects to us */
    MT_LINK_CONNECTING, /* TCP's handshake */
    MT_LINK_ASKED,      /* the MPA request went: the reply is to come */
    MT_LINK_OPEN,
};

/* What an epoll entry stands for. First in the struct that is watched. */
enum mt_iwarp_watched {
    MT_WATCH_LISTENER,
    MT_WATCH_GUEST,
    MT_WATCH_QP,
    MT_WATCH_NOTICES,
};

struct mt_iwarp_watch {
    uint8_t kind; /* enum mt_iwarp_watched */
};

/* FPDUs that wait for room in the socket. */
struct mt_iwarp_out {
    struct iovec iov[MT_IWARP_FRAMES * MT_IWARP_FRAME_PIECES];
    uint32_t first, count; /* of iov: still to be sent */
    bool cut;              /* iov[first] is sent in part */
    bool staged;           /* qp->staging is in use */
    uint32_t frames;
    uint32_t bytes;
    uint32_t ends[MT_IWARP_FRAMES]; /* of iov, past each frame */
    uint32_t stags[MT_IWARP_FRAMES]; /* of the region that its payload lies in, if it
                                      * is an answer that was not copied; else 0 */
    uint32_t from, upto;            /* works that are on their way with it */
    /* header, copied payload, padding and CRC of each frame */
    uint8_t store[MT_IWARP_FRAMES][64 + MT_IWARP_COPY];
};

/* Where the payload of a segment belongs. */
struct mt_iwarp_place {
    const struct mt_fabric_piece *pieces;
    uint32_t count;
    uint64_t skip;
    struct mt_fabric_piece one; /* memory of a region */
};

/* What came from the socket. */
struct mt_iwarp_in {
    uint8_t *data; /* MT_IWARP_INPUT */
    uint32_t head, tail;
    /* a frame whose payload goes straight to its place */
    bool direct;
    struct mt_iwarp_segment segment;
    uint32_t placed;  /* of its payload */
    uint32_t crc;     /* so far */
    uint32_t trailed; /* bytes of padding and CRC */
    uint8_t trailer[8];
};

/* A READ of the peer. */
struct mt_iwarp_answer {
    uint32_t sink_stag, stag;
    uint64_t sink_to, to;
    uint32_t bytes, moved;
};

/* An accepted connection until its MPA request has told whose it is. */
struct mt_iwarp_guest {
    struct mt_iwarp_watch watch;
    int fd;
    bool parked;     /* for a queue pair that is not connected yet */
    uint32_t number; /* of it */
    uint32_t waited_ms; /* as far as somebody looked */
    uint32_t got;
    uint8_t request[MT_MPA_START + 64];
    struct mt_iwarp_guest *next;
};

/* A connection that is over, while the peer reads what was sent last. */
struct mt_iwarp_linger {
    struct mt_iwarp_linger *next;
    int fd;
    uint64_t deadline_ns;
    uint32_t at, count;
    uint8_t bytes[];
};

struct mt_iwarp_qp {
    struct mt_soft_qp soft;
    struct mt_iwarp_watch watch;
    int fd; /* -1: none */
    enum mt_iwarp_link link;
    bool is_live;
    bool waits; /* something waits for room in the socket, or to be sent at all */
    bool wants_out; /* epoll watches for room */
    bool muted;     /* UD: epoll does not watch: there is no receive */
    uint32_t place; /* in context->live */
    uint8_t key[MT_IWARP_KEY];
    uint32_t timeout_ms, open_ms;
    /* RC */
    uint32_t wakes_at; /* bytes that make the socket readable: SO_RCVLOWAT */
    struct mt_iwarp_address remote;
    uint32_t stalled_ms; /* not connected, or nothing acknowledged, as far as
                          * somebody looked */
    bool no_crc; /* both sides want none: it is sent as 0 and not looked at */
    struct mt_iwarp_out *out;
    struct mt_iwarp_in in;
    uint32_t sent[MT_DDP_QUEUES], taken[MT_DDP_QUEUES]; /* MSNs */
    struct mt_soft_receive current; /* of the message that is coming */
    bool has_current;
    uint64_t received; /* its bytes so far */
    uint64_t written;  /* bytes of the WRITE that is coming, or came last */
    bool write_ended;
    struct mt_iwarp_answer answers[MT_IWARP_READS];
    uint32_t answer_head, answer_tail;
    bool answer_next; /* an answer goes before the next work */
    uint8_t *staging; /* a segment of memory that others may change */
    /* UD */
    uint16_t port;
    uint32_t batch, full; /* datagrams asked for at once; calls that got all */
};

struct mt_iwarp_context {
    struct mt_soft_context soft;
    struct mt_iwarp_address self; /* of the interface; port: of the listener */
    uint32_t scope;
    int listener, epoll;
    struct mt_iwarp_watch listener_watch;
    int notices; /* of links, from the kernel; -1: none */
    struct mt_iwarp_watch notices_watch;
    bool link_up;
    bool no_crc; /* RC is to go without */
    struct mt_iwarp_region *regions;
    uint32_t next_region;
    uint8_t *arrived; /* MT_IWARP_ARRIVED: read from a socket, and taken at once */
    struct mt_iwarp_qp *live[MT_IWARP_QPS]; /* connected queue pairs */
    uint32_t live_count, turn;
    uint32_t connecting; /* of them, not open yet */
    uint32_t waiting;    /* of them, with waits */
    uint32_t muted;
    uint32_t ud_sockets; /* of destinations */
    struct mt_iwarp_qp *hot[MT_IWARP_HOT];
    uint32_t hot_idle[MT_IWARP_HOT];
    uint32_t hot_turn;
    struct mt_iwarp_guest *guests;
    uint32_t guest_count;
    struct mt_iwarp_linger *lingers;
    uint32_t rounds; /* since the last look at epoll, and ... */
    uint32_t ticks;  /* ... at the clock */
    uint64_t looked_ns;
    bool said_files; /* that there are no more descriptors */
    bool deaf;       /* for want of them: epoll does not watch the listener */
    /* counted for whoever asks why nothing comes */
    uint64_t refused;   /* connections of strangers */
    uint64_t strange;   /* datagrams for another life of the queue pair */
    uint64_t lost;      /* datagrams that the system would not send */
};

MT_INLINE struct mt_iwarp_context *
mt_iwarp_context_of(const struct mt_iwarp_qp *qp)
{
    return (struct mt_iwarp_context *)mt_soft_context_of(&qp->soft);
}

/* ---- memory (region.c) ---- */

enum mt_status mt_iwarp_mr_create(struct mt_fabric_pd *pd, void *address,
                                  size_t bytes, uint32_t access,
                                  struct mt_fabric_mr **mr_p);
void mt_iwarp_mr_destroy(struct mt_fabric_mr *mr);
/* True if the key is of a region that holds these bytes, with this access. */
bool mt_iwarp_may(const struct mt_iwarp_context *context, uint32_t key,
                  uint64_t address, uint64_t bytes, uint32_t access);
/* The same for each piece, which a local key must cover. */
bool mt_iwarp_may_pieces(const struct mt_iwarp_context *context,
                         const struct mt_fabric_piece *pieces, uint32_t count,
                         uint32_t access);
/* Whether all of it is memory of the fabric (mt_fabric_mr_allocate), which stays as it
 * is while it is being sent. */
bool mt_iwarp_keeps_still(const struct mt_iwarp_context *context,
                          const struct mt_fabric_piece *pieces, uint32_t count);

/* ---- the port (port.c) ---- */

/* Of an interface. */
bool mt_iwarp_flags_up(unsigned flags);
enum mt_status mt_iwarp_port_open(struct mt_iwarp_context *context,
                                  const struct mt_fabric_options *options);
/* Takes what the kernel told, and makes events of it. */
void mt_iwarp_port_look(struct mt_iwarp_context *context);

/* ---- parts of lists of pieces (slice.c) ---- */

/* The bytes behind skip; returns how many entries of iov that takes, at most
 * count. */
uint32_t mt_iwarp_slice(const struct mt_fabric_piece *pieces, uint32_t count,
                        uint64_t skip, uint64_t bytes, struct iovec *iov);
uint32_t mt_iwarp_crc(uint32_t crc, const struct iovec *iov, uint32_t count);
/* Copies bytes behind skip out of the pieces, or into them, and continues the CRC over
 * what was not theirs: others may change the memory of the pieces meanwhile. */
uint32_t mt_iwarp_gather(const struct mt_fabric_piece *pieces, uint32_t count,
                         uint64_t skip, uint8_t *to, uint32_t bytes,
                         uint32_t crc);
uint32_t mt_iwarp_scatter(const struct mt_fabric_piece *pieces, uint32_t count,
                          uint64_t skip, const uint8_t *from, uint32_t bytes,
                          uint32_t crc);

/* ---- connections (stream.c) ---- */

enum mt_status mt_iwarp_listen(struct mt_iwarp_context *context);
/* The socket call that failed last: for want of descriptors? Told once. */
void mt_iwarp_say_files(struct mt_iwarp_context *context);
/* Whether epoll watches the listening socket. */
void mt_iwarp_hear(struct mt_iwarp_context *context, bool hear);
enum mt_status mt_iwarp_watch(struct mt_iwarp_context *context, int fd,
                              struct mt_iwarp_watch *watch);
/* New bytes nobody can guess. */
enum mt_status mt_iwarp_key_make(uint8_t *key, size_t bytes);
enum mt_status mt_iwarp_stream_connect(struct mt_iwarp_qp *qp,
                                       const struct mt_iwarp_address *remote);
/* Something happened at the socket of a queue pair that is not open yet. */
void mt_iwarp_stream_step(struct mt_iwarp_qp *qp);
void mt_iwarp_accept(struct mt_iwarp_context *context);
void mt_iwarp_guest_hear(struct mt_iwarp_context *context,
                         struct mt_iwarp_guest *guest);
void mt_iwarp_guest_drop(struct mt_iwarp_context *context,
                         struct mt_iwarp_guest *guest);
/* Ends the connection: with a Terminate message unless term is MT_TERM_NONE;
 * header: of the segment that is at fault, or NULL. */
void mt_iwarp_stream_end(struct mt_iwarp_qp *qp, enum mt_iwarp_term term,
                         const struct mt_iwarp_segment *segment);
/* True if the peer has not acknowledged what was sent for longer than it may.
 */
bool mt_iwarp_stream_silent(struct mt_iwarp_qp *qp);
void mt_iwarp_linger(struct mt_iwarp_context *context, bool over);

/* Into the error state; the connection ends. failed: NULL: none. */
void mt_iwarp_fail(struct mt_iwarp_qp *qp, struct mt_soft_work *failed,
                   enum mt_status status, enum mt_iwarp_term term,
                   const struct mt_iwarp_segment *segment);
/* ... because the peer is gone or said so: the oldest send fails. */
void mt_iwarp_fail_oldest(struct mt_iwarp_qp *qp, enum mt_status status);

/* ---- data (out.c, in.c, ud.c) ---- */

/* One frame of header and payload, complete, at a place of 64 + MT_IWARP_COPY
 * bytes: returns its size. */
uint32_t mt_frame_short(uint8_t *at, const struct mt_iwarp_segment *s,
                        const void *payload, bool no_crc);
void mt_iwarp_out_reset(struct mt_iwarp_qp *qp);
/* Whether an answer that lies in the region has not left yet. */
bool mt_iwarp_answers(const struct mt_iwarp_qp *qp, uint32_t stag);
/* Sends what there is, as far as the socket takes it; true if something went.
 */
bool mt_iwarp_out(struct mt_iwarp_qp *qp);
/* Takes what came; true if something did. */
bool mt_iwarp_in(struct mt_iwarp_qp *qp);
/* ... out of the buffer, without looking at the socket. */
void mt_iwarp_parse(struct mt_iwarp_qp *qp);
/* Somebody may sleep until the socket is readable: in the middle of a long frame,
 * or of a long answer to a READ, that is when there is much of it. */
void mt_iwarp_in_armed(struct mt_iwarp_qp *qp);

enum mt_status mt_iwarp_ud_open(struct mt_iwarp_context *context,
                                struct mt_iwarp_qp *qp);
/* A destination is given back. */
void mt_iwarp_ud_disconnect(struct mt_iwarp_context *context,
                            struct mt_iwarp_ah *ah);
bool mt_iwarp_ud_out(struct mt_iwarp_qp *qp);
bool mt_iwarp_ud_in(struct mt_iwarp_qp *qp);

/* ---- progress (progress.c) ---- */

void mt_iwarp_live_add(struct mt_iwarp_context *context,
                       struct mt_iwarp_qp *qp);
void mt_iwarp_live_remove(struct mt_iwarp_context *context,
                          struct mt_iwarp_qp *qp);
/* Something waits for room in the socket, or to be sent at all, or does not any
 * more. */
void mt_iwarp_waits(struct mt_iwarp_qp *qp, bool waits);
void mt_iwarp_push(struct mt_soft_qp *qp);
void mt_iwarp_armed(struct mt_soft_context *context);
bool mt_iwarp_progress(struct mt_soft_context *context);
/* A receive was posted: its queue pairs are listened to again. */
void mt_iwarp_unmute(struct mt_iwarp_context *context,
                     const struct mt_soft_receives *receives);

#endif
