// Every kernel that a launch may pick, one function a family; launch/routes.cu says which is taken when. Files of ops/ that
// call none of these do not include it, so that a new kernel does not recompile them: a wrong declaration fails to link.
#pragma once

#include "kernels/cuda/pass/args.h"

namespace rk {

// ---- whole rows, and their lines (kernel.walk) ----

// By element type, and `skip`: NaNs are left out and counted
SegmentKernel sum_float_kernel(int dtype, bool skip);                                  // sum_bins.cu: f16 bf16 f32
SegmentKernel sum_few_kernel(int dtype, bool skip, bool mean, u64 row_len);            // sum_twosum.cu: bf16 f32 f64
SegmentKernel magnitudes_few_kernel(int dtype, bool skip, u64 row_len);                // ... f32 f64
SegmentKernel sum_f64_kernel(bool skip, bool large_shared);                            // sum_digits.cu
SegmentKernel sum_int_kernel(int dtype);                                               // sum_int.cu
SegmentKernel best_kernel(int layout, int dtype, bool skip);                           // minmax_arg.cu
SegmentKernel count_kernel(int dtype, bool skip);                                      // count.cu
SegmentKernel moments_int_kernel(int layout, int dtype);                               // moments_int.cu
SegmentKernel minmax_kernel(int dtype);                                                // minmax.cu
SegmentKernel bits_kernel(int layout, int dtype);                                      // bits.cu
SegmentKernel moments_f64_kernel(bool stats, bool near);                               // moments_f64.cu
SegmentKernel moments_f32_kernel(int dtype, bool stats, bool near, bool large_shared); // moments_f32.cu: f16 bf16 f32
// Values of f32 or less, of f16 bf16 f32, by two bounds: all rows are finished. is_long: no spread; then, and of .list, what is
// in doubt is noted (FinishArgs.doubts).
SegmentKernel bounded_f32_kernel(int dtype, BoundsOf of, bool is_long, bool large_shared); // moments_f32.cu
SegmentKernel bounded_f64_kernel(BoundsOf of, bool is_long);                               // moments_f64.cu: no sums, no list
SegmentKernel prod_kernel(int dtype);                                                      // lines_product.cu

// Products of floats: `fn` finishes all rows, and product_redo_kernel, launched behind it, those whose rounding is not certain.
// Its blocks are as large, and its grid is as high.
SegmentKernel product_kernel(int dtype, bool skip); // products_float.cu
SegmentFn product_redo_kernel(int dtype);           // products_float.cu

// Sums of products of floats with weights of that type, and weighted means. near_pairs: values, with redo_pairs_kernel behind
// it as above, but on its grid; `choose`: with a mask, or pairs may be left out. exact_pairs: states and values; a row's last
// block finishes it.
SegmentKernel near_pairs_kernel(int dtype, int weights, bool mean, bool choose); // pairs_near.cu
SegmentKernel exact_pairs_kernel(int dtype, int weights);                        // pairs_exact.cu
SegmentFn redo_pairs_kernel(int dtype, int weights);                             // pairs_exact.cu

// Covariances and correlations (`squares`): as near_pairs_kernel, with the redo of comoment_kernels behind it.
SegmentKernel near_comoments_kernel(int dtype, int weights, bool squares, bool choose); // comoments_near.cu
ComomentKernels comoment_kernels(int layout, int dtype);                                // comoments_exact.cu

// ---- lines ----

// Sums of floats, of magnitudes and squares too, and stats. Where w.values, the lines whose values are not certain are listed
// instead of partials: their number, then which.
WalkFn walk_float_kernel(int layout, int dtype, WalkShape shape); // lines_float.cu

// Lines of one team, to values or listed as above: sums of squares, var. NULL: there is none. kNearBlock has kColumnThreads
// threads.
WalkFn near_line_kernel(int layout, int dtype, NearShape shape);             // lines_near.cu
WalkFn near_product_kernel(int dtype, NearShape shape);                      // products_near.cu: products, the same
WalkFn near_pair_kernel(int dtype, int weights, bool mean, NearShape shape); // pairs_lines.cu: pairs, to values of any type

WalkFn near_comoment_kernel(int dtype, int weights, bool squares, NearShape shape); // comoments_lines.cu: the same

// Columns of floats by vectors, as above: sums, also of squares. `values`: states are not asked for. NULL: there is none.
WalkFn column_float_kernel(int layout, int dtype, bool values); // columns_float.cu
size_t column_shared_bytes(int layout, int dtype);              // ... its dynamic shared memory

// Columns of few rows, whole ones by a thread: sums, also of squares, min, max. `planes`: of at most kPlaneRows rows of at most
// kPlaneVectors vectors; dynamic shared memory: plane_shared_bytes. As above, but beyond kMostListed lines are marked; so do
// column_float_kernel's. w.values. NULL: there is none.
WalkFn whole_columns_kernel(int layout, int dtype, bool skip, bool planes); // columns_whole.cu
size_t plane_shared_bytes(u64 rows);                                        // columns_whole.cu

// Sums and means of columns of few rows (has_few_rows), `per` columns a thread at once. `vectors`: rows, data and cells are
// whole vectors of 16 bytes.
constexpr int kFewThreads = 128;
struct FewRowsKernel {
    void (*fn)(FinishArgs, const u8 *data);
    u64 per;
};
FewRowsKernel few_rows_kernel(int dtype, bool vectors, u64 rows); // columns_few.cu

// Where those have several teams and values are made, partials are of column_pair_words words, and this joins them: a block for
// w.width columns, at most a warp.
WalkFn column_finish_kernel(int layout, int dtype); // columns_float.cu
u32 column_pair_words(int layout);                  // columns_float.cu

// Long rows with a mask, by vectors: min, max, argmin, argmax of elements of 4 bytes. NULL: there is none.
WalkFn masked_best_kernel(int layout, int dtype, bool skip); // minmax_arg.cu

// ... and sums of f32, by blocks. fn is NULL if there is none.
SegmentKernel masked_sum_kernel(int layout, int dtype, bool skip); // sum_twosum.cu

// Equal rows of f32, a thread a row: of 2 elements, or of whole vectors of 16 bytes to 32 elements. Sums of squares, var,
// stats; w.values, and w.turns are the rows of a thread. NULL: there is none.
WalkFn thread_row_kernel(int layout, int dtype, u64 row_len); // rows_thread.cu

// Equal rows of up to 2^10 f32, in whole vectors of 16 bytes. `vectors` are a lane's (0: half of one); with `full` every lane
// has as many. Sums of squares, var, stats but of half a vector, and with a mask sums, too; w.values. NULL: there is none.
WalkFn row_float_kernel(int layout, int dtype, u32 vectors, bool full, bool mask); // rows_float.cu

// The same of elements of 4 bytes: min, max, argmin, argmax, NaNs not left out. w.values.
WalkFn best_thread_row_kernel(int layout, int dtype, u64 row_len);     // rows_best.cu: as thread_row_kernel
WalkFn best_row_kernel(int layout, int dtype, u32 vectors, bool mask); // rows_best.cu: as row_float_kernel

// Lines of one float sum: f16 bf16 f32 f64. `vectors`: of a row of whole vectors of 16 bytes
RowsKernel sum_rows_kernel(int dtype, RowShape shape, u64 vectors); // sum_short_lines.cu

// The general way, for every layout: each thread has a state in shared memory and adds by the definitions of
// kernels/exact/state.h. Dynamic shared memory: state_words words a thread.
StatesFn walk_states_kernel(bool paired); // lines_any.cu; `again`: only where a partial has kFlagLost
ListedFn walk_listed_kernel(bool paired); // lines_any.cu; lines of one team, listed as above, to their values

// Last step where a line has one partial: a thread finishes a line. Of its state_words words those from scratch_at on are
// finish's scratch.
FinishFn finish_lines_kernel(bool paired); // lines_any.cu

} // namespace rk
