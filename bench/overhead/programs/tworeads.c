/*
 * tworeads.c - the cheapest library that can time a call: each function that
 * self.c uses in its loops reads the processor's counter, calls the MPI
 * library, reads the counter again and adds the difference to a static sum.
 * It knows no threads and keeps nothing else: what a profiler costs beyond
 * this is its own. Built for one MPI and preloaded.
 */
#include <mpi.h>
#include <stdint.h>

/* Not read back; volatile so that the sum is stored in each call. */
static volatile uint64_t total;

static inline uint64_t counter(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
#error "no counter is known for this processor"
#endif
}

/* Defines MPI_<name> with the given parameters, handed on as arguments. */
#define TIMED(name, parameters, arguments)      \
    int MPI_##name parameters                   \
    {                                           \
        uint64_t begin = counter();             \
        int status = PMPI_##name arguments;     \
                                                \
        total += counter() - begin;             \
        return status;                          \
    }

TIMED(Comm_rank, (MPI_Comm comm, int *rank), (comm, rank))

TIMED(Iprobe,
      (int source, int tag, MPI_Comm comm, int *flag, MPI_Status *result),
      (source, tag, comm, flag, result))

TIMED(Sendrecv,
      (const void *out, int out_count, MPI_Datatype out_type, int dest,
       int out_tag, void *in, int in_count, MPI_Datatype in_type, int source,
       int in_tag, MPI_Comm comm, MPI_Status *result),
      (out, out_count, out_type, dest, out_tag, in, in_count, in_type, source,
       in_tag, comm, result))

TIMED(Irecv,
      (void *in, int count, MPI_Datatype type, int source, int tag,
       MPI_Comm comm, MPI_Request *request),
      (in, count, type, source, tag, comm, request))

TIMED(Send,
      (const void *out, int count, MPI_Datatype type, int dest, int tag,
       MPI_Comm comm),
      (out, count, type, dest, tag, comm))

TIMED(Wait, (MPI_Request *request, MPI_Status *result), (request, result))

TIMED(Allreduce,
      (const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
       MPI_Comm comm),
      (in, out, count, type, op, comm))
