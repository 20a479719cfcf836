// Rows in runs (kernels/exact/runs.h).
//
// A first pass leaves states: of each run, or if there are fewer of these, of each column of the matrix whose rows are planes.
// Those of a row are joined. Where they do not fit all at once, those of some rows and planes are, from the first plane on.
#include "kernels/exact/runs.h"

#include "kernels/cuda/launch/routes.h"
#include "kernels/cuda/pass/run_states.h"

namespace rk {

rp_spec simplest(rp_spec s)
{
    if (s.flags & RP_WEIGHTS && s.weights_extent != RP_EXTENT_ELEMENTS)
        return s; // they belong to the rows as they are
    if (rk_in_runs(&s) && (s.rows == 1 || s.row_len == 0)) {
        s.row_len *= s.planes;
        s.planes = 0;
    } else if (rk_in_runs(&s) && s.row_len == 1) {
        s.flags |= RP_COLUMNS;
        s.row_len = s.rows;
        s.rows = s.planes;
        s.planes = 0;
    }
    return s;
}

namespace {

constexpr size_t kRunBytes = RP_MAX_DATA / 2; // for these states, at the end of scratch

// What the states of `n` runs are made from, that follow one another from row `first` of plane `plane` on.
ChainTask first_pass(const ChainTask &t, u64 plane, u64 first, u64 n, void *states)
{
    const u64 before = (plane * t.spec.rows + first) * t.spec.row_len, size = rk_bytes(t.spec.dtype);
    const rp_parts parts = parts_of(t);
    ChainTask one = t;
    one.spec.flags = RP_STATES_OUT | (t.spec.flags & (RP_MASK | RP_WEIGHTS));
    one.spec.rows = n;
    one.spec.planes = 0;
    one.data = parts.elements + before * size;
    one.cells = states;
    if (parts.mask)
        one.mask = parts.mask + before;
    if (parts.weights)
        one.weights = weights_from(t.spec, parts.weights, before, first);
    return one;
}

// `q` with the scratch that is left, and what finishes the states of its runs.
struct Runs {
    Asked q;
    unsigned char *states;
    u64 fit; // states at once
};

Runs runs_of(const Asked &q)
{
    rp_spec spec = q.s;
    if (q.paired)
        spec.dtype = (uint8_t)rp_spec_state_dtype(&q.s);
    spec.flags = (spec.flags & ~(uint32_t)(RP_MASK | RP_WEIGHTS)) | RP_STATES_IN;
    const size_t rest = (q.memory.bytes - kRunBytes) / 16 * 16;
    Runs r = {q, (unsigned char *)q.memory.base + rest, 0};
    r.q.memory.bytes = rest;
    r.q.scratch = scratch_of(q.memory.base, rest);
    r.q.a = finish_args(spec, q.t.cells, q.t.fault);
    r.fit = kRunBytes / rp_state_size(r.q.a.plan.layout);
    return r;
}

cudaError_t launch_states_of(const Asked &q, const ChainTask &t)
{
    const char *first_pass; // its route is not the task's
    return q.take(q.d, t, q.memory, q.stream, &first_pass);
}

cudaError_t launch_columns_of_runs(const Runs &x)
{
    const Asked &q = x.q;
    const u64 run = q.s.row_len;
    ChainTask columns = first_pass(q.t, 0, 0, q.s.planes * q.s.rows, x.states);
    columns.spec.flags |= RP_COLUMNS;
    columns.spec.rows = q.s.planes;
    columns.spec.row_len = q.s.rows * run;
    columns.spec.index_base = columns.base = 0;
    TRY_CUDA(launch_states_of(q, columns));
    const u32 words = (u32)rp_state_size(q.a.plan.layout) / 8;
    return join_runs(q, q.a, {q.s.rows, run, 0, 1, run, run, q.s.index_base + q.t.base, 1, words}, x.states, 0);
}

// Rows [first, first + n).
cudaError_t launch_rows_of_runs(const Runs &x, u64 first, u64 n)
{
    const Asked &q = x.q;
    const size_t size = rp_state_size(q.a.plan.layout);
    const FinishArgs joined = finish_args(first_pass(q.t, 0, 0, n, x.states).spec, x.states,
                                          q.t.fault); // before the last planes
    const u64 most = x.fit / n, each = most < q.s.planes ? most - 1 : q.s.planes;
    for (u64 plane = 0, k, carried; plane < q.s.planes; plane += k) {
        k = each < q.s.planes - plane ? each : q.s.planes - plane;
        carried = plane > 0;
        unsigned char *to = x.states + carried * n * size;
        // one weight a row: a launch has the rows of one plane
        const bool apart = n < q.s.rows || (q.paired && q.s.weights_extent == RP_EXTENT_COLUMN);
        for (u64 i = 0; apart && i < k; i++)
            TRY_CUDA(launch_states_of(q, first_pass(q.t, plane + i, first, n, to + i * n * size)));
        if (!apart)
            TRY_CUDA(launch_states_of(q, first_pass(q.t, plane, 0, k * n, to)));
        const RunStates r = {n, carried + k, carried, n, 1, 1, plane * q.s.row_len, q.s.row_len, (u32)(size / sizeof(u64))};
        const bool last = plane + k == q.s.planes;
        TRY_CUDA(join_runs(q, last ? q.a : joined, r, x.states, last ? first : 0));
    }
    return cudaSuccess;
}

} // namespace

bool fits_runs(const Asked &q, WalkFn *) { return rk_in_runs(&q.s); }

cudaError_t launch_runs(const Asked &q, WalkFn)
{
    const Runs x = runs_of(q);
    const u64 rows = q.s.rows, half = x.fit / 2;
    const bool own = !q.paired || q.s.weights_extent == RP_EXTENT_ELEMENTS; // else columns of runs have no such weights
    if (own && q.s.row_len < q.s.planes && q.s.row_len <= x.fit / rows)
        return launch_columns_of_runs(x);
    for (u64 first = 0, n; first < rows; first += n) {
        n = rows - first < half ? rows - first : half;
        TRY_CUDA(launch_rows_of_runs(x, first, n));
    }
    return cudaSuccess;
}

} // namespace rk
