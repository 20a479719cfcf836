/* The self-test of the CPU's loops. */
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

typedef struct probe {
    const char *name;
    int op, dtype, out;
    double x[6];   /* the elements, as doubles that convert exactly */
    int n, repeat; /* the pattern x[0..n) is repeated so that block code runs too */
    uint64_t bits; /* of the answer */
} probe;

/* Each answer follows from the definition: the exact value, rounded once. */
static const probe probes[] = {
    {"f64 cancellation", RP_OP_SUM, RP_F64, RP_F64, {0x1p1000, 1, -0x1p1000, 1}, 4, 512, 0x4090000000000000},
    {"f64 wide range",
     RP_OP_SUM,
     RP_F64,
     RP_F64,
     {0x1p1000, 1, -0x1p1000},
     3,
     1024,
     0x4090000000000000}, /* the sum rounds in any lane */
    {"f64 subnormals", RP_OP_SUM, RP_F64, RP_F64, {0x1p-1074}, 1, 1024, 1024},
    {"f64 tie to even", RP_OP_SUM, RP_F64, RP_F64, {0x1p53, 1}, 2, 1, 0x4340000000000000},
    {"f64 above a tie", RP_OP_SUM, RP_F64, RP_F64, {0x1p53, 1, 0x1p-1074}, 3, 1, 0x4340000000000001},
    {"f64 past overflow", RP_OP_SUM, RP_F64, RP_F64, {0x1p1023, 0x1p1023, -0x1p1023, -0x1p1022}, 4, 1, 0x7fd0000000000000},
    {"f64 negative zeros", RP_OP_SUM, RP_F64, RP_F64, {-0.0}, 1, 100, 0x8000000000000000},
    {"f32 subnormals", RP_OP_SUM, RP_F32, RP_F32, {0x1p-149}, 1, 3000, 3000},
    {"f32 tie to even", RP_OP_SUM, RP_F32, RP_F32, {0x1p24, 1}, 2, 1, 0x4b800000},
    {"f32 wide range", RP_OP_SUM, RP_F32, RP_F64, {0x1p127, 0x1p-149, -0x1p127}, 3, 1024, 0x3740000000000000},
    {"f64 squares", RP_OP_SUMSQ, RP_F64, RP_F64, {0x1.0000000000001p0, 0x1p-27, 0x1p-27}, 3, 1, 0x3ff0000000000003},
    {"f32 subnormal squares", RP_OP_SUMSQ, RP_F32, RP_F64, {0x1p-149}, 1, 1024, 0x2df0000000000000},
    {"f64 variance", RP_OP_VAR, RP_F64, RP_F64, {0x1p500, 0x1p500, 0x1.0000000000001p500}, 3, 100, 0x77cc71c71c71c71c},
};
enum { PROBE_BYTES = 8 * 4096 };

static bool probe_right(const probe *p)
{
    static _Thread_local uint8_t data[PROBE_BYTES];
    int count = p->n * p->repeat;
    for (int i = 0; i < count; i++) {
        double d = p->x[i % p->n];
        float f = (float)d;
        if (p->dtype == RP_F64)
            memcpy(data + 8 * i, &d, 8);
        else
            memcpy(data + 4 * i, &f, 4);
    }
    uint64_t cell = 0;
    rk_task t = {.spec = {.op = (uint8_t)p->op,
                          .dtype = (uint8_t)p->dtype,
                          .out = (uint8_t)p->out,
                          .rows = 1,
                          .row_len = (uint64_t)count},
                 .data = data,
                 .bytes = (size_t)count * rp_dtype_size(p->dtype),
                 .cells = &cell};
    rk_cpu_run(&t);
    return t.fault.code == RP_OK && cell == p->bits;
}

bool rk_cpu_self_test(char *why, size_t why_cap)
{
    uint64_t saved = rk_fp_enter(); /* before converting: the test data contain subnormals */
    bool right = true;
    for (size_t i = 0; right && i < sizeof probes / sizeof probes[0]; i++) {
        right = probe_right(&probes[i]);
        if (!right)
            snprintf(why, why_cap, "%s", probes[i].name);
    }
    rk_fp_leave(saved);
    return right;
}
