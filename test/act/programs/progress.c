/* progress.c: what hangs when one of two engines in a process stands still. The
 * argument names the case. Two ranks; rank 0 has something under way while rank 1
 * is in a call that does not look at messages. */
#include "program.h"

enum { LONG = 4 << 20, LOOK = 99 };

static char out[LONG], in[LONG];

typedef void blocking_fn(void);

static void barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static void split(void)
{
    MPI_Comm made;
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &made);
    MPI_Comm_free(&made);
}

static void window(void)
{
    static int memory[4];
    MPI_Win win;
    int value = 5;
    MPI_Win_create(memory, sizeof(memory), 4, MPI_INFO_NULL, MPI_COMM_WORLD,
                   &win);
    MPI_Win_fence(0, win);
    MPI_Put(&value, 1, MPI_INT, 1 - rank, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    CHECK(memory[0] == 5);
    MPI_Win_free(&win);
}

static void broadcast(void)
{
    static char data[100000];
    if (rank == 0) {
        fill(data, sizeof(data), 1);
    }
    MPI_Bcast(data, (int)sizeof(data), MPI_BYTE, 0, MPI_COMM_WORLD);
    CHECK(filled(data, sizeof(data), 1));
}

static void collective_file(void)
{
    char name[64];
    char mine[4096], all[2 * sizeof(mine)];
    MPI_File file;
    MPI_Status status;
    int key = rank == 0 ? (int)getpid() : 0, n = (int)sizeof(mine);
    MPI_Bcast(&key, 1, MPI_INT, 0, MPI_COMM_WORLD);
    snprintf(name, sizeof(name), "/tmp/mpitrace-progress-%d", key);
    fill(mine, sizeof(mine), (unsigned)rank);
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR |
                  MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    MPI_File_write_at_all(file, rank * n, mine, n, MPI_BYTE, &status);
    MPI_File_sync(file);
    MPI_File_read_at_all(file, 0, all, 2 * n, MPI_BYTE, &status);
    MPI_File_close(&file);
    CHECK(filled(all, sizeof(mine), 0) &&
          filled(all + sizeof(mine), sizeof(mine), 1));
}

/* No call but MPI_Iprobe looks at messages until that of the other is here. */
static void look(void)
{
    MPI_Request request;
    int here = 0;
    MPI_Isend(NULL, 0, MPI_BYTE, 1 - rank, LOOK, MPI_COMM_WORLD, &request);
    while (!here) {
        MPI_Iprobe(1 - rank, LOOK, MPI_COMM_WORLD, &here, MPI_STATUS_IGNORE);
    }
    MPI_Recv(NULL, 0, MPI_BYTE, 1 - rank, LOOK, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* The message ends only if rank 1, inside the call, has matched it; rank 0 enters
 * the call only after that. */
static void send_then(blocking_fn *call)
{
    MPI_Request request;
    if (rank == 0) {
        fill(out, LONG, 2);
        MPI_Send(out, LONG, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        call();
    } else {
        MPI_Irecv(in, LONG, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
        call();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(filled(in, LONG, 2));
    }
}

/* A synchronous send whose wildcard receive is posted by a rank that is in the
 * call already; the sender is late. */
static void late_then(blocking_fn *call)
{
    MPI_Request requests[8];
    MPI_Status statuses[8];
    int values[8];
    if (rank == 0) {
        usleep(200000);
        for (int i = 0; i < 8; i++) {
            MPI_Ssend(&i, 1, MPI_INT, 1, i, MPI_COMM_WORLD);
        }
        call();
    } else {
        for (int i = 0; i < 8; i++) {
            MPI_Irecv(&values[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
                      MPI_COMM_WORLD, &requests[i]);
        }
        call();
        MPI_Waitall(8, requests, statuses);
        for (int i = 0; i < 8; i++) {
            CHECK(values[i] == i && statuses[i].MPI_TAG == i);
        }
    }
}

/* More than the receiver has room for, while it is in the call. */
static void flood_then(blocking_fn *call)
{
    enum { MANY = 5000 };
    static int values[MANY];
    static MPI_Request requests[MANY];
    for (int i = 0; i < MANY; i++) {
        values[i] = rank == 0 ? i : -1;
        if (rank == 1) {
            MPI_Irecv(&values[i], 1, MPI_INT, 0, 1, MPI_COMM_WORLD,
                      &requests[i]);
        }
    }
    if (rank == 0) {
        usleep(50000);
        for (int i = 0; i < MANY; i++) {
            MPI_Send(&values[i], 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        }
        call();
    } else {
        call();
        MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < MANY; i++) {
            CHECK(values[i] == i);
        }
    }
}

/* Rank 0 is in the call with something of every kind that it still owes: long and
 * synchronous sends that nobody has received, buffered and freed ones, receives
 * that are not matched. Rank 1 gets all of it, and only then enters the call. */
static void owe_then(blocking_fn *call)
{
    enum { MANY = 24, SOME = 100000 };
    static char room[SOME + MPI_BSEND_OVERHEAD], back[2][SOME];
    MPI_Request requests[MANY + 4], freed;
    char *buffer = room;
    int bytes = (int)sizeof(room);
    fill(out, LONG, 6);
    if (rank == 0) {
        int n = 0;
        MPI_Buffer_attach(room, (int)sizeof(room));
        MPI_Irecv(back[0], SOME, MPI_BYTE, 1, 20, MPI_COMM_WORLD,
                  &requests[n++]);
        MPI_Irecv(back[1], SOME, MPI_BYTE, MPI_ANY_SOURCE, 21, MPI_COMM_WORLD,
                  &requests[n++]);
        for (int i = 0; i < MANY; i++) {
            MPI_Isend(out, SOME + i, MPI_BYTE, 1, 1, MPI_COMM_WORLD,
                      &requests[n++]);
        }
        MPI_Isend(out, LONG, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &requests[n++]);
        MPI_Issend(out, 8, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &requests[n++]);
        MPI_Isend(out, SOME, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &freed);
        MPI_Request_free(&freed);
        MPI_Bsend(out, SOME, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
        call();
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
        MPI_Buffer_detach(&buffer, &bytes);
        CHECK(filled(back[0], SOME, 6) && filled(back[1], 10, 6));
    } else {
        /* the last first, so that nothing is here by chance */
        for (int tag = 5; tag > 0; tag--) {
            for (int i = 0; i < (tag == 1 ? MANY : 1); i++) {
                int count;
                MPI_Status status;
                memset(in, 0, LONG);
                MPI_Recv(in, LONG, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &status);
                MPI_Get_count(&status, MPI_BYTE, &count);
                CHECK(count == (tag == 2   ? LONG
                                : tag == 3 ? 8
                                           : SOME + i));
                CHECK(filled(in, (size_t)count, 6));
            }
        }
        MPI_Ssend(out, SOME, MPI_BYTE, 0, 20, MPI_COMM_WORLD);
        MPI_Ssend(out, 10, MPI_BYTE, 0, 21, MPI_COMM_WORLD);
        call();
    }
}

/* Rank 0 is in the call with more short sends than the other has room for, from a
 * few buffers: those that could not leave yet have to leave from there. Rank 1 gets
 * all of them, and only then enters the call. */
static void stall_then(blocking_fn *call)
{
    enum { MANY = 400, BUFFERS = 4, SHORT = 16000 };
    MPI_Request requests[MANY];
    if (rank == 0) {
        for (int i = 0; i < BUFFERS; i++) {
            fill(&out[i * SHORT], SHORT, (unsigned)i);
        }
        for (int i = 0; i < MANY; i++) {
            MPI_Isend(&out[i % BUFFERS * SHORT], SHORT, MPI_BYTE, 1, 1,
                      MPI_COMM_WORLD, &requests[i]);
        }
        call();
        MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
    } else {
        for (int i = 0; i < MANY; i++) {
            MPI_Recv(in, SHORT, MPI_BYTE, 0, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            CHECK(filled(in, SHORT, (unsigned)i % BUFFERS));
        }
        call();
    }
}

/* Rank 1 is in the call with more receives of long messages than it reads at once,
 * of each kind: nonblocking, persistent, of messages that it has matched. Rank 0
 * enters it when all of them are gone. */
static void queue_then(blocking_fn *call)
{
    enum { MANY = 40, EACH = 300000, MATCHED = 2, ALL = MANY + MATCHED + 1 };
    static char place[ALL][EACH];
    MPI_Request requests[ALL];
    MPI_Message matched[MATCHED];
    fill(out, EACH, 4);
    memset(place, 0, sizeof(place));
    if (rank == 0) {
        for (int i = 0; i < ALL; i++) {
            int tag = i < MATCHED ? 2 : i < ALL - 1 ? 1 : 3;
            MPI_Isend(out, EACH, MPI_BYTE, 1, tag, MPI_COMM_WORLD,
                      &requests[i]);
        }
        MPI_Waitall(ALL, requests, MPI_STATUSES_IGNORE);
        call();
        return;
    }
    for (int i = 0; i < MATCHED; i++) {
        MPI_Mprobe(0, 2, MPI_COMM_WORLD, &matched[i], MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < MANY; i++) {
        MPI_Irecv(place[i], EACH, MPI_BYTE, 0, 1, MPI_COMM_WORLD,
                  &requests[i]);
    }
    for (int i = 0; i < MATCHED; i++) {
        MPI_Imrecv(place[MANY + i], EACH, MPI_BYTE, &matched[i],
                   &requests[MANY + i]);
    }
    MPI_Recv_init(place[ALL - 1], EACH, MPI_BYTE, 0, 3, MPI_COMM_WORLD,
                  &requests[ALL - 1]);
    MPI_Start(&requests[ALL - 1]);
    call();
    MPI_Waitall(ALL, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[ALL - 1]);
    for (int i = 0; i < ALL; i++) {
        CHECK(filled(place[i], EACH, 4));
    }
}

/* Rank 1 cancels long receives while rank 0, which would send what they are for, is in
 * the call: where they have asked for it, that they end is for rank 0 to say. */
static void revoke_then(blocking_fn *call)
{
    static int tag = 100; /* no two of one envelope: all of them ask */
    MPI_Request request;
    MPI_Status status;
    int cancelled = 0;
    tag++;
    if (rank == 1) {
        usleep(50000);
        MPI_Irecv(in, LONG, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &request);
        usleep(1000);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        CHECK(cancelled);
    }
    call();
}

static void with_each(void (*what)(blocking_fn *))
{
    what(barrier);
    what(split);
    what(window);
    what(broadcast);
    what(collective_file);
    what(look);
}

/* A long message of the library's own, then a wait of ours that drives it. */
static void native_then_ours(int polls)
{
    MPI_Comm native;
    MPI_Request request;
    int flag = 0;
    MPI_Comm_idup(MPI_COMM_WORLD, &native, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 0) {
        fill(out, LONG, 3);
        MPI_Isend(out, LONG, MPI_BYTE, 1, 1, native, &request);
        while (polls && !flag) {
            MPI_Iprobe(1, 2, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        }
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(in, LONG, MPI_BYTE, 0, 1, native, MPI_STATUS_IGNORE);
        CHECK(filled(in, LONG, 3));
        MPI_Send(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
    }
    MPI_Comm_free(&native);
}

/* Nothing but MPI_Iprobe, while a long message leaves and one comes. */
static void only_iprobe(void)
{
    MPI_Request request;
    MPI_Status status;
    int flag = 0, count;
    fill(out, LONG, 4);
    MPI_Isend(out, LONG, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &request);
    while (!flag) {
        MPI_Iprobe(1 - rank, 1, MPI_COMM_WORLD, &flag, &status);
    }
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK(count == LONG);
    MPI_Recv(in, LONG, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &status);
    CHECK(filled(in, LONG, 4));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Short messages that nobody receives, and buffered ones that are received while
 * their sender is in MPI_Finalize. */
static void at_the_end(void)
{
    static char room[LONG + MPI_BSEND_OVERHEAD];
    MPI_Request request;
    if (rank == 0) {
        MPI_Buffer_attach(room, (int)sizeof(room));
        fill(out, LONG, 5);
        MPI_Bsend(out, LONG, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Isend(out, 100, MPI_BYTE, 1, 7, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
        MPI_Send(out, 10, MPI_BYTE, 1, 8, MPI_COMM_WORLD); /* not received */
    } else {
        usleep(200000);
        MPI_Recv(in, LONG, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(filled(in, LONG, 5));
        MPI_Recv(in, LONG, MPI_BYTE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "send") == 0) {
        with_each(send_then);
    } else if (strcmp(what, "late") == 0) {
        with_each(late_then);
    } else if (strcmp(what, "flood") == 0) {
        with_each(flood_then);
    } else if (strcmp(what, "owe") == 0) {
        with_each(owe_then);
    } else if (strcmp(what, "queue") == 0) {
        with_each(queue_then);
    } else if (strcmp(what, "revoke") == 0) {
        with_each(revoke_then);
    } else if (strcmp(what, "stall") == 0) {
        with_each(stall_then);
    } else if (strcmp(what, "native") == 0) {
        native_then_ours(0);
        native_then_ours(1);
    } else if (strcmp(what, "iprobe") == 0) {
        only_iprobe();
    } else if (strcmp(what, "end") == 0) {
        at_the_end();
        MPI_Finalize();
        say("%s", failures == 0 ? "right" : "wrong");
        return failures != 0;
    } else {
        failures++;
    }
    return end();
}
