/*
 * The library of fork_late.c.
 */
#include <sys/wait.h>
#include "program.h"

__attribute__((destructor)) static void end(void)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        exit(3);
    }
    waitpid(child, &status, 0);
    say("child ended with %d", WEXITSTATUS(status));
}
