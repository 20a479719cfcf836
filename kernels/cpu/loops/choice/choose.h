/* min, max, argmin, argmax, norminf: the largest key, where a key is the element's rank (total_order.h) or magnitude as a
 * signed integer. One loop for all types, which the compiler turns into vector maxima. Only the block of the best key is
 * remembered; the element is searched there once, at the end. */
#ifndef RK_CPU_CHOOSE_H
#define RK_CPU_CHOOSE_H

#include "kernels/cpu/loops/choice/float_ends.h"
#include "kernels/exact/state.h"

enum { CHOOSE_BLOCK = 4096, PLACE_STEP = 256 }; /* elements */
enum { END_BYTES = 256 << 10 }; /* of a block where no place is wanted: the second cache has it for a second pass */

/* F(NAME, W, INF, TURN) for each type: its width, a float's infinity or 0, and the mask whose xor makes unsigned integers
 * signed. */
#define ORDERED_INTS(F)       \
    F(i8, 8, 0, 0)            \
    F(u8, 8, 0, 0x80)         \
    F(i16, 16, 0, 0)          \
    F(u16, 16, 0, 0x8000)     \
    F(i32, 32, 0, 0)          \
    F(u32, 32, 0, 0x80000000) \
    F(i64, 64, 0, 0)          \
    F(u64, 64, 0, 0x8000000000000000)
#define ORDERED_FLOATS(F)     \
    F(f16, 16, 0x7c00, 0)     \
    F(bf16, 16, 0x7f80, 0)    \
    F(f32, 32, 0x7f800000, 0) \
    F(f64, 64, 0x7ff0000000000000, 0)
#define ORDERED_TYPES(F) ORDERED_INTS(F) ORDERED_FLOATS(F)

/* For one width of elements: key, best key of a block, place of a key. `inf` is the infinity's bits, 0 for integers;
 * `turn` is xored to make unsigned integers signed; NaNs get the key `nan_key`.
 *
 * without_nans compares the bits of floats as integers. The largest signed integer is the largest float, if that is positive;
 * the largest unsigned one is the smallest float, if that is negative. Otherwise all signs are alike, and the smallest signed
 * integer is the other end. NaNs lie beyond the infinities in either order: it returns false if there are any. */
#define CHOOSE_WIDTH(W)                                                                                                     \
    INLINE int##W##_t key_##W(uint##W##_t b, uint##W##_t inf, uint##W##_t turn, direction d, int##W##_t nan_key)            \
    {                                                                                                                       \
        int##W##_t k = (int##W##_t)(b ^ turn), negative = (int##W##_t)(k >> (W - 1));                                       \
        if (d == MAGNITUDE && inf)                                                                                          \
            k = (int##W##_t)(k & INT##W##_MAX);                                                                             \
        else if (d == MAGNITUDE && !turn) /* to 2^(W-1) as unsigned, which is turned then */                                \
            k = (int##W##_t)(((uint##W##_t)(k ^ negative) - (uint##W##_t)negative) ^ (uint##W##_t)INT##W##_MIN);            \
        else if (inf)                                                                                                       \
            k = (int##W##_t)(k ^ (negative & INT##W##_MAX));                                                                \
        k = d == LEAST ? (int##W##_t) ~k : k;                                                                               \
        return inf && (b & INT##W##_MAX) > inf ? nan_key : k;                                                               \
    }                                                                                                                       \
    INLINE int64_t best_##W(const void *data, size_t n, uint##W##_t inf, uint##W##_t turn, direction d, int##W##_t nan_key) \
    {                                                                                                                       \
        const u##W##_loose *x = data;                                                                                       \
        int##W##_t best = INT##W##_MIN;                                                                                     \
        for (size_t i = 0; i < n; i++) {                                                                                    \
            int##W##_t k = key_##W(x[i], inf, turn, d, nan_key);                                                            \
            best = k > best ? k : best;                                                                                     \
        }                                                                                                                   \
        return best;                                                                                                        \
    }                                                                                                                       \
    INLINE void extremes_##W(const void *data, size_t n, uint##W##_t inf, uint##W##_t turn, int##W##_t nan_key,             \
                             int64_t best[2])                                                                               \
    {                                                                                                                       \
        const u##W##_loose *x = data;                                                                                       \
        int##W##_t least = INT##W##_MIN, largest = INT##W##_MIN;                                                            \
        for (size_t i = 0; i < n; i++) {                                                                                    \
            int##W##_t down = key_##W(x[i], inf, turn, LEAST, nan_key), up = key_##W(x[i], inf, turn, LARGEST, nan_key);    \
            least = down > least ? down : least;                                                                            \
            largest = up > largest ? up : largest;                                                                          \
        }                                                                                                                   \
        best[0] = least;                                                                                                    \
        best[1] = largest;                                                                                                  \
    }                                                                                                                       \
    INLINE int##W##_t least_signed_##W(const void *data, size_t n)                                                          \
    {                                                                                                                       \
        const u##W##_loose *x = data;                                                                                       \
        int##W##_t least = INT##W##_MAX;                                                                                    \
        for (size_t i = 0; i < n; i++)                                                                                      \
            least = (int##W##_t)x[i] < least ? (int##W##_t)x[i] : least;                                                    \
        return least;                                                                                                       \
    }                                                                                                                       \
    /* A few more keys; false: there are NaNs. */                                                                           \
    INLINE bool keys_pass_##W(const u##W##_loose *x, size_t n, uint##W##_t inf, int ends, int64_t best[2])                  \
    {                                                                                                                       \
        for (size_t i = 0; i < n; i++) {                                                                                    \
            if ((x[i] & INT##W##_MAX) > inf)                                                                                \
                return false;                                                                                               \
            for (direction d = LEAST; d <= LARGEST; d++) {                                                                  \
                const int64_t k = key_##W(x[i], inf, 0, d, 0);                                                              \
                best[d] = ends & 1 << d && k > best[d] ? k : best[d];                                                       \
            }                                                                                                               \
        }                                                                                                                   \
        return true;                                                                                                        \
    }                                                                                                                       \
    INLINE bool without_nans_##W(const void *data, size_t n, uint##W##_t inf, int ends, int64_t best[2])                    \
    {                                                                                                                       \
        const u##W##_loose *x = data;                                                                                       \
        const uint##W##_t sign = (uint##W##_t)INT##W##_MIN;                                                                 \
        int##W##_t most = INT##W##_MIN;                                                                                     \
        uint##W##_t top = 0;                                                                                                \
        uint##W##_t end[2] = {0, 0};                                                                                        \
        bool numbers = true;                                                                                                \
        size_t i = float_ends_##W(x, n, ends, end, &numbers);                                                               \
        if (!numbers)                                                                                                       \
            return false;                                                                                                   \
        if (i) {                                                                                                            \
            best[LEAST] = key_##W(end[LEAST], inf, 0, LEAST, 0);                                                            \
            best[LARGEST] = key_##W(end[LARGEST], inf, 0, LARGEST, 0);                                                      \
            return keys_pass_##W(x + i, n - i, inf, ends, best);                                                            \
        }                                                                                                                   \
        for (; i < n; i++) {                                                                                                \
            most = (int##W##_t)x[i] > most ? (int##W##_t)x[i] : most;                                                       \
            top = x[i] > top ? x[i] : top;                                                                                  \
        }                                                                                                                   \
        if (most > (int##W##_t)inf || top > (inf | sign))                                                                   \
            return false;                                                                                                   \
        if ((ends & WANT_LEAST && top < sign) || (ends & WANT_LARGEST && most < 0)) {                                       \
            uint##W##_t least = (uint##W##_t)least_signed_##W(x, n);                                                        \
            top = top < sign ? least : top;                                                                                 \
            most = most < 0 ? (int##W##_t)least : most;                                                                     \
        }                                                                                                                   \
        best[0] = key_##W(top, inf, 0, LEAST, 0);                                                                           \
        best[1] = key_##W((uint##W##_t)most, inf, 0, LARGEST, 0);                                                           \
        return true;                                                                                                        \
    }                                                                                                                       \
    INLINE int##W##_t largest_magnitude_##W(const void *data, size_t n)                                                     \
    {                                                                                                                       \
        const u##W##_loose *x = data;                                                                                       \
        int##W##_t most = 0;                                                                                                \
        for (size_t i = 0; i < n; i++) {                                                                                    \
            int##W##_t m = (int##W##_t)(x[i] & INT##W##_MAX);                                                               \
            most = m > most ? m : most;                                                                                     \
        }                                                                                                                   \
        return most;                                                                                                        \
    }                                                                                                                       \
    /* Is it the element with these bits, or any NaN? */                                                                    \
    INLINE bool is_sought_##W(uint##W##_t x, uint##W##_t bits, bool nan, int##W##_t inf)                                    \
    {                                                                                                                       \
        return nan ? (int##W##_t)(x & INT##W##_MAX) > inf : x == bits;                                                      \
    }                                                                                                                       \
    /* Goes on from i by whole steps, up to the one that has it. */                                                         \
    INLINE size_t step_to_##W(const u##W##_loose *x, size_t i, size_t n, size_t step, uint##W##_t bits, bool nan,           \
                              int##W##_t inf)                                                                               \
    {                                                                                                                       \
        for (uint##W##_t here = 0; n - i > step; i += step) {                                                               \
            for (size_t j = 0; j < step; j++)                                                                               \
                here |= is_sought_##W(x[i + j], bits, nan, inf);                                                            \
            if (here)                                                                                                       \
                break;                                                                                                      \
        }                                                                                                                   \
        return i;                                                                                                           \
    }                                                                                                                       \
    INLINE size_t seek_##W(const u##W##_loose *x, size_t n, uint##W##_t bits, bool nan, int##W##_t inf)                     \
    {                                                                                                                       \
        size_t i = step_to_##W(x, 0, n, PLACE_STEP, bits, nan, inf);                                                        \
        i = step_to_##W(x, i, n, PLACE_STEP / 8, bits, nan, inf);                                                           \
        while (i < n - 1 && !is_sought_##W(x[i], bits, nan, inf))                                                           \
            i++;                                                                                                            \
        return i;                                                                                                           \
    }                                                                                                                       \
    ONE_COPY size_t place_of_##W(const void *x, size_t n, uint##W##_t bits) { return seek_##W(x, n, bits, false, 0); }      \
    ONE_COPY size_t place_of_nan_##W(const void *x, size_t n, int##W##_t inf) { return seek_##W(x, n, 0, true, inf); }      \
    /* Not of a magnitude */                                                                                                \
    INLINE size_t place_##W(const void *x, size_t n, uint##W##_t inf, uint##W##_t turn, direction d, int##W##_t nan_key,    \
                            int64_t key)                                                                                    \
    {                                                                                                                       \
        const int##W##_t k = (int##W##_t)(d == LEAST ? ~key : key);                                                         \
        if (inf && key == nan_key)                                                                                          \
            return place_of_nan_##W(x, n, (int##W##_t)inf);                                                                 \
        return place_of_##W(x, n, (uint##W##_t)(inf ? k ^ ((k >> (W - 1)) & INT##W##_MAX) : k ^ (int##W##_t)turn));         \
    }
CHOOSE_WIDTH(8)
CHOOSE_WIDTH(16)
CHOOSE_WIDTH(32)
CHOOSE_WIDTH(64)
#undef CHOOSE_WIDTH

/* One type in one direction. The key of a NaN is the largest one if NaNs win, else the smallest one, which no other float
 * has. */
typedef struct chooser {
    direction d;
    int width;
    bool (*best)(const void *x, size_t n, bool nan_wins, int64_t *best); /* are there NaNs? */
    size_t (*place)(const void *x, size_t n, bool nan_wins, int64_t key);
} chooser;

/* Keys of the least and of the largest element, in one pass; are there NaNs? */
typedef bool extremes_fn(const void *x, size_t n, bool nan_wins, int64_t best[2]);

/* Ends that were not asked for are undefined. */
#define EXTREMES(NAME, W, INF, TURN)                                                                                  \
    INLINE bool ends_of_##NAME(const void *x, size_t n, bool nan_wins, int ends, int64_t best[2])                     \
    {                                                                                                                 \
        if (INF != 0 && without_nans_##W(x, n, INF, ends, best))                                                      \
            return false;                                                                                             \
        if (INF != 0 && nan_wins) {                                                                                   \
            best[0] = best[1] = INT##W##_MAX;                                                                         \
            return true;                                                                                              \
        }                                                                                                             \
        extremes_##W(x, n, INF, TURN, nan_wins ? INT##W##_MAX : INT##W##_MIN, best);                                  \
        return INF != 0;                                                                                              \
    }                                                                                                                 \
    static __attribute__((noinline)) bool extremes_of_##NAME(const void *x, size_t n, bool nan_wins, int64_t best[2]) \
    {                                                                                                                 \
        return ends_of_##NAME(x, n, nan_wins, WANT_LEAST | WANT_LARGEST, best);                                       \
    }

/* One loop finds the smallest and the largest float. */
#define CHOOSER(NAME, W, INF, TURN, D, HOW)                                                                          \
    static __attribute__((noinline)) bool best_##HOW##_##NAME(const void *x, size_t n, bool nan_wins, int64_t *best) \
    {                                                                                                                \
        int64_t ends[2];                                                                                             \
        bool nans = false;                                                                                           \
        if (INF == 0 || D == MAGNITUDE) {                                                                            \
            if (INF != 0 && (*best = largest_magnitude_##W(x, n)) <= (int##W##_t)(INF))                              \
                return false;                                                                                        \
            *best = best_##W(x, n, INF, TURN, D, nan_wins ? INT##W##_MAX : INT##W##_MIN);                            \
            return INF != 0;                                                                                         \
        }                                                                                                            \
        nans = ends_of_##NAME(x, n, nan_wins, 1 << D, ends);                                                         \
        *best = ends[D == LARGEST];                                                                                  \
        return nans;                                                                                                 \
    }                                                                                                                \
    static size_t place_##HOW##_##NAME(const void *x, size_t n, bool nan_wins, int64_t key)                          \
    {                                                                                                                \
        return place_##W(x, n, INF, TURN, D, nan_wins ? INT##W##_MAX : INT##W##_MIN, key);                           \
    }                                                                                                                \
    static const chooser HOW##_##NAME = {D, W, best_##HOW##_##NAME, place_##HOW##_##NAME};

#define CHOOSERS(NAME, W, INF, TURN)              \
    EXTREMES(NAME, W, INF, TURN)                  \
    CHOOSER(NAME, W, INF, TURN, LEAST, least)     \
    CHOOSER(NAME, W, INF, TURN, LARGEST, largest) \
    CHOOSER(NAME, W, INF, TURN, MAGNITUDE, magnitude)
ORDERED_TYPES(CHOOSERS)
#undef CHOOSERS
#undef CHOOSER
#undef EXTREMES

/* The best so far. Until a key exceeds the smallest key, the first element is the best. That is right for integers, and no
 * float has the smallest key. */
typedef struct choice {
    const chooser *c;
    bool nan_wins;
    int64_t key, most; /* a key that nothing can pass */
    uint64_t block;    /* first element of the block with the best */
} choice;

static choice choice_start(const chooser *c, int nan_policy)
{
    int64_t most = (int64_t)(UINT64_MAX >> (65 - c->width));
    return (choice){c, nan_policy == RP_NAN_PROPAGATE, -most - 1, most, 0};
}

static inline bool choice_decided(const choice *s) { return s->key == s->most; }

/* The best key of a block that begins at element `at` of the array. */
static inline void choose_key(choice *s, int64_t key, uint64_t at)
{
    if (key > s->key) {
        s->key = key;
        s->block = at;
    }
}

/* n elements, the first of which is element `at` of the array. False: there are no NaNs. */
static inline bool choose_in(choice *s, const void *x, size_t n, uint64_t at)
{
    int64_t best;
    if (choice_decided(s))
        return true;
    bool nans = s->c->best(x, n, s->nan_wins, &best);
    choose_key(s, best, at);
    return nans;
}

/* As choose_in, for the least and the largest element. */
static inline bool choose_ends(choice s[2], extremes_fn *extremes, const void *x, size_t n, uint64_t at)
{
    int64_t best[2];
    if (choice_decided(&s[0]) && choice_decided(&s[1]))
        return true;
    bool nans = extremes(x, n, s[0].nan_wins, best);
    choose_key(&s[0], best[0], at);
    choose_key(&s[1], best[1], at);
    return nans;
}

/* The best element's bits; for MAGNITUDE the magnitude's. */
static uint64_t choice_bits(const choice *s, int dtype)
{
    uint64_t mask = UINT64_MAX >> (64 - s->c->width), sign = (uint64_t)1 << (s->c->width - 1);
    uint64_t rank = ((uint64_t)s->key ^ sign) & mask;
    if (s->c->d != MAGNITUDE)
        return rk_unrank(dtype, s->c->d == LEAST, rank);
    if (!rk_is_float(dtype))
        return rank;
    return choice_decided(s) ? rk_nan_bits(rk_format_of(dtype)) : rank ^ sign;
}

/* Its place in the array of n > 0 elements, cut into blocks of `block` elements. */
static uint64_t choice_place(const choice *s, const void *data, uint64_t n, size_t block)
{
    uint64_t left = n - s->block;
    const char *x = (const char *)data + s->block * (uint64_t)(s->c->width / 8);
    return s->block + s->c->place(x, left < block ? (size_t)left : block, s->nan_wins, s->key);
}

#endif
