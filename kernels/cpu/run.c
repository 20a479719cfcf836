/* Runs whole tasks on the calling thread, with the best instruction set and the required floating-point environment. */
#include "kernels/cpu/cpu.h"

void rk_cpu_begin(rk_task *t)
{
    t->start_ns = rk_now_ns();
    t->copy_ns = 0;
    t->backend = RP_BACKEND_CPU;
    t->fault.code = RP_OK;
}

static void run_lines(rk_task *t)
{
    uint64_t bad_row;
    rk_state bad_state;
    int code = rk_cpu_lines(rk_simd_best(), t, 0, rp_results(&t->spec), &bad_row, &bad_state);
    if (code != RP_OK)
        rk_row_fault(t, bad_row, code, &bad_state);
}

void rk_cpu_run(rk_task *t)
{
    rk_cpu_begin(t);
    uint64_t saved = rk_fp_enter();
    if (!(t->spec.flags & RP_STATES_IN) || rk_check_states(t) == RP_OK)
        run_lines(t);
    rk_fp_leave(saved);
    t->compute_ns = rk_now_ns() - t->start_ns;
}

static const void *next_part(rk_task *t, rk_next_fn *next, void *arg, size_t *bytes)
{
    const uint64_t start = rk_now_ns();
    const void *data = next(arg, bytes);
    t->copy_ns += rk_now_ns() - start;
    return data;
}

/* False: there were too few elements. */
static bool join_parts(rk_task *t, rk_next_fn *next, void *arg, rk_state *s)
{
    const size_t size = rp_dtype_size(t->spec.dtype);
    rk_task part = *t;
    for (uint64_t left = t->spec.row_len, n; left; left -= n) {
        size_t bytes;
        part.data = next_part(t, next, arg, &bytes);
        n = bytes / size < left ? bytes / size : left;
        if (!part.data || !n)
            return false;
        rk_state some;
        rk_cpu_segment(rk_simd_best(), &part, 0, 0, n, &some);
        rk_state_merge(s, &some);
        part.base += n;
    }
    return true;
}

static bool run_line(rk_task *t, rk_next_fn *next, void *arg)
{
    rk_state s;
    rk_state_init(&s, rp_state_layout(t->spec.op, t->spec.dtype), t->spec.dtype);
    const bool all = join_parts(t, next, arg, &s);
    int code = all ? rk_cpu_cell(t, 0, &s) : RP_OK;
    if (code != RP_OK)
        rk_row_fault(t, 0, code, &s);
    return all;
}

/* In one part: what each column keeps would be taken up and put back for every part. */
static bool run_columns(rk_task *t, rk_next_fn *next, void *arg)
{
    size_t bytes = 0;
    const void *data = next_part(t, next, arg, &bytes);
    if (!data || bytes < t->bytes)
        return false;
    t->data = data;
    run_lines(t);
    return true;
}

bool rk_cpu_run_parts(rk_task *t, rk_next_fn *next, void *arg)
{
    rk_cpu_begin(t);
    uint64_t saved = rk_fp_enter();
    const bool all = t->spec.flags & RP_COLUMNS ? run_columns(t, next, arg) : run_line(t, next, arg);
    rk_fp_leave(saved);
    t->compute_ns = rk_now_ns() - t->start_ns - t->copy_ns;
    return all;
}

void rk_explain(rk_task *t, uint64_t line, void *s)
{
    uint64_t saved = rk_fp_enter();
    rk_row_fault(t, line, rk_cpu_cell(t, line, s), s);
    rk_fp_leave(saved);
}
