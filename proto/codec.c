#include "proto/codec.h"

#include <inttypes.h>
#include <string.h>

#include "proto/bytes.h"

/* ---- header ---- */
enum { FLAG_REPLY = 1 };

size_t rp_put_header(uint8_t out[RP_HEADER_SIZE], const rp_header *h)
{
    put32(out, RP_MAGIC);
    out[4] = h->version;
    out[5] = h->type;
    put16(out + 6, h->reply ? FLAG_REPLY : 0);
    put32(out + 8, h->status);
    put32(out + 12, h->time_ms);
    put64(out + 16, h->session);
    put64(out + 24, h->id);
    put64(out + 32, h->body_len);
    return RP_HEADER_SIZE;
}

rp_err rp_get_header(const uint8_t *msg, size_t len, rp_header *h, rp_fault *f)
{
    TRY(need(len, RP_HEADER_SIZE, "header", f));
    if (get32(msg) != RP_MAGIC)
        return rp_fail(f, RP_BAD_MESSAGE, "magic", 0, "not a message of this protocol");
    uint16_t flags = get16(msg + 6);
    *h = (rp_header){.version = msg[4],
                     .type = msg[5],
                     .reply = flags & FLAG_REPLY,
                     .status = get32(msg + 8),
                     .time_ms = get32(msg + 12),
                     .session = get64(msg + 16),
                     .id = get64(msg + 24),
                     .body_len = get64(msg + 32)};
    if (flags & ~FLAG_REPLY)
        return rp_fail(f, RP_BAD_MESSAGE, "flags", 0, "unknown header flags 0x%x", flags);
    if (!h->reply && h->status)
        return rp_fail(f, RP_BAD_MESSAGE, "status", 0, "a request with status %" PRIu32, h->status);
    if (h->body_len != len - RP_HEADER_SIZE)
        return rp_fail(f, RP_BAD_MESSAGE, "body_len", len - RP_HEADER_SIZE,
                       "body_len says %" PRIu64 " bytes, %zu follow the header", h->body_len, len - RP_HEADER_SIZE);
    if (h->body_len > RP_MAX_BODY)
        return rp_fail(f, RP_BAD_MESSAGE, "body_len", RP_MAX_BODY, "body over %u bytes", RP_MAX_BODY);
    return RP_OK;
}

/* ---- hello and welcome ---- */
static rp_err check_priority(uint8_t priority, rp_fault *f)
{
    if (priority < RP_PRIORITY_COUNT)
        return RP_OK;
    return rp_fail(f, RP_BAD_MESSAGE, "priority", RP_PRIORITY_COUNT - 1, "unknown priority %u", priority);
}

size_t rp_put_hello(uint8_t *out, const rp_hello *h)
{
    out[0] = h->min_version;
    out[1] = h->max_version;
    put16(out + 2, h->name_len);
    put32(out + 4, h->priority);
    if (h->name_len)
        memcpy(out + RP_HELLO_SIZE, h->name, h->name_len);
    return RP_HELLO_SIZE + h->name_len;
}

rp_err rp_get_hello(const uint8_t *body, size_t len, rp_hello *h, rp_fault *f)
{
    TRY(need(len, RP_HELLO_SIZE, "hello", f));
    *h = (rp_hello){body[0], body[1], body[4], get16(body + 2), (const char *)body + RP_HELLO_SIZE};
    TRY(zeros(body + 5, 3, "hello", f));
    TRY(at_most(h->name_len, RP_MAX_NAME, "name_len", f));
    TRY(exact(len, RP_HELLO_SIZE + (size_t)h->name_len, "hello", f));
    if (h->min_version == 0 || h->min_version > h->max_version)
        return rp_fail(f, RP_BAD_MESSAGE, "min_version", h->max_version, "versions %u to %u are not a range", h->min_version,
                       h->max_version);
    return check_priority(h->priority, f);
}

size_t rp_put_welcome(uint8_t *out, const rp_welcome *w)
{
    memset(out, 0, RP_WELCOME_SIZE);
    out[0] = w->version;
    out[1] = w->priority;
    put32(out + 4, w->max_data);
    put32(out + 8, w->chunk_hint);
    put32(out + 12, w->max_inflight);
    put32(out + 16, w->max_streams);
    put64(out + 24, w->session);
    put16(out + 32, w->server_len);
    memcpy(out + 40, w->token, RP_TOKEN);
    if (w->server_len)
        memcpy(out + RP_WELCOME_SIZE, w->server, w->server_len);
    return RP_WELCOME_SIZE + w->server_len;
}

rp_err rp_get_welcome(const uint8_t *body, size_t len, rp_welcome *w, rp_fault *f)
{
    TRY(need(len, RP_WELCOME_SIZE, "welcome", f));
    *w = (rp_welcome){.version = body[0],
                      .priority = body[1],
                      .max_data = get32(body + 4),
                      .chunk_hint = get32(body + 8),
                      .max_inflight = get32(body + 12),
                      .max_streams = get32(body + 16),
                      .session = get64(body + 24),
                      .server_len = get16(body + 32),
                      .server = (const char *)body + RP_WELCOME_SIZE};
    TRY(zeros(body + 2, 2, "welcome", f));
    TRY(check_priority(w->priority, f));
    TRY(zeros(body + 20, 4, "welcome", f));
    TRY(zeros(body + 34, 6, "welcome", f));
    memcpy(w->token, body + 40, RP_TOKEN);
    TRY(at_most(w->server_len, RP_MAX_NAME, "server_len", f));
    return exact(len, RP_WELCOME_SIZE + (size_t)w->server_len, "welcome", f);
}

/* ---- spec ---- */
size_t rp_put_spec(uint8_t out[RP_SPEC_SIZE], const rp_spec *s)
{
    memset(out, 0, RP_SPEC_SIZE);
    out[0] = s->op;
    out[1] = s->dtype;
    out[2] = s->out;
    out[3] = s->nan;
    put32(out + 4, s->tagged_len);
    put32(out + 8, s->flags);
    put64(out + 16, s->rows);
    put64(out + 24, s->row_len);
    put32(out + 12, s->ddof);
    put64(out + 32, s->index_base);
    put64(out + 40, s->initial);
    put64(out + 48, s->planes);
    put16(out + 56, s->device);
    return RP_SPEC_SIZE;
}

rp_err rp_get_spec(const uint8_t *body, size_t len, rp_spec *s, rp_fault *f)
{
    TRY(need(len, RP_SPEC_SIZE, "spec", f));
    *s = (rp_spec){.op = body[0],
                   .dtype = body[1],
                   .out = body[2],
                   .nan = body[3],
                   .tagged_len = get32(body + 4),
                   .flags = get32(body + 8),
                   .ddof = get32(body + 12),
                   .rows = get64(body + 16),
                   .row_len = get64(body + 24),
                   .index_base = get64(body + 32),
                   .initial = get64(body + 40),
                   .planes = get64(body + 48),
                   .device = get16(body + 56)};
    return zeros(body + 58, 6, "spec", f);
}

/* ---- streams ---- */
size_t rp_put_append(uint8_t out[RP_APPEND_SIZE], uint64_t stream, uint64_t offset)
{
    put64(out, stream);
    put64(out + 8, offset);
    return RP_APPEND_SIZE;
}

rp_err rp_get_append(const uint8_t *body, size_t len, rp_append *a, rp_fault *f)
{
    TRY(need(len, RP_APPEND_SIZE, "append", f));
    *a = (rp_append){get64(body), get64(body + 8), body + RP_APPEND_SIZE, len - RP_APPEND_SIZE};
    TRY(at_most(a->offset, RP_MAX_COUNT, "offset", f));
    return at_most(a->data_len, RP_MAX_DATA, "data", f);
}

size_t rp_put_finish(uint8_t out[RP_FINISH_SIZE], const rp_finish *x)
{
    put64(out, x->stream);
    put64(out + 8, x->count);
    return RP_FINISH_SIZE;
}

rp_err rp_get_finish(const uint8_t *body, size_t len, rp_finish *x, rp_fault *f)
{
    TRY(exact(len, RP_FINISH_SIZE, "finish", f));
    *x = (rp_finish){get64(body), get64(body + 8)};
    return at_most(x->count, RP_MAX_COUNT, "count", f);
}

size_t rp_put_u64(uint8_t out[RP_STREAM_SIZE], uint64_t v)
{
    put64(out, v);
    return RP_STREAM_SIZE;
}

rp_err rp_get_u64(const uint8_t *body, size_t len, uint64_t *v, const char *field, rp_fault *f)
{
    TRY(exact(len, RP_STREAM_SIZE, field, f));
    *v = get64(body);
    return RP_OK;
}

/* ---- data that are elsewhere ---- */
size_t rp_put_place(uint8_t out[RP_PLACE_SIZE], const rp_at *a)
{
    put64(out, a->handle);
    put64(out + 8, a->offset);
    put64(out + 16, a->length);
    return RP_PLACE_SIZE;
}

size_t rp_put_at(uint8_t out[RP_AT_SIZE], const rp_spec *s, const rp_at *a)
{
    size_t n = rp_put_spec(out, s);
    return n + rp_put_place(out + n, a);
}

static rp_at get_place(const uint8_t *p) { return (rp_at){get64(p), get64(p + 8), get64(p + 16), 0}; }

rp_err rp_get_at(const uint8_t *body, size_t len, rp_spec *s, rp_at *a, rp_tagged *t, rp_fault *f)
{
    TRY(need(len, RP_AT_SIZE, "reduce_at", f));
    *a = get_place(body + RP_SPEC_SIZE);
    TRY(rp_get_spec(body, RP_SPEC_SIZE, s, f));
    TRY(rp_get_tagged(body + RP_AT_SIZE, len - RP_AT_SIZE, s->tagged_len, t, f));
    rp_tagged_take(s, t);
    a->stride = t->stride;
    return RP_OK;
}

/* ---- data that stay ---- */
static bool in_name(char c, bool first)
{
    bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    return word || (!first && (c == '.' || c == '-'));
}

rp_err rp_name_check(const char *name, size_t len, rp_fault *f)
{
    TRY(at_most(len, RP_MAX_NAME, "name_len", f));
    if (len == 0)
        return rp_fail(f, RP_BAD_MESSAGE, "name", 1, "the name is missing");
    for (size_t i = 0; i < len; i++)
        if (!in_name(name[i], i == 0))
            return rp_fail(f, RP_BAD_MESSAGE, "name", 0,
                           "a name has letters, digits, '.', '_' and '-', and does not begin with '.' or '-'");
    return RP_OK;
}

static size_t put_lengths(uint8_t *out, const rp_shape *s)
{
    for (int d = 0; d < s->dims; d++)
        put64(out + 8 * d, s->len[d]);
    return 8 * (size_t)s->dims;
}

static void get_lengths(const uint8_t *p, rp_shape *s)
{
    for (int d = 0; d < s->dims; d++)
        s->len[d] = get64(p + 8 * d);
}

static rp_err check_order(const rp_shape *s, rp_fault *f)
{
    TRY(at_most(s->dims, RP_MAX_DIMS, "dims", f));
    if (s->order < RP_ORDER_COUNT && (s->dims || !s->order))
        return RP_OK;
    return rp_fail(f, RP_BAD_MESSAGE, "order", RP_ORDER_COUNT - 1, "unknown order %u", s->order);
}

/* Is the size that of this number of elements? */
static rp_err check_lengths(const rp_shape *s, uint64_t elements, rp_fault *f)
{
    uint64_t n = 1;
    bool fits = true;
    for (int d = 0; d < s->dims; d++)
        fits &= !__builtin_mul_overflow(n, s->len[d], &n);
    if (!s->dims || (fits && n == elements))
        return RP_OK;
    return rp_fail(f, RP_SHAPE, "shape", elements, "the shape is not one of %" PRIu64 " elements", elements);
}

/* Five bits of the flags are the place. */
enum { STORE_REPLACE = 1, STORE_SHAPED = 2, STORE_PLACE = 2, STORE_UNKNOWN = 128 };

size_t rp_put_store(uint8_t *out, const rp_store *x)
{
    out[0] = x->dtype;
    out[1] = (x->replace ? STORE_REPLACE : 0) | (x->shape.dims ? STORE_SHAPED : 0) | (uint8_t)(x->place << STORE_PLACE);
    put16(out + 2, x->name_len);
    put32(out + 4, x->ttl_ms);
    put64(out + 8, x->bytes);
    memcpy(out + RP_STORE_SIZE, x->name, x->name_len);
    size_t n = RP_STORE_SIZE + x->name_len;
    if (!x->shape.dims)
        return n;
    put64(out + n, 0);
    out[n] = x->shape.dims;
    out[n + 1] = x->shape.order;
    n += RP_SHAPE_SIZE;
    return n + put_lengths(out + n, &x->shape);
}

/* What follows the name, in a STORE that says that there is one. */
static rp_err get_store_shape(const uint8_t *p, size_t len, rp_shape *s, rp_fault *f)
{
    TRY(need(len, RP_SHAPE_SIZE, "store", f));
    s->dims = p[0];
    s->order = p[1];
    TRY(zeros(p + 2, 6, "store", f));
    if (!s->dims)
        return rp_fail(f, RP_BAD_MESSAGE, "dims", 1, "a shape of no dimensions");
    TRY(check_order(s, f));
    TRY(exact(len, RP_SHAPE_SIZE + 8 * (size_t)s->dims, "store", f));
    get_lengths(p + RP_SHAPE_SIZE, s);
    return RP_OK;
}

rp_err rp_get_store(const uint8_t *body, size_t len, rp_store *x, rp_fault *f)
{
    TRY(need(len, RP_STORE_SIZE, "store", f));
    *x = (rp_store){.dtype = body[0],
                    .replace = body[1] & STORE_REPLACE,
                    .place = (body[1] & ~STORE_UNKNOWN) >> STORE_PLACE,
                    .name_len = get16(body + 2),
                    .ttl_ms = get32(body + 4),
                    .bytes = get64(body + 8),
                    .name = (const char *)body + RP_STORE_SIZE};
    const size_t named = RP_STORE_SIZE + (size_t)x->name_len;
    if (body[1] & STORE_UNKNOWN)
        return rp_fail(f, RP_BAD_MESSAGE, "flags", 0, "unknown flags 0x%x", body[1]);
    TRY(at_most(x->name_len, RP_MAX_NAME, "name_len", f));
    TRY(body[1] & STORE_SHAPED ? need(len, named, "store", f) : exact(len, named, "store", f));
    if (body[1] & STORE_SHAPED)
        TRY(get_store_shape(body + named, len - named, &x->shape, f));
    TRY(rp_name_check(x->name, x->name_len, f));
    TRY(at_most(x->ttl_ms, RP_MAX_TTL_MS, "ttl_ms", f));
    size_t size = rp_dtype_size(x->dtype);
    if (!size)
        return rp_fail(f, RP_TYPE, "dtype", 0, "unknown element type code %u", x->dtype);
    if (x->bytes == 0 || x->bytes % size)
        return rp_fail(f, RP_SHAPE, "bytes", size, "%" PRIu64 " bytes are not a positive multiple of the %zu-byte element",
                       x->bytes, size);
    return check_lengths(&x->shape, x->bytes / size, f);
}

size_t rp_put_write(uint8_t out[RP_WRITE_SIZE], uint64_t handle, uint64_t offset)
{
    put64(out, handle);
    put64(out + 8, offset);
    return RP_WRITE_SIZE;
}

rp_err rp_get_write(const uint8_t *body, size_t len, rp_write *w, rp_fault *f)
{
    TRY(need(len, RP_WRITE_SIZE, "write", f));
    *w = (rp_write){get64(body), get64(body + 8), body + RP_WRITE_SIZE, len - RP_WRITE_SIZE};
    return at_most(w->data_len, RP_MAX_DATA, "data", f);
}

rp_err rp_get_write_at(const uint8_t *body, size_t len, rp_write *w, rp_at *a, rp_fault *f)
{
    TRY(exact(len, RP_WRITE_AT_SIZE, "write_at", f));
    *w = (rp_write){.handle = get64(body), .offset = get64(body + 8)};
    *a = get_place(body + RP_WRITE_SIZE);
    return RP_OK;
}

enum { LIST_ORDER = 3, LIST_PLACE = 2, LIST_UNKNOWN = 128 }; /* two bits are the order, the five above them the place */

size_t rp_put_resident(uint8_t *out, const rp_resident *x)
{
    put64(out, x->handle);
    put64(out + 8, x->bytes);
    put64(out + 16, x->age_ms);
    put64(out + 24, x->left_ms);
    put32(out + 32, x->uses);
    out[36] = x->dtype;
    out[37] = x->name_len;
    out[38] = x->shape.dims;
    out[39] = (uint8_t)(x->shape.order | x->place << LIST_PLACE);
    memcpy(out + RP_RESIDENT_SIZE, x->name, x->name_len);
    const size_t n = RP_RESIDENT_SIZE + x->name_len;
    return n + put_lengths(out + n, &x->shape);
}

rp_err rp_get_resident(rp_reader *r, rp_resident *x, bool *end, rp_fault *f)
{
    *end = r->at == r->len;
    if (*end)
        return RP_OK;
    TRY(at_most(++r->n, RP_MAX_USER_RESIDENTS, "entries", f));
    TRY(need(r->len - r->at, RP_RESIDENT_SIZE, "entry", f));
    const uint8_t *p = r->body + r->at;
    *x = (rp_resident){.handle = get64(p),
                       .bytes = get64(p + 8),
                       .age_ms = get64(p + 16),
                       .left_ms = get64(p + 24),
                       .uses = get32(p + 32),
                       .dtype = p[36],
                       .name_len = p[37],
                       .name = (const char *)p + RP_RESIDENT_SIZE,
                       .place = (p[39] & ~LIST_UNKNOWN) >> LIST_PLACE,
                       .shape = {.dims = p[38], .order = p[39] & (LIST_ORDER | LIST_UNKNOWN)}};
    TRY(check_order(&x->shape, f));
    const size_t named = RP_RESIDENT_SIZE + x->name_len, more = x->name_len + 8 * (size_t)x->shape.dims;
    TRY(need(r->len - r->at - RP_RESIDENT_SIZE, more, "entry", f));
    TRY(rp_name_check(x->name, x->name_len, f));
    if (!rp_dtype_size(x->dtype))
        return rp_fail(f, RP_BAD_MESSAGE, "dtype", 0, "unknown element type code %u", x->dtype);
    get_lengths(p + named, &x->shape);
    TRY(check_lengths(&x->shape, x->bytes / rp_dtype_size(x->dtype), f));
    r->at += RP_RESIDENT_SIZE + more;
    return RP_OK;
}

rp_err rp_get_name(const uint8_t *body, size_t len, const char **name, rp_fault *f)
{
    *name = (const char *)body;
    return rp_name_check(*name, len, f);
}

/* ---- fdpass ---- */
static size_t side_size(const rp_side *p) { return p->kind == RP_SIDE_DEVICE && !p->reply ? RP_SIDE_MAX : RP_SIDE_SIZE; }

size_t rp_put_side(uint8_t out[RP_SIDE_MAX], const rp_side *p)
{
    put32(out, p->kind);
    put32(out + 4, p->status);
    put64(out + 8, p->value);
    memset(out + 16, 0, RP_TOKEN);
    if (p->kind == RP_SIDE_ATTACH && !p->reply)
        memcpy(out + 16, p->token, RP_TOKEN);
    else if (p->kind == RP_SIDE_DEVICE && !p->reply)
        memcpy(out + 16, p->uuid, RP_UUID);
    else
        put64(out + 16, p->size);
    if (side_size(p) == RP_SIDE_MAX)
        memcpy(out + RP_SIDE_SIZE, p->device, RP_DEVICE_HANDLE);
    return side_size(p);
}

rp_err rp_get_side(const uint8_t *packet, size_t len, rp_side *p, rp_fault *f)
{
    TRY(need(len, RP_SIDE_SIZE, "packet", f));
    *p = (rp_side){.kind = get32(packet), .value = get64(packet + 8)};
    TRY(exact(len, side_size(p), "packet", f));
    TRY(zeros(packet + 4, 4, "packet", f));
    if (p->kind == RP_SIDE_ATTACH)
        memcpy(p->token, packet + 16, RP_TOKEN);
    else if (p->kind == RP_SIDE_DEVICE)
        memcpy(p->uuid, packet + 16, RP_UUID);
    else
        TRY(zeros(packet + 16, RP_TOKEN, "packet", f));
    if (p->kind == RP_SIDE_DEVICE)
        memcpy(p->device, packet + RP_SIDE_SIZE, RP_DEVICE_HANDLE);
    bool valueless = p->kind == RP_SIDE_FILE || p->kind == RP_SIDE_DEVICE;
    if (p->kind < RP_SIDE_ATTACH || p->kind > RP_SIDE_DEVICE_FD || (valueless && p->value))
        return rp_fail(f, RP_BAD_MESSAGE, "packet", 0, "not an fdpass packet");
    return RP_OK;
}

rp_err rp_get_side_reply(const uint8_t *packet, size_t len, rp_side *p, rp_fault *e, rp_fault *f)
{
    TRY(need(len, RP_SIDE_SIZE, "packet", f));
    *p = (rp_side){.reply = true,
                   .kind = get32(packet),
                   .status = (rp_err)get32(packet + 4),
                   .value = get64(packet + 8),
                   .size = get64(packet + 16)};
    TRY(zeros(packet + 24, 8, "packet", f));
    if (p->status)
        return rp_get_fault(packet + RP_SIDE_SIZE, len - RP_SIDE_SIZE, p->status, 0, e, f);
    return exact(len, RP_SIDE_SIZE, "packet", f);
}

/* ---- query ---- */
size_t rp_put_query(uint8_t out[RP_QUERY_SIZE], uint32_t topic)
{
    put32(out, topic);
    put32(out + 4, 0);
    return RP_QUERY_SIZE;
}

rp_err rp_get_query(const uint8_t *body, size_t len, uint32_t *topic, rp_fault *f)
{
    TRY(exact(len, RP_QUERY_SIZE, "query", f));
    TRY(zeros(body + 4, 4, "query", f));
    *topic = get32(body);
    if (*topic < RP_TOPIC_INFO || *topic > RP_TOPIC_SESSIONS)
        return rp_fail(f, RP_BAD_MESSAGE, "topic", RP_TOPIC_SESSIONS, "unknown topic %" PRIu32, *topic);
    return RP_OK;
}

/* An entry: kind u8, key_len u8, value_len u16, key, value (8 bytes for numbers). */
rp_err rp_put_entry(rp_writer *w, const rp_entry *e)
{
    size_t key = e->key_len < RP_MAX_KEY ? e->key_len : RP_MAX_KEY;
    size_t value = 8;
    if (e->kind == RP_KIND_TEXT)
        value = e->text_len < RP_MAX_VALUE ? e->text_len : RP_MAX_VALUE;
    if (w->n >= RP_MAX_ENTRIES)
        return RP_TOO_LARGE;
    if (w->cap - w->used < RP_ENTRY_SIZE + key + value)
        return RP_NO_MEMORY;
    uint8_t *p = w->out + w->used;
    p[0] = e->kind;
    p[1] = (uint8_t)key;
    put16(p + 2, (uint16_t)value);
    memcpy(p + RP_ENTRY_SIZE, e->key, key);
    p += RP_ENTRY_SIZE + key;
    uint64_t bits = e->u64;
    if (e->kind == RP_KIND_F64)
        memcpy(&bits, &e->f64, 8);
    if (e->kind == RP_KIND_TEXT)
        memcpy(p, e->text, value);
    else
        put64(p, bits);
    w->used += RP_ENTRY_SIZE + key + value;
    w->n++;
    return RP_OK;
}

rp_err rp_get_entry(rp_reader *r, rp_entry *e, bool *end, rp_fault *f)
{
    *end = r->at == r->len;
    if (*end)
        return RP_OK;
    TRY(at_most(++r->n, RP_MAX_ENTRIES, "entries", f));
    TRY(need(r->len - r->at, RP_ENTRY_SIZE, "entry", f));
    const uint8_t *p = r->body + r->at;
    *e = (rp_entry){.kind = p[0], .key_len = p[1], .key = (const char *)p + RP_ENTRY_SIZE};
    size_t value = get16(p + 2);
    TRY(at_most(e->key_len, RP_MAX_KEY, "key_len", f));
    TRY(at_most(value, RP_MAX_VALUE, "value_len", f));
    TRY(need(r->len - r->at, RP_ENTRY_SIZE + e->key_len + value, "entry", f));
    p += RP_ENTRY_SIZE + e->key_len;
    if (e->kind == RP_KIND_TEXT) {
        e->text_len = (uint16_t)value;
        e->text = (const char *)p;
    } else if (e->kind == RP_KIND_U64 || e->kind == RP_KIND_F64) {
        TRY(exact(value, 8, "value", f));
        e->u64 = get64(p);
        memcpy(&e->f64, &e->u64, 8);
    } else {
        return rp_fail(f, RP_BAD_MESSAGE, "kind", RP_KIND_TEXT, "unknown entry kind %u", e->kind);
    }
    r->at += RP_ENTRY_SIZE + e->key_len + value;
    return RP_OK;
}

/* ---- result and error replies ---- */
size_t rp_put_result(uint8_t out[RP_RESULT_SIZE], const rp_result *r)
{
    out[0] = r->dtype;
    out[1] = r->backend;
    out[2] = r->path;
    out[3] = 0;
    put32(out + 4, r->cell_size);
    put64(out + 8, r->cells);
    put64(out + 16, r->count);
    put64(out + 24, r->queue_ns);
    put64(out + 32, r->copy_ns);
    put64(out + 40, r->compute_ns);
    return RP_RESULT_SIZE;
}

rp_err rp_get_result(const uint8_t *body, size_t len, rp_result *r, const uint8_t **cells, rp_fault *f)
{
    TRY(need(len, RP_RESULT_SIZE, "result", f));
    *r = (rp_result){.dtype = body[0],
                     .backend = body[1],
                     .path = body[2],
                     .cell_size = get32(body + 4),
                     .cells = get64(body + 8),
                     .count = get64(body + 16),
                     .queue_ns = get64(body + 24),
                     .copy_ns = get64(body + 32),
                     .compute_ns = get64(body + 40)};
    size_t have = len - RP_RESULT_SIZE;
    size_t value = rp_dtype_size(r->dtype); /* a cell is one of them, some, or words */
    if (r->dtype && (!value || r->cell_size % value || r->cell_size > RP_MAX_DATA))
        return rp_fail(f, RP_BAD_MESSAGE, "cell_size", value, "cell size does not suit the type");
    if (r->cell_size == 0 || (have && (have % r->cell_size || have / r->cell_size != r->cells)))
        return rp_fail(f, RP_BAD_MESSAGE, "cells", 0, "%zu bytes are not the cells announced", have);
    *cells = have || !r->cells ? body + RP_RESULT_SIZE : NULL;
    return RP_OK;
}

size_t rp_put_fault(uint8_t *out, const rp_fault *e)
{
    size_t field = strnlen(e->field, RP_MAX_FIELD), text = strnlen(e->text, RP_MAX_TEXT);
    put64(out, e->limit);
    put64(out + 8, e->index);
    put64(out + 16, e->value[0]);
    put64(out + 24, e->value[1]);
    put16(out + 32, (uint16_t)field);
    put16(out + 34, (uint16_t)text);
    put32(out + 36, 0);
    memcpy(out + RP_ERROR_SIZE, e->field, field);
    memcpy(out + RP_ERROR_SIZE + field, e->text, text);
    return RP_ERROR_SIZE + field + text;
}

rp_err rp_get_fault(const uint8_t *body, size_t len, uint32_t status, uint32_t retry_ms, rp_fault *e, rp_fault *f)
{
    TRY(need(len, RP_ERROR_SIZE, "error", f));
    TRY(zeros(body + 36, 4, "error", f));
    size_t field = get16(body + 32), text = get16(body + 34);
    TRY(at_most(field, RP_MAX_FIELD, "field_len", f));
    TRY(at_most(text, RP_MAX_TEXT, "text_len", f));
    TRY(exact(len, RP_ERROR_SIZE + field + text, "error", f));
    if (memchr(body + RP_ERROR_SIZE, 0, field + text))
        return rp_fail(f, RP_BAD_MESSAGE, "error", 0, "a zero byte in a text");
    memset(e, 0, sizeof *e);
    e->code = (rp_err)status;
    e->retry_ms = retry_ms;
    e->limit = get64(body);
    e->index = get64(body + 8);
    e->value[0] = get64(body + 16);
    e->value[1] = get64(body + 24);
    memcpy(e->field, body + RP_ERROR_SIZE, field);
    memcpy(e->text, body + RP_ERROR_SIZE + field, text);
    return RP_OK;
}
