/* Text as a terminal shows it: UTF-8, in columns. */
#ifndef CTL_SCREEN_TEXT_H
#define CTL_SCREEN_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* Columns of the terminal at stdout; INT_MAX: there is none. */
int ctl_screen_columns(void);

/* Columns of a text on a terminal: 2 of a wide character, 0 of a combining one, 1 of a byte that is not UTF-8. */
int ctl_columns(const char *s);

/* Bytes of the longest beginning, in whole characters, that takes at most `columns`. */
size_t ctl_fit(const char *s, int columns);

/* The words of a text from column `at` on, on lines of at most `width`, of which further ones begin at column `indent`. Returns
 * the column after the last word. */
int ctl_put_words(FILE *out, int at, int indent, int width, const char *text);
/* The same, with the end of the line. */
void ctl_put_wrapped(FILE *out, int at, int indent, int width, const char *text);

#endif
