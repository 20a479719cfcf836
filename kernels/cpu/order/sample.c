#include "kernels/cpu/order/sample.h"

#include "kernels/exact/total_order.h"

enum { MOST_SAMPLE = 1 << 16 };

/* ---- keys ---- */

rk_keys rk_keys_of(int dtype)
{
    const int width = 8 * rk_bytes(dtype);
    const uint64_t all = width == 64 ? UINT64_MAX : ((uint64_t)1 << width) - 1, sign = (uint64_t)1 << (width - 1);
    if (dtype == RP_BOOL)
        return (rk_keys){0, 0, 1};
    if (!rk_is_float(dtype))
        return (rk_keys){0, rk_is_signed(dtype) ? sign : 0, all};
    const uint64_t inf = rk_inf_bits(rk_format_of(dtype)),
                   base = ~inf & all; /* of -inf: sign and inf, all but the sign inverted */
    return (rk_keys){sign - 1, base | sign, (inf - (base | sign)) & all};
}

uint64_t rk_key_of(const rk_keys *keys, size_t size, uint64_t bits)
{
    const int width = 8 * (int)size;
    const uint64_t all = width == 64 ? UINT64_MAX : ((uint64_t)1 << width) - 1, sign = bits >> (width - 1) & 1 ? all : 0;
    return ((bits ^ (sign & keys->flip)) - keys->base) & all;
}

uint64_t rk_key_bits(int dtype, uint64_t key)
{
    const rk_keys k = rk_keys_of(dtype);
    const int width = 8 * rk_bytes(dtype);
    const uint64_t all = width == 64 ? UINT64_MAX : ((uint64_t)1 << width) - 1, y = (key + k.base) & all,
                   sign = y >> (width - 1) & 1 ? all : 0;
    return y ^ (sign & k.flip);
}

/* ---- sorting some keys ---- */

void rk_sort_few(uint64_t *a, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const uint64_t x = a[i];
        size_t j = i;
        for (; j && a[j - 1] > x; j--)
            a[j] = a[j - 1];
        a[j] = x;
    }
}

uint64_t *rk_sort_many(uint64_t *a, uint64_t *other, size_t n)
{
    uint64_t differ = 0;
    for (size_t i = 1; i < n; i++)
        differ |= a[i] ^ a[0];
    for (int shift = 0; shift < 64; shift += 8) {
        size_t at[257] = {0};
        if (!(differ >> shift & 255))
            continue;
        for (size_t i = 0; i < n; i++)
            at[(a[i] >> shift & 255) + 1]++;
        for (int d = 0; d < 256; d++)
            at[d + 1] += at[d];
        for (size_t i = 0; i < n; i++)
            other[at[a[i] >> shift & 255]++] = a[i];
        uint64_t *t = a;
        a = other;
        other = t;
    }
    return a;
}

/* ---- the sample ---- */

/* n^(2/3), so that sample and kept keys both stay few. */
size_t rk_sample_size(uint64_t n)
{
    double s = 16;
    while (s * s * s < (double)n * (double)n)
        s *= 1.25;
    return s < MOST_SAMPLE ? (size_t)s : MOST_SAMPLE;
}

/* One in each of `size` equal parts, at a place that looks random: out[i] has it until it is read. */
size_t rk_take_sample(const rk_reader *r, const rk_keys *keys, uint64_t *out, size_t size)
{
    enum { AHEAD = 32 }; /* elements, each in a line of the cache and a page of its own */
    const double part = (double)r->n / (double)size;
    uint64_t random = 0x9e3779b97f4a7c15;
    size_t k = 0;
    for (size_t i = 0; i < size; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const uint64_t at = (uint64_t)(((double)i + (double)(random >> 40) * 0x1p-24) * part);
        out[i] = at < r->n ? at : r->n - 1;
    }
    for (size_t i = 0; i < size; i++) {
        uint64_t bits;
        if (i + AHEAD < size)
            __builtin_prefetch(r->x + rk_read_place(r, out[i + AHEAD]) * r->size);
        if (rk_read_one(r, out[i], &bits)) {
            out[k] = rk_key_of(keys, r->size, bits);
            k += out[k] <= keys->most;
        }
    }
    return k;
}
