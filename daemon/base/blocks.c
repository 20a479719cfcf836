#include "daemon/base/blocks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

/* Smaller blocks come from malloc, whose cache for each thread suffices. Larger ones are rare. */
enum {
    LEAST = 1000,
    BLOCK = 17 << 10, /* bytes: a frame with 16 KiB of data */
    MOST_KEPT = 16    /* blocks a thread keeps */
};

typedef struct block {
    struct block *next;
} block;

static _Thread_local struct {
    block *first;
    unsigned n;
    bool ends; /* the end of the thread frees its blocks */
} kept;

static pthread_key_t at_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool known;

static void free_kept(void *first)
{
    (void)first;
    while (kept.first) {
        block *b = kept.first;
        kept.first = b->next;
        free(b);
    }
    kept.n = MOST_KEPT; /* keep no more: what is freed later in this thread goes back to malloc */
}

static void make_key(void) { known = pthread_key_create(&at_end, free_kept) == 0; }

/* Will this thread free what it keeps when it ends? */
static bool ends(void)
{
    if (!kept.ends) {
        pthread_once(&once, make_key);
        kept.ends = known && pthread_setspecific(at_end, &kept) == 0;
    }
    return kept.ends;
}

static bool is_block(size_t bytes) { return bytes > LEAST && bytes <= BLOCK; }

void *rd_block_new(size_t bytes)
{
    block *b = kept.first;
    if (!is_block(bytes))
        return malloc(bytes);
    if (!b)
        return malloc(BLOCK);
    kept.first = b->next;
    kept.n--;
    return b;
}

void rd_block_free(void *p, size_t bytes)
{
    block *b = p;
    if (!p || !is_block(bytes) || kept.n == MOST_KEPT || !ends()) {
        free(p);
        return;
    }
    b->next = kept.first;
    kept.first = b;
    kept.n++;
}
