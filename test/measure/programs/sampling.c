/* sampling.c N LATE DELAY_US: N calls of MPI_Allreduce, far more than fit a
 * table, one rank always late; before each thousandth a barrier.
 *
 *   ledger call FUNCTION world INDEX RANK ENTER WAIT EXIT */
#include <mpi.h>

#include "ledger.h"

int main(int argc, char **argv)
{
    int rank, one = 1, sum;
    if (argc != 4) {
        return 2;
    }
    int n = atoi(argv[1]), late = atoi(argv[2]);
    int64_t late_ns = atoll(argv[3]) * 1000;
    int64_t *moment = calloc((size_t)n, 2 * sizeof(*moment));
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_name(MPI_COMM_WORLD, "world");
    ledger_open(rank);
    for (int k = 0; k < n; k++) {
        if (k % 1000 == 0) {
            int64_t enter = now();
            MPI_Barrier(MPI_COMM_WORLD);
            int64_t leave = now();
            ledger("call Barrier world %d %d %" PRId64 " %" PRId64 " %" PRId64,
                   k / 1000, rank, enter, enter, leave);
        }
        pass(rank == late ? late_ns : 0);
        moment[2 * k] = now();
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        moment[2 * k + 1] = now();
    }
    for (int k = 0; k < n; k++) {
        int64_t enter = moment[2 * k], leave = moment[2 * k + 1];
        ledger("call Allreduce world %d %d %" PRId64 " %" PRId64 " %" PRId64, k,
               rank, enter, enter, leave);
    }
    ledger_close();
    MPI_Finalize();
    return 0;
}
