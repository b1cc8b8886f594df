/* layouts.h: what a message of random.c holds, and how it lies in memory; included
 * where draw and plan are known. */
#ifndef LAYOUTS_H
#define LAYOUTS_H

static int value(u64 id, int i)
{
    return i == 0 ? (int)id : (int)((unsigned)id * 2654435761u + (unsigned)i * 40503u);
}

enum layout { INTS, BYTES, BLOCKS, GAPS, BACKWARDS, NESTED, LAYOUTS };
enum { GAP = 0x5a5a5a5a };

static const int gaps[4] = {0, 1, 3, 5}, backwards[4] = {6, 4, 2, 0};
static MPI_Datatype type_gaps, type_backwards, type_nested;

static enum layout draw_layout(int n)
{
    enum layout l = (enum layout)draw(&plan, 2 * LAYOUTS);
    bool fits = (l == BLOCKS && n % 3 == 0) || (l == NESTED && n % 12 == 0) ||
                ((l == GAPS || l == BACKWARDS) && n % 4 == 0);
    return (fits && n > 0) || l == BYTES ? l : INTS;
}

static int place(enum layout l, int i)
{
    switch (l) {
    case BLOCKS:
        return i / 3 * 5 + i % 3;
    case GAPS:
    case NESTED:
        return i / 4 * 8 + gaps[i % 4];
    case BACKWARDS:
        return i / 4 * 8 + backwards[i % 4];
    default:
        return i;
    }
}

static int room(enum layout l, int n)
{
    return l == INTS || l == BYTES ? n : 2 * n + 8;
}

/* Count and datatype of n ints; *own_p: to be freed as soon as it is used. */
static MPI_Datatype type_of(enum layout l, int n, int *count_p, int *own_p)
{
    MPI_Datatype made;
    *own_p = l == BLOCKS;
    switch (l) {
    case BYTES:
        *count_p = 4 * n;
        return MPI_BYTE;
    case BLOCKS:
        *count_p = 1;
        MPI_Type_vector(n / 3, 3, 5, MPI_INT, &made);
        MPI_Type_commit(&made);
        return made;
    case GAPS:
        *count_p = n / 4;
        return type_gaps;
    case BACKWARDS:
        *count_p = n / 4;
        return type_backwards;
    case NESTED:
        *count_p = n / 12;
        return type_nested;
    default:
        *count_p = n;
        return MPI_INT;
    }
}

static MPI_Datatype type_four(const int *displacements)
{
    MPI_Datatype four, wide;
    MPI_Type_create_indexed_block(4, 1, displacements, MPI_INT, &four);
    MPI_Type_create_resized(four, 0, 8 * sizeof(int), &wide);
    MPI_Type_commit(&wide);
    MPI_Type_free(&four);
    return wide;
}

static void types_make(void)
{
    type_gaps = type_four(gaps);
    type_backwards = type_four(backwards);
    MPI_Type_contiguous(3, type_gaps, &type_nested);
    MPI_Type_commit(&type_nested);
}

static void types_free(void)
{
    MPI_Type_free(&type_nested);
    MPI_Type_free(&type_backwards);
    MPI_Type_free(&type_gaps);
}

#endif
