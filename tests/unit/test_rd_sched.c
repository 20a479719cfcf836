/* Turns of queues, classes, users and sessions, with items that stand for tasks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/state/sched.h"

enum { MIB = 1 << 20, USERS = 4, SESSIONS = 16 };

/* A session that always has `depth` items queued. */
typedef struct load {
    rd_sched_session session;
    rd_item item[8];
    int depth;
    rd_queue_kind queue;
    uint64_t cost, spent, served; /* of an item: bytes and price, what it takes indeed; in all */
} load;

typedef struct world {
    rd_sched sched;
    rd_sched_user user[USERS];
    load load[SESSIONS];
    int loads;
} world;

static world *new_world(uint64_t small_window, uint64_t large_window)
{
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    rd_sched_init(&w->sched, small_window, large_window);
    for (int k = 0; k < RD_QUEUES; k++)
        w->sched.queue[k].price_window = UINT64_MAX; /* prices are bytes here */
    return w;
}

static load *add(world *w, int user, int priority, rd_queue_kind queue, uint64_t cost, int depth)
{
    load *l = &w->load[w->loads++];
    *l = (load){.depth = depth, .queue = queue, .cost = cost, .spent = cost};
    rd_sched_join(&w->sched, &l->session, &w->user[user], priority);
    for (int i = 0; i < depth; i++)
        rd_sched_put(&w->sched, &l->session, &l->item[i], queue, cost, cost);
    return l;
}

static load *load_of(world *w, const rd_item *i)
{
    return &w->load[((const char *)i - (const char *)w->load) / (ptrdiff_t)sizeof w->load[0]];
}

/* Serve about `bytes`; a taker that was served queues the same item again. */
static void serve(world *w, rd_queue_kind queue, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes;) {
        rd_item *i = rd_sched_next(&w->sched, queue);
        assert_non_null(i);
        load *l = load_of(w, i);
        l->served += l->cost;
        done += l->cost;
        rd_sched_end(&w->sched, i, l->spent);
        rd_sched_put(&w->sched, &l->session, i, queue, l->cost, l->cost);
    }
}

static void assert_share(uint64_t part, uint64_t whole, double want, double within)
{
    double share = (double)part / (double)whole;
    if (share < want * (1 - within) || share > want * (1 + within))
        fail_msg("a share of %.4f instead of %.4f", share, want);
}

static void bytes_are_shared_whatever_their_cut(void **state)
{
    (void)state;
    world *w = new_world(MIB, 8 * MIB);
    load *large = add(w, 0, RP_PRIORITY_NORMAL, RD_QUEUE_LARGE, 4 * MIB + 4096, 8);
    load *pieces = add(w, 1, RP_PRIORITY_NORMAL, RD_QUEUE_LARGE, 100000, 8);
    load *same_user = add(w, 2, RP_PRIORITY_NORMAL, RD_QUEUE_LARGE, MIB, 8);
    load *other = add(w, 2, RP_PRIORITY_NORMAL, RD_QUEUE_LARGE, 3 * MIB, 2);
    serve(w, RD_QUEUE_LARGE, UINT64_C(3000) * MIB);
    assert_share(large->served, UINT64_C(3000) * MIB, 1. / 3, 0.01);
    assert_share(pieces->served, UINT64_C(3000) * MIB, 1. / 3, 0.01);
    assert_share(same_user->served, UINT64_C(3000) * MIB, 1. / 6, 0.02);
    assert_share(other->served, UINT64_C(3000) * MIB, 1. / 6, 0.02);
    free(w);
}

static void one_session_gets_as_much_as_eight_of_another_user(void **state)
{
    (void)state;
    world *w = new_world(MIB, 8 * MIB);
    uint64_t many = 0;
    load *one = add(w, 0, RP_PRIORITY_NORMAL, RD_QUEUE_LARGE, 4 * MIB, 2);
    for (int i = 0; i < 8; i++)
        add(w, 1, RP_PRIORITY_NORMAL, RD_QUEUE_LARGE, 4 * MIB, 8);
    serve(w, RD_QUEUE_LARGE, UINT64_C(6400) * MIB);
    for (int i = 1; i <= 8; i++) {
        assert_share(w->load[i].served, UINT64_C(6400) * MIB, 1. / 16, 0.05);
        many += w->load[i].served;
    }
    assert_share(one->served, one->served + many, 0.5, 0.01);
    free(w);
}

static void classes_have_their_weights(void **state)
{
    (void)state;
    world *w = new_world(MIB, 8 * MIB);
    load *background = add(w, 0, RP_PRIORITY_BACKGROUND, RD_QUEUE_LARGE, 4 * MIB, 4);
    load *normal = add(w, 1, RP_PRIORITY_NORMAL, RD_QUEUE_LARGE, 4 * MIB, 4);
    load *high = add(w, 0, RP_PRIORITY_HIGH, RD_QUEUE_LARGE, 4 * MIB, 4);
    serve(w, RD_QUEUE_LARGE, UINT64_C(8400) * MIB);
    assert_share(high->served, UINT64_C(8400) * MIB, 16. / 21, 0.01);
    assert_share(normal->served, UINT64_C(8400) * MIB, 4. / 21, 0.02);
    assert_share(background->served, UINT64_C(8400) * MIB, 1. / 21, 0.05);
    free(w);
}

static void a_newcomer_is_served_within_a_round(void **state)
{
    (void)state;
    world *w = new_world(MIB, 8 * MIB);
    for (int i = 0; i < 8; i++)
        add(w, i % 2, RP_PRIORITY_NORMAL, RD_QUEUE_LARGE, 4 * MIB, 8);
    serve(w, RD_QUEUE_LARGE, UINT64_C(999) * MIB);
    load *late = add(w, 2, RP_PRIORITY_NORMAL, RD_QUEUE_LARGE, 4 * MIB, 1);
    serve(w, RD_QUEUE_LARGE, UINT64_C(12) * MIB); /* one each */
    assert_int_equal(late->served, 4 * MIB);
    free(w);
}

static void idle_time_is_not_saved(void **state)
{
    (void)state;
    world *w = new_world(MIB, 8 * MIB);
    load *busy = add(w, 0, RP_PRIORITY_NORMAL, RD_QUEUE_LARGE, MIB, 8);
    serve(w, RD_QUEUE_LARGE, UINT64_C(1000) * MIB);
    load *late = add(w, 1, RP_PRIORITY_NORMAL, RD_QUEUE_LARGE, MIB, 8);
    busy->served = 0;
    serve(w, RD_QUEUE_LARGE, UINT64_C(200) * MIB);
    assert_share(late->served, late->served + busy->served, 0.5, 0.03);
    free(w);
}

static void queues_have_windows_of_their_own(void **state)
{
    (void)state;
    world *w = new_world(4 * 5000, 8 * MIB);
    rd_item *large[3], *small[5];
    add(w, 0, RP_PRIORITY_NORMAL, RD_QUEUE_LARGE, 4 * MIB + 4096, 8);
    add(w, 0, RP_PRIORITY_NORMAL, RD_QUEUE_SMALL, 5000, 8);
    for (int i = 0; i < 3; i++)
        large[i] = rd_sched_next(&w->sched, RD_QUEUE_LARGE);
    assert_true(large[0] && large[1] && !large[2]);
    for (int i = 0; i < 5; i++)
        small[i] = rd_sched_next(&w->sched, RD_QUEUE_SMALL);
    assert_true(small[0] && small[3] && !small[4]);
    rd_sched_end(&w->sched, small[1], 5000);
    rd_sched_end(&w->sched, small[1], 5000); /* twice does not count twice */
    assert_non_null(rd_sched_next(&w->sched, RD_QUEUE_SMALL));
    assert_null(rd_sched_next(&w->sched, RD_QUEUE_SMALL));
    assert_null(rd_sched_next(&w->sched, RD_QUEUE_READ));
    rd_sched_end(&w->sched, large[0], MIB);
    assert_non_null(rd_sched_next(&w->sched, RD_QUEUE_LARGE));
    assert_null(rd_sched_next(&w->sched, RD_QUEUE_LARGE));
    free(w);
}

static void order_within_a_session_is_that_of_coming(void **state)
{
    (void)state;
    world *w = new_world(MIB, 100 * MIB);
    load *l = add(w, 0, RP_PRIORITY_NORMAL, RD_QUEUE_READ, MIB, 8);
    for (int i = 0; i < 8; i++)
        assert_ptr_equal(rd_sched_next(&w->sched, RD_QUEUE_READ), &l->item[i]);
    free(w);
}

/* Deadlines, cancelling and the end of a session all take items back. */
static void items_are_taken_back(void **state)
{
    (void)state;
    world *w = new_world(MIB, 100 * MIB);
    load *gone = add(w, 0, RP_PRIORITY_NORMAL, RD_QUEUE_LARGE, MIB, 8);
    load *stays = add(w, 0, RP_PRIORITY_NORMAL, RD_QUEUE_LARGE, MIB, 8);
    assert_ptr_equal(rd_sched_next(&w->sched, RD_QUEUE_LARGE), &gone->item[0]);
    assert_false(rd_sched_remove(&w->sched, &gone->item[0])); /* it runs */
    const int order[] = {4, 7, 1, 2, 3, 5, 6};                /* middle, last, first */
    for (int i = 0; i < 7; i++)
        assert_true(rd_sched_remove(&w->sched, &gone->item[order[i]]));
    assert_false(rd_sched_remove(&w->sched, &gone->item[4]));
    rd_sched_end(&w->sched, &gone->item[0], MIB);
    memset(&gone->session, 0xee, sizeof gone->session); /* nothing points there any more */
    for (int i = 0; i < 8; i++)
        assert_ptr_equal(rd_sched_next(&w->sched, RD_QUEUE_LARGE), &stays->item[i]);
    assert_null(rd_sched_next(&w->sched, RD_QUEUE_LARGE));
    assert_int_equal(w->sched.queue[RD_QUEUE_LARGE].queued, 0);
    assert_int_equal(w->sched.queue[RD_QUEUE_LARGE].running, 8 * MIB);
    free(w);
}

/* Any mix of calls: every item comes out once or is taken back once, and a window is passed by one item at most. */
static void nothing_is_lost_in_any_order(void **state)
{
    (void)state;
    enum { N = 256, STEPS = 200000 };
    world *w = new_world(64 << 10, 8 * MIB);
    rd_item *item = calloc(N, sizeof *item);
    enum { IDLE, QUEUED, RUNNING } is[N] = {IDLE};
    unsigned seed = 1, queued = 0;
    assert_non_null(item);
    for (int i = 0; i < SESSIONS; i++)
        add(w, i % USERS, i % RP_PRIORITY_COUNT, RD_QUEUE_LARGE, 1, 0);
    for (int step = 0; step < STEPS; step++) {
        seed = seed * 1664525 + 1013904223;
        unsigned k = seed >> 8 & (N - 1), what = seed >> 28;
        rd_queue_kind queue = (rd_queue_kind)(seed >> 16 & 1);
        if (is[k] == IDLE && what < 6) {
            rd_sched_put(&w->sched, &w->load[seed >> 20 & 15].session, &item[k], queue, 1 + (seed >> 4 & 0xffff),
                         1 + (seed >> 3 & 0xffff));
            is[k] = QUEUED;
            queued++;
        } else if (what < 8) {
            assert_int_equal(rd_sched_remove(&w->sched, &item[k]), is[k] == QUEUED);
            queued -= is[k] == QUEUED;
            is[k] = is[k] == QUEUED ? IDLE : is[k];
        } else if (what < 12) {
            rd_item *i = rd_sched_next(&w->sched, queue);
            if (i) {
                assert_int_equal(is[i - item], QUEUED);
                is[i - item] = RUNNING;
                queued--;
            }
        } else if (is[k] == RUNNING) {
            rd_sched_end(&w->sched, &item[k], seed >> 2 & 0xffff);
            is[k] = IDLE;
        }
        assert_int_equal(w->sched.queue[RD_QUEUE_SMALL].queued + w->sched.queue[RD_QUEUE_LARGE].queued, queued);
        assert_true(w->sched.queue[RD_QUEUE_SMALL].running < (64 << 10) + 0x10000);
    }
    for (int k = 0; k < N; k++)
        if (is[k] == RUNNING)
            rd_sched_end(&w->sched, &item[k], seed >> 2 & 0xffff);
        else
            rd_sched_remove(&w->sched, &item[k]);
    for (int queue = 0; queue < RD_QUEUES; queue++) {
        assert_int_equal(w->sched.queue[queue].running, 0);
        assert_int_equal(w->sched.queue[queue].running_price, 0);
        assert_null(w->sched.queue[queue].all.turn);
    }
    free(item);
    free(w);
}

/* What an item took is paid when it ends, by its session and its user, to the last unit. */
static void what_an_item_took_is_paid_afterwards(void **state)
{
    (void)state;
    world *w = new_world(MIB, 8 * MIB);
    load *slow = add(w, 0, RP_PRIORITY_NORMAL, RD_QUEUE_LARGE, 100000, 8);
    load *quick = add(w, 1, RP_PRIORITY_NORMAL, RD_QUEUE_LARGE, 100000, 8);
    load *quicker = add(w, 2, RP_PRIORITY_NORMAL, RD_QUEUE_LARGE, 100000, 8);
    slow->spent = 20 * slow->cost;
    quicker->spent = quicker->cost / 10;
    serve(w, RD_QUEUE_LARGE, UINT64_C(10000) * MIB);
    assert_share(slow->served * 20, quick->served, 1, 0.01);
    assert_share(quicker->served / 10, quick->served, 1, 0.01);
    free(w);
}

/* An item may cost millions of quanta. Its payer waits for as many turns of others; skipping them takes no time. */
static void a_debt_of_millions_of_rounds_is_passed_at_once(void **state)
{
    (void)state;
    world *w = new_world(MIB, 8 * MIB);
    load *slow = add(w, 0, RP_PRIORITY_BACKGROUND, RD_QUEUE_LARGE, 1000, 4);
    slow->spent = UINT64_C(1) << 55;
    serve(w, RD_QUEUE_LARGE, 1000 * 1000);
    assert_int_equal(slow->served, 1000 * 1000);
    free(w);
}

/* A taker that got back more than its next items cost, and then queues nothing, begins again without credit. */
static void what_is_given_back_is_not_saved(void **state)
{
    (void)state;
    world *w = new_world(MIB, 800 * MIB);
    load *back = add(w, 0, RP_PRIORITY_NORMAL, RD_QUEUE_LARGE, 100 * MIB, 1);
    assert_ptr_equal(rd_sched_next(&w->sched, RD_QUEUE_LARGE), &back->item[0]);
    rd_sched_end(&w->sched, &back->item[0], 0);
    assert_int_equal(back->session.taker[RD_QUEUE_LARGE].credit, 0);
    assert_int_equal(w->user[0].taker[RD_QUEUE_LARGE][RP_PRIORITY_NORMAL].credit, 0);
    assert_int_equal(w->sched.queue[RD_QUEUE_LARGE].class[RP_PRIORITY_NORMAL].credit, 0);
    free(w);
}

/* However few bytes the items have, a newcomer waits for at most a window of the engine's work and one more item. */
static void slow_items_fill_a_window(void **state)
{
    (void)state;
    for (int queue = RD_QUEUE_SMALL; queue <= RD_QUEUE_LARGE; queue++) {
        world *w = new_world(8 * MIB, 8 * MIB);
        rd_item item[4];
        rd_sched_init(&w->sched, 8 * MIB, 8 * MIB);
        load *l = add(w, 0, RP_PRIORITY_NORMAL, (rd_queue_kind)queue, 1, 0);
        for (int i = 0; i < 4; i++)
            rd_sched_put(&w->sched, &l->session, &item[i], (rd_queue_kind)queue, 100, RD_WINDOW_NS - 1);
        assert_ptr_equal(rd_sched_next(&w->sched, (rd_queue_kind)queue), &item[0]);
        assert_ptr_equal(rd_sched_next(&w->sched, (rd_queue_kind)queue), &item[1]);
        assert_null(rd_sched_next(&w->sched, (rd_queue_kind)queue));
        rd_sched_end(&w->sched, &item[0], 5);
        assert_ptr_equal(rd_sched_next(&w->sched, (rd_queue_kind)queue), &item[2]);
        assert_null(rd_sched_next(&w->sched, (rd_queue_kind)queue));
        free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_shared_whatever_their_cut),
        cmocka_unit_test(one_session_gets_as_much_as_eight_of_another_user),
        cmocka_unit_test(classes_have_their_weights),
        cmocka_unit_test(a_newcomer_is_served_within_a_round),
        cmocka_unit_test(idle_time_is_not_saved),
        cmocka_unit_test(queues_have_windows_of_their_own),
        cmocka_unit_test(order_within_a_session_is_that_of_coming),
        cmocka_unit_test(items_are_taken_back),
        cmocka_unit_test(nothing_is_lost_in_any_order),
        cmocka_unit_test(what_an_item_took_is_paid_afterwards),
        cmocka_unit_test(a_debt_of_millions_of_rounds_is_passed_at_once),
        cmocka_unit_test(what_is_given_back_is_not_saved),
        cmocka_unit_test(slow_items_fill_a_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
