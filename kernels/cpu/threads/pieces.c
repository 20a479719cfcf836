#include "kernels/cpu/threads/pieces.h"

#include <stdlib.h>

#include "kernels/cpu/keys/by_key.h"
#include "kernels/cpu/loops/sums/near.h"
#include "kernels/cpu/order/ranked.h"
#include "kernels/engine/engine.h"
#include "kernels/exact/runs.h"

enum {
    PIECE_MIN = 128 << 10, /* bytes: some 10 us of work, against 1 us for handing a piece out */
    PIECE_MAX = 4 << 20,   /* bytes: larger ones save nothing, and closing waits for whole pieces */
    PIECES_PER_THREAD = 4, /* evens out delayed workers */
    FEW_COLUMNS = 64,      /* each needs a slot */
    LINE_BYTES = 512       /* a cell costs about as much as this many bytes of elements */
};

/* ---- cutting ---- */

static uint64_t at_least_1(uint64_t v) { return v ? v : 1; }
static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t round_up(uint64_t v, uint64_t by) { return (v + by - 1) / by * by; }

static uint64_t piece_bytes(int threads, uint64_t bytes)
{
    uint64_t size = bytes / ((uint64_t)threads * PIECES_PER_THREAD);
    return size < PIECE_MIN ? PIECE_MIN : size > PIECE_MAX ? PIECE_MAX : size;
}

/* Where a line begins on the scale; the start of line `rows` is the scale's end. */
static uint64_t line_start(const rk_pieces *j, const rp_parts *p, uint64_t line)
{
    const rp_spec *s = &j->t->spec;
    uint64_t elements = s->flags & RP_OFFSETS ? rk_offset(p->offsets, line) - rk_offset(p->offsets, 0)
                                              : line * rk_row_elements(s);
    return elements + line * j->weight;
}

static void cut_lines(rk_pieces *j, uint64_t bytes, size_t size)
{
    rp_parts p = rp_spec_parts(&j->t->spec, j->t->data, j->t->beside);
    j->how = RK_LINES;
    j->weight = LINE_BYTES / size;
    j->units = line_start(j, &p, j->t->spec.rows);
    j->each = bytes / size;
    if (j->units / RK_MAX_PIECES >= j->each)
        j->each = j->units / RK_MAX_PIECES + 1;
}

/* Cuts columns between whole tiles or whole planes, so that no two pieces read the same memory. */
static uint64_t whole_columns(const rp_spec *s, uint64_t columns)
{
    const uint64_t tile = least(rk_cpu_tile(s), at_least_1(s->row_len));
    return round_up(columns, columns < s->row_len ? tile : at_least_1(s->row_len));
}

static void cut_columns(rk_pieces *j, uint64_t bytes, size_t size)
{
    const rp_spec *s = &j->t->spec;
    uint64_t row_bytes = s->row_len * size, column_bytes = s->rows * size + LINE_BYTES, columns = rp_results(s);
    if (columns <= FEW_COLUMNS && rp_elements(s) * size >= 2 * bytes) {
        j->how = RK_ROWS_OF_COLUMNS;
        j->units = rp_planes(s) * s->rows;
        j->each = at_least_1(bytes / at_least_1(row_bytes));
    } else {
        j->how = RK_COLUMNS;
        j->units = columns;
        j->each = whole_columns(s, at_least_1(bytes / column_bytes));
    }
}

static void begin(rk_pieces *j, bool near)
{
    j->near = near;
    j->next = 0;
    j->left = j->pieces;
    for (int i = 0; i < RK_MAX_PIECES; i++)
        j->line[i] = RP_NO_INDEX;
}

/* ---- order statistics ---- */

/* Lines one after the other, each by all threads: the first piece of a line opens it, then pieces read all of it in each
 * pass. */
static void cut_shared(rk_pieces *j)
{
    j->how = RK_SHARED_LINES;
    j->units = 0;
    j->each = 1;
    j->ordered_line = 0;
    j->opened = j->late = false;
}

/* Lines of about the same length go to threads whole. */
static void cut_ranked(rk_pieces *j, int threads, uint64_t bytes)
{
    const uint64_t lines = rp_results(&j->t->spec);
    j->ordered = NULL;
    if (rk_ranked_shares(j->t, threads)) {
        cut_shared(j);
        return;
    }
    j->how = RK_RANKED;
    j->units = lines;
    j->each = at_least_1(bytes / at_least_1((j->t->bytes + lines * LINE_BYTES) / at_least_1(lines)));
    if (j->t->spec.flags & RP_COLUMNS)
        j->each = whole_columns(&j->t->spec, j->each);
}

static void cut_keyed(rk_pieces *j, int threads, uint64_t bytes, size_t size)
{
    const bool elements = rk_by_key_shares(j->t, threads);
    j->tables = NULL;
    j->how = elements ? RK_KEYED_ELEMENTS : RK_KEYED_GROUPS;
    j->units = elements ? j->t->spec.row_len : j->t->spec.rows;
    j->each = elements ? bytes / size : rk_by_key_groups(j->t, threads);
}

void rk_cut(rk_pieces *j, rk_task *t, int threads, const rk_simd *simd, pthread_mutex_t *lock)
{
    size_t size = rp_dtype_size(t->spec.dtype);
    uint64_t bytes = piece_bytes(threads, t->bytes + rp_results(&t->spec) * LINE_BYTES);
    j->t = t;
    j->simd = simd;
    j->lock = lock;
    j->bad_row = RP_NO_INDEX;
    if (rp_needs_all(&t->spec)) {
        if (t->spec.flags & RP_KEYS)
            cut_keyed(j, threads, bytes, size);
        else
            cut_ranked(j, threads, bytes);
        j->pieces = at_least_1((j->units + j->each - 1) / j->each);
        t->route = rk_cpu_route(simd, t);
        j->settles = false;
        begin(j, false);
        return;
    }
    if (t->spec.flags & RP_COLUMNS)
        cut_columns(j, bytes, size);
    else
        cut_lines(j, bytes, size);
    j->pieces = at_least_1((j->units + j->each - 1) / j->each);
    t->route = rk_cpu_route(simd, t);
    j->settles = rk_cpu_may_settle(&t->spec);
    begin(j, j->how != RK_COLUMNS && rk_cpu_is_near(simd, &t->spec));
}

/* ---- running pieces: called without the lock, these return with it ---- */

static void note_bad(rk_pieces *j, uint64_t row, int code, const rk_state *s)
{
    if (row >= j->bad_row)
        return;
    j->bad_row = row;
    j->bad_code = code;
    j->bad_state = *s;
}

/* Call with the lock held. */
static void join_slot(rk_pieces *j, uint64_t i, uint64_t line, const rk_state *s, double neglected)
{
    if (j->line[i] == RP_NO_INDEX) {
        j->slot[i] = *s;
        j->neglected[i] = neglected;
    } else {
        rk_state_merge(&j->slot[i], s);
        j->neglected[i] += neglected;
    }
    j->line[i] = line;
}

/* Is the line decided without its elements [from, from + n)? Then they are counted. */
static bool is_settled(rk_pieces *j, uint64_t i, uint64_t line, uint64_t from, uint64_t n)
{
    pthread_mutex_lock(j->lock);
    const bool settled = j->line[i] == line && rk_cpu_settled(j->t, &j->slot[i], from);
    j->slot[i].count += settled ? n : 0;
    pthread_mutex_unlock(j->lock);
    return settled;
}

/* The part of a line that lies in [from, to) of the scale. */
static void run_part(rk_pieces *j, uint64_t line, uint64_t start, uint64_t from, uint64_t to)
{
    uint64_t elements = start + j->weight, first = from > elements ? from - elements : 0,
             n = to > elements + first ? to - elements - first : 0;
    double neglected = 0;
    rk_state s;
    if (j->settles && is_settled(j, start / j->each, line, first, n))
        return;
    if (j->near)
        neglected = rk_cpu_near_segment(j->simd, j->t, line, first, n, &s);
    else
        rk_cpu_segment(j->simd, j->t, line, first, n, &s);
    pthread_mutex_lock(j->lock);
    join_slot(j, start / j->each, line, &s, neglected);
    pthread_mutex_unlock(j->lock);
}

static void run_whole(rk_pieces *j, uint64_t first, uint64_t lines)
{
    uint64_t bad_row = 0;
    rk_state bad_state;
    int code = rk_cpu_lines(j->simd, j->t, first, lines, &bad_row, &bad_state);
    pthread_mutex_lock(j->lock);
    if (code != RP_OK)
        note_bad(j, bad_row, code, &bad_state);
}

/* The first line in [low, rows] that begins at or after `unit`. */
static uint64_t line_from(const rk_pieces *j, const rp_parts *p, uint64_t unit)
{
    uint64_t low = 0, high = j->t->spec.rows;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (line_start(j, p, middle) < unit)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void run_lines(rk_pieces *j, uint64_t from, uint64_t to)
{
    rp_parts parts = rp_spec_parts(&j->t->spec, j->t->data, j->t->beside);
    uint64_t first = line_from(j, &parts, from), end = line_from(j, &parts, to);
    uint64_t begin = line_start(j, &parts, first), last = end > first ? line_start(j, &parts, end - 1) : 0;
    if (begin > from) /* a line that began in an earlier piece reaches into this one */
        run_part(j, first - 1, line_start(j, &parts, first - 1), from, least(begin, to));
    if (end > first && line_start(j, &parts, end) > to) { /* a line that begins here reaches beyond the piece */
        run_part(j, end - 1, last, last, to);
        end--;
    }
    run_whole(j, first, end > first ? end - first : 0);
}

/* Rows [from, to) of all planes. */
static void run_columns(rk_pieces *j, uint64_t from, uint64_t to)
{
    const rp_spec *s = &j->t->spec;
    uint64_t first = from / s->rows * s->row_len, columns = ((to - 1) / s->rows + 1) * s->row_len - first;
    rk_state states[FEW_COLUMNS];
    double neglected = 0;
    for (uint64_t row = from, n, c = 0; row < to; row += n, c += s->row_len) {
        n = least(s->rows - row % s->rows, to - row);
        rk_cpu_columns(j->simd, j->t, first + c, s->row_len, row % s->rows, n, states + c, j->near ? &neglected : NULL);
    }
    pthread_mutex_lock(j->lock);
    for (uint64_t c = 0; c < columns; c++)
        join_slot(j, first + c, first + c, &states[c], neglected);
}

/* Call with the lock held. */
static void note_ranked(rk_pieces *j, rp_err err, const rp_fault *f)
{
    rp_fault *first = &j->t->fault;
    if (err && (first->code == RP_OK || f->index == RP_NO_INDEX || f->index < first->index))
        *first = *f;
}

static void run_ranked(rk_pieces *j, uint64_t first, uint64_t lines)
{
    rp_fault f;
    const rp_err err = rk_ranked_lines(j->simd, j->t, first, lines, &f);
    pthread_mutex_lock(j->lock);
    note_ranked(j, err, &f);
}

/* Call with the lock held. */
static void note_keyed(rk_pieces *j, rp_err err, const rp_fault *f)
{
    if (err && rk_by_key_precedes(f, &j->t->fault))
        j->t->fault = *f;
}

static void run_groups(rk_pieces *j, uint64_t first, uint64_t n)
{
    rp_fault f = {.index = RP_NO_INDEX};
    const rp_err err = rk_by_key_run(j->t, first, n, &f);
    pthread_mutex_lock(j->lock);
    note_keyed(j, err, &f);
}

static void run_elements(rk_pieces *j, uint64_t from, uint64_t to)
{
    rp_fault f = {.index = RP_NO_INDEX};
    pthread_mutex_lock(j->lock);
    rk_table *x = j->tables;
    j->tables = x ? x->next : NULL;
    pthread_mutex_unlock(j->lock);
    const rp_err err = rk_by_key_add(j->t, &x, from, to, &f);
    pthread_mutex_lock(j->lock);
    if (x) {
        x->next = j->tables;
        j->tables = x;
    }
    note_keyed(j, err, &f);
}

/* The first piece of a line. False: no memory. */
static bool open_shared(rk_pieces *j)
{
    if (!j->ordered) {
        j->ordered = calloc(1, sizeof *j->ordered);
        if (!j->ordered || !rk_selection_init(j->ordered, j->simd, j->t))
            return false;
    }
    rk_selection_line(j->ordered, j->ordered_line);
    j->units = j->ordered->line->n;
    j->each = at_least_1(least((j->units + RK_MAX_PIECES - 1) / RK_MAX_PIECES, PIECE_MAX / j->ordered->line->size));
    return rk_selection_open(j->ordered);
}

/* The last piece of a pass, or the first of a line, has ended: is there more to do? Call without the lock. */
static bool next_shared(rk_pieces *j)
{
    bool again = true, ok;
    rp_fault f;
    if (j->late)
        return false;
    ok = j->opened ? rk_selection_next(j->ordered, &again) : open_shared(j);
    j->opened = true;
    if (ok && again && !rk_task_late(j->t, &j->t->fault))
        return true;
    if (ok && again)
        return false;
    if (!ok) {
        rp_fail(&j->t->fault, RP_NO_MEMORY, "memory", 0, "no memory to select elements");
        return false;
    }
    note_ranked(j, rk_selection_cell(j->ordered, j->ordered_line, &f), &f);
    j->units = 0;
    j->opened = false;
    return ++j->ordered_line < rp_results(&j->t->spec);
}

/* Is each line in a slot known well enough? */
static bool slots_certain(const rk_pieces *j)
{
    for (int i = 0; i < RK_MAX_PIECES; i++)
        if (j->line[i] != RP_NO_INDEX && j->neglected[i] > 0 &&
            !rk_cpu_near_cell(j->t, j->line[i], &j->slot[i], j->neglected[i]))
            return false;
    return true;
}

static rk_progress run_shared(rk_pieces *j, uint64_t from, uint64_t to)
{
    rp_fault f;
    const bool late = from < to && rk_task_late(j->t, &f);
    if (from < to && !late)
        rk_selection_pass(j->ordered, from, to);
    pthread_mutex_lock(j->lock);
    if (late && !j->late)
        j->t->fault = f;
    j->late |= late;
    if (j->left > 1) {
        j->left--;
        return RK_PIECES_LEFT;
    }
    pthread_mutex_unlock(j->lock); /* the others wait: `left` is still 1 */
    const bool more = next_shared(j);
    pthread_mutex_lock(j->lock);
    j->left = 0;
    if (!more)
        return RK_PIECES_ENDED;
    j->pieces = at_least_1((j->units + j->each - 1) / j->each);
    begin(j, false);
    return RK_PIECES_AGAIN;
}

/* ThreadSanitizer does not watch the loops (Makefile). This reports what they read to it: of the share of a piece in the task's
 * data a byte of each page, as it takes as long for all bytes as the loops that it watches. */
static void report_reads(const rk_pieces *j, uint64_t piece)
{
#ifdef __SANITIZE_THREAD__
    extern void __tsan_read1(const void *at);
    const uint64_t each = j->t->bytes / j->pieces, page = 4096;
    for (uint64_t at = 0; j->t->data && at < each; at += page)
        __tsan_read1((const uint8_t *)j->t->data + piece * each + at);
#else
    (void)j, (void)piece;
#endif
}

rk_progress rk_run_piece(rk_pieces *j)
{
    const uint64_t piece = j->next++, from = piece * j->each, to = least(from + j->each, j->units);
    pthread_mutex_unlock(j->lock);
    report_reads(j, piece);
    if (j->how == RK_SHARED_LINES)
        return run_shared(j, from, to);
    if (j->how == RK_RANKED)
        run_ranked(j, from, to - from);
    else if (j->how == RK_KEYED_ELEMENTS)
        run_elements(j, from, to);
    else if (j->how == RK_KEYED_GROUPS)
        run_groups(j, from, to - from);
    else if (j->how == RK_LINES)
        run_lines(j, from, to);
    else if (j->how == RK_COLUMNS)
        run_whole(j, from, to - from);
    else
        run_columns(j, from, to);
    if (--j->left)
        return RK_PIECES_LEFT;
    if (!j->near || slots_certain(j))
        return RK_PIECES_ENDED;
    begin(j, false);
    return RK_PIECES_AGAIN;
}

/* The lines in slots are complete now. */
static void finish_slots(rk_pieces *j)
{
    for (int i = 0; i < RK_MAX_PIECES; i++) {
        if (j->line[i] == RP_NO_INDEX)
            continue;
        int code = rk_cpu_cell(j->t, j->line[i], &j->slot[i]);
        if (code != RP_OK)
            note_bad(j, j->line[i], code, &j->slot[i]);
    }
}

void rk_finish_pieces(rk_pieces *j)
{
    if (j->how == RK_SHARED_LINES && j->ordered) {
        rk_selection_close(j->ordered);
        free(j->ordered);
    }
    if (j->how == RK_KEYED_ELEMENTS) {
        rp_fault f = {.index = RP_NO_INDEX};
        note_keyed(j, rk_by_key_end(j->t, j->tables, &f), &f);
    }
    finish_slots(j);
    if (j->bad_row != RP_NO_INDEX)
        rk_row_fault(j->t, j->bad_row, j->bad_code, &j->bad_state);
    j->t->compute_ns = rk_now_ns() - j->t->start_ns;
}
