/* odd.c: datatypes that are seldom seen: with absolute addresses and more blocks than
 * are kept, or with very many that are one, or cyclic; structs of structs, of types of
 * one size and of different layouts, too; that go backwards; beside very many others;
 * used by a callback while they are freed. Two ranks. */
#include "program.h"

enum { MANY = 70000 };

static int memory[2 * MANY];

/* Rank 0 sends them from MPI_BOTTOM, rank 1 receives them there. */
static void absolute(MPI_Datatype type, int (*in)(int), int ints)
{
    int wrong = 0;
    for (int i = 0; i < ints; i++) {
        memory[i] = rank == 0 ? i : -1;
    }
    MPI_Type_commit(&type);
    if (rank == 0) {
        MPI_Send(MPI_BOTTOM, 1, type, 1, 1, MPI_COMM_WORLD);
    } else {
        MPI_Recv(MPI_BOTTOM, 1, type, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < ints; i++) {
            wrong += memory[i] != (in(i) ? i : -1);
        }
    }
    CHECK(wrong == 0);
    MPI_Type_free(&type);
}

static int even(int i) { return i % 2 == 0; }
static int first_of_two_pairs(int i) { return i / 2 % 2 == 0; }

static void many_blocks(void)
{
    static int lengths_[MANY];
    static MPI_Aint at[MANY];
    MPI_Datatype type;
    for (int i = 0; i < MANY; i++) {
        lengths_[i] = 1;
        MPI_Get_address(&memory[2 * i], &at[i]);
    }
    MPI_Type_create_hindexed(MANY, lengths_, at, MPI_INT, &type);
    absolute(type, even, 2 * MANY);
}

static void cyclic(void)
{
    int sizes = 16, how = MPI_DISTRIBUTE_CYCLIC, of = 2, grid = 2, one = 1;
    MPI_Datatype part, type;
    MPI_Aint at;
    MPI_Get_address(memory, &at);
    MPI_Type_create_darray(2, 0, 1, &sizes, &how, &of, &grid, MPI_ORDER_C,
                           MPI_INT, &part);
    MPI_Type_create_hindexed(1, &one, &at, part, &type);
    absolute(type, first_of_two_pairs, sizes);
    MPI_Type_free(&part);
}

/* Structs of two structs each. */
static void deep(void)
{
    enum { LEVELS = 16, INTS = 1 << LEVELS };
    int lengths_[2] = {1, 1}, wrong = 0;
    MPI_Datatype type[LEVELS + 1] = {MPI_INT};
    for (int l = 0; l < LEVELS; l++) {
        MPI_Aint at[2] = {0, (MPI_Aint)sizeof(int) << l};
        MPI_Datatype two[2] = {type[l], type[l]};
        MPI_Type_create_struct(2, lengths_, at, two, &type[l + 1]);
    }
    MPI_Type_commit(&type[LEVELS]);
    for (int i = 0; i < INTS; i++) {
        memory[i] = rank == 0 ? i : -1;
    }
    if (rank == 0) {
        MPI_Send(memory, 1, type[LEVELS], 1, 2, MPI_COMM_WORLD);
    } else {
        MPI_Recv(memory, 1, type[LEVELS], 0, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < INTS; i++) {
        wrong += memory[i] != i;
    }
    CHECK(wrong == 0);
    for (int l = 1; l <= LEVELS; l++) {
        MPI_Type_free(&type[l]);
    }
}

static unsigned draw(unsigned limit)
{
    static unsigned state = 1;
    state = state * 1103515245u + 12345u;
    return (state >> 16) % limit;
}

/* Another type that is this one, in one of the ways in which libraries keep one inside
 * another. */
static MPI_Datatype wrapped(MPI_Datatype type)
{
    int one = 1;
    MPI_Aint at = 0, lb, extent;
    MPI_Datatype made;
    MPI_Type_get_extent(type, &lb, &extent);
    switch (draw(5)) {
    case 0:
        MPI_Type_contiguous(1, type, &made);
        break;
    case 1:
        MPI_Type_dup(type, &made);
        break;
    case 2:
        MPI_Type_create_resized(type, lb, extent, &made);
        break;
    case 3:
        MPI_Type_create_struct(1, &one, &at, &type, &made);
        break;
    default:
        MPI_Type_create_hindexed(1, &one, &at, type, &made);
    }
    return made;
}

/* Two, four or eight ints, as deep as is asked for. */
static MPI_Datatype tree(int depth)
{
    MPI_Datatype part[2], inner, made;
    MPI_Aint at[2] = {0, 64 * sizeof(int) << depth};
    int ones[2] = {1, 1};
    if (depth == 0) {
        MPI_Type_vector(2, 1, 1 + (int)draw(30), MPI_INT, &part[0]);
        made = wrapped(part[0]);
        MPI_Type_free(&part[0]);
        return made;
    }
    part[0] = tree(depth - 1);
    part[1] = tree(depth - 1);
    MPI_Type_create_struct(2, ones, at, part, &inner);
    made = wrapped(inner);
    MPI_Type_free(&part[0]);
    MPI_Type_free(&part[1]);
    MPI_Type_free(&inner);
    return made;
}

/* What a message carries is what MPI_Pack gives. */
static void inside(void)
{
    enum { MOST = 8 };
    for (int i = 0; i < 256 << 2; i++) {
        memory[i] = i;
    }
    for (int i = 0; i < 300; i++) {
        int got[MOST], packed[MOST], position = 0, ints = 2 << i % 3;
        MPI_Datatype type = tree(i % 3);
        MPI_Type_commit(&type);
        MPI_Pack(memory, 1, type, packed, sizeof(packed), &position,
                 MPI_COMM_SELF);
        CHECK(position == ints * (int)sizeof(int));
        MPI_Sendrecv(memory, 1, type, 0, 5, got, ints, MPI_INT, 0, 5,
                     MPI_COMM_SELF, MPI_STATUS_IGNORE);
        CHECK(memcmp(got, packed, (size_t)position) == 0);
        MPI_Type_free(&type);
    }
}

/* The same of a type, by up to most bytes. */
static void as_packed(const void *from, MPI_Datatype type, int most)
{
    char got[256], packed[256];
    int position = 0;
    MPI_Type_commit(&type);
    MPI_Pack(from, 1, type, packed, most, &position, MPI_COMM_SELF);
    MPI_Sendrecv(from, 1, type, 0, 5, got, most, MPI_BYTE, 0, 5, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
    CHECK(position == most && memcmp(got, packed, (size_t)most) == 0);
    MPI_Type_free(&type);
}

/* Blocks one behind the other, the last one first. */
static void backwards(void)
{
    static const char letters[] = "abcdefgh";
    MPI_Datatype type;
    MPI_Type_vector(3, 1, -1, MPI_CHAR, &type);
    as_packed(letters + 4, type, 3);
    MPI_Type_create_hvector(3, 1, -1, MPI_CHAR, &type);
    as_packed(letters + 4, type, 3);
    MPI_Type_vector(2, 2, -3, MPI_CHAR, &type);
    as_packed(letters + 4, type, 4);
}

/* Arrays that are dealt to one process, whole, while very many types are there. */
static void crowded(void)
{
    enum { TYPES = 1100, MOST = 16 };
    static MPI_Datatype others[TYPES];
    for (int i = 0; i < TYPES; i++) {
        MPI_Type_vector(3, 1, 2, MPI_INT, &others[i]);
        MPI_Type_commit(&others[i]);
    }
    for (int i = 0; i < 64; i++) {
        memory[i] = i * 0x01010101;
    }
    for (int n = 1; n <= MOST; n++) {
        for (int of = 1; of <= 3; of++) {
            int how = MPI_DISTRIBUTE_CYCLIC, grid = 1, got[MOST];
            MPI_Datatype type;
            MPI_Type_create_darray(1, 0, 1, &n, &how, &of, &grid, MPI_ORDER_C,
                                   MPI_INT, &type);
            MPI_Type_commit(&type);
            memset(got, -1, sizeof(got));
            MPI_Sendrecv(memory, 1, type, 0, 5, got, MOST, MPI_INT, 0, 5,
                         MPI_COMM_SELF, MPI_STATUS_IGNORE);
            CHECK(memcmp(got, memory, (size_t)n * sizeof(int)) == 0);
            MPI_Type_free(&type);
        }
    }
    for (int i = 0; i < TYPES; i++) {
        MPI_Type_free(&others[i]);
    }
}

/* One element of a type to this rank itself, which has the ints 0, 1, 2.. */
static void to_self(MPI_Datatype type, int stride)
{
    int got[4] = {-1, -1, -1, -1};
    MPI_Sendrecv(memory, 1, type, 0, 5, got, 4, MPI_INT, 0, 5, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < 4; i++) {
        CHECK(got[i] == i * stride);
    }
}

static int used_when_freed(MPI_Datatype type, int key, void *stride, void *extra)
{
    (void)key;
    (void)extra;
    to_self(type, *(int *)stride);
    return MPI_SUCCESS;
}

/* Types whose handles are those of others that were used when they were freed. */
static void freed(void)
{
    int key;
    for (int i = 0; i < 64; i++) {
        memory[i] = i;
    }
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, used_when_freed, &key, NULL);
    for (int i = 0; i < 20; i++) {
        int stride = 2 + i % 5;
        MPI_Datatype type;
        MPI_Type_vector(4, 1, stride, MPI_INT, &type);
        MPI_Type_commit(&type);
        MPI_Type_set_attr(type, key, &stride);
        to_self(type, stride);
        MPI_Type_free(&type);
    }
    MPI_Type_free_keyval(&key);
}

/* The same of types that end later than they are freed, with the last one that is made
 * of them; types that are met then are strange ones, too. */
static void freed_later(int (*make)(int, MPI_Datatype *))
{
    int key;
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, used_when_freed, &key, NULL);
    for (int i = 0; i < 20; i++) {
        int stride = make(2 + i % 5, NULL);
        MPI_Datatype type, of_it;
        make(2 + i % 5, &type);
        MPI_Type_commit(&type);
        MPI_Type_set_attr(type, key, &stride);
        MPI_Type_contiguous(1, type, &of_it);
        MPI_Type_commit(&of_it);
        to_self(of_it, stride);
        MPI_Type_free(&type);
        MPI_Type_free(&of_it);
    }
    MPI_Type_free_keyval(&key);
}

static int plain(int stride, MPI_Datatype *type_p)
{
    if (type_p != NULL) {
        MPI_Type_vector(4, 1, stride, MPI_INT, type_p);
    }
    return stride;
}

/* Of every other int, in a way that only the library knows. */
static int dealt(int size, MPI_Datatype *type_p)
{
    int sizes = 8, how = MPI_DISTRIBUTE_CYCLIC, of = 1, grid = 2;
    (void)size;
    if (type_p != NULL) {
        MPI_Type_create_darray(2, 0, 1, &sizes, &how, &of, &grid, MPI_ORDER_C,
                               MPI_INT, type_p);
    }
    return 2;
}

/* Of two thousand million blocks that are one, for a message of a few bytes. */
static void endless(void)
{
    enum { MOST = 2147483647, BYTES = 7 };
    const int sizes[] = {MOST, 1}, none[] = {0, 0};
    MPI_Datatype wide, types[3];
    MPI_Type_create_resized(MPI_BYTE, 0, 2, &wide);
    MPI_Type_vector(MOST, 1, 1, MPI_BYTE, &types[0]);
    MPI_Type_create_hvector(MOST, 1, 1, wide, &types[1]);
    MPI_Type_create_subarray(2, sizes, sizes, none, MPI_ORDER_C, MPI_BYTE, &types[2]);
    MPI_Type_free(&wide);
    for (int i = 0; i < 3; i++) {
        char bytes[BYTES] = {0};
        MPI_Status status;
        int count = 0;
        MPI_Type_commit(&types[i]);
        if (rank == 0) {
            memset(bytes, 1 + i, BYTES);
            MPI_Send(bytes, BYTES, MPI_BYTE, 1, i, MPI_COMM_WORLD);
        } else {
            MPI_Recv(bytes, 1, types[i], 0, i, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &count);
            CHECK(count == BYTES && bytes[0] == 1 + i && bytes[BYTES - 1] == 1 + i);
        }
        MPI_Type_free(&types[i]);
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    many_blocks();
    cyclic();
    deep();
    inside();
    backwards();
    crowded();
    freed();
    freed_later(plain);
    freed_later(dealt);
    endless();
    return end();
}
