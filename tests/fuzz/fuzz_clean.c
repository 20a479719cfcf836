/* Any bytes as a text of a stranger: the first gives the room. What comes out is UTF-8 that a terminal shows, cleaning it again
 * changes nothing, and in place it is the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "proto/clean.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

static void check_shown(const char *text)
{
    for (size_t n; *text; text += n) {
        n = rp_utf8_length(text);
        if (n == 0 || (unsigned char)*text < ' ' || *text == 127)
            fail("a control character, or no UTF-8");
        if (!memcmp(text, "\xc2", 1) && (unsigned char)text[1] < 0xa0)
            fail("a C1 control");
        if (n == 3 && (!memcmp(text, "\xe2\x80\xaa", 2) && (unsigned char)text[2] >= 0xa8 && (unsigned char)text[2] <= 0xae))
            fail("an override of the direction");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    size_t cap = 1 + data[0] * (size_t)8, n, printed;
    char *text = malloc(size), *out = malloc(cap), *shown = NULL;
    if (!text || !out)
        abort();
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    n = rp_clean(out, cap, text, 0);
    if (n >= cap || n != strlen(out) || n > strlen(text))
        fail("a wrong length");
    check_shown(out);
    FILE *f = open_memstream(&shown, &printed);
    ctl_put_text(f, text, 0);
    fclose(f);
    if (memcmp(shown, out, n) != 0)
        fail("by pieces it is not the same");
    rp_clean(text, size, text, 0);
    if (strcmp(text, shown) != 0 || memcmp(text, out, n) != 0)
        fail("in place it is not the same");
    rp_clean(out, cap, out, 0);
    if (n != strlen(out) || memcmp(text, out, n) != 0)
        fail("cleaned again it is not the same");
    free(shown);
    free(text);
    free(out);
    return 0;
}
