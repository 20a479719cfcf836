/* Turns at TLS handshakes: how much processor time one address and all addresses get, and which connection is next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/net/handshakes.h"
#include "daemon/net/limits.h"

enum { MANY = 400, OF_ADDRESS = 64 + 1, OF_ALL = 256 + 1 }; /* at once: the first beyond the burst has paid nothing before */

static const uint64_t START = UINT64_C(1000000000000), PRICE = RD_HANDSHAKE_NS * RD_HANDSHAKE_SHARE;

static rd_handshakes h;
static rd_handshake of_a[MANY], of_b[MANY];

static int set_up(void **state)
{
    (void)state;
    rd_handshakes_init(&h, 7);
    for (unsigned i = 0; i < MANY; i++) {
        of_a[i] = (rd_handshake){.key = 1};
        of_b[i] = (rd_handshake){.key = 2};
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rd_handshakes_fini(&h);
    return 0;
}

static unsigned ask(rd_handshake *x, unsigned n, uint64_t now)
{
    unsigned begun = 0;
    for (unsigned i = 0; i < n; i++)
        begun += rd_handshakes_ask(&h, &x[i], now);
    return begun;
}

static void an_address_has_its_share(void **state)
{
    (void)state;
    assert_int_equal(ask(of_a, OF_ADDRESS + 10, START), OF_ADDRESS);
    assert_int_equal(ask(of_b, 5, START), 5); /* another address does not wait for it */
    assert_null(rd_handshakes_next(&h, START));
    unsigned next = OF_ADDRESS;
    for (uint64_t now = START; now <= START + 8 * PRICE; now += PRICE / 4) {
        rd_handshake *x = rd_handshakes_next(&h, now);
        if (x) {
            assert_ptr_equal(x, &of_a[next++]); /* the oldest first */
            assert_false(x->waits);
        }
    }
    assert_int_equal(next, OF_ADDRESS + 8); /* a handshake in as much time as one pays for */
    assert_true(rd_handshakes_wait(&h));
}

static void one_that_comes_later_does_not_overtake(void **state)
{
    (void)state;
    ask(of_a, OF_ADDRESS + 1, START);
    assert_false(rd_handshakes_ask(&h, &of_a[OF_ADDRESS + 1], START + 10 * PRICE));
    assert_ptr_equal(rd_handshakes_next(&h, START + 10 * PRICE), &of_a[OF_ADDRESS]);
    assert_ptr_equal(rd_handshakes_next(&h, START + 10 * PRICE), &of_a[OF_ADDRESS + 1]);
    assert_false(rd_handshakes_wait(&h));
}

static void all_addresses_have_a_core(void **state)
{
    (void)state;
    unsigned begun = 0, later = 0;
    for (unsigned i = 0; i < MANY; i++) {
        of_a[i].key = i * UINT64_C(0x123456789abcdef);
        begun += rd_handshakes_ask(&h, &of_a[i], START);
    }
    assert_int_equal(begun, OF_ALL);
    for (uint64_t now = START; now < START + 100 * RD_HANDSHAKE_NS; now += RD_HANDSHAKE_NS / 2)
        later += rd_handshakes_next(&h, now) != NULL;
    assert_int_equal(later, 99);
}

/* Eight seconds of one handshake are paid by its address alone. */
static void what_it_takes_is_paid(void **state)
{
    (void)state;
    const uint64_t spent = UINT64_C(8000000000);
    assert_int_equal(ask(of_a, 1, START), 1);
    rd_handshakes_end(&h, of_a, spent);
    uint64_t free_at = START - RD_HANDSHAKE_BURST_NS + spent * RD_HANDSHAKE_SHARE;
    assert_int_equal(ask(of_a + 1, 1, free_at - 1), 0);
    assert_int_equal(ask(of_b, OF_ADDRESS, START), OF_ADDRESS);
    assert_null(rd_handshakes_next(&h, free_at - 1));
    assert_ptr_equal(rd_handshakes_next(&h, free_at), &of_a[1]);
}

static void what_was_paid_too_much_comes_back(void **state)
{
    (void)state;
    for (unsigned i = 0; i < MANY; i++) { /* peers that say nothing cost nothing */
        assert_true(rd_handshakes_ask(&h, &of_a[i], START));
        rd_handshakes_end(&h, &of_a[i], 0);
    }
    assert_int_equal(ask(of_b, OF_ADDRESS + 1, START), OF_ADDRESS);
}

static void those_that_leave_do_not_come_up(void **state)
{
    (void)state;
    ask(of_a, OF_ADDRESS + 3, START);
    assert_true(rd_handshakes_leave(&h, &of_a[OF_ADDRESS + 1]));
    assert_false(rd_handshakes_leave(&h, &of_a[OF_ADDRESS + 1]));
    assert_false(rd_handshakes_leave(&h, &of_a[0])); /* it has begun */
    assert_ptr_equal(rd_handshakes_next(&h, START + 20 * PRICE), &of_a[OF_ADDRESS]);
    assert_ptr_equal(rd_handshakes_next(&h, START + 20 * PRICE), &of_a[OF_ADDRESS + 2]);
    assert_null(rd_handshakes_next(&h, START + 20 * PRICE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_address_has_its_share, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_comes_later_does_not_overtake, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_addresses_have_a_core, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_it_takes_is_paid, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_paid_too_much_comes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(those_that_leave_do_not_come_up, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
