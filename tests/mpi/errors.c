/* Faults of one rank, the last: each must be an error at every rank, and the reduction after it must be right.
 *
 *     mpirun -n N errors [URL PID]
 *
 * A line of the output is `name code code ...: text`: of each rank, and what the first one reports. With URL and PID the last
 * rank has a client, and kills that daemon during a reduction. */
#include <reduce_mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static int rank, ranks;
static double data[3] = {1e100, 1, -1e100}, out[8];

static int is_last(void) { return rank == ranks - 1; }

static void show(const char *name, int code)
{
    int codes[64];
    MPI_Gather(&code, 1, MPI_INT, codes, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank)
        return;
    char text[256];
    snprintf(text, sizeof text, "%s", reduce_errmsg());
    printf("%s", name);
    for (int i = 0; i < ranks; i++)
        printf(" %s", reduce_errname(codes[i]));
    printf(": %s\n", code ? text : "");
}

static reduce_spec spec_of(int op, int dtype)
{
    reduce_spec s = REDUCE_SPEC_INIT;
    s.op = op;
    s.dtype = dtype;
    return s;
}

static void check_good(void)
{
    reduce_spec s = spec_of(REDUCE_SUM, REDUCE_F64);
    int err = reduce_mpi_allreduce(NULL, &s, data, sizeof data, out, sizeof out, MPI_COMM_WORLD);
    if (err || out[0] != ranks) {
        fprintf(stderr, "rank %d: %s, %g\n", rank, reduce_errmsg(), out[0]);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* The last rank reduces (op, dtype, data); the others the sum of f64. */
static void others(const char *name, int op, int dtype, const void *mine, size_t bytes, size_t room)
{
    reduce_spec s = is_last() ? spec_of(op, dtype) : spec_of(REDUCE_SUM, REDUCE_F64);
    show(name, reduce_mpi_allreduce(NULL, &s, is_last() ? mine : data, is_last() ? bytes : sizeof data, out,
                                    is_last() ? room : sizeof out, MPI_COMM_WORLD));
    check_good();
}

/* What all ranks do and none can finish. */
static void alike(const char *name, int op, int dtype, int nan, const void *mine, size_t bytes)
{
    reduce_spec s = spec_of(op, dtype);
    s.nan = nan;
    show(name, reduce_mpi_allreduce(NULL, &s, mine, bytes, out, sizeof out, MPI_COMM_WORLD));
    check_good();
}

static void items(const char *name, size_t mine)
{
    static const double wide[2] = {1e300, 1e-300}; /* eight such states fill more than a message */
    reduce_spec s = spec_of(REDUCE_SUM, REDUCE_F64);
    reduce_item item[8];
    for (size_t i = 0; i < 8; i++)
        item[i] = reduce_mpi_item(&s, wide, sizeof wide, &out[i], sizeof out[i]);
    show(name, reduce_mpi_allreduce_items(NULL, item, is_last() ? mine : 8, MPI_COMM_WORLD));
    check_good();
}

/* ---- damaged messages -------------------------------------------------------------------------------------------- */

static size_t damage_at, damage_bytes;
static int damaging;

static int damaged_exchange(void *arg, void *buffer, size_t bytes)
{
    if (damaging && is_last())
        memset((char *)buffer + damage_at, 0x55, damage_bytes);
    damaging = 0;
    return reduce_mpi_exchange(arg, buffer, bytes);
}

static void damaged(const char *name, size_t at, size_t bytes)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    reduce_spec s = spec_of(REDUCE_SUM, REDUCE_F64);
    reduce_item item = reduce_mpi_item(&s, data, sizeof data, out, sizeof out[0]);
    damage_at = at;
    damage_bytes = bytes;
    damaging = 1;
    show(name, reduce_collective(NULL, &item, 1, (uint32_t)rank, damaged_exchange, &comm));
    check_good();
}

static int broken_exchange(void *arg, void *buffer, size_t bytes)
{
    (void)arg, (void)buffer, (void)bytes;
    return 7;
}

/* ---- states that the program carries ----------------------------------------------------------------------------- */

static void carried(void)
{
    unsigned char state[REDUCE_MAX_STATE];
    MPI_Datatype type = reduce_mpi_type(REDUCE_SUM, REDUCE_F64);
    reduce_spec s = spec_of(REDUCE_SUM, REDUCE_F64);
    reduce_state_init(state, sizeof state, is_last() ? REDUCE_NORM1 : REDUCE_SUM, REDUCE_F64); /* of the same length */
    MPI_Allreduce(MPI_IN_PLACE, state, 1, type, reduce_mpi_op(), MPI_COMM_WORLD);
    MPI_Type_free(&type);
    show("carried", reduce_state_finish(state, sizeof state, &s, out, sizeof out));
}

/* The last rank's are those of another op, or as many of them as fit. */
static void words(const char *name, int other)
{
    unsigned char state[REDUCE_MAX_STATE];
    int64_t w[REDUCE_MAX_WORDS];
    const int op = is_last() ? other : REDUCE_SUM;
    size_t n = reduce_state_words(REDUCE_SUM, REDUCE_F64);
    reduce_state_init(state, sizeof state, op, REDUCE_F64);
    reduce_state_to_words(state, sizeof state, w, reduce_state_words(op, REDUCE_F64));
    MPI_Allreduce(MPI_IN_PLACE, w, (int)n, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    show(name, reduce_state_from_words(state, sizeof state, REDUCE_SUM, REDUCE_F64, w, n));
}

/* ---- what a daemon refuses, and a daemon that dies --------------------------------------------------------------- */

static reduce_client *client; /* of the last rank */
static pid_t daemon_pid;

/* The last rank's elements are in a file or on a device, or should be. */
static void elsewhere(const char *name, int fd, const void *device, uint64_t bytes)
{
    reduce_spec s = spec_of(REDUCE_SUM, REDUCE_F64);
    reduce_item item = reduce_mpi_item(&s, data, sizeof data, out, sizeof out[0]);
    if (is_last()) {
        item.data = NULL;
        item.fd = fd;
        item.device = device;
        item.bytes = bytes;
    }
    show(name, reduce_mpi_allreduce_items(client, &item, 1, MPI_COMM_WORLD));
    check_good();
}

static void by_the_daemon(const char *name, uint32_t deadline_ms)
{
    enum { MANY = 100000 };
    static double many[MANY];
    reduce_spec s = spec_of(REDUCE_SUM, REDUCE_F64);
    s.deadline_ms = deadline_ms;
    for (int i = 0; i < MANY; i++)
        many[i] = 0.1 * i;
    show(name, reduce_mpi_allreduce(client, &s, many, sizeof many, out, sizeof out, MPI_COMM_WORLD));
}

static void kill_daemon(int number)
{
    (void)number;
    kill(daemon_pid, SIGKILL);
}

/* It has stopped, and is killed while the call waits for it. */
static void let_it_die(void)
{
    struct itimerval soon = {.it_value.tv_usec = 100000};
    signal(SIGALRM, kill_daemon);
    setitimer(ITIMER_REAL, &soon, NULL);
}

static void with_daemon(const char *url)
{
    const unsigned char nothing[64] = {0};
    FILE *file = tmpfile();
    reduce_open_opts opts = REDUCE_OPEN_OPTS_INIT;
    opts.reconnect_timeout_ms = 200;
    if (!file || fwrite(data, sizeof data, 1, file) != 1 || fflush(file) || (is_last() && reduce_open(&client, url, &opts))) {
        fprintf(stderr, "%s\n", reduce_errmsg());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    elsewhere("file", fileno(file), NULL, sizeof data);
    elsewhere("short_file", fileno(file), NULL, 4 * sizeof data);
    elsewhere("no_device", -1, nothing, sizeof data);
    by_the_daemon("living", 0);
    if (is_last())
        kill(daemon_pid, SIGSTOP);
    by_the_daemon("stopped", 100);
    if (is_last())
        let_it_die();
    by_the_daemon("dying", 0);
    by_the_daemon("dead", 0);
    reduce_close(client);
    fclose(file);
}

int main(int argc, char **argv)
{
    const double nan = 0.0 / 0.0;
    const int64_t large = INT64_MAX;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc > 1 && !strcmp(argv[1], "die")) {
        if (is_last())
            _exit(3);
        check_good();
    }
    check_good();
    others("same_length", REDUCE_NORM1, REDUCE_F64, data, sizeof data, sizeof out);
    others("other_length", REDUCE_VAR, REDUCE_F64, data, sizeof data, sizeof out);
    others("other_dtype", REDUCE_SUM, REDUCE_F32, data, sizeof data, sizeof out);
    others("no_data", REDUCE_SUM, REDUCE_F64, NULL, 8, sizeof out);
    others("half_element", REDUCE_SUM, REDUCE_F64, data, 12, sizeof out);
    others("no_room", REDUCE_SUM, REDUCE_F64, data, sizeof data, 4);
    others("no_op", 99, REDUCE_F64, data, sizeof data, sizeof out);
    alike("empty", REDUCE_MAX, REDUCE_F64, 0, NULL, 0);
    alike("nan", REDUCE_SUM, REDUCE_F64, REDUCE_NAN_ERROR, &nan, sizeof nan);
    alike("overflow", REDUCE_SUM, REDUCE_I64, 0, &large, sizeof large);
    items("fewer_items", 7);
    items("no_items", 0);
    items("two_exchanges", 8);
    damaged("magic", 0, 4);
    damaged("form", 4, 4);
    damaged("key", 16, 8);
    damaged("total", 24, 8);
    damaged("held", 32, 4);
    damaged("states", 48, 16);
    damaged("truncated", 64, REDUCE_MESSAGE - 64);
    reduce_spec s = spec_of(REDUCE_SUM, REDUCE_F64);
    reduce_item item = reduce_mpi_item(&s, data, sizeof data, out, sizeof out[0]);
    show("exchange", reduce_collective(NULL, &item, 1, 0, broken_exchange, NULL));
    s.op = REDUCE_MEDIAN; /* the first rank, which shows its text, has no error of its own */
    show("median", reduce_mpi_quantile(&s, data, is_last() ? 5 : sizeof data, out, sizeof out, MPI_COMM_WORLD));
    check_good();
    carried();
    words("words", REDUCE_NORM1);
    words("longer_words", REDUCE_VAR);
    elsewhere("no_client", 0, NULL, sizeof data);
    if (argc > 2) {
        daemon_pid = atoi(argv[2]);
        with_daemon(argv[1]);
    }
    MPI_Finalize();
    return 0;
}
