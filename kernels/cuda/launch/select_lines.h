// Selection of elements at ranks: pass/select_args.h says how.
#pragma once

#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/pass/select_args.h"

namespace rk {

constexpr u64 kSelectLeastRoom = 4096;

// Lines in one piece each. Pointers are the device's.
struct LineSet {
    int dtype;
    const void *data; // lines x n elements, n at least 1, aligned to their size
    const void *mask; // a byte for each, or NULL
    u64 lines, n;
};

// Does a line stay in the registers of a warp or of a block?
inline u32 keys_of_thread(const LineSet &x) { return rk_bytes(x.dtype) == 8 ? kKeysOfThread<8> : kKeysOfThread<4>; }
inline bool is_short(const LineSet &x) { return x.n <= (u64)kSampleThreads * keys_of_thread(x); }

// Such lines by one of the kernels for them: of warps with 4, 8, 16 or 32 keys a lane, or of blocks.
template <class Args> cudaError_t launch_short(Device *d, const LineSet &x, void (*const warps[4])(Args), void (*block)(Args),
                                               const Args &a, cudaStream_t stream)
{
    constexpr u64 kPer = kRowsThreads / kWarp;
    auto least = [](u64 p, u64 q) { return p < q ? p : q; };
    for (u32 i = 0; i < 4; i++)
        if (x.n <= 128u << i) {
            int blocks;
            TRY_CUDA(device_blocks_per_sm(d, (const void *)warps[i], kRowsThreads, 0, &blocks));
            return gpu_launch(false, warps[i], dim3((u32)least((x.lines + kPer - 1) / kPer, 64ull * blocks * d->sms)),
                              kRowsThreads, 0, stream, a);
        }
    const u64 keys = keys_of_thread(x), threads = ((x.n + keys - 1) / keys + kWarp - 1) / kWarp * kWarp;
    return gpu_launch(false, block, dim3((u32)least(x.lines, 64ull * 32 * d->sms)), (int)threads, 0, stream, a);
}

struct SelectTask : LineSet {
    const rk_order_rule *rules; // a pair of ranks each
    u32 pairs;                  // any number
    u64 *found;                 // found_words(pairs) of each line
    // Of one kth among long lines, for those of some lines (SelectArgs)
    const u32 *asked = NULL;
    u32 asked_step = 0;
    bool nans_first = false, falling = false;
};

// Bytes of scratch that suffice, with room for kSelectLeastRoom keys, and those with which no element needs to be read twice
// as a rule.
u64 select_least_scratch(const SelectTask &t);
u64 select_good_scratch(const SelectTask &t);

// Enqueue all of it: no host round trip in between. Scratch is aligned to 256, and need not be zero.
cudaError_t select_launch(Device *d, const SelectTask &t, void *scratch, u64 bytes, cudaStream_t stream);

} // namespace rk
