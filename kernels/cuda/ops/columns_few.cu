// Sums and means of columns of few rows, such as the same tensor of several ranks: a thread has the columns of a vector, and
// values have any format.
//
// f16, bf16, f32: a column's sum in a double, rounded down and up, gives two bounds of the value, certain if both round
// to one. f64: two doubles (twosum.cuh). What they leave in doubt is rare, and by states.
#include "kernels/cuda/exact/value_bounds.cuh"
#include "kernels/cuda/ops/registry.h"
#include "kernels/cuda/pass/finish.cuh"
#include "kernels/exact/line.h"

namespace rk {
namespace {

constexpr int kLoads = (int)kFewRows; // of a thread that are under way

// The sum of a column. value(): its bits in the format that is asked for; false: they are not certain.
template <int kDtype> struct FewSum {
    double low, high;

    __device__ __forceinline__ void clear() { low = high = -0.0; }
    __device__ __forceinline__ void add(double x)
    {
        low = __dadd_rd(low, x);
        high = __dadd_ru(high, x);
    }
    __device__ __forceinline__ bool exact() const { return low == high; } // then a zero has the sign of `high`
    __device__ __forceinline__ bool value(const FinishArgs &a, u64 *bits) const
    {
        double from = exact() ? high : low, to = high;
        if (to != to) {
            *bits = rk_nan_bits(rk_format_of(a.spec.out));
            return true;
        }
        if (a.spec.op == RP_OP_MEAN) {
            from = Bound{false}.quotient(from, (double)a.spec.rows);
            to = Bound{true}.quotient(to, (double)a.spec.rows);
        }
        *bits = rounded_bits(to, a.spec.out);
        return *bits == rounded_bits(from, a.spec.out);
    }
};
template <> struct FewSum<RP_F64> {
    Pair sum;

    __device__ __forceinline__ void clear() { sum = {-0.0, -0.0, false}; }
    __device__ __forceinline__ void add(double x) { sum.add(x); }
    __device__ __forceinline__ bool value(const FinishArgs &a, u64 *bits) const
    {
        double v = sum.value();
        if (sum.lost || !(fabs(v) < INFINITY))
            return false;
        if (a.spec.op == RP_OP_MEAN &&
            !value_near(RP_OP_MEAN, 0, RK_FINISH_MEAN, a.spec.rows, {sum.s, sum.t, 0}, {0, 0, 0}, &v))
            return false;
        return value_bits(v, a.spec.out, bits);
    }
};

// The elements of kPer columns in one row
template <int kDtype, int kPer> struct FewVector {
    using Bits = FloatBits<kDtype>;
    using Word = std::conditional_t<kPer == 1, Bits, uint4>;
    Word word;

    __device__ __forceinline__ void clear() // -0.0
    {
        constexpr u32 sign = sizeof(Bits) == 2 ? 0x80008000u : 0x80000000u;
        if constexpr (kPer == 1)
            word = (Bits)1 << (8 * sizeof(Bits) - 1);
        else
            word = {sizeof(Bits) == 8 ? 0 : sign, sign, sizeof(Bits) == 8 ? 0 : sign, sign};
    }
    __device__ __forceinline__ void load(const u8 *p)
    {
        if constexpr (kPer == 1)
            word = *(const Bits *)p;
        else
            word = load_vector((const uint4 *)p);
    }
    __device__ __forceinline__ double value(int c) const
    {
        if constexpr (kPer == 1) {
            return Float<kDtype>::value(word);
        } else {
            const u32 w[4] = {word.x, word.y, word.z, word.w};
            if constexpr (sizeof(Bits) == 8)
                return __hiloint2double((int)w[2 * c + 1], (int)w[2 * c]);
            else
                return Float<kDtype>::value(sizeof(Bits) == 4 ? w[c] : w[c / 2] >> 16 * (c % 2) & 0xffff);
        }
    }
};

// A column's value by a state. Out of line: rare.
__device__ __noinline__ u64 value_by_state(const FinishArgs &a, const u8 *p)
{
    const int bytes = rk_bytes(a.spec.dtype);
    PlainState room;
    rk_state &s = room.get();
    rk_state_init(&s, a.plan.layout, a.spec.dtype);
    for (u64 row = 0; row < a.spec.rows; row++, p += a.spec.row_len * (u64)bytes) {
        const u64 bits = rk_load(p, bytes);
        rk_sums_add(&s, rk_is_nan(a.spec.dtype, bits) ? rk_nan_bits(rk_format_of(a.spec.dtype)) : bits);
        s.count++;
    }
    const rk_format out = rk_format_of(a.spec.out);
    return a.spec.op == RP_OP_MEAN ? rk_finish_mean(&s, out) : rk_finish_sum(&s, out);
}

template <int kPer> __device__ __forceinline__ void store_values(const FinishArgs &a, u64 first, const u64 (&bits)[kPer])
{
    u64 *const at = (u64 *)((u8 *)a.cells + first * a.cell_bytes); // of vectors whole words
    if (a.cell_bytes == 2 && kPer % 4 == 0) {
#pragma unroll
        for (int i = 0; i < kPer / 4; i++)
            at[i] = bits[4 * i] | bits[4 * i + 1] << 16 | bits[4 * i + 2] << 32 | bits[4 * i + 3] << 48;
    } else if (a.cell_bytes == 4 && kPer % 2 == 0) {
#pragma unroll
        for (int i = 0; i < kPer / 2; i++)
            at[i] = bits[2 * i] | bits[2 * i + 1] << 32;
    } else {
#pragma unroll
        for (int c = 0; c < kPer; c++)
            write_bits(a.cell_bytes, a.cells, first + c, bits[c]);
    }
}

// Of column c, where each row has a vector of columns
template <int kDtype, int kPer, int kRows>
__device__ __forceinline__ FewSum<kDtype> sum_of_column(const FewVector<kDtype, kPer> (&v)[kRows], int c)
{
    FewSum<kDtype> sum;
    sum.clear();
#pragma unroll
    for (int row = 0; row < kRows; row++)
        sum.add(v[row].value(c));
    return sum;
}

// Mostly: the sums of kPer columns in the elements' own type. False: one of them is not exact.
template <int kDtype, int kPer, int kRows>
__device__ __forceinline__ bool store_exact(const FinishArgs &a, u64 first, const FewVector<kDtype, kPer> (&v)[kRows])
{
    constexpr int kBits = 8 * sizeof(FloatBits<kDtype>), kPerWord = 32 / kBits;
    u32 word[4] = {0, 0, 0, 0};
    bool exact = true;
#pragma unroll
    for (int c = 0; c < kPer; c++) {
        const FewSum<kDtype> sum = sum_of_column(v, c);
        exact &= sum.exact();
        word[c / kPerWord] |= (u32)rounded_bits(sum.high, kDtype) << kBits * (c % kPerWord);
    }
    if (exact)
        ((uint4 *)a.cells)[first / kPer] = {word[0], word[1], word[2], word[3]};
    return exact;
}

// The values of kPer columns
template <int kDtype, int kPer, int kRows> __device__ __forceinline__ void
finish_few(const FinishArgs &a, const u8 *data, u64 first, const FewVector<kDtype, kPer> (&v)[kRows])
{
    u64 bits[kPer];
#pragma unroll
    for (int c = 0; c < kPer; c++) {
        const FewSum<kDtype> sum = sum_of_column(v, c);
        if (!sum.value(a, &bits[c]))
            bits[c] = value_by_state(a, data + (first + c) * sizeof(FloatBits<kDtype>));
    }
    store_values(a, first, bits);
}

// At most kRows rows: those that are not there are -0.0.
template <int kDtype, int kPer, int kRows> __global__ void __launch_bounds__(kFewThreads)
    reduce_few_rows(const __grid_constant__ FinishArgs a, const u8 *data)
{
    constexpr u64 kBytes = sizeof(FloatBits<kDtype>);
    constexpr int kSets = kPer == 1 ? 1 : kLoads / kRows; // of columns
    const bool sums = kPer > 1 && kDtype != RP_F64 && a.spec.op == RP_OP_SUM && a.spec.out == kDtype;
    const u64 columns = a.spec.row_len, rows = a.spec.rows, step = (u64)gridDim.x * kFewThreads * kPer;
    for (u64 first = ((u64)blockIdx.x * kFewThreads + threadIdx.x) * kPer; first < columns; first += step * kSets) {
        FewVector<kDtype, kPer> v[kSets][kRows];
#pragma unroll
        for (int s = 0; s < kSets; s++)
#pragma unroll
            for (int row = 0; row < kRows; row++) {
                v[s][row].clear();
                if (row < rows && first + s * step < columns)
                    v[s][row].load(data + (row * columns + first + s * step) * kBytes);
            }
#pragma unroll
        for (int s = 0; s < kSets; s++) {
            const u64 at = first + s * step;
            if constexpr (kPer > 1 && kDtype != RP_F64)
                if (at < columns && sums && store_exact<kDtype, kPer, kRows>(a, at, v[s]))
                    continue;
            if (at < columns)
                finish_few<kDtype, kPer, kRows>(a, data, at, v[s]);
        }
    }
}

template <int kDtype> FewRowsKernel kernel_of(bool vectors, u64 rows)
{
    constexpr int kPer = 16 / Float<kDtype>::kBytes;
    return !vectors    ? FewRowsKernel{reduce_few_rows<kDtype, 1, kLoads>, 1}
           : rows <= 2 ? FewRowsKernel{reduce_few_rows<kDtype, kPer, 2>, kPer}
           : rows <= 4 ? FewRowsKernel{reduce_few_rows<kDtype, kPer, 4>, kPer}
                       : FewRowsKernel{reduce_few_rows<kDtype, kPer, kLoads>, kPer};
}

} // namespace

FewRowsKernel few_rows_kernel(int dtype, bool vectors, u64 rows)
{
    return dtype == RP_F16    ? kernel_of<RP_F16>(vectors, rows)
           : dtype == RP_BF16 ? kernel_of<RP_BF16>(vectors, rows)
           : dtype == RP_F32  ? kernel_of<RP_F32>(vectors, rows)
                              : kernel_of<RP_F64>(vectors, rows);
}

} // namespace rk
