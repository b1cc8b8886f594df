/* anew.c K DELAY_US KEEP: an MPI_Allreduce in each of K iterations, rank 1 late
 * by a known time; on one communicator all the time if KEEP is 1, else on a
 * duplicate made in the iteration.
 *
 *   ledger call FUNCTION COMMUNICATOR INDEX RANK ENTER WAIT EXIT
 */
#include <mpi.h>

#include "ledger.h"

int main(int argc, char **argv)
{
    int rank, one = 1, sum;
    MPI_Comm c;
    if (argc != 4) {
        return 2;
    }
    int k_max = atoi(argv[1]), keep = atoi(argv[3]);
    int64_t late_ns = atoll(argv[2]) * 1000;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    ledger_open(rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    for (int k = 0; k < k_max; k++) {
        if (!keep) {
            MPI_Comm_free(&c);
            MPI_Comm_dup(MPI_COMM_WORLD, &c);
        }
        pass(rank == 1 ? late_ns : 0);
        int64_t enter = now();
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, c);
        int64_t leave = now();
        ledger("call Allreduce dup %d %d %" PRId64 " %" PRId64 " %" PRId64, k,
               rank, enter, enter, leave);
    }
    MPI_Comm_free(&c);
    ledger_close();
    MPI_Finalize();
    return 0;
}
