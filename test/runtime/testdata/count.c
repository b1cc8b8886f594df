/* count.c: a runtime of act mode that carries nothing: what stands in for
 * MPI_Send, MPI_Recv and MPI_Comm_rank counts and calls the library, so that a
 * test sees whose calls come here. MPI_Finalize's tells the counts. They are in
 * memory that a forked child shares. With COUNT_REFUSE it does not start. */
#include "../../../c/include/act.h"

#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const struct mt_act_host *host;
static struct {
    _Atomic long sends, receives, ranks;
} *seen;

#define NATIVE(name, type) ((type *)host->native[MPITRACE_CALL_##name])

typedef int send_fn(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int recv_fn(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);
typedef int rank_fn(MPI_Comm, int *);
typedef int finalize_fn(void);

static int count_send(const void *p, int n, MPI_Datatype type, int to, int tag,
                      MPI_Comm comm)
{
    seen->sends++;
    return NATIVE(Send, send_fn)(p, n, type, to, tag, comm);
}

static int count_recv(void *p, int n, MPI_Datatype type, int from, int tag,
                      MPI_Comm comm, MPI_Status *status)
{
    seen->receives++;
    return NATIVE(Recv, recv_fn)(p, n, type, from, tag, comm, status);
}

static int count_rank(MPI_Comm comm, int *rank)
{
    seen->ranks++;
    return NATIVE(Comm_rank, rank_fn)(comm, rank);
}

static int count_finalize(void)
{
    char text[256];
    const char *rule = strstr(host->policy, "\nrule.0.when.communicator=");
    snprintf(text, sizeof(text), "rank %u of %u: %ld sends, %ld receives, "
             "%ld ranks asked, %.*s",
             host->world_rank, host->world_size, seen->sends, seen->receives,
             seen->ranks, rule != NULL ? (int)strcspn(rule + 1, "\n") : 0,
             rule != NULL ? rule + 1 : "");
    host->say(false, text);
    return NATIVE(Finalize, finalize_fn)();
}

enum mt_status mt_act_start(const struct mt_act_host *given,
                            struct mt_act_functions *functions_p)
{
    host = given;
    if (host->version != MT_ACT_VERSION || host->symbol("PMPI_Init") == NULL) {
        return MT_EVERSION;
    }
    seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (getenv("COUNT_REFUSE") != NULL || seen == MAP_FAILED) {
        snprintf(host->reason, MT_ACT_REASON, "it was told to refuse");
        return MT_ENODEVICE;
    }
    functions_p->function[MPITRACE_CALL_Send] = (void *)count_send;
    functions_p->function[MPITRACE_CALL_Recv] = (void *)count_recv;
    functions_p->function[MPITRACE_CALL_Comm_rank] = (void *)count_rank;
    functions_p->function[MPITRACE_CALL_Finalize] = (void *)count_finalize;
    return MT_OK;
}
