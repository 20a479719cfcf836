/* The loops over elements, one table for each instruction set. libreduce contains them, too, to add elements to states
 * itself. */
#ifndef RK_LOOPS_H
#define RK_LOOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/exact/state.h"
#include "proto/types.h"

/* Reduce n elements (any alignment) to a freshly initialised state. `index` is that of x[0]; only arg ops use it. */
typedef void rk_reduce_fn(rk_state *s, const void *x, uint64_t n, uint64_t index, int nan_policy);

/* The same for sums of floats or of their magnitudes, or for products, which are sums of logarithms. The state's sum differs
 * from the exact one by *neglected at most; if that is 0, it is the exact one. */
typedef void rk_near_fn(rk_state *s, const void *x, uint64_t n, int nan_policy, double *neglected);

/* Reduce n pairs (any alignment), an element of x and a weight of w each, to a fresh state of pairs. `zero_drops`: a weight of
 * 0 leaves out its pair. `neglected`: NULL, or as above; the sum of the weights is exact in any case. */
typedef void rk_pairs_fn(rk_state *s, const void *x, const void *w, uint64_t n, int nan_policy, bool zero_drops,
                         double *neglected);

/* Sums of RK_CHAINS short lines of floats: element i of line j is at x[j] + i * stride (bytes). Returns a bit for each sum that
 * is the exact one, rounded to f64; the others must be computed in another way. */
typedef unsigned rk_chains_fn(const uint8_t *const *x, const uint64_t *n, uint64_t stride, double *sum);
enum { RK_CHAINS = 8 };

/* Sums of neighbouring columns, a multiple of RK_COLUMN_STEP, over rows that lie `stride` bytes apart. Each is sum + lower.
 * False: they are not exact, or not finite. */
typedef bool rk_columns_fn(const void *x, uint64_t stride, size_t rows, size_t columns, double *sum, double *lower);
enum {
    RK_COLUMN_STEP = 8,
    RK_COLUMNS_TOGETHER = 128 /* columns taken row by row together: their accumulators stay in L1 */
};

/* Sums and sums of squares of the same, as parts whose exact sums they are. False: these are not exact, or not finite. */
enum {
    RK_COLUMN_LOWER, /* of the sum: -0.0 if all elements are */
    RK_COLUMN_SUM,
    RK_COLUMN_SQUARES,                      /* three levels */
    RK_COLUMN_REST = RK_COLUMN_SQUARES + 3, /* of the squares */
    RK_SQUARE_PARTS
};
typedef bool rk_column_squares_fn(const void *x, uint64_t stride, size_t rows, size_t columns,
                                  double (*parts)[RK_COLUMNS_TOGETHER]);

/* The least and the largest element of neighbouring columns, at most RK_COLUMNS_TOGETHER: of column c they go to ends[2c] and
 * ends[2c + 1]. False: NaNs are there. */
typedef bool rk_column_ends_fn(const void *x, uint64_t stride, size_t rows, size_t columns, void *ends);

/* The least [0] and the largest [1] element of each of these columns, the first row where it is, and the elements that are 0:
 * what is `wanted`. At most RK_PLACED_ROWS(bytes of an element) rows. False: NaNs are there. */
enum { RK_WANT_LEAST = 1, RK_WANT_LARGEST = 2, RK_WANT_ZEROS = 4 };
#define RK_PLACED_ROWS(size) ((size) == 1 ? 255u : 512u)
typedef struct rk_column_places {
    uint64_t bits[2][RK_COLUMNS_TOGETHER];
    uint32_t row[2][RK_COLUMNS_TOGETHER], zeros[RK_COLUMNS_TOGETHER];
} rk_column_places;
typedef bool rk_column_places_fn(const void *x, uint64_t stride, size_t rows, size_t columns, int wanted,
                                 rk_column_places *out);

/* Finished cells of neighbouring columns, at most RK_LOT, without states. Rows lie `stride` bytes apart; there are from 1 to
 * RK_LOT_ROWS of them, for products any number. Moments, sums of floats, one end and its place take contiguous `lines`:
 * `columns` of them lie so, of `rows` elements, at most RK_LOT_LINE. The reply has a float of any type, or the default type of
 * integers; one end of integers may have their own. Returns how many columns are left to be computed in another way. left[] has
 * their numbers, ascending; their cells are undefined. */
typedef struct rk_lot {
    const void *x;
    uint64_t stride;
    size_t rows, columns;
    int op, dtype, out, nan;
    unsigned ddof;
    bool wrap, lines;
    uint64_t base; /* index of the first element of a column */
} rk_lot;
enum { RK_LOT = 2048, RK_LOT_ROWS = 4096, RK_LOT_LINE = 2047 };
enum {
    RK_CELLS_CHOSEN,
    RK_CELLS_PLACED,
    RK_CELLS_RANGE,
    RK_CELLS_TOTAL,
    RK_CELLS_COUNTED,
    RK_CELLS_PRODUCT,
    RK_CELLS_MOMENTS,
    RK_CELL_KINDS
};
typedef size_t rk_cells_fn(const rk_lot *lot, void *cells, uint16_t *left);

/* The same for what a mask keeps: `run` takes it, as elements of type `dtype`, with others instead of those that are left out.
 * At most RK_KEPT_ROWS rows, and RK_KEPT_BYTES of one more. */
typedef struct rk_kept {
    const uint8_t *mask;
    uint64_t stride;   /* of the mask */
    int dtype;         /* f64 for integers among which NaNs stand */
    bool by_first;     /* a column's first element that is kept stands in for others, */
    uint64_t other;    /* ... or this one */
    uint64_t infinity; /* columns with NaNs, which are above it, have this cell; 0: not asked for */
    uint64_t nan;      /* ... 0: they are left */
    bool has_initial;  /* each column has this one more */
    uint64_t initial;
} rk_kept;
enum { RK_KEPT_ROWS = 128, RK_KEPT_BYTES = 32 << 10 };
enum { RK_APART = 64 /* extra bytes between rows of a tile, so that they do not share cache sets */ };
typedef size_t rk_kept_fn(const rk_lot *lot, const rk_kept *kept, rk_cells_fn *run, void *cells, uint16_t *left);

/* The product of n elements, finished: of integers to 64 bits, modulo 2^64 if they may `wrap`; of floats to type `out`. False:
 * it does not fit, is not certain, or there are floats that are not normal. */
typedef bool rk_row_product_fn(const void *x, uint64_t n, int out, bool wrap, uint64_t *cell);

/* Append the elements of x[0..n) that the mask keeps to out[k..), which has room for all n. Returns the new k. */
typedef size_t rk_keep_fn(void *out, size_t k, const void *x, const uint8_t *mask, size_t n);

/* Transpose columns to contiguous elements: the one of row r, column c becomes the r-th at out + c * apart. Rows lie `stride`
 * bytes apart. */
typedef void rk_turn_fn(void *out, size_t apart, const void *x, size_t stride, size_t rows, size_t columns);

/* Elements as keys: unsigned numbers of the element's width in the order of total_order.h, from 0 to `most`. Keys of NaNs are
 * above. key = ((x ^ (x >> (width - 1) & flip)) - base) modulo 2^width, with an arithmetic shift. */
typedef struct rk_keys {
    uint64_t flip, base, most;
} rk_keys;

/* Counts of keys, and for keys between lo and hi, without both, the keys themselves, appended to `out`, which has room for n of
 * them and a vector. At most RK_KEYS_AT_ONCE elements, not of 8 bits. Returns how many lie between. */
typedef struct rk_between {
    uint64_t below, at_lo, at_hi, nans;
} rk_between;
typedef size_t rk_between_fn(const void *x, size_t n, const rk_keys *k, uint64_t lo, uint64_t hi, rk_between *t, void *out);

/* The same for several ranges at once, which rise and are apart: counts keys below each, and NaNs; what lies in any of them,
 * both ends included, goes to `out`, for `between` to tell apart. */
enum { RK_RANGES = 8 };
typedef struct rk_ranges {
    unsigned n;
    uint64_t lo[RK_RANGES], hi[RK_RANGES];
} rk_ranges;
typedef size_t rk_inside_fn(const void *x, size_t n, const rk_keys *k, const rk_ranges *r, uint64_t below[RK_RANGES],
                            uint64_t *nans, void *out);

/* Count keys from lo to hi, both included, by digit: bins[(key - lo) >> shift]. The same number of elements. */
typedef void rk_digits_fn(const void *x, size_t n, const rk_keys *k, uint64_t lo, uint64_t hi, int shift, uint64_t *bins);

/* The places of elements whose keys are those from `from` on, `width` keys further at most, modulo 2^bits. Returns how many;
 * `out` has room for n. */
typedef size_t rk_hits_fn(const void *x, size_t n, const rk_keys *k, uint64_t from, uint64_t width, uint16_t *out);

/* Bins of keys: slot i has those from bound[i - 1] up to, not including, bound[i]. NaNs have a slot of their own, the last.
 * Each key has a place that does not fall while keys rise, and a table has the first slot of each place. */
typedef struct rk_edge_keys {
    uint64_t most; /* keys above are NaNs */
    bool by_value; /* the place of an f32 or f64 is (x - low) * scale; else that of a key (key - first) >> shift */
    double low, scale;
    uint64_t first;
    int shift;
    uint32_t places; /* at least 2; all further keys have the last one. The table has one more, for what is put apart */
    uint32_t n;      /* slots of a table of counts */
    uint32_t bounds;
    uint32_t half;         /* a power of 2: a place has fewer than twice as many bounds. 0: none has any */
    const uint64_t *bound; /* 2 half more are 2^64 - 1 */
    const uint32_t *table;
    /* Bins of one width, of f32 or f64: let s be (x - even_low) * even_scale, at least 0 and at most n - 2. The slot is the
     * nearest integer, if s minus that is even_sure or more; else it may be one slot lower. */
    bool even;
    double even_low, even_scale, even_sure;
} rk_edge_keys;
/* Count elements by slot, by turns in RK_TURNS tables of counts: equal neighbours would wait for one another's. */
typedef void rk_edge_counts_fn(const void *x, size_t n, const rk_keys *k, const rk_edge_keys *s, uint64_t *counts);
enum { RK_TURNS = 8 };
/* The same for bins of one width, with RK_EVEN_SLOTS slots at most. Most elements are counted in pairs, in two tables that the
 * caller adds to `counts` and clears: pairs[turn][second slot][first slot]. At most RK_EVEN_AT_ONCE elements until then. */
enum { RK_EVEN_SLOTS = 128, RK_EVEN_AT_ONCE = 4 * UINT16_MAX };
typedef void rk_even_counts_fn(const void *x, size_t n, const rk_keys *k, const rk_edge_keys *s, uint64_t *counts,
                               uint16_t *pairs);

/* Short lines side by side, each in a lane: element r of lane c is number c at keys + r * apart, which is a multiple of
 * RK_LANE_BYTES. `keys` makes keys of the elements there, less half of their number: so they compare as signed numbers. `masks`
 * puts the largest one where a mask is 0. `sort` sorts each lane. `best` finds the k elements of the largest scores in each, of
 * equal ones the first, then the next: their keys and rows, in numbers of the same size, `apart` too. Both mark lanes that have
 * NaNs, or have them among the best. `elements` makes elements of keys. */
enum { RK_LANE_BYTES = 64, RK_LANE_BEST = 16, RK_MOST_LANES = 1024 };
typedef struct rk_lanes {
    uint8_t *keys;
    size_t apart, rows, lanes;
} rk_lanes;
/* The score of a key: (key ^ flip) + add; of a NaN's, `nan`. */
typedef struct rk_scores {
    uint64_t flip, add, nan;
} rk_scores;
typedef struct rk_lane_loops {
    void (*keys)(const rk_lanes *l, const rk_keys *k);
    void (*masks)(const rk_lanes *l, const uint8_t *mask, size_t apart);
    void (*sort)(const rk_lanes *l, const rk_keys *k, uint8_t *marks);
    void (*best)(const rk_lanes *l, const rk_keys *of, const rk_scores *s, size_t k, void *keys, void *rows, uint8_t *marks);
    void (*elements)(void *bits, const void *keys, size_t lanes, const rk_keys *k);
} rk_lane_loops;
/* n elements as the reply's type, or the means of n pairs (b: NULL, or the second ones). Marks what is not certain. False:
 * there is no loop for these types. */
typedef bool rk_lane_words_fn(int dtype, int out, const void *a, const void *b, size_t n, void *words, uint8_t *marks);

enum { RK_KEYS_AT_ONCE = 4096, RK_DIGIT_BITS = 11, RK_DIGITS = 1 << RK_DIGIT_BITS };

typedef struct rk_simd {
    const char *name;
    rk_reduce_fn *reduce[RP_LAYOUT_COUNT][RP_DTYPE_COUNT + 1]; /* by rp_layout and rp_dtype */
    rk_near_fn *near_sum[RP_DTYPE_COUNT + 1];                  /* floats */
    rk_near_fn *near_product[RP_DTYPE_COUNT + 1];              /* floats, with AVX2 and better */
    rk_pairs_fn *pairs[RP_DTYPE_COUNT + 1];                    /* both operands have this type, or */
    rk_pairs_fn *pairs_f32_f64;                                /* the elements are f32 and the weights f64 */
    rk_chains_fn *chains[RP_DTYPE_COUNT + 1];                  /* f32 and f64 */
    rk_columns_fn *columns[RP_DTYPE_COUNT + 1];                /* floats */
    rk_column_squares_fn *column_squares[RP_DTYPE_COUNT + 1];  /* floats, with AVX-512 */
    rk_column_ends_fn *column_ends[RP_DTYPE_COUNT + 1];
    rk_column_places_fn *column_places[RP_DTYPE_COUNT + 1];
    rk_cells_fn *cells[RK_CELL_KINDS][RP_DTYPE_COUNT + 1]; /* products of floats: with AVX2 and better, as the next */
    rk_kept_fn *kept;
    rk_row_product_fn *row_product[RP_DTYPE_COUNT + 1];
    rk_keep_fn *keep[4];       /* by log2 of an element's bytes */
    rk_turn_fn *turn[4];       /* likewise, as the next two */
    rk_between_fn *between[4]; /* not of 8 bits */
    rk_inside_fn *inside[4];   /* the same, with AVX2 and better */
    rk_digits_fn *digits[4];
    rk_hits_fn *hits[4];
    rk_edge_counts_fn *edge_counts[4]; /* not of 8 bits */
    rk_even_counts_fn *even_counts[4]; /* f32 and f64 */
    rk_lane_loops lanes[4];
    rk_lane_words_fn *lane_words;
} rk_simd;

/* simd.c, compiled once for each instruction set of the architecture; the best one first, the baseline last. */
extern const rk_simd *const rk_simds[];
extern const int rk_simd_count;

bool rk_simd_runs(const rk_simd *simd); /* does this processor have what the table needs? */
const rk_simd *rk_simd_best(void);

/* pair_moments.c. Join a state of cov or corr with n pairs of x[i], of type `dtype`, and w[i], of the state's. */
void rk_cpu_comoments(const rk_simd *simd, rk_state *s, int dtype, const void *x, const void *w, uint64_t n, int nan_policy);
/* ... as a loop for pairs of one type, or of f32 and f64. */
rk_pairs_fn *rk_comoments_loop(bool same_type);

/* The control register for the arithmetic of PROTOCOL.md: nearest-even, no flushing to zero, no traps. `leave` restores the
 * caller's. */
uint64_t rk_fp_enter(void);
void rk_fp_leave(uint64_t saved);

#endif
