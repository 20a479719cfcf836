/* A pipe on standard input, kept in memory: several operations read it again. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/ctl/ctl.h"

enum { BLOCK = 1 << 20 };

uint64_t ctl_spool_limit(const ctl_options *o)
{
    const uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return o->spool ? o->spool : memory / 2;
}

static bool write_all(int fd, const uint8_t *from, size_t n)
{
    while (n) {
        const ssize_t some = write(fd, from, n);
        if (some < 0 && errno != EINTR)
            return false;
        from += some > 0 ? some : 0;
        n -= some > 0 ? (size_t)some : 0;
    }
    return true;
}

/* All of standard input goes to fd. */
static int keep_input(int fd, uint8_t *block, const ctl_options *o, char why[CTL_WHY])
{
    const uint64_t limit = ctl_spool_limit(o);
    ctl_progress p;
    int err = 0;
    ctl_progress_start(&p, "stdin", 0, true, o->progress);
    while (!err) {
        const long n = ctl_read_some(STDIN_FILENO, block, BLOCK, &err, why);
        if (n <= 0)
            break;
        if (p.done + (uint64_t)n <= limit && !write_all(fd, block, (size_t)n)) {
            snprintf(why, CTL_WHY, "cannot keep it: %s", strerror(errno));
            err = REDUCE_E_IO;
        } else if (p.done + (uint64_t)n > limit) {
            snprintf(why, CTL_WHY,
                     "several operations read a pipe again, and it has more than the %" PRIu64 " bytes that --spool allows",
                     limit);
            err = REDUCE_E_TOO_LARGE;
        } else {
            ctl_progress_add(&p, (uint64_t)n);
        }
    }
    ctl_progress_end(&p);
    return err;
}

int ctl_spool_stdin(const ctl_options *o, char why[CTL_WHY])
{
    uint8_t *block = malloc(BLOCK);
    const int fd = memfd_create("stdin", MFD_CLOEXEC);
    int err = block && fd >= 0 ? keep_input(fd, block, o, why) : REDUCE_E_NO_MEMORY;
    if (!err && (lseek(fd, 0, SEEK_SET) < 0 || dup2(fd, STDIN_FILENO) < 0))
        err = REDUCE_E_IO;
    if (err && !why[0])
        snprintf(why, CTL_WHY, "cannot keep it: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    free(block);
    return err;
}
