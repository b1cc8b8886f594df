/*
 * Child processes of a rank; the argument says how the child ends: "exit",
 * "_exit", "exec", "system" or "popen".
 *
 * Each rank: Init, Comm_rank, 3 Sendrecv of 4 bytes, the child, 2 Sendrecv,
 * the child once more, Finalize. The children call nothing of MPI.
 */
#include <mpi.h>
#include <string.h>
#include <sys/wait.h>
#include "program.h"

static int child(const char *how)
{
    char line[64] = "";
    int status;
    pid_t pid;

    if (strcmp(how, "system") == 0)
        return system("echo from a shell; exit 5");
    if (strcmp(how, "popen") == 0) {
        FILE *pipe = popen("echo from a pipe; exit 6", "r");
        if (fgets(line, sizeof line, pipe) != NULL)
            fputs(line, stdout);
        return pclose(pipe);
    }
    pid = fork();
    if (pid == 0) {
        say("from a child");
        if (strcmp(how, "_exit") == 0)
            _exit(7);
        if (strcmp(how, "exec") == 0)
            execl("/bin/sh", "sh", "-c", "echo from a program; exit 8",
                  (char *)NULL);
        exit(9);
    }
    waitpid(pid, &status, 0);
    return status;
}

static int exchange(int rank, int times)
{
    int in, out = rank + 1, sum = 0;

    for (int k = 0; k < times; k++) {
        MPI_Sendrecv(&out, 1, MPI_INT, 1 - rank, k, &in, 1, MPI_INT, 1 - rank,
                     k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += in;
    }
    return sum;
}

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    say("rank %d: sum %d", rank, exchange(rank, 3));
    say("status %d", child(argv[1]));
    say("rank %d: sum %d", rank, exchange(rank, 2));
    say("status %d", child(argv[1]));
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
