/* Runs whole tasks on the calling thread, with the best instruction set and the required floating-point environment. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/keys/by_key.h"
#include "kernels/cpu/order/ranked.h"

void rk_cpu_begin(rk_task *t)
{
    t->start_ns = rk_now_ns();
    t->copy_ns = 0;
    t->backend = RP_BACKEND_CPU;
    t->route = NULL;
    t->fault.code = RP_OK;
    t->route = NULL;
}

/* Some groups after the other. The first ones look at all keys. */
static void run_groups(rk_task *t)
{
    const uint64_t rows = t->spec.rows, each = rk_by_key_groups(t, 1);
    rp_err err = RP_OK;
    rp_fault f = {.index = RP_NO_INDEX};
    t->route = rk_by_key_route;
    for (uint64_t first = 0, n; first < rows && !err; first += n) {
        n = rows - first < each ? rows - first : each;
        err = rk_by_key_run(t, first, n, &f);
    }
    if (err)
        t->fault = f;
}

static void run_lines(rk_task *t)
{
    if (t->spec.flags & RP_KEYS) {
        run_groups(t);
        return;
    }
    if (rp_is_ranked(t->spec.op)) {
        rp_fault f;
        t->route = rk_ranked_route;
        if (rk_ranked_lines(rk_simd_best(), t, 0, rp_results(&t->spec), &f))
            t->fault = f;
        return;
    }
    uint64_t bad_row;
    rk_state bad_state;
    int code = rk_cpu_all_lines(rk_simd_best(), t, &bad_row, &bad_state);
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

void rk_explain(rk_task *t, uint64_t line, void *s)
{
    uint64_t saved = rk_fp_enter();
    rk_row_fault(t, line, rk_cpu_cell(t, line, s), s);
    rk_fp_leave(saved);
}
