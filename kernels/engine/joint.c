/* A joint is a task whose memory lies on several devices, cut into pieces of one device each.
 *
 * The elements that a device has are a range of the task's, which cut.h cuts. Pieces of whole rows write their cells where they
 * belong. States of the others gather in `states`, one for each line that is cut, and the last piece to end finishes them.
 * States of largest, smallest and histogram are cells of parts (order_parts.h). Median, quantile and kth have none: lines of
 * theirs that are cut are pieces of several devices, in passes (joint_ranks.h). */
#include "kernels/engine/joint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/engine/cut.h"
#include "kernels/engine/joint_ranks.h"
#include "kernels/exact/cell.h"
#include "kernels/exact/order.h"
#include "kernels/exact/order_parts.h"
#include "kernels/exact/state.h"

typedef struct piece {
    rk_task task; /* first */
    struct rk_joint *joint;
    rk_device *device;
    rk_joint_ranks *ranks; /* NULL: the device does it */
    uint64_t first;        /* row of the whole task that its first row is */
    uint64_t slot;         /* slot of its first state; RP_NO_INDEX: the piece writes cells */
    uint8_t *states;
} piece;

typedef struct rk_joint {
    rk_joints *all;
    rk_task *parent;
    void (*ended)(rk_task *t); /* takes the finished task; NULL: it is polled */
    pthread_mutex_t lock;
    rp_fault fault;  /* the first line's fault, or one that belongs to no line */
    uint8_t *states; /* of cut lines */
    uint64_t *line;  /* of each slot; NULL: slot i is line i */
    uint64_t slots;
    size_t state_size;
    rp_spec part; /* of cells of parts */
    void *room;   /* ... to add them */
    unsigned pieces, left;
    struct rk_joint *next, **link;
    piece piece[];
} rk_joint;

/* ---- cutting ---- */

/* Elements (bytes of a fill) [from, to) of the task are on the device of `m`, the first one at byte `at`. */
typedef struct range {
    const rk_memory *m;
    uint64_t from, to, at;
} range;

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Size of the units that a task is cut into: elements, or bytes of a fill. */
static size_t unit_of(const rk_task *t) { return t->fill ? 1 : rp_dtype_size(t->spec.dtype); }

/* The range of the task's elements in part `i` of its memory. */
static range range_of(const rk_task *t, unsigned i)
{
    const rk_memory *m = t->memory;
    const size_t size = unit_of(t);
    const uint64_t begin = i * m->each, end = begin + m->part[i]->bytes, first = t->offset, last = t->offset + t->bytes;
    const uint64_t from = begin > first ? begin : first, to = end < last ? end : last;
    range r = {m->part[i], 0, 0, 0};
    if (from < to)
        r = (range){m->part[i], (from - first) / size, (to - first) / size, from - begin};
    return r;
}

/* Have the lines elements on several devices, and each a slot? */
static bool is_scattered(const rk_task *t) { return !t->fill && rk_cut_scatters(&t->spec); }

/* Are states cells of parts? */
static bool is_ordered(const rk_task *t) { return !t->fill && rp_is_ranked(t->spec.op); }

/* Median, quantile or kth? */
static bool is_ranks(const rk_task *t) { return is_ordered(t) && !rp_is_top(t->spec.op) && t->spec.op != RP_OP_HISTOGRAM; }

/* A piece of elements [from, to), which lie in the range, with the task's own spec. */
static piece *add_piece(rk_joint *j, const range *r, uint64_t from, uint64_t to)
{
    const rk_task *t = j->parent;
    const size_t size = unit_of(t);
    piece *p = &j->piece[j->pieces++];
    p->task = *t;
    p->task.whole = t;
    p->task.memory = (rk_memory *)r->m;
    p->task.offset = r->at + (from - r->from) * size;
    p->task.bytes = (to - from) * size;
    p->joint = j;
    p->device = r->m->device;
    p->slot = RP_NO_INDEX;
    return p;
}

/* The slot of a row that is cut. Ranges come in order, so it is the last one's or a new one. */
static uint64_t slot_of(rk_joint *j, uint64_t row)
{
    if (j->slots == 0 || j->line[j->slots - 1] != row)
        j->line[j->slots++] = row;
    return j->slots - 1;
}

/* A line or, of scattered ones, all: a piece of several devices, cut from its first range. */
static void cut_ranks(rk_joint *j, uint64_t row)
{
    rk_task *t = j->parent;
    const bool all = is_scattered(t);
    const uint64_t n = all ? rp_elements(&t->spec) : t->spec.row_len, slots = j->slots;
    if (all ? j->pieces : slot_of(j, row) < slots)
        return;
    const range whole = {t->memory, row * n, row * n + n, t->offset + row * n * unit_of(t)};
    piece *p = add_piece(j, &whole, whole.from, whole.to);
    p->task.spec.rows = all ? t->spec.rows : 1;
    p->task.cells = (uint8_t *)t->cells + row * rp_cell_size(&t->spec);
    p->first = row;
}

static void cut_elements(rk_joint *j, const range *r)
{
    rk_task *t = j->parent;
    rk_cut_piece cut[RK_CUT_PIECES];
    const unsigned n = rk_cut_range(&t->spec, r->from, r->to, cut);
    for (const rk_cut_piece *c = cut; c < cut + n; c++) {
        if (is_ranks(t) && !c->whole) {
            cut_ranks(j, is_scattered(t) ? 0 : c->line);
            continue;
        }
        piece *p = add_piece(j, r, c->from, c->from + rp_elements(&c->spec));
        p->task.spec = is_ordered(t) && !c->whole ? rk_part_spec(&c->spec, c->base) : c->spec;
        p->task.base += c->base;
        p->task.cells = (uint8_t *)t->cells + (c->whole ? c->line * rp_cell_size(&t->spec) : 0);
        p->first = c->line;
        if (!c->whole)
            p->slot = is_scattered(t) ? c->line : slot_of(j, c->line);
    }
}

/* Of bytes that are copied. */
static void cut_fill(rk_joint *j, const range *r)
{
    piece *p = add_piece(j, r, r->from, r->to);
    p->task.data = (const uint8_t *)j->parent->data + r->from;
}

static void cut(rk_joint *j)
{
    const rk_task *t = j->parent;
    for (unsigned i = 0; i < t->memory->parts; i++) {
        const range r = range_of(t, i);
        if (r.from < r.to && t->fill)
            cut_fill(j, &r);
        else if (r.from < r.to)
            cut_elements(j, &r);
    }
    const range none = {t->memory->part[0], 0, 0, 0};
    if (j->pieces == 0) /* no elements */
        add_piece(j, &none, 0, 0);
}

/* A device has room for as many cells as a reply has, also where they are states. False: a piece would leave more. */
static bool states_fit(const rk_joint *j)
{
    rk_task *t = j->parent;
    for (const piece *p = j->piece; p < j->piece + j->pieces; p++) {
        const uint64_t n = p->slot == RP_NO_INDEX ? 0 : rp_results(&p->task.spec);
        if (n && n > RP_MAX_DATA / j->state_size) {
            rp_fail(&t->fault, RP_TOO_LARGE, t->spec.flags & RP_COLUMNS ? "row_len" : "rows", RP_MAX_DATA / j->state_size,
                    "%" PRIu64 " partial states of data on several devices are over %u bytes", n, RP_MAX_DATA);
            return false;
        }
    }
    return true;
}

/* A state of no elements. */
static void clear_state(const rk_joint *j, uint8_t *at)
{
    const rp_spec *s = &j->parent->spec;
    if (is_ordered(j->parent)) {
        rk_part_none(&j->part, at);
        return;
    }
    rk_state fresh;
    rk_state_init(&fresh, rp_spec_layout(s), rp_spec_state_dtype(s));
    memcpy(at, &fresh, j->state_size);
}

/* False: no memory, or a fault. */
static bool make_ranks(rk_joint *j)
{
    rk_task *t = j->parent;
    for (piece *p = j->piece; p < j->piece + j->pieces; p++) {
        const uint64_t lines = p->device ? 0 : rp_results(&p->task.spec);
        if (lines > RK_JOINT_LINES) {
            rp_fail(&t->fault, RP_TOO_LARGE, t->spec.flags & RP_COLUMNS ? "row_len" : "rows", RK_JOINT_LINES,
                    "%s of %" PRIu64 " lines that lie on several devices each, instead of %d at most", rp_op_name(t->spec.op),
                    lines, RK_JOINT_LINES);
            return false;
        }
        if (lines && !(p->ranks = rk_joint_ranks_new(&p->task)))
            return false;
    }
    return true;
}

/* Allocates the states that the pieces leave. False: no memory. */
static bool make_room(rk_joint *j)
{
    const rk_task *t = j->parent;
    bool gathers = false;
    for (piece *p = j->piece; p < j->piece + j->pieces; p++) {
        if (p->slot == RP_NO_INDEX)
            continue;
        gathers = true;
        p->states = p->task.cells = malloc(rp_results(&p->task.spec) * j->state_size + 1);
        if (!p->states)
            return false;
    }
    if (!gathers) {
        j->slots = 0;
        return true;
    }
    j->slots = is_scattered(t) ? rp_results(&t->spec) : j->slots;
    j->states = malloc(j->slots * j->state_size);
    j->room = malloc(rk_part_room(&t->spec) + 1);
    for (uint64_t i = 0; j->states && i < j->slots; i++)
        clear_state(j, j->states + i * j->state_size);
    return j->states && j->room;
}

/* ---- life ---- */
static void free_joint(rk_joint *j)
{
    for (unsigned i = 0; i < j->pieces; i++) {
        rk_joint_ranks_free(j->piece[i].ranks);
        free(j->piece[i].states);
    }
    pthread_mutex_destroy(&j->lock);
    free(j->states);
    free(j->room);
    free(j->line);
    free(j);
}

static size_t state_size(const rk_joint *j)
{
    const rk_task *t = j->parent;
    return t->fill ? 0 : is_ordered(t) ? rp_cell_size(&j->part) : rp_state_size(rp_spec_layout(&t->spec));
}

/* NULL: no memory, or a fault. */
static rk_joint *new_joint(rk_joints *all, rk_task *t, void (*ended)(rk_task *t))
{
    if (!t->fill && t->spec.flags & RP_KEYS) {
        rp_fail(&t->fault, RP_TYPE, "op", 0, "%s by key of data on several devices", rp_op_name(t->spec.op));
        return NULL;
    }
    const bool scattered = is_scattered(t);
    const size_t most = RK_CUT_PIECES * (size_t)t->memory->parts;
    rk_joint *j = calloc(1, sizeof *j + most * sizeof j->piece[0]);
    if (!j)
        return NULL;
    j->all = all;
    j->parent = t;
    j->ended = ended;
    if (is_ordered(t))
        j->part = rk_part_spec(&t->spec, 0);
    j->state_size = state_size(j);
    j->line = scattered ? NULL : calloc(2 * (size_t)t->memory->parts, sizeof *j->line);
    j->fault.index = RP_NO_INDEX;
    pthread_mutex_init(&j->lock, NULL);
    if (scattered || j->line) {
        cut(j);
        if (states_fit(j) && make_ranks(j) && make_room(j))
            return j;
    }
    free_joint(j);
    return NULL;
}

static void enlist(rk_joints *all, rk_joint *j)
{
    pthread_mutex_lock(&all->lock);
    j->next = all->first;
    j->link = &all->first;
    if (j->next)
        j->next->link = &j->next;
    all->first = j;
    pthread_mutex_unlock(&all->lock);
}

static void delist(rk_joint *j)
{
    pthread_mutex_lock(&j->all->lock);
    *j->link = j->next;
    if (j->next)
        j->next->link = j->link;
    pthread_mutex_unlock(&j->all->lock);
}

/* ---- joining ---- */

/* A fault that belongs to no line has precedence, because any line may be wrong then. */
static void note_fault(rk_joint *j, const rp_fault *f)
{
    const bool first = j->fault.code == RP_OK, lines = j->fault.index != RP_NO_INDEX;
    if (f->code != RP_OK && (first || (lines && (f->index == RP_NO_INDEX || f->index < j->fault.index))))
        j->fault = *f;
}

static void merge(const rk_joint *j, const piece *p)
{
    const uint64_t n = rp_results(&p->task.spec);
    for (uint64_t i = 0; i < n; i++) {
        rk_state all, part;
        uint8_t *at = j->states + (p->slot + i) * j->state_size;
        if (is_ordered(j->parent)) {
            rk_part_add(&j->part, at, p->states + i * j->state_size, j->room);
            continue;
        }
        memcpy(&all, at, j->state_size);
        memcpy(&part, p->states + i * j->state_size, j->state_size);
        rk_state_merge(&all, &part);
        memcpy(at, &all, j->state_size);
    }
}

static uint64_t line_of(const rk_joint *j, uint64_t slot) { return j->line ? j->line[slot] : slot; }

/* Writes the cell of a line. Returns RP_OK, or why there is none, and the fault. */
static int write_cell(rk_joint *j, uint64_t slot, rp_fault *f)
{
    rk_task *t = j->parent;
    const uint64_t line = line_of(j, slot);
    const uint8_t *state = j->states + slot * j->state_size;
    uint8_t *cell = (uint8_t *)t->cells + line * rp_cell_size(&t->spec);
    if (is_ordered(t))
        return (int)rk_part_cell(&t->spec, state, line, j->room, cell, f);
    rk_state s;
    memcpy(&s, state, j->state_size);
    const int code = rk_cell_write(&s, &t->spec, cell);
    if (code != RP_OK)
        rk_cell_fault(f, &s, &t->spec, line, code);
    return code;
}

static void finish_line(rk_joint *j, uint64_t slot)
{
    rp_fault f;
    if (write_cell(j, slot, &f) != RP_OK)
        note_fault(j, &f);
}

static void finish(rk_joint *j)
{
    uint64_t saved = rk_fp_enter();
    for (uint64_t slot = 0; slot < j->slots; slot++)
        if (j->fault.code == RP_OK || j->fault.index != RP_NO_INDEX)
            finish_line(j, slot);
    rk_fp_leave(saved);
}

static void hand_back(rk_joints *all, rk_task *t, void (*ended)(rk_task *t))
{
    if (ended)
        ended(t);
    else
        rk_complete(&all->tasks, t);
}

/* The last piece has ended: finish the task. */
static void end(rk_joint *j)
{
    rk_task *t = j->parent;
    const uint64_t since = rk_now_ns();
    finish(j);
    t->compute_ns += rk_now_ns() - since;
    t->fault = j->fault;
    delist(j);
    rk_joints *all = j->all;
    void (*ended)(rk_task * t) = j->ended;
    free_joint(j);
    hand_back(all, t, ended);
}

static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Times are those of the slowest piece, because the devices work in parallel. */
static void note_times(rk_task *t, const rk_task *p)
{
    t->backend = p->backend;
    t->route = p->route;
    t->start_ns = t->start_ns ? least(t->start_ns, p->start_ns) : p->start_ns;
    t->copy_ns = most(t->copy_ns, p->copy_ns);
    t->compute_ns = most(t->compute_ns, p->compute_ns);
}

/* A piece's fault becomes one of the whole. */
static void move_fault(const piece *p, rp_fault *f)
{
    const rk_task *t = p->joint->parent;
    if (f->code == RP_OK || f->index == RP_NO_INDEX || p->slot != RP_NO_INDEX || !p->first)
        return;
    if (is_ordered(t))
        rk_order_fault_move(f, &t->spec, f->index + p->first);
    else
        rk_cell_fault_move(f, &t->spec, f->index + p->first);
}

/* A thread of the piece's device, or of the last one of several. */
static void joint_piece_done(rk_task *task)
{
    piece *p = (piece *)task;
    rk_joint *j = p->joint;
    rp_fault f = task->fault;
    move_fault(p, &f);
    pthread_mutex_lock(&j->lock);
    note_fault(j, &f);
    note_times(j->parent, task);
    if (f.code == RP_OK && p->slot != RP_NO_INDEX)
        merge(j, p);
    const bool last = --j->left == 0;
    pthread_mutex_unlock(&j->lock);
    if (last)
        end(j);
}

/* ---- all ---- */
void rk_joints_init(rk_joints *all, const rk_options *o)
{
    *all = (rk_joints){.first = NULL};
    rk_inflight_init(&all->tasks, o);
    pthread_mutex_init(&all->lock, NULL);
}

void rk_joints_drop(rk_joints *all)
{
    while (all->first) {
        rk_joint *j = all->first;
        delist(j);
        free_joint(j);
    }
    rk_inflight_drop(&all->tasks);
}

void rk_joints_fini(rk_joints *all)
{
    rk_inflight_fini(&all->tasks);
    pthread_mutex_destroy(&all->lock);
}

/* rk_joint_count, of any task. */
static void run_joint(void *arg, rk_task *t, void (*ended)(rk_task *t))
{
    rk_joints *all = arg;
    t->start_ns = t->copy_ns = t->compute_ns = 0;
    t->fault.code = RP_OK;
    rk_joint *j = new_joint(all, t, ended);
    if (!j) {
        if (t->fault.code == RP_OK)
            rp_fail(&t->fault, RP_NO_MEMORY, "data", 0, "no memory to cut the task into parts");
        hand_back(all, t, ended);
        return;
    }
    enlist(all, j);
    const unsigned n = j->left = j->pieces; /* a copy: the last piece to end frees the joint, perhaps before this loop is
                                               over */
    for (unsigned i = 0; i < n; i++) {
        piece *p = &j->piece[i];
        if (p->ranks)
            rk_joint_ranks_start(p->ranks, run_joint, all, joint_piece_done);
        else
            rk_device_submit(p->device, &p->task, joint_piece_done);
    }
}

void rk_joints_submit(rk_joints *all, rk_task *t)
{
    rk_inflight_enter(&all->tasks, t, NULL);
    t->device = (uint8_t)rk_device_number(t->memory->part[0]->device);
    run_joint(all, t, NULL);
}
