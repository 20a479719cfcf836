#include "kernels/cpu/order/reader.h"

#include <string.h>

#include "kernels/exact/line.h"

enum { DIRECT = 256 }; /* elements of a run that is worth a block of its own */

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

uint64_t rk_read_place(const rk_reader *r, uint64_t i)
{
    return r->run == r->n ? i - r->before : i / r->run * r->stride + i % r->run;
}

/* Elements from i on that lie together, up to `to`. */
static uint64_t together(const rk_reader *r, uint64_t i, uint64_t to) { return least(to - i, r->run - i % r->run); }

/* Single elements, `stride` apart. */
static void gather(uint8_t *out, const rk_reader *r, uint64_t from, size_t n)
{
    const uint8_t *x = r->x + from * r->stride * r->size;
    for (size_t i = 0; i < n; i++, x += r->stride * r->size, out += r->size)
        memcpy(out, x, r->size);
}

/* Fills a buffer from element *i on; returns how many elements it has then. */
static size_t fill(const rk_reader *r, uint8_t *out, uint64_t *i, uint64_t to)
{
    size_t k = 0;
    if (r->run == 1 && !r->mask) {
        k = (size_t)least(to - *i, RK_KEYS_AT_ONCE);
        gather(out, r, *i, k);
        *i += k;
        return k;
    }
    for (uint64_t some; *i < to && k < RK_KEYS_AT_ONCE; *i += some) {
        some = least(together(r, *i, to), RK_KEYS_AT_ONCE - k);
        const uint64_t at = rk_read_place(r, *i);
        if (r->mask) {
            k = r->keep(out, k, r->x + at * r->size, r->mask + at, (size_t)some);
        } else {
            memcpy(out + k * r->size, r->x + at * r->size, (size_t)some * r->size);
            k += (size_t)some;
        }
    }
    return k;
}

void rk_read_blocks(const rk_reader *r, uint64_t from, uint64_t to, void (*take)(void *arg, const void *x, size_t n), void *arg)
{
    uint8_t block[RK_KEYS_AT_ONCE * sizeof(uint64_t)];
    const bool direct = !r->mask && r->run >= DIRECT;
    for (uint64_t i = from; i < to;) {
        if (direct) {
            const uint64_t some = least(together(r, i, to), RK_KEYS_AT_ONCE);
            take(arg, r->x + rk_read_place(r, i) * r->size, (size_t)some);
            i += some;
        } else {
            const size_t n = fill(r, block, &i, to);
            take(arg, block, n);
        }
    }
}

bool rk_read_one(const rk_reader *r, uint64_t i, uint64_t *bits)
{
    const uint64_t at = rk_read_place(r, i);
    *bits = rk_load(r->x + at * r->size, (int)r->size);
    return !r->mask || r->mask[at];
}
