/* factors.c LONGEST_MS K: the rows of Table 6.1 of Qian 2010 as far as they
 * can be run: each routine with its payload, one rank late by the published
 * worst-case factor times the time T of a message of that payload, divided by
 * one number for all rows: it makes the longest delay LONGEST_MS. T comes from
 * a ping-pong. Each runs K times, those with short delays more often, so that no
 * single pause of a rank outweighs what tells them apart.
 *
 *   ledger transfer BYTES NS
 *   ledger scale DIVISOR
 *   ledger call FUNCTION ROW INDEX RANK ENTER WAIT EXIT
 *
 * Each row has a communicator of its own, named after it. */
#include <mpi.h>

#include "ledger.h"

enum { PINGS = 200, BIG = 1 << 21, SHORT_NS = 10000000, OFTENER = 10 };

static char *out, *in;
static int rank, size;

static void meet(void)
{
    for (int d = 1; d < size; d *= 2) {
        char a = 1, b;
        MPI_Sendrecv(&a, 1, MPI_CHAR, (rank + d) % size, 99, &b, 1, MPI_CHAR,
                     (rank - d + size) % size, 99, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Half a round trip, the median, known to all ranks. */
static double transfer(int bytes)
{
    static int64_t trip[PINGS];
    double ns = 0;
    for (int i = 0; i < PINGS && rank < 2; i++) {
        trip[i] = now();
        if (rank == 0) {
            MPI_Send(out, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(in, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            MPI_Send(out, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
        trip[i] = now() - trip[i];
    }
    if (rank == 0) {
        qsort(trip, PINGS, sizeof(trip[0]), compare);
        ns = (double)trip[PINGS / 2] / 2;
        for (int r = 1; r < size; r++) {
            MPI_Send(&ns, 1, MPI_DOUBLE, r, 1, MPI_COMM_WORLD);
        }
        ledger("transfer %d %.1f", bytes, ns);
    } else {
        MPI_Recv(&ns, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return ns;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *row, *function;
        int bytes;
        double worst; /* published omega / T */
    } rows[] = {
        {"FT.C.reduce", "Reduce", 16, 5732913},
        {"FT.B.reduce", "Reduce", 16, 1460811},
        {"MG.C.allreduce", "Allreduce", 89, 560769},
        {"LU.C.allreduce", "Allreduce", 22, 388537},
        {"LU.B.allreduce", "Allreduce", 22, 163523},
        {"LU.C.bcast", "Bcast", 10, 32938},
        {"LU.B.bcast", "Bcast", 10, 9553},
        {"FT.B.alltoall", "Alltoall", BIG, 1812},
    };
    if (argc != 3) {
        return 2;
    }
    double longest_ns = atof(argv[1]) * 1e6;
    int k_max = atoi(argv[2]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ledger_open(rank);
    out = calloc(BIG, 1);
    in = calloc(BIG, 1);
    double small = transfer(16), large = transfer(BIG);
    double scale = rows[0].worst * small / longest_ns;
    ledger("scale %.1f", scale);
    /* each communicator is made from the one before: those made alike would be
     * taken for one */
    MPI_Comm before = MPI_COMM_WORLD;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        MPI_Comm comm;
        MPI_Comm_dup(before, &comm);
        MPI_Comm_set_name(comm, rows[i].row);
        int bytes = rows[i].bytes;
        double t = bytes == BIG ? large : small;
        int64_t late_ns = (int64_t)(rows[i].worst * t / scale);
        int times = late_ns < SHORT_NS ? OFTENER * k_max : k_max;
        for (int k = 0; k < times; k++) {
            meet();
            pass(rank == size - 1 ? late_ns : 0);
            int64_t enter = now();
            switch (rows[i].function[0]) {
            case 'R':
                MPI_Reduce(out, in, bytes, MPI_BYTE, MPI_BOR, 0, comm);
                break;
            case 'B':
                MPI_Bcast(out, bytes, MPI_BYTE, 0, comm);
                break;
            default:
                if (bytes == BIG) {
                    MPI_Alltoall(out, bytes / size, MPI_BYTE, in, bytes / size,
                                 MPI_BYTE, comm);
                } else {
                    MPI_Allreduce(out, in, bytes, MPI_BYTE, MPI_BOR, comm);
                }
            }
            int64_t leave = now();
            ledger("call %s %s %d %d %" PRId64 " %" PRId64 " %" PRId64,
                   rows[i].function, rows[i].row, k, rank, enter, enter, leave);
        }
        if (before != MPI_COMM_WORLD) {
            MPI_Comm_free(&before);
        }
        before = comm;
    }
    MPI_Comm_free(&before);
    ledger_close();
    MPI_Finalize();
    return 0;
}
