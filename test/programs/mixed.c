/*
 * C and Fortran in one program: Isend by its Fortran name, whose binding
 * converts the request's handle, each time followed by Send in C.
 *
 * Each rank: Init, Comm_rank; 10 times 2 Irecv, Isend of 4 bytes in Fortran,
 * Send of 4 bytes, 3 Wait; Finalize. Conversions of handles are noted where
 * they are functions.
 */
#include <dlfcn.h>
#include <mpi.h>
#include "program.h"

#ifdef OPEN_MPI
static const char binding[] = "libmpi_mpifh.so.40";
static const int conversions = 1;
#else
static const char binding[] = "libmpichfort.so.12";
static const int conversions = 0;
#endif

typedef void (*isend_fn)(int *buf, MPI_Fint *count, MPI_Fint *type,
                         MPI_Fint *dest, MPI_Fint *tag, MPI_Fint *comm,
                         MPI_Fint *request, MPI_Fint *ierr);

int main(int argc, char **argv)
{
    isend_fn isend = (isend_fn)dlsym(
        dlopen(binding, RTLD_NOW | RTLD_GLOBAL), "mpi_isend_");
    MPI_Fint one = 1, zero = 0, type, comm, peer, sent, ierr;
    int rank, first, second, sum = 0;
    MPI_Request r[3];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    type = MPI_Type_c2f(MPI_INT);
    comm = MPI_Comm_c2f(MPI_COMM_WORLD);
    peer = 1 - rank;
    for (int k = 0; k < 10; k++) {
        MPI_Irecv(&first, 1, MPI_INT, peer, 0, MPI_COMM_WORLD, &r[0]);
        MPI_Irecv(&second, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, &r[1]);
        isend(&k, &one, &type, &peer, &zero, &comm, &sent, &ierr);
        MPI_Send(&k, 1, MPI_INT, peer, 1, MPI_COMM_WORLD);
        r[2] = MPI_Request_f2c(sent);
        for (int i = 0; i < 3; i++)
            MPI_Wait(&r[i], MPI_STATUS_IGNORE);
        sum += first + second * k + ierr;
    }
    if (conversions) {
        note_calls(rank, "MPI_Type_c2f", 1);
        note_calls(rank, "MPI_Comm_c2f", 1);
        note_calls(rank, "MPI_Request_f2c", 10);
    }
    say("rank %d: sum %d", rank, sum);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
