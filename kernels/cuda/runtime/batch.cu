#include "kernels/cuda/runtime/batch.h"

#include <cstring>

#include "kernels/cuda/launch/tuning.h"
#include "kernels/cuda/pass/batch.h"
#include "kernels/exact/line.h"
#include "kernels/exact/runs.h"

namespace rk {
namespace {

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
    c.longest = longest_line(t->spec, rp_spec_parts(&t->spec, t->data, NULL).offsets);
    c.together = c.lines == 1 || c.longest > kTuning.short_row;
    c.units = c.together ? c.lines : (c.lines + kLinesPerUnit - 1) / kLinesPerUnit;
    return c;
}

// Can the lines be summed as pairs?
bool in_pairs(const FinishArgs &a, const Cut &c)
{
    const rp_spec &s = a.spec;
    return c.together && a.plain && s.op == RP_OP_SUM && s.out == RP_F64 && (s.dtype == RP_F32 || s.dtype == RP_F64) &&
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
    const rp_parts parts = rp_spec_parts(&t->spec, data, NULL);
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

bool batch_fits(const rk_task *t)
{
    return !rk_in_runs(&t->spec) && !rp_needs_all(&t->spec) && !rp_is_paired(t->spec.op) && cut_of(t).units <= kUnitsPerTask;
}

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
    f->error = gpu_launch(false, batch_kernel(), f->units, kBatchThreads, kSharedBytes, f->stream, m, ++f->launch);
}

// Have all units reported that they are done?
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
        cudaGetLastError();                 // so that no later call finds the error
    if (err == cudaSuccess && !all_done(f)) // the stream is idle, but a unit is missing
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
            rk_cpu_run(t); // rare: the CPU finds the line and the reason; its bits are the same
            t->start_ns = start;
        } else {
            memcpy(t->cells, cells, cells_bytes(t));
        }
        t->backend = RP_BACKEND_CUDA;
        t->route = "batch";
        t->compute_ns = now - start;
    }
}

} // namespace rk
