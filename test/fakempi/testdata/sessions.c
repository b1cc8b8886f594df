/* Threads that open and close sessions at the same time, as MPI 4.0, 11.3, lets them. */
#include <pthread.h>
#include <stdio.h>

int MPI_Session_init(int, int, int *);
int MPI_Session_finalize(int *);
int MPI_Send(const void *, int, int, int, int, int);

enum { THREADS = 8 };

static pthread_barrier_t together;

static void *user(void *arg)
{
    int session = 0;
    (void)arg;
    pthread_barrier_wait(&together);
    MPI_Session_init(0x1c000000, 0x54000000, &session);
    MPI_Send(NULL, 0, 0x4c00010d, 0, 0, 0x44000000);
    pthread_barrier_wait(&together);
    MPI_Session_finalize(&session);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, user, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("closed\n");
    return 0;
}
