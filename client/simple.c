/* The simple calls: reduce_run with the defaults of the element type. */
#include <string.h>

#include "client/internal.h"

static int simple(reduce_client *c, int op, int dtype, uint32_t ddof, const void *data, size_t n, void *out, size_t size)
{
    size_t bytes;
    reduce_stats value; /* the largest result */
    if (!out)
        return rc_error(REDUCE_E_ARGUMENT, "out", "nowhere to put the value");
    if (__builtin_mul_overflow(n, rp_dtype_size(dtype), &bytes))
        return rc_error(REDUCE_E_TOO_LARGE, "n", "%zu elements are more than memory holds", n);
    reduce_spec s = REDUCE_SPEC_INIT;
    s.op = op;
    s.dtype = dtype;
    s.ddof = ddof;
    int err = reduce_run(c, &s, data, bytes, &value, size, NULL);
    if (!err)
        memcpy(out, &value, size);
    return err;
}

/* One function: `ddof` is a parameter or 0, `count` values of type `value` come out. */
#define DEFINE(name, OP, suffix, DTYPE, element, value, count)                                \
    int reduce_##name##_##suffix(reduce_client *c, const element *data, size_t n, value *out) \
    {                                                                                         \
        _Static_assert(sizeof *out == 8, "default replies have 8 bytes");                     \
        return simple(c, REDUCE_##OP, REDUCE_##DTYPE, 0, data, n, out, count * sizeof *out);  \
    }
#define DEFINE_DDOF(name, OP, suffix, DTYPE, element, value)                                                 \
    int reduce_##name##_##suffix(reduce_client *c, const element *data, size_t n, uint32_t ddof, value *out) \
    {                                                                                                        \
        return simple(c, REDUCE_##OP, REDUCE_##DTYPE, ddof, data, n, out, sizeof *out);                      \
    }
#define SIMPLE(suffix, DTYPE, element, value)                                 \
    DEFINE(sum, SUM, suffix, DTYPE, element, value, 1)                        \
    DEFINE(prod, PROD, suffix, DTYPE, element, value, 1)                      \
    DEFINE(min, MIN, suffix, DTYPE, element, value, 1)                        \
    DEFINE(max, MAX, suffix, DTYPE, element, value, 1)                        \
    DEFINE(minmax, MINMAX, suffix, DTYPE, element, value, 2)                  \
    DEFINE(range, RANGE, suffix, DTYPE, element, value, 1)                    \
    DEFINE(sumsq, SUMSQ, suffix, DTYPE, element, value, 1)                    \
    DEFINE(norm1, NORM1, suffix, DTYPE, element, value, 1)                    \
    DEFINE(norminf, NORMINF, suffix, DTYPE, element, value, 1)                \
    DEFINE(norm2, NORM2, suffix, DTYPE, element, double, 1)                   \
    DEFINE(mean, MEAN, suffix, DTYPE, element, double, 1)                     \
    DEFINE(argmin, ARGMIN, suffix, DTYPE, element, uint64_t, 1)               \
    DEFINE(argmax, ARGMAX, suffix, DTYPE, element, uint64_t, 1)               \
    DEFINE(count_nonzero, COUNT_NONZERO, suffix, DTYPE, element, uint64_t, 1) \
    DEFINE(count_nan, COUNT_NAN, suffix, DTYPE, element, uint64_t, 1)         \
    DEFINE(any, ANY, suffix, DTYPE, element, uint64_t, 1)                     \
    DEFINE(all, ALL, suffix, DTYPE, element, uint64_t, 1)                     \
    DEFINE_DDOF(var, VAR, suffix, DTYPE, element, double)                     \
    DEFINE_DDOF(std, STD, suffix, DTYPE, element, double)                     \
    DEFINE_DDOF(stats, STATS, suffix, DTYPE, element, reduce_stats)
#define SIMPLE_BITS(suffix, DTYPE, element, value)     \
    DEFINE(and, AND, suffix, DTYPE, element, value, 1) \
    DEFINE(or, OR, suffix, DTYPE, element, value, 1)   \
    DEFINE(xor, XOR, suffix, DTYPE, element, value, 1)
#define INTEGER(suffix, DTYPE, element, value) \
    SIMPLE(suffix, DTYPE, element, value)      \
    SIMPLE_BITS(suffix, DTYPE, element, value)
INTEGER(i8, I8, int8_t, int64_t)
INTEGER(u8, U8, uint8_t, uint64_t)
INTEGER(i16, I16, int16_t, int64_t)
INTEGER(u16, U16, uint16_t, uint64_t)
INTEGER(i32, I32, int32_t, int64_t)
INTEGER(u32, U32, uint32_t, uint64_t)
INTEGER(i64, I64, int64_t, int64_t)
INTEGER(u64, U64, uint64_t, uint64_t)
SIMPLE(f16, F16, uint16_t, double)
SIMPLE(bf16, BF16, uint16_t, double)
SIMPLE(f32, F32, float, double)
SIMPLE(f64, F64, double, double)
