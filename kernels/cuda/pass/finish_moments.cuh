// Means, variances, norms and stats of one row by a few doubles, as write_by_doubles, by the warps of a block side by side. It
// is done once for a request, so its code is cold: what counts is how much of it one warp must wait for after the other.
#pragma once

#include "kernels/cuda/exact/moment_sums.cuh"
#include "kernels/cuda/exact/near_sum.cuh"
#include "kernels/cuda/exact/scale_levels.cuh"
#include "kernels/cuda/pass/finish.cuh"

namespace rk {

// The values that this may know, of rows of floats
inline __host__ __device__ bool has_moments(const FinishArgs &a)
{
    const bool known = a.finisher == RK_FINISH_MEAN || a.finisher == RK_FINISH_SPREAD || a.finisher == RK_FINISH_SQUARES;
    return rk_is_float(a.plan.dtype) && !(a.spec.flags & (RP_STATES_OUT | RP_INITIAL)) &&
           (known || a.finisher == RK_FINISH_SUMMARY);
}

// Shared memory that this takes
struct MomentRoom {
    uint64_t limb[RK_LIMBS64 + RK_SQUARE_LIMBS64];
    LineSums<4> sums;
    u64 cell[RP_MAX_CELL_WORDS];
};

// What `n` carry-save digits at `words` stand for, in units of 2^e0. By a warp; its first lane gets the terms.
__device__ __forceinline__ Terms<4> terms_of_words(const u64 *words, int n, int e0, uint64_t *limb)
{
    if (n <= kWarp)
        carry_digits<1>(words, n, (u32 *)limb);
    else
        carry_digits<5>(words, n, (u32 *)limb);
    const rk_range r = limb_range(limb, n / 2);
    Terms<4> all;
    all.clear();
    if (threadIdx.x % kWarp == 0)
        all = terms_of<4>(limb, n / 2, r, e0);
    return all;
}

// As end_of, of an end's rank
__device__ __forceinline__ u64 end_of_rank(int layout, int dtype, u64 rank)
{
    rk_state s;
    s.dtype = (uint8_t)dtype;
    return end_of(s, bits_of_rank(layout, dtype, rank));
}

// The words of stats but for mean, var and std
__device__ __forceinline__ void rest_of_stats(const WordPlan &p, const u64 *words, double sum, u64 *cell)
{
    const u64 *other = words + p.digits;
    cell[RP_STATS_COUNT] = words[p.own + kWordCount];
    cell[RP_STATS_NANS] = other[RK_STATS_NANS];
    cell[RP_STATS_ZEROS] = other[RK_STATS_ZEROS];
    cell[RP_STATS_ARGMIN] = other[RK_STATS_MIN_INDEX];
    cell[RP_STATS_ARGMAX] = other[RK_STATS_MAX_INDEX];
    cell[RP_STATS_MIN] = end_of_rank(RP_STATE_ARGMIN, p.dtype, other[RK_STATS_MIN]);
    cell[RP_STATS_MAX] = end_of_rank(RP_STATE_ARGMAX, p.dtype, other[RK_STATS_MAX]);
    cell[RP_STATS_SUM] = (u64)__double_as_longlong(sum);
    cell[RP_STATS_SUM_HIGH] = 0;
}

// One thread's part of the values: of stats mean, var, std and the rest are those of four warps. False: not certain.
template <int kTerms> __device__ __forceinline__ bool moment_of(const FinishArgs &a, const LineSums<kTerms> &sums,
                                                                const u64 *words, u32 part, u64 *cell)
{
    double v;
    bool sure = true;
    if (a.finisher != RK_FINISH_SUMMARY) {
        if (part)
            return true;
        sure = sums.template value<true>(a.spec, (rk_finisher)a.finisher, &v) && value_bits(v, a.spec.out, cell);
        return sure && !(a.finisher == RK_FINISH_MEAN && sums.sum.s == 0); // of which sign?
    }
    if (part == 3) {
        rest_of_stats(a.plan, words, sums.sum.value(), cell);
        return sums.sum.s != 0 && !sums.sum.lost;
    }
    sure = part ? sums.template spread<true>(a.spec.ddof, part == 1 ? &v : NULL, part == 2 ? &v : NULL) : sums.mean(&v);
    cell[part == 0 ? RP_STATS_MEAN : part == 1 ? RP_STATS_VAR : RP_STATS_STD] = (u64)__double_as_longlong(v);
    return sure;
}

// Sums as they are for value_near, of elements over 2^scale: the last of three terms is what the others do not hold.
struct NearMoments {
    NearSum sum, squares;
    u64 count;
    int scale;

    __device__ __forceinline__ NearMoments(const NearSum &s, const NearSum &q, u64 n, int bits = 0)
        : sum(s), squares(q), count(n), scale(bits)
    {
    }
    __device__ __forceinline__ explicit NearMoments(const MomentSums &of, u64 n) : count(n), scale(0)
    {
        Terms<3> q = of.squares;
        const bool gathered = q.gather();
        sum = {of.sum.s, of.sum.t, 0};
        squares = {q.x[0], q.x[1], gathered ? fabs(q.x[2]) : INFINITY};
    }
    __device__ __forceinline__ bool value(int op, u32 ddof, rk_finisher finisher, double *v) const
    {
        const bool square = op == RP_OP_VAR || op == RP_OP_SUMSQ;
        return value_near(op, ddof, finisher, count, sum, squares, v) &&
               (scale == 0 || scale_value(v, square ? 2 * scale : scale));
    }
};

// As above, of these.
__device__ __forceinline__ bool moment_of(const FinishArgs &a, const NearMoments &sums, const u64 *words, u32 part, u64 *cell)
{
    const bool summary = a.finisher == RK_FINISH_SUMMARY;
    double v;
    if (!summary && part)
        return true;
    if (part == 3) {
        rest_of_stats(a.plan, words, __dadd_rn(sums.sum.s, sums.sum.t), cell);
        return sums.sum.s != 0;
    }
    const int op = !summary ? a.spec.op : part == 0 ? RP_OP_MEAN : part == 1 ? RP_OP_VAR : RP_OP_STD;
    const rk_finisher finisher = !summary ? (rk_finisher)a.finisher : part == 0 ? RK_FINISH_MEAN : RK_FINISH_SPREAD;
    const bool sure = sums.value(op, a.spec.ddof, finisher, &v);
    u64 *to = &cell[!summary ? 0 : part == 0 ? RP_STATS_MEAN : part == 1 ? RP_STATS_VAR : RP_STATS_STD];
    return sure && value_bits(v, summary ? RP_F64 : a.spec.out, to) &&
           !(finisher == RK_FINISH_MEAN && sums.sum.s == 0); // of which sign?
}

// The value, if it is certain, by four warps. Whole block.
template <class Sums>
__device__ __forceinline__ bool write_moments(const FinishArgs &a, u64 row, const Sums &sums, const u64 *words, u64 *cell)
{
    const u32 warp = threadIdx.x / kWarp;
    const bool sure = threadIdx.x % kWarp || warp > 3 || moment_of(a, sums, words, warp, cell);
    if (__syncthreads_or(!sure))
        return false;
    const u32 bytes = a.finisher == RK_FINISH_SUMMARY ? 8 : (u32)rk_bytes(a.spec.out), n = a.cell_bytes / bytes;
    if (threadIdx.x < n)
        write_bits(bytes, a.cells, row * n + threadIdx.x, cell[threadIdx.x]);
    __syncthreads();
    return true;
}

// Do the flags of a row's words and its count allow for a value by doubles?
__device__ __forceinline__ bool may_be_certain(const FinishArgs &a, const u64 *words)
{
    const u32 flags = (u32)words[a.plan.own + kWordFlags];
    return !(flags & kFlagSpecial) && words[a.plan.own + kWordCount] && !(flags & kFlagSkipped && a.spec.nan == RP_NAN_ERROR);
}

// Finishes the row with these sums; `words` (shared memory) have its other values. For has_moments(a). By a whole block.
static __device__ __noinline__ bool finish_sums(const FinishArgs &a, u64 row, MomentSums of, const u64 *words, u64 *cell)
{
    if (!may_be_certain(a, words))
        return false;
    const u64 count = words[a.plan.own + kWordCount];
    if (write_moments(a, row, NearMoments(of, count), words, cell))
        return true;
    const Terms<3> &q = of.squares; // ties: as many terms as finish_moments has, for the same code
    LineSums<4> sums = {{0, 0, false}, {{q.x[0], q.x[1], q.x[2], 0}, q.lost}, count, 0};
    sums.sum.t = two_sum(of.sum.s, of.sum.t, sums.sum.s);
    return sums.squares.gather() && write_moments(a, row, sums, words, cell);
}

// The sums that n blocks have left, of which this thread takes its share.
__device__ __forceinline__ MomentSums share_of_sums(const SumsPartial *partials, u32 n)
{
    MomentSums all = {{0, 0, false}, {{0, 0, 0}, false}};
    for (u32 i = threadIdx.x; i < n; i += blockDim.x) {
        const double *sum = partials[i].sum, *squares = partials[i].squares;
        const MomentSums one = {{__ldcg(sum), __ldcg(sum + 1), false},
                                {{__ldcg(squares), __ldcg(squares + 1), __ldcg(squares + 2)}, false}};
        if (i == threadIdx.x)
            all = one;
        else
            all.join(one);
    }
    return all;
}

// Rare: these sums to the digits of `words` (shared memory). Whole block.
static __device__ __noinline__ void add_sums(const FinishArgs &a, const SumsPartial *partials, u32 n, u64 *words)
{
    const int e0 = rk_e0(a.plan.dtype);
    for (u32 i = threadIdx.x; i < n; i += blockDim.x) {
        for (int k = 0; a.plan.sum && k < 2; k++)
            add_to_digits(__ldcg(&partials[i].sum[k]), e0, words);
        for (int k = 0; k < 3; k++)
            add_to_digits(__ldcg(&partials[i].squares[k]), 2 * e0, words + a.plan.sum);
    }
    __syncthreads();
}

// Finishes the row whose words `words` (shared memory) are, if a few doubles decide its value. For has_moments(a). By a whole
// block of at least four warps.
static __device__ __noinline__ bool finish_moments(const FinishArgs &a, u64 row, const u64 *words, MomentRoom &room)
{
    uint64_t *limb = room.limb;
    LineSums<4> &sums = room.sums;
    const WordPlan &p = a.plan;
    const u32 warp = threadIdx.x / kWarp;
    const bool first = threadIdx.x % kWarp == 0;
    if (!may_be_certain(a, words))
        return false;
    if (warp < 2) {
        const int n = warp ? p.digits - p.sum : p.sum, e0 = rk_e0(p.dtype) * (warp ? 2 : 1);
        Terms<4> terms;
        terms.clear();
        if (n)
            terms = terms_of_words(words + warp * p.sum, n, e0, limb + warp * (p.sum / 2));
        if (first && warp)
            sums.squares = terms;
        else if (first)
            sums.sum = {terms.x[0], terms.x[1], terms.lost || terms.x[2] != 0 || terms.x[3] != 0};
    } else if (warp == 2 && first) {
        sums.count = words[p.own + kWordCount];
        sums.special = 0;
    }
    __syncthreads();
    return write_moments(a, row, sums, words, room.cell);
}

} // namespace rk
