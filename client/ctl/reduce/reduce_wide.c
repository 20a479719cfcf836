/* Text with integers beyond 64 bits, which no element holds: the few operations on them that work are computed here. */
#include <inttypes.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/text/text_block.h"
#include "client/ctl/text/wide.h"

/* What is known about the integers so far, and the token that the last piece ended in. */
typedef struct tally {
    uint64_t count, line;
    ctl_wide sum, least, largest;
    char token[CTL_MAX_TOKEN];
    size_t len;
} tally;

static int wrong(const tally *t, const char *token, size_t n, const char *what, char why[CTL_WHY])
{
    char text[48] = "", clean[48];
    memcpy(text, token, n < sizeof text - 1 ? n : sizeof text - 1);
    ctl_clean(clean, sizeof clean, text);
    snprintf(why, CTL_WHY, "line %" PRIu64 ": '%s%s' %s", t->line + 1, clean, n >= sizeof text ? "..." : "", what);
    return REDUCE_E_TYPE;
}

static int take_token(tally *t, const char *p, const char *end, char why[CTL_WHY])
{
    ctl_wide v;
    bool beyond;
    if (!ctl_wide_parse(p, end, &v, &beyond))
        return wrong(t, p, (size_t)(end - p),
                     beyond ? "has more than 128 bits; --dtype f64 reads it rounded"
                            : "is not an integer as those before it; --dtype f64 reads both",
                     why);
    if (!t->count || ctl_wide_less(&v, &t->least))
        t->least = v;
    if (!t->count || ctl_wide_less(&t->largest, &v))
        t->largest = v;
    ctl_wide_add(&t->sum, &v);
    t->count++;
    return 0;
}

/* Keep the token [p, end), or the part of it that has come. */
static int keep(tally *t, const char *p, const char *end, char why[CTL_WHY])
{
    size_t n = (size_t)(end - p);
    if (n > sizeof t->token - t->len)
        return wrong(t, p, n, "is too long for a number", why);
    memcpy(t->token + t->len, p, n);
    t->len += n;
    return 0;
}

/* The kept token is whole. */
static int take_kept(tally *t, char why[CTL_WHY])
{
    int err = t->len ? take_token(t, t->token, t->token + t->len, why) : 0;
    t->len = 0;
    return err;
}

static int take_piece(tally *t, const char *p, const char *end, char why[CTL_WHY])
{
    int err = 0;
    while (p < end && !err) {
        const char *token = p;
        while (p < end && !ctl_is_blank(*p))
            p++;
        if (t->len || p == end)
            err = keep(t, token, p, why);
        else if (p > token)
            err = take_token(t, token, p, why);
        if (!err && p < end) {
            err = take_kept(t, why);
            t->line += *p++ == '\n';
        }
    }
    return err;
}

static int take_input(tally *t, ctl_input *in, char why[CTL_WHY])
{
    const char *bytes;
    int err = 0;
    t->line = 0;
    for (long n; !err && (n = ctl_reader_bytes(in->reader, &bytes, &err, why)) > 0;)
        err = take_piece(t, bytes, bytes + n, why);
    return err ? err : take_kept(t, why);
}

/* ---- what can be said ---- */

static const char LIMITS[] =
    "integers beyond 64 bits have a sum, mean, min and max of all of them, without --out and --initial; "
    "--dtype f64 reads them rounded";

static bool is_plain(const ctl_options *o)
{
    bool shaped = o->by_rows || o->n_axes || o->offsets;
    return !shaped && !o->mask && !o->initial && !o->spec.flags && !o->spec.out && o->format != CTL_RAW;
}

static bool is_known(int op) { return op == REDUCE_SUM || op == REDUCE_MEAN || op == REDUCE_MIN || op == REDUCE_MAX; }

static const char *value_of(const tally *t, int op, bool hex, char text[CTL_MAX_NUMBER])
{
    if (op == REDUCE_MEAN) {
        uint64_t mean = ctl_wide_mean(&t->sum, t->count, REDUCE_F64);
        return ctl_number(text, REDUCE_F64, &mean, hex);
    }
    return ctl_wide_text(text, op == REDUCE_SUM ? &t->sum : op == REDUCE_MIN ? &t->least : &t->largest);
}

/* Several operations have one pass: a pipe could not be read again for each. */
static int give_all(const tally *t, const ctl_options *o, const ctl_where *where)
{
    char text[CTL_MAX_NUMBER];
    int code = CTL_OK;
    for (int k = 0; k < o->n_ops; k++) {
        bool known = is_known(o->ops[k]);
        if (!known)
            code = ctl_print_error(o, where, REDUCE_E_TYPE, LIMITS);
        o->sink->take_column(o->sink, where, k, known ? value_of(t, o->ops[k], o->format == CTL_HEX, text) : "error");
    }
    return code;
}

int ctl_reduce_wide(ctl_work *w)
{
    const ctl_options *o = w->o;
    tally t = {.count = 0};
    char why[CTL_WHY] = "", text[CTL_MAX_NUMBER];
    ctl_where where = {.name = w->name};
    bool several = o->sink && o->spec.op == REDUCE_STATS;
    int err = 0;
    if (!is_plain(o) || !(several || is_known(o->spec.op)))
        return ctl_print_error(o, &where, REDUCE_E_TYPE, LIMITS);
    for (int i = 0; i < w->n_in && !err; i++)
        err = take_input(&t, &w->in[i], why);
    if (err)
        return ctl_print_error(o, &where, err, why);
    if (several)
        return give_all(&t, o, &where);
    value_of(&t, o->spec.op, o->format == CTL_HEX, text);
    ctl_print_text(o, &where, text, o->spec.op == REDUCE_MEAN ? "f64" : "integer", t.count);
    return CTL_OK;
}
