#include "kernels/cpu/order/bins.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/loops/order/edge_places.h"
#include "kernels/exact/edges.h"

/* log2 of the table's places: 4 for each bound, or more if several bounds would share one; fewer for few elements. */
enum { LEAST_TABLE = 6, MOST_TABLE = 16, PLACES_A_BOUND = 4, MORE = 2 };
enum { LEAST_PAIRS = 1 << 16 }; /* elements of a pass that is worth tables of pairs */

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

/* ---- the table ---- */

static double value_of(const rk_bins *b, uint64_t key)
{
    const uint64_t bits = rk_key_bits(b->spec->dtype, key);
    double wide;
    float narrow;
    memcpy(&wide, &bits, sizeof wide);
    memcpy(&narrow, &bits, sizeof narrow);
    return b->line.size == sizeof narrow ? (double)narrow : wide;
}

static uint32_t place_of(const rk_bins *b, uint64_t key)
{
    const rk_edge_keys *t = &b->slots;
    const uint32_t last = t->places - 1;
    if (!t->by_value)
        return key_place_64(key, t->first, t->shift, last);
    return b->line.size == 4 ? value_place_32((float)value_of(b, key), (float)t->low, (float)t->scale, last)
                             : value_place_64(value_of(b, key), t->low, t->scale, last);
}

/* Returns how many bounds share a place, at most. */
static uint32_t fill_table(rk_bins *b)
{
    rk_edge_keys *t = &b->slots;
    uint32_t slot = 0, most = 0;
    for (uint32_t place = 0; place < t->places; place++) {
        const uint32_t first = b->table[place] = slot;
        while (slot < t->bounds && place_of(b, b->bound[slot]) == place)
            slot++;
        most = slot - first > most ? slot - first : most;
    }
    b->table[t->places] = b->keys.most == UINT64_MAX ? t->bounds : t->n - 1; /* integers have no NaNs */
    t->half = most ? 1u << (log2_of(most) - 1) : 0;
    return most;
}

/* Equal parts of the values between the finite bounds. False: there are none, or they differ too little for a product that
 * must not be a NaN, whether small numbers are flushed to zero or not. */
static bool part_values(rk_bins *b, int width)
{
    rk_edge_keys *t = &b->slots;
    const double least = b->line.size == 4 ? 0x1p-60 : 0x1p-600, most = b->line.size == 4 ? 0x1p126 : 0x1p1022;
    uint32_t from = 0, to = t->bounds;
    while (from < to && value_of(b, b->bound[from]) < -most)
        from++;
    while (from < to && value_of(b, b->bound[to - 1]) > most)
        to--;
    if (from == to)
        return false;
    t->by_value = true;
    t->low = value_of(b, b->bound[from]);
    const double range = value_of(b, b->bound[to - 1]) - t->low;
    t->places = 1u << width;
    t->scale = (double)(t->places - 1) / range;
    return range >= least && range <= most;
}

/* Equal parts of the keys. */
static void part_keys(rk_bins *b, int width)
{
    rk_edge_keys *t = &b->slots;
    const uint64_t range = t->bounds ? b->bound[t->bounds - 1] - t->first : 0;
    t->by_value = false;
    t->shift = log2_of(range) - width;
    t->shift = t->shift < 0 ? 0 : t->shift;
    t->places = (uint32_t)(range >> t->shift) + 2;
}

/* The smallest table whose places have one bound at most; else the largest one, of keys or values, whichever has fewer. */
static void choose_table(rk_bins *b)
{
    const rp_spec *s = b->spec;
    const bool values = s->dtype == RP_F32 || s->dtype == RP_F64;
    const int bounds = log2_of((uint64_t)PLACES_A_BOUND * s->n_edges), elements = log2_of(rp_elements(s));
    const int largest = elements < LEAST_TABLE ? LEAST_TABLE : elements < MOST_TABLE ? elements : MOST_TABLE;
    uint32_t of_keys = UINT32_MAX;
    int width = bounds < LEAST_TABLE ? LEAST_TABLE : bounds < largest ? bounds : largest;
    b->slots.first = b->slots.bounds ? b->bound[0] : 0;
    for (;; width = width + MORE < largest ? width + MORE : largest) {
        if (values && part_values(b, width) && fill_table(b) <= (width == largest ? of_keys : 1))
            return;
        part_keys(b, width);
        of_keys = fill_table(b);
        if (of_keys <= 1 || width == largest)
            return;
    }
}

/* ---- bins of one width ---- */

/* s of rk_edge_keys. */
static double even_place(const rk_bins *b, uint64_t key)
{
    const rk_edge_keys *t = &b->slots;
    const double x = value_of(b, key);
    return b->line.size == 4 ? (double)(((float)x - (float)t->even_low) * (float)t->even_scale)
                             : (x - t->even_low) * t->even_scale;
}

/* Are the slots right of all elements that are sure? They are if that holds at the bounds, because s does not fall. A quarter
 * of the margin is kept: a caller may flush small numbers to zero. */
static bool is_even(const rk_bins *b, double margin)
{
    const double least = margin / 4 - 0.5, most = margin * 3 / 4 - 0.5;
    for (uint32_t i = 0; i < b->slots.bounds; i++)
        if (even_place(b, b->bound[i]) - (i + 1) < least || even_place(b, b->bound[i] - 1) - (i + 1) > most)
            return false;
    return true;
}

/* Find the least margin that fits, as a part of a bin. */
static void find_even(rk_bins *b)
{
    rk_edge_keys *t = &b->slots;
    const uint32_t last = t->bounds - 1;
    const double unit = (b->line.size == 4 ? 0x1p-23 : 0x1p-52) * t->n;
    if ((b->spec->dtype != RP_F32 && b->spec->dtype != RP_F64) || t->n > RK_EVEN_SLOTS || t->bounds + 2 != t->n ||
        !t->by_value || b->bound[0] == 0)
        return;
    const double first = value_of(b, b->bound[0]), width = (value_of(b, b->bound[last]) - first) / last;
    t->even_scale = 1 / width;
    for (double margin = 4 * unit; !t->even && margin <= 64 * unit; margin *= 2) {
        t->even_low = first - width * (0.5 + margin / 2);
        t->even_sure = margin - 0.5;
        t->even = is_even(b, margin);
    }
}

static bool make(rk_bins *b, const rk_keys *keys)
{
    const rp_spec *s = b->spec;
    rk_edge_keys *t = &b->slots;
    const uint64_t n = slots_of(s);
    const size_t bounds = 3 * (size_t)s->n_edges; /* and those of the last steps of a search */
    b->keys = *keys;
    b->failed = false;
    *t = (rk_edge_keys){.n = (uint32_t)n, .most = s->dtype == RP_BOOL ? UINT8_MAX : b->keys.most};
    b->bound = malloc((size_t)(bounds + (1 + RK_TURNS) * n) * sizeof *b->bound +
                      (((size_t)1 << MOST_TABLE) + 3) * sizeof *b->table);
    if (!b->bound)
        return false;
    memset(b->bound, 255, bounds * sizeof *b->bound);
    b->counts = b->bound + bounds;
    b->turns = b->counts + n;
    b->table = (uint32_t *)(void *)(b->turns + RK_TURNS * n);
    t->bound = b->bound;
    t->table = b->table;
    return true;
}

bool rk_bins_init(rk_bins *b)
{
    const rk_keys keys = rk_keys_of(b->spec->dtype);
    if (!make(b, &keys))
        return false;
    find_bounds(b);
    choose_table(b);
    find_even(b);
    return true;
}

bool rk_bins_of_keys(rk_bins *b, const rk_keys *keys, const uint64_t *bound)
{
    if (!make(b, keys))
        return false;
    b->slots.bounds = b->spec->n_edges;
    memcpy(b->bound, bound, b->spec->n_edges * sizeof *bound);
    choose_table(b);
    return true;
}

/* ---- a pass ---- */

typedef struct bins_pass {
    const rk_bins *b;
    uint64_t *counts;
    uint16_t *pairs; /* NULL: not in pairs */
    size_t counted;  /* elements since they were cleared */
} bins_pass;

/* Adds the counts of pairs to those of slots. */
static void close_pairs(bins_pass *p)
{
    const uint32_t n = p->b->slots.n;
    const uint16_t *first = p->pairs, *second = first + n * n;
    uint32_t low[RK_EVEN_SLOTS] = {0};
    for (uint32_t i = 0; i < n; i++, first += n, second += n) {
        uint32_t high = 0;
        for (uint32_t j = 0; j < n; j++) {
            const uint32_t both = (uint32_t)first[j] + second[j];
            low[j] += both;
            high += both;
        }
        p->counts[i * RK_TURNS] += high;
    }
    for (uint32_t i = 0; i < n; i++)
        p->counts[i * RK_TURNS] += low[i];
    memset(p->pairs, 0, 2 * (size_t)n * n * sizeof *p->pairs);
    p->counted = 0;
}

/* By key first. */
static void count_bytes(const rk_bins *b, const void *x, size_t n, uint64_t *counts)
{
    uint64_t of_key[256] = {0};
    uint32_t slot = 0;
    b->simd->digits[0](x, n, &b->keys, 0, 255, 0, of_key);
    for (uint64_t key = 0; key <= 255; key++) {
        while (slot < b->slots.bounds && b->bound[slot] <= key)
            slot++;
        counts[(key > b->slots.most ? b->slots.n - 1 : slot) * RK_TURNS] += of_key[key];
    }
}

static void bins_take(void *arg, const void *x, size_t n)
{
    bins_pass *p = arg;
    const rk_bins *b = p->b;
    if (p->pairs && p->counted + n > RK_EVEN_AT_ONCE)
        close_pairs(p);
    p->counted += n;
    if (b->line.size == 1)
        count_bytes(b, x, n, p->counts);
    else if (p->pairs)
        b->simd->even_counts[__builtin_ctzll(b->line.size)](x, n, &b->keys, &b->slots, p->counts, p->pairs);
    else
        b->simd->edge_counts[__builtin_ctzll(b->line.size)](x, n, &b->keys, &b->slots, p->counts);
}

void rk_bins_open(rk_bins *b) { memset(b->counts, 0, slots_of(b->spec) * sizeof *b->counts); }

void rk_bins_pass(rk_bins *b, uint64_t from, uint64_t to)
{
    const size_t n = slots_of(b->spec);
    const bool whole = !from && to == b->line.n;
    bins_pass p = {.b = b, .counts = whole ? b->turns : malloc(RK_TURNS * n * sizeof *p.counts)};
    if (!p.counts) {
        __atomic_store_n(&b->failed, true, __ATOMIC_RELAXED);
        return;
    }
    memset(p.counts, 0, RK_TURNS * n * sizeof *p.counts);
    if (b->slots.even && to - from >= LEAST_PAIRS)
        p.pairs = calloc(2 * (size_t)b->slots.n * b->slots.n, sizeof *p.pairs);
    rk_read_blocks(&b->line, from, to, bins_take, &p);
    if (p.pairs)
        close_pairs(&p);
    free(p.pairs);
    for (size_t i = 0; i < RK_TURNS * n; i++)
        if (p.counts[i])
            __atomic_fetch_add(&b->counts[i / RK_TURNS], p.counts[i], __ATOMIC_RELAXED);
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
