/* Text as a terminal shows it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/ctl/text/screen_text.h"

static void a_width_is_that_of_the_screen(void **state)
{
    static const struct {
        const char *text;
        int columns;
    } cases[] = {{"", 0},
                 {"abc", 3},
                 {"\xc3\xbc", 1},                 /* u with two points */
                 {"\xe6\x97\xa5\xe6\x9c\xac", 4}, /* two wide characters */
                 {"e\xcc\x81", 1},                /* e and a combining accent */
                 {"\xf0\x9f\x98\x80", 2},         /* a face */
                 {"a\xff\xc3", 3},                /* not UTF-8: a byte is a column */
                 {"\xed\xa0\x80", 3}};            /* a surrogate */
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(ctl_columns(cases[i].text), cases[i].columns);
}

static void a_cut_leaves_whole_characters(void **state)
{
    static const char text[] = "a\xe6\x97\xa5\xc3\xbcz"; /* 1, 2, 1 and 1 columns */
    static const size_t fit[] = {0, 1, 1, 4, 6, 7, 7};
    (void)state;
    for (int columns = 0; columns < 7; columns++)
        assert_int_equal(ctl_fit(text, columns), fit[columns]);
}

static void words_are_wrapped(void **state)
{
    char *text = NULL;
    size_t n = 0;
    (void)state;
    FILE *out = open_memstream(&text, &n);
    ctl_put_wrapped(out, 2, 4, 10, "one two \xe6\x97\xa5\xe6\x9c\xac three-and-more x");
    fclose(out);
    assert_string_equal(text, "one two\n    \xe6\x97\xa5\xe6\x9c\xac\n    three-and-more\n    x\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_width_is_that_of_the_screen),
        cmocka_unit_test(a_cut_leaves_whole_characters),
        cmocka_unit_test(words_are_wrapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
