/* Median, quantiles and the k-th element of an array over the ranks: each has the elements whose number leaves its own when
 * divided by their count. Prints the bits at rank 0; all ranks have the same.
 *
 *     mpirun -n 5 order ELEMENTS */
#include <inttypes.h>
#include <reduce_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double element(uint64_t i)
{
    uint64_t h = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    h = (h ^ h >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    return (double)(int64_t)(h ^ h >> 27) / 4096;
}

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, reduce_errmsg());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    static const double q[] = {0.1, 0.25, 0.5, 0.999};
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
    double *mine = malloc((n + 1) * sizeof *mine), out[6], lowest[6], highest[6];
    size_t k = 0;
    for (uint64_t i = (uint64_t)rank; i < n; i += (uint64_t)ranks)
        mine[k++] = element(i);
    reduce_spec s = REDUCE_SPEC_INIT;
    s.dtype = REDUCE_F64;
    s.op = REDUCE_MEDIAN;
    if (reduce_mpi_quantile(&s, mine, k * sizeof *mine, &out[0], sizeof *out, MPI_COMM_WORLD))
        fail("median");
    s.op = REDUCE_QUANTILE;
    s.q = q;
    s.quantiles = 4;
    if (reduce_mpi_quantile(&s, mine, k * sizeof *mine, &out[1], 4 * sizeof *out, MPI_COMM_WORLD))
        fail("quantile");
    s.op = REDUCE_KTH;
    s.quantiles = 0;
    s.k = -3;
    if (reduce_mpi_quantile(&s, mine, k * sizeof *mine, &out[5], sizeof *out, MPI_COMM_WORLD))
        fail("kth");
    MPI_Allreduce(out, lowest, 6, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(out, highest, 6, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (memcmp(lowest, highest, sizeof out))
        fail("the ranks differ");
    s.k = rank == ranks - 1 ? (int64_t)n : 0; /* an error of one rank is one of all */
    s.op = rank == ranks - 1 ? REDUCE_SUM : REDUCE_KTH;
    if (!reduce_mpi_quantile(&s, mine, k * sizeof *mine, &out[5], sizeof *out, MPI_COMM_WORLD))
        fail("an error of one rank is lost");
    for (int i = 0; i < 6 && !rank; i++)
        printf("%a%c", lowest[i], i < 5 ? ' ' : '\n');
    free(mine);
    MPI_Finalize();
    return 0;
}
