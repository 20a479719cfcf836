/* The daemon's options: bounds, files, flags, their precedence, and messages that name the wrong option. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/config.h"
#include "daemon/base/log.h"
#include "daemon/base/paths.h"
#include "proto/types.h"

static char why[RD_MAX_WHY];

static void write_file(char path[64], const char *text)
{
    strcpy(path, "/tmp/reduced-test-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/* Read a file with this text over the defaults. */
static bool read_text(rd_config *c, const char *text)
{
    char path[64];
    write_file(path, text);
    rd_config_defaults(c);
    bool ok = rd_config_read(c, path, NULL, why);
    unlink(path);
    return ok;
}

static void defaults_are_the_limits_of_the_protocol(void **state)
{
    (void)state;
    rd_config c;
    rd_config_defaults(&c);
    assert_int_equal(c.max_inflight, RP_MAX_INFLIGHT);
    assert_int_equal(c.max_streams, RP_MAX_STREAMS);
    assert_int_equal(c.max_sessions, RP_MAX_SESSIONS);
    assert_int_equal(c.socket_mode, 0660);
    assert_int_equal(c.log_level, RD_LOG_INFO);
    assert_int_equal(c.listens, 0);
}

static void values_have_bounds(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value;
        bool ok;
    } cases[] = {{"device", "0", true},          {"device", "1024", false},      {"device", "-1", false},
                 {"device", "", false},          {"device", "1x", false},        {"device", " 1", false},
                 {"contexts", "7", false},       {"contexts", "8", true},        {"backend", "cuda", true},
                 {"backend", "cud", false},      {"backend", "auto|cpu", false}, {"backend", "", false},
                 {"socket-mode", "0666", true},  {"socket-mode", "666", true},   {"socket-mode", "0400", false},
                 {"socket-mode", "0688", false}, {"socket-mode", "1000", false}, {"log-level", "debug", true},
                 {"drain", "3601", false},       {"drain", "0", true},           {"drain", "99999999999999999999", false},
                 {"nonsense", "1", false},       {"listen", "ipc:///x", true},   {"listen", "ipc://x", false},
                 {"listen", "ipc:///", false},   {"listen", "tcp://*:1", true},  {"listen", "ws://a", false},
                 {"trace", "/a b", true},        {"trace", "/a ;b", false},      {"trace", "/a ", false},
                 {"trace", "/a\nb", false},      {"trace", "/a;b", true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rd_config c;
        rd_config_defaults(&c);
        why[0] = '\0';
        assert_int_equal(rd_config_set(&c, cases[i].name, cases[i].value, why), cases[i].ok);
        if (!cases[i].ok)
            assert_non_null(strstr(why, cases[i].name)); /* the message names the option */
    }
}

static void socket_paths_and_urls_are_bounded(void **state)
{
    (void)state;
    rd_config c;
    char url[200] = "ipc:///";
    rd_config_defaults(&c);
    memset(url + 7, 'a', 106); /* 107 bytes with the slash: the longest path */
    assert_true(rd_config_set(&c, "listen", url, why));
    url[7 + 106] = 'a';
    assert_false(rd_config_set(&c, "listen", url, why));
    while (c.listens < RD_MAX_LISTEN)
        assert_true(rd_config_set(&c, "listen", "tcp://127.0.0.1:1", why));
    assert_false(rd_config_set(&c, "listen", "tcp://127.0.0.1:1", why));
}

static void a_file_sets_options(void **state)
{
    (void)state;
    rd_config c;
    assert_true(read_text(&c, "# comment\n[reduced]\nlisten = ipc:///a\nlisten=ipc:///b\n"
                              "backend = cpu ; why\nmax-inflight = 3 # few\n  # and\n"));
    assert_int_equal(c.listens, 2);
    assert_string_equal(c.listen[1], "ipc:///b");
    assert_int_equal(c.backend, RP_BACKEND_CPU);
    assert_int_equal(c.max_inflight, 3);
}

static void a_bad_file_names_line_key_and_limit(void **state)
{
    (void)state;
    rd_config c;
    assert_false(read_text(&c, "device = 1\n\n# x\nmax-inflight = 9999\n"));
    assert_non_null(strstr(why, ":4: max-inflight = 9999"));
    assert_non_null(strstr(why, "4096"));
    assert_false(read_text(&c, "device = 1\ncolour = red\n"));
    assert_non_null(strstr(why, ":2: unknown option 'colour'"));
    assert_false(read_text(&c, "device = 1\njust words\n"));
    assert_non_null(strstr(why, ":2: 'name = value'"));
    assert_false(read_text(&c, "[other]\ndevice = 1\n"));
    assert_non_null(strstr(why, "[other]"));
    char line[400] = "# ";
    memset(line + 2, 'x', 300);
    strcpy(line + 302, "\ndevice = 1\n");
    assert_false(read_text(&c, line));
    assert_non_null(strstr(why, ":1: the line is too long"));
    rd_config_defaults(&c);
    assert_false(rd_config_read(&c, "/nonexistent/file", NULL, why));
    assert_non_null(strstr(why, "/nonexistent/file"));
}

static bool load(rd_config *c, rd_command *cmd, const char *const *flags)
{
    char *argv[16] = {(char *)"reduced"};
    int n = 1;
    for (; flags[n - 1]; n++)
        argv[n] = (char *)flags[n - 1];
    return rd_config_load(c, cmd, n, argv, NULL, why);
}

static void flags_win_over_the_file(void **state)
{
    (void)state;
    rd_config c;
    rd_command cmd;
    char path[64];
    write_file(path, "listen = ipc:///file\ndevice = 1\nslots = 2\n");
    assert_true(load(
        &c, &cmd,
        (const char *[]){"--config", path, "--listen", "ipc:///a", "--device=5", "--listen=ipc:///b", "--autostarted", NULL}));
    unlink(path);
    assert_int_equal(c.listens, 2);
    assert_string_equal(c.listen[0], "ipc:///a");
    assert_string_equal(c.devices, "5");
    assert_int_equal(c.slots, 2);
    assert_true(cmd.autostarted);
}

static void bad_flags_are_told(void **state)
{
    (void)state;
    rd_config c;
    rd_command cmd;
    assert_false(load(&c, &cmd, (const char *[]){"--colour", "red", NULL}));
    assert_non_null(strstr(why, "--colour"));
    assert_false(load(&c, &cmd, (const char *[]){"--device", NULL}));
    assert_non_null(strstr(why, "--device needs a value"));
    assert_false(load(&c, &cmd, (const char *[]){"file", NULL}));
    assert_non_null(strstr(why, "'file'"));
    assert_false(load(&c, &cmd, (const char *[]){"--help=yes", NULL}));
    assert_false(load(&c, &cmd, (const char *[]){"--config", "/nonexistent/file", NULL}));
}

static void without_urls_the_default_is_served(void **state)
{
    (void)state;
    rd_config c;
    rd_command cmd;
    char url[RD_MAX_URL];
    assert_true(load(&c, &cmd, (const char *[]){"--config", "/dev/null", NULL}));
    assert_int_equal(c.listens, 1);
    assert_true(rd_default_url(url, sizeof url));
    assert_string_equal(c.listen[0], url);
    assert_non_null(rd_ipc_path(url));
}

static void a_dump_reads_back(void **state)
{
    (void)state;
    rd_config c, back;
    char *text = NULL;
    size_t size = 0;
    static const char *const paths[] = {"tls-cert", "tls-key", "tls-ca", "tls-crl", "trace"};
    char file[RD_MAX_FILE + 1] = "/";
    memset(file + 1, 'k', RD_MAX_FILE - 1);
    rd_config_defaults(&c);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        assert_false(rd_config_set(&c, paths[i], file, why));
    file[RD_MAX_FILE - 1] = '\0'; /* the longest path makes the longest line */
    assert_true(rd_config_set(&c, "tls-cert", file, why));
    assert_true(rd_config_set(&c, "listen", "tcp://[::1]:7", why));
    assert_true(rd_config_set(&c, "backend", "cpu", why));
    assert_true(rd_config_set(&c, "socket-mode", "0600", why));
    FILE *out = open_memstream(&text, &size);
    rd_config_dump(&c, out);
    fclose(out);
    assert_true(read_text(&back, text));
    free(text);
    assert_memory_equal(&c, &back, sizeof c);
}

static void lists_belong_to_the_socket_before_them(void **state)
{
    (void)state;
    rd_config c, back;
    char *text = NULL;
    size_t size = 0;
    assert_true(read_text(&c, "allow-uid = 1\nlisten = ipc:///a\nlisten = ipc:///b\nallow-uid = 2\nallow-gid = 3\n"
                              "allow-uid = 4\nsocket-group = 5\nsocket-group = 6\ntls-ca = /ca.pem\nlisten = tls+tcp://a:1\n"
                              "allow-name = alice\nallow-name = bob@example.org\n"));
    assert_int_equal(c.allow[3].names.n, 2);
    assert_string_equal(c.allow[3].names.name[1], "bob@example.org");
    assert_int_equal(c.allow[0].users.n, 1);
    assert_int_equal(c.allow[1].users.n + c.allow[1].groups.n, 0);
    assert_int_equal(c.allow[2].users.n, 2);
    assert_int_equal(c.allow[2].users.id[1], 4);
    assert_int_equal(c.allow[2].groups.id[0], 3);
    assert_int_equal(c.socket_group.n, 1);
    assert_int_equal(c.socket_group.id[0], 6);
    FILE *out = open_memstream(&text, &size);
    rd_config_dump(&c, out);
    fclose(out);
    assert_true(read_text(&back, text));
    free(text);
    assert_memory_equal(c.allow, back.allow, sizeof c.allow);
    assert_int_equal(back.socket_group.id[0], 6);
    assert_string_equal(back.tls_ca, "/ca.pem");
}

static void flags_replace_sockets_with_their_lists(void **state)
{
    (void)state;
    rd_config c;
    rd_command cmd;
    char path[64];
    write_file(path, "allow-uid = 1\nlisten = ipc:///file\nallow-uid = 2\n");
    assert_true(load(&c, &cmd,
                     (const char *[]){"--config", path, "--allow-uid", "3", "--listen", "ipc:///a", "--allow-gid", "4", NULL}));
    assert_int_equal(c.allow[0].users.n, 1); /* before any --listen: for all sockets, in place of those of the file */
    assert_int_equal(c.allow[0].users.id[0], 3);
    assert_int_equal(c.allow[1].users.n, 0);
    assert_int_equal(c.allow[1].groups.id[0], 4);
    assert_true(load(&c, &cmd, (const char *[]){"--config", path, NULL}));
    unlink(path);
    assert_int_equal(c.allow[1].users.id[0], 2);
}

static char told[4096];

static void note(const char *line)
{
    strncat(told, line, sizeof told - strlen(told) - 2);
    strcat(told, "\n");
}

static unsigned reload(rd_config *now, const rd_config *fresh, char *names, size_t cap)
{
    told[0] = '\0';
    return rd_config_reload(now, fresh, note, names, cap);
}

static void a_reload_takes_what_can_change(void **state)
{
    (void)state;
    rd_config now, fresh;
    char names[RD_MAX_WHY];
    rd_config_defaults(&now);
    fresh = now;
    assert_int_equal(reload(&now, &fresh, names, sizeof names), 0);
    assert_string_equal(told, "");
    fresh.max_inflight = 5;
    fresh.drain = 1;
    fresh.backend = RP_BACKEND_CPU;
    assert_true(rd_config_set(&fresh, "listen", "ipc:///x", why));
    assert_true(rd_config_set(&fresh, "allow-gid", "7", why));
    assert_true(rd_config_set(&fresh, "allow-name", "alice", why));
    assert_true(rd_config_set(&fresh, "tls-key", "/k", why));
    assert_int_equal(reload(&now, &fresh, names, sizeof names), 2);
    assert_string_equal(names, "listen backend");
    assert_string_equal(told, "tls-key: /k instead of none\nmax-inflight: 5 instead of 64\ndrain: 1 instead of 10\n");
    assert_string_equal(now.tls_key, "/k");
    assert_int_equal(now.max_inflight, 5);
    assert_int_equal(now.drain, 1);
    assert_int_equal(now.backend, 0);
    assert_int_equal(now.listens, 0);
    assert_int_equal(reload(&now, &fresh, names, 4), 2); /* names that do not fit are cut */
    assert_string_equal(names, "lis");
}

static void a_reload_compares_each_url(void **state)
{
    (void)state;
    rd_config now, fresh;
    char names[RD_MAX_WHY];
    rd_config_defaults(&now);
    assert_true(rd_config_set(&now, "listen", "ipc:///x", why) && rd_config_set(&now, "listen", "ipc:///y", why));
    fresh = now;
    assert_int_equal(reload(&now, &fresh, names, sizeof names), 0);
    rd_config_defaults(&fresh);
    assert_true(rd_config_set(&fresh, "listen", "ipc:///x", why) && rd_config_set(&fresh, "listen", "ipc:///z", why));
    assert_int_equal(reload(&now, &fresh, names, sizeof names), 1);
    assert_string_equal(names, "listen");
}

/* "name value" each */
static void set_all(rd_config *c, const char *const *options)
{
    rd_config_defaults(c);
    for (; *options; options += 2)
        assert_true(rd_config_set(c, options[0], options[1], why));
}

/* The URLs may come in another order, and one of them may have gone: that one keeps its lists. */
static void a_reload_takes_the_lists_of_each_url(void **state)
{
    (void)state;
    rd_config now, fresh;
    char names[RD_MAX_WHY];
    set_all(&now,
            (const char *const[]){"allow-uid", "1", "listen", "ipc:///x", "allow-uid", "2", "allow-uid", "3", "listen",
                                  "ipc:///gone", "allow-uid", "4", "listen", "tls+tcp://a:1", "allow-name", "alice", NULL});
    set_all(&fresh, (const char *const[]){"allow-uid", "5", "listen", "tls+tcp://a:1", "allow-name", "bob", "listen",
                                          "ipc:///x", "allow-uid", "3", "allow-gid", "6", NULL});
    assert_int_equal(reload(&now, &fresh, names, sizeof names), 1);
    assert_string_equal(names, "listen");
    assert_string_equal(told, "allow-uid: 5 is added\nallow-uid: 1 is removed\n"
                              "allow-uid of ipc:///x: 2 is removed\nallow-gid of ipc:///x: 6 is added\n"
                              "allow-name of tls+tcp://a:1: bob is added\nallow-name of tls+tcp://a:1: alice is removed\n");
    assert_int_equal(now.allow[0].users.id[0], 5);
    assert_int_equal(now.allow[1].users.n, 1);
    assert_int_equal(now.allow[1].users.id[0], 3);
    assert_int_equal(now.allow[1].groups.id[0], 6);
    assert_int_equal(now.allow[2].users.id[0], 4);
    assert_string_equal(now.allow[3].names.name[0], "bob");
}

static void log_text_is_escaped(void **state)
{
    (void)state;
    char out[64];
    assert_int_equal(rd_log_escape(out, sizeof out, "a\nb\x1b[1m\xc3\xa4"), 21);
    assert_string_equal(out, "a\\x0ab\\x1b[1m\\xc3\\xa4");
    assert_int_equal(rd_log_escape(out, 8, "abcdefgh"), 4); /* never half an escape */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_the_limits_of_the_protocol),
        cmocka_unit_test(values_have_bounds),
        cmocka_unit_test(socket_paths_and_urls_are_bounded),
        cmocka_unit_test(a_file_sets_options),
        cmocka_unit_test(a_bad_file_names_line_key_and_limit),
        cmocka_unit_test(flags_win_over_the_file),
        cmocka_unit_test(bad_flags_are_told),
        cmocka_unit_test(without_urls_the_default_is_served),
        cmocka_unit_test(a_dump_reads_back),
        cmocka_unit_test(lists_belong_to_the_socket_before_them),
        cmocka_unit_test(flags_replace_sockets_with_their_lists),
        cmocka_unit_test(a_reload_takes_what_can_change),
        cmocka_unit_test(a_reload_compares_each_url),
        cmocka_unit_test(a_reload_takes_the_lists_of_each_url),
        cmocka_unit_test(log_text_is_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
