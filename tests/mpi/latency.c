/* The time of one all-reduce of a sum of doubles, in turns, so that a busy machine slows all of them alike: the median of
 * ROUNDS turns of CALLS calls each.
 *
 *     mpirun -n 2 latency [ROUNDS]
 *
 *   plain          MPI_Allreduce of one double: another value for another number of ranks
 *   op             of a state of 288 bytes by reduce_mpi_op
 *   words          of 77 int64 by MPI_SUM
 *   words whole    the same with the state's words before and the sum's value after it
 *   call           reduce_mpi_allreduce of one element: with errors, specs and versions compared
 *   call of 6      reduce_mpi_allreduce_items of six sums in one exchange
 *   call of 26     of 26: a twentieth of the difference is what an item takes
 *   two all-reduces  the way of E3SM's shr_reprosum_calc: the largest exponent by MPI_MAX, then 64-bit integers by MPI_SUM */
#include <math.h>
#include <reduce_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 200, MOST = 1000, WAYS = 8, MANY = 26, LEVELS = 6 };

static int rank;
static double x = 0.1, out[MANY];
static unsigned char state[REDUCE_MAX_STATE];
static int64_t words[REDUCE_MAX_WORDS];
static reduce_spec spec = REDUCE_SPEC_INIT;
static MPI_Datatype type;

static void plain(void) { MPI_Allreduce(&x, out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }

static void op(void)
{
    unsigned char joined[REDUCE_MAX_STATE];
    MPI_Allreduce(state, joined, 1, type, reduce_mpi_op(), MPI_COMM_WORLD);
}

static void by_words(void)
{
    int64_t joined[REDUCE_MAX_WORDS];
    MPI_Allreduce(words, joined, 77, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
}

static void whole_words(void)
{
    int64_t w[REDUCE_MAX_WORDS];
    unsigned char s[REDUCE_MAX_STATE];
    reduce_state_init(s, sizeof s, REDUCE_SUM, REDUCE_F64);
    reduce_state_add(s, sizeof s, &x, 1);
    reduce_state_to_words(s, sizeof s, w, 77);
    MPI_Allreduce(MPI_IN_PLACE, w, 77, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    reduce_state_from_words(s, sizeof s, REDUCE_SUM, REDUCE_F64, w, 77);
    reduce_state_finish(s, sizeof s, &spec, out, sizeof out);
}

static void call(void) { reduce_mpi_allreduce(NULL, &spec, &x, sizeof x, out, sizeof out, MPI_COMM_WORLD); }

static void call_of(size_t n)
{
    reduce_item items[MANY];
    for (size_t i = 0; i < n; i++)
        items[i] = reduce_mpi_item(&spec, &x, sizeof x, &out[i], sizeof out[i]);
    reduce_mpi_allreduce_items(NULL, items, n, MPI_COMM_WORLD);
}

static void call_of_six(void) { call_of(6); }
static void call_of_many(void) { call_of(MANY); }

/* The largest exponent and the number of summands first; then each number as digits of a fixed number of bits below that
 * exponent. */
static void two_all_reduces(void)
{
    int mine[2], all[2];
    int64_t digits[LEVELS] = {0}, sums[LEVELS];
    frexp(x, &mine[0]);
    mine[1] = 1;
    MPI_Allreduce(mine, all, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    double rest = ldexp(x, 30 - all[0]), sum = 0;
    for (int i = 0; i < LEVELS; i++, rest = ldexp(rest, 30)) {
        digits[i] = (int64_t)rest;
        rest -= (double)digits[i];
    }
    MPI_Allreduce(digits, sums, LEVELS, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    for (int i = LEVELS - 1; i >= 0; i--)
        sum += ldexp((double)sums[i], all[0] - 30 * (i + 1));
    out[0] = sum;
}

static const struct {
    const char *name;
    void (*run)(void);
} ways[WAYS] = {{"plain", plain},
                {"op", op},
                {"words", by_words},
                {"words whole", whole_words},
                {"call", call},
                {"call of 6", call_of_six},
                {"call of 26", call_of_many},
                {"two all-reduces", two_all_reduces}};

static double turn(void (*run)(void))
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < CALLS; i++)
        run();
    return (MPI_Wtime() - start) / CALLS * 1e6;
}

static int by_value(const void *a, const void *b)
{
    double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

int main(int argc, char **argv)
{
    static double us[WAYS][MOST];
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    rounds = rounds < 1 ? 1 : rounds > MOST ? MOST : rounds;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    spec.dtype = REDUCE_F64;
    type = reduce_mpi_type(REDUCE_SUM, REDUCE_F64);
    if (reduce_state_init(state, sizeof state, REDUCE_SUM, REDUCE_F64) || reduce_state_add(state, sizeof state, &x, 1) ||
        reduce_state_to_words(state, sizeof state, words, 77))
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < rounds; i++)
        for (int w = 0; w < WAYS; w++)
            us[w][i] = turn(ways[w].run);
    for (int w = 0; w < WAYS && rank == 0; w++) {
        qsort(us[w], (size_t)rounds, sizeof us[w][0], by_value);
        printf("%-16s %7.2f us   (tenth %.2f, best %.2f)\n", ways[w].name, us[w][rounds / 2], us[w][rounds / 10], us[w][0]);
    }
    MPI_Type_free(&type);
    MPI_Finalize();
    return 0;
}
