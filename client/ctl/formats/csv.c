/* One column of a table as text: records of a line each, fields in quotes or not (RFC 4180), separated by commas, tabs or
 * semicolons. Bytes in, elements out. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/formats/container.h"
#include "client/ctl/text/text_block.h"

enum {
    FIELD = 1024,    /* bytes of a name or number at most */
    SLAB = 1 << 13,  /* bytes whose line feeds are searched at a time */
    FEEDS_AHEAD = 3, /* line feeds of a block that are looked for without a branch */
    NEAR = 32        /* bytes that are searched for delimiters at a time */
};

static const char UNCLOSED[] = "the record has a quote that nothing closes";

/* ---- records and fields ---- */

/* Does a field begin at `q`, but for blanks? A delimiter of 0: after any of the three. */
static bool begins_field(const char *record, const char *q, char delimiter)
{
    while (q > record && q[-1] == ' ')
        q--;
    return q == record || (delimiter ? q[-1] == delimiter : q[-1] == ',' || q[-1] == ';' || q[-1] == '\t');
}

/* The quote that ends what the one at `q` begins, or NULL. Two of them are one in the text. */
static const char *closing_quote(const char *q, const char *end)
{
    while ((q = memchr(q + 1, '"', (size_t)(end - q - 1))) != NULL && q + 1 < end && q[1] == '"')
        q++;
    return q;
}

/* Bytes of the record at `p`, with its line feed; 0: it is not whole. A line feed in quotes does not end it. A quote within a
 * field is a character like others. *open: the last record ends within quotes. */
static size_t record_length(const char *p, size_t len, char delimiter, bool last, bool *open)
{
    *open = false;
    const char *at = p, *end = p + len, *feed, *q;
    while ((feed = memchr(at, '\n', (size_t)(end - at))) != NULL || last) {
        const char *line = feed ? feed : end;
        while ((q = memchr(at, '"', (size_t)(line - at))) != NULL && !begins_field(p, q, delimiter))
            at = q + 1;
        if (!q)
            return (size_t)(line - p) + (feed != NULL);
        q = closing_quote(q, end);
        *open = !q && last;
        if (!q)
            return last ? len : 0;
        at = q + 1;
    }
    return 0;
}

/* The quote that the field at `p` begins with, but for blanks, or NULL. */
static const char *opening_quote(const char *p, const char *end)
{
    while (p < end && *p == ' ')
        p++;
    return p < end && *p == '"' ? p : NULL;
}

/* Where the field at `p` ends: at a delimiter or the record's end. */
static const char *end_of_field(const char *p, const char *end, char delimiter)
{
    const char *open = opening_quote(p, end), *close = open ? closing_quote(open, end) : NULL;
    if (open)
        p = close ? close : end;
    const char *at = memchr(p, delimiter, (size_t)(end - p));
    return at ? at : end;
}

/* The begin of field `index`, or NULL. */
static const char *find_field(const char *p, const char *end, char delimiter, uint64_t index)
{
    for (; index; index--) {
        p = end_of_field(p, end, delimiter);
        if (p++ == end)
            return NULL;
    }
    return p;
}

static size_t trim(char *text, size_t n)
{
    size_t blanks = 0;
    while (n && (text[n - 1] == ' ' || text[n - 1] == '\r'))
        n--;
    while (blanks < n && text[blanks] == ' ')
        blanks++;
    memmove(text, text + blanks, n - blanks);
    text[n - blanks] = 0;
    return n - blanks;
}

/* The field at *at, without blanks and quotes around it; *at moves to the next field, or becomes NULL. False: it is longer than
 * any number, and cut. */
static bool take_field(const char **at, const char *end, char delimiter, char out[FIELD])
{
    const char *p = *at, *stop = end_of_field(p, end, delimiter), *open = opening_quote(p, end);
    const char *close = open ? closing_quote(open, end) : NULL;
    size_t n = 0;
    bool whole = true;
    for (p = open ? open + 1 : p; p < stop; p++) {
        if (p == close)
            continue;
        p += open && *p == '"' && (!close || p < close);
        whole &= n < FIELD - 1;
        if (n < FIELD - 1)
            out[n++] = *p;
    }
    trim(out, n);
    *at = stop < end ? stop + 1 : NULL;
    return whole;
}

/* ---- numbers ---- */

/* Texts that stand for a missing value, as in pandas. */
static bool is_missing(const char *text)
{
    static const char *const words[] = {"",     "NA",   "N/A",  "n/a",  "#N/A", "NaN", "nan",
                                        "-NaN", "-nan", "NULL", "null", "None", "<NA>"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(text, words[i]))
            return true;
    return false;
}

/* False: it is not a number. */
static bool parse_f64(const char *text, double *out)
{
    char *end = (char *)text + strlen(text);
    if (ctl_text_plain(text, text, end, REDUCE_F64, out) == end && end > text)
        return true;
    *out = strtod(text, &end);
    return end != text && *end == 0 && (!isinf(*out) || strpbrk(text, "iI"));
}

static bool is_number(const char *text)
{
    double v;
    return is_missing(text) || parse_f64(text, &v);
}

static bool bad_line(const ctl_csv *c, const char *what, char why[CTL_WHY])
{
    snprintf(why, CTL_WHY, "line %" PRIu64 ": %.200s", c->line + 1, what);
    return false;
}

static bool bad_field(const ctl_csv *c, const char *text, const char *what, char why[CTL_WHY])
{
    char clean[48], both[CTL_WHY];
    ctl_clean(clean, sizeof clean, text);
    snprintf(both, sizeof both, "'%s' %s", clean, what);
    return bad_line(c, both, why);
}

/* A field as an element. What is missing is a NaN, which the NaN policy deals with. */
static bool convert(const ctl_csv *c, const char *text, uint8_t *out, char why[CTL_WHY])
{
    double v;
    uint64_t bits;
    char reason[CTL_WHY];
    bool missing = is_missing(text);
    if (missing && !ctl_is_float(c->dtype))
        return bad_field(c, text, "is missing: read the column as f64, with --nan omit", why);
    if (c->dtype == REDUCE_F64 && !missing && parse_f64(text, &v)) {
        memcpy(out, &v, sizeof v);
        return true;
    }
    if (c->dtype == REDUCE_F64 && !missing)
        return bad_field(c, text, "is not a number in the range of f64", why);
    if (!ctl_parse_scalar(missing ? "nan" : text, c->dtype, &bits, reason))
        return bad_line(c, reason, why);
    memcpy(out, &bits, reduce_dtype_size(c->dtype));
    return true;
}

/* Finds the line feeds among the n bytes at `p`, SLAB at most. Returns how many. A branch for each would often be mispredicted,
 * because lines differ in length. */
static size_t find_feeds(const char *p, size_t n, uint16_t at[SLAB + FEEDS_AHEAD])
{
    size_t found = 0, i = 0;
    for (; n - i >= CTL_BLOCK; i += CTL_BLOCK) {
        uint64_t bits = ctl_equal(p + i, '\n');
        for (int k = 0; k < FEEDS_AHEAD || bits; k++, bits &= bits - 1) {
            at[found] = (uint16_t)(i + (size_t)__builtin_ctzll(bits | UINT64_C(1) << 63));
            found += bits != 0;
        }
    }
    for (; i < n; i++) {
        at[found] = (uint16_t)i;
        found += p[i] == '\n';
    }
    return found;
}

/* As find_field, in a piece without quotes. [p, limit) may be read. */
static inline const char *find_plain_field(const char *p, const char *end, const char *limit, char delimiter, uint64_t index)
{
    for (; index && p < end && limit - p >= NEAR; p += NEAR) {
        uint64_t bits = ctl_bits_of(p, NEAR, delimiter, 0, delimiter);
        for (; index > 1 && bits; index--)
            bits &= bits - 1;
        if (bits) {
            p += __builtin_ctzll(bits);
            return p < end ? p + 1 : NULL;
        }
    }
    for (; index && p && p < end; index--) {
        p = memchr(p, delimiter, (size_t)(end - p));
        p = p ? p + 1 : NULL;
    }
    return index ? NULL : p;
}

/* A record that may have quotes */
typedef struct csv_record {
    size_t n;                /* its bytes */
    const char *end, *field; /* without its line feed; the field that is wanted, or NULL */
    bool quotes, open;       /* there are some; it ends within them */
} csv_record;

/* The record at `p`. False: it is not whole. */
static bool split(const ctl_csv *c, const char *p, size_t len, bool last, csv_record *r)
{
    r->n = record_length(p, len, c->delimiter, last, &r->open);
    r->end = p + r->n - (r->n && p[r->n - 1] == '\n');
    r->quotes = memchr(p, '"', r->n) != NULL;
    r->field = r->quotes ? find_field(p, r->end, c->delimiter, c->column)
                         : find_plain_field(p, r->end, r->end, c->delimiter, c->column);
    return r->n != 0;
}

/* The field at `at` if it is a plain number, up to the delimiter or the end of the record. [first, limit) may be read: a number
 * ends at a line feed. */
static bool take_plain(const ctl_csv *c, const char *first, const char *at, const char *end, const char *limit, uint8_t *out)
{
    const char *q = at && at < end ? ctl_text_plain(first, at, limit, c->dtype, out) : NULL;
    return q && (q == end || *q == c->delimiter);
}

/* An element of the field at `at`, the record ends at `end`. */
static bool take_element(const ctl_csv *c, const char *at, const char *end, bool quotes, uint8_t *out, char why[CTL_WHY])
{
    char text[FIELD];
    const char *field = at;
    if (!at)
        return bad_line(c, "the line has too few fields", why);
    if (quotes) {
        if (!take_field(&at, end, c->delimiter, text))
            return bad_line(c, "the field is too long for a number", why);
    } else {
        const char *next = memchr(at, c->delimiter, (size_t)(end - at));
        size_t n = (size_t)((next ? next : end) - at);
        if (n >= FIELD)
            return bad_line(c, "the field is too long for a number", why);
        memcpy(text, at, n);
        trim(text, n);
        at = next ? next + 1 : NULL;
    }
    if (memchr(field, 0, (size_t)((at ? at : end) - field)))
        return bad_field(c, text, "is followed by a zero byte", why);
    return convert(c, text, out, why);
}

static uint64_t lines_in(const char *p, size_t len) { return ctl_count(p, p + len, '\n'); }

/* The record [p, end), whose field is at `at` or missing: an element, unless it is an empty line. False: `why`. */
static inline bool take_record(const ctl_csv *c, const char *bytes, const char *limit, const char *p, const char *end,
                               const char *at, bool quotes, uint8_t *out, size_t *made, char why[CTL_WHY])
{
    end -= end > p && end[-1] == '\r';
    uint8_t *to = out + *made * reduce_dtype_size(c->dtype);
    *made += end > p;
    return end == p || take_plain(c, bytes, at, end, limit, to) || take_element(c, at, end, quotes, to, why);
}

/* Records without quotes that end in the next SLAB bytes. Returns as ctl_csv_feed; *used moves on. */
static bool feed_slab(ctl_csv *c, const char *bytes, size_t len, uint8_t *out, size_t most, size_t *made, size_t *used,
                      char why[CTL_WHY])
{
    uint16_t at[SLAB + FEEDS_AHEAD];
    const char *slab = bytes + *used, *limit = bytes + len, *p = slab;
    size_t feeds = find_feeds(slab, len - *used < SLAB ? len - *used : SLAB, at);
    for (size_t i = 0; i < feeds && *made < most; i++, c->line++) {
        const char *end = slab + at[i], *field = find_plain_field(p, end, limit, c->delimiter, c->column);
        if (!take_record(c, bytes, limit, p, end, field, false, out, made, why))
            return false;
        p = end + 1;
    }
    *used = (size_t)(p - bytes);
    return true;
}

long ctl_csv_feed(ctl_csv *c, const char *bytes, size_t len, bool last, uint8_t *out, size_t most, size_t *used,
                  char why[CTL_WHY])
{
    size_t made = 0;
    csv_record r;
    *used = 0;
    while (made < most && *used < len) {
        const char *p = bytes + *used;
        bool quotes = memchr(p, '"', len - *used < SLAB ? len - *used : SLAB) != NULL;
        if (!quotes && !feed_slab(c, bytes, len, out, most, &made, used, why))
            return -1;
        if (p != bytes + *used)
            continue;
        if (!split(c, p, len - *used, last, &r))
            break;
        if (r.open && !bad_line(c, UNCLOSED, why))
            return -1;
        if (!take_record(c, bytes, bytes + len, p, r.end, r.field, r.quotes, out, &made, why))
            return -1;
        c->line += lines_in(p, r.n);
        *used += r.n;
    }
    return (long)made;
}

/* ---- the header ---- */

/* Of those outside of quotes: a tab, else a comma, else a semicolon. */
static char guess_delimiter(const char *record, const char *end)
{
    bool tab = false, comma = false, semicolon = false;
    for (const char *p = record; p && p < end; p++) {
        if (*p == '"' && begins_field(record, p, 0) && !(p = closing_quote(p, end)))
            break;
        tab |= *p == '\t';
        comma |= *p == ',';
        semicolon |= *p == ';';
    }
    return tab ? '\t' : comma || !semicolon ? ',' : ';';
}

/* A header has a field that is not a number. */
static bool has_header(const ctl_csv *c, const char *record, const char *end)
{
    char text[FIELD];
    for (const char *at = record; at;)
        if (!take_field(&at, end, c->delimiter, text) || !is_number(text))
            return true;
    return false;
}

static void list_columns(const ctl_csv *c, const char *record, const char *end, char why[CTL_WHY])
{
    char text[FIELD], clean[40];
    size_t n = strlen(why);
    for (const char *at = record; at;) {
        bool first = at == record;
        take_field(&at, end, c->delimiter, text);
        ctl_clean(clean, sizeof clean, text);
        if (n + strlen(clean) + 8 > CTL_WHY) {
            snprintf(why + n, CTL_WHY - n, " ...");
            return;
        }
        n += (size_t)snprintf(why + n, CTL_WHY - n, "%s %s", first ? "" : ",", clean);
    }
}

/* *same: how many columns have the name. If there are several, none is chosen. */
static bool find_column(ctl_csv *c, const char *name, bool header, const char *record, const char *end, unsigned *same)
{
    char text[FIELD], *rest;
    const char *at = header ? record : NULL;
    *same = 0;
    for (uint64_t i = 0; at; i++)
        if (take_field(&at, end, c->delimiter, text) && !strcmp(text, name)) {
            c->column = i;
            ++*same;
        }
    if (*same)
        return *same == 1;
    c->column = strtoull(name, &rest, 10) - 1;
    return name[0] >= '1' && name[0] <= '9' && *rest == 0 && find_field(record, end, c->delimiter, c->column);
}

int ctl_csv_begin(ctl_csv *c, const char *bytes, size_t len, const char *column, size_t *skip, char why[CTL_WHY])
{
    char clean[48];
    unsigned same = 0;
    size_t bom = len >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3) ? 3 : 0; /* of UTF-8, as spreadsheets write it */
    const char *record = bytes + bom;
    bool open;
    size_t n = record_length(record, len - bom, 0, len < CTL_CSV_RECORD, &open);
    *skip = bom;
    if (open) {
        snprintf(why, CTL_WHY, "line 1: %s", UNCLOSED);
        return REDUCE_E_TYPE;
    }
    if (n == 0 && len - bom) {
        snprintf(why, CTL_WHY, "line 1 is longer than %d bytes", CTL_CSV_RECORD);
        return REDUCE_E_TOO_LARGE;
    }
    const char *end = record + n;
    while (end > record && (end[-1] == '\n' || end[-1] == '\r'))
        end--;
    c->delimiter = guess_delimiter(record, end);
    bool header = has_header(c, record, end);
    if (header) {
        *skip += n;
        c->line += lines_in(record, n);
    }
    if (column && find_column(c, column, header, record, end, &same))
        return 0;
    if (column) {
        ctl_clean(clean, sizeof clean, column);
        if (same)
            snprintf(why, CTL_WHY, "%u columns are called '%s' (a number from 1 on names one); there are", same, clean);
        else
            snprintf(why, CTL_WHY, "no column '%s'; there are", clean);
    } else {
        snprintf(why, CTL_WHY, "text: name a column (FILE:COLUMN), or --text for numbers alone; there are");
    }
    list_columns(c, record, end, why);
    return REDUCE_E_TYPE;
}

/* ---- as a stream ---- */

typedef struct table {
    ctl_pull pull;
    ctl_pull *from;
    ctl_csv csv;
    size_t at, len; /* of what was read and is still to be taken */
    bool ended;
    char bytes[CTL_CSV_RECORD];
} table;

static long csv_more(table *t, char why[CTL_WHY])
{
    memmove(t->bytes, t->bytes + t->at, t->len - t->at);
    t->len -= t->at;
    t->at = 0;
    if (t->len == sizeof t->bytes) {
        snprintf(why, CTL_WHY, "line %" PRIu64 " is longer than %d bytes", t->csv.line + 1, CTL_CSV_RECORD);
        t->pull.err = REDUCE_E_TOO_LARGE;
        return -1;
    }
    long n = ctl_pull_full(t->from, t->bytes + t->len, sizeof t->bytes - t->len, why);
    if (n < 0)
        t->pull.err = t->from->err;
    t->len += n > 0 ? (size_t)n : 0;
    t->ended = t->len < sizeof t->bytes;
    return n;
}

static long csv_read(ctl_pull *p, void *space, size_t room, char why[CTL_WHY])
{
    table *t = (table *)p;
    size_t size = reduce_dtype_size(t->csv.dtype), used;
    long made = 0;
    while (made == 0 && room >= size) {
        p->err = REDUCE_E_TYPE;
        made = ctl_csv_feed(&t->csv, t->bytes + t->at, t->len - t->at, t->ended, space, room / size, &used, why);
        if (made < 0)
            return made;
        t->at += used;
        if (made == 0 && t->ended)
            return 0;
        if (made == 0 && csv_more(t, why) < 0)
            return -1;
    }
    return made * (long)size;
}

static void csv_close(ctl_pull *p)
{
    ctl_pull_close(((table *)p)->from);
    free(p);
}

ctl_pull *ctl_csv_column(ctl_pull *from, const char *column, int dtype, int *err, char why[CTL_WHY])
{
    table *t = from ? malloc(sizeof *t) : NULL;
    if (!t) {
        ctl_pull_close(from);
        return NULL;
    }
    t->pull = (ctl_pull){csv_read, csv_close, 0};
    t->from = from;
    t->csv = (ctl_csv){.dtype = dtype};
    t->at = t->len = 0;
    *err = csv_more(t, why) < 0 ? t->pull.err : ctl_csv_begin(&t->csv, t->bytes, t->len, column, &t->at, why);
    if (*err == 0)
        return &t->pull;
    csv_close(&t->pull);
    return NULL;
}
