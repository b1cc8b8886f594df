/* reuse.c MODE: messages and one-sided operations from known buffers. The
 * program follows them itself in the dullest of tables:
 *
 *   ledger path NAME ACCESSES BUFFERS REUSED RESIZED
 *   ledger eager NAME ACCESSES BUFFERS REUSED     of payloads up to 64 KiB
 *
 * Rank 0 sends, rank 1 receives. */
#include <mpi.h>
#include <pthread.h>

#include "ledger.h"

enum { SLOTS = 1 << 16, PATHS = 3, EAGER_LIMIT = 1 << 16 };
static const char *const path_names[PATHS] = {"send", "receive", "origin"};
static struct { const void *address; int64_t bytes; } table[PATHS][SLOTS];
static int64_t accesses[PATHS], buffers[PATHS], reused[PATHS], resized[PATHS];
static int64_t eager_accesses[PATHS], eager_buffers[PATHS], eager_reused[PATHS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int rank;

static void use(int path, const void *address, int64_t bytes)
{
    pthread_mutex_lock(&lock);
    unsigned slot = (unsigned)((uintptr_t)address * 2654435761u >> 8) % SLOTS;
    int eager = bytes <= EAGER_LIMIT;
    accesses[path]++;
    eager_accesses[path] += eager;
    while (table[path][slot].address != NULL &&
           table[path][slot].address != address) {
        slot = (slot + 1) % SLOTS;
    }
    if (table[path][slot].address == NULL) {
        buffers[path]++;
        eager_buffers[path] += eager;
    } else {
        reused[path]++;
        eager_reused[path] += eager;
        resized[path] += table[path][slot].bytes != bytes;
    }
    table[path][slot].address = address;
    table[path][slot].bytes = bytes;
    pthread_mutex_unlock(&lock);
}

/* One message; both ranks use a buffer of the same name. */
static void message(void *buffer, int bytes, int tag)
{
    use(rank == 0 ? 0 : 1, buffer, bytes);
    if (rank == 0) {
        MPI_Send(buffer, bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
    } else {
        MPI_Recv(buffer, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    }
}

/* LU: two boundary buffers of 1640 and 1560 bytes, 3750 times each, and few
 * others. */
static void lu(void)
{
    static char north[1640], west[1560];
    for (int i = 0; i < 3750; i++) {
        message(north, sizeof(north), 0);
        message(west, sizeof(west), 0);
        if (i % 39 == 0 && i / 39 < 96) {
            message(malloc(1600), 1600, 0);
        }
    }
}

/* CG: one variable of 8 bytes, and so many buffers used once. */
static void cg(int uses, int others)
{
    static double sum;
    char *arena = malloc((size_t)others * 1024);
    int next = 0;
    for (int i = 0; i < uses; i++) {
        message(&sum, sizeof(sum), 0);
        for (; (int64_t)next * uses < (int64_t)others * (i + 1); next++) {
            message(arena + (size_t)next * 1024, 1024, 0);
        }
    }
}

static void fresh(int n)
{
    for (int i = 0; i < n; i++) {
        message(malloc(256), 256, 0);
    }
}

static void resize(void)
{
    static char buffer[100000];
    for (int i = 0; i < 300; i++) {
        message(buffer, i % 3 == 0 ? 100000 : i % 3 == 1 ? 100 : 101, 0);
        message(buffer + 1, 100, 0);
    }
}

/* Buffers of payloads on both sides of the limit, and next to it. */
static void limit(void)
{
    static const int bytes[] = {1000, EAGER_LIMIT - 1, EAGER_LIMIT,
                                EAGER_LIMIT + 1, EAGER_LIMIT + 100, 300000};
    static char buffer[6][300000];
    for (int i = 0; i < 50; i++) {
        for (int k = 0; k < 6; k++) {
            if (i % (k + 1) == 0) {
                message(buffer[k], bytes[k], 0);
            }
        }
    }
}

static void onesided(void)
{
    static double window[64], from[3][8], to[2][8];
    MPI_Win win;
    MPI_Win_create(window, sizeof(window), 8, MPI_INFO_NULL, MPI_COMM_WORLD,
                   &win);
    for (int i = 0; i < 50; i++) {
        MPI_Win_fence(0, win);
        use(2, from[i % 3], 64);
        MPI_Put(from[i % 3], 8, MPI_DOUBLE, 1 - rank, 0, 8, MPI_DOUBLE, win);
        MPI_Win_fence(0, win);
        use(2, to[i % 2], 32);
        MPI_Get(to[i % 2], 4, MPI_DOUBLE, 1 - rank, 32, 4, MPI_DOUBLE, win);
        MPI_Win_fence(0, win);
        use(2, from[0], 8);
        MPI_Accumulate(from[0], 1, MPI_DOUBLE, 1 - rank, 63, 1, MPI_DOUBLE,
                       MPI_SUM, win);
        MPI_Win_fence(0, win);
    }
    MPI_Win_free(&win);
}

static void persistent(void)
{
    static char buffer[2][512];
    MPI_Request request[2];
    for (int i = 0; i < 2; i++) {
        if (rank == 0) {
            MPI_Send_init(buffer[i], 512, MPI_BYTE, 1, i, MPI_COMM_WORLD,
                          &request[i]);
        } else {
            MPI_Recv_init(buffer[i], 512, MPI_BYTE, 0, i, MPI_COMM_WORLD,
                          &request[i]);
        }
    }
    for (int i = 0; i < 200; i++) {
        use(rank == 0 ? 0 : 1, buffer[0], 512);
        MPI_Start(&request[0]);
        MPI_Wait(&request[0], MPI_STATUS_IGNORE);
        use(rank == 0 ? 0 : 1, buffer[0], 512);
        use(rank == 0 ? 0 : 1, buffer[1], 512);
        MPI_Startall(2, request);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        message(buffer[0], 100, 9);
    }
    MPI_Request_free(&request[0]);
    MPI_Request_free(&request[1]);
}

static void nonblocking(void)
{
    static char buffer[16][300000];
    MPI_Request request[16];
    for (int i = 0; i < 50; i++) {
        for (int k = 0; k < 16; k++) {
            int bytes = k % 2 == 0 ? 1000 : 300000;
            use(rank == 0 ? 0 : 1, buffer[k], bytes);
            if (rank == 0) {
                MPI_Isend(buffer[k], bytes, MPI_BYTE, 1, k, MPI_COMM_WORLD,
                          &request[k]);
            } else {
                MPI_Irecv(buffer[k], bytes, MPI_BYTE, 0, k, MPI_COMM_WORLD,
                          &request[k]);
            }
        }
        MPI_Waitall(16, request, MPI_STATUSES_IGNORE);
    }
}

static char shared[4096];

static void *worker(void *argument)
{
    int me = (int)(intptr_t)argument;
    char *own = malloc(128);
    for (int i = 0; i < 100; i++) {
        message(own, 128, me);
        message(own, 128, me);
        if (rank == 0) { /* reading a buffer at the same time is allowed */
            message(shared, 64, me);
        } else {
            message(own, 64, me);
        }
    }
    return NULL;
}

static void threads(void)
{
    pthread_t thread[4];
    for (intptr_t i = 0; i < 4; i++) {
        pthread_create(&thread[i], NULL, worker, (void *)i);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    ledger_open(rank);
    if (strcmp(mode, "lu") == 0) {
        lu();
    } else if (strcmp(mode, "cg") == 0) {
        cg(7904, 10501);
    } else if (strcmp(mode, "cg-small") == 0) {
        cg(198, 261);
    } else if (strcmp(mode, "fresh") == 0) {
        fresh(400);
    } else if (strcmp(mode, "fresh-many") == 0) {
        fresh(3000);
    } else if (strcmp(mode, "resize") == 0) {
        resize();
    } else if (strcmp(mode, "limit") == 0) {
        limit();
    } else if (strcmp(mode, "onesided") == 0) {
        onesided();
    } else if (strcmp(mode, "persistent") == 0) {
        persistent();
    } else if (strcmp(mode, "nonblocking") == 0) {
        nonblocking();
    } else if (strcmp(mode, "threads") == 0 &&
               provided == MPI_THREAD_MULTIPLE) {
        threads();
    } else {
        return 2;
    }
    for (int i = 0; i < PATHS; i++) {
        ledger("path %s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64,
               path_names[i], accesses[i], buffers[i], reused[i], resized[i]);
        ledger("eager %s %" PRId64 " %" PRId64 " %" PRId64, path_names[i],
               eager_accesses[i], eager_buffers[i], eager_reused[i]);
    }
    ledger_close();
    MPI_Finalize();
    return 0;
}
