/* The buckets of f64 with AVX-512: a slot for two neighbouring exponents and both signs. Vector code computes the slots and the
 * signed significands; each element then costs one addition to memory. All slots take 8 KiB, so they fit in L1 beside the data,
 * even if two threads share it. */
#ifndef RK_CPU_EXPONENT_SLOTS_H
#define RK_CPU_EXPONENT_SLOTS_H

#include "kernels/cpu/loops/sums/digits.h"

#if VB == 64

enum {
    FEW64 = 1500,                /* for shorter arrays clearing and emptying the slots takes longer */
    FULL64 = 31,                 /* log2 of the adds after which they are emptied */
    APART64 = 128,               /* elements that are split together */
    SLOTS_TOGETHER = 2 * LANES64 /* slots whose exponents belong to one digit */
};

/* The slots and the signed parts of n elements, a multiple of LANES64, at most APART64: 0 for zeros and for odd elements:
 * subnormals, infinities and NaNs. Returns whether there are odd ones. */
static __attribute__((noinline)) bool take_apart64(const void *data, size_t n, bool magnitudes, uint64_t *slot, int64_t *part)
{
    const vu64_loose *x = data;
    const uint64_t hidden = (uint64_t)1 << 52;
    unsigned odd = 0;
    for (size_t i = 0; i < n / LANES64; i++) {
        const __m512i zero = _mm512_setzero_si512();
        __m512d v = (__m512d)x[i];
        prefetch(x + i, 8192);
        vu64 m = ((x[i] & (hidden - 1)) | hidden);
        m = (vu64)_mm512_sllv_epi64((__m512i)m, (__m512i)(x[i] >> 52 & 1));
        m = (vu64)_mm512_mask_mov_epi64((__m512i)m, _mm512_fpclass_pd_mask(v, 0xbf), zero);
        if (!magnitudes)
            m = (vu64)_mm512_mask_sub_epi64((__m512i)m, _mm512_movepi64_mask((__m512i)v), zero, (__m512i)m);
        odd |= _mm512_fpclass_pd_mask(v, 0xb9);
        *(vu64 *)(void *)(slot + i * LANES64) = x[i] >> 53 & (SLOTS64 - 1);
        *(vu64 *)(void *)(part + i * LANES64) = m;
    }
    return odd != 0;
}

/* *to += v; did it overflow? In assembly, because GCC would split the addition to memory. */
INLINE bool add_over(int64_t *to, int64_t v)
{
    bool over;
    __asm__("add %2, %1" : "=@cco"(over), "+m"(*to) : "r"(v));
    return over;
}

static void add_apart64(acc *a, const void *data, size_t n)
{
    _Alignas(VB) uint64_t slot[APART64];
    _Alignas(VB) int64_t part[APART64];
    const u64_loose *x = data;
    bool odd = take_apart64(x, n, a->magnitudes, slot, part);
    for (size_t i = 0; i < n; i += LANES64)
        for (size_t k = i; k < i + LANES64; k++)
            if (__builtin_expect(add_over(&a->slot[slot[k]], part[k]), 0))
                a->slot_over[slot[k]] += part[k] < 0 ? -1 : 1;
    for (size_t i = 0; odd && i < n; i++)
        if ((((x[i] >> 52) + 1) & 0x7ff) <= 1 && x[i] << 1 != 0)
            add_f64(a, x[i]);
}

/* The sum of lane j times 4^j, j = 0 .. 7, of 32-bit lanes */
INLINE int64_t fold_slots(vi64 v)
{
    const vi64 places = {0, 2, 4, 6, 8, 10, 12, 14};
    return _mm512_reduce_add_epi64(_mm512_sllv_epi64((__m512i)v, (__m512i)places));
}

INLINE void clear_buckets64(acc *a)
{
    memset(a->slot, 0, sizeof a->slot);
    memset(a->slot_over, 0, sizeof a->slot_over);
    a->bucket_adds = 0;
}

static void empty_buckets64(acc *a)
{
    for (int i = 0; i < SLOTS64; i += SLOTS_TOGETHER) {
        i128 v = 0;
        for (int half = 1; half >= 0; half--) {
            const int at = i + half * LANES64;
            vi64 s = *(const vi64_loose *)(const void *)(a->slot + at);
            v = v * ((i128)1 << 2 * LANES64) + fold_slots(s & UINT32_MAX) + (i128)fold_slots(s >> 32) * ((i128)1 << 32);
        }
        if (v)
            acc_add(a, v, 2 * i + RK_E0_64);
    }
    for (int i = 0; i < SLOTS64; i++)
        if (a->slot_over[i])
            acc_add(a, (i128)a->slot_over[i] * ((i128)1 << 64), 2 * i + RK_E0_64);
    clear_buckets64(a);
}

/* n: a multiple of LANES64 */
INLINE void bucket_block64(acc *a, const u64_loose *x, size_t n)
{
    for (size_t i = 0; i < n; i += APART64)
        add_apart64(a, x + i, n - i < APART64 ? n - i : APART64);
}

#endif
#endif
