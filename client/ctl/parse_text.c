/* Numbers as text: white-space separated tokens, each read as an f64, correctly rounded by strtod. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"

static bool blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

void ctl_clean(char *out, size_t cap, const char *token)
{
    size_t n = 0;
    for (; n + 1 < cap && token[n]; n++)
        out[n] = token[n] >= ' ' && token[n] < 127 ? token[n] : '?';
    out[n] = 0;
}

static bool bad(const ctl_text *t, const char *what, char why[CTL_WHY])
{
    char token[48];
    ctl_clean(token, sizeof token, t->token);
    snprintf(why, CTL_WHY, "line %" PRIu64 ": '%s%s' %s", t->line + 1, token, t->len >= sizeof token ? "..." : "", what);
    return false;
}

static bool convert(ctl_text *t, double *out, char why[CTL_WHY])
{
    char *end;
    t->token[t->len] = 0;
    errno = 0;
    *out = strtod(t->token, &end);
    if (end != t->token + t->len)
        return bad(t, "is not a number", why);
    if (errno == ERANGE && isinf(*out))
        return bad(t, "is beyond the range of f64", why);
    t->len = 0;
    return true;
}

long ctl_text_feed(ctl_text *t, const char *bytes, size_t n, double *out, char why[CTL_WHY])
{
    long made = 0;
    for (size_t i = 0; i < n; i++) {
        if (blank(bytes[i])) {
            if (t->len && !convert(t, &out[made++], why))
                return -1;
            t->line += bytes[i] == '\n';
        } else if (t->len == CTL_MAX_TOKEN) {
            t->token[t->len] = 0;
            bad(t, "is too long for a number", why);
            return -1;
        } else {
            t->token[t->len++] = bytes[i];
        }
    }
    return made;
}

long ctl_text_end(ctl_text *t, double *out, char why[CTL_WHY])
{
    if (t->len == 0)
        return 0;
    return convert(t, out, why) ? 1 : -1;
}
