// A launch's plan of partials and of the finish: the words of a partial, how they join, and which values take no state.
// Host code, and what both sides share; the device's part is partial.cuh and finish.cuh.
#pragma once

#include <cstdint>

#include "kernels/exact/layout.h"
#include "kernels/exact/op.h"
#include "kernels/exact/truths.h"

namespace rk {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = unsigned long long;
using i64 = long long;

constexpr int kWarp = 32;
constexpr u32 kFullMask = 0xffffffffu;

// The last two words of every partial (partial.cuh).
enum { kWordCount = 0, kWordFlags = 1, kTailWords = 2 };  // after the accumulator's words
enum { kFlagSpecial = 3, kFlagNz = 4, kFlagSkipped = 8 }; // special: rk_state.special
enum { kFlagLost = 16 };                                  // between walking kernels: walk again (lines.cuh)

constexpr int kDigits32 = 2 * RK_LIMBS32, kDigits64 = 2 * RK_LIMBS64, kDigitsInt = 4;

// How a word joins the same word of another partial. A rank and the index behind it are one pair: the better one stays.
enum WordKind { kWordAdd, kWordOr, kWordAnd, kWordXor, kWordMultiply, kWordTimes, kWordRank, kWordIndex };

// By its letter in types.def
constexpr WordKind kind_of_letter(char letter)
{
    return letter == '|'   ? kWordOr
           : letter == '&' ? kWordAnd
           : letter == '^' ? kWordXor
           : letter == '*' ? kWordMultiply
           : letter == 'x' ? kWordTimes
           : letter == 'r' ? kWordRank
           : letter == 'i' ? kWordIndex
                           : kWordAdd;
}

// Words behind the digits
__host__ __device__ inline u32 other_words(int layout)
{
    switch (layout) {
#define X(NAME, code, sum, squares, others, of, family, joins, ...) \
    case code:                                                      \
        return sizeof joins - 1;
        RP_LAYOUTS(X)
#undef X
    }
    return 0;
}

// Of comoments all limbs are those of sums.
__host__ __device__ inline u32 digit_words(int layout)
{
    return 2 * (u32)(rk_is_comoments(layout) ? rk_limbs(layout) : rk_others_at(layout));
}

// Words of a partial, the tail not included.
__host__ __device__ inline u32 own_words(int layout) { return digit_words(layout) + other_words(layout); }

// Room for a state of any layout but those of cov and corr, which are longer.
struct PlainState {
    u64 words[RP_PLAIN_STATE / sizeof(u64)];
    __device__ rk_state &get() { return *(rk_state *)words; }
};

// The words of a layout, worked out once, on the host.
struct WordPlan {
    u8 layout, dtype;
    u8 state;        // the layout of the state that it becomes: another one where bools are counted (count_truths)
    bool indexed;    // pairs have an index
    u16 sum, digits; // digits of the sum; and of all sums
    u16 own, all;    // words without and with the tail
    u8 kinds[8];     // of the words behind the digits: WordKind
};

constexpr u32 kMaxWords = 2 * (RK_LIMBS64 + RK_SQUARE_LIMBS64) + 6 + kTailWords; // of other layouts than those of cov and corr
constexpr u32 kMostWords = 2 * RP_MAX_LIMBS + kTailWords;                        // of any layout

inline const char *joins_of(int layout)
{
    switch (layout) {
#define X(NAME, code, sum, squares, others, of, family, joins, ...) \
    case code:                                                      \
        return joins;
        RP_LAYOUTS(X)
#undef X
    }
    return "";
}

inline WordPlan word_plan(int layout, int dtype)
{
    WordPlan p = {};
    p.layout = p.state = (u8)layout;
    p.dtype = (u8)dtype;
    p.indexed = layout == RP_STATE_ARGMIN || layout == RP_STATE_ARGMAX || rk_is_stats(layout);
    p.sum = (u16)(2 * rk_sum_limbs(layout));
    p.digits = (u16)digit_words(layout);
    p.own = (u16)own_words(layout);
    p.all = (u16)(p.own + kTailWords);
    for (u32 k = 0; k < other_words(layout); k++)
        p.kinds[k] = (u8)kind_of_letter(joins_of(layout)[k]);
    return p;
}

// ---- finish ----

constexpr u32 kNoFault = ~0u; // every line has a result

// What blocks of a row leave for the next pass: partials; or words that they add up in the row's total (last_block.cuh); or
// those, but sums of floats in a few doubles each, where these hold them (moment_sums.cuh).
enum Left : u8 { kPartials, kAdded, kAddedBesideSums };

// The fields of the request that finishing needs.
struct FinishArgs {
    void *cells;
    u32 cell_bytes;
    bool plain;  // a float sum to be rounded, without an initial element: the hot case
    bool light;  // that, or as simple: finish_light suffices
    Left added;  // not kPartials: the words of the row's total are taken by the next pass, or by
    bool ends;   // ... the last block of the row, which finishes it, too
    u8 finisher; // rk_finisher of the operation
    rp_spec spec;
    WordPlan plan; // of a partial
    u32 *fault;    // the first line without a result (launch.h)
    u64 *doubts;   // NULL, or a word for each row: rows of whole blocks whose word is 0 have their value already
};

// A float sum, of magnitudes or not?
inline bool is_float_total(const rp_spec &s) { return (s.op == RP_OP_SUM || s.op == RP_OP_NORM1) && rk_is_float(s.dtype); }

// The largest magnitude of floats, no NaN left out: a max. Not of states, nor of what becomes one.
inline bool is_largest(const rp_spec &s)
{
    return s.op == RP_OP_NORMINF && rk_is_float(s.dtype) && s.nan == RP_NAN_PROPAGATE &&
           !(s.flags & (RP_STATES_IN | RP_STATES_OUT | RP_INITIAL));
}

// Sums and means of columns of so few rows that a thread has whole ones, any number of them (columns_few.cu)?
constexpr u64 kFewRows = 8; // GPUs of a host: reduced.cuda.all_reduce
inline bool has_few_rows(const rp_spec &s)
{
    return s.flags == RP_COLUMNS && s.planes <= 1 && s.rows && s.rows <= kFewRows &&
           (s.op == RP_OP_SUM || s.op == RP_OP_MEAN) && rk_is_float(s.dtype) && rk_is_float(s.out) &&
           (s.out != RP_F64 || s.dtype == RP_F64) && s.nan == RP_NAN_PROPAGATE;
}

// Values that finish_light can make: those of these states, except means and counts of all elements. The largest magnitude is
// one of them only where its kernel is that of max (minmax_arg.cu), a product of integers only modulo 2^64.
inline bool is_light(const rp_spec &s, int layout)
{
    switch ((rp_layout)layout) {
    case RP_STATE_SUM32:
    case RP_STATE_SUM64:
    case RP_STATE_INT:
        return s.op == RP_OP_SUM;
    case RP_STATE_MIN:
    case RP_STATE_MAX:
    case RP_STATE_ARGMIN:
    case RP_STATE_ARGMAX:
        return true;
    case RP_STATE_COUNT:
        return s.op == RP_OP_COUNT_NONZERO || s.op == RP_OP_ANY || s.op == RP_OP_ALL;
    case RP_STATE_ABS32:
    case RP_STATE_ABS64:
        return true;
    case RP_STATE_NORMINF:
        return is_largest(s);
    case RP_STATE_PRODINT:
        return s.flags & RP_WRAP && !rk_is_float(s.out);
    case RP_STATE_SQ32:
    case RP_STATE_SQ64:
    case RP_STATE_SQINT:
    case RP_STATE_MOM32:
    case RP_STATE_MOM64:
    case RP_STATE_MOMINT:
    case RP_STATE_ABSINT:
    case RP_STATE_MINMAX:
    case RP_STATE_NANS:
    case RP_STATE_AND:
    case RP_STATE_OR:
    case RP_STATE_XOR:
    case RP_STATE_PROD:
    case RP_STATE_STATS32:
    case RP_STATE_STATS64:
    case RP_STATE_STATSINT:
    case RP_STATE_DOT32:
    case RP_STATE_DOT64:
    case RP_STATE_DOTINT:
    case RP_STATE_WMEAN32:
    case RP_STATE_WMEAN64:
    case RP_STATE_WMEANINT:
    case RP_STATE_COV32:
    case RP_STATE_COV64:
    case RP_STATE_COVINT:
    case RP_STATE_CORR32:
    case RP_STATE_CORR64:
    case RP_STATE_CORRINT:
        break;
    }
    return false;
}

// Can the words of partials be added up by atomic operations? Of stats but for its pairs, which are kept beside.
inline bool can_add(const WordPlan &p)
{
    for (u32 k = 0; k < (u32)p.own - p.digits; k++)
        if (p.kinds[k] == kWordAnd || p.kinds[k] == kWordXor || p.kinds[k] == kWordMultiply || p.kinds[k] == kWordTimes)
            return false;
    return !p.indexed || rk_is_stats(p.layout);
}

inline FinishArgs finish_args(const rp_spec &spec, void *cells, u32 *fault)
{
    FinishArgs a = {};
    a.spec = spec;
    a.plan = word_plan(rp_spec_layout(&spec), rp_spec_state_dtype(&spec));
    a.plain = is_float_total(spec) && !(spec.flags & (RP_STATES_OUT | RP_INITIAL));
    a.light = !(spec.flags & (RP_STATES_OUT | RP_INITIAL)) && is_light(spec, a.plan.layout);
    a.finisher = (u8)rk_finisher_of(spec.op);
    a.cell_bytes = (u32)rp_cell_size(&spec);
    a.cells = cells;
    a.fault = fault;
    return a;
}

// Bools, unless a result has places: their states and values follow from how many are true (kernels/exact/truths.h), so the
// kernels of count_nonzero make them all. Not for states that come in, nor where elements are added by definition.
inline bool makes_light_truths(const rp_spec &s)
{
    switch (s.op) {
    case RP_OP_SUM:
    case RP_OP_MIN:
    case RP_OP_MAX:
    case RP_OP_AND:
    case RP_OP_OR:
    case RP_OP_ANY:
    case RP_OP_ALL:
    case RP_OP_COUNT_NONZERO:
        return !(s.flags & (RP_STATES_OUT | RP_INITIAL));
    }
    return false;
}

inline void count_truths(FinishArgs *a)
{
    const int layout = a->plan.layout;
    if (a->spec.dtype != RP_BOOL || a->spec.flags & RP_STATES_IN || rk_has_places(layout) || rk_is_pairs(layout))
        return;
    a->plan = word_plan(RP_STATE_COUNT, RP_BOOL);
    a->plan.state = (u8)layout;
    a->light = makes_light_truths(a->spec);
}

// The element that decides what becomes of such counts, whatever follows: RK_DECIDES_*
inline int decides_truths(const FinishArgs &a)
{
    const bool value = !(a.spec.flags & (RP_STATES_OUT | RP_INITIAL));
    return a.spec.dtype != RP_BOOL           ? RK_DECIDES_NONE
           : value && a.spec.op == RP_OP_ANY ? RK_DECIDES_TRUE
           : value && a.spec.op == RP_OP_ALL ? RK_DECIDES_FALSE
                                             : rk_truth_decides(a.plan.state);
}

// Words of scratch that finishing a line takes, beside its state.
inline u32 scratch_words(const FinishArgs &a)
{
    if (a.spec.op == RP_OP_RANGE)
        return RK_LIMBS64;
    return rk_sum_limbs(a.plan.state) && rk_square_limbs(a.plan.state) ? 2 * (u32)rk_sum_limbs(a.plan.state) + 1 : 0;
}

} // namespace rk
