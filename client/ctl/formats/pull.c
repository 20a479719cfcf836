/* Streams of bytes that decoders read from, down to a descriptor. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/ctl/formats/container.h"

typedef struct descriptor {
    ctl_pull pull;
    int fd;
    uint64_t left;
    off_t start; /* in a regular file */
} descriptor;

/* What was read ahead, in front of a stream. */
typedef struct behind {
    ctl_pull pull;
    ctl_pull *from;
    size_t at, len;
    uint8_t head[];
} behind;

long ctl_pull_fail(ctl_pull *p, int err, char why[CTL_WHY], const char *text)
{
    p->err = err;
    snprintf(why, CTL_WHY, "%s", text);
    return -1;
}

static long descriptor_read(ctl_pull *p, void *space, size_t room, char why[CTL_WHY])
{
    descriptor *d = (descriptor *)p;
    if (room > d->left)
        room = (size_t)d->left;
    const long n = ctl_read_some(d->fd, space, room, &p->err, why);
    if (n < 0)
        return -1;
    bool over = n == 0 && room && lseek(d->fd, 0, SEEK_CUR) < 0; /* a terminal would wait for a second end */
    d->left -= over ? d->left : (uint64_t)n;
    return n;
}

static bool descriptor_rewind(ctl_pull *p)
{
    const descriptor *d = (const descriptor *)p;
    return lseek(d->fd, d->start, SEEK_SET) == d->start;
}

static void descriptor_close(ctl_pull *p) { free(p); }

static bool is_regular(int fd)
{
    struct stat st;
    return !fstat(fd, &st) && S_ISREG(st.st_mode);
}

ctl_pull *ctl_pull_fd(int fd, uint64_t limit)
{
    descriptor *d = malloc(sizeof *d);
    if (!d)
        return NULL;
    bool again = limit == UINT64_MAX && is_regular(fd);
    *d = (descriptor){{descriptor_read, descriptor_close, 0, again ? descriptor_rewind : NULL}, fd, limit, 0};
    d->start = again ? lseek(fd, 0, SEEK_CUR) : 0;
    return &d->pull;
}

static long behind_read(ctl_pull *p, void *space, size_t room, char why[CTL_WHY])
{
    behind *b = (behind *)p;
    size_t n = room < b->len - b->at ? room : b->len - b->at;
    if (n == 0) {
        long got = b->from->read(b->from, space, room, why);
        p->err = b->from->err;
        return got;
    }
    memcpy(space, b->head + b->at, n);
    b->at += n;
    return (long)n;
}

static bool behind_rewind(ctl_pull *p)
{
    behind *b = (behind *)p;
    b->at = 0;
    return ctl_pull_rewind(b->from);
}

static void behind_close(ctl_pull *p)
{
    ctl_pull_close(((behind *)p)->from);
    free(p);
}

ctl_pull *ctl_pull_behind(const uint8_t *head, size_t len, ctl_pull *from)
{
    behind *b = from ? malloc(sizeof *b + len) : NULL;
    if (!b) {
        ctl_pull_close(from);
        return NULL;
    }
    *b = (behind){.pull = {behind_read, behind_close, 0, from->rewind ? behind_rewind : NULL}, .from = from, .len = len};
    memcpy(b->head, head, len);
    return &b->pull;
}

long ctl_pull_full(ctl_pull *p, void *space, size_t room, char why[CTL_WHY])
{
    size_t have = 0;
    while (have < room) {
        long n = p->read(p, (uint8_t *)space + have, room - have, why);
        if (n < 0)
            return n;
        if (n == 0)
            break;
        have += (size_t)n;
    }
    return (long)have;
}

bool ctl_pull_rewind(ctl_pull *p) { return p->rewind && p->rewind(p); }

void ctl_pull_close(ctl_pull *p)
{
    if (p)
        p->close(p);
}

int ctl_read_at(int fd, void *to, size_t n, uint64_t offset, char why[CTL_WHY])
{
    for (size_t have = 0; have < n;) {
        ssize_t got = pread(fd, (uint8_t *)to + have, n - have, (off_t)(offset + have));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            snprintf(why, CTL_WHY, "cannot read %zu bytes at %" PRIu64 ": %s", n, offset,
                     got ? strerror(errno) : "the file ends there");
            return REDUCE_E_IO;
        }
        have += (size_t)got;
    }
    return 0;
}
