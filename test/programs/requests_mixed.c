/*
 * Every way to complete requests, with null ones among them. How often Test*
 * and Waitsome must be called depends on the moment; the program notes it.
 *
 * Each rank: Init, Comm_rank; for each of Waitany, Waitsome, Testany, Testsome,
 * Testall and Test: 6 Irecv and 6 Isend of 8 bytes in one array of 14 with two
 * MPI_REQUEST_NULL, completed by that function alone; Request_get_status once;
 * Finalize.
 */
#include <mpi.h>
#include "program.h"

enum { N = 6, ALL = 2 * N + 2 };

static int rank;
static long in[N], out[N], sum;
static MPI_Request r[ALL];

static void start(int round)
{
    for (int k = 0; k < N; k++)
        MPI_Irecv(&in[k], 1, MPI_LONG, 1 - rank, k, MPI_COMM_WORLD, &r[1 + k]);
    for (int k = 0; k < N; k++) {
        out[k] = rank + round + k;
        MPI_Isend(&out[k], 1, MPI_LONG, 1 - rank, k, MPI_COMM_WORLD,
                  &r[1 + N + k]);
    }
    r[0] = r[ALL - 1] = MPI_REQUEST_NULL;
}

static void finish(const char *function, long calls)
{
    int nulls = 0;

    for (int k = 0; k < N; k++)
        sum += in[k] * (k + 1);
    for (int k = 0; k < ALL; k++)
        nulls += r[k] == MPI_REQUEST_NULL;
    say("%s: sum %ld, nulls %d", function, sum, nulls);
    note_calls(rank, function, calls);
}

static void any(void)
{
    int index, flag, done = 0;
    long calls = 0;

    start(1);
    for (; done < 2 * N; done++, calls++)
        MPI_Waitany(ALL, r, &index,
                    done % 2 ? MPI_STATUS_IGNORE : &(MPI_Status){0});
    finish("MPI_Waitany", calls);
    start(2);
    for (done = 0, calls = 0; done < 2 * N; calls++) {
        MPI_Testany(ALL, r, &index, &flag, MPI_STATUS_IGNORE);
        done += flag && index != MPI_UNDEFINED;
    }
    finish("MPI_Testany", calls);
}

static void some(void)
{
    int indices[ALL], count, done;
    MPI_Status statuses[ALL];
    long calls;

    start(3);
    for (done = 0, calls = 0; done < 2 * N; done += count, calls++)
        MPI_Waitsome(ALL, r, &count, indices, statuses);
    finish("MPI_Waitsome", calls);
    start(4);
    for (done = 0, calls = 0; done < 2 * N; done += count, calls++)
        MPI_Testsome(ALL, r, &count, indices, MPI_STATUSES_IGNORE);
    finish("MPI_Testsome", calls);
}

static void all(void)
{
    MPI_Status statuses[ALL];
    int flag;
    long calls;

    start(5);
    for (flag = 0, calls = 0; !flag; calls++)
        MPI_Testall(ALL, r, &flag, statuses);
    finish("MPI_Testall", calls);
    start(6);
    calls = 0;
    for (int k = 0; k < ALL; k++)
        for (flag = 0; !flag; calls++)
            MPI_Test(&r[k], &flag, MPI_STATUS_IGNORE);
    finish("MPI_Test", calls);
}

int main(int argc, char **argv)
{
    int flag;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    any();
    some();
    all();
    MPI_Request_get_status(r[0], &flag, MPI_STATUS_IGNORE);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
