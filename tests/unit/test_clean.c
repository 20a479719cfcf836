/* Texts of strangers, for a terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/error.h"
#include "proto/clean.h"

static const struct {
    const char *text, *clean;
} cases[] = {
    {"", ""},
    {"plain ~!", "plain ~!"},
    {"\x1b[31m\x01\x7f\n\t", "?[31m????"},
    {"gr\xc3\xb6\xc3\x9f"
     "e \xe2\x82\xac \xf0\x9f\x98\x80 \xc2\xa0",
     "gr\xc3\xb6\xc3\x9f"
     "e \xe2\x82\xac \xf0\x9f\x98\x80 \xc2\xa0"},
    {"\xc2\x80\xc2\x9b"
     "31m\xc2\x9f",
     "??31m?"},                                                            /* C1: a terminal takes U+009B as ESC [ */
    {"\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\xaa\xe2\x80\xae", "?????"}, /* marks, embeddings, overrides */
    {"\xe2\x81\xa6\xe2\x81\xa7\xe2\x81\xa8\xe2\x81\xa9", "????"},          /* isolates */
    {"\xe2\x80\xa8\xe2\x80\xa9", "??"},                                    /* separators of lines and paragraphs */
    {"\xf3\xa0\x81\x81", "?"},                                             /* a tag */
    {"\x9b"
     "a\xff\xc3(\xc0\x80\xed\xa0\x80",
     "?a?"
     "?(?????"}, /* no UTF-8: alone, cut, overlong, a surrogate */
    {"a\xf4\x90\x80\x80\xe2\x82", "a??????"},
};

static void what_acts_on_a_terminal_is_replaced(void **state)
{
    char out[64];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(rp_clean(out, sizeof out, cases[i].text, 0), strlen(cases[i].clean));
        assert_string_equal(out, cases[i].clean);
        strcpy(out, cases[i].text);
        rc_clean_text(out); /* in place */
        assert_string_equal(out, cases[i].clean);
    }
    strcpy(out, "a\nb\r\xc2\x85");
    rc_clean_lines(out);
    assert_string_equal(out, "a\nb??");
}

static void cuts_are_between_characters(void **state)
{
    char out[8];
    (void)state;
    assert_int_equal(rp_clean(out, 5,
                              "ab\xe2\x82\xac"
                              "c",
                              0),
                     2);
    assert_string_equal(out, "ab");
    assert_int_equal(rp_clean(out, 6,
                              "ab\xe2\x82\xac"
                              "c",
                              0),
                     5);
    assert_int_equal(rp_clean(out, 1, "a", 0), 0);
    assert_string_equal(out, "");
}

/* Each pair of bytes that may begin something, behind any number of others: ctl_put_text works by pieces. */
static void long_texts_are_as_short_ones(void **state)
{
    char text[600], want[600], *got = NULL;
    size_t n;
    (void)state;
    for (size_t before = 240; before < 260; before++) {
        memset(text, 'x', before);
        strcpy(text + before, "\xe2\x82\xac\xc2\x9b\xff\xe2\x82");
        memset(want, 'x', before);
        strcpy(want + before, "\xe2\x82\xac????     "); /* 5 columns, and blanks up to 10 */
        FILE *f = open_memstream(&got, &n);
        ctl_put_text(f, text, (int)before + 10);
        fclose(f);
        assert_string_equal(got, want);
        free(got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_acts_on_a_terminal_is_replaced),
                                       cmocka_unit_test(cuts_are_between_characters),
                                       cmocka_unit_test(long_texts_are_as_short_ones)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
