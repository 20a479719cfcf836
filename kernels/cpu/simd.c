/* The loops over elements. Compiled three times, with -DRK_SIMD=baseline|avx2|avx512 and the flags of that instruction
 * set; run.c picks a table at run time. */
#include "kernels/cpu/loops.h"
#include "kernels/cpu/loops/arrays.h"
#include "kernels/cpu/loops/choice/bits.h"
#include "kernels/cpu/loops/choice/bools.h"
#include "kernels/cpu/loops/choice/chosen_cells.h"
#include "kernels/cpu/loops/choice/column_ends.h"
#include "kernels/cpu/loops/choice/column_places.h"
#include "kernels/cpu/loops/choice/counted_cells.h"
#include "kernels/cpu/loops/choice/placed_cells.h"
#include "kernels/cpu/loops/choice/range_cells.h"
#include "kernels/cpu/loops/columns/compact_mask.h"
#include "kernels/cpu/loops/columns/masked_cells.h"
#include "kernels/cpu/loops/columns/transpose.h"
#include "kernels/cpu/loops/order/between.h"
#include "kernels/cpu/loops/order/edge_counts.h"
#include "kernels/cpu/loops/order/even_bins.h"
#include "kernels/cpu/loops/order/hits.h"
#include "kernels/cpu/loops/order/inside.h"
#include "kernels/cpu/loops/order/key_digits.h"
#include "kernels/cpu/loops/order/lane_words.h"
#include "kernels/cpu/loops/order/sorted_lanes.h"
#include "kernels/cpu/loops/pairs/pair_floats.h"
#include "kernels/cpu/loops/pairs/pair_ints.h"
#include "kernels/cpu/loops/products/near_products.h"
#include "kernels/cpu/loops/products/product_cells.h"
#include "kernels/cpu/loops/products/product_loops.h"
#include "kernels/cpu/loops/products/row_products.h"
#include "kernels/cpu/loops/squares/column_squares.h"
#include "kernels/cpu/loops/sums/bounded_cells.h"
#include "kernels/cpu/loops/sums/chains.h"
#include "kernels/cpu/loops/sums/column_sums.h"
#include "kernels/cpu/loops/sums/total_cells.h"

#define JOIN(a, b) a##b
#define TABLE(simd) JOIN(rk_simd_, simd)
#define TEXT(simd) #simd
#define NAME(simd) TEXT(simd)

/* clang-format off */
#define INTS(F)                                                                 \
    [RP_I8] = F(i8), [RP_U8] = F(u8), [RP_I16] = F(i16), [RP_U16] = F(u16),     \
    [RP_I32] = F(i32), [RP_U32] = F(u32), [RP_I64] = F(i64), [RP_U64] = F(u64)
#define NARROW(F) [RP_F16] = F(f16), [RP_BF16] = F(bf16), [RP_F32] = F(f32)
#define FLOATS(F) NARROW(F), [RP_F64] = F(f64)
#define ALL(F) INTS(F), FLOATS(F)
#define BITS(op)                                                                                \
    [RP_I8] = op##_8, [RP_U8] = op##_8, [RP_I16] = op##_16, [RP_U16] = op##_16,                 \
    [RP_I32] = op##_32, [RP_U32] = op##_32, [RP_I64] = op##_64, [RP_U64] = op##_64

#define SUMS_OF(type) sums_##type
#define PAIRS_OF(type) pairs_##type
#define FLOAT_PAIRS_OF(type) pairs_##type##_##type
#define NEAR_SUM_OF(type) near_sum_##type
#define LEAST_OF(type) choose_least_##type
#define LARGEST_OF(type) choose_largest_##type
#define MAGNITUDE_OF(type) choose_magnitude_##type
#define BOTH_OF(type) choose_both_##type
#define NONZERO_OF(type) nonzero_##type
#define NANS_OF(type) nans_##type
#define PRODUCT_OF(type) product_##type
#define COLUMN_ENDS_OF(type) column_ends_##type
#define COLUMN_PLACES_OF(type) column_places_##type
#define COLUMN_SUMS_OF(type) column_sums_##type

#define CHOSEN_CELLS_OF(type) chosen_cells_##type
#define PLACED_CELLS_OF(type) placed_cells_##type
#define RANGE_CELLS_OF(type) range_cells_##type
#define TOTAL_CELLS_OF(type) total_cells_##type
#define MOMENT_CELLS_OF(type) moment_cells
#define NEAR_PRODUCT_OF(type) near_product_##type
#define PRODUCT_CELLS_OF(type) product_cells_##type
#define ROW_PRODUCT_OF(type) product_of_##type##_fused
#define ROW_INTEGERS_OF(type) product_of_##type
#define LANES_OF(W) {lane_keys_##W, lane_masks_##W, lane_sort_##W, lane_best_##W, lane_elements_##W}
#ifdef PAIRS
#define PAIRED(F) FLOATS(F)
#else
#define PAIRED(F) [RP_F64] = NULL
#endif

const rk_simd TABLE(RK_SIMD) = {
    .name = NAME(RK_SIMD),
    .near_sum = {FLOATS(NEAR_SUM_OF)},
    .near_product = {PAIRED(NEAR_PRODUCT_OF)},
    .pairs = {[RP_BOOL] = pairs_bool, INTS(PAIRS_OF), FLOATS(FLOAT_PAIRS_OF)},
    .pairs_f32_f64 = pairs_f32_f64,
    .chains = {[RP_F32] = chains_f32, [RP_F64] = chains_f64},
    .columns = {FLOATS(COLUMN_SUMS_OF)},
    .column_squares = {FLOATS(COLUMN_SQUARES)},
    .column_ends = {ALL(COLUMN_ENDS_OF)},
    .column_places = {ALL(COLUMN_PLACES_OF)},
    .cells = {
        [RK_CELLS_CHOSEN]  = {[RP_BOOL] = cells_bool, ALL(CHOSEN_CELLS_OF)},
        [RK_CELLS_PLACED]  = {[RP_BOOL] = placed_cells_bool, ALL(PLACED_CELLS_OF)},
        [RK_CELLS_RANGE]   = {ALL(RANGE_CELLS_OF)},
        [RK_CELLS_TOTAL]   = {[RP_BOOL] = cells_bool, ALL(TOTAL_CELLS_OF)},
        [RK_CELLS_COUNTED] = {[RP_BOOL] = cells_bool, BITS(counted_cells), [RP_F16] = counted_cells_f16,
                              [RP_BF16] = counted_cells_f16, [RP_F32] = counted_cells_f32, [RP_F64] = counted_cells_f64},
        [RK_CELLS_PRODUCT] = {[RP_BOOL] = cells_bool, INTS(PRODUCT_CELLS_OF), PAIRED(PRODUCT_CELLS_OF)},
        [RK_CELLS_MOMENTS] = {ALL(MOMENT_CELLS_OF)},
    },
    .kept = masked_cells,
    .row_product = {INTS(ROW_INTEGERS_OF), PAIRED(ROW_PRODUCT_OF)},
    .keep = {keep_8, keep_16, keep_32, keep_64},
    .turn = {turn_8, turn_16, turn_32, turn_64},
    .between = {NULL, between_16, between_32, between_64},
    .inside = {NULL, inside_16, inside_32, inside_64},
    .digits = {digits_8, digits_16, digits_32, digits_64},
    .hits = {hits_8, hits_16, hits_32, hits_64},
    .edge_counts = {NULL, edge_counts_16, edge_counts_32, edge_counts_64},
    .even_counts = {NULL, NULL, even_counts_32, even_counts_64},
    .lanes = {LANES_OF(8), LANES_OF(16), LANES_OF(32), LANES_OF(64)},
    .lane_words = lane_words,
    .reduce = {
        [RP_STATE_SUM32]    = {NARROW(SUMS_OF)},
        [RP_STATE_SUM64]    = {[RP_F64] = sums_f64},
        [RP_STATE_INT]      = {[RP_BOOL] = counted_bool, INTS(SUMS_OF)},
        [RP_STATE_ABS32]    = {NARROW(SUMS_OF)},
        [RP_STATE_ABS64]    = {[RP_F64] = sums_f64},
        [RP_STATE_ABSINT]   = {[RP_BOOL] = counted_bool, INTS(SUMS_OF)},
        [RP_STATE_SQ32]     = {NARROW(SUMS_OF)},
        [RP_STATE_SQ64]     = {[RP_F64] = sums_f64},
        [RP_STATE_SQINT]    = {[RP_BOOL] = counted_bool, INTS(SUMS_OF)},
        [RP_STATE_MOM32]    = {NARROW(SUMS_OF)},
        [RP_STATE_MOM64]    = {[RP_F64] = sums_f64},
        [RP_STATE_MOMINT]   = {[RP_BOOL] = counted_bool, INTS(SUMS_OF)},
        [RP_STATE_STATS32]  = {NARROW(SUMS_OF)},
        [RP_STATE_STATS64]  = {[RP_F64] = sums_f64},
        [RP_STATE_STATSINT] = {[RP_BOOL] = stats_bool, INTS(SUMS_OF)},
        [RP_STATE_MIN]      = {[RP_BOOL] = decided_bool, ALL(LEAST_OF)},
        [RP_STATE_MAX]      = {[RP_BOOL] = decided_bool, ALL(LARGEST_OF)},
        [RP_STATE_ARGMIN]   = {[RP_BOOL] = placed_bool, ALL(LEAST_OF)},
        [RP_STATE_ARGMAX]   = {[RP_BOOL] = placed_bool, ALL(LARGEST_OF)},
        [RP_STATE_NORMINF]  = {[RP_BOOL] = decided_bool, ALL(MAGNITUDE_OF)},
        [RP_STATE_MINMAX]   = {[RP_BOOL] = both_ends_bool, ALL(BOTH_OF)},
        [RP_STATE_COUNT]    = {[RP_BOOL] = counted_bool, ALL(NONZERO_OF)},
        [RP_STATE_NANS]     = {[RP_BOOL] = counted_bool, ALL(NANS_OF)},
        [RP_STATE_PROD]     = {FLOATS(PRODUCT_OF)},
        [RP_STATE_PRODINT]  = {[RP_BOOL] = decided_bool, INTS(PRODUCT_OF)},
        [RP_STATE_AND]      = {[RP_BOOL] = decided_bool, BITS(and)},
        [RP_STATE_OR]       = {[RP_BOOL] = decided_bool, BITS(or)},
        [RP_STATE_XOR]      = {[RP_BOOL] = counted_bool, BITS(xor)},
    },
};
/* clang-format on */
