/* arena.h: the memory that a process of the shm provider shares with its peers:
 * one file in memory, without a name, that dies with its last user. Peers open
 * it by /proc/PID/fd and map it whole, once.
 *
 * Its size depends on the limits of its owner, and never changes (the file is
 * sealed). The pages with its owner's table of regions are read-only to peers,
 * so that a stray store of theirs cannot open memory to others. Every page that is
 * handed out was really allocated before: no access to it can fail, whatever a peer
 * does. And what lies far beyond all that was handed out, or looked at by a peer, can be
 * neither read nor written, so that mlockall makes no memory of it. */
#ifndef MPITRACE_FABRIC_SHM_ARENA_H
#define MPITRACE_FABRIC_SHM_ARENA_H

#include <sys/types.h>

#include "../provider.h"

enum {
    MT_SHM_REGIONS = 16384, /* registered regions of a process */
    MT_SHM_PEERS = 4096,    /* processes that a process knows */
};

/* Registered memory, as peers see it. rkey = index + 1 in the lower 14 bits and
 * a number that changes with each use of the entry above; 0: free. */
struct mt_shm_region {
    uint32_t rkey;   /* written last, with release order */
    uint32_t access; /* enum mt_fabric_access */
    uint64_t address;
    uint64_t bytes;
    uint64_t offset; /* in the arena, 0: elsewhere in the process */
};

/* Written by the owner once, before a peer can have its address. */
struct mt_shm_identity {
    char boot_id[40];
    uint64_t pid_namespace;
    uint64_t pid_start;
    uint64_t arena_bytes;
    uint64_t net_namespace; /* where its wake socket is */
    int32_t pid;
    int32_t fd;
    uint32_t arena_id; /* random: the number of a descriptor comes back */
    uint32_t reserved;
};

enum mt_shm_sleep {
    MT_SHM_AWAKE = 0,
    MT_SHM_ASLEEP = 1,           /* to be woken by anything */
    MT_SHM_ASLEEP_SOLICITED = 2, /* ... that is solicited */
};

/* MT_SHM_PAGE: of the arena's own, as pieces of it are given out. MT_SHM_PAGES: a
 * multiple of what the kernel's may be. */
enum {
    MT_SHM_PAGE = 4096,
#if defined(__x86_64__)
    MT_SHM_PAGES = 4096,
#else
    MT_SHM_PAGES = 65536,
#endif
};

/* The start of an arena. Peers map what stands before sleeping read-only. */
struct mt_shm_root {
    uint64_t magic; /* MT_SHM_MAGIC */
    struct mt_shm_identity identity;
    uint64_t mapped_at; /* where the owner has it */
    uint32_t barriers;  /* 1: the owner can make every processor pass one */
    uint32_t wake_bytes;
    char wake[28]; /* address of the socket that wakes the owner */
    /* Odd while the owner reads or writes memory of peers, and of which region if
     * that is not in an arena: mt_shm_touch, mt_shm_name. */
    uint64_t touching __attribute__((aligned(64)));
    struct mt_shm_region regions[MT_SHM_REGIONS] __attribute__((aligned(64)));
    /* enum mt_shm_sleep: who gives the owner work while it may sleep wakes it.
     * The owner sets it and then makes every processor pass a barrier
     * (membarrier), so that senders need none. */
    uint32_t sleeping __attribute__((aligned(MT_SHM_PAGES)));
};

_Static_assert(offsetof(struct mt_shm_root, sleeping) % MT_SHM_PAGES == 0 &&
                   sizeof(struct mt_shm_root) % MT_SHM_PAGES == 0,
               "what is read-only ends with a page of the kernel's");

#define MT_SHM_MAGIC UINT64_C(0x32304d48534d544d) /* "MTMSHM02" */

struct mt_shm_arena {
    struct mt_shm_root *root;
    uint64_t bytes;
    uint64_t reached; /* what of it can be read and written: all handed out so far */
    int fd;
    /* first fit, in units of 4 KiB: 0 free, else the length of what begins here,
     * and UINT32_MAX inside it */
    uint32_t *pages;
};

/* What a process shares under its limits; 0: no file may be as large as the least. */
uint64_t mt_shm_arena_bytes(void);
enum mt_status mt_shm_arena_create(struct mt_shm_arena *arena);
void mt_shm_arena_destroy(struct mt_shm_arena *arena);

/* Zeroed memory of it, page-aligned; NULL: full, or the system has no more. */
void *mt_shm_arena_take(struct mt_shm_arena *arena, uint64_t bytes);
void mt_shm_arena_give(struct mt_shm_arena *arena, void *memory);

MT_INLINE uint64_t mt_shm_offset(const struct mt_shm_arena *arena,
                                 const void *memory)
{
    return (uint64_t)((const char *)memory - (const char *)arena->root);
}

/* Whether no process of that number runs any more, as far as it is known: without
 * pidfd_open. */
bool mt_shm_pid_ended(int32_t pid);

/* Who the process is; the same for all its arenas but fd. */
enum mt_status mt_shm_identity(struct mt_shm_identity *identity_p);

/* The arena of another process, mapped. */
struct mt_shm_peer {
    struct mt_shm_root *root;
    struct mt_shm_identity identity;
    int pidfd;  /* readable once it is dead; -1: of this process, or there is none (before
                 * Linux 5.3, in some sandboxes): then that is asked now and then */
    bool dead;
    bool mourned; /* its queue pairs know */
    bool reads; /* process_vm_readv and writev work */
    bool light; /* both sides have barriers: mt_shm_touch needs none */
    uint32_t users;
    uint64_t seen_ns; /* when it was last known to be there, for copies */
    /* what of it can be read and written: all looked at so far; grows */
    uint64_t reached;
};

/* What a process shares, as its file tells; 0: nothing, or more than any does. */
uint64_t mt_shm_peer_bytes(const struct mt_shm_identity *identity);
/* MT_EPEER: it is gone, or not of this machine; MT_EPERM: not allowed;
 * MT_ENOMEM: there is no descriptor or address space for it, by now. */
enum mt_status mt_shm_peer_open(const struct mt_shm_identity *self,
                                const struct mt_shm_identity *identity,
                                struct mt_shm_peer *peer_p);
void mt_shm_peer_close(struct mt_shm_peer *peer);
/* Asks the kernel whether the process has ended. */
bool mt_shm_peer_died(struct mt_shm_peer *peer);
/* ... or has it another program, without its arena: dearer. */
bool mt_shm_peer_left(struct mt_shm_peer *peer);

/* As mt_shm_at, of a place beyond what was reached so far: by a system call. */
void *mt_shm_reach(struct mt_shm_peer *peer, uint64_t offset, uint64_t bytes);

/* A place in the arena of a peer, behind its root; NULL: beyond its end. */
MT_INLINE void *mt_shm_at(struct mt_shm_peer *peer, uint64_t offset,
                          uint64_t bytes)
{
    /* pairs with mt_shm_reach */
    uint64_t reached = __atomic_load_n(&peer->reached, __ATOMIC_ACQUIRE);
    if (offset < sizeof(struct mt_shm_root) || offset > reached ||
        bytes > reached - offset) {
        return mt_shm_reach(peer, offset, bytes);
    }
    return (char *)peer->root + offset;
}

/* An address of the peer as this process has it mapped; NULL: it is not in the
 * peer's arena. */
MT_INLINE void *mt_shm_mapped(struct mt_shm_peer *peer, uint64_t address,
                              uint64_t bytes)
{
    /* an address below the arena becomes one beyond its end */
    return mt_shm_at(peer, address - peer->root->mapped_at, bytes);
}

/* Copies to or from any memory of the peer: by plain stores and loads where it
 * is in the peer's arena, else with one system call. MT_EACCESS: it is not
 * there. */
enum mt_status mt_shm_peer_copy(struct mt_shm_peer *peer, bool write,
                                const struct mt_fabric_piece *local,
                                uint32_t local_count, uint64_t local_skip,
                                uint64_t remote, uint64_t bytes);

#endif
