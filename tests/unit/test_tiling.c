/* Cutting reductions into messages: for any shape and message size all tiles fit, and their results, level after level, equal
 * those of one message with all data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/tiling.h"
#include "kernels/kernels.h"
#include "tests/unit/oracle.h"

enum { ROUNDS = 5000, MOST_ELEMENTS = 6000 };

static rk_engine *engine;

static int open_engine(void **state)
{
    (void)state;
    rk_options o = {.backend = RP_BACKEND_CPU, .threads = 1, .small_bytes = 16 * RP_MAX_DATA};
    return (int)rk_open(&engine, &o, NULL, 0);
}

static int close_engine(void **state)
{
    (void)state;
    rk_close(engine);
    return 0;
}

/* What the daemon does with a message. */
static void reduce(const rp_spec *given, const uint8_t *data, size_t bytes, uint8_t *cells, size_t room)
{
    rp_fault f;
    rp_spec s = *given;
    assert_int_equal(rp_spec_check(&s, &f), RP_OK);
    assert_int_equal(rp_spec_match(&s, 0, bytes, &f), RP_OK);
    if (s.flags & RP_OFFSETS)
        assert_int_equal(rp_offsets_check(&s, rp_spec_parts(&s, data, NULL).offsets, &f), RP_OK);
    assert_true(rp_results(&s) * rp_cell_size(&s) <= room);
    rk_task t = {.spec = s, .data = data, .bytes = bytes, .cells = cells};
    assert_int_equal(rk_submit(engine, &t, RK_HERE), RK_FINISHED);
    assert_int_equal(t.fault.code, RP_OK);
}

/* All tiles of a planned level; returns how many. */
static unsigned run_level(rc_level *l, uint8_t *cells)
{
    rc_tile t;
    unsigned n = 0;
    for (; rc_next_tile(l, &t); n++) {
        size_t room = (size_t)(t.lines * l->cell);
        assert_true(t.bytes <= l->most && room <= RP_MAX_DATA && t.lines > 0);
        uint8_t *data = malloc((size_t)t.bytes + 1), *reply = malloc(room);
        data[t.bytes] = 0xa5;
        rc_fill_tile(l, &t, data);
        assert_int_equal(data[t.bytes], 0xa5);
        reduce(&t.spec, data, (size_t)t.bytes, reply, room);
        rc_place_cells(l, &t, reply, cells);
        free(data);
        free(reply);
    }
    return n;
}

/* Level after level; returns how many there were. */
static unsigned run_levels(const rc_level *whole, const rc_sizes *sizes, uint8_t *out)
{
    rc_level l = *whole;
    rp_spec finish = whole->spec;
    uint8_t *merging = NULL;
    finish.flags &= ~(uint32_t)(RP_COLUMNS | RP_KEYS | RP_DROP_OUTSIDE);
    for (unsigned levels = 1;; levels++) {
        rc_tiling(&l, sizes);
        bool last = l.blocks == 1;
        uint8_t *cells = last ? out : malloc((size_t)(l.lines * l.blocks * l.cell) + 1);
        unsigned tiles = run_level(&l, cells);
        assert_true(l.lines == 0 ? tiles == 0 : tiles > 0);
        free(merging);
        if (last)
            return levels;
        merging = cells;
        rc_next_level(&l, cells, &finish);
    }
}

/* Elements with keys go whole, or in blocks of which each gives states of all groups. */
static void keys_are_cut(void **state)
{
    enum { N = 3000, GROUPS = 5 };
    static double x[N];
    static uint16_t keys[N];
    static uint8_t mask[N];
    double one[GROUPS], many[GROUPS];
    const rc_sizes whole = {.most = RP_MAX_DATA, .chunk = RP_MAX_DATA}, cut = {.most = 4096, .chunk = 4096};
    rc_level l = {
        .spec =
            {.op = RP_OP_SUM, .dtype = RP_F64, .out = RP_F64, .rows = 1, .flags = RP_KEYS | RP_DROP_OUTSIDE, .keys = RP_U16},
        .elements = (const uint8_t *)x,
        .mask = mask,
        .beside = (const uint8_t *)keys,
        .item = 8,
        .lines = GROUPS,
        .len = N};
    t_rng r = {44};
    (void)state;
    for (int i = 0; i < N; i++) {
        x[i] = (double)t_next(&r) / (double)(1 + t_below(&r, 1000000));
        keys[i] = (uint16_t)t_below(&r, GROUPS + 1);
        mask[i] = (uint8_t)t_below(&r, 3);
    }
    assert_int_equal(run_levels(&l, &whole, (uint8_t *)one), 1);
    assert_int_equal(run_levels(&l, &cut, (uint8_t *)many), 2);
    assert_memory_equal(one, many, sizeof one);
    assert_true(one[0] != one[1]);
    l.len = 0;
    assert_int_equal(run_levels(&l, &whole, (uint8_t *)one), 1);
    assert_true(one[GROUPS - 1] == 0);
    /* the bounds: a reply, and the states of a message that is cut */
    l.len = N;
    l.lines = RP_MAX_DATA / 8;
    assert_true(rc_keys_fit(&l, N * 11));
    assert_false(rc_keys_fit(&l, N * 11 - 1));
    l.lines++;
    assert_false(rc_keys_fit(&l, N * 11));
    l.stays = true; /* results may go elsewhere */
    assert_true(rc_keys_fit(&l, N * 2));
    assert_false(rc_keys_fit(&l, N * 2 - 1));
    l.lines = RP_MAX_DATA / 16 / rp_state_size(rp_spec_layout(&l.spec));
    assert_true(rc_keys_fit(&l, 1));
    l.lines++;
    assert_false(rc_keys_fit(&l, 1));
}

/* ---- random reductions ---- */

typedef struct array {
    uint8_t bytes[8 * (MOST_ELEMENTS + 1) + 9 * MOST_ELEMENTS]; /* offsets, elements, mask, as in a message */
    uint64_t offsets, elements, mask;                           /* bytes of each */
} array;

static const int OPS[] = {RP_OP_SUM, RP_OP_ARGMIN, RP_OP_STATS, RP_OP_COUNT, RP_OP_MINMAX, RP_OP_VAR, RP_OP_XOR, RP_OP_PROD};
static const int DTYPES[] = {RP_I8, RP_U16, RP_I32, RP_F64, RP_F32};

static rp_spec random_spec(t_rng *r)
{
    rp_spec s = {.op = (uint8_t)OPS[t_below(r, 8)], .dtype = (uint8_t)DTYPES[t_below(r, 5)], .rows = 1};
    if (s.op == RP_OP_XOR && s.dtype >= RP_F16)
        s.dtype = RP_I32;
    s.index_base = t_below(r, 2) ? 1000 : 0;
    s.flags |= t_below(r, 3) ? 0 : RP_MASK;
    if (s.op == RP_OP_PROD && !t_is_float(s.dtype))
        s.flags |= RP_WRAP;
    uint64_t end = t_below(r, 4);
    if (end == 0) {
        s.flags |= RP_STATES_OUT;
    } else if (end == 1 || s.op == RP_OP_ARGMIN || s.op == RP_OP_MINMAX) { /* these need an element */
        s.flags |= RP_INITIAL;
        s.initial = t_below(r, 100);
    }
    return s;
}

/* Rows, columns or segments of some number of elements. */
static void random_shape(t_rng *r, rp_spec *s, array *a)
{
    uint64_t n = t_below(r, 4) ? t_below(r, 60) : 1 + t_below(r, 2000), kind = t_below(r, 3), at = t_below(r, 5);
    memset(a, 0, sizeof *a);
    s->rows = 1 + n;
    s->row_len = t_below(r, MOST_ELEMENTS / s->rows);
    if (kind <= 1) {
        s->flags |= kind == 1 ? RP_COLUMNS : 0;
        s->planes = t_below(r, 3) ? 0 : 1 + t_below(r, MOST_ELEMENTS / (s->rows * (s->row_len + 1)));
    } else if (kind == 2) {
        s->flags |= RP_OFFSETS;
        a->offsets = 8 * (s->rows + 1);
        for (uint64_t i = 0; i <= s->rows; i++) {
            memcpy(a->bytes + 8 * i, &at, 8);
            uint64_t most = t_below(r, 20) ? 2 * MOST_ELEMENTS / s->rows : MOST_ELEMENTS, more = t_below(r, most + 1);
            at = at + more < MOST_ELEMENTS - 10 ? at + more : at;
        }
        s->row_len = at + t_below(r, 10);
    }
}

static void random_data(t_rng *r, const rp_spec *s, array *a)
{
    uint64_t n = rp_elements(s), size = rp_dtype_size(s->dtype);
    a->elements = n * size;
    a->mask = s->flags & RP_MASK ? n : 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t v = t_below(r, 100);
        float f = (float)v - 50;
        double d = f;
        void *element = s->dtype == RP_F32 ? (void *)&f : s->dtype == RP_F64 ? (void *)&d : (void *)&v;
        memcpy(a->bytes + a->offsets + i * size, element, size);
    }
    for (uint64_t i = 0; i < a->mask; i++)
        a->bytes[a->offsets + a->elements + i] = (uint8_t)t_below(r, 3);
}

/* job.c handles segments that are too long for one message; these tests have only segments that fit. */
static bool fits(const rc_level *l, const rc_sizes *sizes)
{
    for (uint64_t i = 0; l->offsets && i < l->lines; i++)
        if (rc_is_long(l, sizes, rc_offset(l->offsets, i + 1) - rc_offset(l->offsets, i)))
            return false;
    return true;
}

static rc_level describe(const rp_spec *s, const array *a)
{
    const uint8_t *elements = a->bytes + a->offsets;
    bool columns = s->flags & RP_COLUMNS;
    const uint64_t planes = columns ? 1 : rp_planes(s);
    rc_level l = {.spec = *s,
                  .elements = elements,
                  .mask = a->mask ? elements + a->elements : NULL,
                  .offsets = a->offsets ? a->bytes : NULL,
                  .item = rp_dtype_size(s->dtype),
                  .lines = rp_results(s),
                  .len = columns ? s->rows : planes * s->row_len,
                  .width = columns ? s->row_len : 0,
                  .runs = planes > 1 && s->rows > 1 && s->row_len ? planes : 0};
    l.spec.flags &= ~(uint32_t)(RP_MASK | RP_OFFSETS);
    l.spec.planes = 0;
    return l;
}

static void any_cut_gives_the_same(void **state)
{
    (void)state;
    t_rng r = {20261121};
    static array a;
    unsigned done = 0, levels[4] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        rp_spec s = random_spec(&r);
        random_shape(&r, &s, &a);
        rp_fault f;
        if (rp_spec_check(&s, &f) != RP_OK) /* more results than one message could tell */
            continue;
        random_data(&r, &s, &a);
        rc_sizes sizes = {.most = RC_LEAST_DATA + t_below(&r, 3) * t_below(&r, 9000)};
        sizes.chunk = RC_LEAST_DATA + t_below(&r, sizes.most - RC_LEAST_DATA + 1);
        sizes.panel = t_below(&r, 2) ? 0 : 1 + t_below(&r, sizes.most / 4);
        rc_level l = describe(&s, &a);
        if (!fits(&l, &sizes))
            continue;
        size_t room = (size_t)(rp_results(&s) * rp_cell_size(&s));
        uint8_t *want = calloc(1, room + 1), *got = calloc(1, room + 1);
        reduce(&s, a.bytes, (size_t)(a.offsets + a.elements + a.mask), want, room);
        unsigned n = run_levels(&l, &sizes, got);
        assert_memory_equal(got, want, room);
        free(want);
        free(got);
        levels[n < 3 ? n : 3]++;
        done++;
    }
    assert_true(done > ROUNDS / 2 && levels[1] > 100 && levels[2] > 100 && levels[3] > 10);
}

/* ---- the limits of a tile ---- */

static rc_level plan_planes(uint32_t flags, uint64_t planes, uint64_t lines, uint64_t len, uint64_t most)
{
    rc_sizes sizes = {.most = most, .chunk = most};
    rc_level l = {.spec = {.op = RP_OP_SUM, .dtype = RP_F32, .out = RP_F64, .flags = flags},
                  .item = 4,
                  .lines = planes * lines,
                  .len = len,
                  .width = flags & RP_COLUMNS ? lines : 0};
    rc_tiling(&l, &sizes);
    return l;
}

static rc_level plan(uint32_t flags, uint64_t lines, uint64_t len, uint64_t most)
{
    return plan_planes(flags, 1, lines, len, most);
}

static void messages_are_full(void **state)
{
    (void)state;
    rc_level l = plan(0, 10, 1024, 4096 * 3);
    assert_int_equal(l.tile_lines, 3);
    l = plan(0, 10, 1025, 4096);
    assert_int_equal(l.blocks, 2); /* one element too long */
    l = plan(0, 1u << 24, 0, RP_MAX_DATA);
    assert_int_equal(l.tile_lines, RP_MAX_DATA / 8); /* empty rows: as many as the reply holds */
    l = plan(RP_COLUMNS, 1u << 20, 2, RP_MAX_DATA);
    assert_int_equal(l.tile_lines, RP_MAX_DATA / 8);
    l = plan(RP_COLUMNS, 1000, 2000, RP_MAX_DATA);
    assert_int_equal(l.blocks, 1); /* whole columns, hundreds at a time */
    assert_int_equal(l.tile_lines, RP_MAX_DATA / 8000);
    l = plan(RP_COLUMNS, 1000, 1000000, RP_MAX_DATA);
    assert_int_equal(l.tile_lines, 256); /* 1 KiB wide */
    assert_int_equal(l.tile_len, 4096);
    l = plan(RP_COLUMNS, 3, UINT64_C(1) << 40, RP_MAX_DATA);
    assert_int_equal(l.tile_lines, 3); /* narrow: whole rows */
    assert_int_equal(l.tile_len, RP_MAX_DATA / 12);
}

static void planes_are_cut(void **state)
{
    (void)state;
    rc_tile t;
    rc_level l = plan_planes(RP_COLUMNS, 1000, 8, 8, 4096);
    assert_int_equal(l.tile_lines, 16 * 8); /* whole planes, as many as fit */
    assert_true(rc_next_tile(&l, &t) && rc_next_tile(&l, &t));
    assert_int_equal(t.spec.planes, 16);
    assert_int_equal(t.at, 16 * 64);
    l = plan_planes(RP_COLUMNS, UINT64_C(1) << 40, 3, 1 << 20, UINT64_MAX); /* what the daemon has: as many as a reply holds */
    assert_int_equal(l.tile_lines, RP_MAX_DATA / 8 / 3 * 3);
    assert_int_equal(l.blocks, 1);
    l = plan_planes(RP_COLUMNS, 5, 1000, 2000, RP_MAX_DATA); /* a plane is too large: some of its columns */
    assert_int_equal(l.tile_lines, RP_MAX_DATA / 8000);
    for (uint64_t planes = 0, lines = 0; planes < 5; planes += lines == 0) {
        assert_true(rc_next_tile(&l, &t));
        assert_int_equal(t.spec.planes, 0);
        assert_int_equal(t.at, planes * 2000000 + lines);
        lines = (lines + t.lines) % 1000;
    }
    assert_false(rc_next_tile(&l, &t));
    l = plan_planes(RP_COLUMNS, 5, 3, UINT64_C(1) << 30, RP_MAX_DATA); /* narrow and long: blocks of rows */
    assert_int_equal(l.tile_lines, 3);
    assert_true(l.blocks > 1);
}

static rc_level plan_runs(uint64_t planes, uint64_t rows, uint64_t row_len, uint64_t most)
{
    rc_sizes sizes = {.most = most, .chunk = most};
    rc_level l = {.spec = {.op = RP_OP_SUM, .dtype = RP_F32, .out = RP_F64}, .item = 4, .lines = rows};
    l.len = planes * row_len;
    l.runs = planes;
    rc_tiling(&l, &sizes);
    return l;
}

static void runs_are_cut(void **state)
{
    (void)state;
    rc_tile t;
    rc_level l = plan_runs(64, 512, 512, RP_MAX_DATA); /* whole rows, from every plane some neighbours */
    assert_int_equal(l.blocks, 1);
    assert_true(rc_next_tile(&l, &t) && rc_next_tile(&l, &t));
    assert_int_equal(t.lines, 32);
    assert_int_equal(t.height, 64);
    assert_int_equal(t.stride, 512 * 512);
    assert_int_equal(t.at, 32 * 512);
    assert_int_equal(t.spec.planes, 64);
    l = plan_runs(32, 3, 300000, RP_MAX_DATA); /* a row is too long: some runs of it */
    assert_int_equal(l.blocks, 11);
    assert_true(rc_next_tile(&l, &t) && rc_next_tile(&l, &t));
    assert_int_equal(t.at, 3 * 3 * 300000);
    assert_int_equal(t.spec.planes, 3);
    assert_int_equal(t.spec.index_base, 3 * 300000);
    l = plan_runs(2, 3, RP_MAX_DATA / 4 + 1, RP_MAX_DATA); /* a run is: a part of it */
    assert_int_equal(l.blocks, 4);
    assert_true(rc_next_tile(&l, &t) && rc_next_tile(&l, &t) && rc_next_tile(&l, &t));
    assert_int_equal(t.width, RP_MAX_DATA / 4);
    assert_int_equal(t.at, 3 * (RP_MAX_DATA / 4 + 1));
    assert_int_equal(t.spec.planes, 0);
    l = plan_runs(2, 3, 1 << 20, UINT64_MAX); /* what the daemon has: all of it */
    assert_true(rc_next_tile(&l, &t));
    assert_true(rc_is_contiguous(&t));
    assert_int_equal(t.bytes, 6 << 22);
}

/* Columns of a file: pieces of rows are wide, but a block of a column is far larger than its state. */
static void panels_of_files(void **state)
{
    (void)state;
    static const int ops[] = {RP_OP_SUM, RP_OP_MAX, RP_OP_VAR, RP_OP_STATS};
    for (int dtype = RP_I8; dtype <= RP_DTYPE_COUNT; dtype++)
        for (int i = 0; i < 4; i++) {
            rc_level l = {.spec = {.op = (uint8_t)ops[i], .dtype = (uint8_t)dtype, .flags = RP_COLUMNS},
                          .item = rp_dtype_size(dtype),
                          .len = 8192,
                          .lines = 1 << 20,
                          .width = 1 << 20};
            rc_tile t;
            rc_sizes sizes = {.most = RP_MAX_DATA, .chunk = RP_MAX_DATA, .panel = rc_panel_of_file(&l, RP_MAX_DATA)};
            const uint64_t bytes = rp_state_size(rp_state_layout(ops[i], dtype));
            rc_tiling(&l, &sizes);
            assert_true(rc_next_tile(&l, &t));
            assert_true(t.width * l.item >= 4096 || l.blocks == 1);
            assert_true(t.bytes <= RP_MAX_DATA && t.bytes > RP_MAX_DATA / 2);
            assert_true(l.blocks == 1 || t.width * l.item <= 4096 || t.height * l.item >= 64 * bytes);
        }
}

/* A file of rows x columns: bytes of a tile, its columns and the blocks of a column; 0: not long. */
static uint64_t long_tile(int op, int dtype, uint64_t rows, uint64_t columns, uint64_t *width, uint64_t *blocks)
{
    rc_level l = {.spec = {.op = (uint8_t)op, .dtype = (uint8_t)dtype, .out = RP_F64, .flags = RP_COLUMNS},
                  .item = rp_dtype_size(dtype),
                  .len = rows,
                  .lines = columns,
                  .width = columns};
    rc_tile t;
    rc_sizes sizes = {0};
    sizes.most = sizes.chunk = rc_long_tile(&l, rows * columns * l.item, RP_MAX_STRIDED, &sizes.panel);
    if (!sizes.most)
        return 0;
    assert_true(sizes.most > RP_MAX_DATA && sizes.most <= RP_MAX_STRIDED);
    rc_tiling(&l, &sizes);
    assert_true(rc_next_tile(&l, &t));
    assert_true(t.width <= 4096 && t.bytes <= sizes.most);
    *width = t.width;
    *blocks = l.blocks;
    return t.bytes;
}

/* Long ranges have whole columns if they can, and no more of them than a reader reduces. */
static void long_ranges(void **state)
{
    (void)state;
    uint64_t width, blocks;
    assert_int_equal(long_tile(RP_OP_VAR, RP_F32, 8192, 16384, &width, &blocks), 64 << 20);
    assert_int_equal(width, 2048);
    assert_int_equal(blocks, 1);
    assert_int_equal(long_tile(RP_OP_SUM, RP_F64, 100000, 16384, &width, &blocks), RP_MAX_STRIDED); /* columns of 800 KB */
    assert_int_equal(width, 1024);
    assert_int_equal(blocks, 4);
    assert_int_equal(long_tile(RP_OP_SUM, RP_F64, 1000, 1 << 20, &width, &blocks), 32768000); /* a thirty-second is more */
    assert_int_equal(width, 4096);
    assert_int_equal(blocks, 1);
    assert_int_equal(long_tile(RP_OP_SUM, RP_F32, 131072, 1024, &width, &blocks), RP_MAX_STRIDED); /* whole rows */
    assert_int_equal(blocks, 2);
    assert_int_equal(long_tile(RP_OP_ANY, RP_U8, 5000, 1 << 20, &width, &blocks), 5000 * 4096);
    assert_int_equal(long_tile(RP_OP_SUM, RP_F32, 64, 1 << 21, &width, &blocks), 0);
    assert_int_equal(long_tile(RP_OP_VAR, RP_F64, 2000000, 16, &width, &blocks), 0);
    assert_int_equal(long_tile(RP_OP_VAR, RP_F64, 200000, 160, &width, &blocks), 256000000);
    assert_int_equal(blocks, 1);
    assert_int_equal(long_tile(RP_OP_SUM, RP_F64, 0, 16, &width, &blocks), 0);
}

static void long_segments(void **state)
{
    (void)state;
    rc_sizes sizes = {.most = 4096, .chunk = 4096};
    uint8_t mask = 0;
    rc_level l = {.item = 8};
    assert_false(rc_is_long(&l, &sizes, 510));
    assert_true(rc_is_long(&l, &sizes, 511));
    l.mask = &mask;
    assert_false(rc_is_long(&l, &sizes, 453));
    assert_true(rc_is_long(&l, &sizes, 454));
    assert_true(rc_is_long(&l, &sizes, UINT64_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_cut_gives_the_same), cmocka_unit_test(messages_are_full),
                                       cmocka_unit_test(planes_are_cut),         cmocka_unit_test(runs_are_cut),
                                       cmocka_unit_test(panels_of_files),        cmocka_unit_test(long_ranges),
                                       cmocka_unit_test(long_segments),          cmocka_unit_test(keys_are_cut)};
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
