/* rank.c ENDING [RANK [FILE]]: ten exchanges round the ring, then every rank or
 * the one named ends in a way:
 *   ok         MPI_Finalize, status 0
 *   status     MPI_Finalize, status 7
 *   early      exit(0) without MPI_Finalize, by every rank
 *   immediate  _exit(0) without MPI_Finalize, by every rank
 *   term, kill, segv   RANK sends itself the signal, the others wait for it
 *   abort      RANK calls MPI_Abort(5), the others wait for it
 *   wait       rank 0 makes FILE, all wait for a signal: SIGUSR1 ends with 3,
 *              any other as the system has it
 *   hang       RANK stays away, rank 0 makes FILE, the others wait in a barrier
 *   snapshot   MPI_Pcontrol(2), MPI_Finalize, status 0
 *   parent     prints whether the parent process has our preload
 *   spawn      starts two more of this program ("ok") and finalizes
 *   exec       MPI_Finalize, then runs this program again ("ok") in its place */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void ring(void)
{
    for (int i = 0; i < 10; i++) {
        int out = rank, in = -1;
        MPI_Sendrecv(&out, 1, MPI_INT, (rank + 1) % size, 0, &in, 1, MPI_INT,
                     (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        if (in != (rank + size - 1) % size) {
            printf("rank %d got %d\n", rank, in);
        }
    }
}

static void on_usr1(int signal)
{
    (void)signal;
    _exit(3);
}

static void wait_forever(const char *file)
{
    signal(SIGUSR1, on_usr1);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        fclose(fopen(file, "w"));
    }
    for (;;) {
        pause();
    }
}

static void hang(int absent, const char *file)
{
    if (rank == 0) {
        fclose(fopen(file, "w"));
    }
    if (rank == absent) {
        for (;;) {
            pause();
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void tell_parent(void)
{
    char path[64], text[1 << 16];
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)getppid());
    FILE *f = fopen(path, "r");
    size_t n = f != NULL ? fread(text, 1, sizeof(text) - 1, f) : 0;
    int found = 0;
    for (size_t i = 0; i < n; i += strlen(text + i) + 1) {
        text[n] = '\0';
        found |= strncmp(text + i, "LD_PRELOAD=", 11) == 0 &&
                 strstr(text + i, "libmpishim") != NULL;
    }
    printf("parent of rank %d: %zu bytes, %s\n", rank, n > 0 ? (size_t)1 : 0,
           found ? "preloaded" : "clean");
}

static void die(const char *how)
{
    if (strcmp(how, "abort") == 0) {
        MPI_Abort(MPI_COMM_WORLD, 5);
    }
    int number = strcmp(how, "kill") == 0 ? SIGKILL :
                 strcmp(how, "segv") == 0 ? SIGSEGV : SIGTERM;
    signal(number, SIG_DFL);
    kill(getpid(), number);
    for (;;) {
        pause();
    }
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "ok";
    int victim = argc > 2 ? atoi(argv[2]) : 0, status = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ring();
    printf("rank %d of %d\n", rank, size);
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(how, "status") == 0) {
        status = 7;
    } else if (strcmp(how, "early") == 0) {
        exit(0);
    } else if (strcmp(how, "immediate") == 0) {
        fflush(stdout);
        _exit(0);
    } else if (strcmp(how, "wait") == 0) {
        wait_forever(argv[3]);
    } else if (strcmp(how, "hang") == 0) {
        hang(victim, argv[3]);
    } else if (strcmp(how, "snapshot") == 0) {
        MPI_Pcontrol(2);
    } else if (strcmp(how, "parent") == 0) {
        tell_parent();
    } else if (strcmp(how, "spawn") == 0) {
        MPI_Comm children;
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0,
                       MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
        MPI_Comm_disconnect(&children);
    } else if (strcmp(how, "ok") != 0 && strcmp(how, "exec") != 0) {
        if (rank == victim) {
            die(how);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (strcmp(how, "ok") == 0) {
        MPI_Comm parent;
        MPI_Comm_get_parent(&parent);
        if (parent != MPI_COMM_NULL) {
            MPI_Comm_disconnect(&parent);
        }
    }
    MPI_Finalize();
    if (strcmp(how, "exec") == 0) {
        execl(argv[0], argv[0], "ok", (char *)NULL);
    }
    return status;
}
