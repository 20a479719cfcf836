/* Runs whole tasks on the calling thread, with the best instruction set and the required floating-point environment. */
#include <stdlib.h>

#include "kernels/cpu/cpu.h"

void rk_cpu_begin(rk_task *t)
{
    t->start_ns = rk_now_ns();
    t->copy_ns = 0;
    t->backend = RP_BACKEND_CPU;
    t->route = NULL;
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

/* The next part of `left` items of `size` bytes: how many it has; 0: there are too few. */
static uint64_t take_part(rk_task *t, rk_task *part, rk_next_fn *next, void *arg, size_t size, uint64_t left)
{
    size_t bytes;
    const uint64_t start = rk_now_ns();
    part->data = next(arg, &bytes);
    t->copy_ns += rk_now_ns() - start;
    if (!part->data)
        return 0;
    return bytes / size < left ? bytes / size : left;
}

/* ---- rows ---- */

/* Rows of which all before `row` are finished, and `within` elements of that one are in `state`. */
typedef struct arriving {
    rk_task *t;
    uint64_t row, within;
    rk_state state;
} arriving;

static void note_fault(rk_task *t, uint64_t row, int code, const rk_state *s)
{
    if (code != RP_OK && t->fault.code == RP_OK)
        rk_row_fault(t, row, code, s);
}

/* `n` elements of a row that a part has not whole. */
static void add_piece(arriving *x, const void *data, uint64_t n)
{
    rk_task *t = x->t, piece = *t;
    rk_state some;
    piece.data = data;
    piece.base += x->within;
    if (!x->within)
        rk_state_init(&x->state, rp_state_layout(t->spec.op, t->spec.dtype), t->spec.dtype);
    rk_cpu_segment(rk_simd_best(), &piece, 0, 0, n, &some);
    rk_state_merge(&x->state, &some);
    x->within += n;
    if (x->within < t->spec.row_len)
        return;
    x->within = 0;
    note_fault(t, x->row, rk_cpu_cell(t, x->row, &x->state), &x->state);
    x->row++;
}

static void add_whole(arriving *x, const void *data, uint64_t n)
{
    rk_task *t = x->t, some = *t;
    uint64_t bad_row;
    rk_state bad_state;
    some.data = data;
    some.cells = (uint8_t *)t->cells + x->row * rp_cell_size(&t->spec);
    some.spec.rows = n;
    const int code = rk_cpu_lines(rk_simd_best(), &some, 0, n, &bad_row, &bad_state);
    if (code != RP_OK)
        note_fault(t, x->row + bad_row, code, &bad_state);
    x->row += n;
}

static void add_part(arriving *x, const uint8_t *data, uint64_t n)
{
    const uint64_t len = x->t->spec.row_len;
    const size_t size = rp_dtype_size(x->t->spec.dtype);
    for (uint64_t some; n; data += some * size, n -= some) {
        const uint64_t left = len - x->within;
        const bool whole = left == len && n >= len;
        some = whole ? n - n % len : n < left ? n : left;
        if (whole)
            add_whole(x, data, some / len);
        else
            add_piece(x, data, some);
    }
}

static bool run_rows(rk_task *t, rk_next_fn *next, void *arg)
{
    arriving x = {.t = t};
    rk_task part = *t;
    const size_t size = rp_dtype_size(t->spec.dtype);
    if (!t->spec.row_len)
        run_lines(t);
    for (uint64_t left = t->spec.rows * t->spec.row_len, n; left; left -= n) {
        n = take_part(t, &part, next, arg, size, left);
        if (!n)
            return false;
        add_part(&x, part.data, n);
    }
    return true;
}

/* ---- columns ---- */

size_t rk_rows_bytes(const rk_task *t) { return (size_t)t->spec.row_len * sizeof(rk_state); }

void rk_rows_begin(const rk_task *t, void *states)
{
    rk_state *s = states;
    for (uint64_t c = 0; c < t->spec.row_len; c++)
        rk_state_init(&s[c], rp_state_layout(t->spec.op, t->spec.dtype), t->spec.dtype);
}

void rk_rows_add(const rk_task *t, const void *data, uint64_t from, uint64_t rows, void *states)
{
    rk_task part = *t;
    part.data = data;
    part.base += from;
    part.spec.rows = rows;
    const uint64_t saved = rk_fp_enter();
    rk_cpu_join_columns(rk_simd_best(), &part, 0, t->spec.row_len, 0, rows, states);
    rk_fp_leave(saved);
}

void rk_rows_join(const rk_task *t, const void *other, void *states)
{
    rk_state *s = states;
    const rk_state *o = other;
    for (uint64_t c = 0; c < t->spec.row_len; c++)
        rk_state_merge(&s[c], &o[c]);
}

static void put_columns(rk_task *t, rk_state *states)
{
    for (uint64_t c = 0; c < t->spec.row_len; c++) {
        const int code = rk_cpu_cell(t, c, &states[c]);
        note_fault(t, c, code, &states[c]);
    }
}

void rk_cpu_rows_end(rk_task *t, void *states)
{
    const uint64_t saved = rk_fp_enter();
    put_columns(t, states);
    rk_fp_leave(saved);
}

/* The parts that follow, of whole rows of columns. `part` already has the first `rows` of them. */
static bool join_rows(rk_task *t, rk_task *part, uint64_t rows, rk_next_fn *next, void *arg, rk_state *states)
{
    const size_t size = (size_t)t->spec.row_len * rp_dtype_size(t->spec.dtype);
    for (uint64_t from = 0, left = t->spec.rows; rows; rows = take_part(t, part, next, arg, size, left)) {
        rk_rows_add(t, part->data, from, rows, states);
        from += rows;
        left -= rows;
        if (!left)
            return true;
    }
    return false;
}

/* Columns that do not come in one part keep their states between the parts. */
static bool run_columns(rk_task *t, rk_next_fn *next, void *arg)
{
    const rp_spec *s = &t->spec;
    const size_t size = (size_t)s->row_len * rp_dtype_size(s->dtype);
    rk_task part = *t;
    const uint64_t first = size && s->rows ? take_part(t, &part, next, arg, size, s->rows) : 0;
    if (first == s->rows || !size) {
        t->data = part.data;
        run_lines(t);
        return true;
    }
    rk_state *states = malloc(rk_rows_bytes(t));
    if (!states) {
        rp_fail(&t->fault, RP_NO_MEMORY, "columns", 0, "no memory for the states of columns");
        return true;
    }
    rk_rows_begin(t, states);
    const bool all = join_rows(t, &part, first, next, arg, states);
    if (all)
        put_columns(t, states);
    free(states);
    return all;
}

bool rk_cpu_run_parts(rk_task *t, rk_next_fn *next, void *arg)
{
    rk_cpu_begin(t);
    uint64_t saved = rk_fp_enter();
    const bool all = t->spec.flags & RP_COLUMNS ? run_columns(t, next, arg) : run_rows(t, next, arg);
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
