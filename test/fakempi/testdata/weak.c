/* Not an MPI program: it looks whether MPI happens to be there. */
#include <stdio.h>

int MPI_Initialized(int *) __attribute__((weak));

int main(void)
{
    int flag = 0;
    if (MPI_Initialized != NULL) {
        MPI_Initialized(&flag);
    }
    printf("MPI is %srunning\n", flag ? "" : "not ");
    return 0;
}
