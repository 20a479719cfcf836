/* CPU against CUDA, bit for bit: every operation x element type x NaN policy over sizes, data kinds, rows, alignments and
 * states. Plain C, so that it runs on a machine without cmocka.
 *
 *     check_engine [--quick | --tiny] [--seed N] [--only OP] [--every N] [--integers | --long | --huge | --keyed]
 *
 * --every N: one of N comparisons, as many of each kind if N is a prime.
 * Exit 0: all equal; 77: no device. The last line counts. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/order/sample.h"
#include "kernels/engine/engine.h"
#include "kernels/exact/state.h"
#include "proto/tagged.h"

enum { MOST = 1 << 20, SPARE = 300000 }; /* elements of a task, at most, but of pairs; bytes behind them */
enum { MANY_ROWS = 70000, FEW_ELEMENTS = 32, PAIR_BYTES = MANY_ROWS * FEW_ELEMENTS * 17 };
enum { HUGE_BYTES = 600 << 20 }; /* bytes of a row of --huge, at most */

static uint64_t rng_state;
static unsigned long passed, failed, every = 1, compared; /* of every so many comparisons that came, the first is made */
static rk_memory *device;

static uint64_t rng(void) /* splitmix64 */
{
    uint64_t z = (rng_state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Is one of the next n comparisons made? For others no data need to be made. */
static bool soon(unsigned long n) { return compared % every == 0 || compared % every + n > every; }

/* ---- data ---- */
typedef enum { UNIFORM, ANY_BITS, SPECIALS, NEG_ZERO, SUBNORMAL, CANCEL, ONE_NAN, CONSTANT, KINDS } kind;
static const char *kind_names[] = {"uniform", "any bits", "specials", "all -0.0", "subnormal", "cancel", "one NaN", "constant"};

typedef struct {
    int width, fraction; /* bits */
} shape;

static shape float_shape(int dtype)
{
    return dtype == RP_F64   ? (shape){64, 52}
           : dtype == RP_F32 ? (shape){32, 23}
           : dtype == RP_F16 ? (shape){16, 10}
                             : (shape){16, 7};
}

static uint64_t float_bits(int dtype, kind k, uint64_t i, uint64_t n)
{
    shape s = float_shape(dtype);
    uint64_t r = rng(), sign = (uint64_t)1 << (s.width - 1), inf = (sign - 1) & ~(((uint64_t)1 << s.fraction) - 1);
    uint64_t fraction = r & (((uint64_t)1 << s.fraction) - 1), bias = ((uint64_t)1 << (s.width - s.fraction - 2)) - 1;
    switch (k) {
    case UNIFORM:
        return fraction | ((bias - (r >> 60 & 3)) << s.fraction) | (r >> 59 & 1 ? sign : 0);
    case SPECIALS:
        if (i % 97 == 5)
            return (r >> 61 & 1 ? sign : 0) | inf | (r >> 60 & 1 ? fraction : 0);
        return r & (sign | (sign - 1)) & ~((uint64_t)1 << (s.width - 2)); /* finite */
    case NEG_ZERO:
        return sign;
    case SUBNORMAL:
        return fraction | (r >> 59 & 1 ? sign : 0);
    case CANCEL:
        rng_state = i / 2 + 17; /* pairs x, -x and one odd element */
        r = rng() & (sign - 1) & ~((uint64_t)1 << (s.width - 2));
        return r | (i & 1 ? sign : 0);
    case ONE_NAN:
        return i == n / 2 ? inf | 1 : fraction | bias << s.fraction;
    case CONSTANT:
        return bias << s.fraction;
    default:
        return r & (sign | (sign - 1));
    }
}

/* Any byte; of some kinds mostly false, or one of them that is true, or one that is false. */
static uint64_t bool_bits(kind k, uint64_t i, uint64_t n)
{
    switch (k) {
    case UNIFORM:
        return rng() % 2 ? rng() | 1 : 0;
    case SUBNORMAL:
        return rng() % 1000 == 0 ? 128 : 0;
    case ONE_NAN:
        return i == n / 2 ? 4 : 0;
    case CANCEL:
        return i == n / 2 ? 0 : 255;
    case NEG_ZERO:
        return 0;
    default:
        return rng();
    }
}

/* Of a size that is known where it is copied: a sanitizer's own memcpy takes most of the time otherwise. */
static void put(void *at, uint64_t bits, size_t bytes)
{
    if (bytes == 1)
        memcpy(at, &bits, 1);
    else if (bytes == 2)
        memcpy(at, &bits, 2);
    else if (bytes == 4)
        memcpy(at, &bits, 4);
    else
        memcpy(at, &bits, 8);
}

static void fill(void *data, int dtype, kind k, uint64_t n)
{
    size_t bytes = rp_dtype_size(dtype);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t bits = rp_dtype_class(dtype) == RP_CLASS_FLOAT ? float_bits(dtype, k, i, n)
                        : dtype == RP_BOOL                      ? bool_bits(k, i, n)
                        : k == CONSTANT                         ? UINT64_MAX
                        : k == NEG_ZERO                         ? (uint64_t)1 << (8 * bytes - 1)
                        : k == SUBNORMAL                        ? (rng() % 7 == 0)
                                                                : rng();
        put((char *)data + i * bytes, bits, bytes);
    }
}

/* ---- running ---- */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    int wakes;
} waker;

static void wake(void *arg)
{
    waker *w = arg;
    pthread_mutex_lock(&w->lock);
    w->wakes++;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
}

static rk_task *wait_done(rk_engine *e, waker *w)
{
    for (;;) {
        pthread_mutex_lock(&w->lock);
        int seen = w->wakes;
        pthread_mutex_unlock(&w->lock);
        rk_task *t = rk_poll(e);
        if (t)
            return t;
        pthread_mutex_lock(&w->lock);
        while (w->wakes == seen)
            pthread_cond_wait(&w->cond, &w->lock);
        pthread_mutex_unlock(&w->lock);
    }
}

static void run(rk_engine *e, waker *w, rk_task *t)
{
    if (rk_submit(e, t, RK_HERE | RK_QUEUED) != RK_FINISHED)
        wait_done(e, w);
}

/* Is the finished `g` the same as `c`? */
static void expect_equal(const rk_task *c, const rk_task *g, const char *what)
{
    size_t bytes = rp_results(&g->spec) * rp_cell_size(&g->spec), at = 0;
    const unsigned char *cpu = c->cells, *gpu = g->cells;
    int same = c->fault.code == g->fault.code && g->backend == RP_BACKEND_CUDA &&
               (c->fault.code == RP_OK ? memcmp(cpu, gpu, bytes) == 0 : c->fault.index == g->fault.index);
    passed += same;
    failed += !same;
    if (same)
        return;
    while (at < bytes && cpu[at] == gpu[at])
        at++;
    printf("FAIL %s of %s as %s, nan %s, flags %u, %" PRIu64 " x %" PRIu64 ", %s%s: cpu %s %" PRIu64 ", cuda %s %" PRIu64
           ", first byte %zu\n",
           rp_op_name(g->spec.op), rp_dtype_name(g->spec.dtype), rp_dtype_name(g->spec.out), rp_nan_name(g->spec.nan),
           g->spec.flags, g->spec.rows, g->spec.row_len, what, g->memory ? ", on the device" : "", rp_err_name(c->fault.code),
           c->fault.index, rp_err_name(g->fault.code), g->fault.index, at);
    if (g->fault.code != c->fault.code)
        printf("     cuda says: %s\n", g->fault.text);
}

/* Is `g`, once CUDA has run it, the same as `c`? */
static void expect_same(rk_engine *e, waker *w, const rk_task *c, rk_task g, const char *what)
{
    size_t bytes = rp_results(&g.spec) * rp_cell_size(&g.spec);
    g.cells = memset(malloc(bytes), 0xa5, bytes);
    run(e, w, &g);
    expect_equal(c, &g, what);
    free(g.cells);
}

/* Put the task's data on the device, as much at a time as a request brings. */
static void fill_memory(rk_engine *e, waker *w, const rk_task *t, uint64_t offset)
{
    for (size_t at = 0; at < t->bytes; at += RP_MAX_DATA) {
        rk_task f = {.memory = device,
                     .offset = offset + at,
                     .data = (const char *)t->data + at,
                     .fill = true,
                     .bytes = t->bytes - at < RP_MAX_DATA ? t->bytes - at : RP_MAX_DATA};
        run(e, w, &f);
        if (f.fault.code != RP_OK) {
            printf("FAIL filling: %s\n", f.fault.text);
            failed++;
        }
    }
}

/* From host memory, if a slot has room for the data. Also from memory on the device: larger data, every fault, and some of the
 * others. */
static void compare_once(rk_engine *e, waker *w, const rk_task *t, const char *what)
{
    static unsigned turn;
    if (compared++ % every)
        return;
    rk_task c = *t, on_device = *t;
    c.cells = calloc(1, rp_results(&t->spec) * rp_cell_size(&t->spec));
    rk_cpu_run(&c);
    const bool fits = t->bytes <= RP_MAX_DATA; /* else the CPU would be compared with itself */
    if (fits)
        expect_same(e, w, &c, *t, what);
    if (!(t->spec.flags & (RP_MASK | RP_OFFSETS | RP_STATES_IN)) && (!fits || c.fault.code != RP_OK || turn++ % 4 == 0)) {
        on_device.offset = turn % 3 * rp_dtype_size(t->spec.dtype);
        fill_memory(e, w, t, on_device.offset);
        on_device.memory = device;
        on_device.data = NULL;
        expect_same(e, w, &c, on_device, what);
    }
    free(c.cells);
}

/* And every third time with values of a narrower float, or of the type of integers, if there are such. */
static void compare(rk_engine *e, waker *w, const rk_task *t, const char *what)
{
    static const uint8_t narrow[] = {RP_F32, RP_F16, RP_BF16};
    static unsigned turn;
    compare_once(e, w, t, what);
    rk_task other = *t;
    other.spec.out = rp_dtype_class(t->spec.out) == RP_CLASS_FLOAT ? narrow[turn / 3 % 3] : t->spec.dtype;
    if (turn++ % 3 == 0 && other.spec.out != t->spec.out && rp_spec_check(&other.spec, NULL) == RP_OK)
        compare_once(e, w, &other, what);
}

/* The bytes of a task whose spec is complete. */
static void measure(rk_task *t)
{
    rp_spec *s = &t->spec;
    rp_fault f;
    if (rp_spec_check(s, &f) != RP_OK) { /* the engine trusts specs: one that is wrong would break the device for all others */
        printf("FAIL the test's own spec: %s\n", f.text);
        exit(1);
    }
    t->bytes = rp_elements(s) * (rp_item_size(s) + (s->flags & RP_MASK ? 1 : 0)) +
               (s->flags & RP_OFFSETS ? 8 * (s->rows + 1) : 0) +
               (s->flags & RP_WEIGHTS ? rp_role_bytes(s, RP_ROLE_WEIGHTS) : 0);
}

static rk_task task_of(int op, int dtype, int nan, uint32_t flags, uint64_t rows, uint64_t row_len, const void *data)
{
    rk_task t = {.spec = {.op = (uint8_t)op,
                          .dtype = (uint8_t)dtype,
                          .nan = (uint8_t)nan,
                          .flags = flags,
                          .rows = rows,
                          .row_len = row_len,
                          .index_base = 1000},
                 .data = data,
                 .base = 24};
    measure(&t);
    return t;
}

/* The same of several planes. */
static rk_task planes_of(rk_task t, uint64_t planes)
{
    t.spec.planes = planes;
    measure(&t);
    return t;
}

/* Values of a state that are missing. Integers have NaNs in this way alone. */
static void miss(char *state, size_t bytes, uint64_t n)
{
    rk_state s;
    memcpy(&s, state, bytes);
    rk_state_missing(&s, n);
    memcpy(state, &s, bytes);
}

/* States of `n` pieces of the data, then joined on both sides. */
static void compare_states(rk_engine *e, waker *w, int op, int dtype, int nan, const char *data, uint64_t n, uint64_t pieces,
                           const char *what)
{
    size_t state = rp_state_size(rp_state_layout(op, dtype)), bytes = rp_dtype_size(dtype);
    char *states = malloc(pieces * state);
    for (uint64_t i = 0; i < pieces; i++) {
        uint64_t from = n * i / pieces, to = n * (i + 1) / pieces;
        rk_task t = task_of(op, dtype, nan, RP_STATES_OUT, 1, to - from, data + from * bytes);
        t.base = from;
        t.cells = states + i * state;
        rk_cpu_run(&t);
        if (i % 3 == 1 && !rk_is_float(dtype))
            miss(t.cells, state, i);
    }
    rk_task join = task_of(op, dtype, nan, RP_STATES_IN, 1, pieces, states);
    compare(e, w, &join, what);
    join = task_of(op, dtype, nan, RP_STATES_IN | RP_STATES_OUT, 1, pieces, states);
    compare(e, w, &join, what);
    if (pieces % 4 == 0) {
        join = task_of(op, dtype, nan, RP_STATES_IN, 4, pieces / 4, states);
        compare(e, w, &join, what);
    }
    free(states);
}

typedef enum { FULL, QUICK, TINY } amount;

/* Offsets, elements and mask to `memory`, as the task's flags want them; and an initial element, if `initial`. */
static void lay_out(rk_task *t, char *memory, kind k, bool initial)
{
    const rp_spec *s = &t->spec;
    size_t bytes = rp_dtype_size(s->dtype);
    uint64_t n = rp_elements(s), at = 0;
    char *p = memory;
    if (s->flags & RP_OFFSETS)
        for (uint64_t r = 0; r <= s->rows; r++, p += 8) {
            memcpy(p, &at, 8);
            uint64_t most = 2 * (n - at) / (s->rows - r + 1) + 1; /* some empty, some long */
            at += rng() % 5 == 0 ? 0 : rng() % most;
            at = at > n ? n : at;
        }
    fill(p, s->dtype, k, n);
    p += n * bytes;
    for (uint64_t m = 0; (s->flags & RP_MASK) && m < n; m++)
        p[m] = rng() % 3 ? (char)(rng() | 1) : 0;
    if (initial) {
        t->spec.flags |= RP_INITIAL;
        uint64_t bits = 0;
        memcpy(&bits, memory, bytes);
        t->spec.initial = bits;
    }
}

/* Masks, runs, segments and columns, with and without an initial element. `memory`: 8 * 200000 + 300000 bytes. */
static void compare_shapes(rk_engine *e, waker *w, int op, int dtype, int nan, char *memory, int k, amount quick)
{
    static const struct {
        uint32_t flags;
        uint64_t rows, row_len, planes;
    } shapes[] = {{RP_MASK, 1, 5000, 0},
                  {RP_MASK, 3, 777, 0},
                  {RP_COLUMNS, 37, 5, 11}, /* planes narrower than a warp */
                  {0, 40, 33, 11},         /* rows in runs */
                  {RP_MASK, 200, 20, 0},
                  {RP_OFFSETS, 7, 3000, 0},
                  {RP_OFFSETS, 400, 9000, 0},
                  {RP_OFFSETS, 1, 0, 0},
                  {0, 2900, 13, 5}, /* runs whose states do not fit all at once, */
                  {0, 2900, 5, 7},  /* ... of parts of the rows, or whose columns have states */
                  {RP_MASK, 7, 8, 300},
                  {RP_COLUMNS, 50, 40, 0},
                  {RP_COLUMNS, 300, 100, 3},
                  {RP_COLUMNS, 7000, 8, 0}, /* whole vectors: several teams a column */
                  {RP_MASK, 3, 8192, 0},    /* rows of whole vectors: by blocks, in registers */
                  {RP_MASK, 50, 128, 0},
                  {RP_COLUMNS, 3000, 3, 0},
                  {RP_COLUMNS, 20000, 2, 3}, /* few long ones: several teams a column */
                  {RP_COLUMNS, 100, 1, 0},
                  {RP_COLUMNS, 1, 100, 0},
                  {RP_COLUMNS | RP_MASK, 99, 17, 0},
                  {RP_OFFSETS | RP_MASK, 20, 4000, 0},
                  {RP_OFFSETS, 3000, 60000, 0},
                  {RP_OFFSETS, 3, 60000, 0},
                  {RP_COLUMNS, 300, 200, 0},
                  {RP_COLUMNS | RP_MASK, 29, 33, 7},
                  {RP_COLUMNS, 8, 8, 500},
                  {RP_COLUMNS, 1, 13, 50},
                  {RP_COLUMNS, 500, 1, 40},
                  {RP_MASK, 9, 130, 17},
                  {0, 3, 9000, 4},
                  {RP_MASK, 3, 1, 500},
                  {0, 1, 9, 70},
                  {0, 5, 0, 3},
                  {RP_COLUMNS, 5, 1000, 0}};
    size_t count = sizeof shapes / sizeof shapes[0];
    for (size_t i = 0; i < (quick == FULL ? count : quick == QUICK ? 19 : 5); i++) {
        const bool initial = i % 3 == 1;
        uint32_t states = !initial && i % 4 == 2 ? RP_STATES_OUT : 0;
        rk_task t = task_of(op, dtype, nan, shapes[i].flags | states, shapes[i].rows, shapes[i].row_len, memory);
        t = planes_of(t, shapes[i].planes);
        lay_out(&t, memory, (kind)k, initial);
        compare(e, w, &t, kind_names[k]);
    }
}

/* Floats that span `binades` binades, from a random one downwards: in all of them, or only in the two outermost; with random
 * digits, or all ones. Sometimes with zeros, and a special value. Different algorithms sum different spans exactly. */
static void fill_binades(void *data, int dtype, uint64_t n, uint64_t binades)
{
    const shape s = float_shape(dtype);
    const size_t bytes = rp_dtype_size(dtype);
    const uint64_t ones = ((uint64_t)1 << s.fraction) - 1, sign = (uint64_t)1 << (s.width - 1), inf = (sign - 1) & ~ones;
    const uint64_t fields = inf >> s.fraction, top = rng() % 8 ? binades + rng() % fields : fields - 1;
    const bool between = rng() % 2, digits = rng() % 2, signs = rng() % 2, zeros = rng() % 2, only = rng() % 16 == 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t r = rng(), down = between ? r % (binades + 1) : r % 64 ? 0 : binades, high = top < fields ? top : fields - 1;
        uint64_t bits = (high > down ? high - down : 0) << s.fraction | (digits ? r >> 8 & ones : ones);
        if (signs && r >> 63)
            bits |= sign;
        if (only || (zeros && (r >> 60 & 7) == 1))
            bits &= sign;
        put((char *)data + i * bytes, bits, bytes);
    }
    if (n && rng() % 8 == 0) {
        uint64_t at = rng() % n, bits = inf | (rng() % 2 ? sign : 0) | (rng() % 2);
        put((char *)data + at * bytes, bits, bytes);
    }
}

/* Rows of about a tile of a block and less, of any length. */
static void check_short(rk_engine *e, waker *w, int op, int dtype, amount quick)
{
    enum { TILE = 16 << 10 };
    const size_t bytes = rp_dtype_size(dtype);
    const int is_float = rp_dtype_class(dtype) == RP_CLASS_FLOAT;
    char *memory = malloc(2 * TILE);
    for (int i = 0; i < (quick == FULL ? 400 : quick == QUICK ? 100 : 24); i++) {
        const uint64_t rows = i % 8 ? 1 : 1 + rng() % 3, most = (i % 2 ? TILE + 64 : TILE / 4) / bytes / rows;
        const uint64_t row_len = i % 5 ? 1 + rng() % most : TILE / bytes / rows / (1 + rng() % 4);
        if (is_float)
            fill_binades(memory, dtype, rows * row_len, 8 + rng() % 56);
        else
            fill(memory, dtype, (kind)(rng() % KINDS), rows * row_len);
        rk_task t = task_of(op, dtype, is_float ? (int)(rng() % 3) : 0, 0, rows, row_len, memory);
        compare(e, w, &t, "a few binades");
    }
    free(memory);
}

/* Many equal rows of a few elements. */
static void check_few(rk_engine *e, waker *w, int op, int dtype, amount quick)
{
    enum { ROWS = 600, LONGEST = 40 };
    const int is_float = rp_dtype_class(dtype) == RP_CLASS_FLOAT;
    char *memory = malloc((size_t)ROWS * LONGEST * rp_dtype_size(dtype));
    for (int i = 0; i < (quick == FULL ? 200 : quick == QUICK ? 40 : 12); i++) {
        const uint64_t rows = 32 + rng() % (ROWS - 31), few = 4 * (1 + rng() % 8);
        const uint64_t row_len = i % 4 == 0 ? 2 : i % 4 == 3 ? 1 + rng() % LONGEST : few; /* of f32 up to 8 whole vectors */
        if (is_float && i % 8)
            fill_binades(memory, dtype, rows * row_len, 1 + rng() % (i % 3 ? 24 : 56));
        else
            fill(memory, dtype, (kind)(rng() % KINDS), rows * row_len);
        rk_task t = task_of(op, dtype, is_float ? (int)(rng() % 3) : 0, 0, rows, row_len, memory);
        if (op == RP_OP_VAR || op == RP_OP_STD || op == RP_OP_SEM || op == RP_OP_STATS)
            t.spec.ddof = (uint32_t)(rng() % 3);
        compare(e, w, &t, "rows of a few elements");
    }
    free(memory);
}

/* Columns of a few rows: wide ones, and those of many narrow planes. */
static void check_columns(rk_engine *e, waker *w, int op, int dtype, amount quick)
{
    enum { ROWS = 40, VECTORS = 400 };
    const int is_float = rp_dtype_class(dtype) == RP_CLASS_FLOAT;
    char *memory = malloc((size_t)ROWS * 4 * VECTORS * rp_dtype_size(dtype));
    for (int i = 0; i < (quick == FULL ? 200 : quick == QUICK ? 40 : 12); i++) {
        const uint64_t rows = i % 4 == 3 ? 16 : 1 + rng() % (i % 4 == 0 ? ROWS : 16), vectors = 1 + rng() % VECTORS;
        const uint64_t wide = i % 4 == 0 ? vectors : (uint64_t)1 << rng() % 3, planes = vectors / wide;
        const uint64_t row_len = i % 8 == 5 ? wide : 4 * wide, n = rows * row_len * (planes ? planes : 1);
        if (is_float && i % 8)
            fill_binades(memory, dtype, n, 1 + rng() % (i % 3 ? 24 : 56));
        else
            fill(memory, dtype, (kind)(rng() % KINDS), n);
        rk_task t = task_of(op, dtype, is_float ? (int)(rng() % 3) : 0, RP_COLUMNS, rows, row_len, memory);
        if (op == RP_OP_VAR || op == RP_OP_STD || op == RP_OP_SEM || op == RP_OP_STATS)
            t.spec.ddof = (uint32_t)(rng() % 3);
        t = planes_of(t, planes);
        if (is_float && i % 2 && (op == RP_OP_SUM || op == RP_OP_MEAN))
            t.spec.out = rng() % 2 ? (uint8_t)dtype : (uint8_t)(RP_F16 + rng() % 3);
        compare(e, w, &t, "columns of a few rows");
    }
    free(memory);
}

/* Whole arrays of floats. NORMAL: many elements near the largest, ever fewer far below. TIES: small integers, so that
 * variances of a power of two of them are exact or ties. HANGING: all elements but three are zero, of which the least decides
 * a rounding. */
typedef enum { NORMAL, TIES, HANGING, WHOLE_KINDS } whole_kind;

static uint64_t whole_bits(int dtype, whole_kind k, uint64_t i, uint64_t n)
{
    const shape s = float_shape(dtype);
    const uint64_t bias = ((uint64_t)1 << (s.width - s.fraction - 2)) - 1, r = rng(), digits = ((uint64_t)1 << s.fraction) - 1;
    const uint64_t sign = (r & 1) << (s.width - 1);
    uint64_t down = 0;
    if (k == HANGING) {
        const uint64_t at = i == n / 7 ? 0 : i == n / 3 ? 27 : i == n / 2 ? bias - 2 : bias;
        return at < bias ? (bias - at) << s.fraction | (at ? sign : 0) : 0;
    }
    if (k == TIES) {
        while (down < 3 && r >> 61 & (uint64_t)1 << down)
            down++;
        return sign | (bias + down) << s.fraction;
    }
    while (down < 60 && down + 1 < bias && !(r >> (63 - down) & 1))
        down++;
    return sign | (bias + 1 - down) << s.fraction | (rng() & digits);
}

/* f64 near an exponent from which sums are scaled by another power of two (scale_levels.cuh): each run is on one side. */
static void fill_border(char *data, uint64_t n)
{
    const uint64_t border = 273 + 500 * (rng() % 4), run = (uint64_t)1 << rng() % 13;
    uint64_t side = 0;
    for (uint64_t i = 0; i < n; i++) {
        side = i % run ? side : rng() % 2;
        const uint64_t r = rng(), near = r % 5, field = side ? border + near : border - 1 - near;
        put(data + i * 8, (r & (1ull << 63)) | field << 52 | (r >> 8 & ((1ull << 52) - 1)), 8);
    }
}

/* Whole arrays of floats of any exponents, from some element on: before it are small integers, or
 * one number. */
static void check_far(rk_engine *e, waker *w, int op, int dtype, amount quick)
{
    enum { LONGEST = 50000 };
    const size_t bytes = rp_dtype_size(dtype);
    char *memory = aligned_alloc(4096, (LONGEST * bytes + 8192) / 4096 * 4096);
    for (int i = 0; i < (quick == FULL ? 300 : quick == QUICK ? 60 : 12); i++) {
        const uint64_t n = i % 3 ? 1 + rng() % LONGEST : 1024 * (1 + rng() % (LONGEST / 1024)),
                       from = i % 2 ? n * (rng() % 8) / 8 : 0;
        const uint64_t binades = i % 5 == 0 ? 60 : i % 5 == 1 ? 300 : i % 5 == 2 ? 700 : 2046;
        char *data = memory + (i % 4 == 3 ? bytes : 0);
        for (uint64_t j = 0; j < from && soon(1); j++)
            put(data + j * bytes, i % 4 == 1 ? float_bits(dtype, CONSTANT, j, n) : whole_bits(dtype, TIES, j, n), bytes);
        const bool border = dtype == RP_F64 && i % 4 == 2;
        if (border && soon(1))
            fill_border(data, n);
        else if (soon(1))
            fill_binades(data + from * bytes, dtype, n - from, binades);
        rk_task t = task_of(op, dtype, (int)(rng() % 3), 0, 1, n, data);
        if (op == RP_OP_VAR || op == RP_OP_STD || op == RP_OP_SEM)
            t.spec.ddof = (uint32_t)(rng() % 2);
        compare(e, w, &t, "far exponents");
    }
    free(memory);
}

static void check_whole(rk_engine *e, waker *w, int op, int dtype, amount quick)
{
    static const uint64_t sizes[] = {5, 1024, 3073, 12288, 32768, 65536 + 3, 100000, 1 << 18, (1 << 20) - 4};
    static const char *const names[] = {"normal", "ties", "hanging"};
    const size_t bytes = rp_dtype_size(dtype);
    char *memory = aligned_alloc(4096, (MOST * bytes + SPARE + 4095) / 4096 * 4096);
    for (int k = 0; k < WHOLE_KINDS; k++)
        for (size_t i = 0; i < (quick == TINY ? 5 : sizeof sizes / sizeof sizes[0]); i++) {
            const uint64_t n = sizes[i];
            char *data = memory + (i % 3 == 2 ? bytes : 0);
            for (uint64_t j = 0; j < n && soon(2 * 6); j++) {
                const uint64_t bits = whole_bits(dtype, (whole_kind)k, j, n);
                put(data + j * bytes, bits, bytes);
            }
            for (int special = 0; special < 2; special++) {
                for (int way = 0; way < 3; way++) {
                    rk_task t = task_of(op, dtype, (int)((i + (size_t)k) % 3), way == 1 ? RP_STATES_OUT : 0, 1, n, data);
                    if (op == RP_OP_VAR || op == RP_OP_STD || op == RP_OP_SEM || op == RP_OP_STATS)
                        t.spec.ddof = (uint32_t)((i + (size_t)k) % 2);
                    if (way == 2) {
                        t.spec.flags = RP_INITIAL;
                        memcpy(&t.spec.initial, data, bytes);
                    }
                    compare(e, w, &t, names[k]);
                }
                const uint64_t nan = float_bits(dtype, ONE_NAN, 0, 0), j = rng() % n; /* and once more with this */
                put(data + j * bytes, nan, bytes);
            }
        }
    free(memory);
}

/* Rows of floats whose products are numbers: each exponent leads the product back towards one. Of `few` digits most are powers
 * of two, so products of the few others are exact or ties. In a quarter of the rows one element takes the product towards an
 * end of the range; some have zeros, a special value or a subnormal number. */
static void fill_factors(char *data, int dtype, uint64_t rows, uint64_t row_len, bool few)
{
    const shape s = float_shape(dtype);
    const size_t bytes = rp_dtype_size(dtype);
    const uint64_t ones = ((uint64_t)1 << s.fraction) - 1, sign = (uint64_t)1 << (s.width - 1), inf = (sign - 1) & ~ones;
    const int bias = (1 << (s.width - s.fraction - 2)) - 1;
    for (uint64_t r = 0; r < rows; r++) {
        const int spread = 1 + (int)(rng() % (uint64_t)(bias / 2));
        const uint64_t at = rng() % row_len, others = few ? row_len / (2 + rng() % 12) + 1 : 1, way = rng() % 24;
        double logarithm = 0;
        for (uint64_t i = 0; i < row_len; i++) {
            const uint64_t random = rng();
            uint64_t fraction = few ? (random >> 8 & 7) << (s.fraction - 3) : random >> 8 & ones;
            fraction = i % others ? 0 : fraction;
            const int far = (int)(random >> 60) * spread / 16, e = logarithm > 0 ? -far : far;
            const double x = (double)fraction / (double)(ones + 1);
            logarithm += e + x + 0.34383 * x * (1 - x); /* nearly log2(1 + x), without libm */
            const int field = i == at && way < 6 ? (way < 3 ? 2 * bias : 1) : bias + e;
            uint64_t bits = (uint64_t)field << s.fraction | fraction | (random & 1 ? sign : 0);
            if (way == 18 && i % 3 == 0)
                bits &= sign;
            if (i == at && way > 18)
                bits = (uint64_t[]){0, sign, inf, inf | 1, fraction | 1}[way - 19];
            put(data + (r * row_len + i) * bytes, bits, bytes);
        }
    }
}

/* Products in every shape: whole arrays, rows, columns, masks; where the rounding is certain, and where it is not. */
static void check_products(rk_engine *e, waker *w, int dtype, amount quick)
{
    static const uint64_t shapes[][2] = {{1, 3},      {1, 30},     {1, 1024},  {1, 4099},    {3, 5000},   {5, 12288},
                                         {1, 100003}, {40, 4096},  {300, 8},   {1000, 32},   {2000, 3},   {64, 517},
                                         {2, 300000}, {1, 600001}, {200, 600}, {1, 1 << 20}, {34, 20000}, {40, 1024}};
    static const uint32_t flags[] = {0, RP_COLUMNS, RP_MASK, RP_STATES_OUT, RP_INITIAL, RP_COLUMNS | RP_MASK};
    static const int outs[] = {RP_F64, RP_F64, RP_F32, RP_F16, RP_BF16};
    const size_t bytes = rp_dtype_size(dtype), count = sizeof shapes / sizeof shapes[0];
    char *memory = malloc(MOST * (bytes + 1) + 16);
    for (size_t i = 0; i < (quick == FULL ? 6 : quick == QUICK ? 3 : 1) * count; i++) {
        const uint64_t *size = shapes[i % count], n = size[0] * size[1];
        if (quick == TINY && n > 70000)
            continue;
        char *data = memory + (i % 5 == 4 ? bytes : 0);
        for (size_t k = 0; k < sizeof flags / sizeof flags[0]; k++) {
            if (flags[k] && n > 200000)
                continue;
            fill_factors(data, dtype, size[0], size[1], rng() % 2);
            for (uint64_t m = 0; m < n && flags[k] & RP_MASK; m++)
                data[n * bytes + m] = rng() % 4 != 0;
            rk_task t = task_of(RP_OP_PROD, dtype, (int)(rng() % 3), flags[k], size[0], size[1], data);
            if (flags[k] & RP_INITIAL)
                memcpy(&t.spec.initial, data, bytes);
            if (!(flags[k] & RP_STATES_OUT))
                t.spec.out = (uint8_t)outs[rng() % 5];
            compare(e, w, &t, "factors");
        }
    }
    free(memory);
}

/* Many rows of the same kinds, aligned and not: in registers, walked along, and by a block each. The same as columns. */
static void check_rows(rk_engine *e, waker *w, int op, int dtype, amount quick)
{
    static const uint64_t shapes[][2] = {{200, 64},  {40, 1000}, {33, 1024}, {4300, 40}, {70, 128},
                                         {4301, 35}, {33, 2500}, {33, 9000}, {33, 20000}};
    const size_t bytes = rp_dtype_size(dtype), count = sizeof shapes / sizeof shapes[0];
    char *memory = aligned_alloc(4096, (MOST * bytes + SPARE + 4095) / 4096 * 4096);
    for (int k = 0; k < WHOLE_KINDS; k++)
        for (size_t i = 0; i < (quick == TINY ? 8 : 2 * count); i++) {
            const bool columns = i % 2;
            const uint64_t lines = shapes[i / 2][0], n = shapes[i / 2][1], special = rng() % (lines * n);
            char *data = memory + (rng() % 4 == 0 ? bytes : 0);
            for (uint64_t j = 0; j < lines * n && soon(2); j++) {
                const uint64_t at = columns ? j % n * lines + j / n : j;
                uint64_t bits = whole_bits(dtype, (whole_kind)k, j % n, n);
                if (j == special && rng() % 2)
                    bits = float_bits(dtype, ONE_NAN, 0, 0);
                put(data + at * bytes, bits, bytes);
            }
            rk_task t = columns ? task_of(op, dtype, (int)(i / 2 % 3), RP_COLUMNS, n, lines, data)
                                : task_of(op, dtype, (int)(i / 2 % 3), 0, lines, n, data);
            if (op == RP_OP_VAR || op == RP_OP_STD || op == RP_OP_SEM || op == RP_OP_STATS)
                t.spec.ddof = (uint32_t)(rng() % 2);
            compare(e, w, &t, columns ? "columns of these kinds" : "rows of these kinds");
        }
    free(memory);
}

/* Columns of f32 of which one element, far below the others, decides the rounding: of a sum, or of a sum of squares. */
static void check_hanging(rk_engine *e, waker *w, int op)
{
    static const uint64_t shapes[][3] = {
        {7000, 8, 0}, {300, 8, 0}, {300, 516, 0}, {40, 64, 0}, {16, 8, 50}}; /* the last: planes */
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const uint64_t rows = shapes[i][0], row_len = shapes[i][1], planes = shapes[i][2] ? shapes[i][2] : 1;
        float *memory = calloc(planes * rows * row_len, sizeof *memory);
        for (uint64_t c = 0; c < planes * row_len; c++) {
            float *column = memory + c / row_len * rows * row_len + c % row_len;
            const float of_sum[] = {1, 0x1p-53f, rng() % 2 ? 0x1p-140f : -0x1p-140f, 0};
            const float of_squares[] = {1, 0x1p-27f, 0x1p-27f, rng() % 2 ? 0x1p-60f : -0x1p-70f};
            for (int k = 0; k < 4; k++)
                column[(rng() % (rows / 4) + k * (rows / 4)) * row_len] = op == RP_OP_SUMSQ ? of_squares[k] : of_sum[k];
        }
        rk_task t = task_of(op, RP_F32, 0, RP_COLUMNS, rows, row_len, memory);
        t = planes_of(t, shapes[i][2]);
        compare(e, w, &t, "columns that hang on one element");
        free(memory);
    }
}

/* Columns of few rows whose sum is midway between two numbers of their own type, but for one element far below. */
static void check_midway_columns(rk_engine *e, waker *w, int op, int dtype)
{
    enum { ROWS = 8, COLUMNS = 203 };
    const size_t bytes = rp_dtype_size(dtype);
    const int digits = dtype == RP_F64 ? 53 : dtype == RP_F32 ? 24 : dtype == RP_F16 ? 11 : 8;
    const double ulp = ldexp(1, 1 - digits), least = dtype == RP_F16 ? 0x1p-24 : ldexp(1, -2 * digits - 20);
    char *memory = malloc(ROWS * COLUMNS * bytes);
    for (uint64_t rows = 3; rows <= ROWS; rows++)
        for (uint64_t row_len = COLUMNS - 3; row_len <= COLUMNS; row_len += 3) { /* whole vectors, or not */
            for (uint64_t i = 0; i < rows * row_len; i++) {
                const double of_row[] = {1 + (double)(rng() % 4) * ulp, rng() % 2 ? ulp / 2 : -ulp / 4,
                                         rng() % 2 ? least : -least};
                const double x = i / row_len < 3 ? of_row[i / row_len] : 0;
                uint64_t bits;
                memcpy(&bits, &x, sizeof bits);
                put(memory + i * bytes, rk_convert_float(RP_F64, bits, dtype), bytes);
            }
            rk_task t = task_of(op, dtype, 0, RP_COLUMNS, rows, row_len, memory);
            t.spec.out = (uint8_t)dtype;
            compare(e, w, &t, "columns midway between two numbers");
        }
    free(memory);
}

/* f64 whose sum is finite, though sums of some of them are not: in the order in which the lanes of a warp join. */
static void check_overflow(rk_engine *e, waker *w, int op)
{
    static const double of_lane[32] = {[0] = 0x1p1023,    [8] = 0x1p1023,    [16] = 0x1p1023, [24] = 0x1p1023,
                                       [4] = -0x1.8p1023, [2] = -0x1.8p1023, [1] = -0x1p1023, [3] = 1};
    for (int i = 0; i < 8; i++) {
        double memory[2000] = {0};
        const uint64_t n = i < 4 ? 64 : sizeof memory / sizeof *memory;
        for (int k = 0; k < 32; k++) /* the sum of their magnitudes, over n, is finite, too */
            memory[k << i % 2] = op == RP_OP_MEAN ? fabs(of_lane[k]) : of_lane[k];
        rk_task t = task_of(op, RP_F64, 0, i / 2 % 2 ? RP_STATES_OUT : 0, 1, n, memory);
        compare(e, w, &t, "f64 that overflow on the way");
    }
}

static void check_type(rk_engine *e, waker *w, int op, int dtype, amount quick)
{
    static const uint64_t sizes[] = {0, 1, 2, 3, 7, 31, 32, 33, 1000, 4095, 4096, 4097, 65537, 262144 + 13};
    static const uint64_t shapes[][2] = {{3, 0},   {2, 1},   {1000, 1}, {64, 63},   {100, 64}, {33, 1000}, {99, 2},
                                         {300, 4}, {70, 32}, {50, 516}, {40, 1024}, {40, 65},  {5, 20001}, {70000, 2}};
    size_t bytes = rp_dtype_size(dtype), most = MOST, room = (most * bytes + SPARE + 4095) / 4096 * 4096;
    int is_float = rp_dtype_class(dtype) == RP_CLASS_FLOAT;
    char *memory = aligned_alloc(4096, room);
    bool pinned = dtype % 2 && rk_pin(e, memory, room);
    if (dtype % 2 && !pinned) {
        printf("FAIL %zu bytes cannot be pinned\n", room);
        failed++;
    }
    for (int k = 0; k < KINDS; k++) {
        if (quick == TINY && k != UNIFORM && k != SPECIALS)
            continue;
        uint64_t top = quick == FULL ? 14 : quick == QUICK ? 9 : 13;
        for (uint64_t i = quick == TINY ? 11 : 0; i < top; i++) {
            uint64_t n = sizes[i];
            char *data = memory + (i % 3) * bytes; /* off any 16-byte boundary at times */
            if (soon(2 * 3 * 2))
                fill(data, dtype, (kind)k, n);
            for (int nan = 0; nan < (is_float ? 3 : 1); nan++)
                for (uint32_t flags = 0; flags <= RP_STATES_OUT; flags += RP_STATES_OUT) {
                    rk_task t = task_of(op, dtype, nan, flags, 1, n, data);
                    compare(e, w, &t, kind_names[k]);
                }
        }
        fill(memory, dtype, (kind)k, soon(2 * 6 * sizeof shapes / sizeof shapes[0]) ? most < 262144 ? most : 262144 : 20000);
        for (size_t i = 0; i < (quick == FULL ? sizeof shapes / sizeof shapes[0] : quick == QUICK ? 11 : 2); i++)
            for (int nan = 0; nan < (is_float ? 3 : 1); nan++)
                for (uint32_t flags = 0; flags <= RP_STATES_OUT; flags += RP_STATES_OUT) {
                    if (shapes[i][0] * (flags ? RP_MAX_STATE : 96) > RP_MAX_DATA)
                        continue;
                    rk_task t = task_of(op, dtype, nan, flags, shapes[i][0], shapes[i][1], memory);
                    compare(e, w, &t, kind_names[k]);
                }
        for (int nan = 0; nan < (is_float ? 3 : 1); nan++) {
            compare_states(e, w, op, dtype, nan, memory, 5000, 8, kind_names[k]);
            if (quick != TINY)
                compare_states(e, w, op, dtype, nan, memory, 20000, 3001, kind_names[k]);
        }
        for (int nan = 0; nan < (is_float ? 3 : 1); nan++) {
            compare_shapes(e, w, op, dtype, nan, memory, k, quick);
            fill(memory, dtype, (kind)k, 20000); /* what the shapes' own layout overwrote */
        }
    }
    for (int out = RP_I8; quick != TINY && out <= RP_F64; out++) { /* rounding to each type */
        rp_spec spec = {.op = (uint8_t)op, .dtype = (uint8_t)dtype, .out = (uint8_t)out, .rows = 32, .row_len = 128};
        if (rp_spec_check(&spec, NULL) != RP_OK)
            continue;
        fill(memory, dtype, out % 2 ? ANY_BITS : UNIFORM, 4096);
        rk_task t = task_of(op, dtype, RP_NAN_OMIT, 0, 32, 128, memory);
        t.spec.out = (uint8_t)out;
        if (op == RP_OP_VAR || op == RP_OP_STD)
            t.spec.ddof = (uint32_t)(out % 3);
        compare(e, w, &t, "reply types");
    }
    if (op == RP_OP_PROD && !is_float) {
        fill(memory, dtype, ANY_BITS, 4096);
        rk_task t = task_of(op, dtype, 0, RP_WRAP, 32, 128, memory);
        compare(e, w, &t, "wrap");
    }
    if (!quick) { /* larger than a slot: rows, and one long row */
        fill(memory, dtype, UNIFORM, most);
        rk_task t = task_of(op, dtype, 0, 0, 1, most, memory);
        compare(e, w, &t, "long row in parts");
        t = task_of(op, dtype, 0, 0, 2, most / 2, memory);
        compare(e, w, &t, "two long rows in parts");
        t = task_of(op, dtype, 0, 0, 1024, most / 1024, memory);
        compare(e, w, &t, "rows in parts");
    }
    if (pinned)
        rk_unpin(e, memory);
    free(memory);
}

/* ---- order statistics ---- */

/* A random decimal from 0 to 1, of a few digits or many. */
static rp_value share(void)
{
    switch (rng() % 4) {
    case 0:
        return (rp_value){.i64 = (int64_t)(rng() % 101), .exponent = -2};
    case 1:
        return (rp_value){.i64 = (int64_t)(rng() % 9), .exponent = rng() % 2 ? -40 : -1};
    case 2:
        return (rp_value){.i64 = (int64_t)(rng() % 1000000000000000000), .exponent = -18};
    default:
        return (rp_value){.i64 = (int64_t)(rng() >> 1), .exponent = -19 - (int64_t)(rng() % 4)};
    }
}

/* An edge at an element of the data, or anywhere; integers have some beside them, too. */
static double edge_of(int dtype, const char *data, uint64_t n)
{
    const size_t bytes = rp_dtype_size(dtype);
    uint64_t bits = 0;
    double at;
    if (n)
        memcpy(&bits, data + rng() % n * bytes, bytes);
    if (rp_dtype_class(dtype) == RP_CLASS_FLOAT) {
        bits = rk_is_nan(dtype, bits) ? 0 : rk_convert_float(dtype, bits, RP_F64);
        memcpy(&at, &bits, sizeof at);
    } else {
        at = rk_is_signed(dtype) ? (double)(int64_t)rk_sign_extend(bits, (int)bytes) : (double)bits;
    }
    switch (rng() % 8) {
    case 0:
        return at + (double)(rng() % 5) / 2 - 1;
    case 1:
        return nextafter(at, rng() % 2 ? INFINITY : -INFINITY);
    case 2:
        return rng() % 4 ? 0 : rng() % 2 ? INFINITY : -INFINITY;
    default:
        return at;
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Edges at random, or at equal distances, of few or many bins. */
static void ask_edges(rp_spec *s, const char *data, uint64_t n)
{
    static double edges[RP_MAX_EDGES];
    const uint64_t most = RP_MAX_DATA / 16 / rp_results(s) < RP_MAX_EDGES ? RP_MAX_DATA / 16 / rp_results(s) : RP_MAX_EDGES;
    const uint64_t some = 2 + rng() % (rng() % 8 ? 120 : rng() % 4 ? 5000 : RP_MAX_EDGES - 1);
    s->n_edges = (uint32_t)(some < most ? some : most);
    s->edges = (const uint8_t *)edges;
    double low = edge_of(s->dtype, data, n), high = edge_of(s->dtype, data, n);
    if (low > high) {
        const double other = low;
        low = high;
        high = other;
    }
    const bool equal = rng() % 2 && isfinite(high - low);
    for (uint32_t i = 0; i < s->n_edges; i++)
        edges[i] = equal ? low + i * ((high - low) / (s->n_edges - 1)) : edge_of(s->dtype, data, n);
    qsort(edges, s->n_edges, sizeof *edges, by_value);
}

static int by_key(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Edges of an engine's own task, in place of the others: keys, digits of ranges that mostly begin at an element. */
static void ask_bounds(rk_task *t, const char *data, uint64_t n)
{
    static uint64_t bounds[RP_MAX_EDGES];
    const size_t size = rp_dtype_size(t->spec.dtype);
    const rk_keys keys = rk_keys_of(t->spec.dtype);
    const uint64_t most = t->spec.n_edges;
    uint64_t some = 0, once = 0;
    for (int ranges = 1 + (int)(rng() % 3); ranges; ranges--) {
        uint64_t bits = 0, shift = rng() % (8 * size);
        memcpy(&bits, data + rng() % n * size, size);
        const uint64_t key = rk_key_of(&keys, size, bits), low = rng() % 4 ? key : rng() % (keys.most / 2);
        for (uint64_t d = 0; d < 2049 && some < most && low <= keys.most && d <= (keys.most - low) >> shift; d++)
            bounds[some++] = low + (d << shift);
    }
    qsort(bounds, some, sizeof *bounds, by_key);
    for (uint64_t i = 0; i < some; i++)
        if (!i || bounds[i] != bounds[i - 1])
            bounds[once++] = bounds[i];
    if (once < 2)
        return;
    t->bounds = bounds;
    t->spec.n_edges = (uint32_t)once;
}

/* What is asked of lines of n elements: mostly what they have. */
static void ask_order(rp_spec *s, uint64_t n)
{
    static uint8_t q[16 * RP_MAX_QUANTILES];
    uint8_t *to = q;
    if (s->op == RP_OP_KTH)
        s->k = (int64_t)(rng() % (n + 1 + n / 16)) - (rng() % 2 ? (int64_t)n : 0);
    if (rp_is_top(s->op)) {
        const uint64_t most = RP_MAX_TOP / (rp_results(s) ? rp_results(s) : 1), some = 1 + rng() % (rng() % 4 ? 20 : n + 3);
        s->k = (int64_t)(some < most ? some : most);
        s->index_base = rng() % 1000;
    }
    if (s->op == RP_OP_HISTOGRAM)
        s->n_edges = 2;
    if (s->op != RP_OP_QUANTILE)
        return;
    s->method = (uint8_t)(rng() % RP_METHOD_END);
    s->quantiles = (uint8_t)(rng() % 32 ? 1 + rng() % 6 : 1 + rng() % RP_MAX_QUANTILES);
    s->q = q;
    for (int i = 0; i < s->quantiles; i++) {
        const rp_value v = share();
        to += rp_put_value(to, RP_FORM_DECIMAL, &v);
    }
}

static void compare_order(rk_engine *e, waker *w, int op, int dtype, uint32_t flags, const uint64_t size[3], char *memory,
                          kind k)
{
    static const uint8_t outs[] = {RP_F64, RP_F32, RP_F16, RP_BF16, RP_I64, RP_U64};
    const int is_float = rp_dtype_class(dtype) == RP_CLASS_FLOAT;
    rk_task t = {.spec = {.op = (uint8_t)op,
                          .dtype = (uint8_t)dtype,
                          .nan = (uint8_t)(is_float ? rng() % 3 : 0),
                          .flags = flags,
                          .rows = size[0],
                          .row_len = size[1],
                          .planes = size[2]},
                 .data = memory};
    ask_order(&t.spec, flags & RP_COLUMNS ? size[0] : size[1] * (size[2] ? size[2] : 1));
    rk_task other = t;
    other.spec.out = outs[rng() % 6];
    t = rng() % 2 && rp_spec_check(&other.spec, NULL) == RP_OK ? other : t;
    measure(&t);
    lay_out(&t, memory, k, false);
    if (op == RP_OP_HISTOGRAM) {
        ask_edges(&t.spec, memory, rp_elements(&t.spec));
        if (rng() % 2 && t.bytes && t.spec.dtype != RP_BOOL)
            ask_bounds(&t, memory, rp_elements(&t.spec));
        measure(&t);
    }
    compare_once(e, w, &t, kind_names[k]);
}

/* Order statistics in every shape that the device takes: lines that stay in registers of a warp or of a block, longer
 * ones, gathered ones. */
static void check_order(rk_engine *e, waker *w, int op, int dtype, amount quick)
{
    static const struct {
        uint32_t flags;
        uint64_t size[3];
    } shapes[] = {{0, {1, 1, 0}},
                  {0, {1, 1000, 0}},
                  {0, {90, 7, 0}},
                  {0, {5, 1025, 0}},
                  {RP_COLUMNS, {99, 30, 0}},
                  {0, {1, 40001, 0}},
                  {RP_MASK, {50, 130, 0}},
                  {RP_COLUMNS, {40, 33, 3}},
                  {0, {13, 100, 5}},
                  {0, {3, 0, 0}},
                  {0, {1, 2, 0}},
                  {RP_COLUMNS | RP_MASK, {17, 40, 2}},
                  {RP_MASK, {5, 31, 7}},
                  {0, {1, 70003, 0}},
                  {0, {3, 33000, 0}},
                  {RP_MASK, {1, 50000, 0}},
                  {RP_COLUMNS, {35000, 3, 0}},
                  {0, {1, 262144 + 13, 0}},
                  {0, {2000, 64, 0}},
                  {0, {100, 2500, 0}},
                  {RP_COLUMNS, {1, 5, 0}},
                  {0, {16, 16384, 0}}};
    const size_t count = sizeof shapes / sizeof shapes[0];
    char *memory = malloc(270000 * (rp_dtype_size(dtype) + 1));
    for (int k = 0; k < KINDS; k++)
        for (size_t i = 0; i < (quick == FULL ? count : quick == QUICK ? 15 : 5); i++)
            for (int again = 0; again < (quick == FULL ? 4 : 2); again++)
                compare_order(e, w, op, dtype, shapes[i].flags, shapes[i].size, memory, (kind)k);
    free(memory);
}

/* A line whose k best the sample of the device (pass/select_keys.cuh) tells wrongly: where it looks, all elements are worse
 * than elsewhere, or better. */
static void check_hidden(rk_engine *e, waker *w, int op, int dtype)
{
    enum { N = 70001, PLACES = 4096 * 8 };
    const size_t bytes = rp_dtype_size(dtype);
    const bool is_float = rp_dtype_class(dtype) == RP_CLASS_FLOAT;
    char *memory = malloc(N * bytes);
    for (int round = 0; round < 4; round++) { /* a bit: better, many ties */
        const bool high = (round & 1) == (op == RP_OP_LARGEST);
        for (uint64_t i = 0; i < N; i++) {
            uint64_t bits = round & 2 ? 3 : rng() % 60;
            put(memory + i * bytes, high ? bits : bits + 64, bytes);
        }
        for (uint64_t i = 0; i < PLACES; i++) {
            uint64_t mixed = (i + 1) * 0x9e3779b97f4a7c15u, at = (uint64_t)N / PLACES * i + (uint64_t)N % PLACES * i / PLACES;
            mixed = (mixed ^ mixed >> 31) * 0xbf58476d1ce4e5b9u;
            at += (uint64_t)((unsigned __int128)(mixed ^ mixed >> 29) * (N / PLACES) >> 64);
            put(memory + at * bytes, (high ? 64 : 0) + rng() % 60, bytes);
        }
        for (int nans = 0; nans < (is_float ? 2 : 1); nans++) {
            if (nans)
                for (uint64_t i = 5; i < N; i += N / 30)
                    put(memory + i * bytes, UINT64_MAX >> (65 - 8 * bytes), bytes);
            rk_task t = {.spec = {.op = (uint8_t)op, .dtype = (uint8_t)dtype, .rows = 1, .row_len = N, .k = 1638},
                         .data = memory};
            measure(&t);
            compare_once(e, w, &t, "hidden from samples");
        }
    }
    free(memory);
}

/* ---- pairs ---- */

/* Elements with weights: what a comparison chooses. */
typedef struct {
    int op, dtype, weights, nan;
    rp_extent extent;
    uint32_t flags;
    uint64_t size[3]; /* rows, row_len, planes */
} pair_case;

static rk_task pair_task(const pair_case *p, uint32_t flags)
{
    rk_task t = {.spec = {.op = (uint8_t)p->op,
                          .dtype = (uint8_t)p->dtype,
                          .nan = (uint8_t)p->nan,
                          .flags = p->flags | flags | RP_WEIGHTS,
                          .rows = p->size[0],
                          .row_len = p->size[1],
                          .planes = p->size[2],
                          .weights = (uint8_t)p->weights,
                          .weights_extent = (uint8_t)p->extent,
                          .ddof = p->op == RP_OP_COV ? (uint8_t)(rng() % 3) : 0,
                          .zero_drops = p->op != RP_OP_DOT && !rp_is_comoments(p->op) && rng() % 3 == 0}};
    measure(&t);
    return t;
}

/* Bytes to the memory on the device, `odd` of them behind an aligned address. Returns where they are. */
static const uint8_t *fill_part(rk_engine *e, waker *w, const void *data, size_t bytes, uint64_t odd, uint64_t *offset)
{
    const rk_task t = {.data = data, .bytes = bytes};
    const uint64_t at = (*offset + 7) / 8 * 8 + 8 * (rng() % 3) + odd; /* aligned to 16 bytes or not */
    fill_memory(e, w, &t, at);
    *offset = at + bytes;
    return rk_memory_at(device, at);
}

/* The same as `c`, of memory on the device. */
static void expect_near(rk_engine *e, waker *w, const rk_task *c, const rk_task *t, const char *what)
{
    const rp_spec *s = &t->spec;
    const rp_parts parts = rp_spec_parts(s, t->data, NULL);
    uint64_t end = 0;
    rp_parts beside = {
        .weights = fill_part(e, w, parts.weights, rp_role_bytes(s, RP_ROLE_WEIGHTS), rng() % 4 ? 0 : rng() % 8, &end)};
    rk_task g = *t;
    g.bytes = rp_elements(s) * rp_dtype_size(s->dtype);
    beside.mask = s->flags & RP_MASK ? fill_part(e, w, parts.mask, rp_elements(s), 0, &end) : NULL;
    g.offset = (uint64_t)(fill_part(e, w, parts.elements, g.bytes, 0, &end) - rk_memory_at(device, 0));
    g.memory = device;
    g.data = NULL;
    g.beside = &beside;
    expect_same(e, w, c, g, what);
}

/* With the data at hand; and on the device, unless segments are, which come from the host. */
static void compare_pairs(rk_engine *e, waker *w, const rk_task *t, const char *what)
{
    if (compared++ % every)
        return;
    rk_task c = *t;
    c.cells = calloc(1, rp_results(&t->spec) * rp_cell_size(&t->spec));
    rk_cpu_run(&c);
    if (t->bytes <= RP_MAX_DATA) /* else the CPU would be compared with itself */
        expect_same(e, w, &c, *t, what);
    if (!(t->spec.flags & RP_OFFSETS))
        expect_near(e, w, &c, t, what);
    free(c.cells);
}

/* Some kinds of data for one operand. */
static void fill_operand(void *data, int dtype, kind k, uint64_t n)
{
    if (k < KINDS)
        fill(data, dtype, k, n);
    else
        for (uint64_t i = 0; i < n; i++)
            put((char *)data + i * rp_dtype_size(dtype), whole_bits(dtype, (whole_kind)(k - KINDS), i, n),
                rp_dtype_size(dtype));
}

/* One case in `memory`, with values of any type that the operation has, or states. */
static void check_pair_case(rk_engine *e, waker *w, const pair_case *p, kind of_x, kind of_w, char *memory)
{
    static const uint8_t outs[] = {RP_F64, RP_F64, RP_F32, RP_F16, RP_BF16, RP_I64, RP_U64, RP_U8};
    const bool few = p->size[0] < 1900; /* states of corr, 2,168 bytes each, fit a reply of 4 MiB */
    rk_task t = pair_task(p, rng() % 4 == 0 && few ? RP_STATES_OUT : 0);
    if (!soon(1)) {
        compared++;
        return;
    }
    t.data = memory;
    if (p->flags & RP_OFFSETS)
        lay_out(&t, memory, UNIFORM, false);
    const rp_parts parts = rp_spec_parts(&t.spec, t.data, NULL);
    const uint64_t n = rp_elements(&t.spec), beside = rp_role_bytes(&t.spec, RP_ROLE_WEIGHTS) / rp_dtype_size(p->weights);
    fill_operand((char *)parts.elements, p->dtype, of_x, n);
    fill_operand((char *)parts.weights, p->weights, of_w, beside);
    if (rp_is_comoments(p->op) && p->dtype == p->weights && beside == n && rng() % 4 == 0) /* a correlation of 1 */
        memcpy((char *)parts.weights, parts.elements, n * rp_dtype_size(p->dtype));
    for (uint64_t i = 0; i < n && parts.mask; i++)
        ((char *)parts.mask)[i] = rng() % 3 ? (char)(rng() | 1) : 0;
    rk_task other = t;
    other.spec.out = outs[rng() % sizeof outs];
    if (!(t.spec.flags & RP_STATES_OUT) && rp_spec_check(&other.spec, NULL) == RP_OK)
        t = other;
    compare_pairs(e, w, &t, of_x < KINDS ? kind_names[of_x] : "pairs of whole arrays");
}

/* States of parts of an array join to its value. */
static void check_pair_states(rk_engine *e, waker *w, pair_case p, char *memory)
{
    enum { PIECES = 12, EACH = 50 };
    const int dtype = p.dtype == RP_F32 && p.weights == RP_F64 ? RP_F64 : p.dtype;
    const size_t size = rp_state_size(rp_state_layout(p.op, dtype));
    char *states = malloc(PIECES * size);
    p.size[1] = EACH;
    for (int k = 0; k < KINDS; k++) {
        for (size_t i = 0; i < PIECES; i++) {
            rk_task t = pair_task(&p, RP_STATES_OUT);
            const size_t x = EACH * rp_dtype_size(p.dtype);
            t.data = memory;
            t.cells = states + i * size;
            fill(memory, p.dtype, (kind)k, EACH);
            fill(memory + x, p.weights, UNIFORM, EACH);
            rk_cpu_run(&t);
        }
        rk_task join = task_of(p.op, dtype, p.nan, RP_STATES_IN, 1, PIECES, states);
        compare(e, w, &join, kind_names[k]);
        join = task_of(p.op, dtype, p.nan, RP_STATES_IN | RP_STATES_OUT, 3, PIECES / 3, states);
        compare(e, w, &join, kind_names[k]);
    }
    free(states);
}

static void check_pairs(rk_engine *e, waker *w, int op, int dtype, int weights, amount quick)
{
    static const struct {
        uint32_t flags;
        uint64_t size[3];
    } shapes[] = {{0, {1, 1000, 0}},
                  {RP_MASK, {1, 777, 0}},
                  {0, {40, 33, 0}},
                  {RP_COLUMNS, {99, 30, 0}},
                  {0, {1, 65539, 0}},
                  {RP_OFFSETS, {40, 3000, 0}},
                  {RP_COLUMNS | RP_MASK, {17, 40, 2}},
                  {0, {13, 20, 5}}, /* rows in runs */
                  {RP_MASK, {5, 31, 7}},
                  {0, {3, 5000, 0}},
                  {0, {1, 0, 0}},
                  {RP_OFFSETS | RP_MASK, {7, 4000, 0}},
                  {RP_MASK, {40, 1024, 0}},
                  {0, {2100, 48, 0}},
                  {0, {1, 13, 70}},
                  {RP_COLUMNS, {300, 64, 3}},
                  {RP_MASK, {1, 100003, 0}},
                  {0, {33, 9000, 0}},
                  {RP_COLUMNS, {5000, 3, 0}},
                  {0, {7, 1, 30}},
                  {0, {700, 100, 0}},
                  {0, {1, 262144 + 13, 0}},
                  {RP_COLUMNS, {1, 50, 0}},
                  {0, {MANY_ROWS, FEW_ELEMENTS, 0}}}; /* enough to fill a GPU, four together */
    const size_t count = sizeof shapes / sizeof shapes[0], most = quick == FULL ? count : quick == QUICK ? 18 : 5;
    const int floats = rp_dtype_class(dtype) == RP_CLASS_FLOAT, kinds = floats ? KINDS + WHOLE_KINDS : KINDS;
    char *memory = malloc(PAIR_BYTES);
    for (size_t i = 0; i < most; i++)
        for (int k = 0; k < (i == count - 1 ? 4 : quick == FULL ? 2 * kinds : kinds); k++) {
            const bool segments = shapes[i].flags & RP_OFFSETS;
            pair_case p = {op,
                           dtype,
                           weights,
                           floats ? (int)(rng() % 3) : 0,
                           i == count - 1          ? RP_EXTENT_ROW
                           : segments || rng() % 2 ? RP_EXTENT_ELEMENTS
                           : rng() % 2             ? RP_EXTENT_ROW
                                                   : RP_EXTENT_COLUMN,
                           shapes[i].flags,
                           {shapes[i].size[0], shapes[i].size[1], shapes[i].size[2]}};
            const kind of_x = (kind)(k % kinds), of_w = rng() % 2 ? of_x : (kind)(rng() % (uint64_t)kinds);
            check_pair_case(e, w, &p, of_x, of_w, memory);
        }
    pair_case p = {op, dtype, weights, 0, RP_EXTENT_ELEMENTS, 0, {1, 0, 0}};
    for (p.nan = 0; p.nan < (floats ? 3 : 1); p.nan++)
        check_pair_states(e, w, p, memory);
    free(memory);
}

/* Rows that fill the device many times over, because some code depends on lengths that other tests do not reach. The fast way
 * works for the data of every block, of none, or of all but one, which detects it late. */
static void check_huge(rk_engine *e, waker *w, int op, int dtype)
{
    const size_t bytes = rp_dtype_size(dtype);
    const uint64_t lengths[] = {(1 << 18) + 1, (1 << 22) + 3, (1 << 24) + 5, HUGE_BYTES / bytes};
    char *memory = malloc(HUGE_BYTES);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int k = 0; k < 3; k++) {
            const uint64_t n = lengths[i];
            fill(memory, dtype, k == 1 ? ANY_BITS : UNIFORM, n);
            if (k == 2)
                fill(memory + n / 7 * 6 * bytes, dtype, SUBNORMAL, 1);
            rk_task t = task_of(op, dtype, RP_NAN_OMIT, 0, 1, n, memory), on_device = t;
            t.cells = calloc(1, rp_cell_size(&t.spec));
            rk_cpu_run(&t);
            fill_memory(e, w, &t, 0);
            on_device.memory = device;
            on_device.data = NULL;
            expect_same(e, w, &t, on_device, k == 1 ? "any bits" : k == 2 ? "one far below" : "uniform");
            free(t.cells);
        }
    free(memory);
}

/* Handles that no driver made are refused without harm to the device, as all later checks show. */
static void check_handles(rk_engine *e)
{
    uint8_t handle[RP_DEVICE_HANDLE] = {0};
    rk_memory *m;
    rp_fault f;
    for (int i = 0; i < 20; i++) {
        rp_err err = rk_memory_open(e, handle, NULL, &m, &f);
        passed += err == RP_BAD_HANDLE;
        failed += err != RP_BAD_HANDLE;
        if (err != RP_BAD_HANDLE)
            printf("FAIL a made-up handle gives %s: %s\n", rp_err_name(err), err == RP_OK ? "" : f.text);
        for (size_t k = 0; k < sizeof handle; k++)
            handle[k] = (uint8_t)rng();
    }
}

/* Memory of the device goes to the host and back whole, as for data that outlive the daemon. */
static void check_copies(rk_engine *e)
{
    enum { BYTES = (3 << 20) + 5 };
    static uint8_t there[BYTES], back[BYTES];
    rk_memory *m = NULL;
    rp_fault f;
    for (size_t i = 0; i < BYTES; i++)
        there[i] = (uint8_t)rng();
    bool right = rk_memory_new(e, RK_PLACE_ANY, BYTES, &m, &f) == RP_OK && rk_memory_write(m, there, &f) == RP_OK &&
                 rk_memory_read(m, back, &f) == RP_OK && memcmp(there, back, BYTES) == 0;
    passed += right;
    failed += !right;
    if (!right)
        printf("FAIL copies to the device and back\n");
    rk_memory_close(e, m);
}

/* A second engine beside the first one keeps to its share of each device's memory: room for two slots and a half. */
static void check_share(const rk_options *given, const rk_stats *all)
{
    uint64_t slot = all->device_cap / all->slots;
    rk_options o = *given;
    rk_engine *e = NULL;
    rk_stats s = {0};
    o.device_bytes = slot - 1;
    bool right = rk_open(&e, &o, NULL, 0) == RP_NO_MEMORY;
    o.device_bytes = slot * 5 / 2;
    right = right && rk_open(&e, &o, NULL, 0) == RP_OK;
    if (right) {
        rk_get_stats(e, &s);
        right = s.slots == 2 * s.devices && s.device_cap == s.slots * slot && s.resident_cap <= s.devices * (slot / 2) &&
                s.device_bytes <= s.device_cap;
        rk_close(e);
    }
    *(right ? &passed : &failed) += 1;
    if (!right)
        printf("a share of %" PRIu64 " bytes: %" PRIu64 " slots, %" PRIu64 " bytes, %" PRIu64 " resident\n", o.device_bytes,
               s.slots, s.device_cap, s.resident_cap);
}

/* ---- by key ---- */

enum { KEYED_MOST = 40000 };

/* Keys of groups, some of them outside: drawn, sorted, or mostly the same. */
static void draw_keys(uint8_t *keys, int dtype, uint64_t n, uint64_t groups, unsigned order, bool outside)
{
    const size_t size = rp_dtype_size(dtype);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t drawn = rng() % groups, key = order == 0   ? drawn
                                                     : order == 1 ? i * groups / n
                                                     : rng() % 10 ? groups / 2
                                                                  : drawn;
        put(keys + i * size, outside && rng() % 50 == 0 ? rng() : key, size);
    }
}

/* Elements, mask and keys beside each other, in memory of the host and of the device. */
static void compare_keyed(rk_engine *e, waker *w, rp_spec s, kind k, unsigned order, const char *what)
{
    const uint64_t n = s.row_len;
    const size_t size = rp_dtype_size(s.dtype), masks = n * size, odd = rng() % 2, keys = masks + (n + 7) / 8 * 8 + odd;
    rp_fault f;
    if (compared++ % every)
        return;
    if (rp_spec_check_large(&s, &f) != RP_OK) {
        printf("FAIL the test's own spec: %s\n", f.text);
        exit(1);
    }
    uint8_t *data = calloc(1, keys + n * 8 + 8);
    fill(data, s.dtype, k, n);
    for (uint64_t i = 0; i < n; i++)
        data[masks + i] = (uint8_t)(rng() % 4);
    draw_keys(data + keys, s.keys, n, s.rows, order, s.flags & RP_DROP_OUTSIDE || rng() % 8 == 0);
    const rp_parts host = {.mask = data + masks, .keys = data + keys};
    rk_task all = {.data = data, .bytes = keys + n * rp_dtype_size(s.keys)},
            c = {.spec = s, .data = data, .bytes = n * size, .beside = &host, .cells = calloc(s.rows, rp_cell_size(&s))};
    rk_cpu_run(&c);
    fill_memory(e, w, &all, 0);
    const rp_parts there = {.mask = rk_memory_at(device, masks), .keys = rk_memory_at(device, keys)};
    rk_task g = c;
    g.data = NULL;
    g.memory = device;
    g.beside = &there;
    expect_same(e, w, &c, g, what);
    free(c.cells);
    free(data);
}

/* Operations by key that have kernels: those of elements and keys on the device. */
static void check_keyed(rk_engine *e, waker *w, int op, int dtype, amount quick)
{
    static const uint64_t groups[] = {1, 3, 129, 5000, KEYED_MOST};
    static const uint8_t types[] = {RP_U8, RP_I16, RP_I32, RP_U64, RP_I64, RP_U32};
    const rp_spec layout = {.op = (uint8_t)op, .dtype = (uint8_t)dtype};
    const bool spread = op == RP_OP_VAR || op == RP_OP_STD || op == RP_OP_SEM || op == RP_OP_STATS;
    const bool squares = rk_square_limbs(rp_spec_layout(&layout)) && !rp_is_paired(op);
    const bool best = op == RP_OP_MIN || op == RP_OP_MAX || op == RP_OP_ARGMIN || op == RP_OP_ARGMAX;
    const bool states = squares || best || op == RP_OP_SUM || op == RP_OP_MEAN;
    if (rp_is_ranked(op) || (!states && op != RP_OP_COUNT))
        return;
    for (int turn = 0; turn < (quick == FULL ? 120 : quick == QUICK ? 24 : 6); turn++) {
        rp_spec s = {.op = (uint8_t)op, .dtype = (uint8_t)dtype, .index_base = 5, .flags = RP_KEYS};
        s.rows = groups[rng() % (quick == FULL ? 5 : 4)];
        s.row_len = turn % 5 == 4 ? rng() % 20 : rng() % (quick == FULL ? 300000 : 20000);
        s.keys = types[s.rows > 200 ? 1 + rng() % 5 : s.rows > 100 ? 1 + rng() % 4 : rng() % 6];
        s.nan = (uint8_t)(rk_is_float(dtype) ? rng() % 3 : 0);
        s.flags |= (rng() % 3 ? 0 : RP_MASK) | (rng() % 2 ? RP_DROP_OUTSIDE : 0) |
                   (states && rng() % 4 == 0 ? RP_STATES_OUT : 0);
        s.ddof = spread ? (uint32_t)(rng() % 3) : 0;
        if (!(s.flags & RP_STATES_OUT) && rng() % 4 == 0) {
            s.flags |= RP_INITIAL;
            fill((uint8_t *)&s.initial, dtype, (kind)(rng() % KINDS), 1);
        }
        compare_keyed(e, w, s, (kind)(rng() % KINDS), (unsigned)(rng() % 3), "by key");
    }
    if (dtype == RP_F32 && op == RP_OP_SUM && quick != TINY) { /* more cells than a reply has */
        const rp_spec s = {
            .op = RP_OP_SUM, .dtype = RP_F32, .rows = 530000, .row_len = 10000, .flags = RP_KEYS, .keys = RP_U32};
        compare_keyed(e, w, s, UNIFORM, 0, "by key, many groups");
    }
}

/* Other operations are the CPU's beside a device, too, and would be compared with themselves. */
static bool has_kernels(int op) { return op <= RP_OP_HISTOGRAM || rp_is_paired(op); }

/* Norms of which one element, far below the others, decides the rounding: their squares' sum is not a double, and without it
 * the norm is midway between two f32, or two bf16 and f16. In one block, in several, and in a row that all sum again. */
static void check_midway(rk_engine *e, waker *w, int op, int dtype, amount quick)
{
    const uint64_t lengths[] = {16, 5000, 300000, quick == FULL ? (PAIR_BYTES - SPARE) / rp_dtype_size((uint8_t)dtype) : 12001};
    /* m = 2^p + 1 has one bit more than the type; m^2 = 2^2p + 2 2^p + 1. The last: far below */
    const bool f16 = dtype == RP_F16;
    const int p = rk_format_of(dtype).precision;
    const double parts[] = {ldexp(1, p), ldexp(1, (p + f16) / 2), f16 ? 0 : ldexp(1, p / 2), 1, ldexp(1, f16 ? -24 : -40)};
    const size_t bytes = rp_dtype_size((uint8_t)dtype);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int hangs = 0; hangs < 2; hangs++) {
            char *memory = calloc(lengths[i] + 1, bytes), *data = memory + (i % 2 ? bytes : 0);
            for (uint64_t k = 0; k < 4 + (uint64_t)hangs; k++) {
                uint64_t bits;
                memcpy(&bits, &parts[k], sizeof bits);
                put(data + (rng() % (lengths[i] / 5) * 5 + k) * bytes, rk_convert_float(RP_F64, bits, dtype), bytes);
            }
            rk_task t = task_of(op, dtype, 0, 0, 1, lengths[i], data);
            for (int out = RP_F16; out <= RP_F64; out++) {
                t.spec.out = (uint8_t)out;
                if (rp_dtype_class(out) == RP_CLASS_FLOAT && rp_spec_check(&t.spec, NULL) == RP_OK)
                    compare_once(e, w, &t, "norms midway");
            }
            free(memory);
        }
}

/* Variances midway between two numbers of the type: c + m and c - m alike often, m^2 having one bit more than the type. And
 * near that, as some elements are on the other side; and of elements that are alike. */
static void check_spread(rk_engine *e, waker *w, int op, int dtype, amount quick)
{
    const size_t bytes = rp_dtype_size((uint8_t)dtype);
    const uint64_t lengths[] = {2, 5000, 12000, 25000, 450000, quick == FULL ? (PAIR_BYTES - SPARE) / bytes : 70000};
    const int p = rk_format_of(dtype).precision;
    const double m = p % 2 ? ldexp(1, (p + 1) / 2) - 1 : ldexp(1, p / 2) + 1;
    for (size_t i = 0; i < 4 * (sizeof lengths / sizeof *lengths); i++) {
        const uint64_t n = lengths[i / 4] / 2 * 2, how = i % 4; /* midway; not quite; with an offset; all alike */
        char *memory = malloc((n + 1) * bytes), *data = memory + (i / 4 % 2 ? bytes : 0);
        for (uint64_t j = 0; j < n; j++) {
            const bool low = how != 3 && j % 2 && !(how == 1 && j < 4);
            const double x = (how == 2 ? 2 * m : 0) + (low ? -m : m);
            uint64_t bits;
            memcpy(&bits, &x, sizeof bits);
            put(data + j * bytes, rk_convert_float(RP_F64, bits, dtype), bytes);
        }
        rk_task t = task_of(op, dtype, 0, 0, 1, n, data);
        for (int out = RP_F16; out <= RP_F64; out++) {
            t.spec.out = (uint8_t)out;
            if (rp_dtype_class(out) == RP_CLASS_FLOAT && rp_spec_check(&t.spec, NULL) == RP_OK)
                compare_once(e, w, &t, "variances midway");
        }
        free(memory);
    }
}

/* Elements near the least number, whose squares are too small for doubles of f64: alone, and with larger ones. */
static void check_tiny(rk_engine *e, waker *w, int op, int dtype, amount quick)
{
    const uint64_t lengths[] = {2, 328, 5000, quick == TINY ? 4001 : 70000};
    const size_t bytes = rp_dtype_size(dtype);
    const shape s = float_shape(dtype);
    for (size_t i = 0; i < 2 * sizeof lengths / sizeof *lengths; i++) {
        const uint64_t n = lengths[i / 2];
        char *memory = malloc((n + 1) * bytes), *data = memory + (i % 4 == 3 ? bytes : 0);
        for (uint64_t j = 0; j < n; j++) {
            const uint64_t field = i % 2 && j % 7 == 0 ? rng() % 8 : 0;
            put(data + j * bytes, field << s.fraction | (rng() & (((uint64_t)1 << s.fraction) - 1)), bytes);
        }
        rk_task t = task_of(op, dtype, 0, 0, 1, n, data);
        compare_once(e, w, &t, "tiny numbers");
        free(memory);
    }
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    amount quick = FULL;
    uint64_t seed = 1;
    int only = 0;
    rk_sums sums = RK_SUMS_AUTO;
    bool huge = false, keyed = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            quick = QUICK;
        else if (strcmp(argv[i], "--tiny") == 0)
            quick = TINY;
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--every") == 0 && i + 1 < argc)
            every = strtoul(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = rp_op_parse(argv[++i]);
        else if (strcmp(argv[i], "--integers") == 0)
            sums = RK_SUMS_INTEGERS;
        else if (strcmp(argv[i], "--long") == 0)
            sums = RK_SUMS_LONG;
        else if (strcmp(argv[i], "--huge") == 0)
            huge = true;
        else if (strcmp(argv[i], "--keyed") == 0)
            keyed = true;
    }
    waker w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    rk_options o = {.backend = RP_BACKEND_CUDA, .slots = 3, .sums = sums, .wake = wake, .wake_arg = &w};
    char why[160];
    rk_engine *e;
    rp_err err = rk_open(&e, &o, why, sizeof why);
    printf("%s\n", why);
    if (err != RP_OK)
        return err == RP_TYPE ? 77 : 1;
    rp_fault f;
    if (rk_memory_new(e, RK_PLACE_ANY, huge ? HUGE_BYTES : PAIR_BYTES, &device, &f) != RP_OK) {
        printf("memory on the device: %s\n", f.text);
        return 1;
    }
    check_handles(e);
    check_copies(e);
    rng_state = seed;
    for (int op = RP_OP_SUM; op <= UINT8_MAX; op++) /* codes without an operation are refused */
        for (int dtype = RP_I8; dtype <= RP_DTYPE_COUNT; dtype++) {
            rp_spec spec = {.op = (uint8_t)op, .dtype = (uint8_t)dtype, .rows = 1};
            if ((only && op != only) || !has_kernels(op) || rp_spec_check(&spec, NULL) != RP_OK)
                continue;
            rng_state = seed * 1000003 + (uint64_t)(op * 16 + dtype);
            if (keyed) {
                check_keyed(e, &w, op, dtype, quick);
            } else if (rp_is_paired(op)) {
                check_pairs(e, &w, op, dtype, dtype, quick);
                if (dtype == RP_F32)
                    check_pairs(e, &w, op, dtype, RP_F64, quick);
            } else if (rp_is_ranked(op)) {
                check_order(e, &w, op, dtype, quick);
                if (rp_is_top(op) && dtype != RP_BOOL)
                    check_hidden(e, &w, op, dtype);
            } else if (!huge) {
                check_type(e, &w, op, dtype, quick);
                check_short(e, &w, op, dtype, quick);
                check_few(e, &w, op, dtype, quick);
                check_columns(e, &w, op, dtype, quick);
                check_keyed(e, &w, op, dtype, quick);
                if (dtype == RP_F32)
                    check_hanging(e, &w, op);
                if (dtype == RP_F64)
                    check_overflow(e, &w, op);
                if (rp_dtype_class(dtype) == RP_CLASS_FLOAT) {
                    check_whole(e, &w, op, dtype, quick);
                    check_tiny(e, &w, op, dtype, quick);
                    if (dtype != RP_F64)
                        check_midway(e, &w, op, dtype, quick);
                    check_rows(e, &w, op, dtype, quick);
                    if (op == RP_OP_SUM || op == RP_OP_MEAN)
                        check_midway_columns(e, &w, op, dtype);
                }
                if (rp_dtype_class(dtype) == RP_CLASS_FLOAT && (op == RP_OP_VAR || op == RP_OP_STD))
                    check_spread(e, &w, op, dtype, quick);
                if (dtype == RP_F32 || dtype == RP_F64)
                    check_far(e, &w, op, dtype, quick);
                if (op == RP_OP_PROD && rp_dtype_class(dtype) == RP_CLASS_FLOAT)
                    check_products(e, &w, dtype, quick);
            } else if (rp_dtype_class(dtype) == RP_CLASS_FLOAT) {
                check_huge(e, &w, op, dtype);
            }
        }
    rk_stats s;
    rk_get_stats(e, &s);
    printf("device bytes %" PRIu64 " of %" PRIu64 ", pinned %" PRIu64 " of %" PRIu64 "\n", s.device_bytes, s.device_cap,
           s.pinned_bytes, s.pinned_cap);
    check_share(&o, &s);
    rk_memory_close(e, device);
    rk_close(e);
    printf("check_engine: %lu passed, %lu failed (seed %" PRIu64 "%s)\n", passed, failed, seed,
           quick == QUICK  ? ", quick"
           : quick == TINY ? ", tiny"
                           : "");
    return failed != 0;
}
