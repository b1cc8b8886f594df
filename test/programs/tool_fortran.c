/*
 * A PMPI tool that wraps the Fortran names too, as tools for Fortran programs
 * do: mpi_send_ and mpi_recv_ call the C profiling names after converting the
 * handles; MPI_Send and MPI_Recv are those of tool_c.c. Counts on stderr at
 * Finalize, where mpi_finalize_ and MPI_Finalize both report.
 */
#include <mpi.h>
#include <stdio.h>

static int from_c, from_fortran;

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag,
             MPI_Comm comm)
{
    from_c++;
    return PMPI_Send(buf, count, type, dest, tag, comm);
}

void mpi_send_(void *buf, MPI_Fint *count, MPI_Fint *type, MPI_Fint *dest,
               MPI_Fint *tag, MPI_Fint *comm, MPI_Fint *ierr)
{
    from_fortran++;
    *ierr = PMPI_Send(buf, *count, MPI_Type_f2c(*type), *dest, *tag,
                      MPI_Comm_f2c(*comm));
}

void mpi_recv_(void *buf, MPI_Fint *count, MPI_Fint *type, MPI_Fint *source,
               MPI_Fint *tag, MPI_Fint *comm, MPI_Fint *status, MPI_Fint *ierr)
{
    MPI_Status mine;

    from_fortran++;
    *ierr = PMPI_Recv(buf, *count, MPI_Type_f2c(*type), *source, *tag,
                      MPI_Comm_f2c(*comm), &mine);
    PMPI_Status_c2f(&mine, status);
}

static void print(void)
{
    fprintf(stderr, "tool: %d from C, %d from Fortran\n", from_c, from_fortran);
}

int MPI_Finalize(void)
{
    print();
    return PMPI_Finalize();
}

void mpi_finalize_(MPI_Fint *ierr)
{
    print();
    *ierr = PMPI_Finalize();
}
