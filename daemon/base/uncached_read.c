#include "daemon/base/uncached_read.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_PAGES = 2048 }; /* pages looked up in one call: 8 MiB */

/* Opens the open file once more. -1: that failed. */
static int open_direct(int fd)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK);
}

/* Are these blocks in the page cache? The kernel answers correctly only if this process owns the file or may write it;
 * otherwise it always says yes. */
static bool is_cached(int fd, uint64_t from, size_t bytes)
{
    unsigned char pages[MOST_PAGES];
    size_t n = bytes / RD_DIRECT_BLOCK;
    void *file = n <= MOST_PAGES ? mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, (off_t)from) : MAP_FAILED;
    if (file == MAP_FAILED)
        return true;
    bool all = true, told = mincore(file, bytes, pages) == 0;
    for (size_t i = 0; i < n && all && told; i++)
        all = pages[i] & 1;
    munmap(file, bytes);
    return all;
}

size_t rd_uncached_read(int fd, uint8_t *to, size_t bytes, uint64_t offset)
{
    size_t skip = offset % RD_DIRECT_BLOCK, blocks = (skip + bytes + RD_DIRECT_BLOCK - 1) / RD_DIRECT_BLOCK;
    uint64_t from = offset - skip;
    int direct = is_cached(fd, from, blocks * RD_DIRECT_BLOCK) ? -1 : open_direct(fd);
    if (direct < 0)
        return 0;
    ssize_t n = pread(direct, to - skip, blocks * RD_DIRECT_BLOCK, (off_t)from);
    close(direct);
    size_t got = n > (ssize_t)skip ? (size_t)n - skip : 0;
    return got < bytes ? got : bytes;
}
