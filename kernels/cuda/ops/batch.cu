// One launch for many small tasks, each with a spec of its own.
//
// A task is one unit or a few: a line that the whole block reduces, or many short lines, a thread each. A block takes
// one unit. It reads the unit's description and the task's data from pinned host memory, over the bus, into its shared
// memory; reduces by the definitions of kernels/exact/state.h, which serve every operation, type and shape, or sums of floats
// as pairs of doubles (twosum.cuh), which saves half of a batch's time; writes cells and
// faults back to pinned memory; and last the number of the launch, which is what the host watches for. So a batch is
// one launch, without a copy or an event: those take longer than the work.
#include "kernels/cuda/ops/batch.cuh"

#include <cstring>

#include "kernels/cuda/exact/twosum.cuh"
#include "kernels/cuda/pass/short_lines.cuh"

namespace rk {

namespace {

constexpr int kBatchThreads = 256;
constexpr u32 kStateBytes = 24u << 10; // of shared memory, for the states of a block's walkers
constexpr u32 kUnitsPerTask = 16;      // each reads all of the task's data
constexpr u32 kLinesPerUnit = 64;      // of short lines
constexpr u32 kElementsPerWalker = 8;  // joining a walker's state costs about as much
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

} // namespace

struct BatchMemory {
    BatchUnit unit[kMaxUnits];
    u32 done[kMaxUnits];  // number of the launch whose unit is finished
    u32 fault[kMaxUnits]; // then: its first line without a result, or kNoFault
    // data and cells, each at a multiple of 16
    alignas(16) unsigned char space[RK_BATCH_TASKS * (RK_MAX_BATCH_BYTES + 32)];
};

namespace {

// ---- device ----

// Whole block; both at a multiple of 16. Up to 15 bytes more than asked for.
__device__ void copy_in(void *to, const void *from, u32 bytes)
{
    for (u32 i = threadIdx.x; i < (bytes + 15) / 16; i += blockDim.x)
        ((uint4 *)to)[i] = ((const uint4 *)from)[i];
}

__device__ rp_parts parts_of(const BatchUnit &u, const unsigned char *data)
{
    rp_parts p;
    p.offsets = data;
    p.elements = data + u.elements_at;
    p.mask = u.mask_at ? data + u.mask_at : nullptr;
    return p;
}

// Join word j of the partials first, first + step, ... below n, which word(partial, j) gives, into out[j]; of a rank
// also the index behind it.
template <class Word> __device__ void join_word(const WordPlan &plan, u32 j, u32 first, u32 n, u32 step, Word word, u64 *out)
{
    const WordKind kind = word_kind(plan, j);
    u64 joined = word_identity(kind), index = RP_NO_INDEX;
    if (kind == kWordIndex)
        return; // went with its rank
    for (u32 i = first; i < n; i += step) {
        if (kind == kWordRank)
            join_pair(joined, index, word(i, j), word(i, j + 1));
        else
            joined = join_words(kind, joined, word(i, j));
    }
    out[j] = joined;
    if (kind == kWordRank)
        out[j + 1] = index;
}

// The words of all walkers' states, joined to `total`: by groups of threads into `words`, a thread for each word, then
// the groups.
__device__ void join_states(const WordPlan &plan, const u64 *states, u32 state_words, u32 walkers, u64 *words, u64 *total)
{
    const u32 groups = kBatchThreads / plan.all, group = threadIdx.x / plan.all, j = threadIdx.x % plan.all;
    if (group < groups)
        join_word(
            plan, j, group, walkers, groups,
            [&](u32 walker, u32 k) {
                const u64 *s = states + walker * state_words; // header, count, limbs
                return word_of_state(plan, s[0], s[1], (const uint64_t *)(s + 2), k);
            },
            words + group * plan.all);
    __syncthreads();
    if (threadIdx.x < plan.all)
        join_word(
            plan, threadIdx.x, 0, groups, 1, [&](u32 g, u32 k) { return words[g * plan.all + k]; }, total);
    __syncthreads();
}

// A row of floats to its sum, if a pair of doubles holds that, by the whole block. False: it does not, or NaNs are refused;
// nothing is written.
template <int kDtype> __device__ bool sum_row(const BatchUnit &u, const unsigned char *data)
{
    const rp_spec &spec = u.finish.spec;
    const rk_line line = rk_line_of(&spec, data, u.first_line);
    const FloatBits<kDtype> *p = (const FloatBits<kDtype> *)(data + u.elements_at) + line.first;
    Pair sum = {-0.0, -0.0, false};
    u32 elements = 0, skipped = 0;
    for (u32 i = threadIdx.x; i < line.n; i += kBatchThreads, elements++)
        add_float<kDtype>(sum, p[i], spec.nan != RP_NAN_PROPAGATE, skipped);
    sum = join_block<kBatchThreads / kWarp>(sum);
    const bool refused = __syncthreads_or(skipped && spec.nan == RP_NAN_ERROR), some = __syncthreads_or(elements > skipped);
    if (!sum.lost && !refused && threadIdx.x == 0)
        ((double *)u.finish.cells)[u.first_line] = some ? sum.value() : 0.0;
    return !sum.lost && !refused;
}

__device__ bool sum_row(const BatchUnit &u, const unsigned char *data)
{
    return u.finish.spec.dtype == RP_F32 ? sum_row<RP_F32>(u, data) : sum_row<RP_F64>(u, data);
}

// One line, by the whole block. What `data` holds is overwritten.
__device__ void reduce_line(const BatchUnit &u, unsigned char *data, u64 *states)
{
    static_assert(kMaxWords <= kBatchThreads && kBatchThreads * sizeof(u64) <= RK_MAX_BATCH_BYTES, "a thread a word");
    __shared__ u64 total[kMaxWords];
    const FinishArgs &a = u.finish;
    const rp_parts parts = parts_of(u, data);
    if (threadIdx.x < u.walkers)
        walk_line(a, parts, u.first_index, rk_line_of(&a.spec, parts.offsets, u.first_line), threadIdx.x, u.walkers,
                  (rk_state *)(states + threadIdx.x * u.state_words));
    __syncthreads();
    join_states(a.plan, states, u.state_words, u.walkers, (u64 *)data, total);
    if (threadIdx.x >= kWarp)
        return;
    if (a.light)
        finish_light(a, u.first_line, total);
    else
        finish_row(a, u.first_line, total);
}

// Short lines, a thread each.
__device__ void reduce_lines(const BatchUnit &u, const unsigned char *data, u64 *states)
{
    const rp_parts parts = parts_of(u, data);
    const u32 room = kStateBytes / (u32)sizeof(u64) / u.state_words;
    const u32 threads = room < kBatchThreads ? room : kBatchThreads;
    u64 *mine = states + threadIdx.x * u.state_words;
    for (u32 i = threadIdx.x; threadIdx.x < threads && i < u.lines; i += threads) {
        const u64 line = u.first_line + i;
        const rk_line l = rk_line_of(&u.finish.spec, parts.offsets, line);
        walk_line(u.finish, parts, u.first_index, l, 0, 1, (rk_state *)mine);
        write_cell(u.finish, line, *(rk_state *)mine, (uint64_t *)(mine + u.scratch_at));
    }
}

__global__ void __launch_bounds__(kBatchThreads) reduce_batch(BatchMemory *memory, u32 launch)
{
    extern __shared__ __align__(16) unsigned char data[];
    __shared__ BatchUnit unit;
    __shared__ u32 fault;
    u64 *states = (u64 *)(data + RK_MAX_BATCH_BYTES);
    copy_in(&unit, &memory->unit[blockIdx.x], sizeof unit);
    __syncthreads();
    if (threadIdx.x == 0) {
        fault = kNoFault;
        unit.finish.fault = &fault;
    }
    copy_in(data, unit.data, unit.bytes);
    __syncthreads();
    if (!unit.walkers)
        reduce_lines(unit, data, states);
    else if (!unit.pairs || !sum_row(unit, data))
        reduce_line(unit, data, states);
    __syncthreads();
    if (threadIdx.x == 0) {
        memory->fault[blockIdx.x] = fault;
        __threadfence_system(); // everybody's cells and the fault before the number
        *(volatile u32 *)&memory->done[blockIdx.x] = launch;
    }
}

// ---- host ----

// Elements of the longest line.
u64 longest_line(const rp_spec &s, const uint8_t *offsets)
{
    if (s.flags & RP_COLUMNS)
        return s.rows;
    if (!(s.flags & RP_OFFSETS))
        return s.row_len;
    u64 most = 0;
    for (u64 i = 0; i < s.rows; i++) {
        u64 n = rk_line_of(&s, offsets, i).n;
        most = n > most ? n : most;
    }
    return most;
}

// How a task is cut.
struct Cut {
    u64 longest, lines, units;
    bool together; // a line is a block's work
};

Cut cut_of(const rk_task *t)
{
    Cut c;
    c.lines = rp_results(&t->spec);
    c.longest = longest_line(t->spec, rp_spec_parts(&t->spec, t->data).offsets);
    c.together = c.lines == 1 || c.longest > kTuning.short_row;
    c.units = c.together ? c.lines : (c.lines + kLinesPerUnit - 1) / kLinesPerUnit;
    return c;
}

// Can the lines be summed as pairs?
bool in_pairs(const FinishArgs &a, const Cut &c)
{
    const rp_spec &s = a.spec;
    return c.together && a.plain && s.out == RP_F64 && (s.dtype == RP_F32 || s.dtype == RP_F64) &&
           !(s.flags & (RP_MASK | RP_COLUMNS));
}

size_t cells_bytes(const rk_task *t) { return rp_results(&t->spec) * rp_cell_size(&t->spec); }

u32 walkers_of(u64 longest, u32 state_words)
{
    u64 want = (longest + kElementsPerWalker - 1) / kElementsPerWalker, room = kStateBytes / sizeof(u64) / state_words;
    want = want < room ? want : room;
    return want == 0 ? 1 : want < kBatchThreads ? (u32)want : kBatchThreads;
}

// What the units of a task have in common.
BatchUnit unit_of(const rk_task *t, const Cut &c, const unsigned char *data, void *cells)
{
    BatchUnit u = {};
    const rp_parts parts = rp_spec_parts(&t->spec, data);
    u.finish = finish_args(t->spec, cells, nullptr);
    u.data = data;
    u.bytes = (u32)t->bytes;
    u.elements_at = (u32)(parts.elements - data);
    u.mask_at = parts.mask ? (u32)(parts.mask - data) : 0;
    u.lines = c.together ? 1 : kLinesPerUnit;
    u.first_index = t->spec.index_base + t->base;
    u.scratch_at = (u32)rp_state_size(u.finish.plan.layout) / 8;
    u.state_words = (u.scratch_at + (c.together ? 0 : scratch_words(u.finish))) | 1; // odd: threads meet in few banks
    u.walkers = c.together ? walkers_of(c.longest, u.state_words) : 0;
    u.pairs = in_pairs(u.finish, c);
    return u;
}

// Place of `bytes` in the flight's space, and the next free one.
unsigned char *take_space(BatchMemory *m, size_t *at, size_t bytes)
{
    unsigned char *p = m->space + *at;
    *at += (bytes + 15) / 16 * 16;
    return p;
}

} // namespace

size_t batch_pinned_bytes() { return sizeof(BatchMemory); }

static cudaError_t open_parts(BatchFlight *f)
{
    int least, greatest;
    TRY_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    TRY_CUDA(cudaStreamCreateWithPriority(&f->stream, cudaStreamNonBlocking, greatest)); // ahead of large tasks' blocks
    TRY_CUDA(cudaHostAlloc((void **)&f->memory, sizeof *f->memory, cudaHostAllocPortable | cudaHostAllocMapped));
    memset(f->memory, 0, sizeof *f->memory);
    return cudaSuccess;
}

cudaError_t batch_open(BatchFlight *f)
{
    *f = BatchFlight{};
    cudaError_t err = open_parts(f);
    if (err != cudaSuccess)
        batch_close(f);
    return err;
}

void batch_close(BatchFlight *f)
{
    cudaFreeHost(f->memory);
    if (f->stream)
        cudaStreamDestroy(f->stream);
    *f = BatchFlight{};
}

bool batch_fits(const rk_task *t) { return cut_of(t).units <= kUnitsPerTask; }

void batch_launch(BatchFlight *f, const rk_task *tasks)
{
    BatchMemory *m = f->memory;
    size_t at = 0;
    f->units = f->seen = 0;
    for (const rk_task *t = tasks; t; t = t->next) {
        const Cut c = cut_of(t);
        unsigned char *data = take_space(m, &at, t->bytes), *cells = take_space(m, &at, cells_bytes(t));
        memcpy(data, t->data, t->bytes);
        BatchUnit u = unit_of(t, c, data, cells);
        for (u64 first = 0; first < c.lines; first += u.lines) {
            u.first_line = (u32)first;
            u.lines = (u32)(c.lines - first < u.lines ? c.lines - first : u.lines);
            m->unit[f->units++] = u;
        }
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(f->units);
    config.blockDim = dim3(kBatchThreads);
    config.dynamicSmemBytes = kSharedBytes;
    config.stream = f->stream;
    f->error = cudaLaunchKernelEx(&config, reduce_batch, m, ++f->launch);
}

// Have all units told that they are done?
static bool all_done(BatchFlight *f)
{
    while (f->seen < f->units && __atomic_load_n(&f->memory->done[f->seen], __ATOMIC_ACQUIRE) == f->launch)
        f->seen++;
    return f->seen == f->units;
}

cudaError_t batch_landed(BatchFlight *f, bool closely)
{
    if (f->error != cudaSuccess)
        return f->error;
    if (all_done(f))
        return cudaSuccess;
    if (!closely)
        return cudaErrorNotReady;
    cudaError_t err = cudaStreamQuery(f->stream);
    if (err == cudaErrorNotReady)
        cudaGetLastError();                 // it is no error to be found later
    if (err == cudaSuccess && !all_done(f)) // the stream is idle, and yet there is something missing
        return cudaErrorUnknown;
    return err;
}

void batch_finish(BatchFlight *f, rk_task *tasks)
{
    const BatchMemory *m = f->memory;
    const u64 now = rk_now_ns();
    u32 first = 0; // of the task's units
    for (rk_task *t = tasks; t; t = t->next) {
        const u64 start = t->start_ns;
        const void *cells = m->unit[first].finish.cells;
        bool faulty = false;
        for (const u32 end = first + (u32)cut_of(t).units; first < end; first++)
            faulty |= m->fault[first] != kNoFault;
        if (faulty) {
            rk_cpu_run(t); // rare: the CPU says which line it was, and why; the bits are the same
            t->start_ns = start;
        } else {
            memcpy(t->cells, cells, cells_bytes(t));
        }
        t->backend = RP_BACKEND_CUDA;
        t->compute_ns = now - start;
    }
}

} // namespace rk
