/* Init until it succeeds, 3 Send of 10 bytes, 2 Barrier, Wtime, Finalize; with an
 * argument also functions that the library does not have. */
#include <stdio.h>
#include <string.h>

int MPI_Init(int *, char ***);
int MPI_Finalize(void);
int MPI_Barrier(int);
int MPI_Send(const void *, int, int, int, int, int);
int MPI_Type_commit(int *) __attribute__((weak));
int MPI_Status_get_source(const int *, int *) __attribute__((weak));
int MPI_Status_set_tag(int *, int) __attribute__((weak));
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
    if (argc > 1 && strcmp(argv[1], "commit") == 0) {
        MPI_Type_commit(&type);
    }
    if (argc > 1 && strcmp(argv[1], "status") == 0) { /* where they are, or by hand */
        int status[5] = {1, 2, 3, 4, 5}, source = status[2];
        if (MPI_Status_get_source != NULL) {
            source = -1;
            MPI_Status_get_source(status, &source);
        }
        if (MPI_Status_set_tag != NULL) {
            MPI_Status_set_tag(status, 44);
        } else {
            status[3] = 44;
        }
        printf("source %d tag %d, %d\n", source, status[3], status[4]);
        fflush(stdout);
    }
    return MPI_Finalize();
}
