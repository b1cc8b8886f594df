/* handles.c: asks the MPI library about its communicators and datatypes, by
 * local calls only: nothing here communicates. Compiled once per ABI. */
#include "handles.h"

#include <string.h>
#include <sys/mman.h>

static MT_Group mt_world_group;
static bool mt_world_group_held;
static MT_Session mt_world_session; /* that the group came from, if any */

static bool mt_describe_comm(uint64_t handle, struct mt_comm *comm_p);
static bool mt_describe_type(uint64_t handle, struct mt_type_facts *facts_p);

static MT_Comm mt_comm_of(uint64_t handle)
{
    return (MT_Comm)(uintptr_t)handle;
}

/* World ranks of a group's members, in order, into ranks[n]. */
static bool mt_translate(MT_Group group, int n, int32_t *own, int32_t *ranks)
{
    for (int i = 0; i < n; i++) {
        own[i] = i;
    }
    return MT_PMPI(Group_translate_ranks, MT_Group, int, const int *, MT_Group,
                   int *)(group, n, own, mt_world_group, ranks) == MT_SUCCESS;
}

/* Fills the map and the hash of a group's world ranks. Members outside
 * MPI_COMM_WORLD make the communicator not comparable. */
static void mt_describe_group(MT_Group group, int n, struct mt_comm *comm_p,
                              bool map)
{
    size_t bytes = 2 * (size_t)n * sizeof(int32_t);
    int32_t *own = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED) {
        return;
    }
    int32_t *ranks = own + n;
    if (mt_world_group_held && mt_translate(group, n, own, ranks)) {
        bool identity = true, foreign = false;
        for (int i = 0; i < n; i++) {
            if (ranks[i] == MT_UNDEFINED) {
                ranks[i] = MPITRACE_PEER_FOREIGN;
                foreign = true;
            }
            identity = identity && ranks[i] == i;
        }
        uint64_t hash = mt_registry_group_hash(ranks, n);
        comm_p->group += hash; /* a sum: both sides of an intercommunicator */
        comm_p->comparable = comm_p->comparable != 0 && !foreign;
        if (map) {
            comm_p->identity = identity;
            comm_p->world =
                identity ? NULL : mt_registry_map(hash, n, ranks);
        }
    }
    munmap(own, bytes);
}

static bool mt_describe_comm(uint64_t handle, struct mt_comm *comm_p)
{
    MT_Comm comm = mt_comm_of(handle);
    int size = 0, rank = 0, inter = 0, remote = 0;
    MT_Group group;
    if (MT_PMPI(Comm_size, MT_Comm, int *)(comm, &size) != MT_SUCCESS ||
        MT_PMPI(Comm_rank, MT_Comm, int *)(comm, &rank) != MT_SUCCESS ||
        MT_PMPI(Comm_test_inter, MT_Comm, int *)(comm, &inter) != MT_SUCCESS) {
        return false;
    }
    *comm_p = (struct mt_comm){.handle = handle, .size = size, .rank = rank,
                               .peers = size, .inter = inter != 0,
                               .neighbours = -1, .comparable = 1};
    if (MT_PMPI(Comm_group, MT_Comm, MT_Group *)(comm, &group) == MT_SUCCESS) {
        mt_describe_group(group, size, comm_p, inter == 0);
        MT_PMPI(Group_free, MT_Group *)(&group);
    }
    if (inter != 0 &&
        MT_PMPI(Comm_remote_size, MT_Comm, int *)(comm, &remote) == MT_SUCCESS &&
        MT_PMPI(Comm_remote_group, MT_Comm, MT_Group *)(comm, &group) ==
            MT_SUCCESS) {
        comm_p->peers = remote;
        mt_describe_group(group, remote, comm_p, true);
        MT_PMPI(Group_free, MT_Group *)(&group);
    }
    return true;
}

/* The name and size; both may be asked of any valid datatype. */
static bool mt_describe_type(uint64_t handle, struct mt_type_facts *facts_p)
{
    MT_Datatype type = (MT_Datatype)(uintptr_t)handle;
    char name[256] = "";
    int length = 0, small = 0;
    if (type == MT_DATATYPE_NULL) {
        return false; /* legal where MPI ignores the argument */
    }
    if (MT_HAS(Type_size_x)) {
        MT_Count size = 0;
        if (MT_PMPI(Type_size_x, MT_Datatype, MT_Count *)(type, &size) !=
            MT_SUCCESS) {
            return false;
        }
        facts_p->size = size;
    } else if (MT_PMPI(Type_size, MT_Datatype, int *)(type, &small) ==
               MT_SUCCESS) {
        facts_p->size = small;
    } else {
        return false;
    }
    if (MT_PMPI(Type_get_name, MT_Datatype, char *, int *)(type, name,
                                                           &length) ==
        MT_SUCCESS) {
        name[sizeof(facts_p->name) - 1] = '\0';
        memcpy(facts_p->name, name, sizeof(facts_p->name));
    }
    return true;
}

static void mt_world_identity(int size, int rank)
{
    mt_process.world_size = size;
    mt_process.world_rank = rank;
    mt_process.header->world_size = size;
    mt_process.header->world_rank = rank;
    mt_shard_peers();
}

void MT_NAME(world_begin)(void)
{
    struct mt_comm comm;
    int size = 0, rank = 0;
    MT_PMPI(Comm_size, MT_Comm, int *)(MT_COMM_WORLD, &size);
    MT_PMPI(Comm_rank, MT_Comm, int *)(MT_COMM_WORLD, &rank);
    mt_registry_ops.comm_describe = mt_describe_comm;
    mt_registry_ops.type_describe = mt_describe_type;
    MT_NAME(world_end)(); /* a group that came from a session */
    mt_world_session = (MT_Session)0;
    mt_world_group_held = MT_PMPI(Comm_group, MT_Comm, MT_Group *)(
                              MT_COMM_WORLD, &mt_world_group) == MT_SUCCESS;
    mt_world_identity(size, rank);
    /* the ranks of these two need no translation, which takes long in a large
     * MPI_COMM_WORLD */
    comm = (struct mt_comm){.handle = MT_U64(MT_COMM_WORLD), .size = size,
                            .rank = rank, .peers = size, .identity = 1,
                            .comparable = 1,
                            .group = mt_registry_range_hash(0, size)};
    mt_registry_comm_add(&comm, 0, MPITRACE_COMM_KIND_WORLD, 0, 0,
                         "MPI_COMM_WORLD");
    uint64_t self = mt_registry_range_hash(rank, 1);
    comm = (struct mt_comm){.handle = MT_U64(MT_COMM_SELF), .size = 1,
                            .peers = 1, .comparable = 1, .group = self,
                            .identity = rank == 0,
                            .world = mt_registry_map(self, 1, &rank)};
    mt_registry_comm_add(&comm, 0, MPITRACE_COMM_KIND_SELF, 0, 0,
                         "MPI_COMM_SELF");
}

void MT_NAME(world_end)(void)
{
    if (mt_world_group_held) {
        mt_world_group_held = false;
        MT_PMPI(Group_free, MT_Group *)(&mt_world_group);
    }
}

void MT_NAME(session_begin)(MT_Session session)
{
    int size = 0, rank = 0;
    if (mt_world_group_held || mt_process.world_size > 0) {
        return;
    }
    mt_registry_ops.comm_describe = mt_describe_comm;
    mt_registry_ops.type_describe = mt_describe_type;
    if (MT_PMPI(Group_from_session_pset, MT_Session, const char *, MT_Group *)(
            session, "mpi://WORLD", &mt_world_group) != MT_SUCCESS) {
        return;
    }
    mt_world_group_held = true;
    mt_world_session = session;
    MT_PMPI(Group_size, MT_Group, int *)(mt_world_group, &size);
    MT_PMPI(Group_rank, MT_Group, int *)(mt_world_group, &rank);
    mt_world_identity(size, rank);
}

/* The group goes with the session it came from; communicators made by others
 * after that have unknown peers. */
void MT_NAME(session_end)(MT_Session session)
{
    if (MT_U64(session) == MT_U64(mt_world_session)) {
        MT_NAME(world_end)();
    }
}

void MT_NAME(comm_made)(MT_Comm parent, MT_Comm made, uint32_t created_by,
                        uint64_t salt)
{
    struct mt_comm comm;
    if (made == MT_COMM_NULL || mt_registry_ops.comm_describe == NULL ||
        !mt_describe_comm(MT_U64(made), &comm)) {
        return;
    }
    mt_registry_comm_add(&comm, parent != MT_COMM_NULL ? MT_U64(parent) : 0,
                         MPITRACE_COMM_KIND_CREATED, created_by, salt, "");
}

void MT_NAME(comm_duplicated)(MT_Comm parent, MT_Comm made,
                              uint32_t created_by)
{
    struct mt_comm comm = *mt_registry_comm(MT_U64(parent));
    comm.handle = MT_U64(made);
    comm.sequence = 0; /* it has no operations yet */
    mt_registry_comm_add(&comm, MT_U64(parent), MPITRACE_COMM_KIND_CREATED,
                         created_by, 0, "");
}

/* Neighbours of a grid in their order: of each dimension the one before and
 * the one after (MPI 4.1, 8.6). */
static int mt_grid_neighbours(MT_Comm c, uint64_t *absent_p)
{
    int dimensions = 0;
    MT_PMPI(Cartdim_get, MT_Comm, int *)(c, &dimensions);
    for (int d = 0; d < dimensions && d < 32; d++) {
        int before = 0, after = 0;
        MT_PMPI(Cart_shift, MT_Comm, int, int, int *, int *)(c, d, 1, &before,
                                                             &after);
        *absent_p |= (uint64_t)(before == MT_PROC_NULL) << (2 * d);
        *absent_p |= (uint64_t)(after == MT_PROC_NULL) << (2 * d + 1);
    }
    return 2 * dimensions;
}

void MT_NAME(comm_neighbours)(struct mt_comm *comm)
{
    MT_Comm c = mt_comm_of(comm->handle);
    uint64_t absent = 0;
    int kind = 0, in = 0, out = 0, weighted = 0;
    if (MT_PMPI(Topo_test, MT_Comm, int *)(c, &kind) != MT_SUCCESS) {
        comm->neighbours = 0;
        return;
    }
    if (kind == MT_CART) {
        out = mt_grid_neighbours(c, &absent);
    } else if (kind == MT_GRAPH) {
        MT_PMPI(Graph_neighbors_count, MT_Comm, int, int *)(c, comm->rank, &out);
    } else if (kind == MT_DIST_GRAPH) {
        MT_PMPI(Dist_graph_neighbors_count, MT_Comm, int *, int *, int *)(
            c, &in, &out, &weighted);
    }
    comm->absent = absent;
    comm->neighbours = out;
}

void MT_NAME(query_thread_level)(void)
{
    int level = 0;
    if (MT_PMPI(Query_thread, int *)(&level) == MT_SUCCESS) {
        mt_process.header->thread_level = level;
        mt_request_threads |= level >= MT_THREAD_MULTIPLE;
    }
}

bool MT_NAME(is_spawned)(void)
{
    MT_Comm parent = MT_COMM_NULL;
    return MT_PMPI(Comm_get_parent, MT_Comm *)(&parent) == MT_SUCCESS &&
           parent != MT_COMM_NULL;
}

int MT_NAME(error_class)(int code)
{
    int class = code;
    MT_PMPI(Error_class, int, int *)(code, &class);
    return class;
}

static void *mt_map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p != MAP_FAILED ? p : NULL;
}

/* A call takes the thread's scratch memory, or makes some, and leaves it to the next
 * one: so a call made inside a callback, or by another user-level thread, has its own.
 * What a call had that was jumped out of is lost; a thread that has lost much takes no
 * more than it needs, and keeps none. */
enum { LOST_MOST = 4 << 20 };

static void *mt_scratch_take(size_t bytes, size_t *bytes_p)
{
    struct mt_tls *tls = &mt_tls;
    void *p = tls->scratch;
    size_t size = tls->scratch_bytes;
    tls->scratch = NULL;
    if (mt_unlikely(p == NULL || size < bytes)) {
        if (p != NULL) {
            munmap(p, size);
        }
        size_t step = tls->scratch_out > LOST_MOST ? 4096 : 65536;
        size = (bytes + step - 1) & ~(step - 1);
        p = mt_map(size);
    }
    if (p != NULL) {
        tls->scratch_out += (int64_t)size;
        *bytes_p = size;
    }
    return p;
}

static void mt_scratch_leave(void *p, size_t bytes)
{
    struct mt_tls *tls = &mt_tls;
    tls->scratch_out -= (int64_t)bytes;
    if (mt_unlikely(tls->scratch != NULL || tls->ended != 0 ||
                    tls->scratch_out > LOST_MOST)) {
        munmap(p, bytes);
        return;
    }
    tls->scratch_bytes = bytes;
    tls->scratch = p;
}

void MT_NAME(array_begin)(struct mt_array *array, int n,
                          const MT_Request *requests, MT_Status *given)
{
    *array = (struct mt_array){.statuses = given, .given = given};
    if (n <= 0 || requests == NULL) {
        return; /* nothing to follow, or the library refuses it */
    }
    size_t bytes =
        (size_t)n * (sizeof(struct mt_pending) + sizeof(MT_Status));
    array->pending = mt_scratch_take(bytes, &array->bytes);
    if (array->pending == NULL) {
        mt_kill_switch("no memory for an array of requests");
        return;
    }
    array->n = n;
    if (given == MT_STATUS_IGNORE) {
        array->statuses = (MT_Status *)(void *)(array->pending + n);
        array->given = array->statuses;
    }
    uint32_t stamp = mt_request_count_begin();
    for (int i = 0; i < n; i++) {
        struct mt_pending *pending = &array->pending[i];
        mt_request_find(MT_U64(requests[i]), pending);
        if (mt_request_has_share(pending, stamp)) {
            array->first = array->awaited == 0 ? pending : array->first;
            array->awaited++;
        }
    }
}

void MT_NAME(array_persistent)(struct mt_array *array, const MT_Status *given)
{
    for (int i = 0; !MT_ABI_MPICH && given == MT_STATUS_IGNORE && i < array->n;
         i++) {
        const struct mt_pending *p = &array->pending[i];
        if (p->slot < 0 ? p->handle != MT_U64(MT_REQUEST_NULL)
                        : mt_request_is_persistent(p)) {
            array->given = MT_STATUS_IGNORE;
        }
    }
}

void MT_NAME(array_end)(struct mt_array *array)
{
    if (array->bytes != 0) {
        mt_scratch_leave(array->pending, array->bytes);
    }
}
