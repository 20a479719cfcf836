/* Sums, means, variances, norms of short lines without states: sums in doubles, a lane each, with a bound on what they lack. A
 * cell is finished where both ends of that bound round alike (Ziv); the others are left.
 *
 * Let u = 2^-53, n be the count, d an element less the line's first one, S the sum of squares, and A that of magnitudes.
 *
 *   to narrow floats   sums of x, or of d and d^2, each operation rounded. A sum of x errs by n u A. d errs by u |d|, so S by
 *                      (n + 4) u S at most. The variance's numerator, S - (sum d)^2 / n, errs by (3 n + 13) u S. The last
 *                      operations err by 8 u of the value. Less the first element, S is about n times the variance.
 *   to f64             sums of x and x^2 as two doubles each: the rounded sum, and what additions rounded off (exact, Knuth),
 *                      added plainly; x^2 is two doubles, too. Plain sums of n errors below n u S err by (n + 1)^2 u^2 S, and
 *                      those of x by n^2 u^2 A or n^2 u^2 sqrt(n S). n S - (sum x)^2 errs by less than 11 (n + 1)^2 u^2 n S.
 *
 * Underflow matters only where S or A is below 2^-700. Where no element differs from the first, the variance is 0, whatever
 * the bound. Of norms "the first one" is 0 instead: then all elements are. */
#ifndef RK_CPU_BOUNDED_CELLS_H
#define RK_CPU_BOUNDED_CELLS_H

#include <math.h>

#include "kernels/cpu/loops/sums/bounded_sums.h"

#define MOMENT_LEAST 0x1p-700 /* of sums of squares */
#define MOMENT_MOST 0x1p900

/* ---- cells ---- */

/* high + low, but for an error of at most `margin` */
typedef struct bounded {
    vf64 high, low, margin;
} bounded;

/* n S - (sum x)^2, or S, or the sum */
INLINE bounded numerator_of(const moments *m, size_t c, int op)
{
    const vf64 count = lanes_from(m->count + c), s = lanes_from(m->square + c), s_low = lanes_from(m->square_low + c),
               x = lanes_from(m->sum + c), x_low = lanes_from(m->sum_low + c), more = count + 1, of_s = more * more * 0x1p-102;
    if (is_total(op))
        return (bounded){x, x_low, of_s * s};
    if (!is_spread(op))
        return (bounded){s, s_low, of_s * s};
    const vf64 a = count * s, b = x * x, high = a - b;
    const vf64 a_low = product_error(count, s, a) + count * s_low, b_low = square_error(x, b) + (2 * x + x_low) * x_low;
    return (bounded){high, sum_error(a, -b, high) + (a_low - b_low), of_s * a};
}

/* high + low, rounded; -0.0 if high is and there is nothing else. */
INLINE vf64 rounded_of(bounded b)
{
    const vi64 alone = b.low == 0;
    return (vf64)(((vi64)b.high & alone) | ((vi64)(b.high + b.low) & ~alone));
}

INLINE bounded quotient_of(bounded a, vf64 by)
{
    const vf64 sum = rounded_of(a), low = sum_error(a.high, a.low, sum), high = sum / by, p = high * by;
    const vf64 rest = (sum - p) - product_error(high, by, p);
    return (bounded){high, (rest + low) / by, a.margin / by + magnitude_of(high) * 0x1p-100};
}

INLINE bounded root_of(bounded a)
{
    const vf64 root = root_f64(a.high), p = root * root, rest = (a.high - p) - square_error(root, p);
    return (bounded){root, (rest + a.low) / (2 * root), a.margin / root + root * 0x1p-100};
}

INLINE vf64 divisor_of(vf64 count, int op, unsigned ddof)
{
    const vf64 less = count - (double)ddof;
    return op == RP_OP_SEM ? count * less : is_spread(op) ? less : op == RP_OP_RMS || op == RP_OP_MEAN ? count : (vf64){0} + 1;
}

INLINE bool takes_root(int op) { return !is_total(op) && op != RP_OP_VAR && op != RP_OP_SUMSQ; }

/* Where a value is `right`; where it is not what was computed, but 0 or a NaN: all elements are the first one, one is a NaN, or
 * they are too few. Of too few elements sums are 0. */
typedef struct moment_choice {
    vi64 right, none, nan;
} moment_choice;

INLINE moment_choice choose_moment(const rk_lot *lot, const moments *m, size_t c, vi64 certain)
{
    const vf64 s = lanes_from(m->square + c), count = lanes_from(m->count + c), first = lanes_from(m->first + c);
    const bool is_zero = lot->op == RP_OP_SUM || lot->op == RP_OP_SUMSQ || lot->op == RP_OP_NORM2;
    const vi64 all = (vi64){0} - 1, total = is_total(lot->op) ? all : ~all, few = (count <= (double)lot->ddof) & (s == s);
    const vi64 usual = ((s > MOMENT_LEAST) | (total & (s == 0))) & (s < MOMENT_MOST);
    const vi64 equal = (*(const vi64 *)(const void *)(m->differ + c) == 0) & (first - first == 0) & ~total; /* and finite */
    const vi64 nan = ((s != s) & (lot->nan == RP_NAN_PROPAGATE ? all : ~all)) | (few & (is_zero ? ~all : all));
    return (moment_choice){(certain & usual) | equal | nan | few, equal | nan | few, nan};
}

INLINE vf64 chosen_moment(const moment_choice *m, vf64 value)
{
    return (vf64)(((vi64)value & ~m->none) | (m->nan & ((int64_t)0x7ff8 << 48)));
}

/* Of two elements these are half of their difference, which often lies in the middle between two floats. In so few rows the
 * first number is known. */
INLINE bool may_be_half(const rk_lot *lot)
{
    return !lot->lines && lot->rows <= MOMENT_ROWS &&
           ((lot->op == RP_OP_STD && lot->ddof == 0) || (lot->op == RP_OP_SEM && lot->ddof == 1));
}

/* To narrower floats: d differs from that only where the bits of one element are far below the result's, if not those of f64 or
 * wider ones than the result are. */
INLINE bool is_near_half(const rk_lot *lot)
{
    return may_be_half(lot) &&
           (!rk_is_float(lot->dtype) || lot->out == lot->dtype || (lot->out == RP_F32 && lot->dtype != RP_F64));
}

/* The sum less twice the first element. Returns where it is half of the difference of two, rounded once. */
INLINE vi64 half_of(const moments *m, size_t c, vf64 *half)
{
    const vf64 x = lanes_from(m->sum + c), x_low = lanes_from(m->sum_low + c), a = 2 * lanes_from(m->first + c), high = x - a,
               of_high = sum_error(x, -a, high), low = x_low + of_high;
    *half = magnitude_of(rounded_of((bounded){.high = high, .low = low})) / 2;
    return (lanes_from(m->count + c) == 2) & (sum_error(x_low, of_high, low) == 0);
}

/* To f64: values and what is right about them */
static __attribute__((noinline)) void twofold_moments_fused(const rk_lot *lot, const moments *m, size_t n, double *value,
                                                            int64_t *right)
{
    const int op = lot->op;
    for (size_t c = 0; c < n; c += LANES64) {
        const vf64 count = lanes_from(m->count + c), by = divisor_of(count, op, lot->ddof);
        bounded b = numerator_of(m, c, op);
        if (op != RP_OP_SUM)
            b = quotient_of(b, is_spread(op) ? by * count : by);
        if (takes_root(op))
            b = root_of(b);
        vi64 certain = b.high + (b.low + b.margin) == b.high + (b.low - b.margin);
        vf64 v = rounded_of(b), half;
        if (may_be_half(lot)) {
            const vi64 two = half_of(m, c, &half);
            v = choose_lanes(two, half, v);
            certain |= two;
        }
        const moment_choice what = choose_moment(lot, m, c, certain);
        *(vi64 *)(void *)(right + c) = what.right;
        *lanes_at(value + c) = chosen_moment(&what, v);
    }
}

/* To narrower floats: both ends of the bound. Unless NaNs are left out, all counts are the same one. */
static __attribute__((noinline)) void narrow_moments(const rk_lot *lot, const moments *m, size_t n, double *least, double *most,
                                                     int64_t *right)
{
    const bool spread = is_spread(lot->op), total = is_total(lot->op), omit = lot->nan == RP_NAN_OMIT;
    const vf64 rows = (vf64){0} + (double)lot->rows;
    const bool half = is_near_half(lot);
    vf64 per_count = 1 / rows, per = 1 / divisor_of(rows, lot->op, lot->ddof), slack = (rows + 8) * 0x1p-51;
    for (size_t c = 0; c < n; c += LANES64) {
        const vf64 count = lanes_from(m->count + c), s = lanes_from(m->square + c), x = lanes_from(m->sum + c);
        if (omit) {
            slack = (count + 8) * 0x1p-51;
            per_count = 1 / count;
            per = 1 / divisor_of(count, lot->op, lot->ddof);
        }
        const vf64 v = total ? x : spread ? s - x * x * per_count : s;
        const vf64 margin = slack * s; /* no value is above s */
        vi64 sure = total ? (vi64){0} - 1 : (vi64)(v > margin);
        vf64 low = (v - margin) * per, high = (v + margin) * per;
        if (takes_root(lot->op)) {
            low = root_f64(low);
            high = root_f64(high);
        }
        if (half) {
            const vi64 two = count == 2;
            low = choose_lanes(two, magnitude_of(x) / 2, low);
            high = choose_lanes(two, magnitude_of(x) / 2, high);
            sure |= two;
        }
        const moment_choice what = choose_moment(lot, m, c, sure);
        *(vi64 *)(void *)(right + c) = what.right;
        *lanes_at(least + c) = chosen_moment(&what, low);
        *lanes_at(most + c) = chosen_moment(&what, high);
    }
}

/* Marks cells that differ. */
ONE_COPY void mark_unlike(const uint8_t *a, const uint8_t *b, size_t n, size_t size, uint8_t *marks)
{
    for (size_t c = 0; size == 4 && c < n; c++)
        marks[c] |= ((const u32_loose *)(const void *)a)[c] != ((const u32_loose *)(const void *)b)[c];
    for (size_t c = 0; size == 2 && c < n; c++)
        marks[c] |= ((const u16_loose *)(const void *)a)[c] != ((const u16_loose *)(const void *)b)[c];
}

/* n cells; marks those that are not certain. */
static void finish_moments(const rk_lot *lot, const moments *m, size_t n, uint8_t *cells, uint8_t *marks)
{
    _Alignas(VB) double value[MOMENT_LOT], other[MOMENT_LOT];
    _Alignas(VB) int64_t right[MOMENT_LOT];
    uint8_t others[4 * MOMENT_LOT];
    if (lot->out == RP_F64) {
        twofold_moments_fused(lot, m, n, value, right);
        memcpy(cells, value, 8 * n);
    } else {
        narrow_moments(lot, m, n, value, other, right);
        convert_sums(value, n, lot->out, cells);
        convert_sums(other, n, lot->out, others);
    }
    for (size_t c = 0; c < n; c++)
        marks[c] = right[c] == 0;
    if (lot->out != RP_F64)
        mark_unlike(cells, others, n, rp_dtype_size(lot->out), marks);
}

/* Is a result of one element each 0, or its magnitude? */
INLINE bool is_of_one(const rk_lot *lot)
{
    return lot->rows == 1 &&
           (is_spread(lot->op) || (takes_root(lot->op) && rk_is_float(lot->dtype) && lot->nan != RP_NAN_OMIT));
}

/* Variances of one element each: 0, or a NaN if it is not finite, or if that are too few. Roots of squares: magnitudes. */
static void lone_moments(const rk_lot *lot, const char *x, size_t n, uint8_t *cells, uint8_t *marks)
{
    _Alignas(VB) double value[MOMENT_LOT] = {0};
    if (rk_is_float(lot->dtype))
        doubles_of[lot->dtype](value, x, n);
    for (size_t c = 0; c < n; c++) {
        marks[c] = lot->nan == RP_NAN_ERROR && value[c] != value[c];
        value[c] = !is_spread(lot->op) ? fabs(value[c]) : lot->ddof ? NAN : value[c] - value[c];
    }
    convert_sums(value, n, lot->out, cells);
}

/* Finishes n columns, or lines, from `first` on; appends those that it leaves to the k that are left, and returns the new k. */
static size_t bounded_cells(const rk_lot *lot, size_t first, size_t n, uint8_t *cells, uint16_t *left, size_t k)
{
    const size_t apart = lot->lines ? lot->stride : rp_dtype_size(lot->dtype), cell = rp_dtype_size(lot->out);
    moments m;
    for (size_t c = 0; c < MOMENT_LOT; c++)
        m.count[c] = (double)lot->rows;
    for (size_t c = first, end = first + n, some; c < end; c += some) {
        const char *x = (const char *)lot->x + c * apart;
        uint8_t marks[MOMENT_LOT];
        some = end - c < MOMENT_LOT ? end - c : MOMENT_LOT;
        if (is_of_one(lot)) {
            lone_moments(lot, x, some, cells + c * cell, marks);
            k = leave_marked(left, k, c, some, marks);
        } else if (first_elements(lot, x, some, m.first) &&
                   (lot->lines ? sum_lines : sum_columns)(lot, x, some, way_of(lot), &m)) {
            finish_moments(lot, &m, some, cells + c * cell, marks);
            k = leave_marked(left, k, c, some, marks);
        } else {
            k = leave_all(left, k, c, some);
        }
    }
    return k;
}

static size_t moment_cells(const rk_lot *lot, void *cells, uint16_t *left)
{
    return bounded_cells(lot, 0, lot->columns, cells, left, 0);
}

#endif
