/* Engines with several devices: which are chosen, where tasks and memory go, the same bits however data are cut, and what is
 * left when a device fails. Devices are CPU engines here; what CUDA adds is walked by tests/faults/cuda.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/engine/engine.h"
#include "kernels/engine/joint_ranks.h"
#include "kernels/engine/reading.h"
#include "kernels/engine/select.h"
#include "kernels/engine/share.h"
#include "tests/unit/polled.h"
#include "tests/unit/same_answer.h"
#include "tests/unit/sanitized.h"

static sem_t gate;
static atomic_bool gated; /* a device that has finished a task stops until the gate opens */

static void wake(void *arg)
{
    (void)arg;
    if (gated)
        sem_wait(&gate);
    sem_post(&polled_ended);
}

static rk_engine *open_devices(const char *devices, uint64_t resident_bytes)
{
    rk_options o = {
        .backend = RP_BACKEND_CPU, .devices = devices, .threads = 1, .resident_bytes = resident_bytes, .wake = wake};
    rk_engine *e = NULL;
    char why[160];
    sem_init(&polled_ended, 0, 0);
    assert_int_equal(rk_open(&e, &o, why, sizeof why), RP_OK);
    return e;
}

/* ---- names ---- */

static const rk_device_info three[] = {{0, {0}, "GPU-aa11"}, {1, {1}, "GPU-aa22"}, {2, {2}, "GPU-bb33"}};

static void check_selection(const char *text, const char *want)
{
    unsigned chosen[RK_MAX_DEVICES], n;
    char why[400] = "", got[64] = "";
    rp_err err = rk_select(three, 3, text, chosen, &n, why, sizeof why);
    for (unsigned i = 0; !err && i < n; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%u", chosen[i]);
    if (!err) {
        assert_string_equal(got, want);
        return;
    }
    assert_int_equal(err, RP_TYPE);
    assert_non_null(strstr(why, want));
    assert_non_null(strstr(why, "there are 0 (GPU-aa11), 1 (GPU-aa22), 2 (GPU-bb33)"));
}

static void devices_are_chosen_by_number_and_uuid(void **state)
{
    (void)state;
    char name[RK_UUID];
    rk_uuid_text((const uint8_t *)"\x01#Eg\x89\xab\xcd\xef\xfe\xdc\xba\x98vT2\x10", "GPU-", name);
    assert_string_equal(name, "GPU-01234567-89ab-cdef-fedc-ba9876543210");
    check_selection(NULL, "012");
    check_selection("all", "012");
    check_selection("2,0", "20");
    check_selection("1", "1");
    check_selection("GPU-bb, GPU-aa1", "20");
    check_selection("gpu-BB33,0", "20");
    check_selection("3", "'3' is not a device");
    check_selection("GPU-cc", "'GPU-cc' is not a device");
    check_selection("GPU-aa", "'GPU-aa' is not enough");
    check_selection("GPU-", "'GPU-' is not");
    check_selection("0,GPU-aa11", "'GPU-aa11' is listed twice");
    check_selection("1,1", "'1' is listed twice");
    check_selection("0,MIG-aa", "'MIG-aa' mixes MIG instances and whole GPUs");
    check_selection("MIG-aa,GPU-aa11", "'MIG-aa' is not a device");
    check_selection(",", "names no device");
}

static void a_second_mig_instance_is_refused(void **state)
{
    (void)state;
    static const rk_device_info two[] = {{0, {0}, "MIG-aa11"}, {1, {1}, "MIG-bb22"}};
    unsigned chosen[RK_MAX_DEVICES], n;
    char why[400] = "";
    assert_int_equal(rk_select(two, 2, "MIG-bb", chosen, &n, why, sizeof why), RP_OK);
    assert_int_equal(chosen[0], 1);
    assert_int_equal(rk_select(two, 2, "MIG-aa,MIG-bb", chosen, &n, why, sizeof why), RP_TYPE);
    assert_non_null(strstr(why, "a daemon of its own"));
}

static void the_cpu_is_opened_so_often(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned n; /* 0: refused */
    } cases[] = {{NULL, 1}, {"all", 1}, {"1", 1}, {"8", 8}, {"30", 30}, {"31", 0}, {"0", 0}, {"GPU-aa11", 0}, {"1,2", 0}};
    char why[160];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned n = 0;
        rp_err err = rk_select_cpus(cases[i].text, &n, why, sizeof why);
        assert_int_equal(err, cases[i].n ? RP_OK : RP_TYPE);
        if (cases[i].n)
            assert_int_equal(n, cases[i].n);
    }
    static const unsigned counts[] = {1, 2, 8};
    for (size_t i = 0; i < 3; i++) {
        char text[4];
        snprintf(text, sizeof text, "%u", counts[i]);
        rk_engine *e = open_devices(text, 0);
        rk_stats s;
        rk_get_stats(e, &s);
        assert_int_equal(s.devices, counts[i]);
        assert_int_equal(rk_devices(e), counts[i]);
        assert_int_equal(s.threads, counts[i]);
        rk_close(e);
    }
}

/* ---- the same bits ---- */

enum { ROUNDS = SOME == 1 ? 3 : 1, ONE_IN = ALONE_TOO ? 1 : SOME /* operations of a type: their threads are the same */ };
enum { MOST_BYTES = 64 << 10, MOST_CELLS = 1 << 20 };

static uint8_t data[MOST_BYTES], want_cells[MOST_CELLS], got_cells[MOST_CELLS];

static uint64_t seed = 20261122;

static uint64_t any(uint64_t n) /* below n */
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return n ? (seed >> 33) % n : 0;
}

/* Rows, perhaps in runs, columns or planes of columns, of elements that take at most `bytes`. */
static rp_spec random_shape(int op, int dtype, uint64_t elements)
{
    static const double edges[] = {-1e30, -2, 0, 1, 100, 1e30};
    rp_spec s = {.op = (uint8_t)op, .dtype = (uint8_t)dtype, .nan = (uint8_t)any(3), .index_base = any(1000)};
    s.k = rp_is_top(op) ? 1 + (int64_t)any(5) : 0;
    s.edges = (const uint8_t *)edges;
    s.n_edges = op == RP_OP_HISTOGRAM ? sizeof edges / sizeof edges[0] : 0;
    const uint64_t kind = any(4), cut = 1 + any(any(2) ? 20 : elements);
    s.rows = kind == 0 ? 1 : cut;
    s.row_len = elements / s.rows;
    s.flags = kind >= 2 ? RP_COLUMNS : 0;
    s.planes = kind == 3 || (kind == 1 && any(2)) ? 1 + any(6) : 0;
    s.row_len /= s.planes ? s.planes : 1;
    s.flags |= any(4) == 0 ? RP_STATES_OUT : 0;
    return s;
}

/* One spec at a random place of memory on several devices, and as plain data. */
static void check_spread(rk_engine *one, rk_engine *e, rk_memory *m, const rp_spec *spec, size_t bytes)
{
    const size_t size = rp_dtype_size(spec->dtype), offset = any((MOST_BYTES - bytes) / size + 1) * size;
    rk_task want = {.spec = *spec, .data = data + offset, .bytes = bytes, .cells = want_cells, .base = 5};
    rk_task got = {.spec = *spec, .memory = m, .offset = offset, .bytes = bytes, .cells = got_cells, .base = 5};
    run(one, &want);
    run(e, &got);
    if (got.fault.code == RP_TOO_LARGE) { /* ranks of many lines */
        assert_true(rp_is_ranked(spec->op) && rk_memory_place(m) == RK_PLACE_SPREAD);
        assert_int_equal(got.fault.limit, RK_JOINT_LINES);
    } else {
        same_answer(&want, &got);
    }
    rk_task host = want; /* plain data, on a device that is asked for or any */
    host.cells = got_cells;
    host.spec.device = (uint16_t)any(rk_devices(e) + 1);
    run(e, &host);
    same_answer(&want, &host);
    if (host.spec.device)
        assert_int_equal(host.device, host.spec.device - 1);
}

static bool fits(rp_spec *s) { return rp_spec_check(s, NULL) == RP_OK && rp_results(s) * rp_cell_size(s) <= MOST_CELLS; }

static void check_op(rk_engine *one, rk_engine *e, rk_memory *m, int op, int dtype)
{
    for (int round = 0; round < ROUNDS && (op + dtype) % ONE_IN == 0; round++) {
        rp_spec s = random_shape(op, dtype, any(MOST_BYTES / rp_dtype_size(dtype) + 1));
        if (fits(&s))
            check_spread(one, e, m, &s, rp_elements(&s) * rp_dtype_size(dtype));
    }
}

/* Whatever bits: NaNs, infinities, subnormals; some rounds with small numbers, so that products do not overflow. */
static void fill_data(bool tame)
{
    for (size_t i = 0; i < MOST_BYTES; i++)
        data[i] = tame ? (uint8_t)(any(64) == 0) : (uint8_t)any(256);
}

static void spread_memory_gives_the_same_bits(void **state)
{
    (void)state;
    static const char *const counts[] = {"1", "2", "4", "7"};
    rk_engine *one = open_devices("1", 0);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        rk_engine *e = open_devices(counts[i], 0);
        rk_memory *m;
        rp_fault f;
        fill_data(i % 2);
        assert_int_equal(rk_memory_new(e, RK_PLACE_SPREAD, MOST_BYTES, &m, &f), RP_OK);
        assert_int_equal(rk_memory_place(m), i ? RK_PLACE_SPREAD : 0);
        for (size_t at = 0, n; at < MOST_BYTES; at += n) {
            n = 1 + any(MOST_BYTES - at);
            rk_task t = {.memory = m, .offset = at, .data = data + at, .bytes = n, .fill = true};
            run(e, &t);
            assert_int_equal(t.fault.code, RP_OK);
        }
#define X(NAME, name, code, ...)                              \
    for (int dtype = RP_I8; dtype <= RP_DTYPE_COUNT; dtype++) \
        if (!rp_is_paired(RP_OP_##NAME))                      \
            check_op(one, e, m, RP_OP_##NAME, dtype);
        RP_OPS(X)
#undef X
        rk_memory_close(e, m);
        rk_close(e);
    }
    rk_close(one);
}

/* A device has 4 MiB for states, too. Columns, and rows in runs. */
static void states_of_a_piece_have_a_cap(void **state)
{
    (void)state;
    enum { PLANES = 4, BYTES = 4 * MOST_BYTES };
    rk_engine *e = open_devices("2", 0);
    rk_memory *m;
    rp_fault f;
    assert_int_equal(rk_memory_new(e, RK_PLACE_SPREAD, BYTES, &m, &f), RP_OK);
    for (size_t at = 0; at < BYTES; at += MOST_BYTES) {
        rk_task t = {.memory = m, .offset = at, .data = data, .bytes = MOST_BYTES, .fill = true};
        run(e, &t);
    }
    const uint64_t cap = RP_MAX_DATA / rp_state_size(rp_state_layout(RP_OP_STATS, RP_F64));
    assert_in_range(PLANES * (cap + 1) * sizeof(double), BYTES / 2 + 1, BYTES);
    for (int i = 0; i < 4; i++) {
        const uint64_t n = cap + (uint64_t)(i / 2);
        rk_task t = {.spec = {.op = RP_OP_STATS, .dtype = RP_F64, .rows = PLANES, .row_len = n, .flags = RP_COLUMNS},
                     .memory = m,
                     .bytes = PLANES * n * sizeof(double),
                     .cells = got_cells};
        if (i % 2)
            t.spec = (rp_spec){.op = RP_OP_STATS, .dtype = RP_F64, .rows = n, .row_len = 1, .planes = PLANES};
        assert_int_equal(rp_spec_check(&t.spec, NULL), RP_OK);
        run(e, &t);
        assert_int_equal(t.fault.code, n > cap ? RP_TOO_LARGE : RP_OK);
        if (n > cap)
            assert_string_equal(t.fault.field, i % 2 ? "rows" : "row_len");
    }
    rk_memory_close(e, m);
    rk_close(e);
}

/* ---- where things go ---- */

static void memory_goes_where_most_is_free(void **state)
{
    (void)state;
    enum { CAP = 1 << 20 };
    rk_engine *e = open_devices("3", CAP);
    rk_memory *m[4], *more;
    rk_stats s;
    rp_fault f;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rk_memory_new(e, RK_PLACE_ANY, CAP / 8, &m[i], &f), RP_OK);
        assert_int_equal(rk_memory_place(m[i]), i);
    }
    assert_int_equal(rk_memory_new(e, 1, CAP / 8, &m[3], &f), RP_OK);
    assert_int_equal(rk_memory_place(m[3]), 1);
    assert_int_equal(rk_memory_new(e, RK_PLACE_ANY, CAP / 2 + 1, &more, &f), RP_QUOTA); /* all together */
    assert_int_equal(f.limit, CAP);
    assert_int_equal(rk_memory_new(e, 3, 1, &more, &f), RP_BAD_HANDLE);
    rk_get_device_stats(e, 1, &s);
    assert_int_equal(s.resident_bytes, CAP / 4);
    rk_get_stats(e, &s);
    assert_int_equal(s.resident_bytes, CAP / 2);
    assert_int_equal(s.resident_cap, CAP);
    for (int i = 0; i < 4; i++)
        rk_memory_close(e, m[i]);
    rk_close(e);
}

enum { LARGE = MOST_BYTES / 8, TASKS = 40 };

/* A sum of a large array, which no device does at once. */
static rk_task sum_task(uint64_t *cell)
{
    return (rk_task){.spec = {.op = RP_OP_SUM, .dtype = RP_U64, .out = RP_U64, .rows = 1, .row_len = LARGE},
                     .data = data,
                     .bytes = MOST_BYTES,
                     .cells = cell};
}

/* How many tasks each of four devices had of those that were submitted at once. */
static void count_places(rk_engine *e, unsigned n[4])
{
    static rk_task t[TASKS];
    static uint64_t cells[TASKS][2];
    sem_init(&gate, 0, 0);
    gated = true; /* no device is done with all before the others had some */
    for (int i = 0; i < TASKS; i++) {
        t[i] = sum_task(cells[i]);
        rp_spec_check(&t[i].spec, NULL);
        rk_submit(e, &t[i], RK_HERE | RK_QUEUED);
    }
    gated = false;
    for (int i = 0; i < TASKS; i++)
        sem_post(&gate);
    for (int i = 0; i < TASKS; i++) {
        rk_task *done = poll_one(e);
        assert_int_equal(done->fault.code, RP_OK);
        n[done->device]++;
    }
    for (int i = 1; i < TASKS; i++)
        assert_int_equal(cells[i][0], cells[0][0]);
}

static void tasks_go_to_the_least_loaded(void **state)
{
    (void)state;
    rk_engine *e = open_devices("4", 0);
    unsigned n[4] = {0};
    fill_data(true);
    count_places(e, n);
    for (int i = 0; i < 4; i++)
        assert_true(n[i] > 0); /* each had a turn: the queue of every other one was longer */
    rk_close(e);
}

/* How much work was done a nanosecond, while there was some. */
static void a_rate_is_known_after_some_work(void **state)
{
    (void)state;
    enum { TASK = 8 << 20, TIMES = 4 };
    const rk_options o = {0};
    rk_inflight f;
    rk_task t = {.spec = {.op = RP_OP_SUM, .dtype = RP_U8, .rows = 1, .row_len = TASK}, .bytes = TASK};
    assert_int_equal(rp_spec_check(&t.spec, NULL), RP_OK);
    rk_inflight_init(&f, &o);
    for (int i = 0; i < TIMES; i++) {
        assert_true(rk_inflight_rate(&f) == 0);
        rk_inflight_enter(&f, &t, NULL);
        assert_int_equal(rk_inflight_load(&f), t.load);
        rk_complete(&f, &t);
        assert_ptr_equal(rk_inflight_poll(&f), &t);
    }
    const double want = (double)TIMES * (double)t.load / ((double)rk_busy_ns(&f.busy) + 1), got = rk_inflight_rate(&f);
    assert_true(got > want * 0.999 && got < want * 1.001);
    rk_inflight_drop(&f);
    rk_inflight_fini(&f);
}

/* A device reads its own memory a hundred times as fast as the bus brings other data. */
static void data_in_a_device_have_no_rate(void **state)
{
    (void)state;
    const rk_options o = {0};
    rk_inflight f;
    rk_memory *there = (rk_memory *)&f; /* any */
    rk_task t = {.spec = {.op = RP_OP_SUM, .dtype = RP_U8, .rows = 1, .row_len = 1 << 30}, .bytes = 1 << 30, .memory = there};
    assert_int_equal(rp_spec_check(&t.spec, NULL), RP_OK);
    rk_inflight_init(&f, &o);
    rk_inflight_enter(&f, &t, NULL);
    rk_complete(&f, &t);
    assert_true(rk_inflight_rate(&f) == 0);
    rk_inflight_drop(&f);
    rk_inflight_fini(&f);
}

enum { PIECE = 4 << 20, DEVICES = 2, CPU = DEVICES };

/* Two devices and the CPU, as busy and fast as it says: bytes under way, and bytes a nanosecond. */
static rk_inflight *places[CPU + 1], place[CPU + 1];

static void set_places(uint64_t load0, uint64_t load1, uint64_t cpu_load, double rate0, double rate1, double cpu_rate)
{
    place[0] = (rk_inflight){.load = load0, .rate = rate0};
    place[1] = (rk_inflight){.load = load1, .rate = rate1};
    place[CPU] = (rk_inflight){.load = cpu_load, .rate = cpu_rate};
    for (int i = 0; i <= CPU; i++)
        places[i] = &place[i];
}

static unsigned shared_with(uint64_t load0, uint64_t load1, uint64_t cpu_load, double rate0, double rate1, double cpu_rate)
{
    set_places(load0, load1, cpu_load, rate0, rate1, cpu_rate);
    return rk_share(places, CPU + 1, PIECE);
}

/* A piece goes where it would be done first; a device has it if the CPU would take as long. */
static void a_piece_goes_where_it_is_done_first(void **state)
{
    (void)state;
    assert_int_equal(shared_with(0, 0, 0, 40, 40, 20), 0);
    assert_int_equal(shared_with(PIECE, 0, 0, 40, 40, 20), 1);
    assert_int_equal(shared_with(PIECE, PIECE, 0, 40, 40, 20), 0); /* (4 + 4) / 40 and 4 / 20 */
    assert_int_equal(shared_with(2 * PIECE, 2 * PIECE, 0, 40, 40, 20), CPU);
    assert_int_equal(shared_with(2 * PIECE, 2 * PIECE, PIECE, 40, 40, 20), 0);
    set_places(0, PIECE, 0, 40, 40, 20);
    places[0] = NULL; /* it is lost */
    assert_int_equal(rk_share(places, CPU + 1, PIECE), 1);
    places[1] = NULL;
    assert_int_equal(rk_share(places, CPU + 1, PIECE), CPU);
}

/* Until its rate is known it is taken to be as fast as the others. Else the one that was measured first would have all work. */
static void one_without_a_rate_gets_work(void **state)
{
    (void)state;
    assert_int_equal(shared_with(0, 0, 0, 0, 0, 0), 0);
    assert_int_equal(shared_with(PIECE, PIECE, 0, 0, 0, 0), CPU);
    assert_int_equal(shared_with(PIECE, PIECE, 0, 40, 40, 0), CPU);
    assert_int_equal(shared_with(PIECE, 0, PIECE, 40, 0, 20), 1);
}

/* One that was slow once is tried again after 256 pieces for others, and after as many more. */
static void a_slow_one_is_tried_again(void **state)
{
    (void)state;
    set_places(0, 0, 0, 40, 40, 0.001);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 256; i++)
            assert_int_equal(rk_share(places, CPU + 1, PIECE), 0);
        assert_int_equal(rk_share(places, CPU + 1, PIECE), CPU);
    }
}

/* So is a GPU, with some pieces at once: each alone takes longer. */
static void a_gpu_that_was_slow_is_tried_again(void **state)
{
    (void)state;
    set_places(0, 0, 0, 0.001, 0, 20);
    places[1] = NULL;
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 64; i++)
            assert_int_equal(rk_share(places, CPU + 1, PIECE), CPU);
        for (int i = 0; i < 8; i++)
            assert_int_equal(rk_share(places, CPU + 1, PIECE), 0);
    }
}

/* Sums of f32: one thread reduces 10 bytes a ns, the GPUs 35. */
static bool reduces(rk_reading *r, double gpus)
{
    const rk_task t = {.spec = {.op = RP_OP_SUM, .dtype = RP_F32}, .bytes = PIECE};
    return rk_reading_reduces(r, &t, gpus);
}

/* Readers reduce what they read if there are so many that they are faster than the GPUs, whose rate is measured first. */
static void many_readers_reduce_what_they_read(void **state)
{
    (void)state;
    const rk_task sum = {.spec = {.op = RP_OP_SUM, .dtype = RP_F32}, .bytes = PIECE},
                  var = {.spec = {.op = RP_OP_VAR, .dtype = RP_F32}};
    rk_reading r = {0};
    for (int i = 0; i < 3; i++)
        rk_reading_begin(&r);
    assert_false(reduces(&r, 0));
    assert_true(reduces(&r, 35)); /* to measure them */
    rk_reading_note(&r, &sum, PIECE / 10);
    assert_false(reduces(&r, 35));
    rk_reading_begin(&r);
    assert_true(reduces(&r, 35));
    assert_false(reduces(&r, 50));
    assert_true(rk_reading_reduces(&r, &var, 50)); /* each operation and type has its own rate */
    rk_reading_end(&r);
    assert_false(reduces(&r, 35));
}

/* The first threads of a range see few others: that more are usual counts, too. Where one thread is usual, it does not. */
static void readers_know_that_more_will_come(void **state)
{
    (void)state;
    const rk_task sum = {.spec = {.op = RP_OP_SUM, .dtype = RP_F32}, .bytes = PIECE};
    rk_reading r = {0};
    rk_reading_note(&r, &sum, PIECE / 10);
    unsigned passed = 0;
    for (int range = 0; range < 12; range++) { /* of 16 parts, 14 threads: they begin one after the other */
        for (int part = 0; part < 16; part++) {
            if (part < 14)
                rk_reading_begin(&r);
            passed += !reduces(&r, 35) && range >= 2;
        }
        for (int i = 0; i < 14; i++)
            rk_reading_end(&r);
    }
    assert_int_equal(passed, 0);
    for (int i = 0; i < 100; i++) { /* ranges of one part */
        rk_reading_begin(&r);
        passed += !reduces(&r, 35);
        rk_reading_end(&r);
    }
    assert_in_range(passed, 80, 100);
}

/* A bad moment is not for ever. */
static void slow_readers_are_tried_again(void **state)
{
    (void)state;
    const rk_task sum = {.spec = {.op = RP_OP_SUM, .dtype = RP_F32}, .bytes = PIECE};
    rk_reading r = {0};
    rk_reading_begin(&r);
    rk_reading_note(&r, &sum, PIECE * 100);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 256; i++)
            assert_false(reduces(&r, 35));
        assert_true(reduces(&r, 35));
    }
    for (int i = 0; i < 40; i++)
        rk_reading_note(&r, &sum, PIECE / 40);
    for (int turn = 0; turn < 2; turn++) { /* and the GPUs, with some parts at once */
        for (int i = 0; i < 256; i++)
            assert_true(reduces(&r, 35));
        for (int i = 0; i < 8; i++)
            assert_false(reduces(&r, 35));
    }
}

/* A trial of GPUs that are slow costs more, so it comes later. */
static void slow_gpus_are_tried_less_often(void **state)
{
    (void)state;
    const rk_task sum = {.spec = {.op = RP_OP_SUM, .dtype = RP_F32}, .bytes = PIECE};
    rk_reading r = {0};
    rk_reading_begin(&r);
    rk_reading_note(&r, &sum, PIECE / 10);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 1024; i++)
            assert_true(reduces(&r, 4));
        for (int i = 0; i < 8; i++)
            assert_false(reduces(&r, 4));
    }
}

/* ---- failing ---- */

static void a_lost_device_leaves_its_work_to_the_others(void **state)
{
    (void)state;
    rk_engine *e = open_devices("4", 0);
    unsigned n[4] = {0};
    rk_memory *lost, *spread, *kept, *late;
    rk_stats s;
    rp_fault f;
    uint64_t cell[2];
    fill_data(true);
    assert_int_equal(rk_memory_new(e, 2, MOST_BYTES, &lost, &f), RP_OK);
    assert_int_equal(rk_memory_new(e, 3, MOST_BYTES, &kept, &f), RP_OK);
    assert_int_equal(rk_memory_new(e, RK_PLACE_SPREAD, MOST_BYTES, &spread, &f), RP_OK);
    rk_retire(e, 2);
    count_places(e, n);
    assert_int_equal(n[2], 0);
    rk_memory *const memory[] = {lost, spread, kept, NULL};
    static const int codes[] = {RP_DEVICE_LOST, RP_DEVICE_LOST, RP_OK, RP_DEVICE_LOST};
    for (int i = 0; i < 4; i++) {
        rk_task t = sum_task(cell);
        assert_int_equal(rp_spec_check(&t.spec, &f), RP_OK);
        t.memory = memory[i];
        t.data = memory[i] ? NULL : data;
        t.spec.device = i == 3 ? 3 : 0; /* asked for by number */
        run(e, &t);
        assert_int_equal(t.fault.code, codes[i]);
        if (codes[i])
            assert_non_null(strstr(t.fault.text, "CPU-2"));
    }
    assert_true(rk_memory_lost(lost) && rk_memory_lost(spread) && !rk_memory_lost(kept));
    assert_int_equal(rk_memory_new(e, 2, 1, &late, &f), RP_DEVICE_LOST);
    assert_int_equal(rk_memory_new(e, RK_PLACE_SPREAD, MOST_BYTES, &late, &f), RP_OK);
    assert_false(rk_memory_lost(late));
    rk_get_stats(e, &s);
    assert_int_equal(s.devices_lost, 1);
    assert_false(s.lost);
    for (unsigned i = 0; i < 4; i++)
        rk_retire(e, i);
    rk_task t = sum_task(cell);
    assert_int_equal(rp_spec_check(&t.spec, &f), RP_OK);
    run(e, &t);
    assert_int_equal(t.fault.code, RP_DEVICE_LOST);
    rk_get_stats(e, &s);
    assert_true(s.lost);
    rk_memory_close(e, lost);
    rk_memory_close(e, spread);
    rk_memory_close(e, kept);
    rk_memory_close(e, late);
    rk_close(e);
}

static void each_device_has_a_probe(void **state)
{
    (void)state;
    rk_engine *e = open_devices("2", 0);
    for (unsigned i = 0; i < 2; i++) {
        rk_task t;
        rk_probe(e, i, &t);
        run(e, &t);
        assert_int_equal(t.device, i);
        assert_true(rk_probe_ok(&t));
    }
    rk_retire(e, 1);
    rk_task t;
    rk_probe(e, 1, &t);
    run(e, &t);
    assert_false(rk_probe_ok(&t));
    rk_close(e);
}

/* Tasks on memory of several devices that are dropped with the engine. */
static void stopping_frees_what_is_cut(void **state)
{
    (void)state;
    rk_engine *e = open_devices("3", 0);
    static rk_task t[TASKS];
    static uint64_t cells[TASKS][2];
    rk_memory *m;
    rp_fault f;
    assert_int_equal(rk_memory_new(e, RK_PLACE_SPREAD, MOST_BYTES, &m, &f), RP_OK);
    for (int i = 0; i < TASKS; i++) {
        t[i] = sum_task(cells[i]);
        rp_spec_check(&t[i].spec, NULL);
        t[i].memory = m;
        rk_submit(e, &t[i], RK_HERE | RK_QUEUED);
    }
    rk_stop(e);
    assert_null(rk_poll(e));
    rk_memory_close(e, m);
    rk_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_chosen_by_number_and_uuid),
        cmocka_unit_test(a_second_mig_instance_is_refused),
        cmocka_unit_test(the_cpu_is_opened_so_often),
        cmocka_unit_test(spread_memory_gives_the_same_bits),
        cmocka_unit_test(states_of_a_piece_have_a_cap),
        cmocka_unit_test(memory_goes_where_most_is_free),
        cmocka_unit_test(tasks_go_to_the_least_loaded),
        cmocka_unit_test(a_rate_is_known_after_some_work),
        cmocka_unit_test(data_in_a_device_have_no_rate),
        cmocka_unit_test(a_piece_goes_where_it_is_done_first),
        cmocka_unit_test(one_without_a_rate_gets_work),
        cmocka_unit_test(a_slow_one_is_tried_again),
        cmocka_unit_test(a_gpu_that_was_slow_is_tried_again),
        cmocka_unit_test(many_readers_reduce_what_they_read),
        cmocka_unit_test(readers_know_that_more_will_come),
        cmocka_unit_test(slow_readers_are_tried_again),
        cmocka_unit_test(slow_gpus_are_tried_less_often),
        cmocka_unit_test(a_lost_device_leaves_its_work_to_the_others),
        cmocka_unit_test(each_device_has_a_probe),
        cmocka_unit_test(stopping_frees_what_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
