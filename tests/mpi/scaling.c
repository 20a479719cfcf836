/* The sum of one array that is cut into as many equal parts as there are ranks: the same bits for any number of them.
 *
 *     mpirun -n N scaling [ELEMENTS [URL]]
 *
 * The elements are doubles of either sign and of 32 binades, made of their indexes. It prints the number of ranks, the exact
 * sum, the sum by MPI_SUM of each rank's own one (which changes with the number of ranks), both in hex, and the seconds of
 * reduce_mpi_allreduce. With a URL the ranks' elements go to that daemon. */
#include <reduce_mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks;

static void die(const char *what)
{
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, reduce_errmsg());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* splitmix64's function of i as the bits of a double, with the exponent between -16 and 15. */
static double element(uint64_t i)
{
    union {
        uint64_t bits;
        double value;
    } x;
    uint64_t h = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    h = (h ^ h >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    h = (h ^ h >> 27) * UINT64_C(0x94D049BB133111EB);
    h ^= h >> 31;
    x.bits = (h & UINT64_C(0x800FFFFFFFFFFFFF)) | (1023 - 16 + (h >> 52 & 31)) << 52;
    return x.value;
}

int main(int argc, char **argv)
{
    reduce_client *client = NULL;
    reduce_spec spec = REDUCE_SPEC_INIT;
    double exact, rounded = 0, plain;
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    uint64_t first = n * (uint64_t)rank / (uint64_t)ranks, count = n * ((uint64_t)rank + 1) / (uint64_t)ranks - first;
    double *mine = malloc((count ? count : 1) * sizeof *mine);
    if (!mine || (argc > 2 && reduce_open(&client, argv[2], NULL)))
        die("start");
    for (uint64_t i = 0; i < count; i++)
        rounded += mine[i] = element(first + i);
    MPI_Allreduce(&rounded, &plain, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    spec.dtype = REDUCE_F64;
    double start = MPI_Wtime();
    if (reduce_mpi_allreduce(client, &spec, mine, count * sizeof *mine, &exact, sizeof exact, MPI_COMM_WORLD))
        die("sum");
    if (rank == 0)
        printf("%d ranks: exact %a, MPI_SUM %a, %.3f s\n", ranks, exact, plain, MPI_Wtime() - start);
    reduce_close(client);
    free(mine);
    MPI_Finalize();
    return 0;
}
