/* Requests of reduce_mpi.h that are under way at once: more than a message holds, on several communicators, between other
 * collectives, ended by the ranks in different orders. Prints "fine" if all ranks had what they should.
 *
 *     mpirun -n N nonblocking */
#include <reduce_mpi.h>

enum { REQUESTS = 5, MOST = 20 };

static int rank, ranks, wrong;
static double data[4] = {0x1p900, 3, -0x1p900, 4}; /* of each rank: 7, */
static const double wide = 0x1p-900;               /* ... or about this: such states fill a message */

typedef struct under_way {
    reduce_mpi_request r;
    size_t items;
    double out[MOST];
} under_way;

static void expect(int fine, const char *what)
{
    if (!fine)
        fprintf(stderr, "rank %d of %d: %s: %s\n", rank, ranks, what, reduce_errmsg());
    wrong += !fine;
}

/* Sums; MOST of them need a second exchange. All are free as soon as it has begun. */
static int begin(under_way *u, size_t items, int op, MPI_Comm comm)
{
    reduce_spec s = REDUCE_SPEC_INIT;
    double mine[4];
    reduce_item item[MOST];
    memcpy(mine, data, sizeof mine);
    if (items == MOST)
        mine[2] = wide;
    s.op = op;
    s.dtype = REDUCE_F64;
    u->items = items;
    for (size_t i = 0; i < items; i++) {
        u->out[i] = -1;
        item[i] = reduce_mpi_item(&s, mine, sizeof mine, &u->out[i], sizeof u->out[i]);
    }
    int err = reduce_mpi_iallreduce_items(NULL, item, items, comm, &u->r);
    memset(item, 0x55, sizeof item);
    memset(mine, 0x55, sizeof mine);
    return err;
}

static void check(const under_way *u, double value, const char *what)
{
    for (size_t i = 0; i < u->items; i++)
        expect(u->out[i] == (u->items == MOST && value != data[0] ? value / 7 * data[0] : value), what);
}

/* Every second request needs a second exchange. Ranks end them in their own order, with a collective in between. */
static void several(MPI_Comm comm, int size)
{
    static under_way u[REQUESTS];
    double sum = 1;
    for (int i = 0; i < REQUESTS; i++) {
        expect(!begin(&u[i], i % 2 ? MOST : 1, REDUCE_SUM, comm), "begin");
        int done = 0;
        if (i == 2 && rank % 2)
            reduce_mpi_test(&u[1].r, &done);
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
    }
    for (int i = 0; i < REQUESTS; i++) {
        under_way *mine = &u[rank % 2 ? i : (i + 3) % REQUESTS];
        int done = 0;
        while (rank % 3 && !done)
            expect(!reduce_mpi_test(&mine->r, &done), "test");
        expect(!reduce_mpi_wait(&mine->r) && !reduce_mpi_wait(&mine->r), "wait");
        check(mine, 7 * size, "a sum");
    }
}

static void on_parts(void)
{
    int size;
    MPI_Comm part;
    under_way world, of_part;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &part);
    MPI_Comm_size(part, &size);
    expect(!begin(&world, MOST, REDUCE_SUM, MPI_COMM_WORLD) && !begin(&of_part, MOST, rank % 2 ? REDUCE_MAX : REDUCE_SUM, part),
           "begin on two");
    expect(!reduce_mpi_wait(&of_part.r) && !reduce_mpi_wait(&world.r), "wait for two");
    check(&world, 7 * ranks, "of all");
    check(&of_part, rank % 2 ? data[0] : 7 * size, "of a part");
    several(part, size);
    MPI_Comm_free(&part);
}

/* The last rank's is returned by all, by the request that has it alone. */
static void errors(void)
{
    under_way good, bad, other;
    char who[32];
    snprintf(who, sizeof who, "rank %d: ", ranks - 1);
    expect(!begin(&good, 1, REDUCE_SUM, MPI_COMM_WORLD), "begin");
    expect(!begin(&bad, 1, rank == ranks - 1 ? 99 : REDUCE_SUM, MPI_COMM_WORLD), "begin with an error");
    expect(!begin(&other, ranks > 1 && rank == 0 ? 2 : 1, REDUCE_SUM, MPI_COMM_WORLD), "begin with another number");
    expect(!reduce_mpi_wait(&good.r), "before an error");
    expect(reduce_mpi_wait(&other.r) == (ranks > 1 ? REDUCE_E_BAD_MESSAGE : 0), "ranks disagree");
    expect(reduce_mpi_wait(&bad.r) == REDUCE_E_OP && strstr(reduce_errmsg(), who) != NULL, "an error of one rank");
    check(&good, 7 * ranks, "beside an error");
    check(&bad, -1, "after an error");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    several(MPI_COMM_WORLD, ranks);
    on_parts();
    errors();
    int all;
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && all == 0)
        puts("fine");
    MPI_Finalize();
    return 0;
}
