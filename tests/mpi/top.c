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

/* All ranks have this error, with this text. */
static void expect(int got, int want, const char *text)
{
    if (got != want || !strstr(reduce_errmsg(), text))
        fail(text);
}

/* An error of one rank is one of all, which name it. */
static void faults(reduce_client *c, reduce_spec *s, int rank, int ranks)
{
    const int last = rank == ranks - 1;
    const float x[2] = {1, 2};
    double out[4];
    char who[32];
    snprintf(who, sizeof who, "rank %d: ", ranks - 1);
    s->k = 2;
    s->op = last ? REDUCE_KTH : REDUCE_LARGEST;
    expect(reduce_mpi_top(c, s, x, sizeof x, out, sizeof out, MPI_COMM_WORLD), REDUCE_E_OP, who);
    expect(reduce_mpi_top(c, last ? NULL : s, x, sizeof x, out, sizeof out, MPI_COMM_WORLD), REDUCE_E_ARGUMENT, who);
    s->op = REDUCE_LARGEST;
    s->rows = last ? 2 : 1;
    expect(reduce_mpi_top(c, s, x, sizeof x, out, sizeof out, MPI_COMM_WORLD), REDUCE_E_SHAPE, who);
    expect(REDUCE_E_SHAPE, REDUCE_E_SHAPE, "are one row");
    s->rows = 1;
    expect(reduce_mpi_top(c, s, x, last ? 3 : sizeof x, out, sizeof out, MPI_COMM_WORLD), REDUCE_E_SHAPE, who);
    expect(reduce_mpi_top(c, s, x, sizeof x, out, last ? 8 : sizeof out, MPI_COMM_WORLD), REDUCE_E_ARGUMENT, who);
    for (int differ = 0; differ < 2 && ranks > 1; differ++) {
        s->k = last && differ ? 1 : 2;
        s->nan = last && !differ ? REDUCE_NAN_OMIT : REDUCE_NAN_PROPAGATE;
        expect(reduce_mpi_top(c, s, x, sizeof x, out, sizeof out, MPI_COMM_WORLD), REDUCE_E_BAD_MESSAGE,
               "the ranks do not ask");
    }
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
    faults(c, &s, rank, ranks);
    free(x);
    reduce_close(c);
    MPI_Finalize();
    return 0;
}
