#include "kernels/cpu/keys/slots.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/cpu/keys/window.h"
#include "kernels/cpu/loops.h"
#include "kernels/exact/line.h"
#include "kernels/exact/op.h"

enum {
    BLOCK = 256,    /* elements converted together: their bits stay in L1 */
    AHEAD = 24,     /* a slot is fetched this many elements before it is used */
    LINE = 64,      /* bytes: of a cache line, which no window crosses */
    PAGE = 2 << 20, /* ... of a large page */
    LARGE = 4 * PAGE
};

/* A slot of sums with squares, or of squares or products alone, whose first sum is not used. */
typedef struct moments {
    rk_window w;
    rk_square_window squares;
} moments;

void rk_slots_of(rk_slots *k, int layout, int dtype, int nan)
{
    *k = (rk_slots){.layout = layout, .dtype = dtype, .nan = nan, .form = RK_SLOT_STATE};
    if (rk_is_float(dtype) && rk_family_of(layout) == RK_SUMS)
        k->form = rk_square_limbs(layout) ? RK_SLOT_SQUARES : RK_SLOT_SUM;
    else if (rk_is_float(dtype) && rk_family_of(layout) == RK_PAIRS && !rk_sum_limbs(layout))
        k->form = RK_SLOT_PRODUCTS;
    k->bytes = k->form == RK_SLOT_SUM     ? sizeof(rk_window)
               : k->form != RK_SLOT_STATE ? sizeof(moments)
                                          : (rp_state_size(layout) + RK_SLOT_ALIGN - 1) / RK_SLOT_ALIGN * RK_SLOT_ALIGN;
}

void *rk_slots_room(const rk_slots *k, uint64_t n)
{
    const size_t bytes = (size_t)n * k->bytes, align = bytes < LARGE ? LINE : PAGE;
    if (n > SIZE_MAX / k->bytes - PAGE)
        return NULL;
    void *room = aligned_alloc(align, bytes / align * align + align);
#ifdef MADV_HUGEPAGE /* 10^6 groups, f64: 16 to 22 ns an addition, else 18 to 25 (2 busy cores of a Xeon, 2026-11-29) */
    if (room && align == PAGE)
        madvise(room, bytes, MADV_HUGEPAGE);
#endif
    return room;
}

void rk_slot_init(const rk_slots *k, void *slot)
{
    if (k->form == RK_SLOT_STATE) {
        rk_state_init(slot, k->layout, k->dtype);
        return;
    }
    memset(slot, 0, k->bytes);
    ((rk_window *)slot)->head = RK_HEAD_BASE;
}

void rk_slot_drop(const rk_slots *k, void *slot)
{
    if (k->form != RK_SLOT_STATE)
        free(((rk_window *)slot)->whole);
}

/* ---- what leaves a window ---------------------------------------------------------------------------------------- */

/* The whole state of a slot; NULL: no memory. */
static rk_state *whole(const rk_slots *k, rk_window *w)
{
    const size_t size = rp_state_size(k->layout);
    if (w->whole || (k->room && *k->room < size))
        return w->whole;
    w->whole = malloc(size);
    if (!w->whole)
        return NULL;
    rk_state_init(w->whole, k->layout, k->dtype);
    if (k->room)
        *k->room -= size;
    return w->whole;
}

static bool has_squares(const rk_slots *k) { return k->form == RK_SLOT_SQUARES || k->form == RK_SLOT_PRODUCTS; }
static bool open_sum(const rk_slots *k, const rk_window *w) { return rk_sum_limbs(k->layout) && w->sum; }
static bool open_squares(const rk_slots *k, const void *slot)
{
    const uint64_t *sum = ((const moments *)slot)->squares.sum;
    return has_squares(k) && (sum[0] | sum[1] | sum[2] | sum[3]);
}

/* Add what is in the windows to limbs; of an infinity or NaN there are none. */
static void close_windows(const rk_slots *k, const void *slot, rk_state *s)
{
    const rk_window *w = slot;
    if (s->special)
        return;
    if (rk_sum_limbs(k->layout))
        rk_window_close(w, s);
    const rk_square_window *q = &((const moments *)slot)->squares;
    if (has_squares(k))
        rk_squares_close(q, w, s, k->form == RK_SLOT_PRODUCTS && q->sum[3] >> 63);
}

/* Empty the windows into the whole state. False: no memory. */
static bool empty_windows(const rk_slots *k, void *slot)
{
    rk_window *w = slot;
    if (open_sum(k, w) || open_squares(k, slot)) {
        if (!whole(k, w))
            return false;
        close_windows(k, slot, w->whole);
    }
    w->sum = 0;
    if (has_squares(k))
        memset(((moments *)slot)->squares.sum, 0, sizeof((moments *)slot)->squares.sum);
    return true;
}

static bool take(const rk_slots *k, void *slot, uint64_t bits);

/* An element that does not fit: 0, an infinity, a NaN, a subnormal double, or one of another size. `bits` are those of the
 * double, `own` those of the element. False: no memory, and the slot stays as it was. */
static bool take_rare(const rk_slots *k, void *slot, uint64_t bits, uint64_t own)
{
    rk_window *w = slot;
    const int field = (int)rk_field(bits);
    const bool zero = bits << 1 == 0, nan = field == RK_FIELD_END && bits << 12;
    if (zero) {
        w->head = (w->head | (bits ? 0 : RK_HEAD_NZ)) + 1;
        return true;
    }
    if (nan && k->nan != RP_NAN_PROPAGATE) {
        w->head |= RK_HEAD_SKIPPED;
        return true;
    }
    if (field == RK_FIELD_END || field == 0) {
        if (!whole(k, w))
            return false;
        rk_state_add(w->whole, own, 0, k->nan);
        return true;
    }
    if (!empty_windows(k, slot))
        return false;
    w->head = (w->head << 12 >> 12) | RK_HEAD_NZ | rk_base_for(field) << RK_BASE_SHIFT;
    return take(k, slot, bits); /* which fits now */
}

/* ---- one element ------------------------------------------------------------------------------------------------- */

static inline bool take_sum(rk_window *w, uint64_t bits)
{
    if (!rk_window_takes(w, bits))
        return false;
    rk_window_put(w, bits);
    w->head++;
    return true;
}

static inline bool take_moments(moments *s, uint64_t bits)
{
    if (!rk_window_takes(&s->w, bits) || !rk_squares_take(&s->squares))
        return false;
    rk_window_put(&s->w, bits);
    rk_squares_put(&s->squares, &s->w, bits);
    s->w.head++;
    return true;
}

static bool take(const rk_slots *k, void *slot, uint64_t bits)
{
    return k->form == RK_SLOT_SUM ? take_sum(slot, bits) : take_moments(slot, bits);
}

/* ---- blocks of elements ------------------------------------------------------------------------------------------ */

/* Element i of x as a double. */
static inline __attribute__((always_inline)) uint64_t bits_of(int dtype, const uint8_t *x, size_t i)
{
    uint64_t bits;
    float f;
    if (dtype == RP_F64) {
        memcpy(&bits, x + 8 * i, 8);
    } else if (dtype == RP_F32) {
        memcpy(&f, x + 4 * i, 4);
        const double wide = f;
        memcpy(&bits, &wide, 8);
    } else {
        bits = rk_convert_float(dtype, rk_load(x + 2 * i, 2), RP_F64);
    }
    return bits;
}

/* ... element i of x. Out of line, so that the loops keep their registers. */
static __attribute__((noinline)) bool take_own(const rk_slots *k, void *slot, uint64_t bits, const uint8_t *x, size_t i)
{
    const int size = rk_bytes(k->dtype);
    return take_rare(k, slot, bits, rk_load(x + i * (size_t)size, size));
}

/* Elements [from, to) of a block to windows, where the compiler knows the type. Returns `to`, or the first one that was not
 * added. `ahead`: later slots are fetched. */
#define ADD_TO(form, type)                                                                                                     \
    static inline __attribute__((always_inline))                                                                               \
    size_t form##_range(const rk_slots *k, int dtype, bool ahead, void *const *slot, const uint8_t *x, size_t from, size_t to) \
    {                                                                                                                          \
        const uint64_t some = ~(uint64_t)0 >> rk_is_abs(k->layout);                                                            \
        for (size_t i = from; i < to; i++) {                                                                                   \
            const uint64_t bits = bits_of(dtype, x, i) & some;                                                                 \
            if (ahead)                                                                                                         \
                __builtin_prefetch(slot[i + AHEAD], 1);                                                                        \
            if (!take_##form((type *)slot[i], bits) && !take_own(k, slot[i], bits, x, i))                                      \
                return i;                                                                                                      \
        }                                                                                                                      \
        return to;                                                                                                             \
    }                                                                                                                          \
    static inline __attribute__((always_inline))                                                                               \
    size_t form##_of(const rk_slots *k, int dtype, void *const *slot, const uint8_t *x, size_t n)                              \
    {                                                                                                                          \
        const size_t some = n > AHEAD ? n - AHEAD : 0, done = form##_range(k, dtype, true, slot, x, 0, some);                  \
        return done < some ? done : form##_range(k, dtype, false, slot, x, some, n);                                           \
    }                                                                                                                          \
    static size_t add_to_##form(const rk_slots *k, void *const *slot, const uint8_t *x, size_t n)                              \
    {                                                                                                                          \
        return k->dtype == RP_F64   ? form##_of(k, RP_F64, slot, x, n)                                                         \
               : k->dtype == RP_F32 ? form##_of(k, RP_F32, slot, x, n)                                                         \
                                    : form##_of(k, k->dtype, slot, x, n);                                                      \
    }
ADD_TO(sum, rk_window)
ADD_TO(moments, moments)

#define LOAD(dtype, type)                                 \
    case dtype:                                           \
        for (size_t i = 0; i < n; i++) {                  \
            type one;                                     \
            memcpy(&one, x + i * sizeof one, sizeof one); \
            bits[i] = (uint64_t)one;                      \
        }                                                 \
        break

/* The bits of a block, one loop for each size; those of signed integers with their sign. */
static void load_bits(int dtype, const uint8_t *x, size_t n, uint64_t *bits)
{
    switch (dtype) {
        LOAD(RP_I8, int8_t);
        LOAD(RP_I16, int16_t);
        LOAD(RP_I32, int32_t);
    default:
        switch (rk_bytes(dtype)) {
            LOAD(1, uint8_t);
            LOAD(2, uint16_t);
            LOAD(4, uint32_t);
            LOAD(8, uint64_t);
        }
    }
}

/* Elements of a block to sums of integers, the most usual of the other states. */
static void add_integers(const rk_slots *k, void *const *slot, const uint8_t *x, size_t n)
{
    const uint64_t sign = rk_is_signed(k->dtype);
    uint64_t bits[BLOCK];
    load_bits(k->dtype, x, n, bits);
    for (size_t i = 0; i < n && k->dtype == RP_BOOL; i++)
        bits[i] = bits[i] != 0;
    for (size_t i = 0; i < n; i++) {
        rk_state *s = slot[i];
        __builtin_prefetch(slot[i + AHEAD < n ? i + AHEAD : n - 1], 1);
        s->limb[1] += __builtin_add_overflow(s->limb[0], bits[i], &s->limb[0]) - (sign & bits[i] >> 63);
        s->count++;
    }
}

static bool has_places(const rk_slots *k) { return k->layout == RP_STATE_ARGMIN || k->layout == RP_STATE_ARGMAX; }

/* One element to a choice, or its place, where the compiler knows the type. */
static inline __attribute__((always_inline)) void choose(const rk_slots *k, rk_state *s, int dtype, uint64_t bits, uint64_t at)
{
    const bool least = k->layout == RP_STATE_MIN || k->layout == RP_STATE_ARGMIN, places = has_places(k);
    if (s->count == 0 || rk_is_nan(dtype, bits)) {
        rk_state_add(s, bits, at, k->nan);
        return;
    }
    const uint64_t mine = rk_rank(dtype, least, s->limb[0]), other = rk_rank(dtype, least, bits);
    if (other > mine || (other == mine && places && at < s->limb[1])) {
        s->limb[0] = bits;
        s->limb[1] = places ? at : 0;
    }
    s->count++;
}

#define CHOOSE(dtype)                                                               \
    case dtype:                                                                     \
        for (size_t i = 0; i < n; i++) {                                            \
            __builtin_prefetch(slot[i + AHEAD < n ? i + AHEAD : n - 1], 1);         \
            choose(k, slot[i], dtype, bits[i], first + (element ? element[i] : i)); \
        }                                                                           \
        return true

/* False: it is not a choice of one of the usual types. */
static bool add_to_choices(const rk_slots *k, void *const *slot, const uint64_t *bits, uint64_t first, const uint16_t *element,
                           size_t n)
{
    if (k->layout != RP_STATE_MIN && k->layout != RP_STATE_MAX && !has_places(k))
        return false;
    switch (k->dtype) {
        CHOOSE(RP_I32);
        CHOOSE(RP_I64);
        CHOOSE(RP_F32);
        CHOOSE(RP_F64);
    }
    return false;
}

static void add_to_states(const rk_slots *k, void *const *slot, const uint8_t *x, uint64_t first, const uint16_t *element,
                          size_t n)
{
    const uint64_t most = ~(uint64_t)0 >> (64 - 8 * rk_bytes(k->dtype));
    uint64_t bits[BLOCK];
    load_bits(k->dtype, x, n, bits);
    for (size_t i = 0; i < n; i++)
        bits[i] &= most;
    if (add_to_choices(k, slot, bits, first, element, n))
        return;
    for (size_t i = 0; i < n; i++) {
        __builtin_prefetch(slot[i + AHEAD < n ? i + AHEAD : n - 1], 1);
        rk_state_add(slot[i], bits[i], first + (element ? element[i] : i), k->nan);
    }
}

#define GATHER(type)                                                                         \
    case sizeof(type):                                                                       \
        for (size_t i = 0; i < n; i++)                                                       \
            memcpy(to + i * sizeof(type), values + element[i] * sizeof(type), sizeof(type)); \
        break

/* The values of some elements, one behind the other. */
static const uint8_t *gather(int size, const uint8_t *values, const uint16_t *element, size_t n, uint8_t *to)
{
    switch (size) {
        GATHER(uint8_t);
        GATHER(uint16_t);
        GATHER(uint32_t);
        GATHER(uint64_t);
    }
    return to;
}

static size_t add_block(const rk_slots *k, void *const *slot, const uint8_t *values, uint64_t first, const uint16_t *element,
                        size_t n)
{
    uint8_t some[BLOCK * 8];
    const uint8_t *x = element ? gather(rk_bytes(k->dtype), values, element, n, some) : values;
    if (k->form == RK_SLOT_SUM)
        return add_to_sum(k, slot, x, n);
    if (k->form == RK_SLOT_SQUARES)
        return add_to_moments(k, slot, x, n);
    if (k->layout == RP_STATE_INT)
        add_integers(k, slot, x, n);
    else
        add_to_states(k, slot, x, first, element, n);
    return n;
}

size_t rk_slots_add(const rk_slots *k, void *const *slot, const void *values, uint64_t first, const uint16_t *element, size_t n)
{
    const size_t size = (size_t)rk_bytes(k->dtype);
    const uint64_t saved = rk_fp_enter(); /* f32 to f64: subnormals must not be flushed */
    size_t done = 0;
    while (done < n) {
        const size_t most = k->form != RK_SLOT_STATE && !element ? n : BLOCK; /* windows need no copy of the values */
        const size_t block = n - done < most ? n - done : most, skipped = element ? 0 : done;
        const size_t added = add_block(k, slot + done, (const uint8_t *)values + skipped * size, first + skipped,
                                       element ? element + done : NULL, block);
        done += added;
        if (added < block)
            break;
    }
    rk_fp_leave(saved);
    return done;
}

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

static inline bool take_product(moments *s, uint64_t x, uint64_t y)
{
    const uint64_t up = rk_product_up(&s->w, x, y);
    if (up > RK_PRODUCT_REACH || !rk_products_take(&s->squares))
        return false;
    rk_products_put(&s->squares, up, rk_significand(x), rk_significand(y), 0 - ((x ^ y) >> 63));
    s->w.head++;
    return true;
}

/* A pair that does not fit: doubles and their own bits. False: no memory. */
static __attribute__((noinline)) bool take_rare_pair(const rk_slots *k, moments *s, const uint64_t x[2], const uint64_t own[2])
{
    const int a = (int)rk_field(x[0]), b = (int)rk_field(x[1]);
    const bool special = a == RK_FIELD_END || b == RK_FIELD_END, zero = !(x[0] << 1) || !(x[1] << 1);
    if (zero && !special) {
        s->w.head++;
        return true;
    }
    if (special || a == 0 || b == 0) {
        if (whole(k, &s->w))
            rk_pairs_add(s->w.whole, own[0], own[1], k->nan, false);
        return s->w.whole;
    }
    if (!empty_windows(k, s))
        return false;
    s->w.head = (s->w.head << 12 >> 12) | rk_base_for((a + b) / 2) << RK_BASE_SHIFT;
    return take_product(s, x[0], x[1]);
}

static inline __attribute__((always_inline)) size_t add_products(const rk_slots *k, int dtype, void *const *slot,
                                                                 const uint8_t *x, const uint8_t *y, size_t n)
{
    const size_t size = (size_t)rk_bytes(dtype);
    for (size_t i = 0; i < n; i++) {
        const uint64_t pair[2] = {bits_of(dtype, x, i), bits_of(dtype, y, i)};
        __builtin_prefetch(slot[i + AHEAD < n ? i + AHEAD : n - 1], 1);
        if (take_product(slot[i], pair[0], pair[1]))
            continue;
        const uint64_t own[2] = {rk_load(x + i * size, (int)size), rk_load(y + i * size, (int)size)};
        if (!take_rare_pair(k, slot[i], pair, own))
            return i;
    }
    return n;
}

size_t rk_slots_add_pairs(const rk_slots *k, void *const *slot, const void *x, const void *y, size_t n)
{
    const int size = rk_bytes(k->dtype);
    const uint64_t saved = rk_fp_enter();
    size_t done = n;
    if (k->form != RK_SLOT_PRODUCTS)
        for (size_t i = 0; i < n; i++)
            rk_pairs_add(slot[i], rk_load((const uint8_t *)x + i * (size_t)size, size),
                         rk_load((const uint8_t *)y + i * (size_t)size, size), k->nan, false);
    else
        done = k->dtype == RP_F64   ? add_products(k, RP_F64, slot, x, y, n)
               : k->dtype == RP_F32 ? add_products(k, RP_F32, slot, x, y, n)
                                    : add_products(k, k->dtype, slot, x, y, n);
    rk_fp_leave(saved);
    return done;
}

/* ---- all to one slot, states ------------------------------------------------------------------------------------- */

bool rk_slot_add_all(const rk_slots *k, void *slot, const void *values, uint64_t first, size_t n)
{
    rk_state s;
    if (n == 0)
        return true;
    rk_state_init(&s, k->layout, k->dtype);
    const uint64_t saved = rk_fp_enter();
    rk_simd_best()->reduce[k->layout][k->dtype](&s, values, n, first, k->nan);
    rk_fp_leave(saved);
    return rk_slot_merge(k, slot, &s);
}

uint64_t rk_slot_count(const rk_slots *k, const void *slot)
{
    const rk_window *w = slot;
    if (k->form == RK_SLOT_STATE)
        return ((const rk_state *)slot)->count;
    return (w->head & RK_COUNT_MASK) + (w->whole ? w->whole->count : 0);
}

bool rk_slot_write_sum(const rk_slots *k, const void *slot, const rp_spec *spec, uint8_t *cell)
{
    const rk_window *w = slot;
    if (k->form != RK_SLOT_SUM || rp_spec_layout(spec) != k->layout || spec->dtype != k->dtype ||
        rk_finisher_of(spec->op) != RK_FINISH_TOTAL || w->whole || (!w->sum && w->head != RK_HEAD_BASE) ||
        spec->flags & (RP_STATES_OUT | RP_INITIAL) || (w->head & RK_HEAD_SKIPPED && spec->nan == RP_NAN_ERROR))
        return false;
    const uint64_t limb[2] = {(uint64_t)(unsigned __int128)w->sum, (uint64_t)((unsigned __int128)w->sum >> 64)};
    const int unit = (int)(w->head >> RK_BASE_SHIFT) - 1075;
    const uint64_t bits = rk_round_limbs(limb, 2, unit, 0, rk_format_of(spec->out));
    memcpy(cell, &bits, rp_cell_size(spec));
    return true;
}

void rk_slot_state(const rk_slots *k, const void *slot, rk_state *s)
{
    const rk_window *w = slot;
    if (k->form == RK_SLOT_STATE) {
        memcpy(s, slot, rp_state_size(k->layout));
        return;
    }
    if (w->whole)
        memcpy(s, w->whole, rp_state_size(k->layout));
    else
        rk_state_init(s, k->layout, k->dtype);
    close_windows(k, slot, s);
    s->count += w->head & RK_COUNT_MASK;
    s->skipped |= (w->head & RK_HEAD_SKIPPED) != 0;
    if (rk_has_nz(k->layout, k->dtype))
        s->nz |= (w->head & RK_HEAD_NZ) != 0;
}

bool rk_slot_merge(const rk_slots *k, void *slot, const rk_state *from)
{
    if (k->form == RK_SLOT_STATE) {
        rk_state_merge(slot, from);
        return true;
    }
    if (!whole(k, slot))
        return false;
    rk_state_merge(((rk_window *)slot)->whole, from);
    return true;
}

bool rk_slot_settle(const rk_slots *k, void *slot)
{
    rk_window *w = slot;
    rk_state s;
    if (k->form == RK_SLOT_STATE || w->head == RK_HEAD_BASE)
        return true;
    rk_slot_state(k, slot, &s);
    rk_state *to = whole(k, w);
    if (!to)
        return false;
    memcpy(to, &s, rp_state_size(k->layout));
    rk_slot_init(k, slot);
    w->whole = to;
    return true;
}

/* Join windows with one base, if the sum stays inside and nothing is outside. */
static bool join_windows(rk_window *a, const rk_window *b)
{
    __int128 sum;
    const uint64_t count = (a->head & RK_COUNT_MASK) + (b->head & RK_COUNT_MASK);
    if (b->whole || a->head >> RK_BASE_SHIFT != b->head >> RK_BASE_SHIFT || count > RK_COUNT_MASK ||
        __builtin_add_overflow(a->sum, b->sum, &sum))
        return false;
    a->sum = sum;
    a->head = ((a->head | b->head) & ~RK_COUNT_MASK) | count;
    return true;
}

bool rk_slot_join(const rk_slots *k, void *slot, const void *from)
{
    rk_state s;
    const rk_window *a = slot, *b = from;
    if (k->form != RK_SLOT_STATE && a->head == RK_HEAD_BASE && !a->whole && !b->whole) { /* nothing was added so far */
        memcpy(slot, from, k->bytes);
        return true;
    }
    if (k->form == RK_SLOT_SUM && join_windows(slot, from))
        return true;
    rk_slot_state(k, from, &s);
    return rk_slot_merge(k, slot, &s);
}
