// The table of routes.
#include "kernels/cuda/launch/routes.h"

namespace rk {
namespace {

// In this order. `takes` and `kernels` are for .docs/routes.md, which `make routes` writes. "Light" values are made from the
// words of a partial (is_light): sums, min, max, argmin, argmax, count_nonzero.
const Route kRoutes[] = {
    {"selection", "median, quantile, kth, largest, smallest, histogram",
     "select_rows.cu, select_long.cu: ranks; top_rows.cu, top_long.cu, top_sort.cu: the best; bins_count.cu; select_gather.cu",
     fits_selection, launch_selection},
    {"runs", "rows in runs of several planes", "those of a first pass, by a route below; run_states.cuh, merge.cuh", fits_runs,
     launch_runs},
    {"states", "partial states", "merge.cuh", fits_states, launch_states},
    {"few rows", "sum, mean: columns of at most 8 rows of floats, to values of f32 or narrower, or of f64",
     "columns_few.cu: a thread has columns", fits_few_rows, launch_few_rows},
    {"tiles", "aligned rows of 16 bytes to a tile that suit blocks: light values, means, and norms and var by bounds",
     "tile.cuh, bounded_rows.cuh: a block a row", fits_tiles, launch_tiles},
    {"blocks", "rows that are long, few, or many tiles together",
     "segment.cuh, bounded_rows.cuh, near_rows.cuh, near_pair_rows.cuh, products_float.cu: blocks share a row; or merge.cuh",
     fits_blocks, launch_blocks},
    {"short sums", "sum, mean, norm1 of many rows and segments, of any length that a warp may take",
     "sum_short_lines.cu: a line has lanes of a warp, or one", fits_short_sums, launch_short_sums},
    {"thread rows", "rows of 8 to 128 bytes: f32 var, norms, stats; 32 bits min, max, argmin, argmax",
     "rows_thread.cu, rows_best.cu: a thread a row", fits_thread_rows, launch_thread_rows},
    {"lane rows", "rows of whole vectors up to 4 KiB: the same, also masked; f16, bf16 var, norms; masked sums of f32",
     "rows_float.cu, rows_best.cu: a row stays in the registers of its lanes", fits_lane_rows, launch_lane_rows},
    {"masked blocks", "sums of long masked rows of f32", "sum_twosum.cu: as blocks", fits_masked_blocks, launch_masked_blocks},
    {"masked rows", "min, max, argmin, argmax of long masked rows of 32 bits", "masked.cuh: blocks by vectors",
     fits_masked_rows, launch_masked_rows},
    {"near blocks", "var, norms, products, pairs: many rows and segments of 32 KiB or more", "walk_near.cuh: a block a line",
     fits_near_blocks, launch_near_blocks},
    {"rows beside", "pairs of floats: many rows of whole vectors with one row of weights, none left out",
     "walk_pairs.cuh: lanes take four rows together", fits_rows_beside, launch_rows_beside},
    {"near lines", "var, norms, products, pairs: many other rows and segments", "walk_near.cuh: a line has lanes of a warp",
     fits_near_lines, launch_near_lines},
    {"planes", "f32 sums, norms, var, min, max: columns of narrow planes", "columns_whole.cu: by shared memory", fits_planes,
     launch_planes},
    {"whole columns", "f32 sums, norms, var, min, max: many columns of few rows", "columns_whole.cu: a thread has columns",
     fits_whole_columns, launch_whole_columns},
    {"ring", "float sums but stats: long columns of whole vectors", "columns_float.cu: rows come ahead to shared memory",
     fits_ring, launch_ring},
    {"near columns", "var, norms, products, pairs: many other columns", "walk_columns.cuh", fits_near_columns,
     launch_near_columns},
    {"vector columns", "other values than float sums: columns of whole vectors", "column_vectors.cuh", fits_vector_columns,
     launch_vector_columns},
    {"float columns", "float sums: all other columns",
     "lines_float.cu: walk_columns; lines_any.cu for what doubles do not hold", fits_float_columns, launch_float_columns},
    {"float lines", "float sums: all other rows and segments",
     "lines_float.cu: walk_floats, by vectors if lines are long; lines_any.cu for what doubles do not hold", fits_float_lines,
     launch_float_lines},
    {"lines", "all else that has a walker", "lines.cuh: walk_lines of the operation", fits_lines, launch_lines},
    {"comoments", "cov, corr: states, integers, few lines but those of blocks", "comoments_exact.cu: blocks share a line",
     fits_comoments, launch_comoments},
    {"any", "everything: float sums where doubles are slow or not wanted; other pairs", "lines_any.cu: walk_states", fits_any,
     launch_any},
};

} // namespace

cudaError_t take_route(Device *d, const ChainTask &t, Memory memory, cudaStream_t stream, const char **route)
{
    const Asked q = ask(d, t, memory, stream, route, take_route);
    *route = "none"; // of no line
    if (q.lines == 0)
        return cudaSuccess;
    for (const Route &r : kRoutes) {
        WalkFn fn = NULL;
        if (!r.fits(q, &fn))
            continue;
        *route = r.name; // a route that takes another one for its elements leaves that one's name
        return r.launch(q, fn);
    }
    return cudaErrorNotSupported; // not reached: the last route takes everything
}

} // namespace rk
