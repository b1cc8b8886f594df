/* arena.c: making, sharing and finding arenas. Cold but for mt_shm_peer_copy. */
#define _GNU_SOURCE 1
#include "arena.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../../include/fileroom.h"
#include "../soft/soft.h"

/* Address space of an arena. It costs nothing until it is handed out; every peer
 * needs as much, so that under a limit on it a process takes a part of that. */
#define MT_ARENA_MOST (UINT64_C(1) << 30)
#define MT_ARENA_LEAST (UINT64_C(16) << 20)
enum {
    MT_ARENA_PAGE = MT_SHM_PAGE,
    MT_ARENA_PARTS = 64,
    MT_ARENA_STEP = 2 << 20, /* opened at once: few messages have to open */
    MT_ARENA_READ_ONLY = offsetof(struct mt_shm_root, sleeping), /* for peers */
};

static const char mt_arena_name[] = "mpitrace-fabric";

static uint64_t mt_limit(__rlimit_resource_t resource)
{
    struct rlimit limit;
    return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
               ? limit.rlim_cur
               : UINT64_MAX;
}

/* Beyond the limit for files a signal would end the process. */
uint64_t mt_shm_arena_bytes(void)
{
    uint64_t space = mt_limit(RLIMIT_AS), file = mt_limit(RLIMIT_FSIZE);
    uint64_t bytes = MT_ARENA_MOST;
    while (bytes > MT_ARENA_LEAST &&
           (bytes > space / MT_ARENA_PARTS || bytes > file)) {
        bytes /= 2;
    }
    return bytes <= file ? bytes : 0;
}

static uint64_t mt_arena_pages(const struct mt_shm_arena *arena)
{
    return arena->bytes / MT_ARENA_PAGE;
}

/* Whether the last error is a shortage, which may pass. */
static bool mt_is_short(void)
{
    return errno == EMFILE || errno == ENFILE || errno == ENOMEM;
}

static enum mt_status mt_failed_call(enum mt_status otherwise)
{
    return mt_is_short() ? MT_ENOMEM : otherwise;
}

/* What /proc/PID/stat says behind field 2, the command, which may hold blanks and
 * parentheses. NULL: nothing, and errno says why. */
static const char *mt_stat_fields(int pid, char *text, size_t bytes)
{
    char path[40];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, bytes - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    if (n <= 0) {
        return NULL;
    }
    text[n] = '\0';
    const char *end = strrchr(text, ')');
    return end != NULL && end[1] == ' ' ? end + 2 : NULL;
}

/* Field 22; 0: not known, and errno says why. */
static uint64_t mt_start_time(int pid)
{
    char text[1024];
    const char *at = mt_stat_fields(pid, text, sizeof(text));
    for (int field = 3; at != NULL && field < 22; field++) {
        at = strchr(at, ' ');
        at = at != NULL ? at + 1 : NULL;
    }
    return at != NULL ? strtoull(at, NULL, 10) : 0;
}

/* Also of one that has ended, and that nobody has waited for. */
static bool mt_pid_exists(int32_t pid)
{
    return kill(pid, 0) == 0 || errno != ESRCH;
}

bool mt_shm_pid_ended(int32_t pid)
{
    char text[1024];
    const char *state = mt_stat_fields(pid, text, sizeof(text));
    return state != NULL ? *state == 'Z' || *state == 'X' : !mt_pid_exists(pid);
}

enum mt_status mt_shm_identity(struct mt_shm_identity *identity)
{
    struct stat namespace, network;
    memset(identity, 0, sizeof(*identity));
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return mt_failed_call(MT_ENODEVICE);
    }
    ssize_t n = read(fd, identity->boot_id, 36);
    close(fd);
    if (n != 36 || stat("/proc/self/ns/pid", &namespace) != 0 ||
        stat("/proc/self/ns/net", &network) != 0) {
        return mt_failed_call(MT_ENODEVICE);
    }
    identity->pid_namespace = namespace.st_ino;
    identity->net_namespace = network.st_ino;
    identity->pid = getpid();
    identity->pid_start = mt_start_time(identity->pid);
    identity->fd = -1;
    return identity->pid_start != 0 ? MT_OK : mt_failed_call(MT_ENODEVICE);
}

/* Address space for an arena, none of it open. No child has it, and no core dump. */
static struct mt_shm_root *mt_arena_map(int fd, uint64_t bytes)
{
    void *memory =
        mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (memory == MAP_FAILED) {
        return NULL;
    }
    madvise(memory, bytes, MADV_DONTFORK);
    madvise(memory, bytes, MADV_DONTDUMP);
    return memory;
}

/* Opens it for reading and writing up to an end, and on to that of the step. How far
 * it is open then; 0: the kernel refuses. */
static uint64_t mt_arena_open(struct mt_shm_root *root, uint64_t from,
                              uint64_t end, uint64_t bytes)
{
    end = (end + MT_ARENA_STEP - 1) / MT_ARENA_STEP * MT_ARENA_STEP;
    end = end < bytes ? end : bytes;
    return mprotect((char *)root + from, end - from, PROT_READ | PROT_WRITE) == 0
               ? end
               : 0;
}

enum mt_status mt_shm_arena_create(struct mt_shm_arena *arena)
{
    struct mt_shm_identity identity;
    memset(arena, 0, sizeof(*arena));
    arena->fd = -1;
    enum mt_status status = mt_shm_identity(&identity);
    if (status != MT_OK) {
        return status;
    }
    arena->bytes = mt_shm_arena_bytes();
    if (arena->bytes == 0) {
        return MT_EPERM;
    }
    if (getrandom(&identity.arena_id, sizeof(identity.arena_id), 0) !=
        sizeof(identity.arena_id)) {
        return MT_EIO;
    }
    arena->pages = calloc(mt_arena_pages(arena), sizeof(*arena->pages));
    arena->fd = memfd_create(mt_arena_name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (arena->pages == NULL || arena->fd < 0 ||
        ftruncate(arena->fd, (off_t)arena->bytes) != 0 ||
        fcntl(arena->fd, F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        mt_shm_arena_destroy(arena);
        return MT_ENOMEM;
    }
    arena->root = mt_arena_map(arena->fd, arena->bytes);
    if (arena->root == NULL ||
        mt_shm_arena_take(arena, sizeof(struct mt_shm_root)) == NULL) {
        mt_shm_arena_destroy(arena);
        return MT_ENOMEM;
    }
    identity.fd = arena->fd;
    identity.arena_bytes = arena->bytes;
    arena->root->identity = identity;
    arena->root->mapped_at = (uint64_t)(uintptr_t)arena->root;
    arena->root->magic = MT_SHM_MAGIC;
    return MT_OK;
}

void mt_shm_arena_destroy(struct mt_shm_arena *arena)
{
    if (arena->root != NULL) {
        munmap(arena->root, arena->bytes);
    }
    if (arena->fd >= 0) {
        close(arena->fd);
    }
    free(arena->pages);
    memset(arena, 0, sizeof(*arena));
    arena->fd = -1;
}

/* The first run of free pages, as many as there are if there is none. */
static uint64_t mt_arena_find(const struct mt_shm_arena *arena, uint64_t pages)
{
    uint64_t run = 0, all = mt_arena_pages(arena);
    for (uint64_t i = 0; i < all; i++) {
        run = arena->pages[i] == 0 ? run + 1 : 0;
        if (run == pages) {
            return i + 1 - pages;
        }
    }
    return all;
}

void *mt_shm_arena_take(struct mt_shm_arena *arena, uint64_t bytes)
{
    uint64_t pages = (bytes + MT_ARENA_PAGE - 1) / MT_ARENA_PAGE;
    uint64_t all = mt_arena_pages(arena);
    uint64_t first =
        pages > 0 && pages < all ? mt_arena_find(arena, pages) : all;
    uint64_t end = (first + pages) * MT_ARENA_PAGE, reached = arena->reached;
    if (first < all && end > reached) {
        reached = mt_arena_open(arena->root, 0, end, arena->bytes);
    }
    if (first == all || reached == 0) {
        return NULL;
    }
    arena->reached = reached;
    if (!mt_file_room(arena->fd, first * MT_ARENA_PAGE,
                      pages * MT_ARENA_PAGE)) {
        return NULL;
    }
    arena->pages[first] = (uint32_t)pages;
    for (uint64_t i = 1; i < pages; i++) {
        arena->pages[first + i] = UINT32_MAX;
    }
    return (char *)arena->root + first * MT_ARENA_PAGE;
}

void mt_shm_arena_give(struct mt_shm_arena *arena, void *memory)
{
    uint64_t first = mt_shm_offset(arena, memory) / MT_ARENA_PAGE;
    uint64_t pages = arena->pages[first];
    memset(&arena->pages[first], 0, pages * sizeof(*arena->pages));
    /* gives the memory back, and makes it zero for the next taker */
    fallocate(arena->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              (off_t)(first * MT_ARENA_PAGE), (off_t)(pages * MT_ARENA_PAGE));
}

/* ---- peers ---- */

static bool mt_same_machine(const struct mt_shm_identity *a,
                            const struct mt_shm_identity *b)
{
    return memcmp(a->boot_id, b->boot_id, sizeof(a->boot_id)) == 0 &&
           a->pid_namespace == b->pid_namespace &&
           a->net_namespace == b->net_namespace;
}

uint64_t mt_shm_peer_bytes(const struct mt_shm_identity *identity)
{
    char path[64];
    struct stat info;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", identity->pid, identity->fd);
    return stat(path, &info) == 0 && info.st_size > 0 &&
                   (uint64_t)info.st_size <= MT_ARENA_MOST
               ? (uint64_t)info.st_size
               : 0;
}

/* Whether the kernel lets this process read the memory of that one. */
static bool mt_peer_reads(const struct mt_shm_peer *peer)
{
    uint64_t magic = 0;
    struct iovec local = {&magic, sizeof(magic)};
    struct iovec remote = {(void *)(uintptr_t)peer->root->mapped_at,
                           sizeof(magic)};
    return process_vm_readv(peer->identity.pid, &local, 1, &remote, 1, 0) ==
               (ssize_t)sizeof(magic) &&
           magic == MT_SHM_MAGIC;
}

static enum mt_status mt_peer_map(struct mt_shm_peer *peer)
{
    char path[64];
    struct stat info;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", peer->identity.pid,
             peer->identity.fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return errno == EACCES || errno == EPERM ? MT_EPERM
                                                 : mt_failed_call(MT_EPEER);
    }
    int seals = fcntl(fd, F_GET_SEALS);
    bool sealed = seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
    if (!sealed || fstat(fd, &info) != 0 ||
        (uint64_t)info.st_size != peer->identity.arena_bytes ||
        peer->identity.arena_bytes < sizeof(struct mt_shm_root)) {
        close(fd);
        return MT_EPEER;
    }
    peer->root = mt_arena_map(fd, peer->identity.arena_bytes);
    close(fd);
    if (peer->root == NULL) {
        return MT_ENOMEM;
    }
    peer->reached = mt_arena_open(peer->root, MT_ARENA_READ_ONLY,
                                  sizeof(*peer->root),
                                  peer->identity.arena_bytes);
    enum mt_status status = MT_OK;
    if (peer->reached == 0 ||
        mprotect(peer->root, MT_ARENA_READ_ONLY, PROT_READ) != 0) {
        status = mt_failed_call(MT_EPEER);
    } else if (peer->root->magic != MT_SHM_MAGIC ||
               memcmp(&peer->root->identity, &peer->identity,
                      sizeof(peer->identity)) != 0) {
        status = MT_EPEER;
    }
    if (status != MT_OK) {
        munmap(peer->root, peer->identity.arena_bytes);
        peer->root = NULL;
    }
    return status;
}

/* Whether the process of that number is the one: another may have it by now. */
static enum mt_status mt_peer_is_it(const struct mt_shm_identity *identity)
{
    uint64_t start = mt_start_time(identity->pid);
    return start == identity->pid_start ? MT_OK
           : start != 0                 ? MT_EPEER
                                        : mt_failed_call(MT_EPEER);
}

enum mt_status mt_shm_peer_open(const struct mt_shm_identity *self,
                                const struct mt_shm_identity *identity,
                                struct mt_shm_peer *peer)
{
    memset(peer, 0, sizeof(*peer));
    peer->identity = *identity;
    peer->pidfd = -1;
    if (!mt_same_machine(self, identity)) {
        return MT_EPEER;
    }
    peer->pidfd = (int)syscall(SYS_pidfd_open, identity->pid, 0);
    if (peer->pidfd < 0 && mt_is_short()) {
        return MT_ENOMEM;
    }
    enum mt_status status = mt_peer_is_it(identity);
    if (status == MT_OK) {
        status = mt_peer_map(peer);
    }
    if (status != MT_OK) {
        mt_shm_peer_close(peer);
        return status;
    }
    peer->reads = mt_peer_reads(peer);
    return MT_OK;
}

void mt_shm_peer_close(struct mt_shm_peer *peer)
{
    if (peer->root != NULL) {
        munmap(peer->root, peer->identity.arena_bytes);
    }
    if (peer->pidfd >= 0) {
        close(peer->pidfd);
    }
    memset(peer, 0, sizeof(*peer));
    peer->pidfd = -1;
}

bool mt_shm_peer_died(struct mt_shm_peer *peer)
{
    struct pollfd fd = {.fd = peer->pidfd, .events = POLLIN};
    peer->dead = peer->dead || (peer->pidfd >= 0
                                    ? poll(&fd, 1, 0) == 1
                                    : !mt_pid_exists(peer->identity.pid));
    return peer->dead;
}

/* Whether the arena is still mapped where it was. */
static bool mt_peer_has_arena(const struct mt_shm_peer *peer)
{
    struct mt_shm_identity there;
    struct iovec local = {&there, sizeof(there)};
    struct iovec remote = {
        (char *)(uintptr_t)peer->root->mapped_at +
            offsetof(struct mt_shm_root, identity),
        sizeof(there)};
    ssize_t n =
        process_vm_readv(peer->identity.pid, &local, 1, &remote, 1, 0);
    return n < 0 ? errno != EFAULT && errno != ESRCH
                 : n == (ssize_t)sizeof(there) &&
                       memcmp(&there, &peer->identity, sizeof(there)) == 0;
}

/* Whether its descriptor is open: for systems that refuse the other way. */
static bool mt_peer_has_file(const struct mt_shm_peer *peer)
{
    char path[64], text[64];
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", peer->identity.pid,
             peer->identity.fd);
    ssize_t n = readlink(path, text, sizeof(text));
    return n < 0 ? errno != ENOENT
                 : n > (ssize_t)sizeof(mt_arena_name) &&
                       memmem(text, (size_t)n, mt_arena_name,
                              sizeof(mt_arena_name) - 1) != NULL;
}

bool mt_shm_peer_left(struct mt_shm_peer *peer)
{
    if (!mt_shm_peer_died(peer)) {
        peer->dead = peer->reads ? !mt_peer_has_arena(peer)
                                 : !mt_peer_has_file(peer);
    }
    return peer->dead;
}

void *mt_shm_reach(struct mt_shm_peer *peer, uint64_t offset, uint64_t bytes)
{
    uint64_t all = peer->identity.arena_bytes;
    if (offset < sizeof(*peer->root) || offset > all || bytes > all - offset) {
        return NULL;
    }
    uint64_t end =
        mt_arena_open(peer->root, MT_ARENA_READ_ONLY, offset + bytes, all);
    if (end == 0) {
        return NULL;
    }
    uint64_t reached = __atomic_load_n(&peer->reached, __ATOMIC_RELAXED);
    while (reached < end &&
           !__atomic_compare_exchange_n(&peer->reached, &reached, end, false,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
    return (char *)peer->root + offset;
}

/* The kernel finds the memory by the number of the process, which another one may
 * have by now, or another program: it is asked for again when the last answer is
 * older than a number can be given out anew. */
static bool mt_peer_is_another(struct mt_shm_peer *peer)
{
    enum { FRESH_NS = 10000000 };
    uint64_t now = mt_soft_now();
    if (now - peer->seen_ns < FRESH_NS) {
        return peer->dead;
    }
    peer->seen_ns = now;
    return mt_shm_peer_left(peer);
}

enum mt_status mt_shm_peer_copy(struct mt_shm_peer *peer, bool write,
                                const struct mt_fabric_piece *pieces,
                                uint32_t count, uint64_t skip, uint64_t remote,
                                uint64_t bytes)
{
    struct iovec local[MT_SOFT_PIECES];
    unsigned n = 0;
    uint64_t left = bytes;
    void *mapped = mt_shm_mapped(peer, remote, bytes);
    if (mapped != NULL) {
        write ? mt_soft_gather(pieces, count, skip, mapped, bytes)
              : mt_soft_scatter(pieces, count, skip, mapped, bytes);
        return MT_OK;
    }
    if (mt_peer_is_another(peer)) {
        return MT_EPEER;
    }
    for (uint32_t i = 0; i < count && left > 0; i++) {
        uint64_t from = skip < pieces[i].bytes ? skip : pieces[i].bytes;
        uint64_t take = pieces[i].bytes - from;
        skip -= from;
        take = take < left ? take : left;
        if (take > 0) {
            local[n].iov_base = (char *)pieces[i].address + from;
            local[n++].iov_len = take;
            left -= take;
        }
    }
    struct iovec there = {(void *)(uintptr_t)remote, bytes};
    ssize_t done =
        write ? process_vm_writev(peer->identity.pid, local, n, &there, 1, 0)
              : process_vm_readv(peer->identity.pid, local, n, &there, 1, 0);
    if (done == (ssize_t)bytes) {
        return MT_OK;
    }
    return done < 0 && errno == ESRCH ? MT_EPEER
           : done < 0 && errno == EPERM ? MT_EPERM
                                        : MT_EACCESS;
}
