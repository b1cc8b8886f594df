/* types.c: datatypes of every constructor, nested at random, are received as the
 * library itself packs and unpacks them: by the same type, by another with the
 * same signature, and by bytes; freed while they are in use. Two ranks. */
#include "program.h"

enum { ROOM = 1 << 20, CENTRE = ROOM / 2, ROUNDS = 150 };

static char out[ROOM], in[ROOM], packed[ROOM], expected[ROOM], probe[ROOM];
static unsigned seed = 1;

/* the same on both ranks */
static int dice(int n)
{
    seed = seed * 1103515245u + 12345u;
    return (int)((seed >> 16) % (unsigned)n);
}

static MPI_Datatype basic(void)
{
    MPI_Datatype types[] = {MPI_FLOAT,  MPI_SHORT,      MPI_INT,
                            MPI_DOUBLE, MPI_DOUBLE_INT, MPI_SHORT_INT,
                            MPI_2INT,   MPI_LONG};
    return types[dice(8)];
}

static MPI_Datatype make(int depth);

static void make_struct(int depth, MPI_Datatype *made)
{
    MPI_Datatype types[3];
    int counts[3], n = 1 + dice(3);
    MPI_Aint at[3];
    for (int i = 0; i < n; i++) {
        types[i] = make(depth - 1);
        counts[i] = 1 + dice(2);
        at[i] = 2500 * i + dice(64);
    }
    MPI_Type_create_struct(n, counts, at, types, made);
    for (int i = 0; i < n; i++) {
        MPI_Type_free(&types[i]);
    }
}

static void make_other(int kind, MPI_Datatype old, MPI_Datatype *made)
{
    int lengths_[3] = {1 + dice(2), 1, 2}, at[3] = {6, 0, 3};
    MPI_Aint bytes[3] = {300, 0, 1200}, lb, extent;
    int sizes[2] = {4, 5}, part[2] = {2, 3}, from[2] = {1, dice(3)};
    MPI_Type_get_extent(old, &lb, &extent);
    switch (kind) {
    case 0:
        MPI_Type_contiguous(1 + dice(3), old, made);
        break;
    case 1:
        MPI_Type_vector(1 + dice(3), 1 + dice(2), 2 + dice(3), old, made);
        break;
    case 2:
        MPI_Type_create_hvector(1 + dice(3), 1, extent + dice(40), old, made);
        break;
    case 3:
        MPI_Type_indexed(3, lengths_, at, old, made);
        break;
    case 4:
        MPI_Type_create_hindexed(2, lengths_, bytes, old, made);
        break;
    case 5:
        MPI_Type_create_indexed_block(3, 2, at, old, made);
        break;
    case 6:
        MPI_Type_create_hindexed_block(2, 1, bytes, old, made);
        break;
    case 7:
        MPI_Type_create_subarray(2, sizes, part, from,
                                 dice(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN,
                                 old, made);
        break;
    case 8:
        MPI_Type_create_resized(old, lb - dice(8), extent + 16, made);
        break;
    case 9: /* backwards */
        MPI_Type_create_hvector(2, 1, -(extent + 8), old, made);
        break;
    default:
        MPI_Type_dup(old, made);
        break;
    }
}

static MPI_Datatype make(int depth)
{
    MPI_Datatype made, old;
    int kind = dice(12);
    if (depth == 0) {
        MPI_Type_dup(basic(), &made);
    } else if (kind == 11) {
        make_struct(depth, &made);
    } else {
        old = make(depth - 1);
        make_other(kind, old, &made);
        MPI_Type_free(&old);
    }
    return made;
}

static void transfer(MPI_Datatype type, int count, int how)
{
    MPI_Request request;
    MPI_Status status;
    int bytes = 0, got = -1;
    fill(out, ROOM, 3);
    memset(packed, 0, ROOM);
    MPI_Pack(out + CENTRE, count, type, packed, ROOM, &bytes, MPI_COMM_WORLD);
    if (rank == 0) {
        if (how % 3 == 1) { /* as bytes */
            MPI_Send(packed, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        } else {
            MPI_Isend(out + CENTRE, count, type, 1, 1, MPI_COMM_WORLD,
                      &request);
            MPI_Type_free(&type);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            return;
        }
        MPI_Type_free(&type);
        return;
    }
    memset(in, 0x11, ROOM);
    memset(expected, 0x11, ROOM);
    int position = 0;
    MPI_Unpack(packed, bytes, &position, expected + CENTRE, count, type,
               MPI_COMM_WORLD);
    if (how % 3 == 2) { /* as bytes */
        memset(probe, 0, ROOM);
        MPI_Recv(probe, ROOM, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status);
        MPI_Type_free(&type);
        CHECK(memcmp(probe, packed, (size_t)bytes) == 0);
    } else {
        /* room for more than comes */
        MPI_Irecv(in + CENTRE, count + (how & 1), type, 0, 1, MPI_COMM_WORLD,
                  &request);
        MPI_Type_free(&type);
        MPI_Wait(&request, &status);
        CHECK(memcmp(in, expected, ROOM) == 0);
    }
    MPI_Get_count(&status, MPI_BYTE, &got);
    CHECK(got == bytes);
}

/* More blocks than are kept: the library packs it. The last element comes only
 * in part. */
static void many_blocks(void)
{
    enum { BLOCKS = 70000 };
    MPI_Datatype type;
    MPI_Status status;
    static short a[4 * BLOCKS], b[4 * BLOCKS];
    MPI_Type_vector(BLOCKS, 1, 2, MPI_SHORT, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < 4 * BLOCKS; i++) {
        a[i] = (short)i;
        b[i] = -1;
    }
    if (rank == 0) {
        MPI_Send(a, 1, type, 1, 2, MPI_COMM_WORLD);
        MPI_Send(a, BLOCKS + 1000, MPI_SHORT, 1, 2, MPI_COMM_WORLD);
    } else {
        MPI_Recv(b, 1, type, 0, 2, MPI_COMM_WORLD, &status);
        int right = 1, elements = 0;
        for (int i = 0; i < 2 * BLOCKS; i++) {
            right = right && b[i] == (i % 2 == 0 ? a[i] : -1);
        }
        CHECK(right);
        memset(b, 0xff, sizeof(b));
        MPI_Request request;
        MPI_Irecv(b, 2, type, 0, 2, MPI_COMM_WORLD, &request);
        MPI_Type_free(&type);
        MPI_Wait(&request, &status);
        MPI_Get_elements(&status, MPI_SHORT, &elements);
        CHECK(elements == BLOCKS + 1000);
        for (int i = 0; i < BLOCKS + 1000; i++) {
            int at = i < BLOCKS ? 2 * i : 2 * BLOCKS - 1 + 2 * (i - BLOCKS);
            right = right && b[at] == a[i];
        }
        CHECK(right);
        CHECK(b[1] == -1 && b[2 * BLOCKS - 1 + 2000] == -1);
        return;
    }
    MPI_Type_free(&type);
}

/* Addresses in the type, MPI_BOTTOM in the call. */
static void from_bottom(void)
{
    int a[2] = {rank + 1, rank + 2}, counts[2] = {1, 1}, b[2] = {0, 0};
    double x = rank + 0.5, y = 0;
    MPI_Aint at[2], to[2];
    MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE}, sent, received;
    MPI_Get_address(&a[1], &at[0]);
    MPI_Get_address(&x, &at[1]);
    MPI_Get_address(&b[0], &to[0]);
    MPI_Get_address(&y, &to[1]);
    MPI_Type_create_struct(2, counts, at, types, &sent);
    MPI_Type_create_struct(2, counts, to, types, &received);
    MPI_Type_commit(&sent);
    MPI_Type_commit(&received);
    MPI_Sendrecv(MPI_BOTTOM, 1, sent, 1 - rank, 6, MPI_BOTTOM, 1, received,
                 1 - rank, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(b[0] == 1 - rank + 2 && b[1] == 0 && y == 1 - rank + 0.5);
    MPI_Type_free(&sent);
    MPI_Type_free(&received);
    /* one block, which is one address */
    MPI_Type_create_hindexed(1, counts, at, MPI_INT, &sent);
    MPI_Type_commit(&sent);
    MPI_Sendrecv(MPI_BOTTOM, 1, sent, 1 - rank, 6, b, 1, MPI_INT, 1 - rank, 6,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(b[0] == 1 - rank + 2);
    MPI_Type_free(&sent);
}

/* A block-cyclic array, which the library packs too. */
static void distributed(void)
{
    int sizes[2] = {10, 12}, how[2] = {MPI_DISTRIBUTE_CYCLIC,
                                       MPI_DISTRIBUTE_BLOCK};
    int args[2] = {2, MPI_DISTRIBUTE_DFLT_DARG}, grid[2] = {2, 1}, n;
    static int a[120], b[120], c[120];
    MPI_Datatype type;
    MPI_Type_create_darray(2, 0, 2, sizes, how, args, grid, MPI_ORDER_C,
                           MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Type_size(type, &n);
    for (int i = 0; i < 120; i++) {
        a[i] = i;
    }
    if (rank == 0) {
        MPI_Send(a, 1, type, 1, 5, MPI_COMM_WORLD);
    } else {
        int position = 0, bytes = 0;
        MPI_Recv(b, 1, type, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Pack(a, 1, type, packed, ROOM, &bytes, MPI_COMM_WORLD);
        MPI_Unpack(packed, bytes, &position, c, 1, type, MPI_COMM_WORLD);
        CHECK(n == bytes && memcmp(b, c, sizeof(b)) == 0);
    }
    MPI_Type_free(&type);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Datatype type = make(round % 4);
        MPI_Aint lb, extent, true_lb, true_extent;
        int count = 1 + dice(12), size_;
        MPI_Type_commit(&type);
        MPI_Type_size(type, &size_);
        MPI_Type_get_extent(type, &lb, &extent);
        MPI_Type_get_true_extent(type, &true_lb, &true_extent);
        long span = 20 * labs(extent) + labs(true_lb) + labs(true_extent);
        if (span < CENTRE && (long)size_ * (count + 1) < ROOM) {
            transfer(type, count, round);
        } else {
            MPI_Type_free(&type);
        }
    }
    many_blocks();
    from_bottom();
    distributed();
    return end();
}
