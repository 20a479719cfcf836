/* Every call of reduce_mpi.h as a program would use it: in place, with a root, on other communicators, of several arrays, rows
 * and files. Prints "fine" if all ranks had what they should.
 *
 *     mpirun -n N calls URL */
#include <reduce_mpi.h>
#include <stdio.h>
#include <string.h>

static int rank, ranks, wrong;
static const double data[4] = {1e100, 3, -1e100, 4}; /* of each rank: 7 */

static void expect(int fine, const char *what)
{
    if (!fine)
        fprintf(stderr, "rank %d of %d: %s: %s\n", rank, ranks, what, reduce_errmsg());
    wrong += !fine;
}

static reduce_spec spec_of(int op)
{
    reduce_spec s = REDUCE_SPEC_INIT;
    s.op = op;
    s.dtype = REDUCE_F64;
    return s;
}

static void in_place(void)
{
    double rows[2] = {rank, 2};
    reduce_spec s = spec_of(REDUCE_SUM);
    s.rows = 2;
    int err = reduce_mpi_allreduce(NULL, &s, MPI_IN_PLACE, sizeof rows, rows, sizeof rows, MPI_COMM_WORLD);
    expect(!err && rows[0] == ranks * (ranks - 1) / 2 && rows[1] == 2 * ranks, "in place, rows");
}

static void to_one(void)
{
    for (int root = 0; root < ranks; root++) {
        double sum = -1;
        reduce_spec s = spec_of(REDUCE_SUM);
        int err = reduce_mpi_reduce(NULL, &s, data, sizeof data, rank == root ? &sum : NULL, sizeof sum, root, MPI_COMM_WORLD);
        expect(!err && sum == (rank == root ? 7 * ranks : -1), "to one rank");
    }
    for (int wrong = 0; wrong < ranks; wrong++) { /* the others hear of it */
        double sum;
        reduce_spec s = spec_of(REDUCE_SUM);
        const int root = rank == wrong ? ranks : 0;
        int err = reduce_mpi_reduce(NULL, &s, data, sizeof data, &sum, sizeof sum, root, MPI_COMM_WORLD);
        expect(err == REDUCE_E_ARGUMENT && strstr(reduce_errmsg(), "no such rank"), "to no rank");
    }
}

/* Odd and even ranks reduce different things at the same time, in reverse order of ranks. */
static void on_parts(void)
{
    double value = 0;
    int size, odd = rank % 2;
    MPI_Comm part;
    reduce_spec s = spec_of(odd ? REDUCE_MAX : REDUCE_SUM);
    MPI_Comm_split(MPI_COMM_WORLD, odd, -rank, &part);
    MPI_Comm_size(part, &size);
    int err = reduce_mpi_allreduce(NULL, &s, data, sizeof data, &value, sizeof value, part);
    expect(!err && value == (odd ? 1e100 : 7 * size), "parts of the ranks");
    err = reduce_mpi_allreduce(NULL, &s, data, sizeof data, &value, sizeof value, MPI_COMM_SELF);
    expect(!err && value == (odd ? 1e100 : 7), "one rank");
    MPI_Comm_free(&part);
}

static void together(void)
{
    enum { MANY = 20 };
    double out[MANY];
    for (size_t n = 1; n <= MANY; n++) {
        reduce_item items[MANY];
        reduce_spec specs[MANY];
        for (size_t i = 0; i < n; i++) {
            specs[i] = spec_of(i % 2 ? REDUCE_MEAN : REDUCE_SUM);
            items[i] = reduce_mpi_item(&specs[i], data, sizeof data, &out[i], sizeof out[i]);
        }
        int err = reduce_mpi_allreduce_items(NULL, items, n, MPI_COMM_WORLD);
        expect(!err, "several");
        for (size_t i = 0; i < n; i++)
            expect(out[i] == (i % 2 ? 1.75 : 7 * ranks), "one of several");
    }
}

/* And device memory, which this daemon does not have: an error at all. */
static void elsewhere(const char *url)
{
    reduce_client *c;
    const char handle[64] = {0};
    double value = 0;
    FILE *file = tmpfile();
    reduce_spec s = spec_of(REDUCE_SUM);
    expect(file && fwrite(data, sizeof data, 1, file) == 1 && !fflush(file) && !reduce_open(&c, url, NULL), "the start");
    int err = reduce_mpi_file(c, &s, fileno(file), 8, 24, &value, sizeof value, MPI_COMM_WORLD);
    expect(!err && value == ranks * -1e100, "a range of a file");
    err = reduce_mpi_device(c, &s, handle, 0, 8, &value, sizeof value, MPI_COMM_WORLD);
    expect(err == REDUCE_E_TYPE, "a device");
    reduce_close(c);
    fclose(file);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    in_place();
    to_one();
    on_parts();
    together();
    elsewhere(argv[1]);
    int all;
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && all == 0)
        puts("fine");
    MPI_Finalize();
    return 0;
}
