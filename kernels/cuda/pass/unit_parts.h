/* Units that are compiled in parts, since nvcc takes long over all their kernels at once: what each part gives.
 * ops/choose_part.cu chooses among them. */
#pragma once

#include "kernels/cuda/pass/args.h"

#pragma nv_diag_suppress 177 // what only other parts of the unit use

namespace rk {

// Sums of f32 and f64: rows from this length on have more loads in flight. On an H100 128 MiB take 1 % less, 32 MiB 3 % more.
constexpr u64 kLongRow = 1 << 24;
// ... where means of f64 are left to a launch of their own: below, the last block finishes them
constexpr u64 kLongMean = 1 << 26;

// f64: rows from this length on have larger blocks. On an H100 2 MiB take 1 to 4 % less, shorter ones 1 to 2 % more.
constexpr u64 kMiddleRow = 1 << 18;

enum class PairPart {
    SumF32,
    SumF32Skip,
    LongSumF32,
    SumF64,
    SumF64Skip,
    MiddleSumF64,
    LongSumF64,
    MagnitudesF32,
    MagnitudesF64,
    SumBf16,
    MaskedF32
};
template <PairPart kPart> SegmentKernel pair_part(bool skip, u64 row_len); // sum_twosum.cu

enum class BestPart { Float16, Float16Skip, Float32, Float64, Narrow, Integer }; // the last two: of 1 and 2, of 4 and 8 bytes
template <BestPart kPart> SegmentKernel best_part(int layout, int dtype, bool skip); // minmax_arg.cu
template <BestPart kPart> WalkFn masked_best_part(int layout, bool skip);            // ... NULL: there is none

enum class Moments32Part {
    F16,
    Bf16,
    F32,
    NearF16,
    NearBf16,
    NearF32,
    StatsF16,
    StatsBf16,
    StatsF32,
    BoundedF16,
    BoundedBf16,
    BoundedF32
};
template <Moments32Part kPart>                                                // `of`, `is_long`: Bounded
SegmentKernel moments_f32_part(BoundsOf of, bool is_long, bool large_shared); // moments_f32.cu

enum class Moments64Part { Moments, Near, Stats, Bounded };
template <Moments64Part kPart> SegmentKernel moments_f64_part(BoundsOf of = {}, bool is_long = false); // moments_f64.cu

enum class CountPart { Float, Integer };
template <CountPart kPart> SegmentKernel count_part(int bytes, bool skip); // count.cu

enum class IntPart { OneByte, TwoBytes, FourBytes, EightBytes };
template <IntPart kPart> SegmentKernel moments_int_part(int layout, int dtype); // moments_int.cu

enum class RowPart { F16, Bf16, Moments, Stats, Masked };                           // the last three of f32
template <RowPart kPart> WalkFn row_float_part(int layout, u32 vectors, bool full); // rows_float.cu

// Elements with their weights
enum class PairTypes { F16, Bf16, F32, F32F64, F64 };
constexpr int element_of(PairTypes t)
{
    return t == PairTypes::F16 ? RP_F16 : t == PairTypes::Bf16 ? RP_BF16 : t == PairTypes::F64 ? RP_F64 : RP_F32;
}
constexpr int weight_of(PairTypes t) { return t == PairTypes::F32F64 ? RP_F64 : element_of(t); }
template <PairTypes kTypes> SegmentKernel near_pairs_part(bool mean, bool choose); // pairs_near.cu
template <PairTypes kTypes> SegmentKernel exact_pairs_part();                      // pairs_exact.cu
template <PairTypes kTypes> SegmentFn redo_pairs_part();                           // ... after the first
template <PairTypes kTypes> WalkFn pair_line_part(bool mean, NearShape shape);     // pairs_lines.cu

template <PairTypes kTypes> SegmentKernel near_comoments_part(bool squares, bool choose); // comoments_near.cu
template <PairTypes kTypes> WalkFn comoment_line_part(bool squares, NearShape shape);     // comoments_lines.cu

enum class ComomentPart { Cov, Corr, CovInt, CorrInt };
template <ComomentPart kPart> ComomentKernels comoment_kernels_part(); // comoments_exact.cu

enum class AnyPart { Elements, Pairs };
template <AnyPart kPart> StatesFn walk_states_part(); // lines_any.cu
template <AnyPart kPart> ListedFn walk_listed_part();
template <AnyPart kPart> FinishFn finish_lines_part();

// By element type
template <int kDtype> WalkFn walk_float_part(int layout, WalkShape shape);   // lines_float.cu
template <int kDtype> WalkFn near_line_part(NearShape shape);                // lines_near.cu
template <int kDtype> RowsKernel sum_rows_part(RowShape shape, u64 vectors); // sum_short_lines.cu
template <int kDtype> WalkFn column_float_part(bool squares);                // columns_float.cu
template <int kDtype> WalkFn column_finish_part(int layout);
template <int kDtype> u32 column_words_part(bool squares);
template <int kDtype> SegmentKernel product_part(bool skip); // products_float.cu
template <int kDtype> SegmentFn product_redo_part();

} // namespace rk
