/* Heat in a rod on any number of ranks: explicit steps until the residual is small, the same bits and so the same number of
 * steps for any number of ranks.
 *
 *     mpicc heat_mpi.c $(pkg-config --cflags --libs libreduce) -o heat && mpirun -n 4 ./heat [STEPS] */
#include <math.h>
#include <reduce_mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { CELLS = 1000 };

/* This rank's cells are u[1] .. u[n]; u[0] and u[n + 1] are the neighbours'. */
static void exchange_edges(double *u, int n, int rank, int ranks)
{
    int left = rank > 0 ? rank - 1 : MPI_PROC_NULL, right = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
    MPI_Sendrecv(&u[1], 1, MPI_DOUBLE, left, 0, &u[n + 1], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&u[n], 1, MPI_DOUBLE, right, 1, &u[0], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void step(double *u, double *change, int n)
{
    for (int i = 1; i <= n; i++)
        change[i - 1] = 0.25 * (u[i - 1] - 2 * u[i] + u[i + 1]);
    for (int i = 1; i <= n; i++)
        u[i] += change[i - 1];
}

static void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, reduce_errmsg());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int first = (int)((long)CELLS * rank / ranks), n = (int)((long)CELLS * (rank + 1) / ranks) - first;
    double *u = calloc((size_t)n + 2, sizeof *u), *change = calloc((size_t)n + 1, sizeof *change);
    double residual = 0, heat = 0;
    if (!u || !change)
        die("memory");
    for (int i = 1; i <= n; i++)
        u[i] = sin(0.37 * (first + i)) * exp(-0.01 * (first + i));

    /* The residual's norm and the heat, in one exchange per step. */
    reduce_spec norm = REDUCE_SPEC_INIT, sum = REDUCE_SPEC_INIT;
    norm.op = REDUCE_NORM2;
    norm.dtype = sum.dtype = REDUCE_F64;
    reduce_item items[2] = {reduce_mpi_item(&norm, change, sizeof *u * (size_t)n, &residual, sizeof residual),
                            reduce_mpi_item(&sum, u + 1, sizeof *u * (size_t)n, &heat, sizeof heat)};
    for (int steps = argc > 1 ? atoi(argv[1]) : 400; steps > 0; steps--) {
        exchange_edges(u, n, rank, ranks);
        step(u, change, n);
        if (reduce_mpi_allreduce_items(NULL, items, 2, MPI_COMM_WORLD))
            die("reduction");
    }
    if (rank == 0)
        printf("residual %a heat %a\n", residual, heat);
    free(u);
    free(change);
    MPI_Finalize();
    return 0;
}
