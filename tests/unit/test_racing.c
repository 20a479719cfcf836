/* Memory that changes while it is reduced, as arenas do: any state may come out, but no loop may rely on having read an
 * element once. UndefinedBehaviorSanitizer checks it in the gate's sanitizer build. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/cpu/cpu.h"
#include "kernels/exact/cell.h"
#include "tests/unit/oracle.h"

enum { BYTES = 1 << 14, ROUNDS = 60 };

static uint64_t *written, *read_only; /* two mappings of the same pages, as in client and daemon */
static atomic_bool over;

static int map_memory(void **state)
{
    (void)state;
    int fd = memfd_create("racing", 0);
    if (fd < 0 || ftruncate(fd, BYTES) != 0)
        return -1;
    written = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    read_only = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return written == MAP_FAILED || read_only == MAP_FAILED;
}

static int unmap_memory(void **state)
{
    (void)state;
    return munmap(written, BYTES) | munmap(read_only, BYTES);
}

/* A line at a time, so that all lanes of a vector change at once: ones, which fit every block, and in between what does not. */
static void *write_over_and_over(void *arg)
{
    static const uint64_t words[] = {0xffffffffffffffff, 0xff7fffffff7fffff, 0xffefffffffffffff, 0x7f8000007f800000, 1};
    typedef uint64_t line __attribute__((vector_size(64)));
    const line one = (line){0} + 0x3f8000003f800000;
    t_rng r = {11};
    (void)arg;
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        volatile line *at = (volatile line *)written + t_below(&r, BYTES / sizeof(line));
        line other = (line){0} + words[t_below(&r, sizeof words / sizeof words[0])];
        for (int i = 0; i < 256; i++) {
            *at = other;
            *at = one;
        }
    }
    return NULL;
}

static void reduce_all(const rk_simd *simd)
{
    for (int layout = 0; layout < RP_LAYOUT_COUNT; layout++)
        for (int dtype = RP_I8; dtype <= RP_DTYPE_COUNT; dtype++)
            for (int nan = 0; simd->reduce[layout][dtype] && nan <= (rk_is_float(dtype) ? RP_NAN_ERROR : 0); nan++) {
                rk_state s;
                rk_state_init(&s, layout, dtype);
                simd->reduce[layout][dtype](&s, read_only, BYTES / rp_dtype_size(dtype), 0, nan);
            }
}

static void reduce_pairs(rk_pairs_fn *run, int weights)
{
    const size_t half = BYTES / 2, n = half / rp_dtype_size(weights);
    for (int i = 0; i < 6; i++) {
        rk_state s;
        double neglected;
        rk_state_init(&s, rp_state_layout(i % 2 ? RP_OP_WMEAN : RP_OP_DOT, weights), weights);
        run(&s, read_only, (const uint8_t *)read_only + half, n, i / 2, i % 3 == 0, i % 2 ? &neglected : NULL);
        assert_true(s.count <= n);
    }
}

static void reduce_comoments(const rk_simd *simd, int dtype, int weights)
{
    const size_t half = BYTES / 2, n = half / rp_dtype_size(weights);
    for (int i = 0; i < 6; i++) {
        const rp_spec spec = {.op = i % 2 ? RP_OP_COV : RP_OP_CORR, .dtype = (uint8_t)weights, .out = RP_F64, .rows = 1};
        rk_state s;
        uint8_t cell[8];
        rk_state_init(&s, rp_state_layout(spec.op, weights), weights);
        rk_cpu_comoments(simd, &s, dtype, read_only, (const uint8_t *)read_only + half, n, i / 2);
        assert_true(s.count <= n);
        assert_int_equal(rk_cell_write(&s, &spec, cell), RP_OK); /* of sums that no pairs have */
    }
}

static void reduce_all_pairs(const rk_simd *simd)
{
    for (int dtype = RP_I8; dtype <= RP_DTYPE_COUNT; dtype++)
        reduce_pairs(simd->pairs[dtype], dtype), reduce_comoments(simd, dtype, dtype);
    reduce_pairs(simd->pairs_f32_f64, RP_F64);
    reduce_comoments(simd, RP_F32, RP_F64);
}

/* By keys that change. */
static void reduce_by_key(void)
{
    static uint8_t cells[96 * 128];
    for (int op = RP_OP_SUM; op <= RP_OP_STATS; op++) {
        const rp_spec s = {.op = (uint8_t)op,
                           .dtype = RP_U32,
                           .out = RP_U64,
                           .flags = RP_KEYS | RP_DROP_OUTSIDE | RP_MASK | RP_STATES_OUT,
                           .rows = 100,
                           .row_len = BYTES / 4,
                           .keys = RP_U8};
        const rp_parts beside = {.mask = (const uint8_t *)read_only + BYTES / 2, .keys = (const uint8_t *)read_only};
        rp_fault f;
        assert_int_equal(rk_reduce_here(&s, read_only, &beside, BYTES, 1, 0, cells, &f), RP_OK);
    }
}

static void reduce_both(const rk_simd *simd)
{
    reduce_by_key();
    reduce_all(simd);
    reduce_all_pairs(simd);
}

static void loops_bear_memory_that_changes(void **state)
{
    pthread_t writer;
    (void)state;
    assert_int_equal(pthread_create(&writer, NULL, write_over_and_over, NULL), 0);
    for (int round = 0; round < ROUNDS; round++)
        for (int k = 0; k < rk_simd_count; k++)
            if (rk_simd_runs(rk_simds[k]))
                reduce_both(rk_simds[k]);
    atomic_store(&over, true);
    assert_int_equal(pthread_join(writer, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(loops_bear_memory_that_changes)};
    return cmocka_run_group_tests(tests, map_memory, unmap_memory);
}
