/* comm.c: which communicators are ours. One is ours if it was made, by a call
 * that is collective over it, from one that is ours: MPI_COMM_WORLD and
 * MPI_COMM_SELF are the first. Its members agree on its id, and on whether all of
 * them can, by two reductions of the MPI library's on it. What is made in other
 * ways (intercommunicators, MPI_Comm_idup, spawned processes, sessions) stays
 * with the library, and so does whatever is made from that. */
#include <stdlib.h>

#include "act.h"
#include "figures.h"

static struct mt_act_comm *mt_dying; /* freed, but used by requests */
static uint32_t mt_next_id = 2;      /* both under mt_act.lock */
/* Those that this thread is freeing, which are in the table no more: one, and what a
 * callback of its attributes frees meanwhile. */
static __thread struct mt_act_comm *mt_freeing;

/* The process of each rank; NULL: no memory, or the library failed. */
static uint32_t *processes_of(MT_Comm handle, int32_t size)
{
    MT_Group group, world;
    uint32_t *processes = malloc(2 * (size_t)size * sizeof(*processes));
    if (processes == NULL ||
        MT_PMPI(Comm_group)(handle, &group) != MT_SUCCESS) {
        free(processes);
        return NULL;
    }
    int *ranks = (int *)processes + size;
    for (int i = 0; i < size; i++) {
        ranks[i] = i;
    }
    MT_PMPI(Comm_group)(MT_COMM_WORLD, &world);
    int rc = MT_PMPI(Group_translate_ranks)(group, size, ranks, world,
                                            (int *)processes);
    MT_PMPI(Group_free)(&world);
    MT_PMPI(Group_free)(&group);
    if (rc != MT_SUCCESS) {
        free(processes);
        return NULL;
    }
    return processes;
}

/* The rules that its name and size do not exclude. */
static void comm_named(struct mt_act_comm *comm)
{
    char name[512] = ""; /* more than MPI_MAX_OBJECT_NAME of either ABI */
    int length = 0;
    if (mt_act.rules.count == 0) {
        return;
    }
    MT_PMPI(Comm_get_name)(comm->handle, name, &length);
    uint32_t rules =
        mt_act_rules_of(&mt_act.rules, name, (uint64_t)comm->size);
    __atomic_store_n(&comm->rules, rules, __ATOMIC_RELAXED);
}

static int Comm_set_name(MT_Comm handle, const char *name)
{
    struct mt_act_comm *comm = mt_act_comm_find(handle);
    int rc = MT_PMPI(Comm_set_name)(handle, name);
    if (rc == MT_SUCCESS && comm != NULL) {
        comm_named(comm);
        mt_act_figures_name(comm->id, name);
    }
    return rc;
}

/* Not open yet. NULL: it cannot be ours. */
static struct mt_act_comm *comm_new(MT_Comm handle)
{
    struct mt_act_comm *comm = calloc(1, sizeof(*comm));
    int size = 0, rank = 0;
    if (comm == NULL ||
        MT_PMPI(Comm_size)(handle, &size) != MT_SUCCESS ||
        MT_PMPI(Comm_rank)(handle, &rank) != MT_SUCCESS) {
        free(comm);
        return NULL;
    }
    comm->handle = handle;
    comm->size = size;
    comm->rank = rank;
    comm->processes = processes_of(handle, size);
    if (comm->processes == NULL) {
        free(comm);
        return NULL;
    }
    comm_named(comm);
    return comm;
}

static void comm_close(struct mt_act_comm *comm)
{
    if (comm->context != NULL) {
        mt_engine_context_close(comm->context);
        comm->context = NULL;
    }
}

static void comm_delete(struct mt_act_comm *comm)
{
    comm_close(comm);
    if (comm->freed) {
        MT_PMPI(Errhandler_free)(&comm->handler);
    }
    free(comm->processes);
    free(comm);
}

/* What a handle means: NULL, nothing of ours. */
static bool comm_put(MT_Comm handle, struct mt_act_comm *comm)
{
    mt_act_lock();
    bool put = mt_act_table_put(&mt_act.comms, MT_U64(handle), comm);
    mt_act_unlock();
    return put;
}

static enum mt_status comm_open(struct mt_act_comm *comm, uint32_t id)
{
    enum mt_status status = mt_engine_context_open(
        mt_act.engine, id, (uint32_t)comm->rank, (uint32_t)comm->size,
        comm->processes, &comm->context);
    if (status != MT_OK) {
        return status;
    }
    comm->id = id;
    if (!comm_put(comm->handle, comm)) {
        comm_close(comm);
        return MT_ENOMEM;
    }
    return MT_OK;
}

enum mt_status mt_act_comm_own(MT_Comm handle, uint32_t id)
{
    struct mt_act_comm *comm = comm_new(handle);
    if (comm == NULL) {
        return MT_ENOMEM;
    }
    enum mt_status status = comm_open(comm, id);
    if (status != MT_OK) {
        comm_delete(comm);
    }
    return status;
}

static uint32_t id_propose(void)
{
    mt_act_lock();
    uint32_t id = mt_next_id++;
    mt_act_unlock();
    return id;
}

/* False: another communicator that is being made may have taken it. */
static bool id_claim(uint32_t proposed, uint32_t agreed)
{
    mt_act_lock();
    bool fresh = agreed >= mt_next_id;
    if (fresh) {
        mt_next_id = agreed + 1;
    }
    mt_act_unlock();
    return fresh || agreed == proposed;
}

enum mt_act_verdict { MT_ACT_AGREED, MT_ACT_AGAIN, MT_ACT_CANNOT };

/* The worst of all members. */
static enum mt_act_verdict agree(MT_Comm handle, enum mt_act_verdict mine,
                                 uint32_t *id)
{
    int64_t say[2] = {mine, *id}, all[2] = {MT_ACT_CANNOT, 0};
    MT_PMPI(Allreduce)(say, all, 2, MT_INT64, MT_MAX, handle);
    *id = (uint32_t)all[1];
    return (enum mt_act_verdict)all[0];
}

void mt_act_comm_adopt(MT_Comm parent, MT_Comm made)
{
    if (made == MT_COMM_NULL) {
        return;
    }
    if (mt_act_comm_find(parent) == NULL) {
        mt_act_comm_left(made, &mt_act.left.communicators_of_library);
        return;
    }
    struct mt_act_comm *comm = comm_new(made);
    enum mt_act_verdict verdict = MT_ACT_AGAIN;
    while (verdict == MT_ACT_AGAIN) {
        uint32_t mine = id_propose(), id = mine, same;
        verdict = agree(made, comm != NULL ? MT_ACT_AGREED : MT_ACT_CANNOT, &id);
        if (verdict != MT_ACT_AGREED) {
            break;
        }
        if (!id_claim(mine, id)) {
            verdict = MT_ACT_AGAIN;
        } else if (comm_open(comm, id) != MT_OK) {
            verdict = MT_ACT_CANNOT;
        }
        bool opened = verdict == MT_ACT_AGREED;
        same = id;
        verdict = agree(made, verdict, &same);
        if (opened && verdict != MT_ACT_AGREED) {
            comm_put(comm->handle, NULL);
            comm_close(comm);
        }
    }
    if (verdict != MT_ACT_AGREED) {
        mt_act_comm_left(made, &mt_act.left.communicators_without_memory);
        if (comm != NULL) {
            comm_delete(comm);
        }
    }
}

static bool is_held(const struct mt_act_comm *comm)
{
    return __atomic_load_n(&comm->held, __ATOMIC_ACQUIRE) != 0;
}

/* Other threads may be using it. A probe holds it until a message names it, and a
 * receive until a request does: so they are looked at in this order. */
static bool is_used(const struct mt_act_comm *comm)
{
    return is_held(comm) || mt_act_matched_uses(comm) ||
           mt_act_request_uses(comm, false) || mt_act_buffered_uses(comm) ||
           is_held(comm);
}

/* Deletes the freed ones that nothing uses any more. Until then their contexts
 * stay open: a persistent request may be started after its communicator was
 * freed (MPI 4.1, 7.4.3). */
static void bury(void)
{
    struct mt_act_comm *dead = NULL, *left = NULL;
    mt_act_lock();
    struct mt_act_comm *list = mt_dying;
    mt_dying = NULL;
    mt_act_unlock();
    while (list != NULL) {
        struct mt_act_comm *comm = list, **to;
        list = comm->next;
        to = is_used(comm) ? &left : &dead;
        comm->next = *to;
        *to = comm;
    }
    while (dead != NULL) {
        struct mt_act_comm *comm = dead;
        dead = comm->next;
        comm_delete(comm);
    }
    mt_act_lock();
    while (left != NULL) {
        struct mt_act_comm *comm = left;
        left = comm->next;
        comm->next = mt_dying;
        mt_dying = comm;
    }
    mt_act_unlock();
}

struct mt_act_comm *mt_act_comm_freeing(MT_Comm handle)
{
    struct mt_act_comm *comm = mt_freeing;
    while (comm != NULL && comm->handle != handle) {
        comm = comm->next;
    }
    return comm;
}

/* Before the library frees it, for it may give the handle to another one at once; and
 * back, where the library refuses. */
static void comm_freed(struct mt_act_comm *comm, bool freed)
{
    comm_put(comm->handle, freed ? NULL : comm);
    __atomic_store_n(&comm->freed, freed, __ATOMIC_RELEASE);
}

static int free_by(mt_fn_Comm_free *function, MT_Comm *handle,
                   struct mt_act_comm *comm)
{
    if (comm == NULL) {
        return function(handle);
    }
    MT_PMPI(Comm_get_errhandler)(*handle, &comm->handler);
    comm_freed(comm, true);
    comm->next = mt_freeing;
    mt_freeing = comm;
    int rc = function(handle);
    mt_freeing = comm->next;
    if (rc != MT_SUCCESS) {
        comm_freed(comm, false);
        MT_PMPI(Errhandler_free)(&comm->handler);
        return rc;
    }
    mt_act_lock();
    comm->next = mt_dying;
    mt_dying = comm;
    mt_act_unlock();
    bury();
    return rc;
}

static int Comm_free(MT_Comm *handle)
{
    return free_by(MT_PMPI(Comm_free), handle,
                   handle != NULL ? mt_act_comm_find(*handle) : NULL);
}

static int Comm_disconnect(MT_Comm *handle)
{
    struct mt_act_comm *comm =
        handle != NULL ? mt_act_comm_find(*handle) : NULL;
    struct mt_act_wait wait = {0};
    while (comm != NULL && mt_act_request_uses(comm, true)) {
        mt_act_turn(&wait);
    }
    mt_act_waited(&wait);
    return free_by(MT_PMPI(Comm_disconnect), handle, comm);
}

void mt_act_comm_end(void)
{
    const struct mt_act_slots *slots = mt_act.comms.slots;
    for (uint64_t i = 0; i < UINT64_C(1) << slots->bits; i++) {
        struct mt_act_comm *comm = slots->slot[i].value;
        if (slots->slot[i].key != UINT64_MAX && comm != NULL) {
            comm->next = mt_dying;
            mt_dying = comm;
        }
    }
    mt_act_table_free(&mt_act.comms);
    while (mt_dying != NULL) {
        struct mt_act_comm *comm = mt_dying;
        mt_dying = comm->next;
        comm_delete(comm);
    }
}

/* ---- the calls that make communicators ---- */

#define MT_MAKES(name, parameters, arguments)                                \
    static int name parameters                                               \
    {                                                                        \
        int rc = MT_PMPI(name) arguments;                                    \
        if (rc == MT_SUCCESS) {                                              \
            mt_act_comm_adopt(parent, *made);                                \
        }                                                                    \
        return rc;                                                           \
    }

MT_MAKES(Comm_dup, (MT_Comm parent, MT_Comm *made), (parent, made))
MT_MAKES(Comm_dup_with_info, (MT_Comm parent, MT_Info info, MT_Comm *made),
         (parent, info, made))
MT_MAKES(Comm_split, (MT_Comm parent, int color, int key, MT_Comm *made),
         (parent, color, key, made))
MT_MAKES(Comm_split_type,
         (MT_Comm parent, int type, int key, MT_Info info, MT_Comm *made),
         (parent, type, key, info, made))
MT_MAKES(Comm_create, (MT_Comm parent, MT_Group group, MT_Comm *made),
         (parent, group, made))
MT_MAKES(Comm_create_group,
         (MT_Comm parent, MT_Group group, int tag, MT_Comm *made),
         (parent, group, tag, made))
MT_MAKES(Cart_create,
         (MT_Comm parent, int n, const int *dims, const int *periods,
          int reorder, MT_Comm *made),
         (parent, n, dims, periods, reorder, made))
MT_MAKES(Cart_sub, (MT_Comm parent, const int *remain, MT_Comm *made),
         (parent, remain, made))
MT_MAKES(Graph_create,
         (MT_Comm parent, int n, const int *index, const int *edges,
          int reorder, MT_Comm *made),
         (parent, n, index, edges, reorder, made))
MT_MAKES(Dist_graph_create,
         (MT_Comm parent, int n, const int *sources, const int *degrees,
          const int *destinations, const int *weights, MT_Info info,
          int reorder, MT_Comm *made),
         (parent, n, sources, degrees, destinations, weights, info, reorder,
          made))
MT_MAKES(Dist_graph_create_adjacent,
         (MT_Comm parent, int in, const int *sources, const int *in_weights,
          int out, const int *destinations, const int *out_weights,
          MT_Info info, int reorder, MT_Comm *made),
         (parent, in, sources, in_weights, out, destinations, out_weights,
          info, reorder, made))

void mt_act_comm_functions(struct mt_act_functions *functions)
{
    MT_ACT_TAKE(functions, Comm_dup);
    MT_ACT_TAKE(functions, Comm_dup_with_info);
    MT_ACT_TAKE(functions, Comm_split);
    MT_ACT_TAKE(functions, Comm_split_type);
    MT_ACT_TAKE(functions, Comm_create);
    MT_ACT_TAKE(functions, Comm_create_group);
    MT_ACT_TAKE(functions, Cart_create);
    MT_ACT_TAKE(functions, Cart_sub);
    MT_ACT_TAKE(functions, Graph_create);
    MT_ACT_TAKE(functions, Dist_graph_create);
    MT_ACT_TAKE(functions, Dist_graph_create_adjacent);
    MT_ACT_TAKE(functions, Comm_set_name);
    MT_ACT_TAKE(functions, Comm_free);
    MT_ACT_TAKE(functions, Comm_disconnect);
}
