/* Reading a file around the page cache (O_DIRECT). Uncached data come from the disk faster that way
 * (tests/bench/tuning/host.md) and do not evict what is cached. It is meant for files too large for the cache; smaller ones may
 * soon be read again. */
#ifndef RD_UNCACHED_READ_H
#define RD_UNCACHED_READ_H

#include <stddef.h>
#include <stdint.h>

enum { RD_DIRECT_BLOCK = 4096 }; /* bytes: a multiple of any disk's block size */

/* Read `bytes` bytes at `offset` of the file unless all of them are in the cache. Returns how many bytes were read from the
 * start of the range. 0 also means that the file system cannot, that the daemon may not, or an error, which reading `fd` shows.
 * `to` and `offset` are congruent modulo RD_DIRECT_BLOCK, and whole blocks around `to` are writable. */
size_t rd_uncached_read(int fd, uint8_t *to, size_t bytes, uint64_t offset);

#endif
