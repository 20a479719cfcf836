#include "client/quantiles.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_DIGITS = 17 }; /* of a double */

/* The digits and the exponent of "-d.ddde-xx", whatever the sign between integer and fraction is. */
static rp_value parse(const char *text)
{
    rp_value v = {0};
    const char *p = text;
    for (; *p && *p != 'e'; p++)
        if (*p >= '0' && *p <= '9') {
            v.i64 = 10 * v.i64 + (*p - '0');
            v.exponent--;
        }
    v.exponent += 1 + strtol(*p ? p + 1 : "0", NULL, 10);
    if (text[0] == '-')
        v.i64 = -v.i64;
    return v;
}

/* The shortest decimal that gives the double x, which is finite: 0.1 is 1/10. Independent of the locale. */
static rp_value decimal_of(double x)
{
    char text[64];
    for (int digits = 0; digits < MOST_DIGITS; digits++) {
        snprintf(text, sizeof text, "%.*e", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    return parse(text);
}

static void put_parameter(rp_tagged *t, int code, int form, const rp_value *v, uint8_t *word)
{
    rp_put_value(word, form, v);
    t->parameter[code] = (rp_parameter){(uint8_t)form, 1, word};
}

void rc_parameters(rp_tagged *t, const rp_spec *s, uint8_t words[16])
{
    if (s->op == RP_OP_KTH || rp_is_top(s->op))
        put_parameter(t, RP_PARAMETER_K, RP_FORM_I64, &(rp_value){.i64 = s->k}, words);
    if (s->op == RP_OP_HISTOGRAM)
        t->parameter[RP_PARAMETER_EDGES] = (rp_parameter){RP_FORM_F64, s->n_edges, s->edges};
    if (s->op == RP_OP_QUANTILE)
        t->parameter[RP_PARAMETER_Q] = (rp_parameter){RP_FORM_DECIMAL, s->quantiles, s->q};
    if (s->op == RP_OP_QUANTILE && s->method)
        put_parameter(t, RP_PARAMETER_METHOD, RP_FORM_U64, &(rp_value){.u64 = s->method}, words + 8);
    if (s->zero_drops)
        put_parameter(t, RP_PARAMETER_ZERO_WEIGHTS_DROP, RP_FORM_U64, &(rp_value){.u64 = 1}, words);
}

uint64_t rc_parameter_bytes(const rp_spec *s)
{
    const uint64_t edges = s->op == RP_OP_HISTOGRAM ? RP_PART_SIZE + 8 * (uint64_t)s->n_edges : 0;
    return edges + 2 * (RP_PART_SIZE + 8) + RP_PART_SIZE + RP_MAX_QUANTILES * RC_DECIMAL_BYTES;
}

void rc_put_decimals(uint8_t *to, const double *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const rp_value v = decimal_of(x[i]);
        to += rp_put_value(to, RP_FORM_DECIMAL, &v);
    }
}
