#include "kernels/cpu/order/best.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/exact/line.h"
#include "kernels/exact/total_order.h"

enum {
    STRIP = 256,       /* elements that are passed over together */
    SAMPLED = 1 << 16, /* lines from this length on have a sample */
    FEW_OF = 64        /* ... if at most one element in this number is asked for */
};

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* ---- scores ---- */

static uint64_t all_keys(const rk_best *b) { return b->line.size == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * b->line.size) - 1; }

static uint64_t best_score(const rk_best *b) { return b->keys.most + (b->nans ? 1 : 0); }

static uint64_t score_of(const rk_best *b, uint64_t key)
{
    if (b->truths)
        key = key != 0;
    if (key > b->keys.most)
        return b->keys.most + 1;
    return b->spec->op == RP_OP_LARGEST ? key : b->keys.most - key;
}

static uint64_t bits_of(const rk_best *b, uint64_t score)
{
    if (score > b->keys.most)
        return rk_nan_bits(rk_format_of(b->spec->dtype));
    return rk_key_bits(b->spec->dtype, b->spec->op == RP_OP_LARGEST ? score : b->keys.most - score);
}

/* Keys whose score is `score` or better: from *from on, *span further at most. */
static void keys_from(const rk_best *b, uint64_t score, uint64_t *from, uint64_t *span)
{
    const uint64_t all = all_keys(b), most = b->truths ? all : b->keys.most;
    if (b->spec->op == RP_OP_LARGEST) {
        *from = score;
        *span = (b->nans ? all : most) - score;
        return;
    }
    *from = b->nans ? most + 1 : 0; /* NaNs, then the smallest */
    *span = ((b->truths && !score ? all : b->keys.most - score) - *from) & all;
}

/* ---- the heap ---- */

static bool is_better(rk_scored x, rk_scored y) { return x.score > y.score || (x.score == y.score && x.index < y.index); }

/* Put x where the root was. */
static void sink(rk_heap *h, rk_scored x)
{
    uint64_t i = 0;
    for (uint64_t c = 1; c < h->n; i = c, c = 2 * c + 1) {
        c += c + 1 < h->n && is_better(h->at[c], h->at[c + 1]);
        if (!is_better(x, h->at[c]))
            break;
        h->at[i] = h->at[c];
    }
    h->at[i] = x;
}

static void add(rk_heap *h, rk_scored x)
{
    uint64_t i = h->n;
    if (h->n == h->room) {
        if (is_better(x, h->at[0]))
            sink(h, x);
        return;
    }
    h->n++;
    for (; i && is_better(h->at[(i - 1) / 2], x); i = (i - 1) / 2)
        h->at[i] = h->at[(i - 1) / 2];
    h->at[i] = x;
}

/* The worst one, taken out. */
static rk_scored take_worst(rk_heap *h)
{
    const rk_scored worst = h->at[0];
    h->n--;
    sink(h, h->at[h->n]);
    return worst;
}

/* Elements that follow those of a full heap have to be better than its worst one, not equal. */
static void raise(const rk_best *b, rk_heap *h)
{
    if (h->n < h->room || h->at[0].score < h->least)
        return;
    h->closed = h->at[0].score == best_score(b);
    h->least = h->at[0].score + !h->closed;
}

/* ---- a pass ---- */

typedef struct best_pass {
    rk_best *b;
    rk_heap heap;
    uint64_t index; /* of the next element */
    uint64_t from, span;
} best_pass;

static void look_at(best_pass *p, const uint8_t *x, const uint16_t *hit, size_t hits)
{
    const rk_best *b = p->b;
    const size_t size = b->line.size;
    for (size_t i = 0; i < hits; i++) {
        const uint64_t key = rk_key_of(&b->keys, size, rk_load(x + hit[i] * size, (int)size)), index = p->index + hit[i];
        if (((key - p->from) & all_keys(b)) > p->span || (b->line.mask && !b->line.mask[rk_read_place(&b->line, index)]))
            continue;
        add(&p->heap, (rk_scored){score_of(b, key), index});
        raise(b, &p->heap);
        if (p->heap.closed)
            return;
        keys_from(b, p->heap.least, &p->from, &p->span);
    }
}

static void best_take(void *arg, const void *data, size_t n)
{
    best_pass *p = arg;
    const rk_best *b = p->b;
    const uint8_t *x = data;
    rk_hits_fn *find_hits = b->simd->hits[__builtin_ctzll(b->line.size)];
    uint16_t hit[STRIP];
    for (size_t i = 0, some; i < n && !p->heap.closed; i += some, x += some * b->line.size, p->index += some) {
        some = least(n - i, STRIP);
        const size_t hits = find_hits(x, some, &b->keys, p->from, p->span, hit);
        if (hits)
            look_at(p, x, hit, hits);
    }
}

static void join(rk_best *b, const rk_heap *h)
{
    pthread_mutex_lock(&b->lock);
    for (uint64_t i = 0; i < h->n; i++)
        add(&b->heap, h->at[i]);
    if (b->heap.n == b->heap.room && b->heap.at[0].score > b->heap.least)
        b->heap.least = b->heap.at[0].score; /* elements before those of the heap may equal its worst one */
    pthread_mutex_unlock(&b->lock);
}

/* Part of a line: into a heap of its own. */
static bool pass_part(rk_best *b, best_pass *p, const rk_reader *plain, uint64_t from, uint64_t to)
{
    pthread_mutex_lock(&b->lock);
    p->heap = (rk_heap){.room = least(b->k, to - from), .least = b->heap.least};
    pthread_mutex_unlock(&b->lock);
    p->heap.at = malloc((size_t)p->heap.room * sizeof *p->heap.at);
    if (!p->heap.at)
        return false;
    keys_from(b, p->heap.least, &p->from, &p->span);
    rk_read_blocks(plain, from, to, best_take, p);
    join(b, &p->heap);
    free(p->heap.at);
    return true;
}

void rk_best_pass(rk_best *b, uint64_t from, uint64_t to)
{
    best_pass p = {.b = b, .index = from};
    rk_reader plain = b->line; /* the mask is looked at where it matters */
    plain.mask = NULL;
    if (from >= to || !b->k)
        return;
    if (from || to < b->line.n) {
        if (!pass_part(b, &p, &plain, from, to))
            __atomic_store_n(&b->failed, true, __ATOMIC_RELAXED);
        return;
    }
    p.heap = b->heap;
    keys_from(b, p.heap.least, &p.from, &p.span);
    rk_read_blocks(&plain, from, to, best_take, &p);
    b->heap = p.heap;
}

bool rk_best_next(rk_best *b, bool *again)
{
    *again = b->heap.n < b->k && b->bound && !b->passes++;
    if (*again) {
        b->heap.n = b->heap.least = 0;
        b->heap.closed = false;
    }
    return !__atomic_load_n(&b->failed, __ATOMIC_RELAXED);
}

/* ---- open and close ---- */

void rk_best_init(rk_best *b)
{
    b->keys = rk_keys_of(b->spec->dtype);
    b->truths = b->spec->dtype == RP_BOOL;
    b->nans = rk_is_float(b->spec->dtype) && b->spec->nan != RP_NAN_OMIT;
    pthread_mutex_init(&b->lock, NULL);
}

/* A score that k elements have or exceed, probably: that of the sample's element three standard deviations further. */
static bool choose_bound(rk_best *b)
{
    const size_t size = rk_sample_size(b->line.n);
    uint64_t *sample = malloc(2 * size * sizeof *sample);
    if (!sample)
        return false;
    const size_t n = rk_take_sample(&b->line, &b->keys, sample, size);
    const double expected = (double)b->k * (double)size / (double)b->line.n;
    double reach = 3;
    while (reach * reach < 9 * expected)
        reach *= 1.125;
    const size_t rank = (size_t)(expected + reach) + 2;
    for (size_t i = 0; i < n; i++)
        sample[i] = score_of(b, sample[i]);
    if (rank < n)
        b->bound = rk_sort_many(sample, sample + size, n)[n - 1 - rank];
    free(sample);
    return true;
}

bool rk_best_open(rk_best *b)
{
    b->k = least((uint64_t)b->spec->k, b->line.n);
    b->passes = 0;
    b->bound = 0;
    b->failed = false;
    if (b->line.x && b->line.n >= SAMPLED && b->k < b->line.n / FEW_OF && b->line.size > 1 && !choose_bound(b))
        return false;
    rk_scored *at = b->heap.at;
    if (b->k > b->heap.room || !at) {
        free(at);
        at = malloc((size_t)(b->k + 1) * sizeof *at);
    }
    b->heap = (rk_heap){.at = at, .room = b->k, .least = b->bound};
    return at;
}

rp_err rk_best_cell(rk_best *b, uint8_t *cell, uint64_t *bad)
{
    rk_heap *h = &b->heap;
    const uint64_t n = h->n;
    rk_placed *best = malloc((size_t)(n + 1) * sizeof *best);
    if (!best)
        return RP_NO_MEMORY;
    for (uint64_t i = n; i; i--) {
        const rk_scored x = take_worst(h);
        best[i - 1] = (rk_placed){bits_of(b, x.score), x.index};
    }
    const bool nan = n && rk_is_nan(b->spec->dtype, best[0].bits);
    const rp_err err = nan && b->spec->nan == RP_NAN_ERROR ? RP_NAN : rk_top_cell(b->spec, best, n, cell, bad);
    free(best);
    return err;
}

void rk_best_close(rk_best *b)
{
    free(b->heap.at);
    b->heap.at = NULL;
    pthread_mutex_destroy(&b->lock);
}
