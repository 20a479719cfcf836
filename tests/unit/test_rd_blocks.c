/* Blocks that threads keep: each is one thread's at a time, and nothing is left when the threads have ended (LeakSanitizer). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/blocks.h"

enum { HELD = 40, TURNS = 300 };

static const size_t sizes[] = {1, 1000, 1001, 4200, 17 << 10, (17 << 10) + 1, 1 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void *take_and_give(void *number)
{
    const unsigned char mine = (unsigned char)(uintptr_t)number;
    unsigned char *held[HELD] = {NULL};
    unsigned bad = 0;
    for (unsigned k = 0; k < TURNS; k++) {
        const unsigned i = k * 7 % HELD;
        const size_t size = sizes[i % SIZES];
        if (held[i]) {
            bad += held[i][0] != mine || held[i][size - 1] != mine;
            rd_block_free(held[i], size);
        }
        held[i] = rd_block_new(size);
        memset(held[i], mine, size);
    }
    for (unsigned i = 0; i < HELD; i++)
        rd_block_free(held[i], sizes[i % SIZES]);
    return (void *)(uintptr_t)bad;
}

static void each_thread_has_its_own(void **state)
{
    (void)state;
    pthread_t thread[4];
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, take_and_give, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++) {
        void *bad;
        pthread_join(thread[i], &bad);
        assert_null(bad);
    }
}

static void what_was_freed_is_the_next(void **state)
{
    (void)state;
    void *a = rd_block_new(4200);
    rd_block_free(a, 4200);
    void *b = rd_block_new(16 << 10);
    assert_ptr_equal(a, b);
    memset(b, 1, 16 << 10);
    rd_block_free(b, 16 << 10);
    rd_block_free(NULL, 4200);
}

static void *free_only(void *p)
{
    rd_block_free(p, 4200);
    return NULL;
}

/* Memory that one thread asked for and another one frees, which then ends. */
static void a_thread_that_ends_keeps_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, free_only, rd_block_new(4200)), 0);
        pthread_join(thread, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_thread_has_its_own),
        cmocka_unit_test(what_was_freed_is_the_next),
        cmocka_unit_test(a_thread_that_ends_keeps_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
