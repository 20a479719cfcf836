/* When `reducectl` reports its progress in a log: not in the first second, then a line each second however much is added. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/ctl/ctl.h"
#include "proto/clock.h"

static uint64_t now_ns;

/* The clock of everything here. */
int clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    *t = rp_timespec(now_ns);
    return 0;
}

/* The lines on standard error of one addition at `at_ns`. */
static int lines_at(ctl_progress *p, uint64_t at_ns)
{
    char text[1024] = "";
    FILE *f = tmpfile();
    int kept = dup(STDERR_FILENO), n = 0;
    assert_true(f && kept >= 0);
    now_ns = at_ns;
    fflush(stderr);
    dup2(fileno(f), STDERR_FILENO);
    ctl_progress_add(p, 1000);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    for (const char *c = text; *c; c++)
        n += *c == '\n';
    return n;
}

static ctl_progress begun(void)
{
    const uint64_t second = 1000000000;
    int terminal = isatty(STDERR_FILENO);
    ctl_progress p;
    now_ns = 100 * second;
    ctl_progress_start(&p, "x", 10000, true, true);
    assert_true(p.on && p.lines == !terminal);
    p.lines = true;
    return p;
}

static void a_line_each_second(void **state)
{
    (void)state;
    const uint64_t ms = 1000000;
    ctl_progress p = begun();
    uint64_t start = now_ns;
    assert_int_equal(lines_at(&p, start + 1), 0);
    assert_int_equal(lines_at(&p, start + 999 * ms), 0);
    assert_int_equal(lines_at(&p, start + 1000 * ms), 1);
    assert_int_equal(lines_at(&p, start + 1001 * ms), 0);
    assert_int_equal(lines_at(&p, start + 1999 * ms), 0);
    assert_int_equal(lines_at(&p, start + 2000 * ms), 1);
    assert_int_equal(lines_at(&p, start + 9000 * ms), 1);
    assert_int_equal(lines_at(&p, start + 9500 * ms), 0);
    assert_int_equal(p.done, 8000);
}

static void none_unless_asked_for(void **state)
{
    (void)state;
    ctl_progress p = begun();
    p.on = false;
    assert_int_equal(lines_at(&p, now_ns + 5000000000), 0);
    assert_int_equal(p.done, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_each_second),
        cmocka_unit_test(none_unless_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
