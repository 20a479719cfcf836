#include "client/ctl/text/screen_text.h"

#include <limits.h>
#include <locale.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "proto/clean.h"

enum { MIN_COLUMNS = 40, USUAL_COLUMNS = 80 };

int ctl_screen_columns(void)
{
    struct winsize size;
    if (!isatty(STDOUT_FILENO))
        return INT_MAX;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= MIN_COLUMNS ? size.ws_col : USUAL_COLUMNS;
}

static wchar_t code_point(const char *s, int n)
{
    unsigned c = (unsigned char)s[0] & (n > 1 ? 0xffu >> (n + 1) : 0x7fu);
    for (int i = 1; i < n; i++)
        c = c << 6 | ((unsigned char)s[i] & 0x3f);
    return (wchar_t)c;
}

/* -1: a control. The widths are those of glibc's tables, which belong to a locale of UTF-8: the user's, or one that is always
 * there. Without any of them a character takes one column. */
static int width_of(wchar_t c)
{
    static int known; /* 0: not asked so far */
    if (c < 0x80 || (c >= 0x80 && c < 0xa0))
        return c < ' ' || c >= 0x7f ? -1 : 1;
    if (!known) {
        setlocale(LC_CTYPE, "");
        known = wcwidth(0x65e5) == 2 || (setlocale(LC_CTYPE, "C.UTF-8") && wcwidth(0x65e5) == 2) ? 1 : -1;
    }
    return known > 0 ? wcwidth(c) : 1;
}

/* Of the character at s; *bytes: how long it is. */
static int columns_at(const char *s, int *bytes)
{
    const int n = (int)rp_utf8_length(s), width = n ? width_of(code_point(s, n)) : -1;
    *bytes = n ? n : 1;
    return width < 0 ? 1 : width;
}

int ctl_columns(const char *s)
{
    int all = 0, n;
    for (; *s; s += n)
        all += columns_at(s, &n);
    return all;
}

size_t ctl_fit(const char *s, int columns)
{
    size_t fit = 0;
    for (int all = 0, n; s[fit]; fit += (size_t)n) {
        all += columns_at(s + fit, &n);
        if (all > columns)
            break;
    }
    return fit;
}

int ctl_put_words(FILE *out, int at, int indent, int width, const char *text)
{
    bool begun = false;
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        char word[256];
        const int n = (int)strcspn(text, " ");
        snprintf(word, sizeof word, "%.*s", n, text);
        const int columns = ctl_columns(word);
        if (begun && at + 1 + columns > width) {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
            begun = false;
        }
        fprintf(out, "%s%.*s", begun ? " " : "", n, text);
        at += columns + begun;
        begun = true;
        text += n;
    }
    return at;
}

void ctl_put_wrapped(FILE *out, int at, int indent, int width, const char *text)
{
    ctl_put_words(out, at, indent, width, text);
    putc('\n', out);
}
