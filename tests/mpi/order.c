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

/* An error of one rank is one of all, which name it. */
static void expect(int got, int want, const char *text)
{
    if (got != want || !strstr(reduce_errmsg(), text))
        fail(text);
}

static void faults(reduce_spec *s, const double *x, size_t bytes, int rank, int ranks)
{
    const int last = rank == ranks - 1;
    double q[] = {0.5, 0.75}, out[2];
    char who[32];
    snprintf(who, sizeof who, "rank %d: ", ranks - 1);
    s->op = last ? REDUCE_SUM : REDUCE_KTH;
    expect(reduce_mpi_quantile(s, x, bytes, out, sizeof out, MPI_COMM_WORLD), REDUCE_E_BAD_MESSAGE, who);
    s->op = REDUCE_KTH;
    expect(reduce_mpi_quantile(last ? NULL : s, x, bytes, out, sizeof out, MPI_COMM_WORLD), REDUCE_E_ARGUMENT, who);
    expect(reduce_mpi_quantile(s, x, bytes, last ? NULL : out, sizeof out, MPI_COMM_WORLD), REDUCE_E_ARGUMENT, who);
    expect(reduce_mpi_quantile(s, x, bytes, out, last ? 4 : sizeof out, MPI_COMM_WORLD), REDUCE_E_ARGUMENT, who);
    s->op = REDUCE_QUANTILE;
    s->k = 0;
    s->q = q;
    for (int differ = 0; differ < 3 && ranks > 1; differ++) {
        q[1] = last && !differ ? 0.9 : 0.75;
        s->quantiles = last && differ == 1 ? 1 : 2;
        s->out = last && differ == 2 ? REDUCE_F32 : 0;
        expect(reduce_mpi_quantile(s, x, bytes, out, sizeof out, MPI_COMM_WORLD), REDUCE_E_BAD_MESSAGE, "the ranks do not ask");
    }
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
    faults(&s, mine, k * sizeof *mine, rank, ranks);
    for (int i = 0; i < 6 && !rank; i++)
        printf("%a%c", lowest[i], i < 5 ? ' ' : '\n');
    free(mine);
    MPI_Finalize();
    return 0;
}
