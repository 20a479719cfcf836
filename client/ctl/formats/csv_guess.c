/* What a table as text is like, by its first lines: the delimiter, whether the first line is a header, and where a column is.
 * What they leave open is refused, with what may be meant. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/formats/csv.h"

enum { LINES = 100 /* that are looked at */ };

static const char MAY_DELIMIT[] = "\t,;";

typedef struct record {
    const char *p, *end;
} record;

typedef struct sample {
    record all[LINES];
    int n;
} sample;

/* ---- the first lines ---- */

static uint64_t count_lines(const char *p, size_t n)
{
    uint64_t lines = 0;
    for (size_t i = 0; i < n; i++)
        lines += p[i] == '\n';
    return lines;
}

static bool is_skipped(const ctl_csv *c, const char *p, const char *end)
{
    return p == end || (c->comment && *p == c->comment);
}

static int too_long(const ctl_csv *c, char why[CTL_WHY])
{
    snprintf(why, CTL_WHY, "line %" PRIu64 " is longer than %d bytes", c->line + 1, CTL_CSV_RECORD);
    return REDUCE_E_TOO_LARGE;
}

static int not_closed(uint64_t line, char why[CTL_WHY])
{
    snprintf(why, CTL_WHY, "line %" PRIu64 ": %s", line + 1, ctl_csv_unclosed);
    return REDUCE_E_TYPE;
}

/* *at moves behind the lines that are not part of the table. */
static int skip_lines(ctl_csv *c, uint64_t n, const char *bytes, size_t len, bool last, size_t *at, char why[CTL_WHY])
{
    uint64_t lines = 0;
    while (*at < len) {
        const char *p = bytes + *at, *feed = memchr(p, '\n', len - *at);
        if (!feed && !last)
            return too_long(c, why);
        size_t line = feed ? (size_t)(feed + 1 - p) : len - *at;
        if (lines >= n && !is_skipped(c, p, ctl_csv_end(p, line)))
            break;
        *at += line;
        c->line += feed != NULL;
        lines++;
    }
    if (lines >= n)
        return 0;
    snprintf(why, CTL_WHY, "--skip-lines %" PRIu64 ", but the table has %" PRIu64 " lines%s", n, lines,
             last ? "" : " in its first mebibyte");
    return REDUCE_E_TYPE;
}

/* The whole records that begin at `p`, the first one even if it is the only one. */
static int take_sample(const ctl_csv *c, const char *p, size_t len, bool last, sample *s, char why[CTL_WHY])
{
    bool open;
    for (size_t n; len && s->n < LINES; p += n, len -= n) {
        n = ctl_csv_record(c, p, len, last, &open);
        if (n && open && s->n == 0)
            return not_closed(c->line, why);
        if (!n && s->n == 0)
            return too_long(c, why);
        if (!n || open)
            break;
        const char *end = ctl_csv_end(p, n);
        if (!is_skipped(c, p, end))
            s->all[s->n++] = (record){p, end};
    }
    return 0;
}

/* ---- the delimiter ---- */

typedef struct candidate {
    char delimiter;
    uint64_t fields; /* of the first line */
    bool everywhere; /* all lines have as many, more than one */
} candidate;

static candidate try_delimiter(const ctl_csv *given, const sample *s, char delimiter)
{
    ctl_csv c = *given;
    const char *field;
    c.delimiter = delimiter;
    candidate k = {.delimiter = delimiter};
    for (int i = 0; i < s->n; i++) {
        uint64_t n = ctl_csv_fields(&c, s->all[i].p, s->all[i].end, 0, &field);
        k.fields = i ? k.fields : n;
        k.everywhere = (i ? k.everywhere : n > 1) && n == k.fields;
    }
    return k;
}

static const char *shown(char delimiter) { return delimiter == '\t' ? "a tab" : delimiter == ',' ? "','" : "';'"; }

/* Of several that may be meant, only one that divides all lines alike is taken. */
static bool find_delimiter(ctl_csv *c, const sample *s, char why[CTL_WHY])
{
    candidate may[sizeof MAY_DELIMIT], one = {0};
    int n = 0, everywhere = 0;
    for (const char *d = MAY_DELIMIT; *d; d++) {
        candidate k = try_delimiter(c, s, *d);
        if (*d == c->decimal || k.fields < 2)
            continue;
        may[n++] = k;
        everywhere += k.everywhere;
        one = k.everywhere || n == 1 ? k : one;
    }
    c->delimiter = n ? one.delimiter : c->decimal == ',' ? ';' : ',';
    if (n < 2 || everywhere == 1)
        return true;
    size_t at = (size_t)snprintf(why, CTL_WHY, "fields may be separated by");
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(why + at, CTL_WHY - at, "%s %s (%" PRIu64 " in the first line)", i ? " or" : "",
                               shown(may[i].delimiter), may[i].fields);
    snprintf(why + at, CTL_WHY - at, ": --delimiter says by which");
    return false;
}

/* ---- the header ---- */

typedef enum { MISSING, WHOLE, NUMBER, TEXT } kind; /* WHOLE: digits alone */

/* What the next field of the record is; a record that has ended has missing ones. */
static kind next_kind(const ctl_csv *c, const char **at, const char *end, char text[CTL_FIELD])
{
    uint64_t bits;
    char why[CTL_WHY];
    text[0] = 0;
    if (!*at)
        return MISSING;
    if (!ctl_csv_take(c, at, end, text))
        return TEXT;
    if (ctl_csv_is_missing(c, text))
        return MISSING;
    if (text[strspn(text, "0123456789")] == 0)
        return WHOLE;
    char copy[CTL_FIELD];
    memcpy(copy, text, CTL_FIELD);
    bool number = ctl_csv_point(c, copy) && (ctl_parse_scalar(copy, REDUCE_F64, &bits, why) || strstr(why, "out of the range"));
    return number ? NUMBER : TEXT;
}

/* Whole numbers as names have them */
typedef enum { NO_NAMES, YEARS, ASCENDING /* each one more than the one before it */ } names;

static names names_of(const ctl_csv *c, const record *r)
{
    char text[CTL_FIELD];
    uint64_t before = 0;
    int n = 0;
    bool ascending = true, years = true;
    for (const char *at = r->p; at;) {
        kind k = next_kind(c, &at, r->end, text);
        if (k == MISSING && !text[0])
            continue;
        if (k != WHOLE)
            return NO_NAMES;
        uint64_t v = strtoull(text, NULL, 10);
        ascending &= n == 0 || v == before + 1;
        years &= strlen(text) == 4 && v >= 1500 && v < 2200 && (n == 0 || v != before);
        before = v;
        n++;
    }
    return n && years ? YEARS : ascending && n > 1 ? ASCENDING : NO_NAMES;
}

/* What stands below the first line in the columns from one on, in step. */
typedef struct below {
    const ctl_csv *c;
    const sample *s;
    const char *at[LINES];
} below;

static below below_first(const ctl_csv *c, const sample *s)
{
    below b = {.c = c, .s = s};
    for (int i = 1; i < s->n; i++)
        b.at[i] = s->all[i].p;
    return b;
}

/* Counts the kinds of the next column; *again: how often `name` stands there. */
static void next_column(below *b, int count[TEXT + 1], const char *name, int *again)
{
    char text[CTL_FIELD];
    *again = 0;
    memset(count, 0, (TEXT + 1) * sizeof *count);
    for (int i = 1; i < b->s->n; i++) {
        count[next_kind(b->c, &b->at[i], b->s->all[i].end, text)]++;
        *again += !strcmp(text, name);
    }
}

/* How the first line and those below it compare. */
typedef struct comparison {
    bool text, number;    /* the first line has some */
    bool text_on_numbers; /* a text stands over numbers alone */
    bool again;           /* a text stands again below itself */
    bool twice;           /* two of its numbers are equal */
    bool other_form;      /* in each column whole numbers stand over others alone, or others over whole ones */
} comparison;

static comparison compare(const ctl_csv *c, const sample *s)
{
    char text[CTL_FIELD], before[CTL_FIELD] = "";
    comparison r = {.other_form = s->n > 1};
    below b = below_first(c, s);
    int count[TEXT + 1], again, columns = 0;
    for (const char *at = s->all[0].p; at; columns++) {
        kind k = next_kind(c, &at, s->all[0].end, text);
        next_column(&b, count, text, &again);
        r.text |= k == TEXT;
        r.number |= k == WHOLE || k == NUMBER;
        r.text_on_numbers |= k == TEXT && !count[TEXT] && count[WHOLE] + count[NUMBER] > 0;
        r.again |= k == TEXT && again;
        r.twice |= (k == WHOLE || k == NUMBER) && !strcmp(text, before);
        r.other_form &= (k == WHOLE && !count[WHOLE] && count[NUMBER]) || (k == NUMBER && !count[NUMBER] && count[WHOLE]);
        memcpy(before, text, CTL_FIELD);
    }
    r.other_form &= columns > 1;
    return r;
}

/* Does the first line have names, or what all lines have? */
static bool alone_has_names(const ctl_csv *c, const sample *s)
{
    names first = names_of(c, &s->all[0]);
    bool alike = s->n > 1;
    for (int i = 1; i < s->n; i++)
        alike &= names_of(c, &s->all[i]) == first;
    return first != NO_NAMES && !alike;
}

/* 1: the first line is a header, 0: it is not, -1: it may be either. */
static int guess_header(const ctl_csv *c, const sample *s)
{
    comparison r = compare(c, s);
    if (!r.text)
        return r.other_form || alone_has_names(c, s) ? -1 : 0;
    if (!r.number || r.text_on_numbers)
        return 1;
    return r.again || r.twice ? 0 : -1;
}

static void list_columns(const ctl_csv *c, const record *r, char why[CTL_WHY])
{
    char text[CTL_FIELD], clean[40];
    size_t n = strlen(why);
    for (const char *at = r->p; at;) {
        bool first = at == r->p;
        ctl_csv_take(c, &at, r->end, text);
        ctl_clean(clean, sizeof clean, text);
        if (n + strlen(clean) + 8 > CTL_WHY) {
            snprintf(why + n, CTL_WHY - n, " ...");
            return;
        }
        n += (size_t)snprintf(why + n, CTL_WHY - n, "%s %s", first ? "" : ",", clean);
    }
}

/* ---- the column ---- */

/* *same: how many columns have the name, the last of them at *column. */
static void find_name(const ctl_csv *c, const record *header, const char *name, uint64_t *column, unsigned *same)
{
    char text[CTL_FIELD];
    const char *at = header->p;
    *same = 0;
    for (uint64_t i = 0; at; i++)
        if (ctl_csv_take(c, &at, header->end, text) && !strcmp(text, name)) {
            *column = i;
            ++*same;
        }
}

static bool find_number(const ctl_csv *c, const char *text, uint64_t *column)
{
    char *rest;
    errno = 0;
    *column = strtoull(text, &rest, 10) - 1;
    return text[0] >= '1' && text[0] <= '9' && *rest == 0 && errno == 0 && *column < c->fields;
}

/* "#4" is a number, "=4" a name, "4" either. Returns false with what is wrong in `why`. */
static bool find_column(ctl_csv *c, const record *first, bool header, const char *column, char why[CTL_WHY])
{
    char clean[48];
    uint64_t name = 0, number = 0;
    unsigned same = 0;
    bool only_number = column[0] == '#' && column[1] >= '0' && column[1] <= '9', only_name = column[0] == '=';
    const char *text = column + (only_number || only_name);
    bool numbered = !only_name && find_number(c, text, &number);
    if (header && !only_number)
        find_name(c, first, text, &name, &same);
    ctl_clean(clean, sizeof clean, text);
    c->column = same ? name : number;
    if (same == 1 && numbered && name != number)
        snprintf(why, CTL_WHY, "'%s' is a column's name and another's number: '=%s' or '#%s' says which; there are", clean,
                 clean, clean);
    else if (same > 1)
        snprintf(why, CTL_WHY, "%u columns are called '%s' (a number, as in '#1', names one); there are", same, clean);
    else if (!same && !numbered)
        snprintf(why, CTL_WHY, "no column '%s'; there are", clean);
    else
        return true;
    return false;
}

/* The columns of the groups' keys. */
static bool find_groups(ctl_csv *c, const record *first, bool header, char why[CTL_WHY])
{
    ctl_groups *g = c->holes->groups;
    const uint64_t column = c->column;
    bool found = true;
    for (int i = 0; g && found && i < g->columns; i++) {
        found = find_column(c, first, header, g->name[i], why);
        g->column[i] = c->column;
    }
    c->column = column;
    return found;
}

int ctl_csv_begin(ctl_csv *c, const ctl_dialect *d, const char *bytes, size_t len, bool last, const char *column, size_t *skip,
                  char why[CTL_WHY])
{
    sample s = {.n = 0};
    *skip = len >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3) ? 3 : 0; /* UTF-8's mark, as spreadsheets write it */
    int err = skip_lines(c, d->skip_lines, bytes, len, last, skip, why);
    if (!err)
        err = take_sample(c, bytes + *skip, len - *skip, last, &s, why);
    if (err)
        return err;
    if (s.n == 0)
        s.all[s.n++] = (record){bytes + *skip, bytes + *skip};
    if (!c->delimiter && !find_delimiter(c, &s, why))
        return REDUCE_E_TYPE;
    const char *field;
    const record *first = &s.all[0];
    c->fields = ctl_csv_fields(c, first->p, first->end, 0, &field);
    int header = d->header ? d->header > 0 : guess_header(c, &s);
    if (column && header < 0) {
        snprintf(why, CTL_WHY, "the first line may be a header or not: --header or --no-header says which; it has");
    } else if (!column) {
        snprintf(why, CTL_WHY, "text: name a column (FILE:COLUMN), or --text for numbers alone; there are");
    } else if (find_column(c, first, header, column, why) && find_groups(c, first, header, why)) {
        size_t n = header && len > *skip ? ctl_csv_record(c, first->p, len - *skip, last, &(bool){false}) : 0;
        c->line += count_lines(first->p, n);
        c->owed = c->line;
        *skip += n;
        return 0;
    }
    list_columns(c, first, why);
    return REDUCE_E_TYPE;
}
