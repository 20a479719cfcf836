/* Opens files. What is kept of a pipe is opened instead of the pipe, at its start. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/ctl/ctl.h"

static ctl_pipe *pipes;

static ctl_pipe **find(const struct stat *st)
{
    ctl_pipe **at = &pipes;
    while (*at && ((*at)->dev != st->st_dev || (*at)->ino != st->st_ino))
        at = &(*at)->next;
    return at;
}

ctl_pipe *ctl_pipes(void) { return pipes; }

ctl_pipe *ctl_pipe_of(const struct stat *st, const char *name)
{
    ctl_pipe **at = find(st);
    if (!*at && (*at = malloc(sizeof **at)))
        **at = (ctl_pipe){.dev = st->st_dev, .ino = st->st_ino, .name = name, .fd = -1};
    return *at;
}

/* The number of a descriptor of this process that the path names, such as /dev/fd/63; -1: it names something else. */
static int number_of(const char *path)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    char *end;
    if (!strcmp(path, "/dev/stdin"))
        return STDIN_FILENO;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const size_t n = strlen(folders[i]);
        const long fd = strncmp(path, folders[i], n) ? -1 : strtol(path + n, &end, 10);
        if (fd >= 0 && fd <= INT32_MAX && end > path + n && !*end)
            return (int)fd;
    }
    return -1;
}

int ctl_open_path(const char *path)
{
    struct stat st;
    char again[32];
    const bool own = !strcmp(path, "-");
    const ctl_pipe *k = pipes && !(own ? fstat(STDIN_FILENO, &st) : stat(path, &st)) ? *find(&st) : NULL;
    if (k && k->fd >= 0) {
        snprintf(again, sizeof again, "/proc/self/fd/%d", k->fd);
        return open(again, O_RDONLY | O_CLOEXEC);
    }
    if (own)
        return STDIN_FILENO;
    const int fd = open(path, O_RDONLY | O_CLOEXEC), number = number_of(path);
    return fd < 0 && errno == ENXIO && number >= 0 ? fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : fd; /* a socket */
}
