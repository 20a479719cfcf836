/* Names and texts that others chose, shown on a terminal. */
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/text/screen_text.h"
#include "proto/clean.h"

void ctl_clean(char *out, size_t cap, const char *text) { rp_clean(out, cap, text, 0); }

void ctl_put_text(FILE *f, const char *text, int width)
{
    char piece[256];
    int n = 0;
    while (*text) { /* a character has at most 4 bytes: what is cut here begins the next piece */
        size_t bytes = 0;
        while (text[bytes] && bytes + 4 < sizeof piece) {
            size_t more = rp_utf8_length(text + bytes);
            bytes += more ? more : 1;
        }
        memcpy(piece, text, bytes);
        piece[bytes] = 0;
        rp_clean(piece, sizeof piece, piece, 0);
        n += ctl_columns(piece);
        fputs(piece, f);
        text += bytes;
    }
    fprintf(f, "%*s", n < width ? width - n : 0, "");
}
