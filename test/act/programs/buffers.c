/* buffers.c: buffered messages against their buffer, the process's and, since
 * MPI 4.1, a communicator's: its room, what detaching waits for, and messages that
 * outlive their communicator. Two ranks. */
#include "program.h"

enum { SHORT = 100, LONG = LONGEST, MANY = 40 };

static char out[LONG], in[LONG];

static void receive(MPI_Comm comm, int bytes, unsigned seed)
{
    MPI_Status status;
    int got = -1;
    memset(in, 0, sizeof(in));
    MPI_Recv(in, LONG, MPI_BYTE, 0, 7, comm, &status);
    MPI_Get_count(&status, MPI_BYTE, &got);
    CHECK(got == bytes && filled(in, (size_t)bytes, seed));
}

static int buffered(MPI_Comm comm, int bytes, unsigned seed)
{
    fill(out, (size_t)bytes, seed);
    int error = MPI_Bsend(out, bytes, MPI_BYTE, 1, 7, comm);
    memset(out, 0, (size_t)bytes); /* it has left */
    return error == MPI_SUCCESS ? MPI_SUCCESS : class_of(error);
}

/* More than there is room for is refused; what was there before is not lost. */
static void room(MPI_Comm comm, int count, int bytes)
{
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int i = 0; rank == 0 && i < count; i++) {
        CHECK(buffered(comm, bytes, (unsigned)i) == MPI_SUCCESS);
    }
    if (rank == 0) {
        CHECK(buffered(comm, bytes, 99) == MPI_ERR_BUFFER);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; rank == 1 && i < count; i++) {
        receive(comm, bytes, (unsigned)i);
    }
}

static void process(void)
{
    int bytes = 2 * (LONG + MPI_BSEND_OVERHEAD), size_ = 0;
    void *memory = malloc((size_t)bytes), *back = NULL;
    MPI_Buffer_attach(memory, bytes);
    room(MPI_COMM_WORLD, 2, LONG);
    MPI_Buffer_detach(&back, &size_);
    CHECK(back == memory && size_ == bytes);
    free(memory);
}

/* Without a buffer a message is refused, but of Open MPI, which sends short ones at
 * once. */
static void unbuffered(void)
{
    if (rank == 0) {
        CHECK(buffered(MPI_COMM_WORLD, LONG, 1) == MPI_ERR_BUFFER);
    }
#ifdef OPEN_MPI
    for (int i = 0; rank == 0 && i < MANY; i++) {
        CHECK(buffered(MPI_COMM_WORLD, SHORT, (unsigned)i) == MPI_SUCCESS);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; rank == 1 && i < MANY; i++) {
        receive(MPI_COMM_WORLD, SHORT, (unsigned)i);
    }
#else
    if (rank == 0) {
        CHECK(buffered(MPI_COMM_WORLD, SHORT, 1) == MPI_ERR_BUFFER);
    }
#endif
}

/* The communicator is freed before they are received. */
static void outlive(int bytes)
{
    int all = MANY * (bytes + MPI_BSEND_OVERHEAD), size_ = 0;
    void *memory = malloc((size_t)all), *back;
    MPI_Comm comms[3];
    MPI_Buffer_attach(memory, all);
    for (int i = 0; i < 3; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    }
    for (int i = 0; i < 3; i++) {
        if (rank == 0) {
            CHECK(buffered(comms[i], bytes, (unsigned)i) == MPI_SUCCESS);
        } else {
            receive(comms[i], bytes, (unsigned)i);
        }
        MPI_Comm_free(&comms[i]);
    }
    MPI_Buffer_detach(&back, &size_);
    free(memory);
}

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)

/* A communicator's buffer is used in place of the process's, and detached without
 * regard to messages of the other one. */
static void communicator(void)
{
    int bytes = LONG + MPI_BSEND_OVERHEAD, size_ = 0;
    void *memory = malloc((size_t)bytes), *other = malloc((size_t)bytes), *back;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Buffer_attach(other, bytes);
    MPI_Comm_attach_buffer(comm, memory, bytes);
    room(comm, 1, LONG);
    MPI_Comm_flush_buffer(comm);
    if (rank == 0) {
        CHECK(buffered(MPI_COMM_WORLD, LONG, 5) == MPI_SUCCESS);
        CHECK(buffered(comm, SHORT, 6) == MPI_SUCCESS);
    } else {
        receive(comm, SHORT, 6);
    }
    MPI_Comm_flush_buffer(comm);
    MPI_Comm_detach_buffer(comm, &back, &size_);
    CHECK(back == memory && size_ == bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) { /* into what is the process's from now on, and is full */
        CHECK(buffered(comm, LONG, 7) == MPI_ERR_BUFFER);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        receive(MPI_COMM_WORLD, LONG, 5);
    }
    MPI_Buffer_flush();
    if (rank == 0) {
        CHECK(buffered(comm, LONG, 8) == MPI_SUCCESS);
    } else {
        receive(comm, LONG, 8);
    }
    MPI_Request request;
    if (rank == 0) { /* there is room when the flush has ended, and not before */
        MPI_Buffer_iflush(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(buffered(comm, LONG, 9) == MPI_SUCCESS);
    } else {
        receive(comm, LONG, 9);
    }
    MPI_Buffer_detach(&back, &size_);
    MPI_Comm_free(&comm);
    free(memory);
    free(other);
}

/* As much as there is memory. */
static void automatic(void)
{
    int size_ = -1;
    void *back;
    MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0);
    for (int i = 0; rank == 0 && i < MANY; i++) {
        CHECK(buffered(MPI_COMM_WORLD, i % 2 ? LONG : SHORT, (unsigned)i) ==
              MPI_SUCCESS);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; rank == 1 && i < MANY; i++) {
        receive(MPI_COMM_WORLD, i % 2 ? LONG : SHORT, (unsigned)i);
    }
    MPI_Buffer_detach(&back, &size_);
    CHECK(back == MPI_BUFFER_AUTOMATIC && size_ == 0);
}

#else

static void communicator(void) {}
static void automatic(void) {}

#endif

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    process();
    unbuffered();
    outlive(SHORT);
    outlive(LONG);
    communicator();
    automatic();
    return end();
}
