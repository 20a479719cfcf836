/* reducectl top: reading metrics, and the frames made of two texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <string.h>

#include "client/ctl/text/screen_text.h"
#include "client/ctl/top/top.h"

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
    ctl_moment then = {.metrics = read_text(then_text)}, now = {.metrics = read_text(now_text)};
    shown[0] = '\0';
    lines = 0;
    ctl_frame(&(ctl_view){.then = &then, .now = &now}, rows, INT_MAX, put, NULL);
    ctl_metrics_free(&then.metrics);
    ctl_metrics_free(&now.metrics);
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
    assert_non_null(strstr(text, "      10.0      0.0        20\n"));
}

static void users_of_certificates_have_their_names(void **state)
{
    (void)state;
    const char *text = frame("reduced_uptime_seconds 1\n",
                             "reduced_uptime_seconds 2\nreduced_user_requests_total{uid=\"tls:alice@example.org\"} 20\n",
                             INT_MAX);
    assert_non_null(strstr(text, "\ntls:alice@    0.0%"));
    assert_non_null(strstr(text, "       20  alice@example.org\n"));
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

static void pieces_are_not_requests(void **state)
{
    (void)state;
#define PIECES(path, n) "reduced_pieces_total{op=\"sum\",dtype=\"f32\",path=\"" path "\"} " n "\n"
#define OF_FILE(n) "reduced_requests_total{op=\"sum\",dtype=\"f32\",path=\"file\",result=\"OK\"} " n "\n"
    const char *text = frame(
        "reduced_uptime_seconds 10\n" REQUESTS("sum", "OK", "100") PIECES("inline", "50") OF_FILE("7") PIECES("file", "7"),
        "reduced_uptime_seconds 11\n" REQUESTS("sum", "OK", "300") PIECES("inline", "240") OF_FILE("9") PIECES("file", "9"),
        INT_MAX);
    assert_non_null(strstr(text, "sum            f32      inline           10.0        0.0             60\n"));
    assert_null(strstr(text, "file"));
    assert_non_null(strstr(text, "pieces 192.0/s"));
#undef PIECES
#undef OF_FILE
}

static void processes_are_read_from_their_text(void **state)
{
    (void)state;
    ctl_process p;
    assert_true(ctl_process_read(
        &p, "session.7",
        "uid=1000 pid=12 priority=normal requests=9 pieces=2 errors=1 bytes=4096 engine_us=1500 name=a uid=1 b"));
    assert_string_equal(p.uid, "1000");
    assert_string_equal(p.pid, "12");
    assert_string_equal(p.name, "a uid=1 b");
    assert_true(p.requests == 9 && p.pieces == 2 && p.errors == 1 && p.bytes == 4096 && p.engine_s == 0.0015);
    assert_true(ctl_process_read(&p, "session.8", "address=10.0.0.1:4 requests=1 name="));
    assert_string_equal(p.uid, "-");
    assert_string_equal(p.pid, "10.0.0.1:4");
    assert_string_equal(p.name, "");
    assert_true(ctl_process_read(&p, "session.8", "address=10.0.0.1:4 user=tls:a@b.c priority=normal requests=1 name= user=x"));
    assert_string_equal(p.uid, "tls:a@b.c");
    assert_true(ctl_process_read(&p, "session.8", "address=10.0.0.1:4 priority=normal requests=1 name= user=x"));
    assert_string_equal(p.uid, "-");
    assert_false(ctl_process_read(&p, "sessions", "uid=1 name=x"));
    assert_false(ctl_process_read(&p, "session.9", "uid=1"));
}

/* The order of two processes: a busy one with little data, and a lazy one with much. */
static const char *sorted_processes(ctl_sort by)
{
    ctl_process was[] = {{.key = "1", .pid = "11", .name = "zeal"}, {.key = "2", .pid = "12", .name = "calm"}};
    ctl_process is[] = {was[0], was[1]};
    is[0].requests = 100;
    is[0].bytes = 10;
    is[0].engine_s = 0.5;
    is[1].requests = 50;
    is[1].bytes = 4096;
    is[1].engine_s = 0.1;
    was[1].requests = 30;
    ctl_moment then = {read_text("reduced_uptime_seconds 1\n"), was, 2}, now = {read_text("reduced_uptime_seconds 2\n"), is, 2};
    shown[0] = '\0';
    ctl_frame(&(ctl_view){.then = &then, .now = &now, .sort = by}, INT_MAX, INT_MAX, put, NULL);
    ctl_metrics_free(&then.metrics);
    ctl_metrics_free(&now.metrics);
    return shown;
}

static void keys_choose_the_order(void **state)
{
    (void)state;
    static const struct {
        ctl_sort by;
        bool zeal_first;
    } cases[] = {
        {CTL_BY_REQUESTS, true}, {CTL_BY_DATA, false}, {CTL_BY_ENGINE, true}, {CTL_BY_TOTAL, true}, {CTL_BY_NAME, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = sorted_processes(cases[i].by);
        assert_true((strstr(text, "zeal") < strstr(text, "calm")) == cases[i].zeal_first);
    }
    assert_non_null(
        strstr(sorted_processes(CTL_BY_NAME), "12           10.0%    4.0 KiB/s       20.0      0.0        50  calm ("));
}

static void put_on_a_screen(void *arg, bool heading, const char *line)
{
    (void)heading;
    assert_in_range(ctl_columns(line), 0, 80);
    strcat(arg, line);
    strcat(arg, "\n");
}

static void a_screen_of_80_columns_has_whole_fields(void **state)
{
    (void)state;
    char text[4096] = "";
    const char *metrics =
        "reduced_uptime_seconds 1\nreduced_queue_length{queue=\"large\"} 0\nreduced_queue_length{queue=\"small\"} 2\n"
        "reduced_pool_bytes{pool=\"arena\"} 123456789\nreduced_pool_cap_bytes{pool=\"arena\"} 5000000000\n"
        "reduced_pool_bytes{pool=\"pinned\"} 123456789\nreduced_pool_cap_bytes{pool=\"pinned\"} 5000000000\n"
        "reduced_pool_bytes{pool=\"resident\"} 123456789\nreduced_pool_cap_bytes{pool=\"resident\"} 5000000000\n";
    ctl_process mine = {
        .key = "1", .pid = "4194304", .uid = "4000000000", .name = "\xe6\x97\xa5\xe6\x9c\xac a long name of a program"};
    ctl_moment now = {read_text(metrics), &mine, 1};
    ctl_history h = {.n = CTL_HISTORY};
    ctl_frame(&(ctl_view){.then = &now, .now = &now, .history = &h}, 24, 80, put_on_a_screen, text);
    assert_non_null(strstr(text, "  pinned 117.7 MiB of 4.7 GiB\n          resident 117.7 MiB of 4.7 GiB\n"));
    assert_non_null(strstr(text, "queues    small 2  sessions"));
    assert_non_null(strstr(text, "  \xe6\x97\xa5\xe6\x9c\xac (4000000000)\n"));
    ctl_metrics_free(&now.metrics);
}

static void history_is_a_line_of_heights(void **state)
{
    (void)state;
    ctl_moment then = {.metrics = read_text("reduced_uptime_seconds 1\n")}, now = then;
    ctl_history h = {.requests = {0, 1, 4, 8}, .bytes = {0, 0, 0, 0}, .n = 4};
    shown[0] = '\0';
    ctl_frame(&(ctl_view){.then = &then, .now = &now, .history = &h}, INT_MAX, INT_MAX, put, NULL);
    assert_non_null(strstr(shown, "history   requests _.-# "));
    assert_non_null(strstr(shown, "most 8.0/s"));
    assert_non_null(strstr(shown, "data     ____ "));
    for (int i = 0; i < 2 * CTL_HISTORY; i++)
        ctl_history_add(&h, &(ctl_view){.then = &then, .now = &now});
    assert_int_equal(h.n, CTL_HISTORY);
    ctl_metrics_free(&then.metrics);
}

static void a_device_has_a_line_if_it_is_metered(void **state)
{
    (void)state;
    const char *device = "reduced_uptime_seconds 1\nreduced_device_memory_bytes{kind=\"used\"} 1073741824\n"
                         "reduced_device_memory_bytes{kind=\"total\"} 4294967296\nreduced_device_temperature_celsius 45\n"
                         "reduced_device_busy_ratio 0.37\nreduced_device_power_watts 120.5\n";
    assert_non_null(strstr(frame(device, device, INT_MAX), "device    busy 37%  memory 1.0 GiB of 4.0 GiB  45 C  120 W"));
    assert_null(strstr(frame("reduced_uptime_seconds 1\n", "reduced_uptime_seconds 2\n", INT_MAX), "device  "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_found_by_name_and_labels),
        cmocka_unit_test(labels_may_hold_anything),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(rates_are_differences_over_the_daemons_time),
        cmocka_unit_test(a_daemon_started_anew_counts_from_zero),
        cmocka_unit_test(users_of_certificates_have_their_names),
        cmocka_unit_test(one_text_has_no_rates),
        cmocka_unit_test(quantiles_are_of_the_difference),
        cmocka_unit_test(tables_keep_to_the_rows),
        cmocka_unit_test(pieces_are_not_requests),
        cmocka_unit_test(processes_are_read_from_their_text),
        cmocka_unit_test(keys_choose_the_order),
        cmocka_unit_test(a_screen_of_80_columns_has_whole_fields),
        cmocka_unit_test(history_is_a_line_of_heights),
        cmocka_unit_test(a_device_has_a_line_if_it_is_metered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
