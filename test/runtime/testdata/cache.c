/* cache.c WHAT: long messages from rank 0 to rank 1, and the registrations that
 * are kept of their memory.
 *
 *   same   from one buffer to one buffer, again and again
 *   gone   each buffer serves for some messages; then it is unmapped, and another
 *          is mapped at its address
 *   heap   the same with malloc and free, of sizes that differ
 *   forks  between messages rank 0 forks children that exit, run programs, or
 *          write to the buffer
 *   many   far more buffers than may be pinned, in turn
 *
 * A pause behind each message lets memory be registered behind the program's
 * back. Each rank prints how many messages were wrong: none. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 256 << 10, ROUNDS = 120, TURN = 8, PAUSE_US = 2000, MANY = 64 };

static int rank;

static unsigned char *map(void *at)
{
    unsigned char *p = mmap(at, BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS |
                                (at != NULL ? MAP_FIXED_NOREPLACE : 0),
                            -1, 0);
    if (p == MAP_FAILED) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return p;
}

/* One message; whether it is wrong. */
static int pass(unsigned char *p, size_t bytes, int round)
{
    int wrong = 0;
    if (rank == 0) {
        for (size_t i = 0; i < bytes; i++) {
            p[i] = (unsigned char)(i * 7 + (size_t)round * 31);
        }
        MPI_Send(p, (int)bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    } else {
        memset(p, 0xee, bytes);
        MPI_Recv(p, (int)bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        for (size_t i = 0; i < bytes && wrong == 0; i++) {
            wrong = p[i] != (unsigned char)(i * 7 + (size_t)round * 31);
        }
    }
    usleep(PAUSE_US);
    return wrong;
}

static int same(void)
{
    unsigned char *p = map(NULL);
    int wrong = 0;
    for (int r = 0; r < ROUNDS; r++) {
        wrong += pass(p, BYTES, r);
    }
    return wrong;
}

static int gone(void)
{
    unsigned char *p = map(NULL);
    int wrong = 0;
    for (int r = 0; r < ROUNDS; r++) {
        wrong += pass(p, BYTES, r);
        if (r % TURN == TURN - 1) {
            munmap(p, BYTES);
            p = map(p);
        }
    }
    return wrong;
}

static int heap(void)
{
    int wrong = 0;
    for (int r = 0; r < ROUNDS / TURN; r++) {
        size_t bytes = 20000 + (size_t)(r * 7919 % 13) * 40000;
        unsigned char *p = malloc(bytes);
        for (int i = 0; i < TURN; i++) {
            wrong += pass(p, bytes, r * TURN + i);
        }
        free(p);
    }
    return wrong;
}

/* A child that ends in each way, and one that scribbles. */
static void breed(unsigned char *p, int round)
{
    pid_t child = fork();
    if (child == 0) {
        memset(p, 0x55, BYTES);
        round % 3 == 0   ? exit(0)
        : round % 3 == 1 ? _exit(0)
                         : (void)execl("/bin/true", "true", (char *)NULL);
    }
    waitpid(child, NULL, 0);
    if (system("true") != 0) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static int forks(void)
{
    unsigned char *p = map(NULL);
    int wrong = 0;
    for (int r = 0; r < ROUNDS; r++) {
        wrong += pass(p, BYTES, r);
        if (r % TURN == 0 && rank == 0) {
            breed(p, r / TURN);
        }
    }
    return wrong;
}

static int many(void)
{
    unsigned char *p[MANY];
    int wrong = 0;
    for (int i = 0; i < MANY; i++) {
        p[i] = map(NULL);
    }
    for (int r = 0; r < 2 * MANY; r++) {
        wrong += pass(p[r % MANY], BYTES, r);
    }
    return wrong;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } all[] = {{"same", same}, {"gone", gone}, {"heap", heap},
               {"forks", forks}, {"many", many}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (strcmp(argv[1], all[i].name) == 0) {
            printf("%d: %s: %d wrong\n", rank, argv[1], all[i].run());
        }
    }
    MPI_Finalize();
    return 0;
}
