/* The simple calls that version 0.1 exported. Programs linked with 0.1 find them under that symbol version; new programs cannot
 * link them. Only libreduce.so has this file. The list never grows. */
#include "client/reduce.h"

#pragma GCC visibility push(default)

/* reduce.h has inline functions of the same names, so these get theirs from the assembler. */
#define OLD(name, OP, suffix, DTYPE)                                                     \
    __asm__(".symver old_" #name "_" #suffix ", reduce_" #name "_" #suffix "@REDUCE_0"); \
    int old_##name##_##suffix(reduce_client *c, const void *data, size_t n, void *out);  \
    int old_##name##_##suffix(reduce_client *c, const void *data, size_t n, void *out)   \
    {                                                                                    \
        return reduce_simple(c, REDUCE_##OP, REDUCE_##DTYPE, 0, data, n, out);           \
    }
#define OLD_DDOF(name, OP, suffix, DTYPE)                                                              \
    __asm__(".symver old_" #name "_" #suffix ", reduce_" #name "_" #suffix "@REDUCE_0");               \
    int old_##name##_##suffix(reduce_client *c, const void *data, size_t n, uint32_t ddof, void *out); \
    int old_##name##_##suffix(reduce_client *c, const void *data, size_t n, uint32_t ddof, void *out)  \
    {                                                                                                  \
        return reduce_simple(c, REDUCE_##OP, REDUCE_##DTYPE, ddof, data, n, out);                      \
    }
#define OLD_ALL(suffix, DTYPE)                       \
    OLD(sum, SUM, suffix, DTYPE)                     \
    OLD(prod, PROD, suffix, DTYPE)                   \
    OLD(min, MIN, suffix, DTYPE)                     \
    OLD(max, MAX, suffix, DTYPE)                     \
    OLD(minmax, MINMAX, suffix, DTYPE)               \
    OLD(range, RANGE, suffix, DTYPE)                 \
    OLD(sumsq, SUMSQ, suffix, DTYPE)                 \
    OLD(norm1, NORM1, suffix, DTYPE)                 \
    OLD(norminf, NORMINF, suffix, DTYPE)             \
    OLD(norm2, NORM2, suffix, DTYPE)                 \
    OLD(mean, MEAN, suffix, DTYPE)                   \
    OLD(argmin, ARGMIN, suffix, DTYPE)               \
    OLD(argmax, ARGMAX, suffix, DTYPE)               \
    OLD(count_nonzero, COUNT_NONZERO, suffix, DTYPE) \
    OLD(count_nan, COUNT_NAN, suffix, DTYPE)         \
    OLD(any, ANY, suffix, DTYPE)                     \
    OLD(all, ALL, suffix, DTYPE)                     \
    OLD_DDOF(var, VAR, suffix, DTYPE)                \
    OLD_DDOF(std, STD, suffix, DTYPE)                \
    OLD_DDOF(stats, STATS, suffix, DTYPE)
#define OLD_INTEGER(suffix, DTYPE) \
    OLD_ALL(suffix, DTYPE)         \
    OLD(and, AND, suffix, DTYPE)   \
    OLD(or, OR, suffix, DTYPE)     \
    OLD(xor, XOR, suffix, DTYPE)
OLD_INTEGER(i8, I8)
OLD_INTEGER(u8, U8)
OLD_INTEGER(i16, I16)
OLD_INTEGER(u16, U16)
OLD_INTEGER(i32, I32)
OLD_INTEGER(u32, U32)
OLD_INTEGER(i64, I64)
OLD_INTEGER(u64, U64)
OLD_ALL(f16, F16)
OLD_ALL(bf16, BF16)
OLD_ALL(f32, F32)
OLD_ALL(f64, F64)

#pragma GCC visibility pop
