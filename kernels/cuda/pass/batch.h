// One launch for many small tasks: data that host and device share. The kernel is ops/batch_tasks.cu, the host's side
// runtime/batch.cu.
#pragma once

#include "kernels/cuda/pass/plan.h"
#include "kernels/kernels.h"

namespace rk {

constexpr int kBatchThreads = 256;
constexpr u32 kStateBytes = 24u << 10; // of shared memory, for the states of a block's walkers
constexpr u32 kUnitsPerTask = 16;      // each reads all of the task's data
constexpr u32 kLinesPerUnit = 64;      // of short lines
constexpr u32 kElementsPerWalker = 8;  // joining a walker's state costs about as much as adding that many
constexpr u32 kMaxUnits = RK_BATCH_TASKS * kUnitsPerTask;
constexpr u32 kSharedBytes = RK_MAX_BATCH_BYTES + kStateBytes; // with what finishing takes, within everybody's 48 KiB

struct alignas(16) BatchUnit {
    FinishArgs finish;               // cells: of the task; fault: a word of the block's, set there
    const unsigned char *data;       // of the task, at a multiple of 16
    u32 bytes, elements_at, mask_at; // mask_at 0: no mask. Offsets are at 0
    u32 first_line, lines;
    u32 walkers;                 // of the one line; 0: a thread a line
    bool pairs;                  // the one line may be summed as pairs
    u32 state_words, scratch_at; // of shared memory for a thread; where in it scratch begins
    u64 first_index;             // of a line's element 0
};

struct BatchMemory {
    BatchUnit unit[kMaxUnits];
    u32 done[kMaxUnits];  // number of the launch whose unit is finished
    u32 fault[kMaxUnits]; // then: its first line without a result, or kNoFault
    // data and cells, each at a multiple of 16
    alignas(16) unsigned char space[RK_BATCH_TASKS * (RK_MAX_BATCH_BYTES + 32)];
};

using BatchFn = void (*)(BatchMemory *memory, u32 launch);
BatchFn batch_kernel(); // shared memory: kSharedBytes

} // namespace rk
