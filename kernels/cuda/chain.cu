#include "kernels/cuda/chain.cuh"

#include "kernels/cuda/merge.cuh"
#include "kernels/cuda/rows.cuh"

namespace rk {
namespace {

u64 div_up(u64 a, u64 b) { return (a + b - 1) / b; }

// Where partials go: pass 1 writes `a`; a middle pass leaves at most a 50th of them in `b` (a block joins at least half
// of fan_in_words / kMaxWords partials), and the next one comes back to `a`.
struct Scratch {
    u64 *a, *b;
    u64 words; // of `a`
};

constexpr u64 kScratchParts = 32; // `b` is one part of so many

Scratch scratch_of(void *memory, size_t bytes)
{
    u64 words = bytes / sizeof(u64), b = words / kScratchParts;
    return {(u64 *)memory, (u64 *)memory + (words - b), words - b};
}

bool skips_nans(const rp_spec &s) { return s.nan != RP_NAN_PROPAGATE; }

FinishArgs finish_args(const ChainTask &t)
{
    const rp_spec &s = t.spec;
    FinishArgs a = {};
    a.layout = (u8)rp_state_layout(s.op, s.dtype);
    a.dtype = s.dtype;
    a.nan = s.nan;
    a.out = s.out;
    a.states_out = s.flags & RP_STATES_OUT;
    a.least = s.op == RP_OP_MIN || s.op == RP_OP_ARGMIN;
    a.cell_bytes = (u32)rp_cell_size(&s);
    a.cells = t.cells;
    a.fault = t.fault;
    switch (a.layout) {
    case RP_STATE_SUM32:
    case RP_STATE_SUM64:
    case RP_STATE_INT:
        a.words = 2 * rk_limbs(a.layout) + kTailWords;
        break;
    case RP_STATE_COUNT:
        a.words = 1 + kTailWords;
        break;
    default:
        a.words = 2 + kTailWords;
    }
    return a;
}

SegmentKernel pick_kernel(const Device *d, const rp_spec &s)
{
    bool skip = skips_nans(s);
    switch (s.op) {
    case RP_OP_MIN:
    case RP_OP_MAX:
        return best_kernel(s.dtype, skip, false);
    case RP_OP_ARGMIN:
    case RP_OP_ARGMAX:
        return best_kernel(s.dtype, skip, true);
    case RP_OP_COUNT_NONZERO:
        return count_kernel(s.dtype, skip);
    default:
        if (!rk_is_float(s.dtype))
            return sum_int_kernel(s.dtype);
        if (s.dtype == RP_F64)
            return sum_f64_kernel(skip, d->shared_per_block, s.row_len >= kTuning.long_f64_row);
        return sum_float_kernel(s.dtype, skip);
    }
}

SegmentArgs segment_args(const ChainTask &t, const FinishArgs &a)
{
    const rp_spec &s = t.spec;
    SegmentArgs g = {};
    int bytes = rk_bytes(s.dtype);
    g.data = (const unsigned char *)t.data;
    g.rows = s.rows;
    g.row_len = s.row_len;
    g.first_index = s.index_base + t.base;
    g.element_log2 = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
    u64 mask = bytes == 8 ? ~0ull : (1ull << (8 * bytes)) - 1, sign = 1ull << (8 * bytes - 1);
    g.rank_flip = (rk_is_signed(s.dtype) ? sign : 0) ^ (a.least ? mask : 0);
    g.inf_bits = rk_is_float(s.dtype) ? rk_inf_bits(rk_format_of(s.dtype)) : 0;
    return g;
}

// Launch that may overlap the tail of the kernel before it, where the device can.
template <class... Params, class... Args>
cudaError_t launch_after(const Device *d, void (*fn)(Params...), dim3 grid, int threads, size_t shared,
                         cudaStream_t stream, Args... args)
{
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = d->overlapped_launch ? 1 : 0;
    return cudaLaunchKernelEx(&config, fn, args...);
}

// Threads for joining n partials: enough that each takes about eight words, whole warps.
int merge_threads(u64 n, u32 words)
{
    u64 want = div_up(n * words / 8 + 1, kWarp) * kWarp, least = div_up(words, kWarp) * kWarp;
    return (int)(want < least ? least : want > kMergeThreads ? kMergeThreads : want);
}

// Relaunch on the partials until one block a row can take the rest, which it also finishes.
cudaError_t merge_rows(const Device *d, const FinishArgs &a, Scratch s, u64 rows, u64 per_row, u64 first_row,
                       cudaStream_t stream)
{
    const u64 fan_in = kTuning.fan_in_words / a.words;
    while (per_row > fan_in) {
        u64 blocks = div_up(per_row, fan_in), share = div_up(per_row, blocks);
        int threads = merge_threads(share, a.words);
        TRY_CUDA(launch_after(d, merge_partials, dim3((u32)blocks, (u32)(rows < 65535 ? rows : 65535)), threads,
                              threads * sizeof(u64), stream, a, (const u64 *)s.a, rows, per_row, share, s.b));
        u64 *swap = s.a;
        s.a = s.b;
        s.b = swap;
        per_row = blocks;
    }
    int threads = merge_threads(per_row, a.words);
    u64 grid = rows < 65535 ? rows : 65535;
    return launch_after(d, merge_and_finish, dim3((u32)grid), threads, threads * sizeof(u64), stream, a,
                        (const u64 *)s.a, rows, per_row, first_row);
}

cudaError_t launch_short_rows(const Device *d, const ChainTask &t, const FinishArgs &a, cudaStream_t stream)
{
    RowArgs r = {(const unsigned char *)t.data, t.spec.rows, t.spec.row_len, t.spec.index_base + t.base,
                 skips_nans(t.spec)};
    bool digits = a.layout == RP_STATE_SUM32 || a.layout == RP_STATE_SUM64;
    size_t shared = digits ? sizeof(i64) * 2 * rk_limbs(a.layout) * kRowThreads : 0;
    u64 blocks = div_up(t.spec.rows, kRowThreads), most = (u64)d->sms * 32;
    reduce_rows<<<(u32)(blocks < most ? blocks : most), kRowThreads, shared, stream>>>(a, r);
    return cudaGetLastError();
}

// Blocks for one row: fill the device with all rows, no block without a tile, no thread beyond what it may add exactly.
u64 blocks_per_row(const Device *d, const SegmentKernel &k, int blocks_per_sm, const SegmentArgs &g)
{
    u64 per_vector = 16u >> g.element_log2, tile = (u64)k.threads * k.unroll * per_vector;
    u64 tiles = g.row_len / tile, fill = (u64)d->sms * blocks_per_sm * kTuning.waves / g.rows;
    u64 blocks = fill < tiles ? fill : tiles;
    // a thread of the last block also gets the rest of the row: less than another tile, and two odd elements
    u64 tiles_each = k.max_per_thread / (k.unroll * per_vector) - 2, need = div_up(tiles, tiles_each);
    blocks = blocks > need ? blocks : need;
    return blocks ? blocks : 1;
}

cudaError_t launch_segments(Device *d, const ChainTask &t, const FinishArgs &a, Scratch s, cudaStream_t stream)
{
    SegmentKernel k = pick_kernel(d, t.spec);
    SegmentArgs all = segment_args(t, a);
    int blocks_per_sm;
    TRY_CUDA(device_blocks_per_sm(d, k, &blocks_per_sm));
    u64 per_row = blocks_per_row(d, k, blocks_per_sm, all);
    u64 batch = per_row > 1 ? s.words / (per_row * a.words) : all.rows; // one block a row leaves no partial
    if (batch == 0)
        return cudaErrorMemoryAllocation;
    for (u64 first = 0; first < all.rows; first += batch) {
        SegmentArgs g = all;
        g.rows = all.rows - first < batch ? all.rows - first : batch;
        g.data += (first * g.row_len) << g.element_log2;
        dim3 grid((u32)per_row, (u32)(g.rows < 65535 ? g.rows : 65535));
        g.first_row = first;
        k.fn<<<grid, k.threads, k.shared_bytes, stream>>>(g, a, s.a);
        TRY_CUDA(cudaGetLastError());
        if (per_row > 1)
            TRY_CUDA(merge_rows(d, a, s, g.rows, per_row, first, stream));
    }
    return cudaSuccess;
}

cudaError_t launch_states(const Device *d, const ChainTask &t, const FinishArgs &a, Scratch s, cudaStream_t stream)
{
    const u32 state_words = (u32)rp_state_size(a.layout) / 8;
    const u64 per_row = t.spec.row_len;
    u64 batch = per_row ? s.words / (per_row * a.words) : t.spec.rows;
    if (batch == 0)
        return cudaErrorMemoryAllocation;
    for (u64 first = 0; first < t.spec.rows; first += batch) {
        u64 rows = t.spec.rows - first < batch ? t.spec.rows - first : batch, n = rows * per_row;
        const u64 *states = (const u64 *)t.data + first * per_row * state_words;
        if (n)
            unpack_states<<<(u32)div_up(n * a.words, 256), 256, 0, stream>>>(a, states, n, state_words, s.a);
        TRY_CUDA(cudaGetLastError());
        TRY_CUDA(merge_rows(d, a, s, rows, per_row, first, stream));
    }
    return cudaSuccess;
}

} // namespace

// One message's worth of states in one row, and a little more for the middle pass.
size_t chain_scratch_bytes()
{
    u64 most = 0;
    for (int layout = RP_STATE_SUM32; layout <= RP_STATE_COUNT; layout++)
        if (rp_state_size(layout)) {
            u64 words = layout <= RP_STATE_INT ? 2 * rk_limbs(layout) + kTailWords : 4;
            u64 bytes = RP_MAX_DATA / rp_state_size(layout) * words * sizeof(u64);
            most = bytes > most ? bytes : most;
        }
    return most + most / (kScratchParts - 2);
}

cudaError_t chain_launch(Device *d, const ChainTask &t, void *scratch, size_t scratch_bytes, cudaStream_t stream)
{
    const rp_spec &spec = t.spec;
    FinishArgs a = finish_args(t);
    Scratch s = scratch_of(scratch, scratch_bytes);
    if (spec.flags & RP_STATES_IN)
        return launch_states(d, t, a, s, stream);
    if (spec.row_len == 0 || (spec.row_len <= kTuning.short_row && spec.rows >= kTuning.short_rows_min))
        return launch_short_rows(d, t, a, stream);
    return launch_segments(d, t, a, s, stream);
}

} // namespace rk
