/* The largest and smallest elements of an array over the ranks: rank r has the r-th part. Elements are few values, so that many
 * are equal, with NaNs among them. Prints values and indexes at rank 0; all ranks have the same.
 *
 *     mpirun -n 5 top ELEMENTS K URL */
#include <inttypes.h>
#include <reduce_mpi.h>
#include <stdio.h>
#include <string.h>

static float element(uint64_t i)
{
    const uint64_t h = (i + 1) * UINT64_C(0x9E3779B97F4A7C15) >> 40;
    return h % 101 == 0 ? -(0.0f / 0.0f) : (float)(int)(h % 97 - 48) / 8;
}

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, reduce_errmsg());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void ask(reduce_client *c, reduce_spec *s, const float *x, size_t n, int rank)
{
    const size_t k = (size_t)s->k, room = 2 * k * sizeof(double);
    double *mine = calloc(1, room), *first = calloc(1, room);
    if (reduce_mpi_top(c, s, x, n * sizeof *x, mine, room, MPI_COMM_WORLD))
        fail("top");
    memcpy(first, mine, room);
    MPI_Bcast(first, (int)room, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (memcmp(first, mine, room))
        fail("the ranks differ");
    for (size_t i = 0; i < k && !rank; i++) {
        uint64_t index;
        memcpy(&index, mine + k + i, sizeof index);
        printf("%a %" PRId64 "%c", mine[i], (int64_t)index, i + 1 < k ? ' ' : '\n');
    }
    free(mine);
    free(first);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    reduce_client *c;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 4 || reduce_open(&c, argv[3], NULL))
        fail("open");
    const uint64_t n = strtoull(argv[1], NULL, 10), from = n * (uint64_t)rank / (uint64_t)ranks,
                   to = n * ((uint64_t)rank + 1) / (uint64_t)ranks;
    float *x = malloc((to - from + 1) * sizeof *x);
    for (uint64_t i = from; i < to; i++)
        x[i - from] = element(i);
    reduce_spec s = REDUCE_SPEC_INIT;
    s.dtype = REDUCE_F32;
    s.k = atoi(argv[2]);
    s.index_base = from;
    for (int nan = REDUCE_NAN_PROPAGATE; nan <= REDUCE_NAN_OMIT; nan++)
        for (int op = REDUCE_LARGEST; op <= REDUCE_SMALLEST; op++) {
            s.op = op;
            s.nan = nan;
            ask(c, &s, x, to - from, rank);
        }
    double out[2];
    s.k = rank == ranks - 1 ? 1 : 2; /* an error of one rank is one of all */
    s.op = rank == ranks - 1 ? REDUCE_ARGMAX : REDUCE_LARGEST;
    if (ranks > 1 && !reduce_mpi_top(c, &s, x, (to - from) * sizeof *x, out, sizeof out, MPI_COMM_WORLD))
        fail("an error of one rank is lost");
    free(x);
    reduce_close(c);
    MPI_Finalize();
    return 0;
}
