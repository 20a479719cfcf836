/* Heads of http requests, right and wrong, whole and cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/net/http_request.h"

/* In memory of its own size, so that a sanitizer sees a byte too many. */
static bool parse(rd_http_request *r, const char *text, size_t n)
{
    char *copy = malloc(n + 1);
    assert_non_null(copy);
    memcpy(copy + 1, text, n);
    bool whole = rd_http_parse(r, copy + 1, n);
    free(copy);
    return whole;
}

static rd_http_request parsed(const char *text)
{
    rd_http_request r;
    assert_true(parse(&r, text, strlen(text)));
    return r;
}

static void a_request_is_whole_at_its_empty_line(void **state)
{
    (void)state;
    static const char text[] = "GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nUser-Agent: b c\r\n\r\n";
    rd_http_request r;
    for (size_t n = 0; n + 1 < sizeof text; n++)
        assert_false(parse(&r, text, n));
    r = parsed("GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nUser-Agent: b c\r\n\r\nGET / HT");
    assert_int_equal(r.status, 200);
    assert_int_equal(r.size, sizeof text - 1);
    assert_string_equal(r.path, "/metrics");
    assert_true(r.keep && !r.head_only);
    assert_true(parsed("HEAD / HTTP/1.1\n\n").head_only);
}

static void connections_end_as_the_client_says(void **state)
{
    (void)state;
    assert_false(parsed("GET / HTTP/1.0\r\n\r\n").keep);
    assert_false(parsed("GET / HTTP/1.1\r\nconnection:  CLOSE \r\n\r\n").keep);
    assert_false(parsed("GET / HTTP/1.1\r\nConnection: TE, close\r\n\r\n").keep); /* as perl's libwww asks */
    assert_false(parsed("GET / HTTP/1.1\r\nConnection: Close ,x\r\n\r\n").keep);
    assert_true(parsed("GET / HTTP/1.1\r\nConnection: closed, xclose,,\r\n\r\n").keep);
    assert_true(parsed("GET / HTTP/1.1\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n").keep);
}

static bool is_local(const char *fields)
{
    char text[256];
    snprintf(text, sizeof text, "GET / HTTP/1.1\r\n%s\r\n", fields);
    return parsed(text).host_is_local;
}

static void one_host_that_is_this_machine_is_local(void **state)
{
    (void)state;
    assert_true(is_local("Host: localhost\r\n") && is_local("host:LocalHost:80\r\n") && is_local("Host: 127.0.0.1\r\n"));
    assert_true(is_local("A: b\r\nHost:  [::1]:9 \r\n"));
    assert_false(is_local("") || is_local("Host:\r\n") || is_local("Host: localhost.\r\n") || is_local("Host: localhosts\r\n"));
    assert_false(is_local("Host: a\r\nHost: localhost\r\n") || is_local("Host: localhost\r\nHost: a\r\n"));
    assert_false(is_local("Host: localhost\r\nHost: localhost\r\n") || is_local("X-Host: localhost\r\n"));
}

static bool takes_gzip(const char *fields)
{
    char text[256];
    snprintf(text, sizeof text, "GET / HTTP/1.1\r\n%s\r\n", fields);
    return parsed(text).gzip;
}

static void gzip_is_for_those_who_accept_it(void **state)
{
    (void)state;
    static const char *const accept[] = {
        "gzip",        "gzip, deflate, br", "br , GZIP", "deflate;q=1, gzip;q=0.001", "*", "br;q=0, *;q=0.5", "*;q=0, gzip",
        "gzip, *;q=0", "gzip ; q=1",        ",,gzip"};
    static const char *const refuse[] = {"",      "identity",    "deflate, br", "gzip;q=0",     "gzip;q=0.0", "gzip; Q=0.000",
                                         "*;q=0", "gzip;q=0, *", "*, gzip;q=0", "xgzip, gzipx", "br;gzip",    ";",
                                         ",",     "gzi"};
    char field[128];
    for (size_t i = 0; i < sizeof accept / sizeof *accept; i++) {
        snprintf(field, sizeof field, "Accept-Encoding: %s\r\n", accept[i]);
        assert_true(takes_gzip(field));
    }
    for (size_t i = 0; i < sizeof refuse / sizeof *refuse; i++) {
        snprintf(field, sizeof field, "accept-encoding: %s\r\n", refuse[i]);
        assert_false(takes_gzip(field));
    }
    assert_false(takes_gzip("") || takes_gzip("Accept: gzip\r\n"));
    assert_true(takes_gzip("Accept-Encoding: br\r\nAccept-Encoding: gzip\r\n"));
}

static void others_are_refused_and_end_the_connection(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
    } bad[] = {{"\r\n\r\n", 400},
               {"GET\r\n\r\n", 400},
               {"GET / HTTP/2\r\n\r\n", 400},
               {"GET  / HTTP/1.1\r\n\r\n", 400},
               {"GET / HTTP/1.1 \r\n\r\n", 400},
               {"GET /\x01 HTTP/1.1\r\n\r\n", 400},
               {"\x16\x03\x01\n\r\n", 400},
               {"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400},
               {"GET / HTTP/1.1\r\nA: b\r\n folded: c\r\n\r\n", 400},
               {"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405},
               {"get / HTTP/1.1\r\n\r\n", 405},
               {"GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 413},
               {"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 413}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rd_http_request r = parsed(bad[i].text);
        assert_int_equal(r.status, bad[i].status);
        assert_false(r.keep);
    }
}

static void long_ones_end(void **state)
{
    (void)state;
    char text[RD_HTTP_MAX_HEAD];
    rd_http_request r;
    memset(text, 'a', sizeof text);
    memcpy(text, "GET /", 5);
    assert_false(parse(&r, text, sizeof text - 1));
    assert_true(parse(&r, text, sizeof text));
    assert_int_equal(r.status, 431);
    memcpy(text + 200, " HTTP/1.1\r\n\r\n", 13);
    assert_true(parse(&r, text, sizeof text));
    assert_int_equal(r.status, 200);
    assert_string_equal(r.path, ""); /* no page's */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_whole_at_its_empty_line),      cmocka_unit_test(connections_end_as_the_client_says),
        cmocka_unit_test(one_host_that_is_this_machine_is_local),    cmocka_unit_test(gzip_is_for_those_who_accept_it),
        cmocka_unit_test(others_are_refused_and_end_the_connection), cmocka_unit_test(long_ones_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
