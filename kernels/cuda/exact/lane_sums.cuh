// The sums that lanes of a warp accumulate for a line of floats: of elements and of squares, exact and in registers. The lanes
// of a warp work in step on groups of elements; -0.0, which adds nothing, stands for missing ones. So the usual path of a group
// has no branch for single elements.
#pragma once

#include "kernels/cuda/exact/exponent_window.cuh"
#include "kernels/cuda/exact/near_doubles.cuh"
#include "kernels/cuda/pass/chosen.cuh"

namespace rk {

constexpr int kGroup = 8; // elements of a lane at once

// The neighbouring lanes of a warp that share a line with the calling lane.
struct Lanes {
    u32 count, mask;
};

// The elements of a line as the bits of f32: most in a window (exponent_window.cuh), the others
// and what leaves the window in doubles.
template <bool kSquares> struct NarrowSums {
    static constexpr int kTerms = 2;

    Window window;
    NearSum sum, squares; // of what is not in it
    bool apart;           // the doubles are in use

    __device__ __forceinline__ void init()
    {
        window.open(1);
        sum.clear();
        squares = {0, 0, 0};
        apart = false;
    }

    // Finite elements. Called by the whole warp. `lanes` neighbouring lanes share a line and one place for their windows.
    __device__ __forceinline__ void add(u32 (&x)[kGroup], const Magnitudes &m, const Lanes &lanes)
    {
        follow(m.most, lanes);
        if (!window.holds(m))
            add_small(x);
#pragma unroll
        for (int k = 0; k < kGroup; k++)
            window.add<kSquares>(x[k]);
        window.count += kGroup;
    }

    // The window follows the largest elements of the line's lanes.
    __device__ __forceinline__ void follow(u32 most, const Lanes &lanes)
    {
        const u32 top = most >> 23;
        const u32 low = __ballot_sync(kFullMask, window.too_low(top) || window.count == Window::kFull);
        const u32 right = __ballot_sync(kFullMask, !window.too_high(top));
        const bool shift = (low & lanes.mask) || !(right & lanes.mask);
        if (!__any_sync(kFullMask, shift))
            return;
        for (u32 d = lanes.count / 2; d; d /= 2)
            most = max(most, __shfl_xor_sync(kFullMask, most, d));
        if (!shift || (most == 0 && window.count < Window::kFull)) // zeros fit anywhere
            return;
        empty_window();
        window.open_for(most >> 23);
    }

    __device__ __forceinline__ void empty_window()
    {
        if (window.count == 0)
            return;
        sum.add(window.sum);
        if (kSquares) {
            squares.add(window.lower);
            squares.add(window.upper_squares());
        }
        apart = true;
    }

    // Elements below the window are added to the doubles and replaced by zeros. Not unrolled, because it is rare.
    __device__ __forceinline__ void add_small(u32 (&x)[kGroup])
    {
        const u32 least = window.first << 23;
#pragma unroll 1
        for (int i = 0; i < kGroup; i++) {
            const u32 bits = chosen(x, i);
            const double v = (double)__uint_as_float(bits);
            if (v == 0 || (bits & 0x7fffffffu) >= least)
                continue;
            sum.add(v);
            if (kSquares)
                squares.add(__dmul_rn(v, v));
            apart = true;
        }
#pragma unroll
        for (int k = 0; k < kGroup; k++)
            x[k] = (x[k] & 0x7fffffffu) < least ? 0x80000000u : x[k];
    }

    // The sums of all the line's lanes to `sum` and `squares`. Whole warp.
    __device__ __forceinline__ void join(u32 lanes)
    {
        if (!__all_sync(kFullMask, !apart && window.count * lanes <= Window::kFull)) {
            empty_window();
            for (u32 d = lanes / 2; d; d /= 2) {
                sum.join_lane(d);
                if (kSquares)
                    squares.join_lane(d);
            }
            return;
        }
        double total = window.sum, upper = window.upper_squares(), lower = window.lower; // no addition of these rounds
        for (u32 d = lanes / 2; d; d /= 2) {
            total = __dadd_rn(total, __shfl_xor_sync(kFullMask, total, d));
            if (kSquares) {
                upper = __dadd_rn(upper, __shfl_xor_sync(kFullMask, upper, d));
                lower = __dadd_rn(lower, __shfl_xor_sync(kFullMask, lower, d));
            }
        }
        sum.s = total;
        if (kSquares)
            squares.t = two_sum(upper, lower, squares.s);
    }
    __device__ __forceinline__ Pair exact_sum() const { return sum.pair(); }
    __device__ __forceinline__ Terms<kTerms> exact_squares() const { return {{squares.s, squares.t}, !(squares.error == 0)}; }
};

// A double x times itself, exactly high + low. False if that is not so: near underflow, or for infinities and NaNs.
__device__ __forceinline__ bool square_of(double x, double *high, double *low)
{
    *high = __dmul_rn(x, x);
    *low = __fma_rn(x, x, -*high);
    return x == 0 || (*high > 0x1p-900 && *high < INFINITY);
}

// f64: a square is two doubles, and the sum of many takes three.
template <bool kSquares> struct WideSums {
    static constexpr int kTerms = 3;

    Pair sum;
    Terms<kTerms> squares;

    __device__ __forceinline__ void init()
    {
        sum = {-0.0, -0.0, false};
        squares.clear();
    }
    __device__ __forceinline__ Pair exact_sum() const { return sum; }
    __device__ __forceinline__ Terms<kTerms> exact_squares() const { return squares; }
    __device__ __forceinline__ void add(const u64 (&bits)[kGroup])
    {
#pragma unroll
        for (int k = 0; k < kGroup; k++) {
            const double x = __longlong_as_double((i64)bits[k]);
            double high, low;
            sum.add(x);
            if (!kSquares)
                continue;
            squares.lost |= !square_of(x, &high, &low);
            squares.add(low);
            squares.add(high);
        }
    }
    __device__ __forceinline__ void join(u32 lanes)
    {
        for (u32 d = lanes / 2; d; d /= 2) {
            sum.join_lane(kFullMask, (int)d);
            sum.lost |= __shfl_xor_sync(kFullMask, (int)sum.lost, d) != 0;
            if (kSquares)
                squares.join_lane(kFullMask, (int)d);
        }
    }
};

// f64: the same in two doubles each, with a bound on what these do not hold.
struct NearWideSums {
    NearDoubles<true> lane;
    NearSum sum, squares; // after `join`

    __device__ __forceinline__ void init() { lane.clear(); }
    __device__ __forceinline__ void add(const u64 (&bits)[kGroup])
    {
#pragma unroll
        for (int k = 0; k < kGroup; k++)
            lane.add((u32)bits[k], (u32)(bits[k] >> 32));
    }
    __device__ __forceinline__ void join(u32 lanes)
    {
        sum = lane.sum.sum();
        squares = lane.known_squares().sum();
        for (u32 d = lanes / 2; d; d /= 2) {
            sum.join_lane(d);
            squares.join_lane(d);
        }
    }
};

} // namespace rk
