/* large.c: datatypes of every constructor, and messages, by the functions with large
 * counts (MPI 4.0), or, where the library has none, by the others. What is sent
 * with a type has to be what MPI_Pack makes of it, and what is received with one
 * has to lie where MPI_Unpack puts it. Two ranks. */
#include "program.h"

#if MPI_VERSION >= 4
#define LARGE(name) name##_c
typedef MPI_Count number, bytes;
#else
#define LARGE(name) name
typedef int number;
typedef MPI_Aint bytes;
#endif

enum { COUNT = 3, ROOM = 1 << 16, BEFORE = 1 << 12 };
enum { TYPES = 14 };

/* One of each constructor, of ints or of the one before. */
static MPI_Datatype make(int which, MPI_Datatype base)
{
    const number lengths_[] = {2, 0, 3, 1}, at[] = {9, 5, 1, 6};
    const bytes bytes_at[] = {64, 40, -16, 24};
    const number sizes[] = {4, 5, 3}, part[] = {2, 3, 3}, start[] = {1, 2, 0};
    MPI_Datatype types[] = {base, MPI_CHAR, MPI_DOUBLE, base}, type = base;
    int process[] = {size, 1}, block[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
    int any[] = {MPI_DISTRIBUTE_DFLT_DARG, 2};
    switch (which) {
    case 0:
        LARGE(MPI_Type_contiguous)(5, base, &type);
        break;
    case 1:
        LARGE(MPI_Type_vector)(3, 2, 4, base, &type);
        break;
    case 2:
        LARGE(MPI_Type_create_hvector)(3, 2, 36, base, &type);
        break;
    case 3:
        LARGE(MPI_Type_indexed)(4, lengths_, at, base, &type);
        break;
    case 4:
        LARGE(MPI_Type_create_hindexed)(4, lengths_, bytes_at, base, &type);
        break;
    case 5:
        LARGE(MPI_Type_create_indexed_block)(4, 2, at, base, &type);
        break;
    case 6:
        LARGE(MPI_Type_create_hindexed_block)(4, 1, bytes_at, base, &type);
        break;
    case 7:
        LARGE(MPI_Type_create_struct)(4, lengths_, bytes_at, types, &type);
        break;
    case 8:
        LARGE(MPI_Type_create_resized)(base, -4, 20, &type);
        break;
    case 9:
        LARGE(MPI_Type_create_subarray)(3, sizes, part, start, MPI_ORDER_C, base, &type);
        break;
    case 10:
        LARGE(MPI_Type_create_subarray)(3, sizes, part, start, MPI_ORDER_FORTRAN, base, &type);
        break;
    case 11:
        LARGE(MPI_Type_create_darray)(size, 0, 2, sizes, block, any, process, MPI_ORDER_C, base, &type);
        break;
    case 12:
        MPI_Type_dup(base, &type);
        break;
    default:
        LARGE(MPI_Type_contiguous)(0, base, &type);
    }
    MPI_Type_commit(&type);
    return type;
}

static unsigned char memory[ROOM], expected[ROOM], packed[ROOM];

static void message(MPI_Datatype type, int what)
{
    int length = 0, position = 0, back = 0;
    number count = -1;
    MPI_Count elements = -1, elements_there = -1;
    MPI_Status status;
    MPI_Message matched;
    MPI_Request request;
    MPI_Pack_size(COUNT, type, MPI_COMM_WORLD, &length);
    CHECK(length <= ROOM);
    fill(memory, ROOM, (unsigned)what);
    MPI_Pack(memory + BEFORE, COUNT, type, packed, ROOM, &position, MPI_COMM_WORLD);
    if (rank == 0) {
        LARGE(MPI_Send)(memory + BEFORE, COUNT, type, 1, what, MPI_COMM_WORLD);
        LARGE(MPI_Isend)(memory + BEFORE, COUNT, type, 1, what, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        LARGE(MPI_Send)(packed, position, MPI_PACKED, 1, what, MPI_COMM_WORLD);
        return;
    }
    /* as bytes, and twice with the type */
    unsigned char *came = calloc(1, ROOM);
    LARGE(MPI_Recv)(came, ROOM, MPI_BYTE, 0, what, MPI_COMM_WORLD, &status);
    LARGE(MPI_Get_count)(&status, MPI_BYTE, &count);
    CHECK(count == position && memcmp(came, packed, (size_t)position) == 0);
    memset(expected, 0x5a, ROOM);
    MPI_Unpack(packed, position, &back, expected + BEFORE, COUNT, type, MPI_COMM_WORLD);
    for (int again = 0; again < 2; again++) {
        memset(memory, 0x5a, ROOM);
        if (again) {
            MPI_Mprobe(0, what, MPI_COMM_WORLD, &matched, &status);
            LARGE(MPI_Mrecv)(memory + BEFORE, COUNT, type, &matched, &status);
        } else {
            LARGE(MPI_Irecv)(memory + BEFORE, COUNT, type, 0, what, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, &status);
        }
        CHECK(memcmp(memory, expected, ROOM) == 0);
        LARGE(MPI_Get_count)(&status, type, &count);
        CHECK(count == (position == 0 ? 0 : COUNT));
        MPI_Get_elements_x(&status, type, &elements);
        CHECK(again == 0 || elements == elements_there);
        elements_there = elements;
    }
    free(came);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Datatype types[TYPES], both;
    for (int i = 0; i < TYPES; i++) {
        types[i] = make(i, MPI_INT);
        message(types[i], i);
    }
    for (int i = 0; i < TYPES; i++) {
        both = make((i + 5) % TYPES, types[i]);
        message(both, TYPES + i);
        MPI_Type_free(&both);
        MPI_Type_free(&types[i]);
    }
    return end();
}
