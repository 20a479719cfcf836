/* Global means of a model of the climate: eight fields over the cells of this rank, weighted by area, of the ocean alone. Three
 * ways, with the processor time of each:
 *
 *     mpicc climate_mpi.c $(pkg-config --cflags --libs libreduce) -lm && mpirun -n 2 ./a.out [CELLS of all ranks [TIMES]]
 *
 *   plain   sums of doubles and MPI_SUM: other bits for another number of ranks
 *   exact   reduce_mpi_allreduce_items: eight weighted means in one call, the same bits for any number of ranks
 *   fixed   integers of a fixed unit, in the way of MOM6's extended fixed point: the same bits, for sums below 2^155 */
#include <math.h>
#include <reduce_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FIELDS = 8, DIGITS = 6, BITS = 46, CARRY_AFTER = 1 << 16 };

typedef struct grid {
    size_t n;             /* cells of this rank */
    double *area;         /* of each cell */
    unsigned char *ocean; /* 1, or 0 on land */
    double *field[FIELDS];
} grid;

/* ---- the grid: each cell depends on its place in the whole grid alone ---- */

static double noise(uint64_t v)
{
    v = (v + 1) * UINT64_C(0x9e3779b97f4a7c15);
    v = (v ^ v >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return (double)(v >> 11) * 0x1p-53;
}

static int make(grid *g, size_t first, size_t n)
{
    g->n = n;
    g->area = malloc((n + 1) * sizeof *g->area);
    g->ocean = malloc(n + 1);
    int made = g->area && g->ocean;
    for (int f = 0; f < FIELDS; f++)
        made &= (g->field[f] = malloc((n + 1) * sizeof(double))) != NULL;
    for (size_t i = 0; made && i < n; i++) {
        g->area[i] = 1e9 * (0.1 + noise(first + i));
        g->ocean[i] = noise(~(first + i)) < 0.7;
        for (int f = 0; f < FIELDS; f++)
            g->field[f][i] = (noise((first + i) * FIELDS + (size_t)f) - 0.5) * pow(10, f);
    }
    return made;
}

/* ---- the three ways ---- */

static void plain(const grid *g, double mean[FIELDS])
{
    double sum[FIELDS + 1] = {0};
    for (int f = 0; f < FIELDS; f++)
        for (size_t i = 0; i < g->n; i++)
            sum[f] += g->ocean[i] * g->area[i] * g->field[f][i];
    for (size_t i = 0; i < g->n; i++)
        sum[FIELDS] += g->ocean[i] * g->area[i];
    MPI_Allreduce(MPI_IN_PLACE, sum, FIELDS + 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int f = 0; f < FIELDS; f++)
        mean[f] = sum[f] / sum[FIELDS];
}

static void exact(const grid *g, double mean[FIELDS])
{
    reduce_spec spec = REDUCE_SPEC_INIT;
    reduce_item items[FIELDS];
    spec.op = REDUCE_WMEAN;
    spec.dtype = REDUCE_F64;
    spec.mask = g->ocean;
    spec.weights = g->area;
    for (int f = 0; f < FIELDS; f++)
        items[f] = reduce_mpi_item(&spec, g->field[f], g->n * sizeof(double), &mean[f], sizeof mean[f]);
    if (reduce_mpi_allreduce_items(NULL, items, FIELDS, MPI_COMM_WORLD)) {
        fprintf(stderr, "%s\n", reduce_errmsg());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Adds v as digits of BITS bits, of which the last has the unit 2^-138. */
static void add_fixed(int64_t sum[DIGITS], double v)
{
    static const double unit[DIGITS] = {0x1p92, 0x1p46, 1, 0x1p-46, 0x1p-92, 0x1p-138},
                        over[DIGITS] = {0x1p-92, 0x1p-46, 1, 0x1p46, 0x1p92, 0x1p138};
    const int negative = v < 0;
    v = fabs(v);
    for (int d = 0; d < DIGITS; d++) {
        const int64_t digit = (int64_t)(v * over[d]);
        v -= (double)digit * unit[d];
        sum[d] += negative ? -digit : digit;
    }
}

static void carry(int64_t sum[DIGITS])
{
    for (int d = DIGITS - 1; d > 0; d--) {
        const int64_t more = sum[d] >> BITS;
        sum[d] -= more * (INT64_C(1) << BITS);
        sum[d - 1] += more;
    }
}

/* Of digits that are carried: of one sign, lest large ones cancel. */
static double value(int64_t sum[DIGITS])
{
    carry(sum);
    const int negative = sum[0] < 0;
    for (int d = 0; d < DIGITS && negative; d++)
        sum[d] = -sum[d];
    carry(sum);
    double v = 0;
    for (int d = DIGITS - 1; d >= 0; d--)
        v += ldexp((double)sum[d], BITS * (2 - d));
    return negative ? -v : v;
}

static void fixed(const grid *g, double mean[FIELDS])
{
    int64_t sum[FIELDS + 1][DIGITS] = {{0}};
    for (int f = 0; f <= FIELDS; f++)
        for (size_t i = 0; i < g->n; i++) {
            if (g->ocean[i])
                add_fixed(sum[f], f < FIELDS ? g->area[i] * g->field[f][i] : g->area[i]);
            if (i % CARRY_AFTER == CARRY_AFTER - 1)
                carry(sum[f]);
        }
    for (int f = 0; f <= FIELDS; f++)
        carry(sum[f]);
    MPI_Allreduce(MPI_IN_PLACE, sum, (FIELDS + 1) * DIGITS, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    const double area = value(sum[FIELDS]);
    for (int f = 0; f < FIELDS; f++)
        mean[f] = value(sum[f]) / area;
}

/* ---- measuring ---- */

static double processor_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_value(const void *a, const void *b)
{
    const double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(const grid *, double *);
    } ways[] = {{"plain", plain}, {"exact", exact}, {"fixed", fixed}};
    enum { WAYS = sizeof ways / sizeof *ways, MOST = 1000 };
    static double ms[WAYS][MOST], mean[WAYS][FIELDS];
    const size_t cells = argc > 1 ? strtoull(argv[1], NULL, 10) : 200000;
    const int asked = argc > 2 ? atoi(argv[2]) : 1, times = asked < 1 ? 1 : asked > MOST ? MOST : asked;
    int rank, ranks;
    grid g;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const size_t first = cells * (size_t)rank / (size_t)ranks, end = cells * ((size_t)rank + 1) / (size_t)ranks;
    if (!make(&g, first, end - first))
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int t = 0; t < times; t++)
        for (int w = 0; w < WAYS; w++) {
            const double start = processor_ms();
            ways[w].run(&g, mean[w]);
            ms[w][t] = processor_ms() - start;
        }
    for (int w = 0; w < WAYS && rank == 0; w++) {
        qsort(ms[w], (size_t)times, sizeof *ms[w], by_value);
        printf("%s", ways[w].name);
        for (int f = 0; f < FIELDS; f++)
            printf(" %.17g", mean[w][f]);
        fprintf(stderr, "%s: %.2f ms of a processor\n", ways[w].name, ms[w][times / 2]);
        printf("\n");
    }
    MPI_Finalize();
    return 0;
}
