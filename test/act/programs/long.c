/* long.c: messages longer than an int can count: contiguous and with holes, probed,
 * of less room than they need, and, where the library can, counted in bytes. Two
 * ranks; 4.5 GiB of memory. */
#include "program.h"

/* A block is 1 MiB, of which the type with holes leaves out the last sixteenth. */
enum { BLOCK = 1 << 20, PART = BLOCK - BLOCK / 16, BLOCKS = 2200 };
enum { WORDS = BLOCK / 8, PART_WORDS = PART / 8 };

static const size_t words = (size_t)BLOCKS * WORDS;
static uint64_t *memory;

static uint64_t word(size_t i) { return (i + 1) * 0x9E3779B97F4A7C15U; }

/* Sent words are those of `word`; where none is received memory stays 0. */
static void prepare(int sends)
{
    for (size_t i = 0; i < words; i++) {
        memory[i] = sends ? word(i) : 0;
    }
}

static int sent_to(size_t i, int holes) { return !holes || i % WORDS < PART_WORDS; }

static size_t wrong(int holes)
{
    size_t found = 0;
    for (size_t i = 0; i < words; i++) {
        found += memory[i] != (sent_to(i, holes) ? word(i) : 0);
    }
    return found;
}

/* One message from rank 0, which knows its type as one of blocks. */
static void message(MPI_Datatype block, int holes, int probed)
{
    MPI_Status status;
    MPI_Request request;
    MPI_Count elements = -1;
    int count = -1;
    prepare(rank == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Isend(memory, BLOCKS, block, 1, 7, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        return;
    }
    if (probed) {
        MPI_Message matched;
        MPI_Mprobe(0, 7, MPI_COMM_WORLD, &matched, &status);
        MPI_Get_count(&status, block, &count);
        CHECK(count == BLOCKS);
        MPI_Mrecv(memory, BLOCKS, block, &matched, &status);
    } else {
        MPI_Irecv(memory, BLOCKS, block, 0, 7, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, &status);
    }
    MPI_Get_count(&status, block, &count);
    MPI_Get_elements_x(&status, block, &elements);
    CHECK(count == BLOCKS);
    CHECK(elements == (MPI_Count)BLOCKS * (holes ? PART : BLOCK));
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK(count == MPI_UNDEFINED);
    CHECK(wrong(holes) == 0);
}

/* The receive has a block less than there is, which stays as it was. */
static void truncated(MPI_Datatype block)
{
    int error = MPI_SUCCESS;
    prepare(rank == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Send(memory, BLOCKS, block, 1, 8, MPI_COMM_WORLD);
        return;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    error = MPI_Recv(memory, BLOCKS - 1, block, 0, 8, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    CHECK(class_of(error) == MPI_ERR_TRUNCATE);
    CHECK(memory[words - WORDS] == 0 && memory[words - 1] == 0);
}

#if MPI_VERSION >= 4
/* Without a type for blocks; there is room for one byte more. */
static void counted(void)
{
    MPI_Count all = (MPI_Count)(words * sizeof(*memory)) - 1, count = 0;
    MPI_Status status;
    prepare(rank == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Send_c(memory, all, MPI_BYTE, 1, 9, MPI_COMM_WORLD);
        return;
    }
    MPI_Probe(0, 9, MPI_COMM_WORLD, &status);
    MPI_Get_count_c(&status, MPI_BYTE, &count);
    CHECK(count == all);
    MPI_Recv_c(memory, all + 1, MPI_BYTE, 0, 9, MPI_COMM_WORLD, &status);
    MPI_Get_count_c(&status, MPI_BYTE, &count);
    CHECK(count == all);
    uint64_t last = word(words - 1);
    memcpy((char *)memory + all, (char *)&last + sizeof(last) - 1, 1);
    CHECK(wrong(0) == 0);
}
#else
static void counted(void) {}
#endif

int main(int argc, char **argv)
{
    MPI_Datatype block, part, holed;
    begin(&argc, &argv);
    memory = malloc(words * sizeof(*memory));
    if (memory == NULL) {
        say("no memory for %zu bytes", words * sizeof(*memory));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Type_contiguous(BLOCK, MPI_BYTE, &block);
    MPI_Type_commit(&block);
    MPI_Type_contiguous(PART, MPI_BYTE, &part);
    MPI_Type_create_resized(part, 0, BLOCK, &holed);
    MPI_Type_commit(&holed);

    message(block, 0, 1);
    message(holed, 1, 0);
    counted();
    truncated(block);

    MPI_Type_free(&holed);
    MPI_Type_free(&part);
    MPI_Type_free(&block);
    free(memory);
    return end();
}
