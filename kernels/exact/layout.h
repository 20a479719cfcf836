/* A partial state and its layouts, as expansions of types.def; the arithmetic is in families/. Pure. */
#ifndef RK_LAYOUT_H
#define RK_LAYOUT_H

#include "kernels/exact/limbs.h"
#include "kernels/exact/row_numbers.h"

enum { /* rk_state.special, joined by OR */
       RK_PINF = 1,
       RK_NINF = 2,
       RK_NAN = 3, /* or +inf and -inf together */
       RK_INF = 1, /* in products, where an infinity with a zero is NaN */
       RK_ZERO = 2
};

/* A canonical partial state: these bytes travel (PROTOCOL.md, "Partial states"); all machines here are little-endian.
 * Only the first rp_state_size(layout) bytes exist in arrays of states. */
typedef struct rk_state {
    uint8_t layout;  /* rp_layout */
    uint8_t special; /* float sums and products: infinities, NaNs (zeros) among the elements; their limbs are zero then */
    uint8_t nz;      /* float sums: 1 if some element was not -0.0 */
    uint8_t skipped; /* 1 if a NaN was skipped (policies omit and error; count_nan: error) */
    uint8_t dtype;   /* rp_dtype of the elements */
    uint8_t zero[3];
    uint64_t count;              /* elements, without skipped NaNs */
    uint64_t limb[RP_MAX_LIMBS]; /* limbs of the sum, then of the sum of squares, then the others: families/ */
} rk_state;

enum {
    RK_LIMBS32 = 6, /* of a float sum */
    RK_LIMBS64 = 34,
    RK_SQUARE_LIMBS32 = 10, /* of a sum of squares */
    RK_SQUARE_LIMBS64 = 67,
    RK_E0_32 = -150, /* see rk_e0 */
    RK_E0_64 = -1075
};

/* ---- columns of types.def ---------------------------------------------------------------------------------------- */

/* A file of families/ each */
typedef enum { RK_SUMS, RK_CHOICE, RK_COUNTS, RK_BITS, RK_PRODUCTS, RK_SUMMARY, RK_PAIRS, RK_COMOMENTS } rk_family;

#define COLUMN(NAME, code, sum, squares, others, of, family, ...) RK_##family, code
RK_FN rk_family rk_family_of(int layout) { return (rk_family)RK_NUMBER(RP_LAYOUTS, layout); }
#undef COLUMN
#define COLUMN(NAME, code, sum, ...) sum, code
RK_FN int rk_sum_limbs(int layout) { return RK_NUMBER(RP_LAYOUTS, layout); }
#undef COLUMN
#define COLUMN(NAME, code, sum, squares, ...) squares, code
RK_FN int rk_square_limbs(int layout) { return RK_NUMBER(RP_LAYOUTS, layout); }
#undef COLUMN
#define COLUMN(NAME, code, sum, squares, others, ...) others, code
RK_FN int rk_other_limbs(int layout) { return RK_NUMBER(RP_LAYOUTS, layout); }
#undef COLUMN
RK_FN int rk_limbs(int layout) { return rk_sum_limbs(layout) + rk_square_limbs(layout) + rk_other_limbs(layout); }
/* The index of the first other limb */
RK_FN int rk_others_at(int layout) { return rk_sum_limbs(layout) + rk_square_limbs(layout); }

/* The bits that may be set in `special` */
#define COLUMN(NAME, code, sum, squares, others, of, family, joins, specials, ...) specials, code
RK_FN int rk_special_bits_of(int layout) { return RK_NUMBER(RP_LAYOUTS, layout); }
#undef COLUMN

/* Yes and no: a bit for each layout */
#define X(NAME, code, sum, squares, others, of, family, joins, specials, magnitudes) \
    | (uint64_t)(sum != 0 && magnitudes != 0) << code
RK_FN int rk_is_abs(int layout) { return (int)(((uint64_t)0 RP_LAYOUTS(X)) >> layout & 1); }
#undef X
/* Does `special` describe magnitudes, which have a single infinity? */
#define X(NAME, code, sum, squares, others, of, family, joins, specials, magnitudes) | (uint64_t)(magnitudes != 0) << code
RK_FN int rk_is_unsigned_sum(int layout) { return (int)(((uint64_t)0 RP_LAYOUTS(X)) >> layout & 1); }
#undef X
#define X(NAME, code, sum, squares, others, of, family, ...) | (uint64_t)(RK_##family == RK_SUMMARY) << code
RK_FN int rk_is_stats(int layout) { return (int)(((uint64_t)0 RP_LAYOUTS(X)) >> layout & 1); }
#undef X
/* Sums of two operands: pairs and comoments */
#define X(NAME, code, sum, squares, others, of, family, ...) \
    | (uint64_t)(RK_##family == RK_PAIRS || RK_##family == RK_COMOMENTS) << code
RK_FN int rk_is_pairs(int layout) { return (int)(((uint64_t)0 RP_LAYOUTS(X)) >> layout & 1); }
#undef X
#define X(NAME, code, sum, squares, others, of, family, ...) | (uint64_t)(RK_##family == RK_COMOMENTS) << code
RK_FN int rk_is_comoments(int layout) { return (int)(((uint64_t)0 RP_LAYOUTS(X)) >> layout & 1); }
#undef X
/* Layouts that record whether all elements are -0.0: sums of signed floats */
RK_FN int rk_has_nz(int layout, int dtype)
{
    return rk_is_float(dtype) && rk_sum_limbs(layout) && !rk_is_abs(layout) && !rk_is_pairs(layout);
}

/* States that record whether NaNs were skipped: those of floats, and of integers those that count what is missing */
RK_FN int rk_has_skipped(int layout, int dtype) { return rk_is_float(dtype) || rk_is_stats(layout); }

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* The unit of a sum's limbs is 2^rk_e0, of a sum of squares 2^(2 rk_e0): for floats one below the smallest subnormal, so a
 * number with exponent field e >= 1 is fraction << e. 2^60 elements below 2^128 in units of 2^-150 need bit 338 of 384,
 * below 2^1024 in units of 2^-1075 bit 2159 of 2176; their squares bits 616 of 640 and 4258 of 4288. */
RK_FN int rk_e0(int dtype) { return dtype == RP_F64 ? RK_E0_64 : rk_is_float(dtype) ? RK_E0_32 : 0; }

/* All bits of an element */
RK_FN uint64_t rk_all_ones(int dtype) { return ~(uint64_t)0 >> (64 - rk_width(dtype)); }

/* An element of an integer type, as 192-bit two's complement */
RK_FN void rk_widen(int dtype, uint64_t bits, uint64_t v[3])
{
    v[0] = rk_is_signed(dtype) ? rk_sign_extend(bits, rk_bytes(dtype)) : bits;
    v[1] = v[2] = rk_is_signed(dtype) ? (uint64_t)((int64_t)v[0] >> 63) : 0;
}

/* What is wrong with a state from outside: the field and the reason; NULL: nothing. */
typedef struct rk_flaw {
    const char *field, *why;
} rk_flaw;
RK_FN rk_flaw rk_bad(const char *field, const char *why)
{
    rk_flaw f = {field, why};
    return f;
}
RK_FN rk_flaw rk_fine(void) { return rk_bad(0, 0); }

#endif
