#include "kernels/cuda/runtime/chunking.h"

#include <cstdlib>

#include "kernels/exact/cell.h"

namespace rk {

struct Split {
    rk_task *parent;
    rk_task *parts; // `count` of them, and behind them the joining one
    uint64_t count, handed, done;
    uint64_t pieces;       // long rows: parts per row; 0: short rows
    unsigned char *states; // long rows: rows x pieces states
    rp_fault fault;        // of the first row that failed
};

static uint64_t div_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// Parts of what is copied to memory of the engine.
static void cut_fill(Split *s, size_t bytes_each)
{
    const rk_task *p = s->parent;
    for (uint64_t i = 0; i < s->count; i++) {
        rk_task *t = &s->parts[i];
        const size_t first = i * bytes_each;
        *t = *p;
        t->data = (const unsigned char *)p->data + first;
        t->bytes = p->bytes - first < bytes_each ? p->bytes - first : bytes_each;
        t->offset = p->offset + first;
        t->impl = s;
    }
}

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

// Room for `count` parts, of long rows `pieces` of each. NULL: the parent's fault is set.
static Split *new_split(rk_task *parent, uint64_t count, uint64_t pieces)
{
    const size_t state = rp_state_size(rp_state_layout(parent->spec.op, parent->spec.dtype));
    Split *s = (Split *)calloc(1, sizeof *s);
    if (s) {
        s->parent = parent;
        s->pieces = pieces;
        s->count = count;
        s->parts = (rk_task *)calloc(count + 1, sizeof *s->parts);
        s->states = pieces ? (unsigned char *)malloc(count * state) : NULL;
    }
    if (!s || !s->parts || (pieces && !s->states)) {
        rp_fail(&parent->fault, RP_NO_MEMORY, "data", 0, "no memory to cut the task into parts");
        if (s) {
            free(s->parts);
            free(s->states);
        }
        free(s);
        return NULL;
    }
    rp_fail(&s->fault, RP_OK, "", 0, "%s", "");
    return s;
}

static Split *open_fill(rk_task *parent, size_t chunk_bytes)
{
    Split *s = new_split(parent, div_up(parent->bytes, chunk_bytes), 0);
    if (s)
        cut_fill(s, chunk_bytes);
    return s;
}

static Split *open_rows(rk_task *parent, uint64_t rows_each)
{
    Split *s = new_split(parent, div_up(parent->spec.rows, rows_each), 0);
    if (s)
        cut_rows(s, rows_each);
    return s;
}

static Split *open_pieces(rk_task *parent, uint64_t items_each)
{
    const uint64_t pieces = div_up(parent->spec.row_len, items_each);
    Split *s = new_split(parent, parent->spec.rows * pieces, pieces);
    if (s)
        cut_pieces(s, items_each);
    return s;
}

Split *split_open(rk_task *parent, size_t chunk_bytes)
{
    if (parent->fill)
        return open_fill(parent, chunk_bytes);
    const size_t item = rp_item_size(&parent->spec);
    const uint64_t rows_each = chunk_bytes / (parent->spec.row_len * item);
    return rows_each ? open_rows(parent, rows_each)
                     : open_pieces(parent, chunk_bytes / 64 * 64 / item); // they start where 16-byte loads may
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
        if (f.index != RP_NO_INDEX && first_row(s, part))
            rk_cell_fault_move(&f, &p->spec, f.index + first_row(s, part));
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
