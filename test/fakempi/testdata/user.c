/* Init until it succeeds, 3 Send of 10 bytes, 2 Barrier, Wtime, Finalize; with an argument also a
 * function that the library does not have. */
#include <stdio.h>

int MPI_Init(int *, char ***);
int MPI_Finalize(void);
int MPI_Barrier(int);
int MPI_Send(const void *, int, int, int, int, int);
int MPI_Type_commit(int *) __attribute__((weak));
double MPI_Wtime(void);

enum { WORLD = 0x44000000, BYTE = 0x4c00010d };

int main(int argc, char **argv)
{
    int type = BYTE, error;
    while ((error = MPI_Init(&argc, &argv)) != 0) {
        printf("Init %d\n", error);
    }
    for (int i = 0; i < 3; i++) {
        MPI_Send("0123456789", 10, BYTE, 0, 0, WORLD);
    }
    MPI_Barrier(WORLD);
    MPI_Barrier(WORLD);
    printf("Wtime %.1f\n", MPI_Wtime());
    fflush(stdout);
    if (argc > 1) {
        MPI_Type_commit(&type);
    }
    return MPI_Finalize();
}
