/* errors.c: what is wrong is found, by the class that MPI says, through the
 * communicator's error handler. Two ranks. */
#include "program.h"

/* Open MPI 5 takes it for memory, natively too. */
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5
#define CHECKS_NULL 0
#else
#define CHECKS_NULL 1
#endif

static int called, last;

static void handler(MPI_Comm *comm, int *error, ...)
{
    (void)comm;
    called++;
    last = class_of(*error);
}

/* Too long a message: the first bytes may have come. */
static void truncated(MPI_Comm comm, int length)
{
    static char buffer[LONGEST];
    MPI_Request requests[2];
    MPI_Status status, statuses[2];
    int value = -1, more = -1;
    if (rank == 1) {
        for (int i = 0; i < 3; i++) {
            MPI_Send(buffer, length, MPI_BYTE, 0, 1, comm);
        }
        MPI_Send(&rank, 1, MPI_INT, 0, 2, comm);
        MPI_Send(&rank, 1, MPI_INT, 0, 2, comm);
        return;
    }
    CHECK(class_of(MPI_Recv(&value, 1, MPI_CHAR, 1, 1, comm, &status)) ==
          MPI_ERR_TRUNCATE);
    MPI_Irecv(&value, 1, MPI_CHAR, 1, 1, comm, &requests[0]);
    CHECK(class_of(MPI_Wait(&requests[0], &status)) == MPI_ERR_TRUNCATE);
    CHECK(requests[0] == MPI_REQUEST_NULL);
    MPI_Irecv(&value, 1, MPI_INT, 1, 2, comm, &requests[0]);
    MPI_Irecv(&more, 1, MPI_CHAR, 1, 1, comm, &requests[1]);
    CHECK(class_of(MPI_Waitall(2, requests, statuses)) == MPI_ERR_IN_STATUS);
    CHECK(class_of(statuses[1].MPI_ERROR) == MPI_ERR_TRUNCATE);
    CHECK(statuses[0].MPI_ERROR == MPI_SUCCESS ||
          statuses[0].MPI_ERROR == MPI_ERR_PENDING);
    if (statuses[0].MPI_ERROR == MPI_ERR_PENDING) {
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
    CHECK(value == 1);
    MPI_Recv(&value, 1, MPI_INT, 1, 2, comm, &status); /* it goes on */
    CHECK(value == 1);
}

static void wrong_arguments(MPI_Comm comm)
{
    int value = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype type;
    CHECK(class_of(MPI_Send(&value, 1, MPI_INT, size, 0, comm)) ==
          MPI_ERR_RANK);
    CHECK(class_of(MPI_Send(&value, 1, MPI_INT, -77, 0, comm)) ==
          MPI_ERR_RANK);
    CHECK(class_of(MPI_Send(&value, 1, MPI_INT, 0, -5, comm)) == MPI_ERR_TAG);
    CHECK(class_of(MPI_Send(&value, -1, MPI_INT, 0, 0, comm)) ==
          MPI_ERR_COUNT);
    CHECK(class_of(MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 0, comm)) ==
          MPI_ERR_TYPE);
    CHECK(!CHECKS_NULL || class_of(MPI_Send(NULL, 1, MPI_INT, 0, 0, comm)) ==
                              MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Isend(&value, 1, MPI_INT, size, 0, comm, &request)) ==
          MPI_ERR_RANK);
    CHECK(class_of(MPI_Irecv(&value, -1, MPI_INT, 0, 0, comm, &request)) ==
          MPI_ERR_COUNT);
    CHECK(class_of(MPI_Recv(&value, 1, MPI_INT, size, 0, comm,
                            MPI_STATUS_IGNORE)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Ssend_init(&value, 1, MPI_INT, 0, -5, comm,
                                  &request)) == MPI_ERR_TAG);
    CHECK(class_of(MPI_Sendrecv(&value, 1, MPI_INT, size, 0, &value, 1,
                                MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE)) ==
          MPI_ERR_RANK);
    /* a half that does nothing, beside one whose message never comes */
    CHECK(class_of(MPI_Sendrecv(&value, -1, MPI_INT, MPI_PROC_NULL, 0, &value, 1,
                                MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE)) ==
          MPI_ERR_COUNT);
    CHECK(class_of(MPI_Sendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, -5, &value, 1,
                                MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE)) ==
          MPI_ERR_TAG);
    CHECK(class_of(MPI_Sendrecv(&value, 1, MPI_INT, 0, 0, &value, 1,
                                MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, comm,
                                MPI_STATUS_IGNORE)) == MPI_ERR_TYPE);
    CHECK(class_of(MPI_Probe(size, 0, comm, MPI_STATUS_IGNORE)) ==
          MPI_ERR_RANK);
    MPI_Type_contiguous(2, MPI_INT, &type); /* not committed */
    CHECK(class_of(MPI_Send(&value, 1, type, 0, 0, comm)) == MPI_ERR_TYPE);
    MPI_Type_commit(&type);
    if (rank == 1) {
        int pair[2] = {3, 4};
        MPI_Send(pair, 1, type, 0, 12, comm);
    } else {
        int pair[2] = {0, 0};
        MPI_Recv(pair, 1, type, 1, 12, comm, MPI_STATUS_IGNORE);
        CHECK(pair[0] == 3 && pair[1] == 4);
    }
    MPI_Type_free(&type);
    MPI_Type_vector(3, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    CHECK(!CHECKS_NULL || class_of(MPI_Send(NULL, 1, type, 0, 0, comm)) ==
                              MPI_ERR_BUFFER);
    CHECK(!CHECKS_NULL ||
          class_of(MPI_Irecv(NULL, 1, type, 0, 0, comm, &request)) ==
              MPI_ERR_BUFFER);
    MPI_Type_free(&type);
}

/* No room in the attached buffer, or none attached. */
static void no_buffer(MPI_Comm comm)
{
    static char payload[5000], room[2000 + MPI_BSEND_OVERHEAD];
    void *given;
    int bytes;
    CHECK(class_of(MPI_Bsend(payload, 5000, MPI_CHAR, 1 - rank, 3, comm)) ==
          MPI_ERR_BUFFER);
    MPI_Buffer_attach(room, (int)sizeof(room));
    CHECK(class_of(MPI_Bsend(payload, 5000, MPI_CHAR, 1 - rank, 3, comm)) ==
          MPI_ERR_BUFFER);
    CHECK(MPI_Bsend(payload, 1000, MPI_CHAR, 1 - rank, 3, comm) ==
          MPI_SUCCESS);
    MPI_Recv(payload, 5000, MPI_CHAR, 1 - rank, 3, comm, MPI_STATUS_IGNORE);
    MPI_Buffer_detach(&given, &bytes);
    CHECK(given == room && bytes == (int)sizeof(room));
}

/* Open MPI says nothing before all have ended, and MPICH 4.2 leaves the handles of
 * those that have. */
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40200000
#define SOME_END
enum { DONE, CUT, AWAITED, AWAITED_THERE, FOUR };

/* A message that is cut off among others of which some have come, and some have not:
 * those that have come end, the others stay. Of two communicators, the second of which
 * the library makes. */
static void some_end(MPI_Comm comm)
{
    int got[FOUR] = {0}, one = 1, done = 0, rc = MPI_SUCCESS;
    char cut[4], text[8] = "1234567";
    MPI_Request r[FOUR], request;
    MPI_Status statuses[FOUR];
    MPI_Comm theirs;
    MPI_Comm_idup(comm, &theirs, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_set_errhandler(theirs, MPI_ERRORS_RETURN);
    if (rank == 1) {
        MPI_Send(&one, 1, MPI_INT, 0, DONE, comm);
        MPI_Send(text, 8, MPI_CHAR, 0, CUT, theirs);
        MPI_Recv(&one, 1, MPI_INT, 0, 9, comm, MPI_STATUS_IGNORE);
        MPI_Send(&one, 1, MPI_INT, 0, AWAITED, comm);
        MPI_Send(&one, 1, MPI_INT, 0, AWAITED_THERE, theirs);
        MPI_Comm_free(&theirs);
        return;
    }
    MPI_Irecv(&got[DONE], 1, MPI_INT, 1, DONE, comm, &r[DONE]);
    MPI_Irecv(cut, 4, MPI_CHAR, 1, CUT, theirs, &r[CUT]);
    MPI_Irecv(&got[AWAITED], 1, MPI_INT, 1, AWAITED, comm, &r[AWAITED]);
    MPI_Irecv(&got[AWAITED_THERE], 1, MPI_INT, 1, AWAITED_THERE, theirs,
              &r[AWAITED_THERE]);
    while (rc == MPI_SUCCESS && !done) {
        rc = MPI_Testall(FOUR, r, &done, statuses);
    }
    CHECK(class_of(rc) == MPI_ERR_IN_STATUS && !done);
    CHECK(class_of(statuses[CUT].MPI_ERROR) == MPI_ERR_TRUNCATE);
    CHECK(r[CUT] == MPI_REQUEST_NULL);
    CHECK(class_of(statuses[AWAITED].MPI_ERROR) == MPI_ERR_PENDING);
    CHECK(class_of(statuses[AWAITED_THERE].MPI_ERROR) == MPI_ERR_PENDING);
    CHECK(r[AWAITED] != MPI_REQUEST_NULL && r[AWAITED_THERE] != MPI_REQUEST_NULL);
    if (class_of(statuses[DONE].MPI_ERROR) != MPI_ERR_PENDING) {
        CHECK(statuses[DONE].MPI_ERROR == MPI_SUCCESS && got[DONE] == 1);
        CHECK(r[DONE] == MPI_REQUEST_NULL);
    }
    MPI_Send(&one, 1, MPI_INT, 1, 9, comm);
    CHECK(MPI_Waitall(FOUR, r, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    CHECK(got[DONE] == 1 && got[AWAITED] == 1 && got[AWAITED_THERE] == 1);
    MPI_Comm_free(&theirs);
}
#endif

/* By calls that leave the message as it is, too, through the handler that the library
 * chooses then. */
static void told(MPI_Comm own)
{
    int value = 5, before = called, there = 0, rc = MPI_SUCCESS;
    MPI_Request request;
    MPI_Message message;
    MPI_Errhandler mine;
    if (rank == 1) {
        MPI_Send(&value, 1, MPI_INT, 0, 1, own);
        MPI_Send(&value, 1, MPI_INT, 0, 2, own);
        return;
    }
    MPI_Comm_create_errhandler(handler, &mine);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine);
    MPI_Errhandler_free(&mine);
    MPI_Irecv(&value, 1, MPI_CHAR, 1, 1, own, &request);
    while (!there) {
        rc = MPI_Request_get_status(request, &there, MPI_STATUS_IGNORE);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(called - before == (rc != MPI_SUCCESS));
#if defined(MPICH)
    CHECK(class_of(rc) == MPI_ERR_TRUNCATE);
#endif
    CHECK(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)) == MPI_ERR_TRUNCATE);
    value = 0;
    MPI_Mprobe(1, 2, own, &message, MPI_STATUS_IGNORE);
#if defined(OPEN_MPI) /* MPICH calls the handler of MPI_COMM_WORLD */
    before = called;
    CHECK(class_of(MPI_Mrecv(&value, -1, MPI_INT, &message, MPI_STATUS_IGNORE)) ==
          MPI_ERR_COUNT);
    CHECK(called == before + 1 && last == MPI_ERR_COUNT);
    CHECK(class_of(MPI_Imrecv(&value, 1, MPI_DATATYPE_NULL, &message, &request)) ==
          MPI_ERR_TYPE);
    CHECK(called == before + 2 && last == MPI_ERR_TYPE);
#endif
    MPI_Mrecv(&value, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    CHECK(value == 5);
}

int main(int argc, char **argv)
{
    MPI_Comm comm, own;
    MPI_Errhandler mine;
    int value;
    begin(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int l = 2; l < LENGTHS; l++) {
        truncated(comm, lengths[l]);
    }
    wrong_arguments(comm);
    no_buffer(comm);
#ifdef SOME_END
    some_end(comm);
#endif
    MPI_Comm_dup(comm, &own);
    MPI_Comm_create_errhandler(handler, &mine);
    MPI_Comm_set_errhandler(own, mine);
    MPI_Errhandler_free(&mine);
    if (rank == 1) {
        MPI_Send(&value, 1, MPI_INT, 0, 1, own);
    } else {
        CHECK(class_of(MPI_Recv(&value, 1, MPI_CHAR, 1, 1, own,
                                MPI_STATUS_IGNORE)) == MPI_ERR_TRUNCATE);
        CHECK(called == 1 && last == MPI_ERR_TRUNCATE);
    }
    MPI_Send(&value, 1, MPI_INT, size, 1, own);
    CHECK(last == MPI_ERR_RANK);
    told(own);
    MPI_Comm_free(&own);
    MPI_Comm_free(&comm);
    return end();
}
