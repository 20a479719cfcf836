/* A stream: one array that arrives in chunks. Each chunk becomes one partial state; the states are merged into one when
 * there are RD_FOLD_BYTES of them (a job of the engine) and at FINISH. By key each chunk gives the states of all groups, which
 * the loop merges at once: they are few. The loop owns it; jobs in the engine are counted
 * in `jobs`, and an ended stream is freed when the last of them is back. */
#ifndef RD_STREAM_H
#define RD_STREAM_H

#include "daemon/state/engine_job.h"
#include "daemon/state/extents.h"
#include "daemon/state/users.h"

enum { RD_FOLD_BYTES = 1 << 16 }; /* of states, from 75 of stats of f64 to 2048 of 32 bytes */

typedef struct rd_stream {
    rd_job fold; /* first: the fold job is the start of the stream */
    uint64_t id;
    rp_spec spec; /* checked; its own flags, rows 1 or groups, row_len 0 */
    rd_extents extents;
    size_t state_size; /* of a chunk: its state, or by key those of all groups */
    uint8_t *states;   /* `n` of them; by key one at most, into which others are merged */
    size_t n, cap;
    size_t folding_bytes;
    uint8_t *folding; /* the states that the fold job reads; NULL: no fold is under way */
    uint8_t folded[RP_MAX_STATE];
    unsigned jobs;                /* chunks, fold and final merge in the engine */
    bool ended;                   /* finished, aborted, or its session is gone: look-ups do not find it */
    rp_fault fault;               /* the first error in the engine */
    struct rd_request *finish;    /* the FINISH that waits for the jobs */
    uint64_t copy_ns, compute_ns; /* sums over the chunks */
    struct rd_stream_list *list;
    struct rd_stream *next;
} rd_stream;

typedef struct rd_stream_list {
    rd_stream *first;
    unsigned open; /* not ended */
    rd_users *users;
    rd_user *user; /* the user to charge; NULL: none */
} rd_stream_list;

/* `spec` is checked. NULL: no memory. */
rd_stream *rd_stream_open(rd_stream_list *l, uint64_t id, const rp_spec *spec);
rd_stream *rd_stream_find(const rd_stream_list *l, uint64_t id); /* ended ones are not found */

/* No longer found; rd_streams_sweep frees it once its jobs are back. */
void rd_stream_end(rd_stream_list *l, rd_stream *s);
void rd_streams_end(rd_stream_list *l);

/* Free the ended streams without jobs. */
void rd_streams_sweep(rd_stream_list *l);
bool rd_streams_busy(const rd_stream_list *l); /* any job in the engine? */
void rd_streams_free(rd_stream_list *l);

/* Claim a chunk's elements. Errors as in PROTOCOL.md, APPEND: TOO_LARGE, SHAPE, QUOTA. */
rp_err rd_stream_claim(rd_stream *s, uint64_t offset, size_t bytes, uint64_t *count, rp_fault *f);

/* Are there results for groups? */
static inline bool rd_stream_is_keyed(const rd_stream *s) { return s->spec.flags & RP_KEYS; }

/* Withdraw a claim: the chunk was not taken. */
void rd_stream_unclaim(rd_stream *s, uint64_t offset, uint64_t count);

/* Fill the task that reduces a chunk of `count` elements. */
rp_spec rd_stream_chunk(const rd_stream *s, uint64_t count);

/* Keep a copy of one state. NO_MEMORY fails the stream. */
void rd_stream_keep(rd_stream *s, const void *state);

/* If there are enough states, fill s->fold to merge them: the caller submits it. rd_stream_folded takes the result. */
bool rd_stream_fold(rd_stream *s);
void rd_stream_folded(rd_stream *s);

/* Fill the task that merges all states into the stream's result in `cells`. */
void rd_stream_merge(const rd_stream *s, rk_task *t, void *cells);

/* Note the first failure. */
void rd_stream_fail(rd_stream *s, const rp_fault *f);

#endif
