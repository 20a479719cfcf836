/* Records and fields of tables as text: fields in quotes or not (RFC 4180). */
#include <string.h>

#include "client/ctl/formats/csv.h"

const char ctl_csv_unclosed[] = "the record has a quote that nothing closes";

static bool may_delimit(const ctl_csv *c, char byte)
{
    return byte != c->decimal && (byte == ',' || byte == ';' || byte == '\t');
}

/* Blanks around a field do not belong to it, unless they separate fields. */
static bool is_padding(const ctl_csv *c, char byte) { return byte == ' ' && c->delimiter != ' '; }

/* Does a field begin at `q`, but for blanks? */
static bool begins_field(const ctl_csv *c, const char *record, const char *q)
{
    while (q > record && is_padding(c, q[-1]))
        q--;
    return q == record || (c->delimiter ? q[-1] == c->delimiter : may_delimit(c, q[-1]));
}

/* The quote that ends what the one at `q` begins, or NULL. Two of them are one in the text. */
static const char *closing_quote(const char *q, const char *end)
{
    const char quote = *q;
    while ((q = memchr(q + 1, quote, (size_t)(end - q - 1))) != NULL && q + 1 < end && q[1] == quote)
        q++;
    return q;
}

size_t ctl_csv_record(const ctl_csv *c, const char *p, size_t len, bool last, bool *open)
{
    *open = false;
    const bool quotes = c->quote && !(c->comment && len && *p == c->comment);
    const char *at = p, *end = p + len, *feed, *q;
    while ((feed = memchr(at, '\n', (size_t)(end - at))) != NULL || last) {
        const char *line = feed ? feed : end;
        while (quotes && (q = memchr(at, c->quote, (size_t)(line - at))) != NULL && !begins_field(c, p, q))
            at = q + 1;
        if (!quotes || !q)
            return (size_t)(line - p) + (feed != NULL);
        q = closing_quote(q, end);
        *open = !q && last;
        if (!q)
            return last ? len : 0;
        at = q + 1;
    }
    return 0;
}

const char *ctl_csv_end(const char *p, size_t n)
{
    n -= n && p[n - 1] == '\n';
    return p + n - (n && p[n - 1] == '\r');
}

/* The quote that the field at `p` begins with, but for blanks, or NULL. */
static const char *opening_quote(const ctl_csv *c, const char *p, const char *end)
{
    while (p < end && is_padding(c, *p))
        p++;
    return c->quote && p < end && *p == c->quote ? p : NULL;
}

/* Where the field at `p` ends: at a delimiter or the record's end. */
static const char *end_of_field(const ctl_csv *c, const char *p, const char *end)
{
    const char *open = opening_quote(c, p, end), *close = open ? closing_quote(open, end) : NULL;
    if (open)
        p = close ? close : end;
    const char *at = p < end ? memchr(p, c->delimiter, (size_t)(end - p)) : NULL;
    return at ? at : end;
}

uint64_t ctl_csv_fields(const ctl_csv *c, const char *p, const char *end, uint64_t index, const char **field)
{
    *field = NULL;
    for (uint64_t n = 0;; n++, p++) {
        if (n == index)
            *field = p;
        p = end_of_field(c, p, end);
        if (p == end)
            return n + 1;
    }
}

bool ctl_csv_is_trim(const ctl_csv *c, const char *p, const char *end)
{
    return p == end || !(is_padding(c, *p) || is_padding(c, end[-1]) || end[-1] == '\r');
}

static void trim(const ctl_csv *c, char *text, size_t n)
{
    size_t blanks = 0;
    while (n && (is_padding(c, text[n - 1]) || text[n - 1] == '\r'))
        n--;
    while (blanks < n && is_padding(c, text[blanks]))
        blanks++;
    memmove(text, text + blanks, n - blanks);
    text[n - blanks] = 0;
}

bool ctl_csv_take(const ctl_csv *c, const char **at, const char *end, char out[CTL_FIELD])
{
    const char *p = *at, *stop = end_of_field(c, p, end), *open = opening_quote(c, p, end);
    const char *close = open ? closing_quote(open, end) : NULL;
    size_t n = 0;
    bool whole = true;
    for (p = open ? open + 1 : p; p < stop; p++) {
        if (p == close)
            continue;
        p += open && *p == c->quote && (!close || p < close);
        whole &= n < CTL_FIELD - 1;
        if (n < CTL_FIELD - 1)
            out[n++] = *p;
    }
    trim(c, out, n);
    *at = stop < end ? stop + 1 : NULL;
    return whole;
}

bool ctl_csv_torn(const ctl_csv *c, const char *p, const char *end)
{
    const char *open = opening_quote(c, p, end), *close = open ? closing_quote(open, end) : NULL;
    if (!close)
        return false;
    const char *stop = end_of_field(c, p, end);
    for (close++; close < stop && (is_padding(c, *close) || *close == '\r');)
        close++;
    return close < stop;
}

/* ---- what a field stands for ---- */

/* Is the text one of the words of the list, which commas separate? */
static bool is_listed(const char *list, const char *text)
{
    const size_t n = strlen(text);
    for (const char *at = list;; at++) {
        const size_t word = strcspn(at, ",");
        if (word == n && !memcmp(at, text, n))
            return true;
        at += word;
        if (!*at)
            return false;
    }
}

bool ctl_csv_is_missing(const ctl_csv *c, const char *text)
{
    /* as pandas */
    static const char words[] = "NA,N/A,n/a,#N/A,NaN,nan,NAN,-NaN,-nan,-NAN,NULL,null,None,<NA>";
    return !*text || is_listed(c->missing ? c->missing : words, text);
}

bool ctl_csv_point(const ctl_csv *c, char *text)
{
    for (; *text; text++) {
        if (*text == ' ' || (*text >= '\t' && *text <= '\r') || (*text == '.' && c->decimal != '.'))
            return false;
        if (*text == c->decimal)
            *text = '.';
    }
    return true;
}
