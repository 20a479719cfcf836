/* A column of a table as a stream of text, which can begin again if the table can. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/formats/csv.h"

typedef struct column_text {
    ctl_pull pull;
    ctl_pull *from;
    ctl_csv csv;
    ctl_csv begun;         /* as it was before the first record, */
    size_t skipped;        /* and the bytes before that */
    size_t at, whole, len; /* [at, whole) is still to be taken, [whole, len) needs what follows it */
    bool ended;
    char bytes[CTL_CSV_RECORD];
} column_text;

static long csv_more(column_text *t, char why[CTL_WHY])
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
    if (n < 0) {
        t->pull.err = t->from->err;
        return n;
    }
    t->len += (size_t)n;
    t->ended = t->len < sizeof t->bytes;
    t->whole = ctl_csv_line_ends(t->bytes, t->len, t->ended);
    return n;
}

static long csv_read(ctl_pull *p, void *space, size_t room, char why[CTL_WHY])
{
    column_text *t = (column_text *)p;
    size_t used;
    long made = 0;
    while (made == 0) {
        p->err = REDUCE_E_TYPE;
        used = 0;
        made = ctl_csv_feed(&t->csv, t->bytes + t->at, t->whole - t->at, t->ended, space, room, &used, why);
        if (made < 0)
            return made;
        t->at += used;
        if (made == 0 && t->ended)
            return 0;
        if (made == 0 && csv_more(t, why) < 0)
            return -1;
    }
    return made;
}

static void forget_holes(ctl_holes *h)
{
    h->n = h->next = 0;
    h->count = 0;
    if (h->groups)
        ctl_groups_rewind(h->groups);
}

/* To the first record. */
static bool csv_rewind(ctl_pull *p)
{
    column_text *t = (column_text *)p;
    char why[CTL_WHY];
    if (!ctl_pull_rewind(t->from))
        return false;
    t->csv = t->begun;
    t->at = t->len = 0;
    forget_holes(t->csv.holes);
    bool good = csv_more(t, why) >= 0;
    t->at = t->skipped;
    return good;
}

static void csv_close(ctl_pull *p)
{
    column_text *t = (column_text *)p;
    free(t->csv.holes->at);
    *t->csv.holes = (ctl_holes){.groups = t->csv.holes->groups};
    ctl_pull_close(t->from);
    free(t);
}

static bool has_numbers(const char *list) { return list && strpbrk(list, "0123456789-"); }

ctl_pull *ctl_csv_column(ctl_pull *from, const char *column, const ctl_csv_options *o, ctl_holes *holes, int *err,
                         char why[CTL_WHY])
{
    column_text *t = from ? malloc(sizeof *t) : NULL;
    const ctl_dialect *d = o->dialect;
    if (!t) {
        ctl_pull_close(from);
        return NULL;
    }
    t->pull = (ctl_pull){csv_read, csv_close, 0, from->rewind ? csv_rewind : NULL};
    t->from = from;
    t->csv = (ctl_csv){.delimiter = d->delimiter,
                       .decimal = d->decimal ? d->decimal : '.',
                       .quote = d->unquoted ? 0
                                : d->quote  ? d->quote
                                            : '"',
                       .comment = d->comment,
                       .missing = d->missing,
                       .policy = o->policy,
                       .holes = holes};
    t->csv.plain = t->csv.decimal == '.' && !has_numbers(d->missing);
    t->at = t->len = 0;
    *err = csv_more(t, why) < 0 ? t->pull.err
                                : ctl_csv_begin(&t->csv, d, t->bytes, t->whole, t->ended, column, &t->skipped, why);
    t->at = t->skipped;
    t->begun = t->csv;
    if (*err == 0)
        return &t->pull;
    csv_close(&t->pull);
    return NULL;
}

bool ctl_has_dialect(const ctl_dialect *d)
{
    return d->delimiter || d->decimal || d->quote || d->unquoted || d->comment || d->header || d->skip_lines || d->missing;
}
