/* Helpers for tasks: their size, checks of their partial states, and the text of a row's error. */
#include <string.h>

#include "kernels/engine/engine.h"
#include "kernels/exact/cell.h"
#include "kernels/exact/check.h"

size_t rk_task_size(const rk_task *t)
{
    if (t->fill)
        return t->bytes;
    const size_t state = rp_state_size(rp_spec_layout(&t->spec)), cell = rp_cell_size(&t->spec);
    return t->bytes + rp_results(&t->spec) * (state > cell ? state : cell);
}

/* ---- states ---- */

static rp_err check_row(rk_task *t, uint64_t row, size_t size)
{
    const uint8_t *p = (const uint8_t *)t->data + row * t->spec.row_len * size;
    uint64_t count = 0, nans = 0;
    for (uint64_t i = 0; i < t->spec.row_len; i++, p += size) {
        rk_state s;
        rp_err err = rk_state_check(t->spec.op, t->spec.dtype, p, size, &t->fault);
        if (err)
            return err;
        memcpy(&s, p, size);
        count += s.count; /* all at most 2^60 */
        nans += rk_nans_beside(&s);
        err = rk_count_check(count, nans, &t->fault);
        if (err)
            return err;
    }
    return RP_OK;
}

rp_err rk_check_states(rk_task *t)
{
    size_t size = rp_state_size(rp_spec_layout(&t->spec));
    for (uint64_t row = 0; row < t->spec.rows && t->spec.row_len; row++) {
        rp_err err = check_row(t, row, size);
        if (err) {
            t->fault.index = row;
            return err;
        }
    }
    return RP_OK;
}

/* ---- faults ---- */

static bool is_stopped(const rk_task *t)
{
    while (t && !__atomic_load_n(&t->stopped, __ATOMIC_RELAXED))
        t = t->whole;
    return t != NULL;
}

bool rk_task_late(const rk_task *t, rp_fault *f)
{
    const bool late = t->until_ns && rk_now_ns() >= t->until_ns, stopped = is_stopped(t);
    if (stopped)
        rp_fail(f, RP_CANCELLED, "id", 0, "cancelled by its client");
    else if (late)
        rp_fail(f, RP_DEADLINE, "time_ms", 0, "not done before the deadline");
    return late || stopped;
}

void rk_row_fault(rk_task *t, uint64_t row, int code, const void *s) { rk_cell_fault(&t->fault, s, &t->spec, row, code); }
