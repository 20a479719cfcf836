/* reducectl on all ranks of an MPI job: the files are shared out over the ranks by bytes, and rank 0 prints one answer.
 *
 *     mpicc reducectl_mpi.c $(pkg-config --cflags --libs libreduce) -o reducectl-mpi
 *     mpirun -n 8 reducectl-mpi sum part-*.npy
 *
 * Options are those of reducectl that go with --shard. Each rank runs reducectl on its part, with the daemon of its node. If a
 * node has none, its first rank starts one, which ends with the job. The answer has the same bits for any number of ranks. */
#include <errno.h>
#include <reduce_mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NO_DAEMON = 3, START_MS = 20000 };

static int rank, ranks;

/* ---- child processes --------------------------------------------------------------------------------------------- */

/* Run a program; its standard output goes to `out`, or, with NULL, where ours goes. */
static pid_t start(char *const argv[], int out)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (out >= 0)
            dup2(out, STDOUT_FILENO);
        execvp(argv[0], argv);
        fprintf(stderr, "reducectl-mpi: %s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    return pid;
}

/* Its exit code; 1 if a signal ended it. */
static int finish(pid_t pid)
{
    int status;
    if (pid < 0)
        return 1;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* Run `reducectl ARGV... OPTION VALUE`, with its output in the file `out` (-1: ours). */
static int reducectl(char **argv, int argc, const char *option, const char *value, int out)
{
    char **args = calloc((size_t)argc + 4, sizeof *args);
    int n = 0, code = 1;
    if (args) {
        args[n++] = (char *)"reducectl";
        args[n++] = (char *)option;
        args[n++] = (char *)value;
        memcpy(args + n, argv + 1, sizeof *args * (size_t)(argc - 1));
        code = finish(start(args, out));
    }
    free(args);
    return code;
}

/* ---- the daemon of the node -------------------------------------------------------------------------------------- */

static int pings(int quiet)
{
    char *ping[] = {(char *)"reducectl", (char *)"ping", (char *)"--no-autostart", NULL};
    int saved = dup(STDERR_FILENO), code;
    if (quiet && !freopen("/dev/null", "w", stderr))
        return 0;
    FILE *none = fopen("/dev/null", "w");
    code = finish(start(ping, none ? fileno(none) : -1));
    if (none)
        fclose(none);
    dup2(saved, STDERR_FILENO);
    close(saved);
    return code == 0;
}

/* Start a daemon for this job, unless one answers; its process, or 0. REDUCED_URL is set then. */
static pid_t start_daemon(char url[128])
{
    static char folder[] = "/tmp/reducectl-mpi-XXXXXX";
    char *daemon[] = {(char *)"reduced", (char *)"--listen",    url,           (char *)"--log-level",
                      (char *)"warn",    (char *)"--idle-exit", (char *)"600", NULL};
    const struct timespec moment = {0, 20000000};
    url[0] = 0;
    if (pings(1) || !mkdtemp(folder))
        return 0;
    snprintf(url, 128, "ipc://%s/s", folder);
    setenv("REDUCED_URL", url, 1);
    pid_t pid = start(daemon, -1);
    for (int ms = 0; ms < START_MS && !pings(1); ms += 20)
        nanosleep(&moment, NULL);
    return pid > 0 ? pid : 0;
}

static void stop_daemon(pid_t pid, const char *url)
{
    char path[128];
    if (!pid)
        return;
    kill(pid, SIGTERM);
    finish(pid);
    snprintf(path, sizeof path, "%s", url + strlen("ipc://"));
    unlink(path);
    strcat(path, ".lock");
    unlink(path);
    *strrchr(path, '/') = 0;
    rmdir(path);
}

/* The first rank of each node sees to its daemon and tells the others where it is. */
static pid_t begin_node(MPI_Comm *node, char url[128])
{
    pid_t pid = 0;
    int local;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, node);
    MPI_Comm_rank(*node, &local);
    if (local == 0)
        pid = start_daemon(url);
    MPI_Bcast(url, 128, MPI_CHAR, 0, *node);
    if (url[0])
        setenv("REDUCED_URL", url, 1);
    return pid;
}

/* ---- the reduction ----------------------------------------------------------------------------------------------- */

/* This rank's state, from reducectl; its bytes, 0 if it failed. */
static size_t shard(int argc, char **argv, unsigned char state[REDUCE_LARGEST_STATE], int *code)
{
    char part[64];
    FILE *out = tmpfile();
    size_t n = 0;
    snprintf(part, sizeof part, "%d/%d", rank, ranks);
    *code = out ? reducectl(argv, argc, "--shard", part, fileno(out)) : 1;
    if (*code == 0) {
        rewind(out);
        n = fread(state, 1, REDUCE_LARGEST_STATE, out);
    }
    if (out)
        fclose(out);
    return n;
}

/* Rank 0: what the merged state gives. */
static int print(int argc, char **argv, const unsigned char *state, size_t n)
{
    char path[] = "/tmp/reducectl-mpi-state-XXXXXX";
    int fd = mkstemp(path), code = 1;
    if (fd >= 0 && write(fd, state, n) == (ssize_t)n)
        code = reducectl(argv, argc, "--joined", path, -1);
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
    return code;
}

/* The states of all ranks merged by MPI; 0, or the exit code. */
static int join(unsigned char *state, size_t n)
{
    const int length = (int)n;
    int same[2] = {length, -length}, all[2];
    MPI_Datatype type;
    MPI_Allreduce(same, all, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (all[0] != -all[1]) {
        if (rank == 0)
            fprintf(stderr, "reducectl-mpi: the ranks have states of different operations or types\n");
        return 1;
    }
    MPI_Type_contiguous(length, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    MPI_Allreduce(MPI_IN_PLACE, state, 1, type, reduce_mpi_op(), MPI_COMM_WORLD);
    MPI_Type_free(&type);
    return 0;
}

int main(int argc, char **argv)
{
    unsigned char state[REDUCE_LARGEST_STATE] = {0};
    char url[128] = "";
    int code, worst;
    MPI_Comm node;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    pid_t daemon = begin_node(&node, url);
    size_t n = shard(argc, argv, state, &code);
    MPI_Allreduce(&code, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (worst == 0)
        worst = join(state, n);
    if (worst == 0) {
        worst = rank ? 0 : print(argc, argv, state, n);
        MPI_Bcast(&worst, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Barrier(node); /* the others have done with the daemon */
    stop_daemon(daemon, url);
    MPI_Comm_free(&node);
    MPI_Finalize();
    return worst;
}
