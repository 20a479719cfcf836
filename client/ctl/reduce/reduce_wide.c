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

static bool is_possible(const ctl_options *o)
{
    static const int ops[] = {REDUCE_SUM, REDUCE_MEAN, REDUCE_MIN, REDUCE_MAX};
    bool known = false, plain = !o->by_rows && !o->n_axes && !o->offsets && !o->mask && !o->initial && !o->spec.flags;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        known |= o->spec.op == ops[i];
    return known && plain && !o->spec.out && o->format != CTL_RAW;
}

static void value_of(const tally *t, const ctl_options *o, char text[CTL_MAX_NUMBER])
{
    if (o->spec.op == REDUCE_MEAN) {
        uint64_t mean = ctl_wide_mean(&t->sum, t->count, REDUCE_F64);
        ctl_number(text, REDUCE_F64, &mean, o->format == CTL_HEX);
    } else {
        ctl_wide_text(text, o->spec.op == REDUCE_SUM ? &t->sum : o->spec.op == REDUCE_MIN ? &t->least : &t->largest);
    }
}

int ctl_reduce_wide(ctl_work *w)
{
    tally t = {.count = 0};
    char why[CTL_WHY] = "", text[CTL_MAX_NUMBER];
    ctl_where where = {.name = w->name};
    int err = 0;
    if (w->o->sink && w->o->spec.op == REDUCE_STATS) {
        w->o->sink->wide = true;
        return CTL_FAILED;
    }
    if (!is_possible(w->o)) {
        snprintf(why, sizeof why,
                 "integers beyond 64 bits have a sum, mean, min and max of all of them, without --out and --initial; "
                 "--dtype f64 reads them rounded");
        return ctl_print_error(w->o, &where, REDUCE_E_TYPE, why);
    }
    for (int i = 0; i < w->n_in && !err; i++)
        err = take_input(&t, &w->in[i], why);
    if (err)
        return ctl_print_error(w->o, &where, err, why);
    value_of(&t, w->o, text);
    ctl_print_text(w->o, &where, text, w->o->spec.op == REDUCE_MEAN ? "f64" : "integer", t.count);
    return CTL_OK;
}
