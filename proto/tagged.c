/* Tagged parts of requests: companions, parameters, the place of the results, a stride, a claim. */
#include "proto/tagged.h"

#include <string.h>

#include "proto/bytes.h"

enum { MOST_EXPONENT = 400 }; /* of a decimal: doubles end before that */

/* What precedes the body of a part. */
typedef struct {
    uint8_t tag, code, kind, extent;
    uint32_t len; /* of the body */
} head;

/* ---- values ---- */
static size_t form_size(int form)
{
    static const uint8_t sizes[RP_FORM_END] = {
#define X(NAME, name, code, bytes) [code] = bytes,
        RP_FORMS(X)
#undef X
    };
    return sizes[form];
}

rp_value rp_parameter_value(const rp_parameter *p, uint32_t i)
{
    const uint8_t *at = p->values + i * form_size(p->form);
    rp_value v = {.u64 = get64(at)};
    v.i64 = (int64_t)v.u64;
    memcpy(&v.f64, &v.u64, sizeof v.f64);
    v.exponent = p->form == RP_FORM_DECIMAL ? (int64_t)get64(at + 8) : 0;
    return v;
}

size_t rp_put_value(uint8_t *out, int form, const rp_value *v)
{
    uint64_t bits = form == RP_FORM_U64 ? v->u64 : (uint64_t)v->i64;
    if (form == RP_FORM_F64)
        memcpy(&bits, &v->f64, sizeof bits);
    put64(out, bits);
    if (form == RP_FORM_DECIMAL)
        put64(out + 8, (uint64_t)v->exponent);
    return form_size(form);
}

/* ---- encoding ---- */
static uint32_t companion_len(const rp_companion *c)
{
    return c->where == RP_WHERE_HANDLE ? RP_COMPANION_MAX : RP_COMPANION_SIZE;
}

static uint32_t parameter_len(const rp_parameter *p) { return p->n * (uint32_t)form_size(p->form); }

static size_t put_head(uint8_t *out, head h)
{
    out[0] = h.tag;
    out[1] = h.code;
    out[2] = h.kind;
    out[3] = h.extent;
    put32(out + 4, h.len);
    return RP_PART_SIZE;
}

static size_t put_companion(uint8_t *out, int role, const rp_companion *c)
{
    const uint32_t len = companion_len(c);
    uint8_t *body = out + put_head(out, (head){RP_TAG_COMPANION, (uint8_t)role, c->where, c->extent, len});
    put64(body, c->dtype);
    if (c->where == RP_WHERE_HANDLE) {
        put64(body + 8, c->handle);
        put64(body + 16, c->offset);
    }
    return RP_PART_SIZE + len;
}

uint32_t rp_tagged_size(const rp_tagged *t)
{
    uint32_t n = t->apart ? RP_PART_SIZE + RP_RESULT_AT_SIZE : 0;
    for (int r = 1; r < RP_ROLE_END; r++)
        n += t->companion[r].where ? RP_PART_SIZE + companion_len(&t->companion[r]) : 0;
    for (int p = 1; p < RP_PARAMETER_END; p++)
        n += t->parameter[p].form ? RP_PART_SIZE + parameter_len(&t->parameter[p]) : 0;
    n += t->stride ? RP_PART_SIZE + RP_STRIDE_SIZE : 0;
    return n + (t->claim.requests ? RP_PART_SIZE + RP_CLAIM_SIZE : 0);
}

size_t rp_put_tagged(uint8_t *out, const rp_tagged *t)
{
    size_t n = 0;
    for (int r = 1; r < RP_ROLE_END; r++)
        n += t->companion[r].where ? put_companion(out + n, r, &t->companion[r]) : 0;
    for (int i = 1; i < RP_PARAMETER_END; i++) {
        const rp_parameter *p = &t->parameter[i];
        if (!p->form)
            continue;
        n += put_head(out + n, (head){RP_TAG_PARAMETER, (uint8_t)i, p->form, 0, parameter_len(p)});
        memcpy(out + n, p->values, parameter_len(p));
        n += parameter_len(p);
    }
    if (t->apart) {
        n += put_head(out + n, (head){.tag = RP_TAG_RESULT, .len = RP_RESULT_AT_SIZE});
        put64(out + n, t->result.handle);
        put64(out + n + 8, t->result.offset);
        put64(out + n + 16, t->result.length);
        n += RP_RESULT_AT_SIZE;
    }
    if (t->stride) {
        n += put_head(out + n, (head){.tag = RP_TAG_STRIDE, .len = RP_STRIDE_SIZE});
        put64(out + n, t->stride);
        n += RP_STRIDE_SIZE;
    }
    if (t->claim.requests) {
        n += put_head(out + n, (head){.tag = RP_TAG_CLAIM, .len = RP_CLAIM_SIZE});
        put64(out + n, t->claim.requests);
        put64(out + n + 8, t->claim.bytes);
        n += RP_CLAIM_SIZE;
    }
    return n;
}

/* ---- decoding ---- */
static rp_err known(uint8_t code, int end, const char *what, rp_fault *f)
{
    if (code > 0 && code < end)
        return RP_OK;
    return rp_fail(f, RP_BAD_MESSAGE, what, (uint64_t)end - 1, "unknown %s %u of a part", what, code);
}

/* Bytes of the head that parts of this tag do not use. */
static rp_err unused(const head *h, rp_fault *f)
{
    const bool coded = h->tag == RP_TAG_COMPANION || h->tag == RP_TAG_PARAMETER;
    if ((!coded && (h->code || h->kind)) || (h->tag != RP_TAG_COMPANION && h->extent))
        return rp_fail(f, RP_BAD_MESSAGE, "parts", 0, "reserved bytes of a part are not zero");
    return RP_OK;
}

static rp_err get_head(const uint8_t *p, size_t left, head *h, rp_fault *f)
{
    TRY(need(left, RP_PART_SIZE, "parts", f));
    *h = (head){p[0], p[1], p[2], p[3], get32(p + 4)};
    TRY(known(h->tag, RP_TAG_END, "tag", f));
    TRY(unused(h, f));
    if (h->len % 8)
        return rp_fail(f, RP_BAD_MESSAGE, "parts", 8, "a part of %" PRIu32 " bytes, which are not a multiple of 8", h->len);
    return need(left - RP_PART_SIZE, h->len, "parts", f);
}

static rp_err get_companion(const head *h, const uint8_t *body, rp_tagged *t, rp_fault *f)
{
    TRY(known(h->code, RP_ROLE_END, "role", f));
    TRY(known(h->kind, RP_WHERE_END, "where", f));
    TRY(known(h->extent, RP_EXTENT_END, "extent", f));
    rp_companion *c = &t->companion[h->code];
    c->where = h->kind;
    TRY(exact(h->len, companion_len(c), rp_role_name(h->code), f));
    TRY(zeros(body + 1, 7, rp_role_name(h->code), f));
    c->dtype = body[0];
    c->extent = h->extent;
    c->handle = c->where == RP_WHERE_HANDLE ? get64(body + 8) : 0;
    c->offset = c->where == RP_WHERE_HANDLE ? get64(body + 16) : 0;
    return RP_OK;
}

static rp_err check_exponents(const rp_parameter *p, const char *name, rp_fault *f)
{
    for (uint32_t i = 0; i < p->n && p->form == RP_FORM_DECIMAL; i++) {
        const int64_t e = rp_parameter_value(p, i).exponent;
        if (e < -MOST_EXPONENT || e > MOST_EXPONENT)
            return rp_fail(f, RP_BAD_MESSAGE, name, MOST_EXPONENT, "an exponent of %" PRId64 " in %s", e, name);
    }
    return RP_OK;
}

static rp_err get_parameter(const head *h, const uint8_t *body, rp_tagged *t, rp_fault *f)
{
    static const struct {
        uint8_t form;
        uint32_t most;
    } rules[RP_PARAMETER_END] = {
#define X(NAME, name, code, form, most) [code] = {RP_FORM_##form, most},
        RP_PARAMETERS(X)
#undef X
    };
    TRY(known(h->code, RP_PARAMETER_END, "parameter", f));
    const char *name = rp_parameter_name(h->code);
    const uint8_t form = rules[h->code].form;
    const size_t size = form_size(form);
    if (h->kind != form)
        return rp_fail(f, RP_BAD_MESSAGE, name, form, "%s has values of the form %s, not of code %u", name, rp_form_name(form),
                       h->kind);
    if (h->len == 0 || h->len % size)
        return rp_fail(f, RP_BAD_MESSAGE, name, size, "%" PRIu32 " bytes are not values of %s", h->len, name);
    TRY(at_most(h->len / size, rules[h->code].most, name, f));
    rp_parameter *p = &t->parameter[h->code];
    *p = (rp_parameter){form, (uint32_t)(h->len / size), body};
    return check_exponents(p, name, f);
}

static rp_err get_result_place(const head *h, const uint8_t *body, rp_tagged *t, rp_fault *f)
{
    TRY(exact(h->len, RP_RESULT_AT_SIZE, "result", f));
    t->apart = true;
    t->result = (rp_at){get64(body), get64(body + 8), get64(body + 16), 0};
    return RP_OK;
}

static rp_err get_stride(const head *h, const uint8_t *body, rp_tagged *t, rp_fault *f)
{
    TRY(exact(h->len, RP_STRIDE_SIZE, "stride", f));
    t->stride = get64(body);
    return t->stride ? RP_OK : rp_fail(f, RP_BAD_MESSAGE, "stride", 0, "rows that are 0 bytes apart");
}

static rp_err get_claim(const head *h, const uint8_t *body, rp_tagged *t, rp_fault *f)
{
    TRY(exact(h->len, RP_CLAIM_SIZE, "claim", f));
    t->claim = (rp_claim){get64(body), get64(body + 8)};
    return t->claim.requests ? RP_OK : rp_fail(f, RP_BAD_MESSAGE, "claim", 0, "a claim of no requests");
}

static rp_err get_body(const head *h, const uint8_t *body, rp_tagged *t, rp_fault *f)
{
    switch ((rp_tag)h->tag) {
    case RP_TAG_COMPANION:
        return get_companion(h, body, t, f);
    case RP_TAG_PARAMETER:
        return get_parameter(h, body, t, f);
    case RP_TAG_RESULT:
        return get_result_place(h, body, t, f);
    case RP_TAG_STRIDE:
        return get_stride(h, body, t, f);
    case RP_TAG_CLAIM:
    case RP_TAG_END:
        break;
    }
    return get_claim(h, body, t, f);
}

rp_err rp_get_tagged(const uint8_t *parts, size_t len, uint32_t tagged_len, rp_tagged *t, rp_fault *f)
{
    head h;
    *t = (rp_tagged){0};
    if (tagged_len > len)
        return rp_fail(f, RP_BAD_MESSAGE, "tagged_len", len, "%" PRIu32 " bytes of parts, of which there are %zu", tagged_len,
                       len);
    for (uint32_t at = 0, before = 0; at < tagged_len; at += RP_PART_SIZE + h.len) {
        TRY(get_head(parts + at, tagged_len - at, &h, f));
        const uint32_t order = (uint32_t)h.tag << 8 | h.code;
        if (order <= before)
            return rp_fail(f, RP_BAD_MESSAGE, "parts", 0, "a part that is there twice, or not in the order of tags and codes");
        TRY(get_body(&h, parts + at + RP_PART_SIZE, t, f));
        before = order;
    }
    return RP_OK;
}

/* ---- do they suit the spec? ---- */

/* What a companion that operations take has to be. */
static const struct {
    uint32_t flag;
    uint8_t extent;
} taken[RP_ROLE_END] = {[RP_ROLE_MASK] = {RP_MASK, RP_EXTENT_ELEMENTS},
                        [RP_ROLE_OFFSETS] = {RP_OFFSETS, RP_EXTENT_BOUNDS},
                        [RP_ROLE_WEIGHTS] = {RP_WEIGHTS, RP_EXTENT_ELEMENTS},
                        [RP_ROLE_KEYS] = {RP_KEYS, RP_EXTENT_ELEMENTS}};

/* May it be with the data? Then a part says what it is. */
static bool is_described(int role) { return role == RP_ROLE_WEIGHTS || role == RP_ROLE_KEYS; }

static bool right_type(const rp_spec *s, int role, int dtype)
{
    if (role == RP_ROLE_WEIGHTS)
        return rp_weights_suit(s->dtype, dtype);
    if (role == RP_ROLE_KEYS)
        return rp_keys_suit(dtype);
    return role == RP_ROLE_MASK ? dtype == RP_U8 || dtype == RP_BOOL : dtype == RP_U64;
}

/* Weights may also be those of a row for all rows, or one for each row. Segments are no such rows. */
static bool right_extent(const rp_spec *s, int role, int extent)
{
    const bool rows = role == RP_ROLE_WEIGHTS && !(s->flags & RP_OFFSETS);
    return extent == taken[role].extent || (rows && (extent == RP_EXTENT_ROW || extent == RP_EXTENT_COLUMN));
}

static rp_err check_companion(const rp_spec *s, int role, const rp_companion *c, bool at, rp_fault *f)
{
    const char *name = rp_role_name(role);
    if (!(s->flags & taken[role].flag))
        return rp_fail(f, RP_BAD_MESSAGE, "flags", 0, "the place of the %s without its flag", name);
    if (!right_type(s, role, c->dtype))
        return rp_fail(f, RP_TYPE, name, 0, "%s of type %s", name, rp_dtype_name(c->dtype));
    if (!right_extent(s, role, c->extent))
        return rp_fail(f, RP_SHAPE, name, taken[role].extent, "%s of the extent %u", name, c->extent);
    if (c->where == RP_WHERE_MESSAGE && !at)
        return rp_fail(f, RP_BAD_MESSAGE, name, 0,
                       is_described(role) ? "the %s of REDUCE are with the data"
                                          : "the flag alone says that the %s is in the message",
                       name);
    if (c->where == RP_WHERE_DATA && !is_described(role))
        return rp_fail(f, RP_BAD_MESSAGE, name, 0, "only weights and keys may be said to be with the data");
    return RP_OK;
}

void rp_tagged_take(rp_spec *s, const rp_tagged *t)
{
    const rp_parameter *q = &t->parameter[RP_PARAMETER_Q], *k = &t->parameter[RP_PARAMETER_K],
                       *method = &t->parameter[RP_PARAMETER_METHOD], *edges = &t->parameter[RP_PARAMETER_EDGES],
                       *drop = &t->parameter[RP_PARAMETER_ZERO_WEIGHTS_DROP];
    const rp_companion *weights = &t->companion[RP_ROLE_WEIGHTS];
    const uint64_t code = method->form ? rp_parameter_value(method, 0).u64 : 0;
    s->q = q->values;
    s->quantiles = (uint8_t)q->n;
    s->edges = edges->values;
    s->n_edges = edges->n;
    s->k = k->form ? rp_parameter_value(k, 0).i64 : 0;
    s->method = code < RP_METHOD_END ? (uint8_t)code : RP_METHOD_END;
    s->weights = weights->dtype;
    s->weights_extent = weights->extent;
    s->weights_apart = weights->where != RP_WHERE_DATA;
    s->keys = t->companion[RP_ROLE_KEYS].dtype;
    s->zero_drops = drop->form && rp_parameter_value(drop, 0).u64;
}

/* 10^e, for e of at most 18 */
static int64_t power_of_ten(int64_t e) { return e > 0 ? 10 * power_of_ten(e - 1) : 1; }

/* Is the decimal from 0 to 1? */
static bool is_share(rp_value v)
{
    for (; v.i64 && v.i64 % 10 == 0; v.exponent++)
        v.i64 /= 10;
    return v.i64 == 0 || (v.i64 > 0 && v.exponent <= 0 && (v.exponent < -18 || v.i64 <= power_of_ten(-v.exponent)));
}

rp_err rp_order_check(const rp_spec *s, rp_fault *f)
{
    if (rp_is_top(s->op) && s->k < 1)
        return rp_fail(f, RP_BAD_MESSAGE, "k", 1, "%s of %" PRId64 " elements", rp_op_name(s->op), s->k);
    if (rp_is_top(s->op) && s->k > (int64_t)RP_MAX_TOP)
        return rp_fail(f, RP_TOO_LARGE, "k", RP_MAX_TOP, "%s of more than %u elements", rp_op_name(s->op), RP_MAX_TOP);
    if (s->op == RP_OP_HISTOGRAM && s->n_edges < 2)
        return rp_fail(f, RP_BAD_MESSAGE, "edges", 2, "a histogram needs two edges");
    for (uint32_t i = 0; s->op == RP_OP_HISTOGRAM && i < s->n_edges; i++)
        if (!(rp_spec_edge(s, i ? i - 1 : 0) <= rp_spec_edge(s, i)))
            return rp_fail(f, RP_BAD_MESSAGE, "edges", i, "edge %" PRIu32 " is a NaN, or less than the one before it", i);
    return RP_OK;
}

static rp_err check_order(const rp_spec *s, const rp_tagged *t, rp_fault *f)
{
    const rp_parameter *q = &t->parameter[RP_PARAMETER_Q];
    for (uint32_t i = 0; i < q->n; i++)
        if (!is_share(rp_parameter_value(q, i)))
            return rp_fail(f, RP_BAD_MESSAGE, "q", 1, "quantile %" PRIu32 " is not from 0 to 1", i);
    if (s->method >= RP_METHOD_END)
        return rp_fail(f, RP_BAD_MESSAGE, "method", RP_METHOD_END - 1, "an unknown method of quantiles");
    return rp_order_check(s, f);
}

rp_err rp_tagged_check(const rp_spec *s, const rp_tagged *t, bool at, rp_fault *f)
{
    uint32_t given = 0;
    for (int p = 1; p < RP_PARAMETER_END; p++)
        given |= (uint32_t)(t->parameter[p].form != 0) << p;
    TRY(rp_takes_check(s->op, given, f));
    TRY(check_order(s, t, f));
    for (int role = 1; role < RP_ROLE_END; role++)
        if (t->companion[role].where)
            TRY(check_companion(s, role, &t->companion[role], at, f));
    if (t->stride && (!at || !(s->flags & RP_COLUMNS)))
        return rp_fail(f, RP_BAD_MESSAGE, "stride", 0, "only rows of columns may lie apart");
    return RP_OK;
}

uint32_t rp_tagged_flags(const rp_tagged *t)
{
    uint32_t flags = 0;
    for (int role = 1; role < RP_ROLE_END; role++)
        flags |= t->companion[role].where && t->companion[role].where != RP_WHERE_DATA ? taken[role].flag : 0;
    return flags;
}

rp_err rp_tagged_data(const rp_spec *s, const rp_tagged *t, const uint8_t *data, size_t bytes, rp_parts *beside, rp_fault *f)
{
    uint64_t used = 0;
    for (int role = 1; role < RP_ROLE_END; role++) {
        if (t->companion[role].where != RP_WHERE_MESSAGE)
            continue;
        const uint64_t size = rp_role_bytes(s, role);
        if (size > bytes - used)
            return rp_fail(f, RP_SHAPE, rp_role_name(role), size, "%" PRIu64 " bytes of %s, of which there are %" PRIu64, size,
                           rp_role_name(role), bytes - used);
        *rp_place_of(beside, (rp_role)role) = data + used;
        used += size;
    }
    if (used == bytes)
        return RP_OK;
    return rp_fail(f, RP_SHAPE, "data", used, "%zu bytes follow the parts instead of %" PRIu64, bytes, used);
}
