/* What a pipe brings, kept in a file in memory: to be opened again, or read from its end. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/ctl/formats/container.h"

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

static int copy(ctl_pull *from, int to, uint8_t *block, uint64_t *all, uint64_t limit, ctl_progress *p, char why[CTL_WHY])
{
    long n;
    while ((n = from->read(from, block, BLOCK, why)) > 0) {
        *all += (uint64_t)n;
        if (*all > limit) {
            snprintf(why, CTL_WHY, "pipes that are read again have more than the %" PRIu64 " bytes that --spool allows", limit);
            return REDUCE_E_TOO_LARGE;
        }
        if (!write_all(to, block, (size_t)n)) {
            snprintf(why, CTL_WHY, "cannot keep it: %s", strerror(errno));
            return REDUCE_E_IO;
        }
        ctl_progress_add(p, (uint64_t)n);
    }
    return n < 0 ? from->err : 0;
}

int ctl_keep_pipe(const char *name, ctl_pull *from, uint64_t *all, const ctl_options *o, int *fd, char why[CTL_WHY])
{
    ctl_progress p;
    uint8_t *block = malloc(BLOCK);
    int err = from && block && (*fd = memfd_create("pipe", MFD_CLOEXEC)) >= 0 ? 0 : REDUCE_E_NO_MEMORY;
    if (err) {
        snprintf(why, CTL_WHY, "cannot keep it: %s", strerror(errno));
    } else {
        ctl_progress_start(&p, name, 0, true, o->progress);
        err = copy(from, *fd, block, all, ctl_spool_limit(o), &p, why);
        ctl_progress_end(&p);
    }
    ctl_pull_close(from);
    free(block);
    return err;
}
