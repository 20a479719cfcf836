#include "kernels/cpu/order/bins.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/exact/edges.h"

/* Ranges of the table: more for each bound, fewer for few elements. The first three are log2 of numbers. */
enum { LEAST_TABLE = 8, USUAL_TABLE = 14, MOST_TABLE = 16, RANGES_A_BOUND = 32 };

static uint32_t slots_of(const rp_spec *s) { return s->n_edges + 2; }

/* ---- edges as keys ---- */

/* Edges above all elements are left out. */
static void find_bounds(rk_bins *b)
{
    const rp_spec *s = b->spec;
    rk_edge_keys *t = &b->slots;
    for (uint32_t i = 0; i < s->n_edges; i++) {
        uint64_t bits;
        if (!rk_from_edge(s->dtype, rp_spec_edge(s, i), i + 1 == s->n_edges, &bits))
            break;
        b->bound[t->bounds++] = rk_key_of(&b->keys, b->line.size, bits);
    }
}

static int log2_of(uint64_t v) { return v ? 64 - __builtin_clzll(v) : 0; }

/* table[i]: the slot of key first + (i << shift) */
static void fill_table(rk_edge_keys *t, uint32_t *table, uint64_t ranges)
{
    uint32_t slot = 0, most = 0;
    for (uint64_t i = 0; i <= ranges; i++) {
        while (slot < t->bounds && (t->bound[slot] - t->first) >> t->shift < i)
            slot++;
        while (slot < t->bounds && t->bound[slot] - t->first == i << t->shift)
            slot++;
        table[i] = slot;
        most = i && slot - table[i - 1] > most ? slot - table[i - 1] : most;
    }
    t->table = table;
    t->half = most ? 1u << (log2_of(most) - 1) : 0;
}

/* log2 of the ranges. */
static int width_of(const rp_spec *s)
{
    const int bounds = log2_of((uint64_t)RANGES_A_BOUND * s->n_edges), elements = log2_of(rp_elements(s)),
              usual = bounds > USUAL_TABLE ? bounds : USUAL_TABLE, few = elements < usual ? elements : usual;
    return few < LEAST_TABLE ? LEAST_TABLE : few > MOST_TABLE ? MOST_TABLE : few;
}

bool rk_bins_init(rk_bins *b)
{
    const rp_spec *s = b->spec;
    rk_edge_keys *t = &b->slots;
    const uint64_t n = slots_of(s);
    const int width = width_of(s);
    const size_t bounds = 3 * (size_t)s->n_edges; /* and those of the last steps of a search */
    b->keys = rk_keys_of(s->dtype);
    b->failed = false;
    *t = (rk_edge_keys){.n = (uint32_t)n, .most = s->dtype == RP_BOOL ? UINT8_MAX : b->keys.most};
    b->bound = malloc((size_t)(bounds + (1 + RK_TURNS) * n) * sizeof *b->bound + (((size_t)1 << width) + 2) * sizeof(uint32_t));
    if (!b->bound)
        return false;
    memset(b->bound, 255, bounds * sizeof *b->bound);
    b->counts = b->bound + bounds;
    b->turns = b->counts + n;
    t->bound = b->bound;
    find_bounds(b);
    t->first = t->bounds ? b->bound[0] : 0;
    t->range = t->bounds ? b->bound[t->bounds - 1] - t->first : 0;
    t->shift = log2_of(t->range) - width;
    t->shift = t->shift < 0 ? 0 : t->shift;
    fill_table(t, (uint32_t *)(void *)(b->turns + RK_TURNS * n), (t->range >> t->shift) + 1);
    return true;
}

/* ---- a pass ---- */

typedef struct bins_pass {
    const rk_bins *b;
    uint64_t *counts;
} bins_pass;

static void bins_take(void *arg, const void *x, size_t n)
{
    const bins_pass *p = arg;
    const rk_bins *b = p->b;
    b->simd->edge_counts[__builtin_ctzll(b->line.size)](x, n, &b->keys, &b->slots, p->counts);
}

void rk_bins_open(rk_bins *b) { memset(b->counts, 0, slots_of(b->spec) * sizeof *b->counts); }

void rk_bins_pass(rk_bins *b, uint64_t from, uint64_t to)
{
    const size_t n = slots_of(b->spec);
    const bool whole = !from && to == b->line.n;
    bins_pass p = {b, whole ? b->turns : malloc(RK_TURNS * n * sizeof *p.counts)};
    if (!p.counts) {
        __atomic_store_n(&b->failed, true, __ATOMIC_RELAXED);
        return;
    }
    memset(p.counts, 0, RK_TURNS * n * sizeof *p.counts);
    rk_read_blocks(&b->line, from, to, bins_take, &p);
    for (size_t i = 0; i < RK_TURNS * n; i++)
        if (p.counts[i])
            __atomic_fetch_add(&b->counts[i % n], p.counts[i], __ATOMIC_RELAXED);
    if (!whole)
        free(p.counts);
}

rp_err rk_bins_cell(const rk_bins *b, uint8_t *cell)
{
    const uint32_t edges = b->spec->n_edges;
    const uint64_t apart[RP_APART] = {
        [RP_BELOW] = b->counts[0], [RP_ABOVE] = b->counts[edges], [RP_NANS_APART] = b->counts[edges + 1]};
    if (__atomic_load_n(&b->failed, __ATOMIC_RELAXED))
        return RP_NO_MEMORY;
    memcpy(cell, b->counts + 1, (edges - 1) * sizeof *b->counts);
    memcpy(cell + (edges - 1) * sizeof *b->counts, apart, sizeof apart);
    return apart[RP_NANS_APART] && b->spec->nan == RP_NAN_ERROR ? RP_NAN : RP_OK;
}

void rk_bins_close(rk_bins *b)
{
    free(b->bound);
    b->bound = NULL;
}
