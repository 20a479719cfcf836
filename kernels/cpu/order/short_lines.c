#include "kernels/cpu/order/short_lines.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/order/sample.h"
#include "kernels/exact/best_cell.h"
#include "kernels/exact/line.h"
#include "kernels/exact/order.h"
#include "kernels/exact/order_mix.h"
#include "kernels/exact/runs.h"

enum {
    LONGER = 128,          /* one line alone is not longer: lanes take as long for one line as for several */
    BLOCK_BYTES = 16 << 10 /* of keys: they stay in L1 */
};

typedef struct short_lines {
    const rk_simd *simd;
    const rk_task *t;
    const rp_spec *spec;
    rp_parts p;
    uint64_t plane; /* columns of a plane; 0: lines are rows */
    size_t size, word, cell;
    int log2_size;
    rk_keys keys;
    rk_scores scores;
    rk_lanes l;
    uint8_t *masks, *best[2];
    unsigned values;
    rk_place place[RP_MAX_QUANTILES];
    uint8_t marks[RK_MOST_LANES]; /* of lines that are finished one by one */
    uint64_t words[RK_MOST_LANES];
    _Alignas(RK_LANE_BYTES) uint8_t bits[2][RK_MOST_LANES], rows[]; /* of lanes, as `bits` */
} short_lines;

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

bool rk_lines_are_short(const rp_spec *s, uint64_t lines)
{
    static const uint16_t most[] = {256, 1024, 1024, 1024};
    const uint64_t n = rk_cpu_elements(s);
    if (s->op == RP_OP_HISTOGRAM || s->flags & RP_OFFSETS || rk_in_runs(s))
        return false;
    if (rp_is_top(s->op) && (s->flags & RP_MASK || (uint64_t)s->k > least(n, RK_LANE_BEST)))
        return false;
    return n && n <= most[__builtin_ctzll(rp_dtype_size(s->dtype))] && lines > (n - 1) / LONGER;
}

/* ---- lines as lanes ---- */

/* Elements of some lines, of `size` bytes, below one another. */
static void fetch(const short_lines *o, size_t size, const uint8_t *x, uint64_t first, size_t lines, uint8_t *to, size_t apart)
{
    const size_t n = o->l.rows;
    if (!o->plane) {
        o->simd->turn[__builtin_ctzll(size)](to, apart, x + first * n * size, n * size, lines, n);
        return;
    }
    for (size_t c = 0, some; c < lines; c += some) {
        const uint64_t plane = (first + c) / o->plane, column = (first + c) % o->plane;
        const uint8_t *from = x + (plane * n * o->plane + column) * size;
        some = (size_t)least(lines - c, o->plane - column);
        for (size_t r = 0; r < n; r++)
            memcpy(to + r * apart + c * size, from + r * o->plane * size, some * size);
    }
}

static void fetch_keys(short_lines *o, uint64_t first, size_t lines)
{
    const rk_lane_loops *f = &o->simd->lanes[o->log2_size];
    o->l.lanes = lines;
    fetch(o, o->size, o->p.elements, first, lines, o->l.keys, o->l.apart);
    f->keys(&o->l, &o->keys);
    memset(o->marks, 0, lines);
    if (!o->p.mask)
        return;
    fetch(o, 1, o->p.mask, first, lines, o->masks, lines);
    f->masks(&o->l, o->masks, lines);
    for (size_t r = 0; r < o->l.rows; r++)
        for (size_t c = 0; c < lines; c++)
            o->marks[c] |= !o->masks[r * lines + c];
}

static uint64_t key_in(const short_lines *o, const uint8_t *rows, size_t r, size_t c)
{
    return rk_load(rows + r * o->l.apart + c * o->size, (int)o->size) ^ (uint64_t)1 << (8 * o->size - 1);
}

/* ---- cells ---- */

/* A word of each line, `at` bytes from the start of its cell. */
static void put_words(const short_lines *o, uint8_t *cells, size_t at, size_t size)
{
    const uint8_t *words = (const uint8_t *)o->words;
    if (size == o->cell) {
        memcpy(cells, words, o->l.lanes * size);
        return;
    }
    cells += at;
    for (size_t c = 0; c < o->l.lanes; c++, cells += o->cell, words += size)
        if (size == sizeof(uint64_t))
            memcpy(cells, words, sizeof(uint64_t));
        else
            memcpy(cells, words, size);
}

/* Value i of all lines but those with marks. */
static void put_value(short_lines *o, unsigned i, uint8_t *cells)
{
    const rk_lane_loops *f = &o->simd->lanes[o->log2_size];
    const rp_spec *s = o->spec;
    const rk_place p = o->place[i];
    const uint8_t *row = o->l.keys + p.at * o->l.apart, *a = o->bits[0], *b = p.part ? o->bits[1] : NULL;
    f->elements(o->bits[0], row, o->l.lanes, &o->keys);
    if (b)
        f->elements(o->bits[1], row + o->l.apart, o->l.lanes, &o->keys);
    if ((!b || rk_beside_half(p) == 0) && o->simd->lane_words(s->dtype, s->out, a, b, o->l.lanes, o->words, o->marks)) {
        put_words(o, cells, i * o->word, o->word);
        return;
    }
    for (size_t c = 0; c < o->l.lanes; c++) {
        const uint64_t x = rk_load(a + c * o->size, (int)o->size);
        uint64_t y = x, word = 0;
        if (b)
            y = rk_load(b + c * o->size, (int)o->size);
        if (!o->marks[c])
            o->marks[c] = rk_order_between(s->dtype, s->out, x, y, p, &word) != RP_OK;
        memcpy(cells + c * o->cell + i * o->word, &word, o->word);
    }
}

/* The cell of one line, whatever it has. */
static rp_err one_sorted(const short_lines *o, size_t c, uint64_t line, uint8_t *cell, rp_fault *f)
{
    uint64_t rank[RK_MAX_RANKS], bits[RK_MAX_RANKS];
    size_t n = o->l.rows, kept = n;
    for (size_t r = 0; o->p.mask && r < o->l.rows; r++)
        kept -= !o->masks[r * o->l.lanes + c];
    while (n && (n > kept || key_in(o, o->l.keys, n - 1, c) > o->keys.most))
        n--;
    const unsigned ranks = rk_order_ranks(o->spec, n, rank);
    for (unsigned i = 0; i < ranks; i++)
        bits[i] = rk_key_bits(o->spec->dtype, key_in(o, o->l.keys, rank[i], c));
    const rp_err err = rk_order_cell(o->spec, n, kept - n, bits, cell);
    if (err)
        rk_order_fault(f, o->spec, line, err, n, bits);
    return err;
}

static rp_err one_best(const short_lines *o, size_t c, uint64_t line, uint8_t *cell, rp_fault *f)
{
    const rp_spec *s = o->spec;
    rk_placed best[RK_LANE_BEST];
    uint64_t n = 0, bad = 0;
    bool nan = false;
    for (size_t i = 0; i < (size_t)s->k; i++) {
        const uint64_t key = key_in(o, o->best[0], i, c);
        const bool above = key > o->keys.most;
        if (above && s->nan == RP_NAN_OMIT)
            break;
        best[n].bits = above ? rk_nan_bits(rk_format_of(s->dtype)) : rk_key_bits(s->dtype, key);
        best[n++].index = rk_load(o->best[1] + i * o->l.apart + c * o->size, (int)o->size);
        nan |= above;
    }
    const rp_err err = nan && s->nan == RP_NAN_ERROR ? RP_NAN : rk_top_cell(s, best, n, cell, &bad);
    if (err)
        rk_order_fault(f, s, line, err, 0, &bad);
    return err;
}

static void put_sorted(short_lines *o, uint8_t *cells)
{
    const rk_lane_loops *f = &o->simd->lanes[o->log2_size];
    f->sort(&o->l, &o->keys, o->marks);
    if (!o->values)
        memset(o->marks, 1, o->l.lanes);
    for (unsigned i = 0; i < o->values; i++)
        put_value(o, i, cells);
}

static void put_best(short_lines *o, uint8_t *cells)
{
    static const int unsigned_of[] = {RP_U8, RP_U16, RP_U32, RP_U64};
    const rk_lane_loops *f = &o->simd->lanes[o->log2_size];
    const rp_spec *s = o->spec;
    const size_t k = (size_t)s->k, lanes = o->l.lanes, indexes = rp_indexes_at(s);
    f->best(&o->l, &o->keys, &o->scores, k, o->best[0], o->best[1], o->marks);
    if (indexes > k * o->word)
        memset(cells, 0, lanes * o->cell);
    for (size_t i = 0; i < k; i++) {
        const size_t row = i * o->l.apart;
        f->elements(o->bits[0], o->best[0] + row, lanes, &o->keys);
        if (!o->simd->lane_words(s->dtype, s->out, o->bits[0], NULL, lanes, o->words, o->marks))
            memset(o->marks, 1, lanes);
        put_words(o, cells, i * o->word, o->word);
        o->simd->lane_words(unsigned_of[o->log2_size], RP_U64, o->best[1] + row, NULL, lanes, o->words, o->marks);
        for (size_t c = 0; c < lanes; c++)
            o->words[c] += s->index_base;
        put_words(o, cells, indexes + 8 * i, 8);
    }
}

static rp_err run_block(short_lines *o, uint64_t first, size_t lines, rp_fault *f)
{
    uint8_t *cells = (uint8_t *)o->t->cells + first * o->cell;
    const bool best = rp_is_top(o->spec->op);
    rp_err err = RP_OK;
    fetch_keys(o, first, lines);
    if (best)
        put_best(o, cells);
    else
        put_sorted(o, cells);
    const uint8_t *at = memchr(o->marks, 1, lines);
    for (size_t c = at ? (size_t)(at - o->marks) : lines; c < lines && !err; c++)
        if (o->marks[c])
            err = (best ? one_best : one_sorted)(o, c, first + c, cells + c * o->cell, f);
    return err;
}

/* ---- public ---- */

/* Bytes of a row of lanes: an odd number of steps, so that rows do not share sets of the cache. */
static size_t row_bytes(const rp_spec *s, uint64_t lines)
{
    const uint64_t room = least(BLOCK_BYTES / rk_cpu_elements(s), RK_MOST_LANES), need = lines * rp_dtype_size(s->dtype);
    const size_t steps = (size_t)(least(room, need + RK_LANE_BYTES - 1) / RK_LANE_BYTES);
    return (steps > 1 ? (steps - 1) | 1 : 1) * RK_LANE_BYTES;
}

/* Rows behind the keys: of masks, or of the best keys and their places. */
static size_t rows_behind(const rp_spec *s)
{
    return rp_is_top(s->op) ? 2 * (size_t)s->k : s->flags & RP_MASK ? (size_t)rk_cpu_elements(s) : 0;
}

static void init(short_lines *o, const rk_simd *simd, const rk_task *t, size_t apart)
{
    const rp_spec *s = o->spec = &t->spec;
    const bool largest = s->op == RP_OP_LARGEST, omit = s->nan == RP_NAN_OMIT;
    uint64_t rank[RK_MAX_RANKS];
    o->simd = simd;
    o->t = t;
    o->p = rp_spec_parts(s, t->data, t->beside);
    o->size = rp_dtype_size(s->dtype);
    o->log2_size = __builtin_ctzll(o->size);
    o->word = rp_dtype_size(s->out);
    o->cell = rp_cell_size(s);
    o->keys = rk_keys_of(s->dtype);
    o->l = (rk_lanes){.keys = o->rows, .apart = apart, .rows = (size_t)rk_cpu_elements(s)};
    o->masks = o->best[0] = o->rows + o->l.rows * apart;
    o->best[1] = o->best[0] + rows_behind(s) / 2 * apart;
    o->plane = s->flags & RP_COLUMNS ? s->row_len : o->l.rows == 1 ? rp_results(s) : 0;
    o->scores.nan = omit ? 0 : o->keys.most + 1;
    o->scores.flip = largest ? 0 : UINT64_MAX;
    o->scores.add = (largest ? 0 : o->keys.most + 1) + (omit && rk_is_float(s->dtype));
    if (rp_is_top(s->op) || !rk_order_ranks(s, o->l.rows, rank))
        return;
    o->values = rk_order_values(s);
    for (unsigned i = 0; i < o->values; i++)
        o->place[i] = rk_order_place(rk_order_rule_of(s, i), o->l.rows);
}

rp_err rk_short_lines(const rk_simd *simd, const rk_task *t, uint64_t first, uint64_t lines, rp_fault *f)
{
    const size_t apart = row_bytes(&t->spec, lines), rows = (size_t)rk_cpu_elements(&t->spec) + rows_behind(&t->spec),
                 bytes = sizeof(short_lines) + rows * apart;
    short_lines *o = aligned_alloc(RK_LANE_BYTES, bytes);
    rp_err err = RP_OK;
    if (!o)
        return rp_fail(f, RP_NO_MEMORY, "memory", 0, "no memory to select elements"), RP_NO_MEMORY;
    memset(o, 0, bytes);
    init(o, simd, t, apart);
    for (uint64_t line = first, end = first + lines, some; line < end && !err; line += some) {
        some = least(end - line, apart / o->size);
        err = rk_task_late(t, f) ? (rp_err)f->code : run_block(o, line, (size_t)some, f);
    }
    free(o);
    return err;
}
