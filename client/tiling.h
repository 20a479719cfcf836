/* How a reduction of any size and shape is cut into REDUCE messages. Pure: no I/O, no allocation, no locks.
 *
 * Results are lines of elements: rows, segments, columns of one plane after the other. A row may have a run in each of several
 * planes. A level covers all lines of a part of the job with tiles, one message each: some lines x some positions in them; of
 * small planes some whole ones. Lines that a tile holds whole give finished cells. Lines that are cut into blocks give a
 * partial state for each block, and these states, rows of them, are the elements of the next level. States are exact, so any
 * cut gives the same bits. By key the lines are groups, each tile has all of them, and blocks are of the elements. */
#ifndef RC_TILING_H
#define RC_TILING_H

#include "proto/types.h"

/* What a daemon takes in one message. */
typedef struct rc_sizes {
    uint64_t most;  /* bytes: offsets, elements, mask, weights and keys; >= RC_LEAST_DATA */
    uint64_t chunk; /* bytes of a block that a long line is cut into; RC_LEAST_DATA .. most */
    uint64_t cells; /* bytes of results of a message; 0: those of a reply */
    uint64_t panel; /* bytes of each row that tiles of columns have at least, or all of it; 0: some cache lines */
} rc_sizes;

/* Two of the longest states, so that levels shrink, and some elements of a panel of columns. */
enum { RC_LEAST_DATA = 4096 };

typedef struct rc_level {
    rp_spec spec;            /* checked; flags say the shape (COLUMNS or not) and what a finished cell is; index_base of the
                                 first position; rows, row_len and planes are each tile's */
    const uint8_t *elements; /* or states */
    const uint8_t *mask;     /* NULL: none */
    const uint8_t *beside;   /* weights or keys, of the spec's type and extent; NULL: none */
    bool stays;              /* the elements are the daemon's: what is beside them travels alone */
    const uint8_t *offsets;  /* lines + 1 u64 of segments, any alignment; NULL: the lines are equally long */
    uint64_t item;           /* bytes of an element or state */
    uint64_t lines, len;     /* lines, and elements in each; segments: len is not used; by key: groups, and all elements */
    uint64_t width;          /* columns: of them in a plane; all lines if there is one plane */
    uint64_t runs;           /* rows: planes, if a row has a run of len / runs elements in each of several; else 0 */
    /* set by rc_tiling: */
    uint64_t tile_lines, tile_len; /* of a full tile; segments: the most lines */
    uint64_t blocks;               /* into which a line is cut: > 1 gives states, cells[line * blocks + block] */
    uint64_t cell;                 /* bytes of a result of this level's messages */
    uint64_t most;
    uint64_t line, block; /* where the next tile begins */
} rc_level;

/* One message. */
typedef struct rc_tile {
    rp_spec spec;
    uint64_t line, lines, block;
    const uint8_t *offsets;             /* of its lines, or NULL */
    uint64_t at, stride, height, width; /* its elements: `height` rows of `width`, `stride` apart, from element `at` on */
    uint64_t weights_at;                /* the first weight, of a row or a column of them */
    uint64_t bytes;                     /* of data in the message */
} rc_tile;

/* Is a line of n elements too long to go whole, as a segment, in one message? */
bool rc_is_long(const rc_level *l, const rc_sizes *sizes, uint64_t n);

/* sizes->panel for columns of a file: each piece of a row is a call to read it, so as wide as few states allow. */
uint64_t rc_panel_of_file(const rc_level *l, uint64_t most);

/* The size of the tiles of columns in a file of `bytes` bytes, if the daemon takes ranges of up to `limit` bytes: whole
 * columns if these fit. 0: long tiles are not worth it, because the columns are short or their states small. *panel: as
 * in rc_sizes. */
uint64_t rc_long_tile(const rc_level *l, uint64_t bytes, uint64_t limit, uint64_t *panel);

/* Choose the tiles of a level whose description is complete. An order statistic has no states: if `blocks` is above 1, its
 * lines do not fit messages, and there are no tiles. */
void rc_tiling(rc_level *l, const rc_sizes *sizes);

/* Do the tile's elements follow one another? */
static inline bool rc_is_contiguous(const rc_tile *t) { return t->height <= 1 || t->width == t->stride; }

/* The next tile, line by line and in each block by block; false: there is none. */
bool rc_next_tile(rc_level *l, rc_tile *t);

/* Write the tile's data, t->bytes of them. */
void rc_fill_tile(const rc_level *l, const rc_tile *t, uint8_t *to);

/* The last part of that: its weights or keys, if it has some. */
void rc_fill_beside(const rc_level *l, const rc_tile *t, uint8_t *to);

/* Bytes of a weight or a key; 0: there are none. */
size_t rc_beside_size(const rc_level *l);

/* Of a level by key: may its elements go in messages, in one or in several that give states of all groups? Results of elements
 * that stay may go elsewhere than into a reply. */
bool rc_keys_fit(const rc_level *l, uint64_t most);

/* Put the cells of the tile's reply where they belong among those of the level. */
void rc_place_cells(const rc_level *l, const rc_tile *t, const uint8_t *cells, uint8_t *to);

/* After a level with blocks: the level that merges its states. `finish`: the flags of the job without its shape. */
void rc_next_level(rc_level *l, const uint8_t *states, const rp_spec *finish);

/* Offset i. */
uint64_t rc_offset(const uint8_t *offsets, uint64_t i);

#endif
