/* reducectl top: reading metrics, and what is made of two texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <string.h>

#include "client/ctl/top.h"

static ctl_metrics read_text(const char *text)
{
    ctl_metrics m;
    assert_true(ctl_metrics_read(&m, text));
    return m;
}

static void samples_are_found_by_name_and_labels(void **state)
{
    (void)state;
    size_t n;
    ctl_metrics m = read_text("# HELP b_total x\nb_total{op=\"sum\"} 2\na 1.5\nb_total{op=\"max\"} 3\n\nc{le=\"+Inf\"} 4e2");
    assert_true(ctl_metrics_value(&m, "a", "") == 1.5);
    assert_true(ctl_metrics_value(&m, "b_total", "op=\"max\"") == 3);
    assert_true(ctl_metrics_value(&m, "c", "le=\"+Inf\"") == 400);
    assert_true(ctl_metrics_value(&m, "b_total", "") == 0);
    assert_string_equal(ctl_metrics_family(&m, "b_total", &n)->labels, "op=\"max\"");
    assert_int_equal(n, 2);
    ctl_metrics_family(&m, "nothing", &n);
    assert_int_equal(n, 0);
    ctl_metrics_free(&m);
}

static void labels_may_hold_anything(void **state)
{
    (void)state;
    char out[24], cut[4];
    ctl_metrics m = read_text("i{a=\"}{\\\" ,b=\\\"no\",b=\"yes\",empty=\"\",c=\"1\"} 1\n");
    const char *labels = m.sample[0].labels;
    assert_true(m.sample[0].value == 1);
    assert_string_equal(ctl_label(out, sizeof out, labels, "a"), "}{\" ,b=\"no");
    assert_string_equal(ctl_label(out, sizeof out, labels, "b"), "yes");
    assert_string_equal(ctl_label(out, sizeof out, labels, "empty"), "");
    assert_string_equal(ctl_label(out, sizeof out, labels, "c"), "1");
    assert_string_equal(ctl_label(out, sizeof out, labels, "d"), "");
    assert_string_equal(ctl_label(cut, sizeof cut, labels, "a"), "}{\"");
    ctl_metrics_free(&m);
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",       "# only\n",      "a",          "a b\n",      "a 1x\n",
                                      "a 1\nb", "a{b=\"c\" 1\n", "a{b=\"c\"}", "a{b=\"} 1\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ctl_metrics m;
        assert_false(ctl_metrics_read(&m, bad[i]));
        assert_null(m.text);
    }
}

/* ---- frames ---- */
static char shown[8192];
static int lines;

static void put(void *arg, bool heading, const char *line)
{
    (void)arg;
    lines++;
    snprintf(shown + strlen(shown), sizeof shown - strlen(shown), "%s%s\n", heading ? "|" : "", line);
}

static const char *frame(const char *then_text, const char *now_text, int rows)
{
    ctl_metrics then = read_text(then_text), now = read_text(now_text);
    shown[0] = '\0';
    lines = 0;
    ctl_frame(&then, &now, rows, put, NULL);
    ctl_metrics_free(&then);
    ctl_metrics_free(&now);
    return shown;
}

#define REQUESTS(op, result, n) \
    "reduced_requests_total{op=\"" op "\",dtype=\"f32\",path=\"inline\",result=\"" result "\"} " n "\n"

static void rates_are_differences_over_the_daemons_time(void **state)
{
    (void)state;
    const char *text = frame("reduced_uptime_seconds 10\n" REQUESTS("sum", "OK", "100") REQUESTS("sum", "NAN", "5"),
                             "reduced_uptime_seconds 12\n" REQUESTS("sum", "OK", "300") REQUESTS("sum", "NAN", "9")
                                 REQUESTS("max", "OK", "10"),
                             INT_MAX);
    assert_non_null(strstr(text, "sum            f32      inline          102.0        2.0            309\n"
                                 "max            f32      inline            5.0        0.0             10\n"));
}

static void a_daemon_started_anew_counts_from_zero(void **state)
{
    (void)state;
    const char *text = frame("reduced_uptime_seconds 1000\nreduced_user_requests_total{uid=\"7\"} 500\n",
                             "reduced_uptime_seconds 2\nreduced_user_requests_total{uid=\"7\"} 20\n", INT_MAX);
    assert_non_null(strstr(text, "         10.0        0.0             20\n"));
}

static void one_text_has_no_rates(void **state)
{
    (void)state;
    const char *text = "reduced_uptime_seconds 3\nreduced_messages_total{type=\"ping\"} 50\n";
    assert_non_null(strstr(frame(text, text, INT_MAX), "messages  0.0/s"));
}

static void quantiles_are_of_the_difference(void **state)
{
    (void)state;
#define BUCKET(le, n) "reduced_request_seconds_bucket{stage=\"total\",le=\"" le "\"} " n "\n"
    const char *text = frame("reduced_uptime_seconds 1\n" BUCKET("+Inf", "1000") BUCKET("0.001", "1000") BUCKET("0.0001", "0"),
                             "reduced_uptime_seconds 2\n" BUCKET("+Inf", "1100") BUCKET("0.001", "1100") BUCKET("0.0001", "50"),
                             INT_MAX);
    assert_non_null(strstr(text, "median 100.0 us  p99 982.0 us"));
#undef BUCKET
}

static void tables_keep_to_the_rows(void **state)
{
    (void)state;
    char text[4096] = "reduced_uptime_seconds 2\n";
    for (int i = 0; i < 30; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "reduced_user_requests_total{uid=\"%d\"} %d\n" REQUESTS("sum%d", "OK", "1"), i, i, i);
    for (int rows = 10; rows < 40; rows++) {
        frame("reduced_uptime_seconds 1\n", text, rows);
        assert_int_equal(lines, rows);
    }
    frame("reduced_uptime_seconds 1\n", text, 3);
    assert_int_equal(lines, 10);
    assert_non_null(strstr(frame("reduced_uptime_seconds 1\n", text, 13), "\n29 ")); /* the busiest user */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_found_by_name_and_labels),
        cmocka_unit_test(labels_may_hold_anything),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(rates_are_differences_over_the_daemons_time),
        cmocka_unit_test(a_daemon_started_anew_counts_from_zero),
        cmocka_unit_test(one_text_has_no_rates),
        cmocka_unit_test(quantiles_are_of_the_difference),
        cmocka_unit_test(tables_keep_to_the_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
