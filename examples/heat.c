/*
 * heat: the temperature of a square plate, by Jacobi iteration on a grid that
 * is cut into one block per rank.
 *
 * Each step exchanges the edges of the blocks with up to four neighbours
 * (rows as they lie in memory, columns by a vector type), replaces every point
 * by the mean of its neighbours and finds the largest change of the step on
 * any rank. All results are maxima of values that do not depend on how the
 * grid is cut, so every run with equal -n and -s prints the same numbers.
 *
 *     mpicc -O2 -g heat.c -o heat && mpirun -n 4 ./heat --imbalance 1:3
 */
#include <getopt.h>
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { PHASE_SETUP = 3, PHASE_SOLVE = 4 };      /* levels of MPI_Pcontrol */
enum { UPWARD, DOWNWARD, LEFTWARD, RIGHTWARD }; /* message tags */

static const double HOT = 100.0; /* the upper edge; the other three are 0 */

struct options {
    int n;              /* points along one side of the plate */
    int steps;
    int slow_rank;      /* this rank does slow_factor times the work */
    double slow_factor;
    bool fresh;         /* a new grid each step instead of two in turn */
};

/* The block of this rank: rows x cols points inside a frame of halo points. */
struct block {
    MPI_Comm comm;
    int rank, up, down, left, right;
    int rows, cols;
    int first_row, first_col; /* of the whole grid */
    int width;                /* from one row to the next in memory */
    MPI_Datatype column;
};

static const char usage_text[] =
    "usage: heat [-n SIZE] [-s STEPS] [--imbalance RANK:FACTOR] [--fresh]\n"
    "  -n SIZE                  points along one side (512)\n"
    "  -s STEPS                 steps to take (200)\n"
    "  --imbalance RANK:FACTOR  give RANK that many times the work\n"
    "  --fresh                  allocate a grid each step\n";

static void usage(int status)
{
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        fputs(usage_text, status == 0 ? stdout : stderr);
    MPI_Finalize();
    exit(status);
}

static struct options parse_options(int argc, char **argv)
{
    static const struct option names[] = {
        {"imbalance", required_argument, NULL, 'i'},
        {"fresh", no_argument, NULL, 'f'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct options o = {.n = 512, .steps = 200, .slow_rank = -1};
    int c;

    opterr = 0; /* usage() says it once, on rank 0 */
    while ((c = getopt_long(argc, argv, "n:s:h", names, NULL)) != -1) {
        switch (c) {
        case 'n': o.n = atoi(optarg); break;
        case 's': o.steps = atoi(optarg); break;
        case 'f': o.fresh = true; break;
        case 'h': usage(0); break;
        case 'i':
            if (sscanf(optarg, "%d:%lf", &o.slow_rank, &o.slow_factor) == 2)
                break;
            /* fall through */
        default: usage(2);
        }
    }
    if (optind < argc || o.n < 1 || o.steps < 1 || o.slow_factor < 0)
        usage(2);
    return o;
}

/* Part number `index` of `parts` of 0..n-1, as even as can be. */
static int share(int n, int parts, int index, int *first)
{
    int size = n / parts, rest = n % parts;

    *first = index * size + (index < rest ? index : rest);
    return size + (index < rest);
}

static struct block make_block(int n)
{
    struct block b;
    int ranks, dims[2] = {0, 0}, periods[2] = {0, 0}, at[2];

    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Dims_create(ranks, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &b.comm);
    MPI_Comm_rank(b.comm, &b.rank);
    MPI_Cart_coords(b.comm, b.rank, 2, at);
    MPI_Cart_shift(b.comm, 0, 1, &b.up, &b.down);
    MPI_Cart_shift(b.comm, 1, 1, &b.left, &b.right);

    b.rows = share(n, dims[0], at[0], &b.first_row);
    b.cols = share(n, dims[1], at[1], &b.first_col);
    b.width = b.cols + 2;
    MPI_Type_vector(b.rows, 1, b.width, MPI_DOUBLE, &b.column);
    MPI_Type_commit(&b.column);
    return b;
}

static double *new_grid(const struct block *b)
{
    double *grid = calloc((size_t)(b->rows + 2) * b->width, sizeof *grid);

    if (grid == NULL)
        MPI_Abort(b->comm, 1);
    for (int j = 0; b->up == MPI_PROC_NULL && j < b->width; j++)
        grid[j] = HOT;
    return grid;
}

static void exchange_halo(const struct block *b, double *grid)
{
    double *first = grid + b->width + 1; /* the first point inside the halo */
    double *bottom = first + (b->rows - 1) * b->width;
    double *right = first + b->cols - 1;
    MPI_Datatype row = MPI_DOUBLE, column = b->column;
    MPI_Comm comm = b->comm;
    MPI_Request r[8];

    MPI_Irecv(first - b->width, b->cols, row, b->up, DOWNWARD, comm, &r[0]);
    MPI_Irecv(bottom + b->width, b->cols, row, b->down, UPWARD, comm, &r[1]);
    MPI_Irecv(first - 1, 1, column, b->left, RIGHTWARD, comm, &r[2]);
    MPI_Irecv(right + 1, 1, column, b->right, LEFTWARD, comm, &r[3]);
    MPI_Isend(first, b->cols, row, b->up, UPWARD, comm, &r[4]);
    MPI_Isend(bottom, b->cols, row, b->down, DOWNWARD, comm, &r[5]);
    MPI_Isend(first, 1, column, b->left, LEFTWARD, comm, &r[6]);
    MPI_Isend(right, 1, column, b->right, RIGHTWARD, comm, &r[7]);
    MPI_Waitall(8, r, MPI_STATUSES_IGNORE);
}

/* Computes one row of `next` from `grid`; returns the largest change in it. */
static double relax_row(const struct block *b, const double *grid, double *next,
                        int i)
{
    const double *row = grid + i * b->width;
    double change = 0;

    for (int j = 1; j <= b->cols; j++) {
        double mean = 0.25 * (row[j - b->width] + row[j + b->width] +
                              row[j - 1] + row[j + 1]);
        change = fmax(change, fabs(mean - row[j]));
        next[i * b->width + j] = mean;
    }
    return change;
}

/* One step; a slow rank computes its rows, or some of them, more than once. */
static double relax(const struct block *b, const struct options *o,
                    const double *grid, double *next)
{
    int work = b->rows;
    double change = 0, largest;

    if (b->rank == o->slow_rank && o->slow_factor > 1)
        work = (int)(b->rows * o->slow_factor);
    for (int k = 0; k < work; k++)
        change = fmax(change, relax_row(b, grid, next, 1 + k % b->rows));
    MPI_Allreduce(&change, &largest, 1, MPI_DOUBLE, MPI_MAX, b->comm);
    return largest;
}

/* How far the warmth has come: the lowest row above 1 degree, on rank 0. */
static int warm_rows(const struct block *b, const double *grid)
{
    int mine = 0, result = 0;

    for (int i = 1; i <= b->rows; i++)
        for (int j = 1; j <= b->cols; j++)
            if (grid[i * b->width + j] > 1)
                mine = b->first_row + i;
    MPI_Reduce(&mine, &result, 1, MPI_INT, MPI_MAX, 0, b->comm);
    return result;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    struct options o = parse_options(argc, argv);

    MPI_Pcontrol(PHASE_SETUP);
    struct block b = make_block(o.n);
    double *grid = new_grid(&b), *next = new_grid(&b), change = 0;

    MPI_Pcontrol(PHASE_SOLVE);
    for (int step = 0; step < o.steps; step++) {
        if (o.fresh) {
            free(next);
            next = new_grid(&b);
        }
        exchange_halo(&b, grid);
        change = relax(&b, &o, grid, next);

        double *swap = grid;
        grid = next;
        next = swap;
    }

    int warm = warm_rows(&b, grid);
    if (b.rank == 0)
        printf("%d x %d points, %d steps: %d rows warm, last change %.6e\n",
               o.n, o.n, o.steps, warm, change);
    free(grid);
    free(next);
    MPI_Type_free(&b.column);
    MPI_Comm_free(&b.comm);
    return MPI_Finalize();
}
