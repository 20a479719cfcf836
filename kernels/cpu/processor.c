/* What depends on the architecture, besides the loops: instruction sets and floating-point environment. */
#include "kernels/cpu/loops.h"

#ifdef __x86_64__

/* ---- instruction sets ---- */

extern const rk_simd rk_simd_baseline, rk_simd_avx2, rk_simd_avx512;
const rk_simd *const rk_simds[] = {
#ifndef rk_simd_avx512 /* the Makefile renames what a sanitizer's build leaves out */
    &rk_simd_avx512,
#endif
#ifndef rk_simd_avx2
    &rk_simd_avx2,
#endif
    &rk_simd_baseline};

bool rk_simd_runs(const rk_simd *simd)
{
    if (simd == &rk_simd_baseline)
        return true;
    /* every processor with AVX2 has F16C, which clang's builtin cannot test for */
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    if (simd == &rk_simd_avx2)
        return avx2;
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd");
}

/* ---- MXCSR ---- */

enum { FP_DEFAULT = 0x1f80, FP_STATUS = 0x3f }; /* all exceptions masked, nearest, no FTZ, no DAZ */
static uint64_t read_control(void) { return __builtin_ia32_stmxcsr(); }
static void write_control(uint64_t control) { __builtin_ia32_ldmxcsr((unsigned)control); }

#else /* aarch64 */

extern const rk_simd rk_simd_neon;
const rk_simd *const rk_simds[] = {&rk_simd_neon};

bool rk_simd_runs(const rk_simd *simd)
{
    (void)simd; /* NEON is part of the architecture */
    return true;
}

/* ---- FPCR; the status bits are in another register, FPSR ---- */

enum { FP_DEFAULT = 0, FP_STATUS = 0 };

static uint64_t read_control(void)
{
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
}
static void write_control(uint64_t control) { __asm__ volatile("msr fpcr, %0" : : "r"(control)); }

#endif

const int rk_simd_count = sizeof rk_simds / sizeof rk_simds[0];

const rk_simd *rk_simd_best(void)
{
    int i = 0;
    while (!rk_simd_runs(rk_simds[i]))
        i++;
    return rk_simds[i];
}

uint64_t rk_fp_enter(void)
{
    uint64_t saved = read_control();
    if ((saved & ~(uint64_t)FP_STATUS) != FP_DEFAULT)
        write_control(FP_DEFAULT);
    return saved;
}

void rk_fp_leave(uint64_t saved)
{
    if ((saved & ~(uint64_t)FP_STATUS) != FP_DEFAULT)
        write_control(saved);
}
