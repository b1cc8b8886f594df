/* left.c: what is left to the MPI library, counted by reason. */
#include "act.h"

static void add(uint64_t *counter, uint64_t by)
{
    __atomic_fetch_add(counter, by, __ATOMIC_RELAXED);
}

bool mt_act_ours(const struct mt_act_comm *comm, const struct mt_act_message *m,
                 enum mt_act_use use, struct mt_act_type **type_p)
{
    if (mt_likely(comm != NULL && mt_act_check(comm, m, use, type_p))) {
        return true;
    }
    if (use == MT_ACT_RECEIVES || m->rank == MT_PROC_NULL) {
        return false;
    }
    if (comm != NULL) {
        add(&mt_act.left.messages_by_arguments, 1);
        return false;
    }
    struct mt_act_type *type = /* none behind MPI_Finalize, in a callback there */
        mt_act.engine != NULL ? mt_act_type_find(m->datatype) : NULL;
    add(&mt_act.left.messages_of_communicators, 1);
    if (type != NULL) {
        if (m->count > 0) {
            add(&mt_act.left.bytes_of_communicators,
                (uint64_t)m->count * type->layout.size);
        }
        mt_act_type_put(type);
    }
    return false;
}

void mt_act_comm_left(MT_Comm made, uint64_t *reason)
{
    if (made != MT_COMM_NULL) {
        add(reason, 1);
    }
}

/* ---- calls whose communicators are never ours ---- */

#define MT_LEAVES(name, why, parameters, arguments)                          \
    static int name parameters                                               \
    {                                                                        \
        int rc = MT_PMPI(name) arguments;                                    \
        if (rc == MT_SUCCESS) {                                              \
            mt_act_comm_left(*made, &mt_act.left.why);                      \
        }                                                                    \
        return rc;                                                           \
    }

MT_LEAVES(Intercomm_create, intercommunicators,
          (MT_Comm local, int leader, MT_Comm peer, int remote, int tag,
           MT_Comm *made),
          (local, leader, peer, remote, tag, made))
MT_LEAVES(Intercomm_merge, intercommunicators,
          (MT_Comm inter, int high, MT_Comm *made), (inter, high, made))
MT_LEAVES(Comm_spawn, communicators_of_processes,
          (const char *command, char **argv, int n, MT_Info info, int root,
           MT_Comm comm, MT_Comm *made, int *errors),
          (command, argv, n, info, root, comm, made, errors))
MT_LEAVES(Comm_spawn_multiple, communicators_of_processes,
          (int count, char **commands, char ***argv, const int *n,
           const MT_Info *infos, int root, MT_Comm comm, MT_Comm *made,
           int *errors),
          (count, commands, argv, n, infos, root, comm, made, errors))
MT_LEAVES(Comm_accept, communicators_of_processes,
          (const char *port, MT_Info info, int root, MT_Comm comm,
           MT_Comm *made),
          (port, info, root, comm, made))
MT_LEAVES(Comm_connect, communicators_of_processes,
          (const char *port, MT_Info info, int root, MT_Comm comm,
           MT_Comm *made),
          (port, info, root, comm, made))
MT_LEAVES(Comm_join, communicators_of_processes, (int fd, MT_Comm *made),
          (fd, made))
MT_LEAVES(Comm_create_from_group, communicators_of_sessions,
          (MT_Group group, const char *tag, MT_Info info,
           MT_Errhandler handler, MT_Comm *made),
          (group, tag, info, handler, made))

/* Their handles are known before the communicators are. */

static int Comm_idup(MT_Comm comm, MT_Comm *made, MT_Request *request)
{
    int rc = MT_PMPI(Comm_idup)(comm, made, request);
    add(&mt_act.left.communicators_by_idup, rc == MT_SUCCESS);
    return rc;
}

static int Comm_idup_with_info(MT_Comm comm, MT_Info info, MT_Comm *made,
                               MT_Request *request)
{
    int rc = MT_PMPI(Comm_idup_with_info)(comm, info, made, request);
    add(&mt_act.left.communicators_by_idup, rc == MT_SUCCESS);
    return rc;
}

void mt_act_left_functions(struct mt_act_functions *functions)
{
    MT_ACT_TAKE(functions, Intercomm_create);
    MT_ACT_TAKE(functions, Intercomm_merge);
    MT_ACT_TAKE(functions, Comm_spawn);
    MT_ACT_TAKE(functions, Comm_spawn_multiple);
    MT_ACT_TAKE(functions, Comm_accept);
    MT_ACT_TAKE(functions, Comm_connect);
    MT_ACT_TAKE(functions, Comm_join);
    MT_ACT_TAKE(functions, Comm_create_from_group);
    MT_ACT_TAKE(functions, Comm_idup);
    MT_ACT_TAKE(functions, Comm_idup_with_info);
}
