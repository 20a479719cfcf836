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

__device__ inline WordKind word_kind(const WordPlan &p, u32 j)
{
    if (j < p.digits)
        return kWordAdd;
    if (j >= p.own)
        return j == p.own + kWordFlags ? kWordOr : kWordAdd;
    return (WordKind)p.kinds[j - p.digits];
}

// The identity of joining.
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
    case kWordAdd:
    case kWordOr:
    case kWordXor:
    case kWordRank:
        break;
    }
    return 0;
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
    case kWordAdd:
    case kWordRank: // with its index: join_pair
    case kWordIndex:
        break;
    }
    return a + b;
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

// Has a state of these flags the sum in its partial? An infinite product leaves that of the weights.
__device__ inline bool has_sum(const WordPlan &p, int special)
{
    return p.sum && (!special || (special != RK_NAN && rk_is_pairs(p.layout)));
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
    switch ((WordKind)p.kinds[k]) {
    case kWordRank:
        return count ? rk_rank_in(pair_layout(p.layout, k / 2), p.dtype, other[pair_limb(p.layout, k / 2)]) : 0;
    case kWordIndex:
        return count && p.indexed ? other[pair_limb(p.layout, k / 2) + 1] : RP_NO_INDEX;
    case kWordAdd:
    case kWordOr:
    case kWordXor:
    case kWordMultiply:
    case kWordTimes:
    case kWordAnd:
        break;
    }
    return p.layout == RP_STATE_PROD ? other[3] : other[k];
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
        switch ((WordKind)p.kinds[k]) {
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
        case kWordAdd:
        case kWordOr:
        case kWordXor:
        case kWordMultiply:
        case kWordTimes:
            other[k] = word[k];
        }
    }
    if (p.state != p.layout) { // counted bools
        const u64 count = s->count, trues = other[0];
        rk_state_init(s, p.state, p.dtype);
        rk_state_of_truths(s, count, trues);
    }
}

} // namespace rk
