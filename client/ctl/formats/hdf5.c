/* HDF5 and netCDF-4, read by the program reducectl-hdf5 (client/ctl/hdf5/): its records, and its streams of elements. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/ctl/formats/container.h"
#include "client/ctl/hdf5/datasets.h"
#include "client/program.h"

enum { MAX_RECORDS = 64 << 20, PIECE = 1 << 16 }; /* bytes */

extern char **environ;

/* ---- records ---- */

static int bad(char why[CTL_WHY], const char *what)
{
    snprintf(why, CTL_WHY, "%s reports %s", H5R_PROGRAM, what);
    return REDUCE_E_BAD_MESSAGE;
}

static int take_record(ctl_directory *d, const h5r_record *r, const char *name, uint64_t size, char why[CTL_WHY])
{
    ctl_array *a = ctl_directory_add(d, name, r->name_len);
    if (!a) {
        snprintf(why, CTL_WHY, "no memory for the list");
        return REDUCE_E_NO_MEMORY;
    }
    snprintf(a->type, sizeof a->type, "%.*s", H5R_TYPE_NAME, r->type);
    size_t element = reduce_dtype_size((int)r->dtype);
    a->dtype = element ? (int)r->dtype : 0;
    a->swapped = r->flags & H5R_SWAPPED;
    a->coding = r->flags & H5R_CONTIGUOUS ? CTL_PLAIN : CTL_BY_HDF5;
    a->offset = r->offset;
    a->packed = r->flags & H5R_PACKED;
    a->masked = r->flags & H5R_MASKED;
    if (r->dims > H5R_MAX_DIMS || !ctl_array_shape(a, r->dims, r->shape))
        return bad(why, "an impossible shape");
    if (a->dtype && a->coding == CTL_PLAIN && (a->offset > size || a->count > (size - a->offset) / element)) {
        snprintf(why, CTL_WHY, "the data of '%.60s' end behind the file: it is cut", a->name);
        return REDUCE_E_IO;
    }
    return 0;
}

int ctl_hdf5_parse(ctl_directory *d, const uint8_t *records, size_t len, uint64_t size, char why[CTL_WHY])
{
    d->kind = "HDF5";
    for (size_t at = 0; at < len;) {
        h5r_record r;
        if (len - at < sizeof r)
            return bad(why, "half a dataset");
        memcpy(&r, records + at, sizeof r);
        at += sizeof r;
        if (r.name_len > H5R_MAX_NAME || r.name_len > len - at)
            return bad(why, "half a dataset");
        int err = take_record(d, &r, (const char *)records + at, size, why);
        if (err)
            return err;
        at += r.name_len;
    }
    return 0;
}

/* ---- the program ---- */

typedef struct process {
    ctl_pull pull;
    pid_t pid;
    int out, errors;
    bool over;
} process;

static int spawn(process *p, const char *path, int fd, int out, int errors, char **argv)
{
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions))
        return ENOMEM;
    posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    int err = posix_spawnp(&p->pid, path, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return err;
}

static void process_close(ctl_pull *pull)
{
    process *p = (process *)pull;
    close(p->out);
    close(p->errors);
    if (!p->over) {
        kill(p->pid, SIGKILL);
        waitpid(p->pid, NULL, 0);
    }
    free(p);
}

/* The program has closed its output: check its exit status. */
static long finish(process *p, char why[CTL_WHY])
{
    int status;
    char text[CTL_WHY] = "", clean[CTL_WHY];
    ssize_t n = read(p->errors, text, sizeof text - 1);
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
        ;
    p->over = true;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    p->pull.err = REDUCE_E_IO;
    text[n > 0 ? n : 0] = 0;
    text[strcspn(text, "\n")] = 0;
    ctl_clean(clean, sizeof clean, text);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
        snprintf(why, CTL_WHY, "libhdf5 computed for %d s without a result (RLIMIT_CPU): the file is hostile", H5R_CPU_S);
    else if (WIFSIGNALED(status))
        snprintf(why, CTL_WHY, "the file is malformed: libhdf5 fails on it (signal %d)", WTERMSIG(status));
    else
        snprintf(why, CTL_WHY, "%s", clean[0] ? clean : "libhdf5 cannot read it");
    return -1;
}

static long process_read(ctl_pull *pull, void *space, size_t room, char why[CTL_WHY])
{
    process *p = (process *)pull;
    if (p->over)
        return 0;
    const long n = ctl_read_some(p->out, space, room, &pull->err, why);
    return n ? n : finish(p, why);
}

/* The program at work on the file; NULL: no memory, or `why`. */
static ctl_pull *start(int fd, char **argv, int *err, char why[CTL_WHY])
{
    int out[2], errors[2];
    char path[RC_PROGRAM_PATH], refused[RC_PROGRAM_WHY];
    if (rc_find_program(H5R_PROGRAM, path, refused)) {
        snprintf(why, CTL_WHY, "%s is not started: %s", H5R_PROGRAM, refused);
        *err = REDUCE_E_TYPE;
        return NULL;
    }
    process *p = calloc(1, sizeof *p);
    if (!p || pipe2(out, O_CLOEXEC)) {
        free(p);
        return NULL;
    }
    if (pipe2(errors, O_CLOEXEC)) {
        close(out[0]), close(out[1]);
        free(p);
        return NULL;
    }
    fcntl(out[0], F_SETPIPE_SZ, 1 << 20);
    int failed = spawn(p, path, fd, out[1], errors[1], argv);
    close(out[1]);
    close(errors[1]);
    *p = (process){{process_read, process_close, 0, NULL}, p->pid, out[0], errors[0], failed != 0};
    if (!failed)
        return &p->pull;
    process_close(&p->pull);
    snprintf(why, CTL_WHY, "HDF5 and netCDF-4 are read by the program %s: %s", H5R_PROGRAM, strerror(failed));
    *err = REDUCE_E_TYPE;
    return NULL;
}

static int no_memory(int err, char why[CTL_WHY])
{
    if (err)
        return err;
    snprintf(why, CTL_WHY, "no memory for the list");
    return REDUCE_E_NO_MEMORY;
}

/* Reads all of its output to *all, malloc'ed. */
static int read_all(ctl_pull *p, uint8_t **all, size_t *len, char why[CTL_WHY])
{
    for (size_t room = 0;;) {
        if (*len == room) {
            room = room ? 2 * room : PIECE;
            uint8_t *more = room <= MAX_RECORDS ? realloc(*all, room) : NULL;
            if (!more)
                return no_memory(0, why);
            *all = more;
        }
        long n = p->read(p, *all + *len, room - *len, why);
        if (n <= 0)
            return n ? p->err : 0;
        *len += (size_t)n;
    }
}

int ctl_hdf5_list(ctl_directory *d, int fd, uint64_t size, bool stored, char *name, char why[CTL_WHY])
{
    static char program[] = H5R_PROGRAM, list[] = "list", list_stored[] = "list-stored";
    char *argv[] = {program, stored ? list_stored : list, name, NULL};
    uint8_t *records = NULL;
    size_t len = 0;
    int err = 0;
    ctl_pull *p = start(fd, argv, &err, why);
    if (!p)
        return no_memory(err, why);
    err = read_all(p, &records, &len, why);
    if (!err)
        err = ctl_hdf5_parse(d, records, len, size, why);
    ctl_pull_close(p);
    free(records);
    return err;
}

static ctl_pull *start_reading(int fd, char *command, const ctl_array *a, int *err, char why[CTL_WHY])
{
    static char program[] = H5R_PROGRAM;
    char *argv[] = {program, command, a->name, NULL};
    return start(fd, argv, err, why);
}

ctl_pull *ctl_hdf5_pull(int fd, const ctl_array *a, int *err, char why[CTL_WHY])
{
    static char read[] = "read", unpack[] = "unpack";
    return start_reading(fd, a->packed ? unpack : read, a, err, why);
}

ctl_pull *ctl_hdf5_mask(int fd, const ctl_array *a, int *err, char why[CTL_WHY])
{
    static char mask[] = "mask";
    return start_reading(fd, mask, a, err, why);
}
