// Sums of f32 and narrower elements in two doubles, from which a value of f32 or less follows mostly: it lies between two
// bounds that round to the same one. An addition takes half of what sums in several doubles take, or less (near_moments.cuh),
// and so does the end.
//
// The bounds are computed side by side: even lanes have the lower one, odd lanes the upper one, by the same instructions.
//
// Squares of f64, too: what two doubles round off is less than a bound, and the value is rounded if that does not matter.
#pragma once

#include "kernels/cuda/exact/narrow_value.cuh"
#include "kernels/cuda/exact/scale_levels.cuh"
#include "kernels/cuda/pass/args.h"

namespace rk {

// Is this a bound from above?
struct Bound {
    bool above;

    static __device__ __forceinline__ Bound of_lane() { return {(threadIdx.x & 1) != 0}; }
    // q, or the next double this way if the exact value is beyond q. `rest` has the sign of what that is more than q.
    __device__ __forceinline__ double beyond(double q, double rest) const
    {
        if (!(above ? rest > 0 : rest < 0))
            return q;
        return __longlong_as_double(__double_as_longlong(q) + (above == (q > 0) ? 1 : -1));
    }
    // Of a bound x that is 0 or in range. Remainders are exact then, and so is the quotient by a power of two, in less time.
    __device__ __forceinline__ double quotient(double x, double n) const
    {
        const u32 high = (u32)__double2hiint(n);
        if (((high & 0xfffffu) | (u32)__double2loint(n)) == 0)
            return __dmul_rn(x, __hiloint2double((int)((2046u << 20) - high), 0));
        const double q = __ddiv_rn(x, n);
        return beyond(q, __fma_rn(-q, n, x));
    }
    __device__ __forceinline__ double root(double x) const
    {
        const double r = __dsqrt_rn(x);
        return beyond(r, __fma_rn(-r, r, x));
    }
};

// What a thread, or several together, have. Sum, Squares: rounded down and up. Spread: the sum and the squares of what elements
// are more than one of them, the pivot, rounded as it comes.
template <BoundsOf kOf> struct BoundedSums {
    double a, b;

    __device__ __forceinline__ void clear() { a = b = kOf == BoundsOf::Sum ? -0.0 : 0; }
    __device__ __forceinline__ void add(double x, double pivot)
    {
        if (kOf == BoundsOf::Squares) {
            a = __fma_rd(x, x, a);
            b = __fma_ru(x, x, b);
        } else if (kOf == BoundsOf::Sum) {
            join({x, x});
        } else {
            const double more = __dsub_rn(x, pivot);
            a = __dadd_rn(a, more);
            b = __fma_rn(more, more, b);
        }
    }
    __device__ __forceinline__ void join(const BoundedSums &o)
    {
        a = kOf == BoundsOf::Spread ? __dadd_rn(a, o.a) : __dadd_rd(a, o.a);
        b = kOf == BoundsOf::Spread ? __dadd_rn(b, o.b) : __dadd_ru(b, o.b);
    }
    __device__ __forceinline__ BoundedSums of_lane(int distance) const
    {
        return {__shfl_xor_sync(kFullMask, a, distance), __shfl_xor_sync(kFullMask, b, distance)};
    }

    // Of infinities and NaNs among the elements, if the sums tell: a pivot is finite.
    __device__ __forceinline__ u32 flags() const
    {
        return kOf == BoundsOf::Sum ? 0 : b != b ? RK_NAN : b == INFINITY ? RK_PINF : 0;
    }

    // This lane's bound of the value of n elements. False: there is none. `added`: as below.
    __device__ __forceinline__ bool value(const rp_spec &spec, u64 n, u32 added, double *v) const
    {
        const Bound bound = Bound::of_lane();
        const double count = (double)n;
        if (kOf == BoundsOf::Sum) {
            *v = bound.above || a == b ? b : a; // b has the sign of a zero
            if (!(*v == 0 || in_range(*v)))
                return false;
            if (spec.op == RP_OP_MEAN)
                *v = bound.quotient(*v, count);
            return true;
        }
        if (kOf == BoundsOf::Squares) {
            *v = bound.above ? b : a;
            if (!(*v == 0 || in_range(*v)))
                return false;
            if (spec.op == RP_OP_RMS)
                *v = bound.quotient(*v, count);
            if (spec.op != RP_OP_SUMSQ)
                *v = bound.root(*v);
            return true;
        }
        return spread(spec, n, added, bound, v);
    }

  private:
    // Let S and Q be the sums for d = x - pivot, and u = 2^-53. No d goes through more than `added` = D additions, so S is off
    // by at most (D + 2) u of the sum of |d|, which is at most sqrt(n Q), and Q by (D + 4) u Q: d is rounded, too. So n Q - S^2
    // is off by at most (3 D + 8) u n Q, and its own roundings and those of the value add 5 u n Q. D u is below 2^-20, so
    // products of errors do not matter beside D u n Q, which the bound has left.
    __device__ __forceinline__ bool spread(const rp_spec &spec, u64 n, u32 added, Bound bound, double *v) const
    {
        const double count = (double)n, all = __dmul_rn(count, b), error = __dmul_rn(0x1p-53 * (4 * (double)added + 16), all);
        *v = 0;
        if (n <= spec.ddof)
            return false;
        if (b == 0)
            return true; // all elements are the pivot
        const double top = __dsub_rn(all, __dmul_rn(a, a)), x = bound.above ? __dadd_rn(top, error) : __dsub_rn(top, error);
        if (!(x > 0 && in_range(x) && in_range(all)))
            return false;
        *v = bound.quotient(x, __dmul_rn(count, (double)(n - spec.ddof)));
        if (spec.op == RP_OP_SEM)
            *v = bound.quotient(*v, count);
        if (spec.op != RP_OP_VAR)
            *v = bound.root(*v);
        return true;
    }
};

template <bool kScaled> struct LevelOf {
    int level;
};
template <> struct LevelOf<false> {
    static constexpr int level = kPlainLevel;
};

// Squares of f64: their sum, and what its additions and the squares have rounded off. kScaled: at a level (scale_levels.cuh).
// Otherwise NaN in b: nothing is known.
template <bool kScaled> struct alignas(16) SquaresOfDoubles : LevelOf<kScaled> {
    double a, b;

    __device__ __forceinline__ void clear()
    {
        a = b = 0;
        if constexpr (kScaled)
            this->level = kNoLevel;
    }
    __device__ __forceinline__ int at_level() const { return this->level; }
    __device__ __forceinline__ bool none() const { return a == 0; } // or zeros alone
    // A thread's are complete. Zeros fit any level.
    __device__ __forceinline__ void end()
    {
        if constexpr (kScaled)
            this->level = none() ? kNoLevel : this->level;
    }
    // To a level that is not lower, or to any from none
    __device__ __forceinline__ void raise(int to)
    {
        if constexpr (kScaled) {
            const double by = to == this->level ? 1 : to == this->level + 1 ? 0x1p-1000 : 0;
            a = __dmul_rn(a, by);
            b = __dmul_rn(b, by);
            this->level = to;
        }
    }
    // A scaled element
    __device__ __forceinline__ void add(double x)
    {
        const double square = __dmul_rn(x, x), rest = __fma_rn(x, x, -square), e = two_sum(a, square, a);
        b = __dadd_rn(b, __dadd_rn(e, rest));
    }
    // Of the same level
    __device__ __forceinline__ void join(const SquaresOfDoubles &o)
    {
        const double e = two_sum(a, o.a, a);
        b = __dadd_rn(__dadd_rn(b, o.b), e);
    }
    __device__ __forceinline__ SquaresOfDoubles of_lane(int distance) const
    {
        SquaresOfDoubles all = *this;
        all.a = __shfl_xor_sync(kFullMask, a, distance);
        all.b = __shfl_xor_sync(kFullMask, b, distance);
        return all;
    }
    // Without scale an infinity may be that of a square.
    __device__ __forceinline__ u32 flags() const { return a != a ? RK_NAN : kScaled && a == INFINITY ? RK_PINF : 0; }

    // No square goes through more than `added` = D additions. What these and the squares round off is at most (D + 1) u Q in
    // all, Q being the sum and u 2^-53; in b each part of it goes through at most 2 D additions. So b is off by less than
    // 2^-104 D^2 Q. What is below the range of doubles, of squares or of sums that are raised a level, is less than 2^-1072 for
    // each element, which does not matter where Q is 2^-500 at least.
    __device__ __forceinline__ bool value(const rp_spec &spec, u64 n, u32 added, double *v) const
    {
        *v = 0;
        if (a == 0)
            return b == 0;
        if (!is_known())
            return false;
        const double d = (double)added;
        const int by = excess();
        return value_near(spec.op, 0, RK_FINISH_SQUARES, n, {0, 0, 0}, near(by, __dmul_rn(0x1p-104 * d, d)), v) &&
               sized(spec.op, by, v) && tells(*v, spec.out);
    }
    __device__ __forceinline__ bool is_known() const { return kScaled ? a < INFINITY : in_range(a); }
    // By which power of two sums of elements have to be smaller for squares near 1
    __device__ __forceinline__ int excess() const
    {
        const int e = (__double2hiint(a) >> 20) - 1023;
        return kScaled && abs(e) > 200 ? e / 2 : 0;
    }
    // Of elements over 2^by, off by `error` of itself
    __device__ __forceinline__ NearSum near(int by, double error) const
    {
        if (!kScaled || by == 0)
            return {a, b, __dmul_rn(error, a)};
        const double unit = level_power(-2 * by), of = __dmul_rn(a, unit);
        return {of, __dmul_rn(b, unit), __dmul_rn(error, of)};
    }
    // The value of elements as they are. False: it is out of range.
    __device__ __forceinline__ bool sized(int op, int by, double *v) const
    {
        const int bits = level_bits(this->level) + by;
        return bits == 0 || scale_value(v, op == RP_OP_VAR || op == RP_OP_SUMSQ ? 2 * bits : bits);
    }
    // Is v, rounded to format `out`, what the exact value is?
    static __device__ __forceinline__ bool tells(double v, int out)
    {
        return out == RP_F64 || !is_tie((u64)__double_as_longlong(v), rk_format_of(out));
    }
};

// The same with the sum of the elements: sum, and what its additions have rounded off. After each tile `gather` keeps these
// parts small.
template <bool kScaled> struct alignas(16) SpreadOfDoubles {
    SquaresOfDoubles<kScaled> squares;
    double sum, rest;
    double unlike; // is any element unlike the row's first one?

    __device__ __forceinline__ void clear()
    {
        squares.clear();
        sum = rest = unlike = 0;
    }
    __device__ __forceinline__ int at_level() const { return squares.at_level(); }
    __device__ __forceinline__ bool none() const { return squares.none(); }
    __device__ __forceinline__ void end() { squares.end(); }
    __device__ __forceinline__ void raise(int to)
    {
        if constexpr (kScaled) {
            const int levels = to - squares.level;
            const double by = levels == 0 ? 1 : levels == 1 ? 0x1p-500 : levels == 2 ? 0x1p-1000 : 0;
            sum = __dmul_rn(sum, by);
            rest = __dmul_rn(rest, by);
            squares.raise(to);
        }
    }
    __device__ __forceinline__ void add(double x)
    {
        squares.add(x);
        const double e = two_sum(sum, x, sum);
        rest = __dadd_rn(rest, e);
    }
    __device__ __forceinline__ void join(const SpreadOfDoubles &o)
    {
        squares.join(o.squares);
        const double e = two_sum(sum, o.sum, sum);
        rest = __dadd_rn(__dadd_rn(rest, o.rest), e);
        unlike = fmax(unlike, o.unlike);
    }
    // Not of infinities: `flags` must tell them from NaNs.
    __device__ __forceinline__ void gather()
    {
        if (!(squares.a < INFINITY))
            return;
        squares.b = two_sum(squares.a, squares.b, squares.a);
        rest = two_sum(sum, rest, sum);
    }
    __device__ __forceinline__ SpreadOfDoubles of_lane(int distance) const
    {
        return {squares.of_lane(distance), __shfl_xor_sync(kFullMask, sum, distance),
                __shfl_xor_sync(kFullMask, rest, distance), __shfl_xor_sync(kFullMask, unlike, distance)};
    }
    __device__ __forceinline__ u32 flags() const { return squares.flags(); }

    // Let u be 2^-53, Q the sum of the squares, and D additions the most that an element goes through. Of these at most 60
    // follow each other without `gather`: a tile of one thread, or a rest and then threads, lanes and blocks. Each rounds off
    // 2 u Q at most, so squares.b is never above 121 u Q, and in one addition, which adds two terms to it, it loses at most
    // 2^8 u^2 Q. That is 2^-98 D Q in all. Of the sum it is the same with the sum of magnitudes, which is at most sqrt(n Q).
    // What is lost below the range of doubles matters as little as for squares alone.
    __device__ __forceinline__ bool value(const rp_spec &spec, u64 n, u32 added, double *v) const
    {
        *v = 0;
        if (n <= spec.ddof)
            return false;
        if (unlike == 0 || !squares.is_known())
            return unlike == 0 && squares.a < INFINITY;
        const int by = squares.excess();
        const double error = 0x1p-98 * added;
        const NearSum q = squares.near(by, error);
        NearSum s = {sum, rest, __dmul_rn(error, __dsqrt_rn(__dmul_rn((double)n, q.s)))};
        if (kScaled) {
            s.s = __dmul_rn(sum, level_power(-by));
            s.t = __dmul_rn(rest, level_power(-by));
            if (fabs(s.s) < 0x1p-200) // so far below the squares that its size says enough
                s = {0, 0, __dadd_ru(__dadd_ru(fabs(s.s), fabs(s.t)), s.error)};
        }
        return value_near(spec.op, spec.ddof, RK_FINISH_SPREAD, n, s, q, v) && squares.sized(spec.op, by, v) &&
               squares.tells(*v, spec.out);
    }
};

// Two sums, or those of a warp, to the highest of their levels, if they have levels.
template <class Sums> __device__ __forceinline__ void level_two(Sums &, Sums &) {}
template <class Sums> __device__ __forceinline__ void level_warp(Sums &) {}
template <template <bool> class Sums> __device__ __forceinline__ void level_two(Sums<true> &a, Sums<true> &b)
{
    const int to = max(a.at_level(), b.at_level());
    if (a.at_level() != b.at_level()) { // rare
        a.raise(to);
        b.raise(to);
    }
}
template <template <bool> class Sums> __device__ __forceinline__ void level_warp(Sums<true> &a)
{
    if (__any_sync(kFullMask, a.at_level() != kPlainLevel)) // rare
        a.raise((int)warp_max((u32)(a.at_level() - kNoLevel)) + kNoLevel);
}

} // namespace rk
