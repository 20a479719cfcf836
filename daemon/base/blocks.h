/* Memory of some KiB that comes and goes with each request. All threads share one arena of malloc (main.c), so they would wait
 * for its lock. Each thread keeps a few blocks that it freed, for the next requests that it reads. */
#ifndef RD_BLOCKS_H
#define RD_BLOCKS_H

#include <stddef.h>

/* NULL: no memory. */
void *rd_block_new(size_t bytes);

/* `bytes`: the same number as was asked for. NULL is allowed. */
void rd_block_free(void *p, size_t bytes);

#endif
