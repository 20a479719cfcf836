#include "kernels/cpu/order/rank_slots.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/loops/order/edge_places.h"
#include "kernels/exact/line.h"

static uint32_t last_slot(const rk_rank_slots *s) { return s->bins.slots.n - 2; } /* the next one has NaNs */

/* Equal keys of the sample are likely many: such a key has a slot of its own. */
static uint32_t choose_bounds(uint64_t *bound, const uint64_t *sample, size_t k, uint64_t most)
{
    uint32_t n = 0;
    uint64_t last = 0;
    for (size_t i = 1; i < RK_RANK_SLOTS; i++) {
        const uint64_t key = sample[i * k / RK_RANK_SLOTS];
        const uint64_t next = key > last ? key : key + (key < most);
        if (next > (n ? bound[n - 1] : 0))
            bound[n++] = next;
        last = key;
    }
    return n;
}

rk_rank_slots *rk_rank_slots_open(const rk_simd *simd, const rk_reader *line, const rk_keys *keys, const uint64_t *sample,
                                  size_t k)
{
    rk_rank_slots *s = calloc(1, sizeof *s);
    uint64_t bound[2 * RK_RANK_SLOTS];
    if (!s)
        return NULL;
    s->spec = (rp_spec){.op = RP_OP_HISTOGRAM, .rows = 1, .row_len = line->n, .dtype = RP_U64};
    s->spec.n_edges = choose_bounds(bound, sample, k, keys->most);
    s->bins = (rk_bins){.simd = simd, .line = *line, .spec = &s->spec};
    if (rk_bins_of_keys(&s->bins, keys, bound)) {
        rk_bins_open(&s->bins);
        return s;
    }
    free(s);
    return NULL;
}

/* ---- the second pass ---- */

/* Keys of wanted slots among n elements. The bounds in a place are searched without branches. */
#define TAKE(W)                                                                                                           \
    static size_t take_##W(const rk_rank_slots *s, const void *data, size_t n, uint8_t *keys)                             \
    {                                                                                                                     \
        const rk_edge_keys e = s->bins.slots;                                                                             \
        const rk_keys k = s->bins.keys;                                                                                   \
        const uint32_t last = e.places - 1;                                                                               \
        size_t kept = 0;                                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                                  \
            uint##W##_t x;                                                                                                \
            memcpy(&x, (const uint8_t *)data + i * sizeof x, sizeof x);                                                   \
            const uint##W##_t sign = (uint##W##_t)((int##W##_t)x >> (W - 1));                                             \
            const uint##W##_t key = (uint##W##_t)((uint##W##_t)(x ^ (sign & (uint##W##_t)k.flip)) - (uint##W##_t)k.base); \
            uint32_t slot = e.table[key_place_##W(key, (uint##W##_t)e.first, e.shift, last)];                             \
            for (uint32_t half = e.half; half > 1; half /= 2)                                                             \
                slot += e.bound[slot + half - 1] <= key ? half : 0;                                                       \
            slot += e.bound[slot] <= key;                                                                                 \
            slot = slot < e.bounds ? slot : e.bounds;                                                                     \
            memcpy(keys + kept * sizeof key, &key, sizeof key);                                                           \
            kept += (key <= e.most) & s->wanted[slot];                                                                    \
        }                                                                                                                 \
        return kept;                                                                                                      \
    }
TAKE(16)
TAKE(32)
TAKE(64)
#undef TAKE

static void append(rk_rank_slots *s, const uint8_t *keys, size_t n)
{
    const size_t size = s->bins.line.size;
    const uint64_t at = __atomic_fetch_add(&s->kept, n, __ATOMIC_RELAXED);
    if (at <= s->inside && n <= s->inside - at)
        memcpy(s->keys + at * size, keys, n * size);
}

static void slots_take(void *arg, const void *data, size_t n)
{
    rk_rank_slots *s = arg;
    uint8_t keys[(RK_KEYS_AT_ONCE + 1) * sizeof(uint64_t)];
    const size_t size = s->bins.line.size, kept = size == 2   ? take_16(s, data, n, keys)
                                                  : size == 4 ? take_32(s, data, n, keys)
                                                              : take_64(s, data, n, keys);
    if (kept)
        append(s, keys, kept);
}

void rk_rank_slots_pass(rk_rank_slots *s, const rk_reader *line, uint64_t from, uint64_t to)
{
    if (s->keeping)
        rk_read_blocks(line, from, to, slots_take, s);
    else
        rk_bins_pass(&s->bins, from, to);
}

/* ---- counts ---- */

uint32_t rk_rank_slots_find(const rk_rank_slots *s, uint64_t rank, rk_slot_found *f)
{
    const uint64_t *bound = s->bins.slots.bound, *counts = s->bins.counts;
    uint32_t i = 0;
    f->below = 0;
    for (; i < last_slot(s) && rank >= f->below + counts[i]; i++)
        f->below += counts[i];
    f->lo = i ? bound[i - 1] : 0;
    f->hi = i < last_slot(s) ? bound[i] - 1 : s->bins.slots.most;
    f->inside = counts[i];
    return i;
}

uint64_t rk_rank_slots_nans(const rk_rank_slots *s) { return s->bins.counts[last_slot(s) + 1]; }

uint64_t rk_rank_slots_all(const rk_rank_slots *s)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < s->bins.slots.n; i++)
        all += s->bins.counts[i];
    return all;
}

bool rk_rank_slots_keep(rk_rank_slots *s)
{
    s->keeping = true;
    s->keys = malloc((size_t)(s->inside * s->bins.line.size) + 1);
    return s->keys != NULL;
}

void rk_rank_slots_close(rk_rank_slots *s)
{
    if (!s)
        return;
    rk_bins_close(&s->bins);
    free(s->keys);
    free(s);
}
