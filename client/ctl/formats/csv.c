/* One column of a table as text, as numbers that the text reader takes: one in a line, on the same line as in the table. A
 * missing value is a NaN, or left out and noted. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/formats/csv.h"
#include "client/ctl/formats/grow.h"
#include "client/ctl/text/text_block.h"

enum {
    SLAB = 1 << 13,      /* bytes whose line feeds are searched at a time */
    FEEDS_AHEAD = 3,     /* line feeds of a block that are looked for without a branch */
    NEAR = 32,           /* bytes that are searched for delimiters at a time */
    MOST_FIELDS = 1024,  /* of a record that is split at once */
    ROOM = CTL_FIELD + 8 /* bytes that a number may take, with its line feed */
};

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

static bool bad_count(const ctl_csv *c, uint64_t n, char why[CTL_WHY])
{
    char text[CTL_WHY];
    snprintf(text, sizeof text, "%" PRIu64 " %s, but the first line has %" PRIu64, n, n == 1 ? "field" : "fields", c->fields);
    return bad_line(c, text, why);
}

/* ---- a number ---- */

/* Where missing values are: records are counted from 0. */
static bool note_hole(ctl_csv *c, char why[CTL_WHY])
{
    ctl_holes *h = c->holes;
    h->count++;
    if (!h->placed)
        return true;
    if (h->next == h->n)
        h->next = h->n = 0;
    if (!ctl_grow(&h->at, &h->room, h->n, 1, sizeof *h->at))
        return bad_line(c, "no memory for the places of what is missing", why);
    h->at[h->n++] = c->record;
    return true;
}

static bool put_missing(ctl_csv *c, const char *text, char **out, char why[CTL_WHY])
{
    if (c->policy == CTL_MISSING_REFUSED)
        return bad_field(c, text, "is missing: --nan omit leaves it out, --dtype f64 reads it as a NaN", why);
    if (c->policy == CTL_MISSING_OMITTED)
        return note_hole(c, why);
    memcpy(*out, "nan", 3);
    *out += 3;
    return true;
}

/* The text of a field that is not plain. */
static bool put_text(ctl_csv *c, char *text, char **out, char why[CTL_WHY])
{
    char copy[CTL_FIELD];
    if (ctl_csv_is_missing(c, text))
        return put_missing(c, text, out, why);
    size_t n = strlen(text);
    memcpy(copy, text, n + 1);
    if (!ctl_csv_point(c, text))
        return bad_field(c, copy, "is not a number", why);
    memcpy(*out, text, n);
    *out += n;
    return true;
}

/* The field at `at`, which may have blanks, quotes and zero bytes. */
static bool put_field(ctl_csv *c, const char *at, const char *end, char **out, char why[CTL_WHY])
{
    char text[CTL_FIELD];
    const char *field = at;
    if (!ctl_csv_take(c, &at, end, text))
        return bad_line(c, "the field is too long for a number", why);
    if (ctl_csv_torn(c, field, end))
        return bad_field(c, text, "has text behind its quotes", why);
    if (memchr(field, 0, (size_t)((at ? at : end) - field)))
        return bad_field(c, text, "is followed by a zero byte", why);
    return put_text(c, text, out, why);
}

/* A short field of digits, signs, points and e, as it is. False: it needs a closer look. */
static inline bool put_plain(ctl_csv *c, const char *p, size_t n, const char *limit, char **out)
{
    if (n == 0 || n > NEAR || limit - p < NEAR || !c->plain)
        return false;
    uint64_t mask = UINT64_MAX >> (64 - n);
    if ((ctl_bits_of(p, NEAR, '-', '9' - '-', 'e') & mask) != mask)
        return false;
    memcpy(*out, p, NEAR);
    *out += n;
    return true;
}

/* ---- records ---- */

/* Where the line feeds among the n bytes at `p` are, SLAB at most. Returns how many. A branch for each would often be
 * mispredicted, because lines differ in length. */
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

/* The delimiters among the NEAR bytes at `p`, those before `end`; [p, limit) may be read. */
static inline uint64_t delimiters(const ctl_csv *c, const char *p, const char *end, const char *limit)
{
    uint64_t bits = 0;
    if (limit - p >= NEAR)
        bits = ctl_bits_of(p, NEAR, c->delimiter, 0, c->delimiter);
    else
        for (int i = 0; p + i < end; i++)
            bits |= (uint64_t)(p[i] == c->delimiter) << i;
    return end - p < NEAR ? bits & ((UINT64_C(1) << (end - p)) - 1) : bits;
}

/* A record [p, end), without its line end. `stop`: where its fields end, counted from `p`; NULL: they have to be looked for. */
typedef struct split_record {
    const char *p, *end;
    const uint32_t *stop;
} split_record;

/* Where the fields of a record without quotes end. Returns how many there are: what MOST_FIELDS have no room for is counted. */
static inline uint64_t split_plain(const ctl_csv *c, const split_record *r, const char *limit, uint32_t stop[MOST_FIELDS])
{
    uint64_t seen = 0;
    for (const char *p = r->p; p < r->end; p += NEAR)
        for (uint64_t bits = delimiters(c, p, r->end, limit); bits; bits &= bits - 1, seen++)
            stop[seen % MOST_FIELDS] = (uint32_t)(p - r->p) + (uint32_t)__builtin_ctzll(bits);
    stop[seen % MOST_FIELDS] = (uint32_t)(r->end - r->p);
    return seen + 1;
}

/* Field `i`; *stop: its end, or NULL if that has to be looked for. */
static inline const char *field_of(const ctl_csv *c, const split_record *r, uint64_t i, const char **stop)
{
    const char *field;
    *stop = r->stop ? r->p + r->stop[i] : NULL;
    if (r->stop)
        return i ? r->p + r->stop[i - 1] + 1 : r->p;
    ctl_csv_fields(c, r->p, r->end, i, &field);
    return field;
}

/* The group of this record, and of its element if it has one: the key is the texts of some fields, with zero bytes between. */
static bool put_group(ctl_csv *c, const split_record *r, bool element, char why[CTL_WHY])
{
    ctl_groups *g = c->holes->groups;
    char copy[CTL_MAX_BY * CTL_FIELD];
    const char *key = copy;
    size_t len = 0;
    for (int i = 0; i < g->columns; i++) {
        const char *stop, *field = field_of(c, r, g->column[i], &stop);
        if (memchr(field, 0, (size_t)(r->end - field)))
            return bad_line(c, "there is a zero byte in it", why);
        if (i)
            copy[len++] = 0;
        if (stop && stop - field < CTL_FIELD && ctl_csv_is_trim(c, field, stop)) {
            if (g->columns == 1)
                key = field;
            else
                memcpy(copy + len, field, (size_t)(stop - field));
            len += (size_t)(stop - field);
        } else if (ctl_csv_take(c, &field, r->end, copy + len)) {
            len += strlen(copy + len);
        } else {
            return bad_line(c, "a key is longer than 1023 bytes", why);
        }
    }
    return ctl_groups_add(g, key, len, element) || bad_line(c, "no memory for the groups", why);
}

/* The record [p, end), with its line feed. */
static inline bool put_record(ctl_csv *c, const char *limit, const char *p, const char *end, bool quotes, char **out,
                              char why[CTL_WHY])
{
    uint32_t ends[MOST_FIELDS];
    const char *field, *stop = NULL;
    end -= end > p && end[-1] == '\r';
    bool skipped = end == p || (c->comment && *p == c->comment);
    if (!skipped) {
        const split_record r = {p, end, quotes || c->fields > MOST_FIELDS ? NULL : ends};
        uint64_t n = r.stop ? split_plain(c, &r, limit, ends) : ctl_csv_fields(c, p, end, c->column, &field);
        if (n != c->fields)
            return bad_count(c, n, why);
        if (r.stop)
            field = field_of(c, &r, c->column, &stop);
        char *before = *out;
        if (!(stop && put_plain(c, field, (size_t)(stop - field), limit, out)) && !put_field(c, field, end, out, why))
            return false;
        if (c->holes->groups && !put_group(c, &r, *out > before, why)) {
            *out = before; /* the error comes again, when the numbers before it are taken */
            return false;
        }
    }
    c->record += !skipped;
    *(*out)++ = '\n';
    return true;
}

/* Records without quotes that end in the next SLAB bytes. *used moves on. */
static bool feed_slab(ctl_csv *c, const char *bytes, size_t len, char **out, const char *full, size_t *used, char why[CTL_WHY])
{
    uint16_t at[SLAB + FEEDS_AHEAD];
    const char *slab = bytes + *used, *limit = bytes + len, *p = slab;
    size_t feeds = find_feeds(slab, len - *used < SLAB ? len - *used : SLAB, at);
    for (size_t i = 0; i < feeds && full - *out >= ROOM; i++, c->line++) {
        const char *end = slab + at[i];
        *used = (size_t)(p - bytes);
        if (!put_record(c, limit, p, end, false, out, why))
            return false;
        p = end + 1;
    }
    *used = (size_t)(p - bytes);
    return true;
}

/* The record at `bytes` + *used, which may have quotes. *used stays: it is not whole. */
static bool feed_record(ctl_csv *c, const char *bytes, size_t len, bool last, char **out, size_t *used, char why[CTL_WHY])
{
    bool open;
    const char *p = bytes + *used;
    size_t n = ctl_csv_record(c, p, len - *used, last, &open);
    if (open)
        return bad_line(c, ctl_csv_unclosed, why);
    if (n == 0)
        return true;
    uint64_t lines = ctl_count(p, p + n, '\n');
    const char *end = p + n - (p[n - 1] == '\n');
    if (!put_record(c, bytes + len, p, end, c->quote && memchr(p, c->quote, n), out, why))
        return false;
    c->line += lines;
    c->owed += lines > 1 ? lines - 1 : 0;
    *used += n;
    return true;
}

static void put_owed(ctl_csv *c, char **out, const char *full)
{
    size_t n = c->owed < (uint64_t)(full - *out) ? (size_t)c->owed : (size_t)(full - *out);
    memset(*out, '\n', n);
    *out += n;
    c->owed -= n;
}

long ctl_csv_feed(ctl_csv *c, const char *bytes, size_t len, bool last, char *out, size_t room, size_t *used, char why[CTL_WHY])
{
    char *to = out;
    const char *full = out + room;
    bool good = true;
    *used = 0;
    put_owed(c, &to, full);
    while (full - to >= ROOM && *used < len) {
        size_t before = *used;
        bool quotes = c->quote && memchr(bytes + *used, c->quote, len - *used < SLAB ? len - *used : SLAB);
        good = quotes || feed_slab(c, bytes, len, &to, full, used, why);
        if (good && before == *used)
            good = feed_record(c, bytes, len, last, &to, used, why);
        if (!good || before == *used)
            break;
        put_owed(c, &to, full);
    }
    if (to > out) /* an error comes again, when the numbers before it are taken */
        return (long)(to - out);
    return good ? 0 : -1;
}

size_t ctl_csv_line_ends(char *bytes, size_t len, bool last)
{
    char *end = bytes + len, *p = bytes;
    while ((p = memchr(p, '\r', (size_t)(end - p))) != NULL) {
        if (p + 1 == end && !last)
            return len - 1;
        if (p + 1 == end || p[1] != '\n')
            *p = '\n';
        p++;
    }
    return len;
}
