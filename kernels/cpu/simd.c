/* The loops over elements. Compiled three times, with -DRK_SIMD=baseline|avx2|avx512 and the flags of that instruction
 * set; run.c picks a table at run time. */
#include "kernels/cpu/choose.h"
#include "kernels/cpu/count.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/sum_f32.h"
#include "kernels/cpu/sum_f64.h"
#include "kernels/cpu/sum_int.h"

#define JOIN(a, b) a##b
#define TABLE(simd) JOIN(rk_simd_, simd)
#define TEXT(simd) #simd
#define NAME(simd) TEXT(simd)

#define EACH(F)                                                                                                          \
    {                                                                                                                    \
        [RP_I8] = F(i8), [RP_U8] = F(u8), [RP_I16] = F(i16), [RP_U16] = F(u16), [RP_I32] = F(i32), [RP_U32] = F(u32),    \
        [RP_I64] = F(i64), [RP_U64] = F(u64), [RP_F16] = F(f16), [RP_BF16] = F(bf16), [RP_F32] = F(f32),                 \
        [RP_F64] = F(f64)                                                                                                \
    }
#define SUM(type) sum_##type
#define LEAST(type) choose_least_##type
#define LARGEST(type) choose_largest_##type

const rk_simd TABLE(RK_SIMD) = {
    .name = NAME(RK_SIMD),
    .reduce = {[RP_STATE_SUM32] = EACH(SUM),
               [RP_STATE_SUM64] = EACH(SUM),
               [RP_STATE_INT] = EACH(SUM),
               [RP_STATE_MIN] = EACH(LEAST),
               [RP_STATE_MAX] = EACH(LARGEST),
               [RP_STATE_ARGMIN] = EACH(LEAST),
               [RP_STATE_ARGMAX] = EACH(LARGEST),
               [RP_STATE_COUNT] = {[RP_I8] = count_8,
                                        [RP_U8] = count_8,
                                        [RP_I16] = count_16,
                                        [RP_U16] = count_16,
                                        [RP_I32] = count_32,
                                        [RP_U32] = count_32,
                                        [RP_I64] = count_64,
                                        [RP_U64] = count_64,
                                        [RP_F16] = count_f16,
                                        [RP_BF16] = count_bf16,
                                        [RP_F32] = count_f32,
                                        [RP_F64] = count_f64}},
};
