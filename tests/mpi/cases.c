/* Runs cases on all ranks in every way that there is, and prints what each gave; tests/test_mpi.py knows what it should be.
 *
 *     mpirun -n N cases DATA CASES [URL [device]]
 *
 * With a URL the same elements are several items of one call: memory, a range of the file DATA, and with `device` (the daemon
 * of tests/device) a range of device memory. They must have the same values.
 *
 * A line of CASES is `op dtype nan out ddof at0 at1 ... atN`: rank r has the bytes of DATA from at(r) up to at(r + 1). A line
 * of the output is `code value states words state`: hex, of reduce_mpi_allreduce, the same with REDUCE_STATES_OUT, words by
 * MPI_SUM and MPI_MAX, and states by reduce_mpi_op; `-` where there is nothing. All ranks must have the same. */
#include <reduce_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 1 << 24, ITEMS = 3, VALUE = REDUCE_MAX_STATE };

static int rank, ranks;
static reduce_client *client;
static unsigned char data[MOST], handle[64];
static int file = -1, on_device;

static void die(const char *what)
{
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, reduce_errmsg());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Print it once; the others must have it too. */
static void show(const unsigned char *bytes, size_t n)
{
    unsigned char first[REDUCE_MAX_STATE + 8];
    int same, all;
    memcpy(first, bytes, n);
    MPI_Bcast(first, (int)n, MPI_BYTE, 0, MPI_COMM_WORLD);
    same = !memcmp(first, bytes, n);
    MPI_Allreduce(&same, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all)
        die("the ranks do not have the same bytes");
    if (rank)
        return;
    printf(n ? " " : " -");
    for (size_t i = 0; i < n; i++)
        printf("%02x", bytes[i]);
}

static void by_words(const reduce_spec *s, const unsigned char *state, size_t size)
{
    unsigned char joined[REDUCE_MAX_STATE];
    int64_t words[REDUCE_MAX_WORDS];
    size_t added = reduce_state_words(s->op, s->dtype), n = added;
    if (!n) {
        n = reduce_state_keys(s->op, s->dtype);
        added = REDUCE_KEYS_ADDED;
    }
    if (!n) {
        show(joined, 0);
        return;
    }
    if (reduce_state_to_words(state, size, words, n))
        die("to_words");
    MPI_Allreduce(MPI_IN_PLACE, words, (int)added, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (n > added)
        MPI_Allreduce(MPI_IN_PLACE, words + added, (int)(n - added), MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    if (reduce_state_from_words(joined, sizeof joined, s->op, s->dtype, words, n))
        die("from_words");
    show(joined, size);
}

static void by_op(const reduce_spec *s, const unsigned char *state, size_t size)
{
    unsigned char joined[REDUCE_MAX_STATE];
    MPI_Datatype type = reduce_mpi_type(s->op, s->dtype);
    memcpy(joined, state, size);
    MPI_Allreduce(MPI_IN_PLACE, joined, 1, type, reduce_mpi_op(), MPI_COMM_WORLD);
    MPI_Type_free(&type);
    show(joined, size);
}

/* The elements from everywhere, in one call; `value` is that of each. */
static int from_everywhere(const reduce_spec *s, const unsigned char *mine, size_t bytes, unsigned char *value, size_t room)
{
    static unsigned char values[ITEMS][VALUE];
    reduce_item items[ITEMS];
    size_t n = client ? 2 + (size_t)on_device : 1;
    for (size_t i = 0; i < n; i++) {
        items[i] = reduce_mpi_item(s, i ? NULL : mine, bytes, values[i], VALUE);
        items[i].fd = i == 1 ? file : -1;
        items[i].device = i == 2 ? handle : NULL;
        items[i].offset = i ? (size_t)(mine - data) : 0;
    }
    int err = reduce_mpi_allreduce_items(client, items, n, MPI_COMM_WORLD);
    for (size_t i = 1; i < n && !err; i++)
        if (memcmp(values[0], values[i], room))
            die("an item has another value than the first");
    memcpy(value, values[0], room);
    return err;
}

static void run_case(const reduce_spec *spec, const unsigned char *mine, size_t bytes)
{
    unsigned char value[VALUE] = {0}, states[VALUE], own[VALUE];
    size_t size = reduce_state_size(spec->op, spec->dtype), room;
    reduce_spec s = *spec;
    if (reduce_result_size(&s, 0, &room))
        die("result size");
    int code = from_everywhere(&s, mine, bytes, value, room);
    if (rank == 0)
        printf("%s", reduce_errname(code));
    show(value, code ? 0 : room);
    s.flags = REDUCE_STATES_OUT;
    if (from_everywhere(&s, mine, bytes, states, size))
        die("states");
    show(states, size);
    if (reduce_state_init(own, sizeof own, s.op, s.dtype) ||
        reduce_state_add_at(own, sizeof own, mine, bytes / reduce_dtype_size(s.dtype), s.nan, s.index_base))
        die("own state");
    by_words(&s, own, size);
    by_op(&s, own, size);
    if (rank == 0)
        printf("\n");
}

/* DATA as this process has it on the device of tests/device, whose handles say where in /proc it is. */
static void put_on_device(size_t bytes)
{
    uint32_t where[2] = {(uint32_t)getpid(), (uint32_t)memfd_create("allocation", 0)};
    if (write((int)where[1], data, bytes) != (ssize_t)bytes)
        die("memfd");
    memcpy(handle, "a device", 8);
    memcpy(handle + 8, where, sizeof where);
    on_device = 1;
}

int main(int argc, char **argv)
{
    char line[1024];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    FILE *in = argc > 2 ? fopen(argv[1], "rb") : NULL, *cases = argc > 2 ? fopen(argv[2], "r") : NULL;
    size_t all = in ? fread(data, 1, sizeof data, in) : 0;
    if (!cases || all == 0 || all == sizeof data)
        die("usage: cases DATA CASES [URL [device]], DATA of less than 16 MiB");
    file = fileno(in);
    if (argc > 3 && reduce_open(&client, argv[3], NULL))
        die("open");
    if (argc > 4)
        put_on_device(all);
    while (fgets(line, sizeof line, cases)) {
        reduce_spec s = REDUCE_SPEC_INIT;
        size_t at[2] = {0, 0}, first = 0;
        char *p = line;
        s.op = (int32_t)strtol(p, &p, 10);
        s.dtype = (int32_t)strtol(p, &p, 10);
        s.nan = (int32_t)strtol(p, &p, 10);
        s.out = (int32_t)strtol(p, &p, 10);
        s.ddof = (uint32_t)strtol(p, &p, 10);
        for (int i = 0; i <= rank + 1; i++) {
            at[0] = at[1];
            at[1] = strtoul(p, &p, 10);
            first = i ? first : at[1];
        }
        s.index_base = (at[0] - first) / reduce_dtype_size(s.dtype);
        run_case(&s, data + at[0], at[1] - at[0]);
    }
    reduce_close(client);
    MPI_Finalize();
    return 0;
}
