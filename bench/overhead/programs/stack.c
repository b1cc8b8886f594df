/*
 * stack.c - three of the one-rank loops at the end of a chain of functions of
 * the application, for settings that follow the call stack. Start on one rank.
 */
#include "bench.h"
#include "loops.h"

static loop_fn innermost;

/* One frame of the chain; it stays one because the compiler neither inlines
 * it nor leaves it by a jump before the callee has returned. */
#define FRAME(name, callee)                                         \
    static __attribute__((noinline, noclone)) void name(long count) \
    {                                                               \
        callee(count);                                              \
        __asm__ volatile("" ::: "memory");                          \
    }

/* With the loop below and main above these are eight frames. */
FRAME(frame_6, innermost)
FRAME(frame_5, frame_6)
FRAME(frame_4, frame_5)
FRAME(frame_3, frame_4)
FRAME(frame_2, frame_3)
FRAME(frame_1, frame_2)

int main(int argc, char **argv)
{
    static const struct named_loop loops[] = {
        {"stack_Comm_rank", loop_comm_rank, 1.0},
        {"stack_Sendrecv", loop_sendrecv, 1.0},
        {"stack_Irecv+Send+Wait", loop_irecv_send_wait, CALLS_IRECV},
    };

    MPI_Init(&argc, &argv);
    COMM = MPI_COMM_WORLD;
    pin(0);
    for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
        innermost = loops[i].loop;

        long iterations = calibrate(frame_1);

        print_result(loops[i].name,
                     time_loop(frame_1, iterations, loops[i].calls));
    }
    MPI_Finalize();
    return 0;
}
