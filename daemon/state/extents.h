/* Which elements of a stream have come: sorted, disjoint, not touching half-open ranges. Pure. */
#ifndef RD_EXTENTS_H
#define RD_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"
#include "proto/types.h"

typedef struct rd_extent {
    uint64_t from, to; /* [from, to), from < to */
} rd_extent;

typedef struct rd_extents {
    rd_extent at[2 * RP_MAX_EXTENTS]; /* twice the cap: taking chunks back may split pieces */
    unsigned n;
    uint64_t total; /* elements */
} rd_extents;

typedef enum { RD_EXTENT_OK, RD_EXTENT_OVERLAP, RD_EXTENT_MANY } rd_extent_result;

/* Add [from, to), from < to. OVERLAP: an element has come before, *first is the first one. MANY: it would be piece number
 * RP_MAX_EXTENTS + 1. Nothing changes in either case. */
rd_extent_result rd_extents_add(rd_extents *e, uint64_t from, uint64_t to, uint64_t *first);

/* The same for a client, with a typed error. `what`: "element" or "byte". Errors: SHAPE (offset; index = the first
 * that came already), QUOTA (extents). */
rp_err rd_extents_claim(rd_extents *e, uint64_t from, uint64_t to, const char *what, rp_fault *f);

/* Take [from, to) back; it was added as such. False: no room for the split; nothing changes. */
bool rd_extents_remove(rd_extents *e, uint64_t from, uint64_t to);

/* Is it exactly [0, count)? If not, *first is the first element that is missing below count or present from count on. */
bool rd_extents_cover(const rd_extents *e, uint64_t count, uint64_t *first);

#endif
