#include "kernels/cpu/keys/keyed.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/threads/parts.h"
#include "kernels/exact/line.h"

enum {
    BLOCK = 512,            /* elements whose slots are looked up together */
    PART = 1 << 17,         /* elements of a thread at least: they take some 0.5 ms, and its start 50 us */
    MOST_PARTS = 64,        /* more threads wait for memory */
    TABLES_BYTES = 8 << 20, /* of the threads' own slots: they stay in the caches */
    EACH = 64,              /* elements for each of these slots at least, so that joining them costs little */
    SAMPLE = 1024           /* keys that say where to cut their range */
};

/* ---- keys -------------------------------------------------------------------------------------------------------- */

#define EACH(dtype, type, ...)                                            \
    case dtype:                                                           \
        for (size_t i = 0; i < (n); i++) {                                \
            type one;                                                     \
            memcpy(&one, at + i * sizeof one, sizeof one);                \
            const uint64_t key = (uint64_t)(int64_t)one; /* of 64 bits */ \
            __VA_ARGS__;                                                  \
        }                                                                 \
        break

/* Do something with `key`, that of element i of [from, from + n): one loop for each type. */
#define EACH_KEY(b, from, n, ...)                                                                     \
    do {                                                                                              \
        const uint8_t *at = (const uint8_t *)(b)->keys + (from) * (uint64_t)rk_bytes((b)->key_dtype); \
        switch ((b)->key_dtype) {                                                                     \
            EACH(RP_I8, int8_t, __VA_ARGS__);                                                         \
            EACH(RP_U8, uint8_t, __VA_ARGS__);                                                        \
            EACH(RP_I16, int16_t, __VA_ARGS__);                                                       \
            EACH(RP_U16, uint16_t, __VA_ARGS__);                                                      \
            EACH(RP_I32, int32_t, __VA_ARGS__);                                                       \
            EACH(RP_U32, uint32_t, __VA_ARGS__);                                                      \
            EACH(RP_I64, int64_t, __VA_ARGS__);                                                       \
            EACH(RP_U64, uint64_t, __VA_ARGS__);                                                      \
        }                                                                                             \
    } while (0)

/* The keys of elements [from, from + n). */
static void load_keys(const rk_keyed *b, uint64_t from, size_t n, uint64_t *to)
{
    if (b->keys)
        EACH_KEY(b, from, n, to[i] = key);
    else
        memset(to, 0, n * sizeof *to);
}

/* Are all keys of elements [from, from + n) below `groups`, which is not more than 2^63? */
static bool are_groups(const rk_keyed *b, uint64_t groups, uint64_t from, size_t n)
{
    uint64_t wrong = groups - 1; /* its sign */
    if (b->keys)
        EACH_KEY(b, from, n, wrong |= key | (groups - 1 - key));
    return !(wrong >> 63);
}

/* Is it a key that no flag allows? */
static bool is_wrong(const rk_keyed *b, uint64_t groups, uint64_t key)
{
    if (key < groups || b->drop_outside)
        return false;
    return !(b->drop_negative && rk_is_signed(b->key_dtype) && key >> 63);
}

uint64_t rk_keyed_find(const rk_keyed *b, uint64_t groups, uint64_t from, uint64_t to, uint64_t *wrong)
{
    uint64_t key[BLOCK];
    for (size_t n; from < to; from += n) {
        n = to - from < BLOCK ? (size_t)(to - from) : BLOCK;
        if (are_groups(b, groups, from, n))
            continue;
        load_keys(b, from, n, key);
        for (size_t i = 0; i < n; i++)
            if (is_wrong(b, groups, key[i]) && !(b->mask && !b->mask[from + i])) {
                *wrong = key[i];
                return from + i;
            }
    }
    return to;
}

/* ---- one thread -------------------------------------------------------------------------------------------------- */

/* Elements of a block. */
typedef struct chosen {
    size_t n;
    uint16_t element[BLOCK];
    void *slot[BLOCK];
} chosen;

/* Those of elements [from, from + n) whose keys are among the groups, and which the mask keeps: mostly all. Else a branch would
 * be mispredicted half of the time. */
static void choose(const rk_keyed *b, const rk_groups *g, uint64_t from, size_t n, chosen *c)
{
    uint64_t every[BLOCK], outside = 0 - (uint64_t)(b->mask || !b->keys); /* its sign */
    const uint64_t first = g->first, last = g->n - 1, bytes = g->kind->bytes, slots = (uint64_t)(uintptr_t)g->slots;
    c->n = n;
    if (!outside)
        EACH_KEY(b, from, n, outside |= (key - first) | (last - (key - first));
                 c->slot[i] = (void *)(uintptr_t)(slots + (key - first) * bytes));
    if (!(outside >> 63))
        return;
    c->n = 0;
    load_keys(b, from, n, every);
    for (size_t i = 0; i < n; i++) {
        c->element[c->n] = (uint16_t)i;
        c->n += (every[i] - g->first < g->n) & (!b->mask || b->mask[from + i]);
    }
    for (size_t i = 0; i < c->n; i++)
        c->slot[i] = g->slots + (every[c->element[i]] - g->first) * g->kind->bytes;
}

uint64_t rk_keyed_add_range(const rk_keyed *b, const rk_groups *g, uint64_t from, uint64_t to, uint64_t *added)
{
    const size_t size = (size_t)rk_bytes(g->kind->dtype);
    chosen c;
    for (size_t n; from < to; from += n) {
        n = to - from < BLOCK ? (size_t)(to - from) : BLOCK;
        choose(b, g, from, n, &c);
        const void *values = (const uint8_t *)b->values + from * size;
        const size_t taken = rk_slots_add(g->kind, c.slot, values, b->first + from, c.n < n ? c.element : NULL, c.n);
        if (taken < c.n)
            return from + c.element[taken];
        if (added)
            *added += c.n;
    }
    return to;
}

/* ---- several threads --------------------------------------------------------------------------------------------- */

/* Either each part has some elements and slots of its own, or some groups and looks at all keys. */
typedef struct shared {
    const rk_keyed *b;
    const rk_groups *g;
    unsigned parts;
    uint64_t groups;
    _Atomic uint64_t found; /* the lowest element that a part reports; b->n: none */
    rk_groups own[MOST_PARTS];
    uint64_t cut[MOST_PARTS + 1]; /* keys: part i has those in [cut[i], cut[i + 1]) */
} shared;

static unsigned parts_of(uint64_t n)
{
    const uint64_t most = n / PART;
    return most > 1 ? rk_parts_at_once(most < MOST_PARTS ? (unsigned)most : MOST_PARTS) : 1;
}

static uint64_t start_of(const shared *x, unsigned part) { return x->b->n / x->parts * part; }

static uint64_t end_of(const shared *x, unsigned part) { return part + 1 < x->parts ? start_of(x, part + 1) : x->b->n; }

static void report(shared *x, uint64_t at)
{
    uint64_t lowest = atomic_load(&x->found);
    while (at < lowest && !atomic_compare_exchange_weak(&x->found, &lowest, at))
        ;
}

static void run_find(void *arg, unsigned part)
{
    shared *x = arg;
    uint64_t key;
    const uint64_t end = end_of(x, part), at = rk_keyed_find(x->b, x->groups, start_of(x, part), end, &key);
    if (at < end)
        report(x, at);
}

static void run_elements(void *arg, unsigned part)
{
    shared *x = arg;
    const uint64_t end = end_of(x, part), at = rk_keyed_add_range(x->b, &x->own[part], start_of(x, part), end, NULL);
    if (at < end)
        report(x, at);
}

static void run_groups(void *arg, unsigned part)
{
    shared *x = arg;
    const uint64_t low = x->cut[part];
    const rk_groups mine = {x->g->kind, x->g->slots + low * x->g->kind->bytes, low, x->cut[part + 1] - low};
    const uint64_t at = rk_keyed_add_range(x->b, &mine, 0, x->b->n, NULL);
    if (at < x->b->n)
        report(x, at);
}

uint64_t rk_keyed_wrong(const rk_keyed *b, uint64_t groups, uint64_t *key)
{
    shared x = {.b = b, .groups = groups, .parts = parts_of(b->n), .found = b->n};
    rk_run_parts(x.parts, run_find, &x);
    const uint64_t at = atomic_load(&x.found);
    if (at < b->n)
        load_keys(b, at, 1, key);
    return at;
}

/* ---- slots of their own ---- */

static void drop_own(shared *x)
{
    for (unsigned part = 1; part < x->parts; part++) {
        for (uint64_t i = 0; x->own[part].slots && i < x->groups; i++)
            rk_slot_drop(x->g->kind, x->own[part].slots + i * x->g->kind->bytes);
        free(x->own[part].slots);
    }
}

/* The first part adds to the groups themselves. False: there are too many groups, or there is no memory. */
static bool make_own(shared *x)
{
    const rk_slots *k = x->g->kind;
    const uint64_t others = x->parts - 1, each = x->groups * k->bytes;
    bool all = each * others <= TABLES_BYTES && x->groups * x->parts <= x->b->n / EACH;
    x->own[0] = *x->g;
    for (unsigned part = 1; part < x->parts; part++) {
        uint8_t *slots = all ? malloc((size_t)each) : NULL;
        for (uint64_t i = 0; slots && i < x->groups; i++)
            rk_slot_init(k, slots + i * k->bytes);
        x->own[part] = (rk_groups){k, slots, 0, x->groups};
        all = slots;
    }
    if (!all)
        drop_own(x);
    return all;
}

static void join_own(shared *x)
{
    const rk_slots *k = x->g->kind;
    for (unsigned part = 1; part < x->parts; part++)
        for (uint64_t i = 0; i < x->groups; i++)
            if (!rk_slot_join(k, x->g->slots + i * k->bytes, x->own[part].slots + i * k->bytes))
                report(x, start_of(x, part));
    drop_own(x);
}

/* ---- groups of their own ---- */

static int by_size(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Cut the groups so that parts have nearly the same number of elements of a sample. */
static void cut_groups(shared *x)
{
    uint64_t key[SAMPLE];
    size_t n = 0;
    for (uint64_t i = 0; i < SAMPLE; i++) {
        load_keys(x->b, x->b->n / SAMPLE * i, 1, &key[n]);
        n += key[n] < x->groups;
    }
    qsort(key, n, sizeof key[0], by_size);
    for (unsigned part = 0; part <= x->parts; part++)
        x->cut[part] = part == 0 ? 0 : part == x->parts ? x->groups : n ? key[n * part / x->parts] : 0;
}

uint64_t rk_keyed_add(const rk_keyed *b, const rk_groups *g)
{
    shared x = {.b = b, .g = g, .groups = g->n, .parts = parts_of(b->n), .found = b->n};
    if (x.parts == 1)
        return rk_keyed_add_range(b, g, 0, b->n, NULL);
    if (make_own(&x)) {
        rk_run_parts(x.parts, run_elements, &x);
        join_own(&x);
    } else {
        cut_groups(&x);
        rk_run_parts(x.parts, run_groups, &x);
    }
    return atomic_load(&x.found);
}
