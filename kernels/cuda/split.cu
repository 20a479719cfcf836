#include "kernels/cuda/split.h"

#include <cstdlib>

namespace rk {

struct Split {
    rk_task *parent;
    rk_task *parts;       // `count` of them, and behind them the joining one
    uint64_t count, handed, done;
    uint64_t pieces;      // long rows: parts per row; 0: short rows
    unsigned char *states; // long rows: rows x pieces states
    rp_fault fault;       // of the first row that failed
};

static uint64_t div_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// Parts of whole rows, each writing its own cells.
static void cut_rows(Split *s, uint64_t rows_each)
{
    const rk_task *p = s->parent;
    size_t row_bytes = p->spec.row_len * rp_item_size(&p->spec), cell = rp_cell_size(&p->spec);
    for (uint64_t i = 0; i < s->count; i++) {
        rk_task *t = &s->parts[i];
        uint64_t first = i * rows_each, rows = p->spec.rows - first < rows_each ? p->spec.rows - first : rows_each;
        *t = *p;
        t->spec.rows = rows;
        t->data = (const unsigned char *)p->data + first * row_bytes;
        t->bytes = rows * row_bytes;
        t->cells = (unsigned char *)p->cells + first * cell;
        t->impl = s;
    }
}

// Parts of one row each, leaving states, and the part that joins these.
static void cut_pieces(Split *s, uint64_t items_each)
{
    const rk_task *p = s->parent;
    size_t item = rp_item_size(&p->spec), state = rp_state_size(rp_state_layout(p->spec.op, p->spec.dtype));
    for (uint64_t i = 0; i < s->count; i++) {
        rk_task *t = &s->parts[i];
        uint64_t row = i / s->pieces, from = i % s->pieces * items_each;
        uint64_t items = p->spec.row_len - from < items_each ? p->spec.row_len - from : items_each;
        *t = *p;
        t->spec.rows = 1;
        t->spec.row_len = items;
        t->spec.flags = (t->spec.flags & ~(uint32_t)(RP_INITIAL | RP_WRAP)) | RP_STATES_OUT; // those are for the end
        t->data = (const unsigned char *)p->data + (row * p->spec.row_len + from) * item;
        t->bytes = items * item;
        t->cells = s->states + i * state;
        t->base = p->base + (p->spec.flags & RP_STATES_IN ? 0 : from);
        t->impl = s;
    }
    rk_task *join = &s->parts[s->count];
    *join = *p;
    join->spec.flags |= RP_STATES_IN;
    join->spec.row_len = s->pieces;
    join->data = s->states;
    join->bytes = s->count * state;
    join->impl = s;
}

Split *split_open(rk_task *parent, size_t chunk_bytes)
{
    const rp_spec &spec = parent->spec;
    uint64_t row_bytes = spec.row_len * rp_item_size(&spec), rows_each = chunk_bytes / row_bytes;
    uint64_t items_each = chunk_bytes / 64 * 64 / rp_item_size(&spec); // pieces start where 16-byte loads may
    size_t state = rp_state_size(rp_state_layout(spec.op, spec.dtype));
    Split *s = (Split *)calloc(1, sizeof *s);
    if (s) {
        s->parent = parent;
        s->pieces = rows_each ? 0 : div_up(spec.row_len, items_each);
        s->count = rows_each ? div_up(spec.rows, rows_each) : spec.rows * s->pieces;
        s->parts = (rk_task *)calloc(s->count + 1, sizeof *s->parts);
        s->states = s->pieces ? (unsigned char *)malloc(s->count * state) : NULL;
    }
    if (!s || !s->parts || (s->pieces && !s->states)) {
        rp_fail(&parent->fault, RP_NO_MEMORY, "data", 0, "no memory to cut the task into parts");
        if (s) {
            free(s->parts);
            free(s->states);
        }
        free(s);
        return NULL;
    }
    rp_fail(&s->fault, RP_OK, "", 0, "%s", "");
    parent->start_ns = rk_now_ns();
    parent->copy_ns = parent->compute_ns = 0;
    if (rows_each)
        cut_rows(s, rows_each);
    else
        cut_pieces(s, items_each);
    return s;
}

rk_task *split_next(Split *s, bool *more)
{
    rk_task *part = &s->parts[s->handed++];
    *more = s->handed < s->count;
    return part;
}

rk_task *split_join(Split *s)
{
    if (!s->pieces || s->done != s->count || s->fault.code != RP_OK)
        return NULL;
    return &s->parts[s->count];
}

// First row that a part covers, in the parent's rows.
static uint64_t first_row(const Split *s, const rk_task *part)
{
    uint64_t i = (uint64_t)(part - s->parts);
    if (i == s->count)
        return 0;
    return s->pieces ? i / s->pieces : i * s->parts[0].spec.rows;
}

void split_done(Split *s, const rk_task *part)
{
    rk_task *p = s->parent;
    p->copy_ns += part->copy_ns;
    p->compute_ns += part->compute_ns;
    p->backend = part->backend;
    if (part->fault.code != RP_OK) {
        rp_fault f = part->fault;
        if (f.index != RP_NO_INDEX)
            f.index += first_row(s, part);
        if (s->fault.code == RP_OK || f.index < s->fault.index)
            s->fault = f;
    }
    s->done++;
}

bool split_finished(const Split *s)
{
    if (s->done < s->count)
        return false;
    return !s->pieces || s->done > s->count || s->fault.code != RP_OK;
}

rk_task *split_close(Split *s)
{
    rk_task *p = s->parent;
    p->fault = s->fault;
    free(s->parts);
    free(s->states);
    free(s);
    return p;
}

} // namespace rk
