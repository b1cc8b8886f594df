// The exchange of basic.c from C++, with communication inside a class, a lambda
// and a destructor that runs while an exception of the application unwinds.
//
// Each rank: Init, Comm_rank, Comm_size; 10 times Send and Recv of 100 ints;
// 3 times Irecv, Isend of 50 doubles and Waitall; 4 times Sendrecv of one
// double; 2 Bcast, 3 Allreduce, 1 Barrier, Finalize.
#include <mpi.h>
#include <stdexcept>
#include <vector>
#include "program.h"

namespace
{

class Exchange
{
public:
    Exchange() : ints(100), back(100)
    {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        peer = 1 - rank;
    }

    // The barrier is left by an exception, on the way out of main's try block.
    ~Exchange()
    {
        MPI_Barrier(MPI_COMM_WORLD);
    }

    int pingpong(int k)
    {
        for (int i = 0; i < 100; i++)
            ints[i] = rank + k * i;
        auto send = [&] {
            MPI_Send(ints.data(), 100, MPI_INT, peer, k, MPI_COMM_WORLD);
        };
        if (rank == 0)
            send();
        MPI_Recv(back.data(), 100, MPI_INT, peer, k, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        if (rank == 1)
            send();
        int total = 0;
        for (int i = 0; i < 100; i++)
            total += back[i] * (i + 1);
        return total;
    }

    double nonblocking(int k)
    {
        std::vector<double> out(50), in(50);
        MPI_Request r[2];
        for (int i = 0; i < 50; i++)
            out[i] = rank + 2 * k + i;
        MPI_Irecv(in.data(), 50, MPI_DOUBLE, peer, 20 + k, MPI_COMM_WORLD,
                  &r[0]);
        MPI_Isend(out.data(), 50, MPI_DOUBLE, peer, 20 + k, MPI_COMM_WORLD,
                  &r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        double sum = 0;
        for (int i = 0; i < 50; i++)
            sum += in[i] * (i + 1);
        return sum;
    }

    double exchange(int k)
    {
        double mine = rank + k, other;
        MPI_Sendrecv(&mine, 1, MPI_DOUBLE, peer, 30, &other, 1, MPI_DOUBLE,
                     peer, 30, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return other * (k + 1);
    }

    int rank, size, peer;

private:
    std::vector<int> ints, back;
};

void run()
{
    Exchange e;
    int total = 0;
    double sum = 0, one = 0, other;

    for (int k = 0; k < 10; k++)
        total += e.pingpong(k);
    for (int k = 0; k < 3; k++)
        sum += e.nonblocking(k);
    for (int k = 0; k < 4; k++)
        sum += e.exchange(k);
    for (int k = 0; k < 2; k++) {
        one = e.rank == k ? 7 + k : 0;
        MPI_Bcast(&one, 1, MPI_DOUBLE, k, MPI_COMM_WORLD);
        sum += one;
    }
    for (int k = 0; k < 3; k++) {
        MPI_Allreduce(&one, &other, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        sum += other;
    }
    say("rank %d of %d: %d %.1f", e.rank, e.size, total, sum);
    throw std::runtime_error("done");
}

} // namespace

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    try {
        run();
    } catch (const std::exception &e) {
        say("%s", e.what());
    }
    say("finalize returns %d", MPI_Finalize());
}
