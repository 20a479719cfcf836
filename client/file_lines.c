#include "client/file_lines.h"

#include <stdlib.h>
#include <string.h>

#include "client/error.h"
#include "kernels/cpu/order/ranked.h"
#include "kernels/cpu/threads/here.h"

enum {
    LINES_BYTES = 128 << 20, /* lines that are in memory together */
    BLOCK_BYTES = 16 << 20,  /* a block of a longer line, or of rows of which some columns are taken */
    PIECE_BYTES = 4096       /* of a row that is worth a read of its own */
};

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t bytes_of(const rc_level *l, uint64_t line)
{
    return l->item * (l->offsets ? rc_offset(l->offsets, line + 1) - rc_offset(l->offsets, line) : l->len);
}

bool rc_file_has_lines(const rc_ask *a) { return !a->whole.runs && !a->whole.beside; }

static int no_memory(rp_fault *f) { return rc_fail(f, REDUCE_E_NO_MEMORY, "file", "no memory for a block of the file"); }

static bool read_tile(const rc_ask *a, const rc_tile *t, uint8_t *to, rp_fault *f)
{
    const rc_datapath d = {.fd = a->in.fd, .offset = a->in.offset};
    return rc_datapath_read(&d, t, a->whole.item, to, f);
}

/* Pieces of rows that follow one another in `to`. Small pieces come from blocks of whole rows. */
static bool read_pieces(const rc_ask *a, const rc_tile *t, uint8_t *to, rp_fault *f)
{
    const uint64_t item = a->whole.item, piece = t->width * item, row = t->stride * item, most = BLOCK_BYTES / row;
    uint8_t *block = NULL;
    bool ok = true;
    if (rc_is_contiguous(t) || piece >= PIECE_BYTES || most < 2)
        return read_tile(a, t, to, f);
    if (!(block = malloc(BLOCK_BYTES))) {
        no_memory(f);
        return false;
    }
    for (uint64_t i = 0, rows; i < t->height && ok; i += rows) {
        rows = least(most, t->height - i);
        const uint64_t n = (rows - 1) * t->stride + t->width; /* the last row may end with the file */
        const rc_tile all = {.at = t->at + i * t->stride, .height = 1, .width = n, .stride = n};
        ok = read_tile(a, &all, block, f);
        for (uint64_t k = 0; k < rows && ok; k++)
            memcpy(to + (i + k) * piece, block + k * row, piece);
    }
    free(block);
    return ok;
}

/* Their mask. */
static void take_mask(const rc_ask *a, const rc_tile *t, uint8_t *to)
{
    for (uint64_t i = 0; i < t->height; i++)
        memcpy(to + i * t->width, a->whole.mask + t->at + i * t->stride, t->width);
}

/* ---- a long line ---- */

typedef struct file_line {
    const rc_ask *a;
    uint64_t at, stride; /* its first element in the file; from one to the next */
    uint8_t *block, *mask;
    rk_task task;
    rk_selection selection;
} file_line;

/* False: `f` says why. */
static bool read_pass(file_line *x, rp_fault *f)
{
    rk_reader *line = x->selection.line;
    for (uint64_t some; line->before < line->n; line->before += some) {
        some = least(line->n - line->before, BLOCK_BYTES / line->size);
        const rc_tile t = {.at = x->at + line->before * x->stride, .height = some, .width = 1, .stride = x->stride};
        if (rk_task_late(&x->task, f) || !read_pieces(x->a, &t, x->block, f))
            return false;
        if (x->mask)
            take_mask(x->a, &t, x->mask);
        line->x = x->block;
        line->mask = x->mask;
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

static int run_long(const rc_ask *a, const rp_spec *spec, uint64_t line, const rc_tile *t, uint64_t until_ns, rp_fault *f)
{
    file_line *x = calloc(1, sizeof *x);
    if (!x || !(x->block = malloc(BLOCK_BYTES)) || (a->whole.mask && !(x->mask = malloc(BLOCK_BYTES / a->whole.item)))) {
        free(x ? x->block : NULL);
        free(x);
        return no_memory(f);
    }
    x->a = a;
    x->at = t->at;
    x->stride = t->stride;
    x->task = (rk_task){.spec = *spec, .cells = (uint8_t *)a->out + line * rp_cell_size(spec), .until_ns = until_ns};
    x->task.spec.flags &= ~(uint32_t)RP_COLUMNS;
    x->task.spec.rows = 1;
    x->task.spec.row_len = t->height;
    const int err = run_passes(x, f);
    rk_selection_close(&x->selection);
    free(x->block);
    free(x->mask);
    free(x);
    return err;
}

/* ---- several lines ---- */

/* `lines` lines from `line` on, whose elements are these. */
static int run_together(const rc_ask *a, const rp_spec *spec, uint64_t line, uint64_t lines, const rc_tile *t,
                        uint64_t until_ns, rp_fault *f)
{
    const rc_level *l = &a->whole;
    const uint64_t n = t->height * t->width;
    uint8_t *data = malloc((size_t)(n * (l->item + 1)) + 1), *mask = data + n * l->item;
    const rp_parts beside = {.mask = l->mask ? mask : NULL};
    rp_spec s = *spec;
    const bool columns = s.flags & RP_COLUMNS;
    s.rows = columns ? t->height : lines;
    s.row_len = columns ? lines : n / lines;
    int err = data ? 0 : no_memory(f);
    if (data && !read_pieces(a, t, data, f))
        err = f->code;
    if (!err && l->mask)
        take_mask(a, t, mask);
    if (!err)
        err = (int)rk_reduce_here(&s, data, &beside, (size_t)(n * (l->item + (l->mask ? 1 : 0))), a->threads, until_ns,
                                  (uint8_t *)a->out + line * rp_cell_size(spec), f);
    free(data);
    return err;
}

/* How many neighbours of one length may be in memory; 0: not even one. Segments: one at a time. */
static uint64_t lines_together(const rc_level *l, uint64_t line)
{
    const uint64_t bytes = bytes_of(l, line), most = bytes ? LINES_BYTES / bytes : l->lines,
                   left = l->spec.flags & RP_COLUMNS ? l->width - line % l->width : l->lines - line;
    return l->offsets ? most > 0 : least(most, left);
}

/* The elements of these lines. */
static rc_tile tile_of(const rc_level *l, uint64_t line, uint64_t lines)
{
    const uint64_t n = bytes_of(l, line) / l->item * lines;
    if (l->spec.flags & RP_COLUMNS)
        return (rc_tile){
            .at = line / l->width * l->len * l->width + line % l->width, .height = l->len, .width = lines, .stride = l->width};
    return (rc_tile){.at = l->offsets ? rc_offset(l->offsets, line) : line * l->len, .height = n, .width = 1, .stride = 1};
}

int rc_run_file_lines(const rc_ask *a, uint64_t until_ns, rp_fault *f)
{
    const rc_level *l = &a->whole;
    rp_spec spec = l->spec;
    spec.flags = (l->mask ? RP_MASK : 0) | (l->spec.flags & RP_COLUMNS);
    spec.planes = 0;
    int err = 0;
    for (uint64_t line = 0, lines; line < l->lines && !err; line += lines) {
        const uint64_t together = lines_together(l, line);
        lines = together ? together : 1;
        const rc_tile t = tile_of(l, line, lines);
        err = together ? run_together(a, &spec, line, lines, &t, until_ns, f) : run_long(a, &spec, line, &t, until_ns, f);
        if (err && f->index != RP_NO_INDEX)
            f->index += line;
    }
    return err;
}
