/* start.c: the beginning and the end: what all ranks must have, the engine, the
 * two communicators that exist already; and what MPI_Finalize ends.
 *
 * Everything here is called by all ranks of MPI_COMM_WORLD, and what one of them
 * cannot do ends it on all. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "act.h"
#include "cache.h"
#include "device.h"
#include "ledger.h"

struct mt_act mt_act;

#if MT_ABI_OPENMPI
struct mt_openmpi_handles mt_openmpi_handles;

/* The program's own copy, where the linker made one, is what the library uses
 * too. */
static void find_handles(void)
{
#define MT_FIND(name, text)                                                  \
    mt_openmpi_handles.name = dlsym(RTLD_DEFAULT, text);                     \
    if (mt_openmpi_handles.name == NULL) {                                   \
        mt_openmpi_handles.name = mt_act.host->symbol(text);                 \
    }
    MT_OPENMPI_HANDLES(MT_FIND)
#undef MT_FIND
}
#else
static void find_handles(void)
{
}
#endif

enum {
    MT_ACT_MASK = 16,
    MT_ACT_FLUSH_S = 10,
    MT_ACT_PART_S = 2,
    MT_ACT_PART_NAP_NS = 20000,
    MT_ACT_PART_ROUNDS = 32,
    MT_ACT_PART_TAG = 0x7fffff00, /* the program has no receives any more */
};

/* What each rank tells all others at the beginning. */
struct mt_act_facts {
    uint64_t machine;
    uint64_t processors[MT_ACT_MASK]; /* that it may run on */
    uint32_t reach;
    uint32_t threads;
    struct mt_act_networks networks;
};

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++) {
        hash = mt_hash(hash ^ (unsigned char)*text) + 1;
    }
    return hash;
}

/* Equal on the ranks that share memory: one kernel, one host name. */
static uint64_t machine_of(void)
{
    char text[256] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = read(fd, text, sizeof(text) - 1);
        text[n > 0 ? n : 0] = '\0';
        close(fd);
    }
    uint64_t hash = hash_text(1, text);
    text[0] = '\0';
    gethostname(text, sizeof(text) - 1);
    return hash_text(hash, text);
}

static void facts_of(struct mt_act_facts *facts, struct mt_act_devices *devices)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof(set), &set);
    *facts = (struct mt_act_facts){.machine = machine_of(),
                                   .threads = mt_act.host->threads};
    for (int i = 0; i < 64 * MT_ACT_MASK; i++) {
        uint64_t bit = CPU_ISSET(i, &set) ? UINT64_C(1) << (i % 64) : 0;
        facts->processors[i / 64] |= bit;
    }
    mt_act_devices_find(devices);
    facts->reach = devices->reach;
    facts->networks = devices->networks;
}

/* Which of the processes are on this machine, if a rule asks. Without memory none
 * is known to be. */
static void nodes_of(const struct mt_act_facts *all,
                     const struct mt_act_facts *mine)
{
    uint32_t ranks = mt_act.host->world_size;
    mt_act.nodes = mt_act.rules.count > 0 ? malloc(ranks) : NULL;
    for (uint32_t r = 0; mt_act.nodes != NULL && r < ranks; r++) {
        mt_act.nodes[r] = all[r].machine == mine->machine ? MT_ACT_SAME_NODE
                                                          : MT_ACT_OTHER_NODE;
    }
}

/* What the facts of all mean for this rank; devices: and its node's devices;
 * *reach_p: by what all have; *processors_p: on how many the ranks of its machine
 * may run. False: all are on one machine. */
static bool facts_judge(const struct mt_act_facts *all,
                        const struct mt_act_facts *mine,
                        struct mt_act_devices *devices, uint32_t *reach_p,
                        uint32_t *processors_p)
{
    uint64_t processors[MT_ACT_MASK] = {0};
    uint32_t here = 0, ranks = mt_act.host->world_size;
    for (uint32_t r = 0; r < ranks; r++) {
        mt_act.threads = mt_act.threads || all[r].threads != 0;
        *reach_p &= all[r].reach;
        if (all[r].machine == mine->machine) {
            here++;
            for (int i = 0; i < MT_ACT_MASK; i++) {
                processors[i] |= all[r].processors[i];
            }
        } else {
            mt_act_devices_meet(devices, &all[r].networks);
        }
    }
    *processors_p = 0;
    for (int i = 0; i < MT_ACT_MASK; i++) {
        *processors_p += (uint32_t)__builtin_popcountll(processors[i]);
    }
    mt_act.local_ranks = here;
    return here < ranks;
}

static enum mt_status exchange(void *user, const void *mine, size_t bytes,
                               void *all)
{
    (void)user;
    if (all == NULL) { /* the others wait for this rank */
        mt_act.host->say(MT_ACT_LAST, "no memory to begin act mode: the job is stopped");
        MT_PMPI(Abort)(MT_COMM_WORLD, MT_ERR_NO_MEM);
        return MT_ENOMEM;
    }
    return MT_PMPI(Allgather)(mine, (int)bytes, MT_BYTE, all, (int)bytes,
                              MT_BYTE, mt_act.world) == MT_SUCCESS
               ? MT_OK
               : MT_EIO;
}

static enum mt_status deal(void *user, const void *mine, size_t bytes, void *all)
{
    (void)user;
    return MT_PMPI(Alltoall)(mine, (int)bytes, MT_BYTE, all, (int)bytes,
                             MT_BYTE, mt_act.world) == MT_SUCCESS
               ? MT_OK
               : MT_EIO;
}

/* Before it runs, lines are kept: they are why it does not, if it does not. */
static void say(void *user, const char *text)
{
    char *reason = mt_act.host->reason;
    size_t used = strlen(reason);
    (void)user;
    if (mt_act.engine != NULL) {
        mt_act.host->say(MT_ACT_ANY_RANK, text);
    } else {
        snprintf(reason + used, MT_ACT_REASON - used, "%s%s",
                 used > 0 ? "; " : "", text);
    }
}

/* Whether processors of the machine do the device's work, and memory is not pinned. */
static bool is_soft(const char *device)
{
    return strcmp(device, "shm") == 0 || strncmp(device, "iwarp:", 6) == 0;
}

/* Whether a thread of the registration service comes to the fabric, too: all
 * else comes with the engine's lock. */
static bool registers_aside(const struct mt_act_policy *policy,
                            const char *device)
{
    return policy->cache == MT_ACT_CACHE_ON ||
           (policy->cache == MT_ACT_CACHE_AUTO && !is_soft(device));
}

/* How many processors a rank wants for itself. */
static uint32_t processors_each(const struct mt_act_policy *policy,
                                const char *device)
{
    return policy->engine == MT_FABRIC_ENGINE_THREAD && is_soft(device) ? 2 : 1;
}

/* The device that the policy names, or else shared memory on one machine, and what
 * reaches furthest between several; and what the rules say of its messages. */
static enum mt_status choose_device(struct mt_act_policy *policy,
                                    char device_p[MT_FABRIC_NAME_BYTES])
{
    struct mt_act_facts mine;
    struct mt_act_devices devices;
    uint32_t reach = MT_ACT_IWARP | MT_ACT_VERBS, processors = 0;
    struct mt_act_facts *all = calloc(mt_act.host->world_size, sizeof(*all));
    facts_of(&mine, &devices);
    enum mt_status status = exchange(NULL, &mine, sizeof(mine), all);
    if (status != MT_OK) {
        free(all);
        return status;
    }
    bool several = facts_judge(all, &mine, &devices, &reach, &processors);
    const char *best =
        several ? mt_act_devices_best(&devices, reach) : "shm";
    if (policy->devices != NULL) {
        mt_act_device_named(policy->devices, policy->devices_bytes, device_p);
    } else if (best == NULL) { /* nor do the others have any */
        say(NULL, "no device reaches all ranks: mpitrace fabric list, on each "
                  "node, shows what there is");
        status = MT_ENODEVICE;
    } else {
        snprintf(device_p, MT_FABRIC_NAME_BYTES, "%s", best);
    }
    if (status == MT_OK) {
        mt_act.crowded =
            mt_act.local_ranks * processors_each(policy, device_p) > processors;
        mt_act_rules_read(&mt_act.rules, mt_act.host->policy,
                          mt_act_policy_eager(policy, device_p),
                          &policy->terms);
        nodes_of(all, &mine);
    }
    free(all);
    return status;
}

static enum mt_status open_engine(struct mt_act_policy *policy)
{
    char device[MT_FABRIC_NAME_BYTES];
    enum mt_status status = choose_device(policy, device);
    if (status != MT_OK) {
        return status;
    }
    mt_act.verify_stops = policy->verify_stops;
    struct mt_engine_options options = {
        .device = device,
        .fabric = {.engine = policy->engine, .engine_cpu = -1,
                   .threads = registers_aside(policy, device),
                   .faults = mt_act.host->faults, .say = say},
        .wireup = {.rank = mt_act.host->world_rank,
                   .size = mt_act.host->world_size, .exchange = exchange,
                   .deal = deal},
        .terms = policy->terms,
        .ring_bytes = policy->ring_bytes,
        .speculation = policy->speculation,
        .datagrams = {.first = policy->datagrams_first,
                      .connections = policy->connections,
                      .after = policy->connect_after},
        .rtr_usage = policy->rtr_usage,
        .rtr_sample = policy->rtr_sample,
        .verify_every = policy->verify_every,
        .ended = &mt_act.ended,
        .alone = !mt_act.host->threads,
        .thread = true,
        .watch = mt_act_figures_watch,
        .say = say};
    return mt_engine_open(&options, &mt_act.engine);
}

/* A duplicate by MPI_Comm_create_group, which agrees by messages with a tag of their
 * own. MPI_Comm_dup of Open MPI takes tags that nonblocking collectives of the
 * original would have had, and those meet other tags of its own: -50 and -51 in
 * MPI_Dist_graph_create (4.1.4), which then waits forever. So the program's
 * communicators have the tags that they would have without us. */
static bool duplicate(MT_Comm original, MT_Comm *made)
{
    MT_Group group;
    if (MT_PMPI(Comm_group)(original, &group) != MT_SUCCESS) {
        return false;
    }
    int rc = MT_PMPI(Comm_create_group)(original, group, 1, made);
    MT_PMPI(Group_free)(&group);
    return rc == MT_SUCCESS;
}

/* Whether the library says of a null request among several that it had no error, or
 * leaves the place as it was: Open MPI says so, MPICH 4.2 too, and 4.0 does not. */
static bool clears_errors(void)
{
    MT_Request none = MT_REQUEST_NULL;
    MT_Status status;
    status.error = MT_ERR_OTHER;
    return MT_PMPI(Waitall)(1, &none, &status) == MT_SUCCESS &&
           status.error == MT_SUCCESS;
}

/* Private communicators, whose errors are ours to see, and the receive by which
 * the library is driven. */
static bool open_private(void)
{
    int *limit = NULL, found = 0;
    if (!duplicate(MT_COMM_WORLD, &mt_act.world) ||
        !duplicate(MT_COMM_SELF, &mt_act.self)) {
        return false;
    }
    MT_PMPI(Comm_set_errhandler)(mt_act.world, MT_ERRORS_RETURN);
    MT_PMPI(Comm_set_errhandler)(mt_act.self, MT_ERRORS_RETURN);
    MT_PMPI(Comm_get_attr)(MT_COMM_WORLD, MT_TAG_UB, &limit, &found);
    mt_act.tag_limit = found != 0 ? *limit : 32767;
    mt_act.clears_errors = clears_errors();
    return MT_PMPI(Irecv)(NULL, 0, MT_BYTE, (int)mt_act.host->world_rank, 1,
                          mt_act.world, &mt_act.never) == MT_SUCCESS;
}

static void close_private(void)
{
    if (mt_act.never != MT_REQUEST_NULL) {
        MT_PMPI(Cancel)(&mt_act.never);
        MT_PMPI(Wait)(&mt_act.never, MT_STATUS_IGNORE);
    }
    MT_PMPI(Comm_free)(&mt_act.world);
    MT_PMPI(Comm_free)(&mt_act.self);
}

static void child(void)
{
    if (mt_act.engine != NULL) {
        mt_engine_forget(mt_act.engine);
        mt_act.engine = NULL;
    }
}

static void list_functions(struct mt_act_functions *functions)
{
    mt_act_comm_functions(functions);
    mt_act_type_functions(functions);
    mt_act_send_functions(functions);
    mt_act_receive_functions(functions);
    mt_act_both_functions(functions);
    mt_act_nonblocking_functions(functions);
    mt_act_persistent_functions(functions);
    mt_act_probe_functions(functions);
    mt_act_wait_functions(functions);
    mt_act_array_functions(functions);
    mt_act_buffered_functions(functions);
    mt_act_left_functions(functions);
}

/* ---- the end ---- */

/* All ranks are here; both engines go on meanwhile. */
static void meet(void (*turn)(struct mt_act_wait *wait))
{
    MT_Request request;
    struct mt_act_wait wait = {0};
    int done = 0;
    if (MT_PMPI(Ibarrier)(mt_act.world, &request) != MT_SUCCESS) {
        return;
    }
    while (done == 0 && MT_PMPI(Test)(&request, &done, MT_STATUS_IGNORE) ==
                            MT_SUCCESS) {
        turn(&wait);
    }
    mt_act_waited(&wait);
}

static int64_t now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec;
}

static uint32_t discarded; /* messages whose senders waited */

/* Between ranks that have all come here: a message that nobody has received until
 * now is received by nobody. */
static void last_turn(struct mt_act_wait *wait)
{
    mt_act_turn(wait);
    discarded += mt_engine_discard(mt_act.engine);
}

/* What is under way ends soon. Returns how much did not in time. */
static uint32_t flush(void)
{
    struct mt_act_wait wait = {0};
    int64_t end = now_s() + MT_ACT_FLUSH_S;
    while (mt_engine_obligations(mt_act.engine) != 0 && now_s() <= end) {
        last_turn(&wait);
    }
    mt_act_waited(&wait);
    mt_act_requests_sweep();
    mt_act_buffered_sweep();
    return mt_engine_obligations(mt_act.engine);
}

/* All ranks go on from here, the library of none of them having done anything since the
 * first one came. MPI_Finalize of MPICH over UCX (before 4.2) waits until each peer has
 * acknowledged what it sent, and then without progress for all others. A rank that still
 * waits in a call of ours would acknowledge it, and then send something itself that nobody
 * acknowledges any more. By our messages therefore, and not for long: a dissemination
 * barrier (Hensgen, Finkel and Manber, 1988). */
static void part(void)
{
    static struct mt_engine_request out[MT_ACT_PART_ROUNDS]; /* those that are left .. */
    static struct mt_engine_request in[MT_ACT_PART_ROUNDS];  /* .. outlive this call */
    const struct timespec nap = {.tv_nsec = MT_ACT_PART_NAP_NS};
    const struct mt_buffer nothing = {.address = NULL};
    struct mt_act_comm *world = mt_act_comm_find(MT_COMM_WORLD);
    int64_t end = now_s() + MT_ACT_PART_S;
    int64_t size = world->size, rank = world->rank;
    for (int32_t i = 0; INT64_C(1) << i < size; i++) {
        int64_t far = INT64_C(1) << i;
        if (mt_engine_receive(world->context, &in[i],
                              (int32_t)((rank + size - far) % size),
                              MT_ACT_PART_TAG + i, &nothing) != MT_OK ||
            mt_engine_send(world->context, &out[i],
                           (int32_t)((rank + far) % size), MT_ACT_PART_TAG + i,
                           MT_ENGINE_STANDARD, &nothing) != MT_OK) {
            return;
        }
        mt_engine_look(mt_act.engine);
        while (!mt_engine_done(&in[i]) ||
               mt_engine_obligations(mt_act.engine) != 0) {
            if (now_s() > end) {
                return;
            }
            if (!mt_engine_progress(mt_act.engine)) {
                nanosleep(&nap, NULL); /* who is to come may want the processor */
            }
        }
    }
}

static void say_left(uint32_t left)
{
    char text[160];
    if (left > 0) {
        snprintf(text, sizeof(text),
                 "rank %u: MPI_Finalize gave up after %d seconds with %u "
                 "obligations to other ranks left",
                 mt_act.host->world_rank, MT_ACT_FLUSH_S, left);
        mt_act.host->say(MT_ACT_ANY_RANK, text);
    }
    if (discarded > 0) {
        snprintf(text, sizeof(text),
                 "rank %u: MPI_Finalize dropped %u messages that were sent to "
                 "this rank and that it did not receive",
                 mt_act.host->world_rank, discarded);
        mt_act.host->say(MT_ACT_ANY_RANK, text);
    }
}

static void end(void)
{
    meet(mt_act_turn);
    mt_act_requests_cancel();
    uint32_t left = flush();
    meet(last_turn);
    left = left > 0 ? left : flush(); /* of answers to what came last */
    meet(mt_act_turn);
    say_left(left);
    mt_act_probe_end();
    mt_act_requests_end();
    mt_act_ledger_write(mt_act.host, mt_act_figures_close(mt_act.engine),
                        mt_act.engine);
    close_private();
    if (MT_ABI_MPICH && left == 0) {
        part();
    }
    mt_act_comm_end();
    if (left == 0) {
        mt_act_cache_close(mt_act.engine);
        mt_engine_close(mt_act.engine);
    }
    mt_act.engine = NULL;
}

/* MPI_Finalize first deletes the attributes of MPI_COMM_SELF, last in, first
 * out, and what the application has set there may still communicate (MPI 4.1,
 * 11.2.4). Ours was set before MPI_Init returned, so it is the last to go. */
static int end_copy(MT_Comm comm, int keyval, void *state, void *value,
                    void *copy, int *copied)
{
    (void)comm, (void)keyval, (void)state, (void)value, (void)copy;
    *copied = 0;
    return MT_SUCCESS;
}

static int end_delete(MT_Comm comm, int keyval, void *value, void *state)
{
    (void)comm, (void)keyval, (void)value, (void)state;
    if (mt_act.engine != NULL) {
        end();
    }
    return MT_SUCCESS;
}

static enum mt_status end_arm(void)
{
    int keyval;
    return MT_PMPI(Comm_create_keyval)((void *)end_copy, (void *)end_delete,
                                       &keyval, NULL) == MT_SUCCESS &&
                   MT_PMPI(Comm_set_attr)(MT_COMM_SELF, keyval, NULL) ==
                       MT_SUCCESS &&
                   MT_PMPI(Comm_free_keyval)(&keyval) == MT_SUCCESS
               ? MT_OK
               : MT_EIO;
}

/* ---- the beginning of all ---- */

/* What of the MPI library act mode cannot do with; NULL: nothing. */
static const char *strange(void)
{
    return mt_act.native[MPITRACE_CALL_Mprobe] != NULL &&
                   mt_act.native[MPITRACE_CALL_Comm_create_group] != NULL &&
                   mt_act.native[MPITRACE_CALL_Ibarrier] != NULL
               ? NULL
               : "the MPI library lacks functions of MPI 3.0";
}

/* Whether messages may leave straight from the application's memory, and if they
 * were to and may not, why. */
static void reuse_begin(bool wanted)
{
    const char *why = mt_engine_reuse_off(mt_act.engine);
    mt_act.reuses = why == NULL;
    if (why != NULL && wanted) {
        char line[256];
        snprintf(line, sizeof(line), "eager=reuse: short messages are copied: %s",
                 why);
        mt_act.host->say(MT_ACT_RANK_0, line);
    }
}

/* The worst of all ranks. Why it is so all have from the first of those that know
 * it. */
static enum mt_status agree(enum mt_status mine)
{
    char *reason = mt_act.host->reason, words[MT_ACT_REASON];
    int64_t ranks = mt_act.host->world_size, rank = mt_act.host->world_rank;
    int64_t known = mine != MT_OK && reason[0] != '\0';
    int64_t my_turn = (2 * mine + known) * ranks + ranks - 1 - rank, turn = 0;
    if (MT_PMPI(Allreduce)(&my_turn, &turn, 1, MT_INT64, MT_MAX,
                           mt_act.world) != MT_SUCCESS) {
        return MT_EIO;
    }
    enum mt_status worst = (enum mt_status)(turn / ranks / 2);
    if (worst == MT_OK) {
        return MT_OK;
    }
    memcpy(words, reason, sizeof(words));
    rank = ranks - 1 - turn % ranks;
    MT_PMPI(Bcast)(words, MT_ACT_REASON, MT_BYTE, (int)rank, mt_act.world);
    if (turn / ranks % 2 != 0) {
        snprintf(reason, MT_ACT_REASON, "rank %d: %s", (int)rank, words);
    } else {
        snprintf(reason, MT_ACT_REASON, "%s", mt_status_text(worst));
    }
    return worst;
}

enum mt_status MT_NAME(act_start)(const struct mt_act_host *host,
                                  struct mt_act_functions *functions_p);

enum mt_status MT_NAME(act_start)(const struct mt_act_host *host,
                                  struct mt_act_functions *functions_p)
{
    mt_act.host = host;
    mt_act.native = host->native;
    find_handles();
    const char *why = strange();
    if (why != NULL) {
        say(NULL, why);
        return MT_ENOTSUP;
    }
    if (!open_private()) {
        say(NULL, "MPI_Comm_create_group failed");
        return MT_EIO;
    }
    struct mt_act_policy policy;
    mt_act_policy_read(host->policy, &policy);
    enum mt_status status = open_engine(&policy);
    status = status != MT_OK ? status : mt_act_comm_own(MT_COMM_WORLD, 0);
    status = status != MT_OK ? status : mt_act_comm_own(MT_COMM_SELF, 1);
    status = status != MT_OK ? status : end_arm();
    status = agree(status); /* a rank may have failed alone */
    if (status != MT_OK) {
        if (mt_act.engine != NULL) {
            mt_act_comm_end();
            mt_engine_close(mt_act.engine);
            mt_act.engine = NULL;
        }
        close_private();
        return status;
    }
    if (host->reason[0] != '\0') { /* it was none */
        host->say(MT_ACT_ANY_RANK, host->reason);
    }
    mt_act_cache_open(host, &policy, mt_act.local_ranks, mt_act.engine);
    mt_act_figures_open(&host->live, &mt_act.left);
    reuse_begin(policy.terms.reuse == MT_ENGINE_REUSES);
    pthread_atfork(NULL, NULL, child);
    list_functions(functions_p);
    return MT_OK;
}
