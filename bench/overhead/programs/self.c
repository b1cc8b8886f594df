/*
 * self.c - the six loops of one rank with itself, and the one that sends
 * 20,000 different sizes. Start on one rank.
 */
#include "bench.h"
#include "loops.h"

static const struct named_loop loops[] = {
    {"Comm_rank", loop_comm_rank, 1.0},
    {"Iprobe", loop_iprobe, 1.0},
    {"Sendrecv", loop_sendrecv, 1.0},
    {"Sendrecv_64x13", loop_sendrecv_buffers, 1.0},
    {"Irecv+Send+Wait", loop_irecv_send_wait, CALLS_IRECV},
    {"Allreduce", loop_allreduce, 1.0},
    {"Sendrecv_20000_sizes", loop_many_sizes, 1.0},
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    COMM = MPI_COMM_WORLD;
    pin(0);
    for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
        long iterations = calibrate(loops[i].loop);

        print_result(loops[i].name,
                     time_loop(loops[i].loop, iterations, loops[i].calls));
    }
    MPI_Finalize();
    return 0;
}
