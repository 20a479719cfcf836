/* Which elements of a stream have come, against a plain array of flags; states and folding without an engine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/state/extents.h"
#include "daemon/state/stream.h"

static void pieces_join(void **state)
{
    (void)state;
    rd_extents e = {.n = 0};
    uint64_t first;
    assert_int_equal(rd_extents_add(&e, 10, 20, &first), RD_EXTENT_OK);
    assert_int_equal(rd_extents_add(&e, 30, 40, &first), RD_EXTENT_OK);
    assert_int_equal(e.n, 2);
    assert_int_equal(rd_extents_add(&e, 20, 30, &first), RD_EXTENT_OK); /* fills the gap: one piece */
    assert_int_equal(e.n, 1);
    assert_int_equal(rd_extents_add(&e, 0, 10, &first), RD_EXTENT_OK);
    assert_int_equal(e.n, 1);
    assert_int_equal(e.total, 40);
    assert_true(rd_extents_cover(&e, 40, &first));
}

static void overlap_names_the_first_element(void **state)
{
    (void)state;
    rd_extents e = {.n = 0};
    uint64_t first = 0;
    rd_extents_add(&e, 10, 20, &first);
    rd_extents_add(&e, 30, 40, &first);
    const struct {
        uint64_t from, to, first;
    } cases[] = {{0, 11, 10}, {10, 20, 10}, {19, 20, 19}, {15, 50, 15}, {20, 31, 30}, {0, 100, 10}, {39, 41, 39}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(rd_extents_add(&e, cases[i].from, cases[i].to, &first), RD_EXTENT_OVERLAP);
        assert_int_equal(first, cases[i].first);
    }
    assert_int_equal(e.n, 2);
    assert_int_equal(e.total, 20);
}

static void cover_names_the_first_wrong_element(void **state)
{
    (void)state;
    rd_extents e = {.n = 0};
    uint64_t first = 99;
    assert_true(rd_extents_cover(&e, 0, &first));
    assert_false(rd_extents_cover(&e, 5, &first));
    assert_int_equal(first, 0);
    rd_extents_add(&e, 5, 8, &first);
    assert_false(rd_extents_cover(&e, 0, &first));
    assert_int_equal(first, 5);
    assert_false(rd_extents_cover(&e, 8, &first));
    assert_int_equal(first, 0);
    rd_extents_add(&e, 0, 4, &first);
    assert_false(rd_extents_cover(&e, 8, &first));
    assert_int_equal(first, 4);
    assert_false(rd_extents_cover(&e, 4, &first));
    assert_int_equal(first, 5);
    assert_false(rd_extents_cover(&e, 3, &first));
    assert_int_equal(first, 3);
    rd_extents_add(&e, 4, 5, &first);
    assert_true(rd_extents_cover(&e, 8, &first));
    assert_false(rd_extents_cover(&e, 9, &first));
    assert_int_equal(first, 8);
}

static void pieces_are_capped(void **state)
{
    (void)state;
    rd_extents e = {.n = 0};
    uint64_t first;
    for (uint64_t i = 0; i < RP_MAX_EXTENTS; i++)
        assert_int_equal(rd_extents_add(&e, 4 * i, 4 * i + 3, &first), RD_EXTENT_OK);
    assert_int_equal(rd_extents_add(&e, 1000, 1001, &first), RD_EXTENT_MANY);
    assert_int_equal(rd_extents_add(&e, 3, 4, &first), RD_EXTENT_OK); /* filling gaps still works */
    assert_int_equal(rd_extents_add(&e, 1000, 1001, &first), RD_EXTENT_OK);
}

static void taking_back_may_split(void **state)
{
    (void)state;
    rd_extents e = {.n = 0};
    uint64_t first;
    rd_extents_add(&e, 0, 1000, &first);
    assert_true(rd_extents_remove(&e, 10, 20));
    assert_int_equal(e.n, 2);
    assert_int_equal(e.total, 990);
    assert_false(rd_extents_cover(&e, 1000, &first));
    assert_int_equal(first, 10);
    assert_true(rd_extents_remove(&e, 0, 10));
    assert_true(rd_extents_remove(&e, 990, 1000));
    assert_true(rd_extents_remove(&e, 20, 990));
    assert_int_equal(e.n, 0);
    rd_extents_add(&e, 0, 1000, &first);
    unsigned room = sizeof e.at / sizeof e.at[0];
    for (uint64_t i = 1; i < room; i++)
        assert_true(rd_extents_remove(&e, 2 * i, 2 * i + 1));
    assert_false(rd_extents_remove(&e, 900, 901));
    assert_int_equal(e.n, room);
}

static void random_chunks_match_an_array_of_flags(void **state)
{
    (void)state;
    enum { N = 200 };
    bool there[N + 1] = {false};
    rd_extents e = {.n = 0};
    srand(7);
    for (int step = 0; step < 20000; step++) {
        uint64_t from = (uint64_t)(rand() % N), to = from + 1 + (uint64_t)(rand() % 6), first = 0, want = to, total = 0;
        to = to > N ? N : to;
        for (uint64_t i = to; i-- > from;)
            want = there[i] ? i : want;
        rd_extent_result r = rd_extents_add(&e, from, to, &first);
        if (r == RD_EXTENT_OVERLAP) {
            assert_int_equal(first, want);
            bool whole = true;
            for (uint64_t i = from; i < to; i++)
                whole &= there[i];
            if (whole && rd_extents_remove(&e, from, to))
                memset(there + from, 0, to - from);
        } else if (r == RD_EXTENT_OK) {
            assert_true(want >= to);
            memset(there + from, 1, to - from);
        }
        unsigned pieces = 0;
        for (uint64_t i = 0; i < N; i++) {
            total += there[i];
            pieces += there[i] && !there[i + 1];
        }
        assert_int_equal(e.total, total);
        assert_int_equal(e.n, pieces);
    }
}

static rp_spec sum_f64(void) { return (rp_spec){.op = RP_OP_SUM, .dtype = RP_F64, .out = RP_F64, .rows = 1}; }

static void claims_check_size_and_range(void **state)
{
    (void)state;
    rd_stream_list l = {0};
    rp_spec spec = sum_f64();
    rd_stream *s = rd_stream_open(&l, 1, &spec);
    uint64_t count;
    rp_fault f;
    assert_int_equal(rd_stream_claim(s, 0, 0, &count, &f), RP_SHAPE);
    assert_int_equal(rd_stream_claim(s, 0, 9, &count, &f), RP_SHAPE);
    assert_int_equal(f.limit, 8);
    assert_int_equal(rd_stream_claim(s, RP_MAX_COUNT, 8, &count, &f), RP_TOO_LARGE);
    assert_int_equal(rd_stream_claim(s, UINT64_MAX, 8, &count, &f), RP_TOO_LARGE);
    assert_int_equal(rd_stream_claim(s, RP_MAX_COUNT - 1, 8, &count, &f), RP_OK);
    assert_int_equal(count, 1);
    assert_int_equal(rd_stream_claim(s, RP_MAX_COUNT - 2, 16, &count, &f), RP_SHAPE);
    assert_string_equal(f.field, "offset");
    assert_int_equal(f.index, RP_MAX_COUNT - 1);
    rd_streams_free(&l);
}

static void a_mask_byte_comes_with_each_element(void **state)
{
    (void)state;
    rd_stream_list l = {0};
    rp_spec spec = sum_f64();
    spec.flags = RP_MASK;
    rd_stream *s = rd_stream_open(&l, 1, &spec);
    uint64_t count;
    rp_fault f;
    assert_int_equal(rd_stream_claim(s, 0, 8, &count, &f), RP_SHAPE);
    assert_int_equal(f.limit, 9);
    assert_int_equal(rd_stream_claim(s, 0, 27, &count, &f), RP_OK);
    assert_int_equal(count, 3);
    rd_streams_free(&l);
}

/* Each part of a stream's spec goes to the tasks that it concerns. */
static void specs_of_chunks_and_merges(void **state)
{
    (void)state;
    rd_stream_list l = {0};
    rp_spec spec = {.op = RP_OP_PROD,
                    .dtype = RP_I32,
                    .out = RP_I64,
                    .rows = 1,
                    .initial = 7,
                    .index_base = 5,
                    .flags = RP_WRAP | RP_INITIAL | RP_MASK};
    rd_stream *s = rd_stream_open(&l, 1, &spec);
    uint8_t cell[RP_MAX_STATE] = {0};
    rk_task merge;
    rp_spec chunk = rd_stream_chunk(s, 12);
    assert_int_equal(chunk.flags, RP_MASK | RP_STATES_OUT);
    assert_int_equal(chunk.initial, 0);
    assert_int_equal(chunk.row_len, 12);
    assert_int_equal(chunk.index_base, 5);
    assert_int_equal(rp_spec_check(&chunk, NULL), RP_OK);
    rd_stream_merge(s, &merge, cell);
    assert_int_equal(merge.spec.flags, RP_STATES_IN | RP_WRAP | RP_INITIAL);
    assert_int_equal(merge.spec.initial, 7);
    assert_int_equal(merge.spec.index_base, 0);
    assert_int_equal(rp_spec_check(&merge.spec, NULL), RP_OK);
    while (!rd_stream_fold(s))
        rd_stream_keep(s, cell);
    assert_int_equal(s->fold.task.spec.flags, RP_STATES_IN | RP_STATES_OUT);
    assert_int_equal(s->fold.task.spec.initial, 0);
    assert_int_equal(rp_spec_check(&s->fold.task.spec, NULL), RP_OK);
    rd_streams_free(&l);
}

static void states_gather_and_fold(void **state)
{
    (void)state;
    enum { SIZE = 288, MANY = (RD_FOLD_BYTES + SIZE - 1) / SIZE };
    rd_stream_list l = {0};
    rp_spec spec = sum_f64();
    rd_stream *s = rd_stream_open(&l, 1, &spec);
    uint8_t one[SIZE];
    rk_task merge;
    for (int i = 0; i < MANY; i++) {
        assert_false(rd_stream_fold(s));
        memset(one, i, sizeof one);
        rd_stream_keep(s, one);
    }
    assert_true(rd_stream_fold(s));
    assert_int_equal(s->fold.task.spec.row_len, MANY);
    assert_int_equal(s->fold.task.bytes, MANY * SIZE);
    assert_int_equal(((const uint8_t *)s->fold.task.data)[5 * SIZE + 7], 5);
    for (int i = 0; i < MANY; i++) { /* one fold at a time: the rest gathers meanwhile */
        rd_stream_keep(s, one);
        assert_false(rd_stream_fold(s));
    }
    memset(s->folded, 0xab, sizeof s->folded);
    rd_stream_folded(s);
    assert_int_equal(s->n, MANY + 1);
    rd_stream_merge(s, &merge, one);
    assert_int_equal(merge.spec.flags, RP_STATES_IN);
    assert_int_equal(merge.spec.row_len, MANY + 1);
    assert_int_equal(s->states[MANY * SIZE], 0xab);
    rd_streams_free(&l);
}

static void ended_streams_stay_until_their_jobs_are_back(void **state)
{
    (void)state;
    rd_stream_list l = {0};
    rp_spec spec = sum_f64();
    rd_stream *a = rd_stream_open(&l, 1, &spec), *b = rd_stream_open(&l, 2, &spec);
    assert_int_equal(l.open, 2);
    a->jobs = 1;
    rd_streams_end(&l);
    rd_streams_end(&l);
    assert_int_equal(l.open, 0);
    assert_null(rd_stream_find(&l, 1));
    (void)b;
    rd_streams_sweep(&l);
    assert_ptr_equal(l.first, a);
    assert_true(rd_streams_busy(&l));
    a->jobs = 0;
    rd_streams_sweep(&l);
    assert_null(l.first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_join),
        cmocka_unit_test(overlap_names_the_first_element),
        cmocka_unit_test(cover_names_the_first_wrong_element),
        cmocka_unit_test(pieces_are_capped),
        cmocka_unit_test(taking_back_may_split),
        cmocka_unit_test(random_chunks_match_an_array_of_flags),
        cmocka_unit_test(claims_check_size_and_range),
        cmocka_unit_test(a_mask_byte_comes_with_each_element),
        cmocka_unit_test(specs_of_chunks_and_merges),
        cmocka_unit_test(states_gather_and_fold),
        cmocka_unit_test(ended_streams_stay_until_their_jobs_are_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
