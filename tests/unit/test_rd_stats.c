/* Counters: unknown codes, users beyond the table, joining, and histograms below powers of two. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/telemetry/stats.h"

static rd_stats *fresh(void)
{
    rd_stats *s = calloc(1, sizeof *s);
    assert_non_null(s);
    return s;
}

static rd_record sum_f32(unsigned user)
{
    return (rd_record){.msg = RP_MSG_REDUCE,
                       .worked = true,
                       .user = user,
                       .op = RP_OP_SUM,
                       .dtype = RP_F32,
                       .path = RP_PATH_INLINE,
                       .data_bytes = 64,
                       .device = 2,
                       .stage_ns = {[RD_QUEUE] = 10, [RD_COPY] = 20, [RD_KERNEL] = 30, [RD_TOTAL] = 100}};
}

static const char *text_of(unsigned uid)
{
    static char text[RD_USER_TEXT];
    snprintf(text, sizeof text, "%u", uid);
    return text;
}

static void users_have_places_until_the_table_is_full(void **state)
{
    (void)state;
    rd_stats *s = fresh();
    assert_int_equal(rd_stats_user(s, NULL), RD_USER_UNKNOWN);
    for (unsigned i = RD_FIRST_USER; i < RD_MAX_USERS; i++)
        assert_int_equal(rd_stats_user(s, text_of(1000 + i)), i);
    assert_int_equal(rd_stats_user(s, "5"), RD_USER_OTHER);
    assert_int_equal(rd_stats_user(s, text_of(1000 + RD_FIRST_USER)), RD_FIRST_USER);
    free(s);
}

static void success_counts_everywhere(void **state)
{
    (void)state;
    rd_stats *s = fresh();
    rd_record a = sum_f32(3);
    rd_stats_answered(s, &a);
    const rd_tally *t = &s->tally;
    assert_int_equal(t->done[RP_OP_SUM][RP_F32][RP_PATH_INLINE], 1);
    assert_int_equal(t->by_msg[RP_MSG_REDUCE], 1);
    assert_int_equal(t->data_bytes[RP_OP_SUM][RP_F32][RP_PATH_INLINE], 64);
    assert_int_equal(rd_tally_path_bytes(t, RP_PATH_INLINE), 64);
    assert_int_equal(rd_tally_path_bytes(t, RP_PATH_FILE), 0);
    assert_int_equal(t->device_bytes[2], 64);
    assert_int_equal(t->use[3].engine_ns, 50);
    assert_int_equal(t->stage[RD_KERNEL].sum, 30);
    assert_int_equal(t->errors, 0);
    assert_int_equal(t->pieces[RP_OP_SUM][RP_F32][RP_PATH_INLINE], 0);
    a.piece = true;
    rd_stats_answered(s, &a);
    assert_int_equal(t->pieces[RP_OP_SUM][RP_F32][RP_PATH_INLINE], 1);
    assert_int_equal(t->use[3].pieces, 1);
    free(s);
}

static void failure_counts_by_error_and_adds_no_times(void **state)
{
    (void)state;
    rd_stats *s = fresh();
    rd_record a = sum_f32(3);
    a.err = RP_NAN;
    rd_stats_answered(s, &a);
    assert_int_equal(s->failed[RP_OP_SUM][RP_F32][RP_PATH_INLINE][RP_NAN], 1);
    assert_int_equal(s->by_err[RP_NAN], 1);
    assert_int_equal(s->tally.use[3].errors, 1);
    assert_int_equal(s->tally.stage[RD_TOTAL].count, 0);
    assert_int_equal(s->tally.done[RP_OP_SUM][RP_F32][RP_PATH_INLINE], 0);
    free(s);
}

static void unknown_codes_share_place_0(void **state)
{
    (void)state;
    rd_stats *s = fresh();
    rd_record a = {.msg = 255, .err = RP_OP, .worked = true, .op = 200, .dtype = 255, .path = 99};
    rd_stats_answered(s, &a);
    assert_int_equal(s->tally.by_msg[0], 1);
    assert_int_equal(s->failed[0][0][0][RP_OP], 1);
    a.err = (rp_err)250;
    rd_stats_answered(s, &a);
    assert_int_equal(s->by_err[RP_INTERNAL], 1);
    free(s);
}

static void joining_is_as_if_one_had_counted_all(void **state)
{
    (void)state;
    rd_stats *one = fresh(), *parts = fresh(), *other = fresh();
    for (unsigned i = 0; i < 10; i++) {
        rd_record a = sum_f32(i % RD_MAX_USERS);
        a.err = i % 3 ? RP_OK : RP_BUSY;
        a.op = (uint8_t)(1 + i);
        a.claim = (rp_claim){i, 3 * i};
        rd_tally_add(&one->tally, &a);
        rd_tally_add(i % 2 ? &parts->tally : &other->tally, &a);
    }
    rd_tally_join(&parts->tally, &other->tally);
    assert_memory_equal(&one->tally, &parts->tally, sizeof one->tally);
    free(one);
    free(parts);
    free(other);
}

/* Neither a large number nor many of them make a sum small again. */
static void claims_stay_at_the_most(void **state)
{
    (void)state;
    rd_stats *s = fresh(), *other = fresh();
    rd_record a = sum_f32(3);
    a.claim = (rp_claim){2, 100};
    rd_stats_answered(s, &a);
    a.err = RP_NAN;
    rd_stats_answered(s, &a); /* the claim has nothing to do with the request that carries it */
    assert_int_equal(s->tally.use[3].claim.requests, 4);
    assert_int_equal(rd_tally_claim(&s->tally).bytes, 200);
    a.claim = (rp_claim){UINT64_MAX - 3, UINT64_MAX};
    rd_stats_answered(s, &a);
    a.user = 4;
    rd_stats_answered(s, &a);
    rd_tally_add(&other->tally, &a);
    rd_tally_join(&s->tally, &other->tally);
    assert_true(s->tally.use[3].claim.requests == UINT64_MAX && s->tally.use[4].claim.requests == UINT64_MAX);
    assert_true(rd_tally_claim(&s->tally).requests == UINT64_MAX && rd_tally_claim(&s->tally).bytes == UINT64_MAX);
    free(other);
    free(s);
}

static void histograms_count_below_powers_of_two(void **state)
{
    (void)state;
    rd_histogram h = {.count = 0};
    const uint64_t values[] = {0, 7, 8, 1023, 1024, 1025, UINT64_C(1) << 33, UINT64_MAX};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        rd_histogram_add(&h, values[i]);
    assert_int_equal(rd_histogram_below(&h, 3), 2);
    assert_int_equal(rd_histogram_below(&h, 10), 4);
    assert_int_equal(rd_histogram_below(&h, 11), 6);
    assert_int_equal(rd_histogram_below(&h, 33), 6);
    assert_int_equal(rd_histogram_below(&h, 34), 7);
}

/* The page calls them slow from 100 ms on, and shows the last ones. */
static void slow_requests_are_kept(void **state)
{
    (void)state;
    rd_stats *s = fresh();
    rd_record a = sum_f32(3);
    a.received_ns = 5;
    a.stage_ns[RD_TOTAL] = 99999999;
    rd_stats_answered(s, &a);
    assert_int_equal(s->tally.slow_n, 0);
    for (unsigned i = 0; i < RD_SLOW + 3; i++) {
        a.stage_ns[RD_TOTAL] = 100000000 + i;
        rd_stats_answered(s, &a);
    }
    assert_int_equal(s->tally.slow_n, RD_SLOW + 3);
    assert_int_equal(s->tally.slow[2].end_ns, 5 + 100000000 + RD_SLOW + 2);
    assert_int_equal(s->tally.slow[3].stage_ns[RD_TOTAL], 100000000 + 3);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(users_have_places_until_the_table_is_full),
        cmocka_unit_test(success_counts_everywhere),
        cmocka_unit_test(slow_requests_are_kept),
        cmocka_unit_test(failure_counts_by_error_and_adds_no_times),
        cmocka_unit_test(unknown_codes_share_place_0),
        cmocka_unit_test(joining_is_as_if_one_had_counted_all),
        cmocka_unit_test(claims_stay_at_the_most),
        cmocka_unit_test(histograms_count_below_powers_of_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
