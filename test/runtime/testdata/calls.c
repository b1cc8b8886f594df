/* calls.c: calls from every place that an application calls from, and as many of
 * each as the stand-ins must see on each of two ranks: 11 sends, 11 receives, 23
 * ranks asked. A file is written through MPI-IO, whose library calls MPI by
 * public names, and those must not be seen. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank;

static void exchange(int tag, int by_pmpi_name)
{
    int value = rank, got = -1;
    if (by_pmpi_name) {
        PMPI_Send(&value, 1, MPI_INT, 1 - rank, tag, MPI_COMM_WORLD);
        PMPI_Recv(&got, 1, MPI_INT, 1 - rank, tag, MPI_COMM_WORLD,
                  MPI_STATUS_IGNORE);
    } else {
        MPI_Send(&value, 1, MPI_INT, 1 - rank, tag, MPI_COMM_WORLD);
        MPI_Recv(&got, 1, MPI_INT, 1 - rank, tag, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    }
    if (got != 1 - rank) {
        printf("rank %d: got %d with tag %d\n", rank, got, tag);
        exit(1);
    }
}

/* inside a call of the library: the attribute is copied in MPI_Comm_dup */
static int copied(MPI_Comm comm, int key, void *extra, void *in, void *out,
                  int *flag)
{
    (void)comm, (void)key, (void)extra, (void)in, (void)out;
    exchange(3, 0);
    *flag = 0;
    return MPI_SUCCESS;
}

static void *thread(void *unused)
{
    (void)unused;
    exchange(4, 0);
    return NULL;
}

static void child(void)
{
    pid_t pid = fork();
    int status = 0;
    if (pid == 0) {
        for (int i = 0; i < 50; i++) {
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        }
        _exit(7);
    }
    waitpid(pid, &status, 0);
    if (WEXITSTATUS(status) != 7) {
        printf("rank %d: the child ended with status %d\n", rank, status);
        exit(1);
    }
}

/* No memory for the requests of a call ends the measurement. */
static void stop(void)
{
    enum { MANY = 100000 };
    static MPI_Request requests[MANY];
    struct rlimit before, none;
    for (int i = 0; i < MANY; i++) {
        requests[i] = MPI_REQUEST_NULL;
    }
    getrlimit(RLIMIT_AS, &before);
    none = before;
    none.rlim_cur = 4096;
    setrlimit(RLIMIT_AS, &none);
    MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
    setrlimit(RLIMIT_AS, &before);
}

static void file(const char *path)
{
    MPI_File f;
    int value = rank;
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR,
                  MPI_INFO_NULL, &f);
    MPI_File_write_at_all(f, rank * 4, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&f);
}

int main(int argc, char **argv)
{
    int level, key;
    MPI_Comm copy;
    pthread_t id;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    for (int i = 0; i < 20; i++) { /* a quick call: timed now and then */
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    }
    exchange(0, 0);
    exchange(1, 1);
    MPI_Comm_create_keyval(copied, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &key);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    pthread_create(&id, NULL, thread, NULL);
    pthread_join(id, NULL);
    file(argv[1]);
    child();
    MPI_Pcontrol(0); /* measurement pauses, the traffic goes on */
    exchange(5, 0);
    exchange(6, 1);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(copy, &copy);
    file(argv[1]);
    pthread_create(&id, NULL, thread, NULL);
    pthread_join(id, NULL);
    MPI_Pcontrol(1);
    exchange(7, 0);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    exchange(8, 1);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    stop();
    exchange(9, 0);
    exchange(10, 1);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    file(argv[1]);
    MPI_Finalize();
    printf("rank %d done\n", rank);
    return 0;
}
