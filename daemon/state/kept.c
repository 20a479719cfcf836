#include "daemon/state/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };

static size_t whole(uint64_t bytes) { return bytes + RD_KEPT_RECORD; }

/* ---- making ---- */

/* Its pages are allocated now, so a lack of memory shows here and not as SIGBUS when they are written. */
bool rd_kept_make(rd_kept *k, uint64_t bytes)
{
    *k = (rd_kept){.fd = memfd_create("reduced-resident", MFD_CLOEXEC | MFD_ALLOW_SEALING), .bytes = bytes};
    void *base = MAP_FAILED;
    if (k->fd >= 0 && ftruncate(k->fd, (off_t)whole(bytes)) == 0 && fallocate(k->fd, 0, 0, (off_t)whole(bytes)) == 0)
        base = mmap(NULL, whole(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, k->fd, 0);
    if (base != MAP_FAILED) {
        k->base = base;
        return true;
    }
    rd_kept_free(k);
    return false;
}

/* Maps the same memory at the same address, read-only, because the kernel seals nothing that has a writable mapping. On Linux
 * before 6.7 a shared mapping of a writable descriptor counts as writable. */
static bool map_for_reading(const rd_kept *k)
{
    char name[32];
    snprintf(name, sizeof name, "/proc/self/fd/%d", k->fd);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    bool mapped = fd >= 0 && mmap(k->base, whole(k->bytes), PROT_READ, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) == k->base;
    if (fd >= 0)
        close(fd);
    return mapped;
}

bool rd_kept_seal(rd_kept *k, rd_kept_record *r)
{
    r->checksum = rd_checksum(k->base, k->bytes);
    rd_kept_put(k->base + k->bytes, r);
    return map_for_reading(k) && fcntl(k->fd, F_ADD_SEALS, SEALS) == 0;
}

/* ---- taking back ---- */
static const char *look_at(int fd, uint64_t *bytes)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || seals < 0)
        return "it is not memory of the kind that is kept";
    if ((seals & SEALS) != SEALS)
        return "it is not sealed";
    if (st.st_size <= RD_KEPT_RECORD)
        return "it is too small";
    *bytes = (uint64_t)st.st_size - RD_KEPT_RECORD;
    return NULL;
}

static const char *check(const rd_kept *k, rd_kept_record *r)
{
    const char *why = rd_kept_get(k->base + k->bytes, r);
    if (why)
        return why;
    if (r->store.bytes != k->bytes)
        return "its size is not that of its record";
    return r->checksum == rd_checksum(k->base, k->bytes) ? NULL : "the checksum of its data is wrong";
}

const char *rd_kept_take(rd_kept *k, int fd, rd_kept_record *r)
{
    *k = (rd_kept){.fd = fd};
    const char *why = look_at(fd, &k->bytes);
    if (!why) {
        void *base = mmap(NULL, whole(k->bytes), PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
        k->base = base == MAP_FAILED ? NULL : base;
        why = k->base ? check(k, r) : "it cannot be mapped";
    }
    if (why)
        rd_kept_free(k);
    return why;
}

/* ---- the end ---- */
void rd_kept_close_fd(rd_kept *k)
{
    if (k->fd >= 0)
        close(k->fd);
    k->fd = -1;
}

void rd_kept_free(rd_kept *k)
{
    rd_kept_close_fd(k);
    if (k->base)
        munmap(k->base, whole(k->bytes));
    k->base = NULL;
}
