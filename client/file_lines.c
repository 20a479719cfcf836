#include "client/file_lines.h"

#include <stdlib.h>

#include "client/error.h"
#include "kernels/cpu/order/ranked.h"
#include "kernels/cpu/threads/here.h"

enum {
    LINES_BYTES = 128 << 20, /* lines that are in memory together */
    BLOCK_BYTES = 16 << 20   /* a block of a longer line */
};

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t bytes_of(const rc_level *l, uint64_t line)
{
    return l->item * (l->offsets ? rc_offset(l->offsets, line + 1) - rc_offset(l->offsets, line) : l->len);
}

bool rc_file_has_lines(const rc_ask *a) { return !(a->whole.spec.flags & RP_COLUMNS) && !a->whole.runs && !a->whole.weights; }

static int no_memory(rp_fault *f) { return rc_fail(f, REDUCE_E_NO_MEMORY, "file", "no memory for a block of the file"); }

static bool read_block(const rc_ask *a, uint64_t at, uint64_t n, uint8_t *to, rp_fault *f)
{
    const rc_datapath d = {.fd = a->in.fd, .offset = a->in.offset};
    const rc_tile t = {.at = at, .height = 1, .width = n, .stride = n};
    return rc_datapath_read(&d, &t, a->whole.item, to, f);
}

/* ---- a long line ---- */

typedef struct file_line {
    const rc_ask *a;
    uint64_t at; /* its first element in the file */
    uint8_t *block;
    rk_task task;
    rk_selection selection;
} file_line;

/* False: `f` says why. */
static bool read_pass(file_line *x, rp_fault *f)
{
    rk_reader *line = x->selection.line;
    const uint8_t *mask = x->a->whole.mask;
    for (uint64_t some; line->before < line->n; line->before += some) {
        some = least(line->n - line->before, BLOCK_BYTES / line->size);
        if (rk_task_late(&x->task, f) || !read_block(x->a, x->at + line->before, some, x->block, f))
            return false;
        line->x = x->block;
        line->mask = mask ? mask + x->at + line->before : NULL;
        rk_selection_pass(&x->selection, line->before, line->before + some);
    }
    line->before = 0;
    return true;
}

static int run_passes(file_line *x, rp_fault *f)
{
    rk_selection *o = &x->selection;
    bool again = true, ok = rk_selection_init(o, rk_simd_best(), &x->task);
    if (!ok)
        return no_memory(f);
    o->line->n = o->line->run = o->line->stride = x->task.spec.row_len;
    ok = rk_selection_open(o);
    while (ok && again) {
        if (!read_pass(x, f))
            return f->code;
        ok = rk_selection_next(o, &again);
    }
    return ok ? (int)rk_selection_cell(o, 0, f) : no_memory(f);
}

static int run_long(const rc_ask *a, const rp_spec *spec, uint64_t line, uint64_t at, uint64_t until_ns, rp_fault *f)
{
    file_line *x = calloc(1, sizeof *x);
    if (!x || !(x->block = malloc(BLOCK_BYTES))) {
        free(x);
        return no_memory(f);
    }
    x->a = a;
    x->at = at;
    x->task = (rk_task){.spec = *spec, .cells = (uint8_t *)a->out + line * rp_cell_size(spec), .until_ns = until_ns};
    x->task.spec.rows = 1;
    x->task.spec.row_len = bytes_of(&a->whole, line) / a->whole.item;
    const int err = run_passes(x, f);
    rk_selection_close(&x->selection);
    free(x->block);
    free(x);
    return err;
}

/* ---- several lines ---- */

static int run_together(const rc_ask *a, const rp_spec *spec, uint64_t line, uint64_t lines, uint64_t at, uint64_t n,
                        uint64_t until_ns, rp_fault *f)
{
    const rc_level *l = &a->whole;
    const rp_parts beside = {.mask = l->mask ? l->mask + at : NULL};
    uint8_t *data = malloc((size_t)(n * l->item) + 1);
    rp_spec s = *spec;
    s.rows = lines;
    s.row_len = n / lines;
    int err = data ? 0 : no_memory(f);
    if (data && !read_block(a, at, n, data, f))
        err = f->code;
    if (!err)
        err = (int)rk_reduce_here(&s, data, &beside, (size_t)(n * (l->item + (l->mask ? 1 : 0))), a->threads, until_ns,
                                  (uint8_t *)a->out + line * rp_cell_size(spec), f);
    free(data);
    return err;
}

/* Neighbours of one length, as many as may be in memory; segments one at a time. */
static uint64_t lines_together(const rc_level *l, uint64_t line)
{
    const uint64_t bytes = bytes_of(l, line), most = bytes ? LINES_BYTES / bytes : l->lines;
    return l->offsets ? most > 0 : least(most, l->lines - line);
}

int rc_run_file_lines(const rc_ask *a, uint64_t until_ns, rp_fault *f)
{
    const rc_level *l = &a->whole;
    rp_spec spec = l->spec;
    spec.flags = l->mask ? RP_MASK : 0;
    spec.planes = 0;
    int err = 0;
    for (uint64_t line = 0, lines; line < l->lines && !err; line += lines) {
        const uint64_t at = l->offsets ? rc_offset(l->offsets, line) : line * l->len;
        lines = lines_together(l, line);
        if (lines)
            err = run_together(a, &spec, line, lines, at, lines * (bytes_of(l, line) / l->item), until_ns, f);
        else
            err = run_long(a, &spec, line, at, until_ns, f);
        if (err && f->index != RP_NO_INDEX)
            f->index += line;
        lines += !lines;
    }
    return err;
}
