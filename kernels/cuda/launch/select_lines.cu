// How many launches a selection takes, and how large they are.
#include "kernels/cuda/launch/select_lines.h"

#include <cmath>

namespace rk {
namespace {

constexpr u64 kLinesAtOnce = 65535; // blocks along a grid's y
constexpr u64 kAlign = 256;

SelectKernels kernels_of(int dtype)
{
    SelectKernels k;
    switch (rk_bytes(dtype)) {
    case 1:
        select_long_part<1>(&k), select_rows_part<1>(&k);
        break;
    case 2:
        select_long_part<2>(&k), select_rows_part<2>(&k);
        break;
    case 4:
        select_long_part<4>(&k), select_rows_part<4>(&k);
        break;
    default:
        select_long_part<8>(&k), select_rows_part<8>(&k);
    }
    return k;
}

u64 key_bytes(const SelectTask &t) { return rk_bytes(t.dtype) == 8 ? 8 : 4; }
bool is_long(const SelectTask &t) { return !is_short(t); }
u64 least(u64 a, u64 b) { return a < b ? a : b; }
u64 most(u64 a, u64 b) { return a < b ? b : a; }
u32 pairs_at_once(const SelectTask &t) { return (u32)least(t.pairs, kMostPairs); }

// Elements of an interval that are worth collecting
u32 most_collected(const SelectTask &t) { return (u32)least(kCollected, most(1024, t.n / 16)); }

u64 line_scratch(const SelectTask &t, u64 room)
{
    return sizeof(SelectState) + 2 * pairs_at_once(t) * (kBins * sizeof(u64) + most_collected(t) * key_bytes(t)) +
           room * key_bytes(t);
}

// Brackets of the middle have 4.5 standard deviations of a sample on either side, 5.2 % of the elements; those of many samples'
// middle one 0.8 %. Others are narrower.
u64 good_room(const SelectTask &t) { return most(kSelectLeastRoom, least(t.n, t.n / 16 * pairs_at_once(t))); }

SelectArgs args_of(const SelectTask &t, u32 first_pair)
{
    SelectArgs a = {};
    a.data = (const unsigned char *)t.data;
    a.mask = (const unsigned char *)t.mask;
    a.n = t.n;
    a.lines = t.lines;
    a.key = t.falling ? falling_rule(t.dtype) : key_rule(t.dtype);
    a.asked = t.asked;
    a.asked_step = t.asked_step;
    a.nans_first = t.nans_first;
    a.first_pair = first_pair;
    a.pairs = (u32)least(t.pairs - first_pair, kMostPairs);
    for (u32 p = 0; p < a.pairs; p++)
        a.rules[p] = pair_rule(t.rules[first_pair + p], t.n);
    a.most = most_collected(t);
    a.found = t.found;
    a.found_words = found_words(t.pairs);
    return a;
}

// Blocks of a line so that `lines` of them fill the device a whole number of times
u32 blocks_of_line(u64 items, u64 at_once, u64 lines) { return (u32)most(1, least(items, at_once / lines)); }

// Samples of each pair: as many as there are multiprocessors for, and as can be different
u32 samples_of(const Device *d, const SelectArgs &a)
{
    const u64 n = least(least(kMostSamples, a.n / (kBracketThreads * kSampleKeys)), (u64)d->sms / (a.pairs * a.lines));
    return n < 3 ? 1 : (u32)(n - 1) | 1;
}

// Will the brackets of samples probably hold more keys than there is room for? Those of the middle hold most.
bool is_narrowed(const SelectArgs &a)
{
    const double of_one = 4.5 * 0.5 * sqrt(kBracketThreads * kSampleKeys) + 8,
                 places = 1 + (a.samples > 1 ? of_one * 1.2533 / sqrt(a.samples) : of_one);
    return 1.1 * a.pairs * 2 * places / (kBracketThreads * kSampleKeys) * (double)a.n > (double)a.room && !a.asked;
}

// From brackets to the keys of ranks, or to narrower brackets by some of the line
cudaError_t launch_passes(Device *d, const SelectArgs &a, u32 bytes, const SelectKernels &k, cudaStream_t stream)
{
    const u32 lines = (u32)a.lines;
    const bool overlap = d->overlapped_launch;
    const SelectFn count = a.pairs == 1 ? k.count_one : k.count_all;
    const size_t shared = (size_t)kBins * sizeof(u32) * least(2 * a.pairs, kSharedIntervals);
    int counting, digits;
    TRY_CUDA(device_blocks_per_sm(d, (const void *)count, kSelectThreads, 0, &counting));
    TRY_CUDA(device_blocks_per_sm(d, (const void *)k.digits, kSelectThreads, kBins * sizeof(u32) * kSharedIntervals, &digits));
    const u64 tile = 16384ull * a.skip, tiles = (a.n * bytes + tile - 1) / tile;
    TRY_CUDA(gpu_launch(overlap, count, dim3(blocks_of_line(tiles, (u64)counting * d->sms, lines), lines), kSelectThreads, 0,
                        stream, a));
    if (a.skip > 1)
        return cudaSuccess;
    const dim3 grid(blocks_of_line(tiles, (u64)digits * d->sms, lines), lines);
    for (u32 i = 0; i < digit_rounds(8 * bytes) + (bytes < 4); i++)
        TRY_CUDA(gpu_launch(overlap, k.digits, grid, kSelectThreads, shared, stream, a));
    return gpu_launch(overlap, k.last, dim3(2 * a.pairs, lines), kSampleThreads, 0, stream, a);
}

cudaError_t launch_long(Device *d, SelectArgs a, u32 bytes, const SelectKernels &k, cudaStream_t stream)
{
    const u32 lines = (u32)a.lines;
    a.samples = samples_of(d, a);
    TRY_CUDA(gpu_launch(false, k.clear, (u32)least((u64)d->sms, lines * 2 * a.pairs), kSampleThreads, 0, stream, a));
    TRY_CUDA(gpu_launch(d->overlapped_launch, k.brackets, dim3(2 * a.pairs * a.samples, lines), kBracketThreads, 0, stream, a));
    if (is_narrowed(a)) {
        a.skip = kSkip;
        TRY_CUDA(launch_passes(d, a, bytes, k, stream));
    }
    a.skip = 1;
    return launch_passes(d, a, bytes, k, stream);
}

// As many long lines at once as there is scratch for
cudaError_t launch_lines(Device *d, const SelectTask &t, SelectArgs a, const SelectKernels &k, void *scratch, u64 bytes,
                         cudaStream_t stream)
{
    const u64 room = least(good_room(t), kSelectLeastRoom + (bytes - select_least_scratch(t)) / key_bytes(t));
    const u64 at_once = least(kLinesAtOnce, least(t.lines, (bytes - 4 * kAlign) / line_scratch(t, room)));
    const u64 ranks = 2 * pairs_at_once(t), of_line = t.n * (u64)rk_bytes(t.dtype);
    a.room = room;
    a.states = (SelectState *)scratch;
    a.counts = (u64 *)(a.states + at_once);
    a.collected = (unsigned char *)(a.counts + at_once * ranks * kBins);
    a.kept = a.collected + at_once * ranks * a.most * key_bytes(t);
    for (u64 first = 0; first < t.lines; first += at_once) {
        a.lines = least(at_once, t.lines - first);
        TRY_CUDA(launch_long(d, a, (u32)rk_bytes(t.dtype), k, stream));
        a.data += at_once * of_line;
        a.mask += a.mask ? at_once * t.n : 0;
        a.found += at_once * a.found_words;
        a.asked += a.asked ? at_once * a.asked_step : 0;
    }
    return cudaSuccess;
}

} // namespace

u64 select_least_scratch(const SelectTask &t) { return is_long(t) ? line_scratch(t, kSelectLeastRoom) + 4 * kAlign : 0; }

u64 select_good_scratch(const SelectTask &t) { return is_long(t) ? line_scratch(t, good_room(t)) + 4 * kAlign : 0; }

cudaError_t select_launch(Device *d, const SelectTask &t, void *scratch, u64 bytes, cudaStream_t stream)
{
    const SelectKernels k = kernels_of(t.dtype);
    for (u32 first = 0; first < t.pairs; first += kMostPairs) {
        const SelectArgs a = args_of(t, first);
        TRY_CUDA(is_long(t) ? launch_lines(d, t, a, k, scratch, bytes, stream)
                            : launch_short(d, t, k.warp_rows, k.block_rows, a, stream));
    }
    return cudaSuccess;
}

} // namespace rk
