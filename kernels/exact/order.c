#include "kernels/exact/order.h"

#include <inttypes.h>
#include <string.h>

#include "kernels/exact/order_mix.h"

/* ---- what is asked: types.def ---- */

typedef struct method {
    int8_t times, more, plus, how;
} method;
static const method methods[] = {
#define X(NAME, name, code, times, more, plus, how) [code] = {times, more, plus, RK_##how},
    RP_METHODS(X)
#undef X
};

rk_order_rule rk_order_rule_of(const rp_spec *s, unsigned i)
{
    if (s->op == RP_OP_KTH)
        return (rk_order_rule){s->k, 0, 1, 0, 0, RK_RANK};
    const method *m = &methods[s->op == RP_OP_MEDIAN ? RP_METHOD_LINEAR : s->method];
    rp_decimal v = s->op == RP_OP_MEDIAN ? (rp_decimal){5, -1} : rp_spec_quantile(s, i);
    for (; v.digits && v.digits % 10 == 0; v.exponent++)
        v.digits /= 10;
    return (rk_order_rule){v.digits, v.digits ? (int)-v.exponent : 0, m->times, m->more, m->plus, m->how};
}

static rk_place place_of(const rp_spec *s, unsigned i, uint64_t n) { return rk_order_place(rk_order_rule_of(s, i), n); }

/* The rank of kth. False: there is none. */
static bool rank_of(const rp_spec *s, uint64_t n, uint64_t *rank) { return rk_order_rank(rk_order_rule_of(s, 0), n, rank); }

unsigned rk_order_values(const rp_spec *s) { return s->op == RP_OP_QUANTILE ? s->quantiles : 1; }

/* ---- ranks ---- */

/* Insert into ascending numbers, each once. */
static unsigned insert(uint64_t *rank, unsigned n, uint64_t r)
{
    unsigned i = n;
    while (i && rank[i - 1] > r)
        i--;
    if (i && rank[i - 1] == r)
        return n;
    memmove(rank + i + 1, rank + i, (n - i) * sizeof *rank);
    rank[i] = r;
    return n + 1;
}

unsigned rk_order_ranks(const rp_spec *s, uint64_t n, uint64_t rank[RK_MAX_RANKS])
{
    unsigned ranks = 0;
    if (!n)
        return 0;
    if (s->op == RP_OP_KTH)
        return rank_of(s, n, rank);
    for (unsigned i = 0; i < rk_order_values(s); i++) {
        const rk_place p = place_of(s, i, n);
        ranks = insert(rank, ranks, p.at);
        ranks = p.part ? insert(rank, ranks, p.at + 1) : ranks;
    }
    return ranks;
}

/* ---- cells ---- */

static void put_nans(const rp_spec *s, uint8_t *cell)
{
    const uint64_t nan = rk_nan_bits(rk_format_of(s->out));
    for (unsigned i = 0; i < rk_order_values(s); i++)
        memcpy(cell + i * rp_dtype_size(s->out), &nan, rp_dtype_size(s->out));
}

/* Are the elements of the line needed? Not if NaNs decide its result. */
static bool needs(const rp_spec *s, uint64_t n, uint64_t nans) { return n && (!nans || s->nan == RP_NAN_OMIT); }

static unsigned find(const uint64_t *rank, unsigned ranks, uint64_t r)
{
    unsigned i = 0;
    while (i + 1 < ranks && rank[i] != r)
        i++;
    return i;
}

static rp_err put_quantiles(const rp_spec *s, uint64_t n, const uint64_t *bits, uint8_t *cell)
{
    uint64_t rank[RK_MAX_RANKS], word;
    const unsigned ranks = rk_order_ranks(s, n, rank);
    rp_err err = RP_OK;
    for (unsigned i = 0; i < rk_order_values(s); i++) {
        const rk_place p = place_of(s, i, n);
        const unsigned at = find(rank, ranks, p.at);
        const rp_err one = rk_order_between(s->dtype, s->out, bits[at], bits[p.part ? at + 1 : at], p, &word);
        memcpy(cell + i * rp_dtype_size(s->out), &word, rp_dtype_size(s->out));
        err = err ? err : one;
    }
    return err;
}

rp_err rk_order_cell(const rp_spec *s, uint64_t n, uint64_t nans, const uint64_t *bits, uint8_t *cell)
{
    uint64_t rank, word;
    memset(cell, 0, rp_cell_size(s));
    if (nans && s->nan == RP_NAN_ERROR)
        return RP_NAN;
    if (!needs(s, n, nans)) {
        if (!rk_is_float(s->out))
            return RP_EMPTY;
        put_nans(s, cell);
        return RP_OK;
    }
    if (s->op != RP_OP_KTH)
        return put_quantiles(s, n, bits, cell);
    if (!rank_of(s, n, &rank))
        return RP_SHAPE;
    const rp_err err = rk_order_element(s->dtype, s->out, bits[0], &word);
    memcpy(cell, &word, rp_dtype_size(s->out));
    return err;
}

/* ---- faults ---- */

static const char *line_name(const rp_spec *s)
{
    return s->flags & RP_OFFSETS ? "segment" : s->flags & RP_COLUMNS ? "column" : "row";
}

/* The first element of the cell that does not fit. */
static void explain_overflow(rp_fault *f, const rp_spec *s, uint64_t n, const uint64_t *bits)
{
    uint64_t rank[RK_MAX_RANKS], word, v[3];
    const unsigned ranks = rk_order_ranks(s, n, rank);
    for (unsigned i = 0; i < rk_order_values(s); i++) {
        const uint64_t x = bits[s->op == RP_OP_KTH || rp_is_top(s->op) ? 0 : find(rank, ranks, place_of(s, i, n).at)];
        if (rk_element_out(s->dtype, x, s->out, &word) == RP_OK)
            continue;
        rk_widen(s->dtype, x, v);
        f->value[0] = v[0];
        f->value[1] = v[1];
        return;
    }
}

/* All fields but the value. */
static void describe(rp_fault *f, const rp_spec *s, uint64_t line, rp_err code, uint64_t n)
{
    const char *where = line_name(s), *op = rp_op_name(s->op);
    switch ((int)code) {
    case RP_NAN:
        rp_fail(f, code, "data", 0, "%s %" PRIu64 " holds a NaN", where, line);
        break;
    case RP_EMPTY:
        rp_fail(f, code, "row_len", 0, "%s %" PRIu64 ": %s of no elements", where, line, op);
        break;
    case RP_SHAPE:
        rp_fail(f, code, "k", n, "%s %" PRIu64 ": no rank %" PRId64 " among %" PRIu64 " elements", where, line, s->k, n);
        break;
    default:
        rp_fail(f, code, "out", 0, "%s %" PRIu64 ": the %s does not fit %s", where, line, op, rp_dtype_name(s->out));
    }
    f->index = line;
}

void rk_order_fault(rp_fault *f, const rp_spec *s, uint64_t line, rp_err code, uint64_t n, const uint64_t *bits)
{
    describe(f, s, line, code, n);
    if (code == RP_OVERFLOW)
        explain_overflow(f, s, n, bits);
}

void rk_order_fault_move(rp_fault *f, const rp_spec *s, uint64_t line)
{
    const uint64_t value[2] = {f->value[0], f->value[1]};
    describe(f, s, line, f->code, f->limit);
    f->value[0] = value[0];
    f->value[1] = value[1];
}
