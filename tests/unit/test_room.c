/* Calls from threads with little stack: each needs at most 32 KiB of it, whatever it reduces, and the results are those of
 * another thread. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "client/reduce.h"
#include "kernels/cpu/threads/room.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SMALL_STACK = 1 << 20, MOST = SMALL_STACK, TYPES = 2 }; /* their frames are larger: how deep calls go is not seen here */
#else
/* Thread-local memory is at the top of a stack: 45 KiB of it in a program with the CUDA runtime. */
enum { SMALL_STACK = 128 << 10, MOST = 32 << 10, TYPES = 7 };
#endif
enum { N = 64 << 10, RESULTS = 4096, SEGMENTS = 8, PAINT = 0xa5 };

static double data[N];
static uint8_t mask[N];
static uint64_t offsets[SEGMENTS + 1];
static reduce_client *client;

typedef struct question {
    reduce_spec spec;
    size_t bytes;
    double out[RESULTS * 8];
    int err;
} question;

static void *ask(void *arg)
{
    question *q = arg;
    q->err = reduce_run(client, &q->spec, data, q->bytes, q->out, sizeof q->out, NULL);
    return NULL;
}

static int alone(void *arg, void *memory, size_t bytes) { return (void)arg, (void)memory, (void)bytes, 0; }

static void *together(void *arg)
{
    question *q = arg;
    reduce_item item = REDUCE_ITEM_INIT;
    item.spec = &q->spec;
    item.data = data;
    item.bytes = q->bytes;
    item.out = q->out;
    item.room = sizeof q->out;
    q->err = reduce_collective(NULL, &item, 1, 0, alone, NULL);
    return NULL;
}

static void *nothing(void *arg) { return arg; }

/* Runs it in a thread of SMALL_STACK; returns how many bytes of that the thread wrote. */
static size_t depth_of(void *(*run)(void *), void *arg)
{
    uint8_t *stack = mmap(NULL, SMALL_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attr;
    pthread_t thread;
    size_t untouched = 0;
    assert_ptr_not_equal(stack, MAP_FAILED);
    memset(stack, PAINT, SMALL_STACK);
    pthread_attr_init(&attr);
    assert_int_equal(pthread_attr_setstack(&attr, stack, SMALL_STACK), 0);
    assert_int_equal(pthread_create(&thread, &attr, run, arg), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    while (untouched < SMALL_STACK && stack[untouched] == PAINT)
        untouched++;
    munmap(stack, SMALL_STACK);
    return SMALL_STACK - untouched;
}

static void check(void *(*run)(void *), reduce_spec spec, size_t bytes)
{
    question *q = calloc(2, sizeof *q);
    assert_non_null(q);
    q[0].spec = q[1].spec = spec;
    q[0].bytes = q[1].bytes = bytes;
    const size_t depth = depth_of(run, &q[0]) - depth_of(nothing, NULL);
    run(&q[1]);
    if (q[0].err != q[1].err || (q[0].err && q[0].err != REDUCE_E_OVERFLOW) || memcmp(q[0].out, q[1].out, sizeof q->out) != 0 ||
        depth > MOST) {
        print_error("%s of %s, flags %u: errors %d, %d, %zu bytes of stack: %s\n", reduce_op_name(spec.op),
                    reduce_dtype_name(spec.dtype), spec.flags, q[0].err, q[1].err, depth, reduce_errmsg());
        fail();
    }
    free(q);
}

static const int types[] = {REDUCE_F64, REDUCE_U8, REDUCE_F32, REDUCE_F16, REDUCE_BF16, REDUCE_I64, REDUCE_BOOL};
static const int ops[] = {REDUCE_SUM,    REDUCE_VAR,    REDUCE_STATS, REDUCE_PROD,
                          REDUCE_ARGMAX, REDUCE_MINMAX, REDUCE_NORM1, REDUCE_NORM2};

static void each_shape(void *(*run)(void *), int op, int dtype)
{
    reduce_spec s = REDUCE_SPEC_INIT;
    const size_t bytes = 1024 * 64 * reduce_dtype_size(dtype);
    s.op = op;
    s.dtype = dtype;
    s.flags = op == REDUCE_PROD && (dtype == REDUCE_I64 || dtype == REDUCE_U8) ? REDUCE_WRAP : 0;
    s.nan = REDUCE_NAN_OMIT;
    reduce_spec one = s, rows = s, columns = s, runs = s, masked = s, segments = s;
    rows.rows = 1024;
    columns.rows = 1024;
    columns.flags |= REDUCE_COLUMNS;
    runs.rows = 64;
    runs.planes = 32;
    masked.mask = mask;
    segments.rows = SEGMENTS;
    segments.offsets = offsets;
    check(run, one, bytes);
    check(run, rows, bytes);
    check(run, columns, bytes);
    check(run, runs, bytes);
    check(run, masked, bytes);
    check(run, segments, bytes);
}

static void calls_need_little_stack(void **state)
{
    (void)state;
    for (size_t t = 0; t < TYPES; t++)
        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
            each_shape(ask, ops[o], types[t]);
            each_shape(together, ops[o], types[t]);
        }
}

/* The main thread's stack is large enough: no other thread runs it. */
static void stores_thread(void *arg) { *(pthread_t *)arg = pthread_self(); }

static void threads_with_room_do_it_themselves(void **state)
{
    (void)state;
    pthread_t ran;
    assert_true(rk_with_room(RK_ROOM_COLUMNS, stores_thread, &ran));
    assert_true(pthread_equal(ran, pthread_self()));
    assert_true(rk_with_room((size_t)1 << 40, stores_thread, &ran));
    assert_false(pthread_equal(ran, pthread_self()));
}

static int begin(void **state)
{
    reduce_open_opts o = REDUCE_OPEN_OPTS_INIT;
    o.flags = REDUCE_LAZY;
    o.local = REDUCE_LOCAL_YES;
    for (size_t i = 0; i < N; i++) {
        data[i] = (double)(i % 10) / 7 + 1;
        mask[i] = i % 3 != 0;
    }
    for (size_t i = 0; i <= SEGMENTS; i++)
        offsets[i] = i * i * 1024;
    return (void)state, reduce_open(&client, "ipc:///nowhere", &o);
}

static int end(void **state)
{
    reduce_close(client);
    return (void)state, 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls_need_little_stack),
                                       cmocka_unit_test(threads_with_room_do_it_themselves)};
    return cmocka_run_group_tests(tests, begin, end);
}
