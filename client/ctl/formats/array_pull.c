/* The elements of an array of a file as a stream. */
#include <unistd.h>

#include "client/ctl/formats/container.h"

/* The first `n` bytes are not elements. */
static int skip(ctl_pull *p, uint64_t n, char why[CTL_WHY])
{
    uint8_t piece[4096];
    while (n) {
        long got = ctl_pull_full(p, piece, n < sizeof piece ? (size_t)n : sizeof piece, why);
        if (got <= 0)
            return got ? p->err : REDUCE_E_IO;
        n -= (uint64_t)got;
    }
    return 0;
}

ctl_pull *ctl_array_pull(int fd, const ctl_array *a, int *err, char why[CTL_WHY])
{
    if (a->coding == CTL_BY_HDF5)
        return ctl_hdf5_pull(fd, a, err, why);
    if (lseek(fd, (off_t)a->offset, SEEK_SET) < 0) {
        snprintf(why, CTL_WHY, "cannot seek");
        *err = REDUCE_E_IO;
        return NULL;
    }
    ctl_pull *p = ctl_inflate(ctl_pull_fd(fd, a->stored), a->unpacked, a->crc, err, why);
    if (!p || !(*err = skip(p, a->skip, why)))
        return p;
    ctl_pull_close(p);
    return NULL;
}
