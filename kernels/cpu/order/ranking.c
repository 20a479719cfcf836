#include "kernels/cpu/order/ranking.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/order/sample.h"
#include "kernels/exact/line.h"
#include "kernels/kernels.h"

enum {
    WIDE = 3,        /* brackets reach so many standard deviations to each side */
    MANY_RANKS = 24, /* slots find them faster than so many brackets */
    LONG = 1 << 18,  /* elements of a line for which slots are worth it */
    MOST_PASSES = 16 /* of a line that does not change seven suffice for eight ranks */
};

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static int log2_size(const rk_ranking *r) { return __builtin_ctzll(r->line.size); }

/* ---- brackets ---- */

static uint64_t memory_of(const rk_ranking *r) { return r->memory ? r->memory : RK_ORDER_KEPT; }

static void clear(rk_bracket *b)
{
    b->seen = (rk_between){0};
    b->between = 0;
}

/* One that begins where the last one ends stays apart: many elements may equal that key, and those at ends are not kept. */
static bool add_bracket(rk_ranking *r, uint64_t lo, uint64_t hi)
{
    rk_bracket *last = r->brackets ? &r->bracket[r->brackets - 1] : NULL;
    if (last && (lo < last->hi || hi <= last->hi || (lo == last->hi && lo == last->lo))) {
        last->hi = hi > last->hi ? hi : last->hi;
        return true;
    }
    lo += last && lo == last->hi;
    if (r->brackets == RK_BRACKETS)
        return false;
    rk_bracket *b = &r->bracket[r->brackets++];
    b->lo = lo;
    b->hi = hi;
    b->digits = false;
    clear(b);
    return true;
}

/* Room for `each` keys in each bracket that keeps some, with a vector behind. What the brackets of the last pass had above that
 * is given back first. False: no memory. */
static bool make_room(rk_ranking *r, uint64_t each)
{
    for (unsigned i = 0; i < RK_BRACKETS; i++) {
        rk_bracket *b = &r->bracket[i];
        if (i < r->brackets && b->room <= memory_of(r) / r->brackets / r->line.size)
            continue;
        free(b->kept);
        b->kept = NULL;
        b->room = 0;
    }
    for (unsigned i = 0; i < r->brackets; i++) {
        rk_bracket *b = &r->bracket[i];
        const bool keeps = !b->digits && b->hi - b->lo > 1;
        const uint64_t room = keeps ? least(each, memory_of(r) / r->brackets / r->line.size) : 0;
        if (room > b->room) {
            free(b->kept);
            b->kept = malloc((size_t)(room * r->line.size));
            b->room = b->kept ? room : 0;
        }
        if (b->digits && !b->bins)
            b->bins = malloc(RK_DIGITS * sizeof *b->bins);
        if ((room && !b->kept) || (b->digits && !b->bins))
            return false;
        if (b->digits)
            memset(b->bins, 0, RK_DIGITS * sizeof *b->bins);
    }
    return true;
}

static double root(double x)
{
    double y = x > 1 ? x : 1;
    for (int i = 0; i < 40; i++)
        y = (y + x / y) / 2;
    return y;
}

/* Brackets around the wanted ranks, of about n elements, by a sorted sample of k; *each: keys that a bracket will hold at
 * most, unless the sample misleads. Returns whether slots are better: many ranks have no bracket, or brackets hold much. */
static bool choose_brackets(rk_ranking *r, const uint64_t *sample, size_t k, uint64_t n, uint64_t *each)
{
    uint64_t rank[RK_MAX_RANKS];
    const unsigned ranks = r->want(r->want_arg, n, rank);
    const double deviation = root((double)k) / 2;
    const int64_t reach = (int64_t)(WIDE * deviation) + 2;
    int64_t held = 0, last = 0;
    unsigned i = 0;
    for (; i < ranks; i++) {
        const int64_t at = (int64_t)((double)rank[i] / (double)n * (double)k), from = at - reach, to = at + reach;
        if (!add_bracket(r, from < 0 ? 0 : sample[from < (int64_t)k ? from : (int64_t)k - 1],
                         to >= (int64_t)k ? r->keys.most : sample[to]))
            break;
        held += to - (from > last ? from : last);
        last = to;
    }
    *each = (uint64_t)((double)(4 * reach) / (double)k * (double)n) + 1024;
    return ranks - i >= MANY_RANKS || (ranks >= MANY_RANKS && held > (int64_t)k / 4);
}

static void all_digits(rk_ranking *r)
{
    add_bracket(r, 0, r->line.size == 1 ? 255 : r->keys.most);
    r->bracket[0].digits = true;
    r->bracket[0].shift = r->line.size == 1 ? 0 : 8 * (int)r->line.size - RK_DIGIT_BITS;
}

/* ---- a pass ---- */

/* What one thread counts. */
typedef struct pass {
    rk_ranking *r;
    uint64_t all;
    rk_ranges ranges;            /* brackets that keep keys, and */
    unsigned which[RK_BRACKETS]; /* their numbers */
    rk_between seen[RK_BRACKETS];
    uint64_t below[RK_BRACKETS];                               /* the ranges */
    size_t inside;                                             /* keys in any range that are */
    uint8_t keys[2 * RK_KEYS_AT_ONCE * sizeof(uint64_t) + 64]; /* not told apart */
} pass;

/* Appends keys to those of the bracket, if there is room for all of them. */
static void append(rk_bracket *b, const uint8_t *keys, size_t n, size_t size)
{
    const uint64_t at = __atomic_fetch_add(&b->between, n, __ATOMIC_RELAXED);
    if (at <= b->room && n <= b->room - at)
        memcpy(b->kept + at * size, keys, n * size);
}

static void take_bracket(pass *p, unsigned i, const void *x, size_t n, const rk_keys *of, rk_between *seen)
{
    rk_ranking *r = p->r;
    rk_bracket *b = &r->bracket[i];
    uint8_t keys[RK_KEYS_AT_ONCE * sizeof(uint64_t) + 64];
    const size_t k = r->simd->between[log2_size(r)](x, n, of, b->lo, b->hi, seen, keys);
    if (k)
        append(b, keys, k, r->line.size);
}

/* Keys of several brackets, told apart. */
static void part_inside(pass *p)
{
    static const rk_keys as_they_are = {0, 0, UINT64_MAX};
    const size_t size = p->r->line.size;
    for (size_t at = 0, some; at < p->inside; at += some) {
        some = (size_t)least(p->inside - at, RK_KEYS_AT_ONCE);
        for (unsigned i = 0; i < p->ranges.n; i++) {
            rk_between seen = {0};
            take_bracket(p, p->which[i], p->keys + at * size, some, &as_they_are, &seen);
            p->seen[p->which[i]].at_lo += seen.at_lo;
            p->seen[p->which[i]].at_hi += seen.at_hi;
        }
    }
    p->inside = 0;
}

/* Several brackets: most elements are in none of them, and are looked at once. */
static void take_inside(pass *p, const void *x, size_t n)
{
    const rk_ranking *r = p->r;
    if (p->inside > RK_KEYS_AT_ONCE)
        part_inside(p);
    p->inside += r->simd->inside[log2_size(r)](x, n, &r->keys, &p->ranges, p->below, &p->seen[p->which[0]].nans,
                                               p->keys + p->inside * r->line.size);
}

static void ranking_take(void *arg, const void *x, size_t n)
{
    pass *p = arg;
    p->all += n;
    if (p->ranges.n > 1) {
        take_inside(p, x, n);
        return;
    }
    for (unsigned i = 0; i < p->ranges.n; i++)
        take_bracket(p, p->which[i], x, n, &p->r->keys, &p->seen[p->which[i]]);
}

static void add(uint64_t *to, uint64_t n) { __atomic_fetch_add(to, n, __ATOMIC_RELAXED); }

typedef struct digit_pass {
    const rk_ranking *r;
    const rk_bracket *b;
    uint64_t *bins;
    uint64_t all;
} digit_pass;

static void ranking_take_digits(void *arg, const void *x, size_t n)
{
    digit_pass *p = arg;
    p->all += n;
    p->r->simd->digits[log2_size(p->r)](x, n, &p->r->keys, p->b->lo, p->b->hi, p->b->shift, p->bins);
}

/* Digits of a bracket. */
static void pass_digits(rk_ranking *r, rk_bracket *b, uint64_t from, uint64_t to, bool first)
{
    uint64_t bins[RK_DIGITS] = {0};
    digit_pass p = {r, b, bins, 0};
    rk_read_blocks(&r->line, from, to, ranking_take_digits, &p);
    for (int i = 0; i < RK_DIGITS; i++)
        if (bins[i])
            add(&b->bins[i], bins[i]);
    if (first)
        add(&r->all, p.all);
}

void rk_ranking_pass(rk_ranking *r, uint64_t from, uint64_t to)
{
    pass p;
    memset(&p, 0, offsetof(pass, keys));
    p.r = r;
    if (r->slots) {
        rk_rank_slots_pass(r->slots, &r->line, from, to);
        return;
    }
    for (unsigned i = 0; i < r->brackets; i++) {
        const rk_bracket *b = &r->bracket[i];
        if (b->digits) {
            pass_digits(r, &r->bracket[i], from, to, r->passes == 0 && i == 0);
            continue;
        }
        p.ranges.lo[p.ranges.n] = b->lo;
        p.ranges.hi[p.ranges.n] = b->hi;
        p.which[p.ranges.n++] = i;
    }
    if (r->brackets && !p.ranges.n)
        return;
    rk_read_blocks(&r->line, from, to, ranking_take, &p);
    part_inside(&p);
    for (unsigned i = 0; i < p.ranges.n; i++)
        p.seen[p.which[i]].below += p.below[i];
    for (unsigned i = 0; i < r->brackets; i++) {
        rk_between *all = &r->bracket[i].seen;
        add(&all->below, p.seen[i].below);
        add(&all->at_lo, p.seen[i].at_lo);
        add(&all->at_hi, p.seen[i].at_hi);
        add(&all->nans, p.seen[i].nans);
    }
    if (r->passes == 0)
        add(&r->all, p.all);
}

/* ---- after a pass ---- */

static void find(rk_wanted *w, uint64_t key)
{
    w->lo = w->hi = key;
    w->found = true;
}

/* Narrow the range of a rank by a bracket of which the keys were counted. Returns true if it is among the kept ones, which are
 * all there: the rank among them goes to *rank. */
static bool narrow(rk_wanted *w, const rk_bracket *b, uint64_t *rank)
{
    const uint64_t at_lo = b->seen.below + b->seen.at_lo, between = at_lo + b->between,
                   at_hi = between + (b->hi > b->lo ? b->seen.at_hi : 0);
    if (b->hi < w->lo || b->lo > w->hi)
        return false;
    if (w->rank < b->seen.below) {
        if (b->lo == 0)
            return false; /* the data changed */
        w->hi = b->lo - 1;
        w->inside = b->seen.below - least(w->below, b->seen.below);
    } else if (w->rank < at_lo) {
        find(w, b->lo);
    } else if (w->rank < between) {
        w->lo = b->lo + 1;
        w->hi = b->hi - 1;
        w->below = at_lo;
        w->inside = b->between;
        *rank = w->rank - at_lo;
        return b->between <= b->room && w->hi > w->lo;
    } else if (w->rank < at_hi) {
        find(w, b->hi);
    } else {
        if (b->hi == UINT64_MAX)
            return false;
        w->lo = b->hi + 1;
        w->inside -= least(w->inside, at_hi - least(w->below, at_hi));
        w->below = at_hi;
    }
    return false;
}

/* The same by its digits. */
static void narrow_digits(rk_wanted *w, const rk_bracket *b)
{
    uint64_t below = w->below;
    if (w->found || b->lo != w->lo || b->hi != w->hi)
        return;
    for (uint64_t d = 0; d < RK_DIGITS; d++) {
        if (w->rank >= below + b->bins[d]) {
            below += b->bins[d];
            continue;
        }
        const uint64_t lo = b->lo + (d << b->shift), last = lo + (((uint64_t)1 << b->shift) - 1);
        w->hi = last > b->hi ? b->hi : last;
        w->lo = lo;
        w->below = below;
        w->inside = b->bins[d];
        return;
    }
}

static unsigned ranking_given(const void *arg, uint64_t n, uint64_t rank[RK_MAX_RANKS])
{
    const rk_ranking *inner = arg;
    (void)n;
    for (unsigned i = 0; i < inner->ranks; i++)
        rank[i] = inner->wanted[i].rank;
    return inner->ranks;
}

/* ---- keys in memory ---- */

static uint64_t key_at(const uint8_t *keys, uint64_t i, size_t size) { return rk_load(keys + i * size, (int)size); }

/* Few keys: sort them. */
static void by_sorting(const uint8_t *keys, size_t n, size_t size, const uint64_t *rank, uint64_t *key, unsigned ranks)
{
    uint64_t a[RK_SORTED];
    for (size_t i = 0; i < n; i++)
        a[i] = key_at(keys, i, size);
    rk_sort_few(a, n);
    for (unsigned i = 0; i < ranks; i++)
        key[i] = a[rank[i] < n ? rank[i] : n - 1];
}

/* The same of more of them. False: no memory. */
static bool by_digits(const uint8_t *keys, size_t n, size_t size, const uint64_t *rank, uint64_t *key, unsigned ranks)
{
    uint64_t *a = malloc(2 * n * sizeof *a);
    if (!a)
        return false;
    for (size_t i = 0; i < n; i++)
        a[i] = key_at(keys, i, size);
    const uint64_t *sorted = rk_sort_many(a, a + n, n);
    for (unsigned i = 0; i < ranks; i++)
        key[i] = sorted[rank[i] < n ? rank[i] : n - 1];
    free(a);
    return true;
}

/* The keys of ascending ranks among n keys in memory. They are fewer than half of the line's, or sorted, so that this ends.
 * False: no memory. */
static bool select_kept(const rk_ranking *outer, const uint8_t *keys, uint64_t n, const uint64_t *rank, uint64_t *key,
                        unsigned ranks)
{
    const size_t size = outer->line.size;
    bool again = true, ok;
    if (n <= RK_SORTED) {
        by_sorting(keys, (size_t)n, size, rank, key, ranks);
        return true;
    }
    if (n > outer->line.n / 2)
        return by_digits(keys, (size_t)n, size, rank, key, ranks);
    rk_ranking *r = calloc(1, 2 * sizeof *r); /* the second has the ranks */
    if (!r)
        return false;
    r[1].ranks = ranks;
    for (unsigned i = 0; i < ranks; i++)
        r[1].wanted[i].rank = rank[i];
    r->simd = outer->simd;
    r->line = (rk_reader){.x = keys, .size = size, .n = n, .run = n, .stride = n};
    r->keys = (rk_keys){0, 0, size == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * size) - 1};
    r->want = ranking_given;
    r->want_arg = &r[1];
    r->want_all = true;
    ok = rk_ranking_open(r);
    while (ok && again) {
        rk_ranking_pass(r, 0, n);
        ok = rk_ranking_next(r, &again);
    }
    for (unsigned i = 0; ok && i < ranks; i++)
        key[i] = r->wanted[i < r->ranks ? i : 0].lo;
    rk_ranking_close(r);
    free(r);
    return ok;
}

/* ---- after a pass: all ranks ---- */

/* Ranks that are among the keys that bracket b has kept. */
static bool find_kept(rk_ranking *r, const rk_bracket *b, const bool *kept, const uint64_t *rank_in)
{
    uint64_t rank[RK_MAX_RANKS], key[RK_MAX_RANKS];
    unsigned n = 0, which[RK_MAX_RANKS];
    for (unsigned i = 0; i < r->ranks; i++)
        if (kept[i]) {
            which[n] = i;
            rank[n++] = rank_in[i];
        }
    if (!n)
        return true;
    if (!select_kept(r, b->kept, b->between, rank, key, n))
        return false;
    for (unsigned i = 0; i < n; i++)
        find(&r->wanted[which[i]], key[i]);
    return true;
}

static bool use_bracket(rk_ranking *r, const rk_bracket *b)
{
    bool kept[RK_MAX_RANKS] = {false};
    uint64_t rank[RK_MAX_RANKS];
    for (unsigned i = 0; i < r->ranks; i++) {
        rk_wanted *w = &r->wanted[i];
        if (b->digits)
            narrow_digits(w, b);
        else if (!w->found)
            kept[i] = narrow(w, b, &rank[i]);
        if (!w->found && w->lo >= w->hi)
            find(w, w->lo);
    }
    return b->digits || find_kept(r, b, kept, rank);
}

/* Counts of a line are known after its first pass, and so are its ranks. */
static void take_counts(rk_ranking *r)
{
    uint64_t rank[RK_MAX_RANKS], counted = 0;
    const rk_bracket *b = r->bracket;
    const int digits = r->line.size == 1 ? 256 : RK_DIGITS; /* that are in use */
    if (r->truths)
        for (int d = 2; d < digits; d++) {
            b->bins[1] += b->bins[d];
            b->bins[d] = 0;
        }
    for (int d = 0; d < digits && b->digits; d++)
        counted += b->bins[d];
    r->nans = b->digits ? r->all - least(r->all, counted) : b->seen.nans; /* NaNs have no digits */
    r->n = r->all - least(r->nans, r->all);
    r->ranks = r->want_all && r->n ? r->want(r->want_arg, r->n, rank) : 0;
    for (unsigned i = 0; i < r->ranks; i++)
        r->wanted[i] = (rk_wanted){.rank = rank[i], .lo = 0, .hi = r->line.size == 1 ? 255 : r->keys.most, .inside = r->n};
}

/* Brackets for the ranges that are still too wide. */
static bool next_brackets(rk_ranking *r)
{
    const uint64_t room = memory_of(r) / RK_BRACKETS / r->line.size;
    uint64_t most = 0;
    r->brackets = 0;
    for (unsigned i = 0; i < r->ranks; i++) {
        const rk_wanted *w = &r->wanted[i];
        const rk_bracket *last = r->brackets ? &r->bracket[r->brackets - 1] : NULL;
        if (w->found || (last && last->lo == w->lo && last->hi == w->hi))
            continue;
        if (last && w->lo <= last->hi)
            continue; /* later: ranges of changing data may overlap */
        if (!add_bracket(r, w->lo, w->hi))
            break;
        rk_bracket *b = &r->bracket[r->brackets - 1];
        b->digits = w->inside > room || r->in_parts;
        b->shift = 64 - __builtin_clzll((w->hi - w->lo) | 1) - RK_DIGIT_BITS;
        b->shift = b->shift < 0 ? 0 : b->shift;
        most = !b->digits && w->inside > most ? w->inside : most;
    }
    return make_room(r, most);
}

/* ---- many ranks ---- */

static void close_slots(rk_ranking *r)
{
    rk_rank_slots_close(r->slots);
    r->slots = NULL;
}

/* The first pass is over: ranges of the ranks. */
static void take_slots(rk_ranking *r)
{
    uint64_t rank[RK_MAX_RANKS];
    rk_rank_slots *s = r->slots;
    r->all = rk_rank_slots_all(s);
    r->nans = rk_rank_slots_nans(s);
    r->n = r->all - r->nans;
    r->ranks = r->n ? r->want(r->want_arg, r->n, rank) : 0;
    for (unsigned i = 0; i < r->ranks; i++) {
        rk_slot_found f;
        const uint32_t slot = rk_rank_slots_find(s, rank[i], &f);
        r->wanted[i] = (rk_wanted){.rank = rank[i], .lo = f.lo, .hi = f.hi, .below = f.below, .inside = f.inside};
        if (f.lo == f.hi) {
            find(&r->wanted[i], f.lo);
        } else if (!s->wanted[slot]) {
            s->wanted[slot] = true;
            s->inside += f.inside;
        }
    }
}

/* The second one is over: the keys of the wanted slots are there, and the ranks are among them. False: no memory. */
static bool take_kept(rk_ranking *r)
{
    rk_rank_slots *s = r->slots;
    uint64_t rank[RK_MAX_RANKS], key[RK_MAX_RANKS], before = 0;
    unsigned n = 0, which[RK_MAX_RANKS];
    const rk_wanted *last = NULL;
    if (s->kept != s->inside)
        return true; /* the data changed */
    for (unsigned i = 0; i < r->ranks; i++) {
        const rk_wanted *w = &r->wanted[i];
        if (w->found)
            continue;
        before += last && last->lo != w->lo ? last->inside : 0;
        which[n] = i;
        rank[n++] = before + w->rank - w->below;
        last = w;
    }
    if (n && !select_kept(r, s->keys, s->inside, rank, key, n))
        return false;
    for (unsigned i = 0; i < n; i++)
        find(&r->wanted[which[i]], key[i]);
    return true;
}

/* A pass with slots is over. What they do not find, brackets do. False: no memory. */
static bool next_slots(rk_ranking *r, bool *again)
{
    rk_rank_slots *s = r->slots;
    bool left = false;
    if (s->bins.failed || (s->keeping && !take_kept(r)))
        return false;
    if (!s->keeping)
        take_slots(r);
    for (unsigned i = 0; i < r->ranks; i++)
        left |= !r->wanted[i].found;
    *again = left;
    r->passes++;
    if (left && !s->keeping && s->inside <= memory_of(r) / r->line.size)
        return rk_rank_slots_keep(s);
    close_slots(r);
    return !left || next_brackets(r);
}

bool rk_ranking_next(rk_ranking *r, bool *again)
{
    bool left = false;
    if (r->slots)
        return next_slots(r, again);
    if (r->passes++ == 0)
        take_counts(r);
    for (unsigned i = 0; i < r->brackets; i++)
        if (!use_bracket(r, &r->bracket[i]))
            return false;
    for (unsigned i = 0; i < r->ranks; i++)
        left |= !r->wanted[i].found;
    *again = left && r->passes < MOST_PASSES * (1 + r->ranks / RK_BRACKETS);
    return !*again || next_brackets(r);
}

/* ---- open and close ---- */

bool rk_ranking_open(rk_ranking *r)
{
    enum { FEW = 512 };
    const size_t size = rk_sample_size(r->line.n);
    uint64_t few[2 * FEW], each = 0, *sample = few, *sorted;
    size_t k;
    close_slots(r);
    r->passes = r->brackets = r->ranks = 0;
    r->all = r->n = r->nans = 0;
    if (r->line.size == 1 || r->in_parts || !r->line.x) {
        all_digits(r);
        return make_room(r, 0);
    }
    if (size > FEW && !(sample = malloc(2 * size * sizeof *sample)))
        return false;
    k = r->line.n ? rk_take_sample(&r->line, &r->keys, sample, size) : 0;
    sorted = sample;
    if (k <= RK_SORTED)
        rk_sort_few(sample, k);
    else
        sorted = rk_sort_many(sample, sample + size, k);
    bool many = false, ok = true;
    if (k && r->want_all)
        many = choose_brackets(r, sorted, k, (uint64_t)((double)k / (double)size * (double)r->line.n) + 1, &each);
    if (!r->brackets)
        add_bracket(r, 0, 0);
    if (many && r->line.n >= LONG && k >= RK_RANK_SLOTS)
        ok = (r->slots = rk_rank_slots_open(r->simd, &r->line, &r->keys, sorted, k)) != NULL;
    if (sample != few)
        free(sample);
    return ok && (r->slots || make_room(r, each));
}

void rk_ranking_close(rk_ranking *r)
{
    close_slots(r);
    for (unsigned i = 0; i < RK_BRACKETS; i++) {
        free(r->bracket[i].kept);
        free(r->bracket[i].bins);
        r->bracket[i].kept = NULL;
        r->bracket[i].bins = NULL;
        r->bracket[i].room = 0;
    }
}
