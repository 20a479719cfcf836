// The words of a partial: what a block (or a thread) leaves of its elements, in a form that joins word by word.
//
//   digits of the sum, digits of the sum of squares    carry-save base-2^32 digits (int64), two for each limb of a state
//   others                                             by layout, see word_kind
//   count, flags                                       kTailWords, in every partial
//
// A state (kernels/exact/state.h) is the canonical form of the same knowledge; state_of_words and word_of_state lead from one
// to the other.
#pragma once

#include "kernels/cuda/pass/common.cuh"
#include "kernels/exact/finish.h"

namespace rk {

// How a word joins the same word of another partial. A rank and the index behind it are one pair: the better one stays.
enum WordKind { kWordAdd, kWordOr, kWordAnd, kWordXor, kWordMultiply, kWordTimes, kWordRank, kWordIndex };

__host__ __device__ inline u32 other_words(int layout)
{
    switch (layout) {
    case RP_STATE_MIN:
    case RP_STATE_MAX:
    case RP_STATE_ARGMIN:
    case RP_STATE_ARGMAX:
    case RP_STATE_NORMINF:
        return 2;
    case RP_STATE_MINMAX:
        return 4;
    case RP_STATE_STATS32:
    case RP_STATE_STATS64:
    case RP_STATE_STATSINT:
        return 6;
    case RP_STATE_COUNT:
    case RP_STATE_NANS:
    case RP_STATE_AND:
    case RP_STATE_OR:
    case RP_STATE_XOR:
        return 1;
    case RP_STATE_PROD:
        return 7; // six digits of the logarithm's sum, negatives
    case RP_STATE_PRODINT:
        return 3;
    default:
        return 0;
    }
}

__host__ __device__ inline u32 digit_words(int layout) { return (u32)(2 * (rk_sum_limbs(layout) + rk_square_limbs(layout))); }

// Words of a partial, the tail not included.
__host__ __device__ inline u32 own_words(int layout) { return digit_words(layout) + other_words(layout); }

// The words of a layout, worked out once, on the host.
struct WordPlan {
    u8 layout, dtype;
    bool indexed;    // pairs have an index
    u16 sum, digits; // digits of the sum; and of both sums
    u16 own, all;    // words without and with the tail
    u8 kinds[8];     // of the words behind the digits: WordKind
};

constexpr u32 kMaxWords = 2 * (RK_LIMBS64 + RK_SQUARE_LIMBS64) + 6 + kTailWords;

// Of word k behind the digits
inline WordKind other_kind(int layout, u32 k)
{
    switch (layout) {
    case RP_STATE_AND:
        return kWordAnd;
    case RP_STATE_OR:
        return kWordOr;
    case RP_STATE_XOR:
        return kWordXor;
    case RP_STATE_PRODINT:
        return k == RK_PROD_WRAPPED ? kWordMultiply : k == RK_PROD_MAGNITUDE ? kWordTimes : kWordAdd;
    case RP_STATE_COUNT:
    case RP_STATE_NANS:
    case RP_STATE_PROD:
        return kWordAdd;
    default:
        return k >= 4 ? kWordAdd : k % 2 ? kWordIndex : kWordRank;
    }
}

inline WordPlan word_plan(int layout, int dtype)
{
    WordPlan p = {};
    p.layout = (u8)layout;
    p.dtype = (u8)dtype;
    p.indexed = layout == RP_STATE_ARGMIN || layout == RP_STATE_ARGMAX || rk_is_stats(layout);
    p.sum = (u16)(2 * rk_sum_limbs(layout));
    p.digits = (u16)digit_words(layout);
    p.own = (u16)own_words(layout);
    p.all = (u16)(p.own + kTailWords);
    for (u32 k = 0; k < other_words(layout); k++)
        p.kinds[k] = (u8)other_kind(layout, k);
    return p;
}

__device__ inline WordKind word_kind(const WordPlan &p, u32 j)
{
    if (j < p.digits)
        return kWordAdd;
    if (j >= p.own)
        return j == p.own + kWordFlags ? kWordOr : kWordAdd;
    return (WordKind)p.kinds[j - p.digits];
}

// What joins with anything to that.
__device__ inline u64 word_identity(WordKind kind)
{
    switch (kind) {
    case kWordAnd:
        return ~0ull;
    case kWordMultiply:
    case kWordTimes:
        return 1;
    case kWordIndex:
        return RP_NO_INDEX;
    default:
        return 0;
    }
}

__device__ inline u64 join_words(WordKind kind, u64 a, u64 b)
{
    switch (kind) {
    case kWordOr:
        return a | b;
    case kWordAnd:
        return a & b;
    case kWordXor:
        return a ^ b;
    case kWordMultiply:
        return a * b;
    case kWordTimes:
        return rk_times(a, b);
    default:
        return a + b;
    }
}

__device__ inline void join_pair(u64 &rank, u64 &index, u64 other, u64 at)
{
    if (other > rank || (other == rank && at < index)) {
        rank = other;
        index = at;
    }
}

// ---- states ----

// The layout that pair number `pair` of a layout chooses like: its first element is the least in minmax and stats.
__device__ inline int pair_layout(int layout, u32 pair)
{
    if (layout == RP_STATE_MINMAX || rk_is_stats(layout))
        return pair ? RP_STATE_ARGMAX : RP_STATE_ARGMIN;
    return layout;
}

// The inverse of rk_rank_in.
__device__ inline u64 bits_of_rank(int layout, int dtype, u64 rank)
{
    if (layout == RP_STATE_NORMINF && !rk_is_float(dtype))
        return rank;
    return rk_unrank(dtype, layout == RP_STATE_MIN || layout == RP_STATE_ARGMIN, rank);
}

// The limb that holds the element of a pair; behind it, if the plan is indexed, its index.
__device__ inline u32 pair_limb(int layout, u32 pair) { return layout == RP_STATE_MINMAX ? pair : 2 * pair; }

// Word j of the partial that stands for a canonical state: `head` its header word, `count`, and its limbs.
__device__ inline u64 word_of_state(const WordPlan &p, u64 head, u64 count, const uint64_t *limb, u32 j)
{
    if (j == p.own + kWordCount)
        return count;
    if (j == p.own + kWordFlags)
        return (head >> 8 & kFlagSpecial) | (head >> 16 & 1 ? kFlagNz : 0) | (head >> 24 & 1 ? kFlagSkipped : 0);
    const bool log_digit = p.layout == RP_STATE_PROD && j < 6;
    if (j < p.digits || log_digit) {
        const u32 top = log_digit ? 5 : j < p.sum ? p.sum - 1 : p.digits - 1;
        u64 l = limb[j / 2];                                                // both sums have whole limbs
        return j == top ? (u64)((i64)l >> 32) : (u32)(l >> (32 * (j & 1))); // the top digit keeps the sign
    }
    const uint64_t *other = limb + p.digits / 2;
    const u32 k = j - p.digits;
    switch (p.kinds[k]) {
    case kWordRank:
        return count ? rk_rank_in(pair_layout(p.layout, k / 2), p.dtype, other[pair_limb(p.layout, k / 2)]) : 0;
    case kWordIndex:
        return count && p.indexed ? other[pair_limb(p.layout, k / 2) + 1] : RP_NO_INDEX;
    default:
        return p.layout == RP_STATE_PROD ? other[3] : other[k];
    }
}

// The canonical state of a partial, but for the limbs of sums and logarithms: those are carry_digits' business.
__device__ inline void state_of_words(const WordPlan &p, const u64 *words, rk_state *s)
{
    const u32 flags = (u32)words[p.own + kWordFlags];
    rk_state_init(s, p.layout, p.dtype);
    s->count = words[p.own + kWordCount];
    s->special = flags & kFlagSpecial;
    s->nz = (flags & kFlagNz) != 0 && rk_has_nz(p.layout, p.dtype);
    s->skipped = (flags & kFlagSkipped) != 0;
    uint64_t *other = s->limb + p.digits / 2;
    const u64 *word = words + p.digits;
    if (p.layout == RP_STATE_PROD) {
        other[3] = s->special == RK_NAN ? 0 : word[6];
        return;
    }
    for (u32 k = 0; k < (u32)p.own - p.digits; k++) {
        switch (p.kinds[k]) {
        case kWordRank:
            if (s->count)
                other[pair_limb(p.layout, k / 2)] = bits_of_rank(pair_layout(p.layout, k / 2), p.dtype, word[k]);
            break;
        case kWordIndex:
            if (s->count && p.indexed)
                other[pair_limb(p.layout, k / 2) + 1] = word[k];
            break;
        case kWordAnd:
            other[k] = word[k] & rk_all_ones(p.dtype);
            break;
        default:
            other[k] = word[k];
        }
    }
}

} // namespace rk
