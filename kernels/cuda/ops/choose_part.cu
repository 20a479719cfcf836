// Which part of a unit has a kernel (pass/unit_parts.h); no kernel is here, so this compiles at once. registry.h declares them.
#include <type_traits>

#include "kernels/cuda/ops/registry.h"
#include "kernels/cuda/pass/column_ring.cuh"
#include "kernels/cuda/pass/elements.cuh"
#include "kernels/cuda/pass/unit_parts.h"
#include "kernels/exact/families/comoments.h"

namespace rk {

SegmentKernel sum_few_kernel(int dtype, bool skip, bool mean, u64 row_len)
{
    using Part = PairPart;
    switch (dtype) {
    case RP_BF16:
        return pair_part<Part::SumBf16>(skip, row_len);
    case RP_F32:
        return row_len >= kLongRow ? pair_part<Part::LongSumF32>(skip, row_len)
               : skip              ? pair_part<Part::SumF32Skip>(skip, row_len)
                                   : pair_part<Part::SumF32>(skip, row_len);
    default:
        return row_len >= (mean ? kLongMean : kLongRow) ? pair_part<Part::LongSumF64>(skip, row_len)
               : row_len >= kMiddleRow                  ? pair_part<Part::MiddleSumF64>(skip, row_len)
               : skip                                   ? pair_part<Part::SumF64Skip>(skip, row_len)
                                                        : pair_part<Part::SumF64>(skip, row_len);
    }
}

SegmentKernel magnitudes_few_kernel(int dtype, bool skip, u64 row_len)
{
    return dtype == RP_F32 ? pair_part<PairPart::MagnitudesF32>(skip, row_len)
                           : pair_part<PairPart::MagnitudesF64>(skip, row_len);
}

SegmentKernel masked_sum_kernel(int layout, int dtype, bool skip)
{
    return dtype == RP_F32 && layout == RP_STATE_SUM32 ? pair_part<PairPart::MaskedF32>(skip, 0) : SegmentKernel{};
}

StatesFn walk_states_kernel(bool paired)
{
    return paired ? walk_states_part<AnyPart::Pairs>() : walk_states_part<AnyPart::Elements>();
}

ListedFn walk_listed_kernel(bool paired)
{
    return paired ? walk_listed_part<AnyPart::Pairs>() : walk_listed_part<AnyPart::Elements>();
}

FinishFn finish_lines_kernel(bool paired)
{
    return paired ? finish_lines_part<AnyPart::Pairs>() : finish_lines_part<AnyPart::Elements>();
}

namespace {

PairTypes pair_types(int dtype, int weights)
{
    return dtype == RP_F16    ? PairTypes::F16
           : dtype == RP_BF16 ? PairTypes::Bf16
           : dtype == RP_F64  ? PairTypes::F64
           : weights == dtype ? PairTypes::F32
                              : PairTypes::F32F64;
}

// f of the types as a constant
template <class F> auto by_pair_types(int dtype, int weights, F f)
{
    switch (pair_types(dtype, weights)) {
    case PairTypes::F16:
        return f(std::integral_constant<PairTypes, PairTypes::F16>());
    case PairTypes::Bf16:
        return f(std::integral_constant<PairTypes, PairTypes::Bf16>());
    case PairTypes::F32:
        return f(std::integral_constant<PairTypes, PairTypes::F32>());
    case PairTypes::F32F64:
        return f(std::integral_constant<PairTypes, PairTypes::F32F64>());
    default:
        return f(std::integral_constant<PairTypes, PairTypes::F64>());
    }
}

} // namespace

SegmentKernel near_pairs_kernel(int dtype, int weights, bool mean, bool choose)
{
    return by_pair_types(dtype, weights, [=](auto t) { return near_pairs_part<t()>(mean, choose); });
}

WalkFn near_pair_kernel(int dtype, int weights, bool mean, NearShape shape)
{
    return by_pair_types(dtype, weights, [=](auto t) { return pair_line_part<t()>(mean, shape); });
}

SegmentKernel exact_pairs_kernel(int dtype, int weights)
{
    return by_pair_types(dtype, weights, [](auto t) { return exact_pairs_part<t()>(); });
}

SegmentFn redo_pairs_kernel(int dtype, int weights)
{
    return by_pair_types(dtype, weights, [](auto t) { return redo_pairs_part<t()>(); });
}

SegmentKernel near_comoments_kernel(int dtype, int weights, bool squares, bool choose)
{
    return by_pair_types(dtype, weights, [=](auto t) { return near_comoments_part<t()>(squares, choose); });
}

WalkFn near_comoment_kernel(int dtype, int weights, bool squares, NearShape shape)
{
    return by_pair_types(dtype, weights, [=](auto t) { return comoment_line_part<t()>(squares, shape); });
}

ComomentKernels comoment_kernels(int layout, int dtype)
{
    using Part = ComomentPart;
    const bool squares = rk_has_squares(layout);
    if (rk_is_float(dtype))
        return squares ? comoment_kernels_part<Part::Corr>() : comoment_kernels_part<Part::Cov>();
    return squares ? comoment_kernels_part<Part::CorrInt>() : comoment_kernels_part<Part::CovInt>();
}

SegmentKernel best_kernel(int layout, int dtype, bool skip)
{
    using Part = BestPart;
    const int bytes = rk_bytes(dtype);
    if (!rk_is_float(dtype))
        return bytes < 4 ? best_part<Part::Narrow>(layout, dtype, skip) : best_part<Part::Integer>(layout, dtype, skip);
    if (bytes == 2)
        return skip && layout != RP_STATE_NORMINF ? best_part<Part::Float16Skip>(layout, dtype, skip)
                                                  : best_part<Part::Float16>(layout, dtype, skip);
    return bytes == 4 ? best_part<Part::Float32>(layout, dtype, skip) : best_part<Part::Float64>(layout, dtype, skip);
}

WalkFn masked_best_kernel(int layout, int dtype, bool skip)
{
    if (layout != RP_STATE_MIN && layout != RP_STATE_MAX && layout != RP_STATE_ARGMIN && layout != RP_STATE_ARGMAX)
        return NULL;
    if (rk_bytes(dtype) != 4)
        return NULL;
    return rk_is_float(dtype) ? masked_best_part<BestPart::Float32>(layout, skip)
                              : masked_best_part<BestPart::Integer>(layout, skip);
}

SegmentKernel count_kernel(int dtype, bool skip)
{
    return rk_is_float(dtype) ? count_part<CountPart::Float>(rk_bytes(dtype), skip)
                              : count_part<CountPart::Integer>(rk_bytes(dtype), skip);
}

namespace {

// The part of this element type
template <Moments32Part kF16, Moments32Part kBf16, Moments32Part kF32>
SegmentKernel moments_f32_of(int dtype, bool large_shared, BoundsOf of = {}, bool is_long = false)
{
    return dtype == RP_F16    ? moments_f32_part<kF16>(of, is_long, large_shared)
           : dtype == RP_BF16 ? moments_f32_part<kBf16>(of, is_long, large_shared)
                              : moments_f32_part<kF32>(of, is_long, large_shared);
}

} // namespace

SegmentKernel moments_f32_kernel(int dtype, bool stats, bool near, bool large_shared)
{
    using Part = Moments32Part;
    return stats  ? moments_f32_of<Part::StatsF16, Part::StatsBf16, Part::StatsF32>(dtype, large_shared)
           : near ? moments_f32_of<Part::NearF16, Part::NearBf16, Part::NearF32>(dtype, large_shared)
                  : moments_f32_of<Part::F16, Part::Bf16, Part::F32>(dtype, large_shared);
}

SegmentKernel bounded_f32_kernel(int dtype, BoundsOf of, bool is_long, bool large_shared)
{
    using Part = Moments32Part;
    return moments_f32_of<Part::BoundedF16, Part::BoundedBf16, Part::BoundedF32>(dtype, large_shared, of, is_long);
}

SegmentKernel bounded_f64_kernel(BoundsOf of, bool is_long) { return moments_f64_part<Moments64Part::Bounded>(of, is_long); }

SegmentKernel moments_f64_kernel(bool stats, bool near)
{
    using Part = Moments64Part;
    return stats ? moments_f64_part<Part::Stats>() : near ? moments_f64_part<Part::Near>() : moments_f64_part<Part::Moments>();
}

SegmentKernel moments_int_kernel(int layout, int dtype)
{
    if (layout == RP_STATE_ABSINT && !rk_is_signed(dtype))
        return sum_int_kernel(dtype);
    const int bytes = rk_bytes(dtype);
    return bytes == 1   ? moments_int_part<IntPart::OneByte>(layout, dtype)
           : bytes == 2 ? moments_int_part<IntPart::TwoBytes>(layout, dtype)
           : bytes == 4 ? moments_int_part<IntPart::FourBytes>(layout, dtype)
                        : moments_int_part<IntPart::EightBytes>(layout, dtype);
}

RowsKernel sum_rows_kernel(int dtype, RowShape shape, u64 vectors)
{
    switch (dtype) {
    case RP_F16:
        return sum_rows_part<RP_F16>(shape, vectors);
    case RP_BF16:
        return sum_rows_part<RP_BF16>(shape, vectors);
    case RP_F32:
        return sum_rows_part<RP_F32>(shape, vectors);
    default:
        return sum_rows_part<RP_F64>(shape, vectors);
    }
}

WalkFn walk_float_kernel(int layout, int dtype, WalkShape shape)
{
    switch (dtype) {
    case RP_F16:
        return walk_float_part<RP_F16>(layout, shape);
    case RP_BF16:
        return walk_float_part<RP_BF16>(layout, shape);
    case RP_F32:
        return walk_float_part<RP_F32>(layout, shape);
    default:
        return walk_float_part<RP_F64>(layout, shape);
    }
}

WalkFn near_line_kernel(int layout, int dtype, NearShape shape)
{
    if (!rk_square_limbs(layout) || rk_is_stats(layout))
        return NULL;
    switch (dtype) {
    case RP_F16:
        return near_line_part<RP_F16>(shape);
    case RP_BF16:
        return near_line_part<RP_BF16>(shape);
    case RP_F32:
        return near_line_part<RP_F32>(shape);
    default:
        return near_line_part<RP_F64>(shape);
    }
}

WalkFn row_float_kernel(int layout, int dtype, u32 vectors, bool full, bool mask)
{
    const bool stats = rk_is_stats(layout), squares = rk_square_limbs(layout) && !stats;
    if (dtype == RP_F16 || dtype == RP_BF16) {
        return !squares || mask  ? NULL
               : dtype == RP_F16 ? row_float_part<RowPart::F16>(layout, vectors, full)
                                 : row_float_part<RowPart::Bf16>(layout, vectors, full);
    }
    if (dtype != RP_F32)
        return NULL;
    if (mask)
        return squares || (!stats && !rk_is_abs(layout)) ? row_float_part<RowPart::Masked>(layout, vectors, full) : NULL;
    return stats     ? row_float_part<RowPart::Stats>(layout, vectors, full)
           : squares ? row_float_part<RowPart::Moments>(layout, vectors, full)
                     : NULL;
}

WalkFn column_float_kernel(int layout, int dtype, bool values)
{
    const bool squares = rk_square_limbs(layout);
    if (rk_is_stats(layout) || (dtype == RP_F64 && squares && !values)) // two doubles seldom hold squares of f64
        return NULL;
    switch (dtype) {
    case RP_F16:
        return column_float_part<RP_F16>(squares);
    case RP_BF16:
        return column_float_part<RP_BF16>(squares);
    case RP_F32:
        return column_float_part<RP_F32>(squares);
    default:
        return column_float_part<RP_F64>(squares);
    }
}

WalkFn column_finish_kernel(int layout, int dtype)
{
    return dtype == RP_F64 ? column_finish_part<RP_F64>(layout) : column_finish_part<RP_F32>(layout);
}

u32 column_pair_words(int layout) { return column_words_part<RP_F32>(rk_square_limbs(layout)); }

size_t column_shared_bytes(int layout, int dtype)
{
    return kRingBytes + column_pair_words(layout) * (16 / rk_bytes(dtype)) * kColumnThreads * sizeof(u64);
}

SegmentKernel product_kernel(int dtype, bool skip)
{
    switch (dtype) {
    case RP_F16:
        return product_part<RP_F16>(skip);
    case RP_BF16:
        return product_part<RP_BF16>(skip);
    case RP_F32:
        return product_part<RP_F32>(skip);
    default:
        return product_part<RP_F64>(skip);
    }
}

SegmentFn product_redo_kernel(int dtype)
{
    switch (dtype) {
    case RP_F16:
        return product_redo_part<RP_F16>();
    case RP_BF16:
        return product_redo_part<RP_BF16>();
    case RP_F32:
        return product_redo_part<RP_F32>();
    default:
        return product_redo_part<RP_F64>();
    }
}

} // namespace rk
