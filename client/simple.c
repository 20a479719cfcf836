/* The simple calls: reduce_run with the defaults of the element type. */
#include <string.h>

#include "client/internal.h"

static int simple(reduce_client *c, int op, int dtype, const void *data, size_t n, void *out)
{
    size_t element = rp_dtype_size(dtype), bytes;
    uint64_t value;
    if (!out)
        return rc_error(REDUCE_E_ARGUMENT, "out", "nowhere to put the value");
    if (__builtin_mul_overflow(n, element, &bytes))
        return rc_error(REDUCE_E_TOO_LARGE, "n", "%zu elements are more than memory holds", n);
    reduce_spec s = REDUCE_SPEC_INIT;
    s.op = op;
    s.dtype = dtype;
    int err = reduce_run(c, &s, data, bytes, &value, sizeof value, NULL);
    if (!err)
        memcpy(out, &value, sizeof value);
    return err;
}

#define ONE(name, OP, suffix, DTYPE, element, value)                                                \
    int reduce_##name##_##suffix(reduce_client *c, const element *data, size_t n, value *out)       \
    {                                                                                               \
        _Static_assert(sizeof *out == 8, "default replies have 8 bytes");                           \
        return simple(c, REDUCE_##OP, REDUCE_##DTYPE, data, n, out);                                \
    }
#define SIMPLE(suffix, DTYPE, element, value)                             \
    ONE(sum, SUM, suffix, DTYPE, element, value)                          \
    ONE(min, MIN, suffix, DTYPE, element, value)                          \
    ONE(max, MAX, suffix, DTYPE, element, value)                          \
    ONE(argmin, ARGMIN, suffix, DTYPE, element, uint64_t)                 \
    ONE(argmax, ARGMAX, suffix, DTYPE, element, uint64_t)                 \
    ONE(count_nonzero, COUNT_NONZERO, suffix, DTYPE, element, uint64_t)
SIMPLE(i8, I8, int8_t, int64_t)
SIMPLE(u8, U8, uint8_t, uint64_t)
SIMPLE(i16, I16, int16_t, int64_t)
SIMPLE(u16, U16, uint16_t, uint64_t)
SIMPLE(i32, I32, int32_t, int64_t)
SIMPLE(u32, U32, uint32_t, uint64_t)
SIMPLE(i64, I64, int64_t, int64_t)
SIMPLE(u64, U64, uint64_t, uint64_t)
SIMPLE(f16, F16, uint16_t, double)
SIMPLE(bf16, BF16, uint16_t, double)
SIMPLE(f32, F32, float, double)
SIMPLE(f64, F64, double, double)
