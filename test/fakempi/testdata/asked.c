/* A program that asks often whether MPI is there, which comes with dlopen at last. The
 * shim maps memory for each search: this mmap counts them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int MPI_Initialized(int *) __attribute__((weak));

static int maps;

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    maps++;
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

int main(int argc, char **argv)
{
    int flag = 1, before;
    if (argc != 2 || MPI_Initialized == NULL) {
        return 2;
    }
    MPI_Initialized(&flag);
    before = maps;
    for (int i = 0; i < 100; i++) {
        MPI_Initialized(&flag);
    }
    printf("first %s, then %d in 100 calls, flag %d\n", before > 0 ? "one search" : "none",
           maps - before, flag);
    if (dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) == NULL) {
        printf("%s\n", dlerror());
    }
    MPI_Initialized(&flag);
    printf("flag %d\n", flag);
    return 0;
}
