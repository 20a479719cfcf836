/* A joint is a task whose memory lies on several devices, cut into pieces of one device each.
 *
 * The elements that a device has are a range of the task's, which cut.h cuts. Pieces of whole rows write their cells where they
 * belong. States of the others gather in `states`, one for each line that is cut, and the last piece to end finishes them. */
#include "kernels/engine/joint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/engine/cut.h"
#include "kernels/exact/cell.h"
#include "kernels/exact/state.h"

typedef struct piece {
    rk_task task; /* first */
    struct rk_joint *joint;
    rk_device *device;
    uint64_t first; /* row of the whole task that its first row is */
    uint64_t slot;  /* slot of its first state; RP_NO_INDEX: the piece writes cells */
    uint8_t *states;
} piece;

typedef struct rk_joint {
    rk_joints *all;
    rk_task *parent;
    pthread_mutex_t lock;
    rp_fault fault;  /* the first line's fault, or one that belongs to no line */
    uint8_t *states; /* of cut lines */
    uint64_t *line;  /* of each slot; NULL: slot i is line i */
    uint64_t slots;
    size_t state_size;
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

/* A piece of elements [from, to), which lie in the range, with the task's own spec. */
static piece *add_piece(rk_joint *j, const range *r, uint64_t from, uint64_t to)
{
    const rk_task *t = j->parent;
    const size_t size = unit_of(t);
    piece *p = &j->piece[j->pieces++];
    p->task = *t;
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

static void cut_elements(rk_joint *j, const range *r)
{
    rk_task *t = j->parent;
    rk_cut_piece cut[RK_CUT_PIECES];
    const unsigned n = rk_cut_range(&t->spec, r->from, r->to, cut);
    for (const rk_cut_piece *c = cut; c < cut + n; c++) {
        piece *p = add_piece(j, r, c->from, c->from + rp_elements(&c->spec));
        p->task.spec = c->spec;
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
    rk_state fresh;
    rk_state_init(&fresh, rp_spec_layout(&t->spec), rp_spec_state_dtype(&t->spec));
    for (uint64_t i = 0; j->states && i < j->slots; i++)
        memcpy(j->states + i * j->state_size, &fresh, j->state_size);
    return j->states != NULL;
}

/* ---- life ---- */
static void free_joint(rk_joint *j)
{
    for (unsigned i = 0; i < j->pieces; i++)
        free(j->piece[i].states);
    pthread_mutex_destroy(&j->lock);
    free(j->states);
    free(j->line);
    free(j);
}

static rk_joint *new_joint(rk_joints *all, rk_task *t)
{
    const bool scattered = is_scattered(t);
    const size_t most = RK_CUT_PIECES * (size_t)t->memory->parts;
    rk_joint *j = calloc(1, sizeof *j + most * sizeof j->piece[0]);
    if (!j)
        return NULL;
    j->all = all;
    j->parent = t;
    j->state_size = t->fill ? 0 : rp_state_size(rp_spec_layout(&t->spec));
    j->line = scattered ? NULL : calloc(2 * (size_t)t->memory->parts, sizeof *j->line);
    j->fault.index = RP_NO_INDEX;
    pthread_mutex_init(&j->lock, NULL);
    if (scattered || j->line) {
        cut(j);
        if (states_fit(j) && make_room(j))
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
        memcpy(&all, at, j->state_size);
        memcpy(&part, p->states + i * j->state_size, j->state_size);
        rk_state_merge(&all, &part);
        memcpy(at, &all, j->state_size);
    }
}

static uint64_t line_of(const rk_joint *j, uint64_t slot) { return j->line ? j->line[slot] : slot; }

static void finish_line(rk_joint *j, uint64_t slot)
{
    rk_task *t = j->parent;
    const uint64_t line = line_of(j, slot);
    rk_state s;
    memcpy(&s, j->states + slot * j->state_size, j->state_size);
    int code = rk_cell_write(&s, &t->spec, (uint8_t *)t->cells + line * rp_cell_size(&t->spec));
    if (code == RP_OK)
        return;
    rp_fault f;
    rk_cell_fault(&f, &s, &t->spec, line, code);
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

/* The last piece has ended: finish the task. */
static void end(rk_joint *j)
{
    rk_task *t = j->parent;
    const uint64_t since = rk_now_ns();
    finish(j);
    t->compute_ns += rk_now_ns() - since;
    t->fault = j->fault;
    delist(j);
    rk_inflight *tasks = &j->all->tasks;
    free_joint(j);
    rk_complete(tasks, t);
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

/* A thread of the piece's device. */
static void joint_piece_done(rk_task *task)
{
    piece *p = (piece *)task;
    rk_joint *j = p->joint;
    rp_fault f = task->fault;
    if (f.code != RP_OK && f.index != RP_NO_INDEX && p->slot == RP_NO_INDEX && p->first)
        rk_cell_fault_move(&f, &j->parent->spec, f.index + p->first);
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

void rk_joints_submit(rk_joints *all, rk_task *t)
{
    rk_inflight_enter(&all->tasks, t, NULL);
    t->start_ns = t->copy_ns = t->compute_ns = 0;
    t->fault.code = RP_OK;
    t->device = (uint8_t)rk_device_number(t->memory->part[0]->device);
    if (!t->fill && rp_needs_all(&t->spec))
        rp_fail(&t->fault, RP_TYPE, "op", 0, "%s of data on several devices", rp_op_name(t->spec.op));
    rk_joint *j = t->fault.code ? NULL : new_joint(all, t);
    if (!j) {
        if (t->fault.code == RP_OK)
            rp_fail(&t->fault, RP_NO_MEMORY, "data", 0, "no memory to cut the task into parts");
        rk_complete(&all->tasks, t);
        return;
    }
    enlist(all, j);
    const unsigned n = j->left = j->pieces; /* a copy: the last piece to end frees the joint, perhaps before this loop is
                                               over */
    for (unsigned i = 0; i < n; i++)
        rk_device_submit(j->piece[i].device, &j->piece[i].task, joint_piece_done);
}
