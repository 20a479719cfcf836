/* The CPU rungs: each page for both element types, timed. */
#include <string.h>
#include <time.h>

#include "kernels/ladder/ladder.h"

#define T int32_t
#define RUNG(name) name##_i32
#include "kernels/ladder/cpu_recursive_interleaved.h"
#include "kernels/ladder/cpu_recursive_neighbored.h"
#include "kernels/ladder/cpu_sequential.h"
#undef T
#undef RUNG
#define T float
#define RUNG(name) name##_f32
#include "kernels/ladder/cpu_recursive_interleaved.h"
#include "kernels/ladder/cpu_recursive_neighbored.h"
#include "kernels/ladder/cpu_sequential.h"
#undef T
#undef RUNG

static const struct {
    int32_t (*i32)(int32_t *x, size_t n);
    float (*f32)(float *x, size_t n);
} LOOPS[] = {
#define CPU(ident, ...) {ident##_i32, ident##_f32},
#define BLOCKS(...) {NULL, NULL},
#define WHOLE(...) {NULL, NULL},
#include "kernels/ladder/rungs.def"
};

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void ladder_cpu_run(const ladder_rung *rung, ladder_dtype dtype, void *work, size_t n, ladder_run *out)
{
    double start = now_ms();
    double value = dtype == LADDER_I32 ? (double)LOOPS[rung->id].i32(work, n) : (double)LOOPS[rung->id].f32(work, n);
    *out = (ladder_run){.value = value, .ms = now_ms() - start};
}
