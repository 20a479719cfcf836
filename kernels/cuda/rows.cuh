// Many short rows: one thread reduces a row, element after element, and finishes it. No partials, no second pass.
//
// The digits of a float sum sit in shared memory, a column per thread (dynamic indexing would put registers into local
// memory). The element type is looked at for every element: uniform in a warp, and short rows are not what bandwidth is
// spent on.
#pragma once

#include "kernels/cuda/finish.cuh"

namespace rk {

constexpr int kRowThreads = 64;

__device__ inline u64 load_element(const unsigned char *p, int bytes)
{
    return bytes == 1   ? *p
           : bytes == 2 ? *(const uint16_t *)p
           : bytes == 4 ? *(const u32 *)p
                        : *(const u64 *)p;
}

struct RowArgs {
    const unsigned char *data;
    u64 rows, row_len, first_index;
    bool skip; // NaNs
};

// Add the finite float `bits` to carry-save digits, stride kRowThreads.
__device__ inline void add_to_digits(i64 *digits, rk_format f, int e0, u64 bits)
{
    u64 magnitude = bits & ~rk_sign_bit(f, 1), hidden = 1ull << (f.precision - 1);
    int field = (int)(magnitude >> (f.precision - 1));
    u64 m = (magnitude & (hidden - 1)) | (field ? hidden : 0);
    int offset = f.emin - (f.precision - 1) - e0 + (field ? field - 1 : 0);
    i64 sign = bits >> (f.width - 1) & 1 ? -1 : 1;
    i64 *d = digits + (offset >> 5) * kRowThreads;
    int s = offset & 31;
    u64 low = (m & 0xffffffffu) << s, high = ((m >> 32) << s) + (low >> 32);
    d[0] += sign * (i64)(u32)low;
    d[kRowThreads] += sign * (i64)(u32)high;
    if (high >> 32)
        d[2 * kRowThreads] += sign * (i64)(high >> 32);
}

__device__ inline void sum_row(const FinishArgs &a, const RowArgs &r, const unsigned char *p, i64 *digits, rk_state *s)
{
    const rk_format f = rk_format_of(a.dtype);
    const int bytes = rk_bytes(a.dtype), n = 2 * rk_limbs(a.layout), e0 = rk_e0(a.layout);
    for (int j = 0; j < n; j++)
        digits[j * kRowThreads] = 0;
    for (u64 i = 0; i < r.row_len; i++) {
        u64 bits = load_element(p + i * bytes, bytes), magnitude = bits & ~rk_sign_bit(f, 1);
        if (magnitude > rk_inf_bits(f) && r.skip) {
            s->skipped = 1;
            continue;
        }
        s->count++;
        s->nz |= bits != rk_sign_bit(f, 1);
        if (magnitude < rk_inf_bits(f))
            add_to_digits(digits, f, e0, bits);
        else
            s->special |= magnitude > rk_inf_bits(f) ? RK_NAN : magnitude == bits ? RK_PINF : RK_NINF;
    }
    if (s->special)
        return;
    i64 carry = 0;
    for (int j = 0; j < n; j++) {
        i64 d = digits[j * kRowThreads] + carry;
        s->limb[j / 2] |= (u64)(u32)d << (32 * (j & 1));
        carry = d >> 32;
    }
}

__device__ inline void sum_int_row(const FinishArgs &a, const RowArgs &r, const unsigned char *p, rk_state *s)
{
    const int bytes = rk_bytes(a.dtype);
    u64 low = 0, high = 0;
    for (u64 i = 0; i < r.row_len; i++) {
        u64 x = load_element(p + i * bytes, bytes);
        if (rk_is_signed(a.dtype))
            x = rk_sign_extend(x, bytes);
        low += x;
        high += (low < x) - (rk_is_signed(a.dtype) ? x >> 63 : 0);
    }
    s->count = r.row_len;
    s->limb[0] = low;
    s->limb[1] = high;
}

__device__ inline void best_row(const FinishArgs &a, const RowArgs &r, const unsigned char *p, rk_state *s)
{
    const int bytes = rk_bytes(a.dtype);
    u64 best = 0, at = 0;
    for (u64 i = 0; i < r.row_len; i++) {
        u64 bits = load_element(p + i * bytes, bytes);
        if (r.skip && rk_is_nan(a.dtype, bits)) {
            s->skipped = 1;
            continue;
        }
        u64 rank = rk_rank(a.dtype, a.least, bits);
        if (s->count++ == 0 || rank > best) {
            best = rank;
            at = i;
        }
    }
    if (s->count == 0)
        return;
    s->limb[0] = rk_unrank(a.dtype, a.least, best);
    if (a.layout == RP_STATE_ARGMIN || a.layout == RP_STATE_ARGMAX)
        s->limb[1] = at + r.first_index;
}

__device__ inline void count_row(const FinishArgs &a, const RowArgs &r, const unsigned char *p, rk_state *s)
{
    const int bytes = rk_bytes(a.dtype);
    for (u64 i = 0; i < r.row_len; i++) {
        u64 bits = load_element(p + i * bytes, bytes);
        if (r.skip && rk_is_nan(a.dtype, bits)) {
            s->skipped = 1;
            continue;
        }
        s->count++;
        s->limb[0] += (rk_is_float(a.dtype) ? bits & ~rk_sign_bit(rk_format_of(a.dtype), 1) : bits) != 0;
    }
}

__global__ void __launch_bounds__(kRowThreads) reduce_rows(FinishArgs a, RowArgs r)
{
    extern __shared__ i64 digits[];
    const u64 stride = (u64)gridDim.x * kRowThreads, row_bytes = r.row_len * rk_bytes(a.dtype);
    for (u64 row = (u64)blockIdx.x * kRowThreads + threadIdx.x; row < r.rows; row += stride) {
        const unsigned char *p = r.data + row * row_bytes;
        rk_state s;
        rk_state_init(&s, a.layout, a.dtype);
        switch (a.layout) {
        case RP_STATE_SUM32:
        case RP_STATE_SUM64:
            sum_row(a, r, p, digits + threadIdx.x, &s);
            break;
        case RP_STATE_INT:
            sum_int_row(a, r, p, &s);
            break;
        case RP_STATE_COUNT:
            count_row(a, r, p, &s);
            break;
        default:
            best_row(a, r, p, &s);
        }
        write_cell(a, row, s);
    }
}

} // namespace rk
