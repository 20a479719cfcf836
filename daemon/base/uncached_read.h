/* Reading a file around the page cache (O_DIRECT): what is not in the cache comes from the disk faster that way (TUNING.md),
 * and does not drive out of it what is. For files that the cache could not keep; others may soon be read again. */
#ifndef RD_UNCACHED_READ_H
#define RD_UNCACHED_READ_H

#include <stddef.h>
#include <stdint.h>

enum { RD_DIRECT_BLOCK = 4096 }; /* bytes: a multiple of every disk's block */

/* Read `bytes` bytes at `offset` of the file unless all of them are in the cache. Gives how many came, from the first one
 * on; 0 also if the file system cannot, the daemon may not, or something is wrong: reading `fd` shows what. `to` lies as
 * far after a multiple of RD_DIRECT_BLOCK as `offset`, and in memory that whole blocks may be read to. */
size_t rd_uncached_read(int fd, uint8_t *to, size_t bytes, uint64_t offset);

#endif
