/* Order statistics of an array in parts, which may lie in many processes: passes of digits, whose counts are added. */
#include <stdlib.h>
#include <string.h>

#include "client/error.h"
#include "client/quantiles.h"
#include "client/spec.h"
#include "kernels/cpu/order/ranked.h"

struct reduce_selection {
    reduce_spec given;
    rp_spec spec;
    uint8_t q[RP_MAX_QUANTILES * RC_DECIMAL_BYTES]; /* spec.q */
    rk_ranking ranking;
    uint64_t words[1 + RK_BRACKETS * RK_DIGITS]; /* elements of the first pass, then digits */
    bool shown;                                  /* the words are those of this pass */
    bool ended;
};

static int check(const reduce_spec *g, const rp_spec *s, rp_fault *f)
{
    if (!rp_is_ranked(s->op) || rp_is_top(s->op) || s->op == RP_OP_HISTOGRAM)
        return rc_fail(f, REDUCE_E_OP, "op", "%s has no selection: median, quantile and kth have", rp_op_name(s->op));
    if (g->mask || g->flags & REDUCE_MASKED)
        return rc_fail(f, REDUCE_E_ARGUMENT, "mask", "masks come with the parts, in reduce_selection_count");
    if (g->rows == 1 && g->planes <= 1 && !g->offsets && !(g->flags & REDUCE_COLUMNS))
        return 0;
    return rc_fail(f, REDUCE_E_SHAPE, "rows", "a selection is of one array");
}

static int no_selection(void) { return rc_error(REDUCE_E_ARGUMENT, "selection", "the pointer to it is NULL"); }

int reduce_selection_new(reduce_selection **out, const reduce_spec *spec)
{
    rp_fault f = {0};
    if (!out)
        return no_selection();
    reduce_selection *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return rc_error(REDUCE_E_NO_MEMORY, "selection", "no memory for a selection");
    int err = rc_spec(spec, &s->given, &s->spec, &f);
    if (!err)
        err = check(&s->given, &s->spec, &f);
    if (err) {
        free(s);
        return rc_report(&f);
    }
    rc_put_decimals(s->q, s->given.q, s->given.quantiles);
    s->spec.q = s->q;
    rk_ranking_of(rk_simd_best(), &s->spec, &s->ranking);
    s->ranking.in_parts = true;
    if (!rk_ranking_open(&s->ranking)) {
        reduce_selection_free(s);
        return rc_error(REDUCE_E_NO_MEMORY, "selection", "no memory for counts");
    }
    *out = s;
    return 0;
}

void reduce_selection_free(reduce_selection *s)
{
    if (s)
        rk_ranking_close(&s->ranking);
    free(s);
}

int reduce_selection_count(reduce_selection *s, const void *data, const void *mask, size_t bytes)
{
    if (!s)
        return no_selection();
    rk_reader *r = &s->ranking.line;
    if (bytes % r->size)
        return rc_error(REDUCE_E_SHAPE, "bytes", "%zu bytes are not a multiple of the %zu-byte element", bytes, r->size);
    if (!data && bytes)
        return rc_error(REDUCE_E_ARGUMENT, "data", "the pointer to the data is NULL");
    r->x = data;
    r->mask = mask;
    r->n = r->run = r->stride = bytes / r->size;
    if (r->n && !s->ended)
        rk_ranking_pass(&s->ranking, 0, r->n);
    return 0;
}

/* Words behind the first one. */
static size_t digits_of(const reduce_selection *s) { return s->ended ? 0 : s->ranking.brackets * (size_t)RK_DIGITS; }

uint64_t *reduce_selection_counts(reduce_selection *s, size_t *n)
{
    if (!s || !n) {
        no_selection();
        return NULL;
    }
    s->words[0] = s->ranking.passes ? 0 : s->ranking.all;
    for (unsigned i = 0; i < s->ranking.brackets && !s->ended; i++)
        memcpy(s->words + 1 + i * RK_DIGITS, s->ranking.bracket[i].bins, RK_DIGITS * sizeof *s->words);
    s->shown = true;
    *n = 1 + digits_of(s);
    return s->words;
}

int reduce_selection_next(reduce_selection *s)
{
    if (!s)
        return no_selection();
    rk_ranking *r = &s->ranking;
    bool again = false;
    if (s->ended)
        return 0;
    if (!r->passes && s->shown)
        r->all = s->words[0];
    for (unsigned i = 0; i < r->brackets && s->shown; i++)
        memcpy(r->bracket[i].bins, s->words + 1 + i * RK_DIGITS, RK_DIGITS * sizeof *s->words);
    s->shown = false;
    if (!rk_ranking_next(r, &again))
        return rc_error(REDUCE_E_NO_MEMORY, "selection", "no memory for counts");
    s->ended = !again;
    return again;
}

int reduce_selection_finish(reduce_selection *s, void *out, size_t room)
{
    if (!s)
        return no_selection();
    const rk_ranking *r = &s->ranking;
    const size_t size = rp_cell_size(&s->spec);
    uint64_t bits[RK_MAX_RANKS];
    uint8_t cell[RP_MAX_QUANTILES * sizeof(uint64_t)];
    rp_fault f = {0};
    if (!s->ended)
        return rc_error(REDUCE_E_ARGUMENT, "selection", "there are passes left");
    if (!out || room < size)
        return rc_error(REDUCE_E_ARGUMENT, "room", "the result takes %zu bytes, not %zu", size, room);
    for (unsigned i = 0; i < r->ranks; i++)
        bits[i] = rk_key_bits(s->spec.dtype, r->wanted[i].lo);
    const rp_err err = rk_order_cell(&s->spec, r->n, r->nans, bits, cell);
    if (err) {
        rk_order_fault(&f, &s->spec, 0, err, r->n, bits);
        return rc_report_of(&f, true);
    }
    memcpy(out, cell, size);
    return 0;
}
