/* Element types and floating-point formats by their bits: properties, rounding, conversion. All code uses integer instructions
 * only, so flush-to-zero, rounding modes and contraction cannot affect a result. Pure, thread-safe. */
#ifndef RK_FORMAT_H
#define RK_FORMAT_H

#include "proto/types.h"

/* RK_COLD: what runs once a value. Device code calls it: inline, it takes the compiler most of its time. */
#ifdef __CUDACC__
#define RK_FN static inline __host__ __device__
#define RK_COLD RK_FN __noinline__
#else
#define RK_FN static inline
#define RK_COLD RK_FN
#endif

/* ---- element types; without tables, which device code cannot read ---- */

RK_FN int rk_is_float(int dtype) { return dtype >= RP_F16 && dtype <= RP_F64; }
RK_FN int rk_is_signed(int dtype) { return dtype == RP_I8 || dtype == RP_I16 || dtype == RP_I32 || dtype == RP_I64; }
RK_FN int rk_bytes(int dtype)
{
    return dtype <= RP_U8 || dtype == RP_BOOL                       ? 1
           : dtype <= RP_U16 || dtype == RP_F16 || dtype == RP_BF16 ? 2
           : dtype == RP_I64 || dtype == RP_U64 || dtype == RP_F64  ? 8
                                                                    : 4;
}
/* Bits of an element's value: bool has one, whatever its byte is */
RK_FN int rk_width(int dtype) { return dtype == RP_BOOL ? 1 : 8 * rk_bytes(dtype); }
RK_FN uint64_t rk_sign_extend(uint64_t bits, int bytes)
{
    int shift = 64 - 8 * bytes;
    return (uint64_t)((int64_t)(bits << shift) >> shift);
}

/* ---- floating-point formats ---- */

typedef struct rk_format {
    int precision; /* significant bits, the hidden one included */
    int emin;      /* exponent of the smallest normal number; emax = 1 - emin */
    int width;     /* bits in all */
} rk_format;

RK_FN rk_format rk_format_of(int dtype)
{
    rk_format f64 = {53, -1022, 64}, f32 = {24, -126, 32}, f16 = {11, -14, 16}, bf16 = {8, -126, 16};
    return dtype == RP_F64 ? f64 : dtype == RP_F32 ? f32 : dtype == RP_F16 ? f16 : bf16;
}

RK_FN uint64_t rk_sign_bit(rk_format f, int negative) { return (uint64_t)(negative != 0) << (f.width - 1); }
/* exponent field all ones */
RK_FN uint64_t rk_inf_bits(rk_format f) { return (((uint64_t)1 << (f.width - f.precision)) - 1) << (f.precision - 1); }
/* the only NaN in results: positive, quiet, with an empty payload */
RK_FN uint64_t rk_nan_bits(rk_format f) { return rk_inf_bits(f) | (uint64_t)1 << (f.precision - 2); }

RK_FN int rk_clz64(uint64_t v) /* v != 0 */
{
#ifdef __CUDA_ARCH__
    return __clzll((long long)v);
#else
    return __builtin_clzll(v);
#endif
}

/* Round to nearest, ties to even, once: the magnitude is window * 2^(top - 63), with bit 63 of `window` set, plus less
 * than one unit of the window's last place if `sticky`. Subnormals round at their own last place; values beyond the largest
 * number become infinity. */
RK_FN uint64_t rk_round_window(uint64_t window, int top, int sticky, int negative, rk_format f)
{
    uint64_t sign = rk_sign_bit(f, negative), inf = rk_inf_bits(f);
    int emax = 1 - f.emin;
    if (top > emax)
        return sign | inf;
    /* Below 0: subnormal. Not f.emin - top above 0: ptxas 13.0 lost that minus sign where it knew emin late (compute capability
     * 9.0, stats by key). */
    int above = top - f.emin;
    int drop = 64 - f.precision - (above < 0 ? above : 0); /* bits below the last place of the result, at least 11 */
    if (drop > 64)                                         /* below half of the smallest subnormal */
        return sign;
    uint64_t mantissa = drop == 64 ? 0 : window >> drop;
    uint64_t half = (uint64_t)1 << (drop - 1), rest = window & (half - 1);
    if ((window & half) && (rest || sticky || (mantissa & 1)))
        mantissa++;
    /* The hidden bit, or a carry out of the fraction, adds one to the exponent field by itself. */
    uint64_t field = above < 0 ? 0 : (uint64_t)above;
    uint64_t bits = (field << (f.precision - 1)) + mantissa;
    return sign | (bits > inf ? inf : bits);
}

/* A finite element as mantissa * 2^unit. */
typedef struct rk_number {
    uint64_t mantissa;
    int unit, negative;
} rk_number;

RK_FN rk_number rk_number_of(rk_format f, uint64_t bits)
{
    uint64_t magnitude = bits & ~rk_sign_bit(f, 1), hidden = (uint64_t)1 << (f.precision - 1);
    int field = (int)(magnitude >> (f.precision - 1)); /* 0: subnormal */
    rk_number x;
    x.mantissa = (magnitude & (hidden - 1)) | (field ? hidden : 0);
    x.unit = f.emin - (f.precision - 1) + (field ? field - 1 : 0);
    x.negative = (int)(bits >> (f.width - 1) & 1);
    return x;
}

/* An element's float value in another float format, rounded once. */
RK_FN uint64_t rk_convert_float(int from, uint64_t bits, int to)
{
    rk_format a = rk_format_of(from), b = rk_format_of(to);
    int negative = (int)(bits >> (a.width - 1) & 1);
    uint64_t m = bits & ~rk_sign_bit(a, 1);
    if (m > rk_inf_bits(a))
        return rk_nan_bits(b);
    if (m == rk_inf_bits(a))
        return rk_sign_bit(b, negative) | rk_inf_bits(b);
    if (m == 0)
        return rk_sign_bit(b, negative);
    rk_number x = rk_number_of(a, bits);
    int shift = rk_clz64(x.mantissa);
    return rk_round_window(x.mantissa << shift, x.unit + 63 - shift, 0, negative, b);
}

#endif
