/* Reductions of arrays, put together from the loops over blocks. A reduction of several parts (moments, stats) takes them
 * one after the other on each block while that is in L1, so memory is read once. */
#ifndef RK_CPU_ARRAYS_H
#define RK_CPU_ARRAYS_H

#include "kernels/cpu/loops/choice/choose.h"
#include "kernels/cpu/loops/choice/count.h"
#include "kernels/cpu/loops/squares/squares.h"
#include "kernels/cpu/loops/sums/sum_int.h"

/* ---- the loops of each type ---- */

typedef struct loops {
    size_t size, block; /* bytes of an element; elements of a block, 16 KiB at most */
    const chooser *least, *largest, *magnitude;
    extremes_fn *extremes;
    tally (*count)(const void *x, uint64_t n);
    tally (*nonzero)(const void *x, uint64_t n); /* for data known to have no NaNs */
} loops;

typedef struct float_loops {
    loops l;
    size_t step;
    void (*add)(acc *a, pace *p, const void *x, size_t n);   /* adds whole steps of a block */
    void (*rest)(acc *a, const void *x, size_t n);           /* adds less than a step */
    void (*squares)(square_acc *s, const void *x, size_t n); /* up to BLOCK64 elements */
    /* Adds elements and squares of whole steps, up to BLOCK64 elements, in one pass. False: nothing was added. NULL: the type
     * has no such loop. */
    bool (*both)(acc *a, pace *p, square_acc *s, const void *x, size_t n);
} float_loops;

typedef struct int_loops {
    loops l;
    wide (*sum)(const void *x, uint64_t n);
    wide (*magnitudes)(const void *x, uint64_t n);
    halves (*squares)(const void *x, uint64_t n);
} int_loops;

#define CHOOSERS(NAME) &least_##NAME, &largest_##NAME, &magnitude_##NAME, extremes_of_##NAME
static const float_loops loops_f16 = {
    {2, BLOCK32, CHOOSERS(f16), tally_f16, nonzero_in_16}, STEP32, add_block_f16, rest_f16, add_squares_f16, add_both_f16};
static const float_loops loops_bf16 = {{2, BLOCK32, CHOOSERS(bf16), tally_bf16, nonzero_in_16},
                                       STEP32,
                                       add_block_bf16,
                                       rest_bf16,
                                       add_squares_bf16,
                                       add_both_bf16};
static const float_loops loops_f32 = {
    {4, BLOCK32, CHOOSERS(f32), tally_f32, nonzero_in_32}, STEP32, add_block32, rest_f32, add_squares_f32, add_both_f32};
static const float_loops loops_f64 = {
    {8, BLOCK64, CHOOSERS(f64), tally_f64, nonzero_in_64}, STEP64, add_block64, add_rest64, add_squares_f64, NULL};

#define INT_LOOPS(NAME, W)                  \
    static const int_loops loops_##NAME = { \
        {W / 8, (16 << 10) / (W / 8), CHOOSERS(NAME), tally_##W, tally_##W}, sum_##NAME, magnitudes_##NAME, squares_##NAME};
INT_LOOPS(i8, 8)
INT_LOOPS(u8, 8)
INT_LOOPS(i16, 16)
INT_LOOPS(u16, 16)
INT_LOOPS(i32, 32)
INT_LOOPS(u32, 32)
INT_LOOPS(i64, 64)
INT_LOOPS(u64, 64)
#undef INT_LOOPS
#undef CHOOSERS

static inline size_t next_block(const loops *l, uint64_t left) { return left < l->block ? (size_t)left : l->block; }

/* ---- what stats needs besides the sums ---- */

typedef struct ends {
    choice end[2]; /* min, max */
    tally t;
} ends;

static ends ends_start(const loops *l, int nan_policy)
{
    return (ends){{choice_start(l->least, nan_policy), choice_start(l->largest, nan_policy)}, {0, 0}};
}

static void ends_add(ends *e, const loops *l, const void *x, size_t n, uint64_t at)
{
    tally t = choose_ends(e->end, l->extremes, x, n, at) ? l->count(x, n) : l->nonzero(x, n);
    e->t.nonzero += t.nonzero;
    e->t.nans += t.nans;
}

static void ends_take(const ends *e, rk_state *s, const loops *l, const void *data, uint64_t n, uint64_t index, int nan_policy)
{
    uint64_t *other = s->limb + rk_sum_limbs(s->layout) + rk_square_limbs(s->layout);
    count_elements(s, n, e->t, nan_policy);
    other[RK_STATS_ZEROS] = n - e->t.nonzero;
    other[RK_STATS_NANS] = e->t.nans;
    if (s->count == 0)
        return;
    other[RK_STATS_MIN] = choice_bits(&e->end[0], s->dtype);
    other[RK_STATS_MAX] = choice_bits(&e->end[1], s->dtype);
    other[RK_STATS_MIN_INDEX] = index + choice_place(&e->end[0], data, n, l->block);
    other[RK_STATS_MAX_INDEX] = index + choice_place(&e->end[1], data, n, l->block);
}

/* ---- sums, magnitudes, squares, moments, stats: those that the layout has ---- */

static void add_sum(acc *a, pace *p, const float_loops *t, const char *x, size_t n)
{
    size_t whole = n / t->step * t->step;
    if (whole)
        t->add(a, p, x, whole);
    if (n > whole)
        t->rest(a, x + whole * t->l.size, n - whole);
}

static void add_squares(square_acc *s, const float_loops *t, const char *x, size_t n)
{
    for (size_t i = 0; i < n; i += BLOCK64)
        t->squares(s, x + i * t->l.size, n - i < BLOCK64 ? n - i : BLOCK64);
}

/* Adds as much of the block's start as one pass can take for sum and squares. Returns the number of remaining elements. */
static size_t add_both(acc *a, pace *p, square_acc *s, const float_loops *t, const char *x, size_t n)
{
    size_t i = 0, take;
    if (!t->both)
        return n;
    while ((take = (n - i < BLOCK64 ? n - i : BLOCK64) / t->step * t->step) > 0 && t->both(a, p, s, x + i * t->l.size, take))
        i += take;
    return n - i;
}

static void take_floats(rk_state *s, const acc *a, uint64_t n)
{
    s->special = a->special;
    s->nz = rk_has_nz(s->layout, s->dtype) ? a->nz : 0;
    s->skipped = a->nans != 0;
    s->count = n - a->nans;
}

/* `neglected`: NULL for exact sums, else the sum, alone, may lack as much as is written there; of squares, if there are any. */
static void reduce_floats(rk_state *s, const void *data, uint64_t n, uint64_t index, int nan_policy, const float_loops *t,
                          double *neglected)
{
    const int sum = rk_sum_limbs(s->layout), square = rk_square_limbs(s->layout);
    const bool stats = rk_is_stats(s->layout);
    acc a;
    square_acc q;
    ends e = ends_start(&t->l, nan_policy);
    pace p = {0};
    const acc *first = sum ? &a : &q.a; /* this one sees all elements */
    if (sum) {
        acc_start(&a, sum, rk_e0(s->dtype), rk_is_abs(s->layout), n, nan_policy);
        a.far = n * t->l.size > FAR_BYTES;
        a.near = neglected && !square;
    }
    if (square) {
        squares_start(&q, s, n, nan_policy);
        q.a.near = neglected != NULL;
    }
    const char *x = data;
    for (uint64_t i = 0; i < n && (stats || !decided(first)); i += t->l.block, x += t->l.block * t->l.size) {
        size_t take = next_block(&t->l, n - i);
        size_t left = sum && square && !a.special ? add_both(&a, &p, &q, t, x, take) : take;
        const char *rest = x + (take - left) * t->l.size;
        if (sum)
            add_sum(&a, &p, t, rest, left);
        if (square && !(sum && a.special)) /* the squares of an infinite sum are not used */
            add_squares(&q, t, rest, left);
        if (stats)
            ends_add(&e, &t->l, x, take, i);
    }
    if (sum)
        acc_end(&a, s->limb);
    if (square && !(sum && a.special))
        acc_end(&q.a, s->limb + sum);
    take_floats(s, first, n);
    if (neglected)
        *neglected = square ? q.a.neglected : a.neglected;
    if (stats)
        ends_take(&e, s, &t->l, data, n, index, nan_policy);
}

static void put_wide(uint64_t *limb, wide v)
{
    limb[0] = (uint64_t)v;
    limb[1] = (uint64_t)(v >> 64);
}

static void reduce_ints(rk_state *s, const void *data, uint64_t n, uint64_t index, const int_loops *t)
{
    const int sum = rk_sum_limbs(s->layout), square = rk_square_limbs(s->layout);
    const bool stats = rk_is_stats(s->layout);
    ends e = ends_start(&t->l, RP_NAN_PROPAGATE);
    wide total = 0;
    halves h = {0, 0};
    const char *x = data;
    for (uint64_t i = 0; i < n; i += t->l.block, x += t->l.block * t->l.size) {
        size_t take = next_block(&t->l, n - i);
        if (sum)
            total += rk_is_abs(s->layout) ? t->magnitudes(x, take) : t->sum(x, take);
        if (square) {
            halves some = t->squares(x, take);
            h.low += some.low;
            h.high += some.high;
        }
        if (stats)
            ends_add(&e, &t->l, x, take, i);
    }
    s->count = n;
    if (sum)
        put_wide(s->limb, total);
    if (square) {
        put_wide(s->limb + sum, h.low);
        h.high += s->limb[sum + 1];
        put_wide(s->limb + sum + 1, h.high);
    }
    if (stats)
        ends_take(&e, s, &t->l, data, n, index, RP_NAN_PROPAGATE);
}

/* ---- chosen elements ---- */

/* MIN .. ARGMAX, NORMINF and, with both choosers, MINMAX */
static void reduce_choice(rk_state *s, const void *data, uint64_t n, uint64_t index, int nan_policy, const loops *l,
                          const chooser *first, const chooser *second)
{
    const bool count = rk_is_float(s->dtype) && nan_policy != RP_NAN_PROPAGATE;
    choice c[2] = {choice_start(first, nan_policy), choice_start(second ? second : first, nan_policy)};
    tally t = {0, 0};
    const char *x = data;
    const bool placed = s->layout == RP_STATE_ARGMIN || s->layout == RP_STATE_ARGMAX;
    const size_t block = placed ? CHOOSE_BLOCK : END_BYTES / l->size;
    for (uint64_t i = 0; i < n; i += block, x += block * l->size) {
        size_t take = n - i < block ? (size_t)(n - i) : block;
        bool nans = second ? choose_ends(c, l->extremes, x, take, i) : choose_in(&c[0], x, take, i);
        if (count)
            t.nans += nans ? l->count(x, take).nans : 0;
        else if (choice_decided(&c[0]) && (!second || choice_decided(&c[1])))
            break;
    }
    count_elements(s, n, t, nan_policy);
    if (s->count == 0)
        return;
    s->limb[0] = choice_bits(&c[0], s->dtype);
    if (second)
        s->limb[1] = choice_bits(&c[1], s->dtype);
    if (placed)
        s->limb[1] = index + choice_place(&c[0], data, n, block);
}

/* ---- by type: the functions of the tables ---- */

#define HEAD(NAME) static void NAME(rk_state *s, const void *x, uint64_t n, uint64_t index, int nan_policy)
#define ARRAYS(NAME)                                                                                                      \
    HEAD(choose_least_##NAME) { reduce_choice(s, x, n, index, nan_policy, &LOOPS(NAME), &least_##NAME, NULL); }           \
    HEAD(choose_largest_##NAME) { reduce_choice(s, x, n, index, nan_policy, &LOOPS(NAME), &largest_##NAME, NULL); }       \
    HEAD(choose_magnitude_##NAME) { reduce_choice(s, x, n, index, nan_policy, &LOOPS(NAME), &magnitude_##NAME, NULL); }   \
    HEAD(choose_both_##NAME) { reduce_choice(s, x, n, index, nan_policy, &LOOPS(NAME), &least_##NAME, &largest_##NAME); } \
    HEAD(nonzero_##NAME)                                                                                                  \
    {                                                                                                                     \
        (void)index;                                                                                                      \
        take_nonzero(s, n, LOOPS(NAME).count(x, n), nan_policy);                                                          \
    }                                                                                                                     \
    HEAD(nans_##NAME)                                                                                                     \
    {                                                                                                                     \
        (void)index;                                                                                                      \
        take_nans(s, n, rk_is_float(s->dtype) ? LOOPS(NAME).count(x, n) : (tally){0, 0}, nan_policy);                     \
    }
#define LOOPS(NAME) loops_##NAME.l
ARRAYS(i8)
ARRAYS(u8)
ARRAYS(i16)
ARRAYS(u16)
ARRAYS(i32)
ARRAYS(u32)
ARRAYS(i64)
ARRAYS(u64)
ARRAYS(f16)
ARRAYS(bf16)
ARRAYS(f32)
ARRAYS(f64)
#undef LOOPS
#undef ARRAYS

#define FLOAT_SUMS(NAME)                                                                                   \
    HEAD(sums_##NAME) { reduce_floats(s, x, n, index, nan_policy, &loops_##NAME, NULL); }                  \
    static void near_sum_##NAME(rk_state *s, const void *x, uint64_t n, int nan_policy, double *neglected) \
    {                                                                                                      \
        reduce_floats(s, x, n, 0, nan_policy, &loops_##NAME, neglected);                                   \
    }
FLOAT_SUMS(f16)
FLOAT_SUMS(bf16)
FLOAT_SUMS(f32)
FLOAT_SUMS(f64)
#undef FLOAT_SUMS

#define INT_SUMS(NAME)                              \
    HEAD(sums_##NAME)                               \
    {                                               \
        (void)nan_policy;                           \
        reduce_ints(s, x, n, index, &loops_##NAME); \
    }
INT_SUMS(i8)
INT_SUMS(u8)
INT_SUMS(i16)
INT_SUMS(u16)
INT_SUMS(i32)
INT_SUMS(u32)
INT_SUMS(i64)
INT_SUMS(u64)
#undef INT_SUMS
#undef HEAD

#endif
