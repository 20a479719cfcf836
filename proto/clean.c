#include "proto/clean.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

size_t rp_utf8_length(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n = s[0] < 0x80                   ? 1
               : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
               : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
               : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                             : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

static uint32_t code_point(const char *text, size_t n)
{
    uint32_t c = (unsigned char)text[0] & (n == 1 ? 0x7f : 0xff >> (n + 1));
    for (size_t i = 1; i < n; i++)
        c = c << 6 | ((unsigned char)text[i] & 0x3f);
    return c;
}

/* Does a terminal show it, and do nothing else? */
static bool is_shown(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } acts[] = {{0, 0x1f},         {0x7f, 0x9f},     {0x61c, 0x61c}, /* C0, DEL and C1; marks and overrides of the direction */
                {0x200e, 0x200f},  {0x2028, 0x202e}, {0x2066, 0x2069}, /* with the separators of lines and paragraphs */
                {0xe0000, 0xe007f}};                                   /* invisible copies of ASCII */
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (c >= acts[i].first && c <= acts[i].last)
            return false;
    return true;
}

size_t rp_clean(char *out, size_t cap, const char *text, char keep)
{
    size_t n = 0;
    while (*text) {
        size_t bytes = rp_utf8_length(text);
        bool shown = bytes && (*text == keep || is_shown(code_point(text, bytes)));
        if (n + (shown ? bytes : 1) >= cap)
            break;
        if (shown)
            memmove(out + n, text, bytes);
        else
            out[n] = '?';
        n += shown ? bytes : 1;
        text += bytes ? bytes : 1;
    }
    out[n] = 0;
    return n;
}
