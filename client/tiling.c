#include "client/tiling.h"

#include <string.h>

#include "kernels/exact/layout.h"

enum {
    PANEL_BYTES = 1024,  /* a cut column goes in panels at least this wide: rows are copied in pieces of some cache lines, and a
                           block of most / PANEL_BYTES elements is far larger than its state */
    FILE_PANEL = 4096,   /* the same of a file, where each piece is a call; wider as long as */
    FILE_STATES = 64,    /* states that a block is as large as: merging one takes as long as reading some hundred bytes */
    FEWEST_ROWS = 64,    /* of a block, should messages be short */
    LONG_PANEL = 8192,   /* of a long range, whose rows the daemon's readers read */
    MOST_COLUMNS = 4096, /* that a reader reduces; more of them are worth several threads */
    LITTLE = 256,        /* states are small if LITTLE times their bytes are no more than a message takes */
    MESSAGES = 16,       /* by key: of elements at least, whose states are as large as one */
    LONG_TILES = 32      /* that a file of many columns has at least, so that each reader gets several */
};

static uint64_t divide_up(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }
static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t at_least_one(uint64_t a) { return a ? a : 1; }

uint64_t rc_offset(const uint8_t *offsets, uint64_t i)
{
    uint64_t v;
    memcpy(&v, offsets + 8 * i, sizeof v);
    return v;
}

static bool has_keys(const rc_level *l) { return l->spec.flags & RP_KEYS; }

size_t rc_beside_size(const rc_level *l) { return l->beside ? rp_dtype_size(has_keys(l) ? l->spec.keys : l->spec.weights) : 0; }

/* Bytes that one element takes in a message, with a weight even if several share it. */
static uint64_t unit(const rc_level *l)
{
    return (l->stays ? 0 : l->item + (l->mask || l->spec.flags & RP_MASK ? 1 : 0)) + rc_beside_size(l);
}

bool rc_is_long(const rc_level *l, const rc_sizes *sizes, uint64_t n)
{
    return n > (sizes->most - 2 * sizeof(uint64_t)) / unit(l);
}

/* ---- tiles ---- */

static void plan_rows(rc_level *l, const rc_sizes *sizes)
{
    uint64_t fit = sizes->most / unit(l); /* elements */
    l->tile_len = l->len;
    l->tile_lines = l->len ? fit / l->len : UINT64_MAX;
    if (l->tile_lines == 0) {
        l->tile_lines = 1;
        l->tile_len = sizes->chunk / unit(l);
    }
}

bool rc_keys_fit(const rc_level *l, uint64_t most)
{
    const uint64_t whole = l->stays ? l->lines : RP_MAX_DATA / rp_cell_size(&l->spec),
                   cut = RP_MAX_DATA / MESSAGES / rp_state_size(rp_spec_layout(&l->spec));
    return l->lines <= (l->len <= most / unit(l) ? whole : cut);
}

/* All groups, of all elements or of some. */
static void plan_keys(rc_level *l, const rc_sizes *sizes)
{
    l->tile_lines = l->lines;
    l->tile_len = l->len <= sizes->most / unit(l) ? l->len : sizes->chunk / unit(l);
}

uint64_t rc_panel_of_file(const rc_level *l, uint64_t most)
{
    const uint64_t state = rp_state_size(rp_spec_layout(&l->spec));
    const uint64_t wide = most / FILE_STATES * l->item / state / FILE_PANEL * FILE_PANEL;
    return least(wide > FILE_PANEL ? wide : FILE_PANEL, most / FEWEST_ROWS);
}

/* Runs of a row that is cut: whole ones, or parts of one. */
static void plan_runs(rc_level *l, const rc_sizes *sizes)
{
    const uint64_t run = l->len / l->runs;
    plan_rows(l, sizes);
    if (l->tile_len > run)
        l->tile_len -= l->tile_len % run;
    l->blocks = l->tile_len < run ? l->runs * divide_up(run, l->tile_len) : divide_up(l->len, l->tile_len);
}

static uint64_t panel_of_long(const rc_level *l) { return least(LONG_PANEL, MOST_COLUMNS * l->item); }

/* Are the states of whole rows so small, beside a message full of these rows, that they may as well travel? */
static bool leaves_little(const rc_level *l)
{
    const uint64_t state = rp_state_size(rp_spec_layout(&l->spec));
    return l->width <= RP_MAX_DATA / LITTLE / state && l->width * l->item <= LONG_PANEL;
}

uint64_t rc_long_tile(const rc_level *l, uint64_t bytes, uint64_t limit, uint64_t *panel)
{
    const uint64_t column = l->len * l->item, whole = least(column, UINT64_MAX / LONG_PANEL) * (panel_of_long(l) / l->item),
                   even = bytes / LONG_TILES, wanted = even > whole ? even : whole,
                   most = least(least(wanted, limit), least(column, UINT64_MAX / MOST_COLUMNS) * MOST_COLUMNS);
    *panel = panel_of_long(l);
    return most > RP_MAX_DATA && !leaves_little(l) ? most : 0;
}

/* Of several planes some whole ones if they fit a message. Else whole columns if a panel of them that is wide enough does, else
 * blocks of rows of a narrower one. */
static void plan_columns(rc_level *l, const rc_sizes *sizes)
{
    uint64_t fit = sizes->most / unit(l), bytes = sizes->panel ? sizes->panel : PANEL_BYTES;
    uint64_t panel = least(l->width, at_least_one(bytes / unit(l)));
    l->tile_len = l->len;
    l->tile_lines = fit / l->len;
    if (l->tile_lines >= l->width)
        return;
    if (l->tile_lines < panel) {
        l->tile_lines = panel;
        l->tile_len = fit / panel;
    }
}

void rc_tiling(rc_level *l, const rc_sizes *sizes)
{
    l->most = sizes->most;
    l->line = l->block = 0;
    if (l->offsets)
        l->tile_lines = l->tile_len = UINT64_MAX; /* as many as fit, see next_segments */
    else if (l->spec.flags & RP_COLUMNS)
        plan_columns(l, sizes);
    else if (has_keys(l))
        plan_keys(l, sizes);
    else
        plan_rows(l, sizes);
    l->blocks = l->offsets || l->len == 0 ? 1 : divide_up(l->len, l->tile_len);
    if (l->runs)
        plan_runs(l, sizes);
    if (l->blocks > 1 && rp_is_ranked(l->spec.op)) /* there are no states: the caller does not cut such a level */
        return;
    if (l->blocks > 1) {
        l->spec.flags = (l->spec.flags & ~(uint32_t)RP_INITIAL) | RP_STATES_OUT;
        l->spec.initial = 0;
    }
    l->cell = rp_cell_size(&l->spec);
    if (has_keys(l)) /* rc_keys_fit */
        return;
    l->tile_lines = least(l->tile_lines, (sizes->cells ? sizes->cells : RP_MAX_DATA) / l->cell);
    if (l->width && l->tile_lines >= l->width) /* whole planes */
        l->tile_lines -= l->tile_lines % l->width;
}

/* As many segments as fit; the first one does. */
static void next_segments(const rc_level *l, rc_tile *t)
{
    uint64_t begin = rc_offset(l->offsets, l->line), n = 0, elements = 0;
    while (n < l->tile_lines && l->line + n < l->lines) {
        uint64_t more = rc_offset(l->offsets, l->line + n + 1) - begin;
        if (n && 8 * (n + 2) + more * unit(l) > l->most)
            break;
        elements = more;
        n++;
    }
    t->lines = n;
    t->offsets = l->offsets + 8 * l->line;
    t->spec.rows = n;
    t->spec.row_len = elements;
    t->spec.flags |= RP_OFFSETS;
    t->at = begin;
    t->height = 1;
    t->stride = t->width = elements;
}

/* `n` positions of rows from position `from` on. */
static void next_rows(const rc_level *l, rc_tile *t, uint64_t from, uint64_t n)
{
    t->lines = least(l->tile_lines, l->lines - l->line);
    t->spec.rows = t->height = t->lines;
    t->spec.row_len = t->width = n;
    t->stride = l->len;
    t->at = l->line * l->len + from;
    t->weights_at = l->spec.weights_extent == RP_EXTENT_ROW ? from : l->line;
}

/* The same of elements with keys. */
static void next_keyed(const rc_level *l, rc_tile *t, uint64_t from, uint64_t n)
{
    t->lines = t->spec.rows = l->lines;
    t->height = 1;
    t->spec.row_len = t->width = t->stride = n;
    t->at = from;
}

/* The same of rows in runs: of all or some whole runs, or of one. A block of parts of runs ends with its run. */
static void next_runs(const rc_level *l, rc_tile *t)
{
    const uint64_t run = l->len / l->runs, each = least(run, l->tile_len), pieces = divide_up(run, each);
    const uint64_t first = l->tile_len > run ? l->block * (l->tile_len / run) : l->block / pieces,
                   from = l->block % pieces * each;
    t->lines = least(l->tile_lines, l->lines - l->line);
    t->height = least(l->tile_len > run ? l->tile_len / run : 1, l->runs - first);
    t->width = t->lines * least(each, run - from);
    t->stride = l->lines * run;
    t->at = first * t->stride + l->line * run + from;
    t->weights_at = l->spec.weights_extent == RP_EXTENT_ROW ? from : l->line;
    t->spec.rows = t->lines;
    t->spec.row_len = t->width / t->lines;
    t->spec.planes = t->height > 1 ? t->height : 0;
    t->spec.index_base += first * run + from;
}

/* The same of columns: of whole planes, or of some within one. */
static void next_columns(const rc_level *l, rc_tile *t, uint64_t from, uint64_t n)
{
    const uint64_t plane = l->line / l->width, column = l->line % l->width;
    const bool whole = l->tile_lines >= l->width;
    t->lines = least(l->tile_lines, whole ? l->lines - l->line : l->width - column);
    t->width = whole ? l->width : t->lines;
    t->height = n * (t->lines / t->width);
    t->spec.rows = n;
    t->spec.row_len = t->width;
    t->spec.planes = t->lines > t->width ? t->lines / t->width : 0;
    t->stride = l->width;
    t->at = (plane * l->len + from) * l->width + column;
    t->weights_at = l->spec.weights_extent == RP_EXTENT_ROW ? column : from;
}

static void next_rectangle(const rc_level *l, rc_tile *t)
{
    uint64_t from = l->block * l->tile_len, n = least(l->tile_len, l->len - from);
    t->spec.index_base += from;
    if (l->spec.flags & RP_COLUMNS)
        next_columns(l, t, from, n);
    else if (has_keys(l))
        next_keyed(l, t, from, n);
    else
        next_rows(l, t, from, n);
}

bool rc_next_tile(rc_level *l, rc_tile *t)
{
    if (l->line == l->lines)
        return false;
    *t = (rc_tile){.spec = l->spec, .line = l->line, .block = l->block};
    if (l->mask)
        t->spec.flags |= RP_MASK;
    if (l->offsets)
        next_segments(l, t);
    else if (l->runs)
        next_runs(l, t);
    else
        next_rectangle(l, t);
    const uint64_t each = l->stays ? 0 : l->item + (t->spec.flags & RP_MASK ? 1 : 0);
    t->bytes = t->height * t->width * each + (t->offsets ? 8 * (t->lines + 1) : 0);
    t->bytes += l->beside ? rp_role_bytes(&t->spec, has_keys(l) ? RP_ROLE_KEYS : RP_ROLE_WEIGHTS) : 0;
    if (++l->block == l->blocks) {
        l->block = 0;
        l->line += t->lines;
    }
    return true;
}

/* ---- data ---- */

static uint8_t *copy_rectangle(const rc_tile *t, const uint8_t *from, uint64_t size, uint8_t *to)
{
    uint64_t height = t->height, width = t->width;
    if (width == t->stride) { /* whole rows: one piece */
        width *= height;
        height = 1;
    }
    for (uint64_t i = 0; i < height && width; i++, to += width * size)
        memcpy(to, from + (t->at + i * t->stride) * size, (size_t)(width * size));
    return to;
}

void rc_fill_tile(const rc_level *l, const rc_tile *t, uint8_t *to)
{
    if (t->offsets) {
        for (uint64_t i = 0; i <= t->lines; i++, to += 8) {
            uint64_t offset = rc_offset(t->offsets, i) - t->at;
            memcpy(to, &offset, sizeof offset);
        }
    }
    to = copy_rectangle(t, l->elements, l->item, to);
    if (l->mask)
        to = copy_rectangle(t, l->mask, 1, to);
    rc_fill_beside(l, t, to);
}

void rc_fill_beside(const rc_level *l, const rc_tile *t, uint8_t *to)
{
    const size_t size = rc_beside_size(l);
    if (l->beside && (has_keys(l) || l->spec.weights_extent == RP_EXTENT_ELEMENTS))
        copy_rectangle(t, l->beside, size, to);
    else if (l->beside)
        memcpy(to, l->beside + t->weights_at * size, (size_t)rp_role_bytes(&t->spec, RP_ROLE_WEIGHTS));
}

void rc_place_cells(const rc_level *l, const rc_tile *t, const uint8_t *cells, uint8_t *to)
{
    if (l->blocks == 1) {
        memcpy(to + t->line * l->cell, cells, (size_t)(t->lines * l->cell));
        return;
    }
    for (uint64_t i = 0; i < t->lines; i++)
        memcpy(to + ((t->line + i) * l->blocks + t->block) * l->cell, cells + i * l->cell, (size_t)l->cell);
}

void rc_next_level(rc_level *l, const uint8_t *states, const rp_spec *finish)
{
    l->spec = *finish;
    l->spec.flags |= RP_STATES_IN;
    l->elements = states;
    l->mask = l->beside = NULL;
    l->stays = false;
    l->item = l->cell;
    l->len = l->blocks;
    l->width = l->runs = 0;
}
