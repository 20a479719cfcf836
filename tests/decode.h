/* Decode a whole message as its receiver would, and encode it again: used by the codec's unit tests and fuzzers. */
#ifndef T_DECODE_H
#define T_DECODE_H

#include <stdlib.h>
#include <string.h>

#include "proto/codec.h"

enum { T_MAX_MESSAGE = RP_HEADER_SIZE + RP_MAX_BODY };

/* A receiver keeps field and text as C strings, so bytes after a NUL do not survive. */
static inline bool t_has_nul(const uint8_t *p, size_t n) { return n && memchr(p, 0, n) != NULL; }

/* Do the parts of the data lie one behind the other, to its end? Offsets are checked as the daemon does. */
static inline rp_err t_check_parts(const rp_spec *s, const rp_tagged *t, const uint8_t *data, size_t bytes, rp_fault *f)
{
    static const uint8_t elsewhere[1];
    const uint32_t apart = rp_tagged_flags(t), with = s->flags & ~apart;
    const rp_parts beside = {.mask = apart & RP_MASK ? elsewhere : NULL,
                             .offsets = apart & RP_OFFSETS ? elsewhere : NULL,
                             .weights = apart & RP_WEIGHTS ? elsewhere : NULL,
                             .keys = apart & RP_KEYS ? elsewhere : NULL};
    rp_parts p = rp_spec_parts(s, data, &beside);
    uint64_t item = rp_item_size(s);
    const uint8_t *head = with & RP_OFFSETS ? data + 8 * (s->rows + 1) : data, *tail = head + rp_elements(s) * item;
    const uint8_t *weights = with & RP_MASK ? tail + rp_elements(s) : tail,
                  *keys = with & RP_WEIGHTS ? weights + rp_role_bytes(s, RP_ROLE_WEIGHTS) : weights,
                  *end = with & RP_KEYS ? keys + rp_role_bytes(s, RP_ROLE_KEYS) : keys;
    if (p.elements != head || p.offsets != (with & RP_OFFSETS ? data : beside.offsets) || end != data + bytes ||
        p.mask != (with & RP_MASK ? tail : beside.mask) || p.weights != (with & RP_WEIGHTS ? weights : beside.weights) ||
        p.keys != (with & RP_KEYS ? keys : beside.keys))
        abort();
    return with & RP_OFFSETS ? rp_offsets_check(s, p.offsets, f) : RP_OK;
}

/* Spec and parts, as the daemon checks them. */
static inline rp_err t_check_spec(rp_spec *s, const rp_tagged *t, bool at, rp_fault *f)
{
    const rp_err err = t->apart ? rp_spec_check_large(s, f) : rp_spec_check(s, f);
    return err ? err : rp_tagged_check(s, t, at, f);
}

/* The parts are as long as the spec says. */
static inline size_t t_put_tagged(uint8_t *out, const rp_tagged *t, uint32_t tagged_len)
{
    const size_t n = rp_put_tagged(out, t);
    if (n != tagged_len || n != rp_tagged_size(t))
        abort();
    return n;
}

static inline rp_err t_decode_request(const rp_header *h, const uint8_t *body, uint8_t *out, size_t *n, rp_fault *f)
{
    size_t len = (size_t)h->body_len;
    rp_hello hello;
    rp_spec spec, checked;
    rp_append append;
    rp_finish finish;
    rp_at at;
    rp_tagged tagged;
    rp_parts beside = {0};
    rp_store store;
    rp_write write;
    const char *name;
    uint64_t stream;
    uint32_t topic;
    rp_err err;
    switch (h->type) {
    case RP_MSG_HELLO:
        if (!(err = rp_get_hello(body, len, &hello, f)))
            *n = rp_put_hello(out, &hello);
        return err;
    case RP_MSG_PING:
        if (len > RP_MAX_PING)
            return rp_fail(f, RP_TOO_LARGE, "body_len", RP_MAX_PING, "ping too long");
        memcpy(out, body, len);
        *n = len;
        return RP_OK;
    case RP_MSG_QUERY:
        if (!(err = rp_get_query(body, len, &topic, f)))
            *n = rp_put_query(out, topic);
        return err;
    case RP_MSG_REDUCE:
    case RP_MSG_BEGIN:
        if ((err = rp_get_spec(body, len, &spec, f)) ||
            (err = rp_get_tagged(body + RP_SPEC_SIZE, len - RP_SPEC_SIZE, spec.tagged_len, &tagged, f)))
            return err;
        checked = spec;
        rp_tagged_take(&checked, &tagged);
        body += RP_SPEC_SIZE + spec.tagged_len;
        len -= RP_SPEC_SIZE + spec.tagged_len;
        if ((err = t_check_spec(&checked, &tagged, false, f)) ||
            (err = rp_spec_match(&checked, rp_tagged_flags(&tagged), len, f)) ||
            (err = t_check_parts(&checked, &tagged, body, len, f)))
            return err;
        *n = rp_put_spec(out, &spec);
        *n += t_put_tagged(out + *n, &tagged, spec.tagged_len);
        memcpy(out + *n, body, len);
        *n += len;
        return RP_OK;
    case RP_MSG_APPEND:
        if ((err = rp_get_append(body, len, &append, f)))
            return err;
        *n = rp_put_append(out, append.stream, append.offset);
        memcpy(out + *n, append.data, append.data_len);
        *n += append.data_len;
        return RP_OK;
    case RP_MSG_FINISH:
        if (!(err = rp_get_finish(body, len, &finish, f)))
            *n = rp_put_finish(out, &finish);
        return err;
    case RP_MSG_ABORT:
    case RP_MSG_COMMIT:
    case RP_MSG_CANCEL:
        if (!(err = rp_get_u64(body, len, &stream, h->type == RP_MSG_ABORT ? "stream" : "handle", f)))
            *n = rp_put_u64(out, stream);
        return err;
    case RP_MSG_STORE:
        if (!(err = rp_get_store(body, len, &store, f)))
            *n = rp_put_store(out, &store);
        return err;
    case RP_MSG_WRITE:
        if ((err = rp_get_write(body, len, &write, f)))
            return err;
        *n = rp_put_write(out, write.handle, write.offset);
        memcpy(out + *n, write.data, write.data_len);
        *n += write.data_len;
        return RP_OK;
    case RP_MSG_WRITE_AT:
        if ((err = rp_get_write_at(body, len, &write, &at, f)))
            return err;
        *n = rp_put_write(out, write.handle, write.offset);
        *n += rp_put_place(out + *n, &at);
        return RP_OK;
    case RP_MSG_LIST:
    case RP_MSG_DROP:
        if ((h->type == RP_MSG_DROP || len) && (err = rp_get_name(body, len, &name, f)))
            return err;
        memcpy(out, body, len);
        *n = len;
        return RP_OK;
    case RP_MSG_REDUCE_AT:
        if ((err = rp_get_at(body, len, &spec, &at, &tagged, f)))
            return err;
        checked = spec;
        body += RP_AT_SIZE + spec.tagged_len;
        len -= RP_AT_SIZE + spec.tagged_len;
        if ((err = t_check_spec(&checked, &tagged, true, f)) ||
            (err = rp_spec_match(&checked, rp_tagged_flags(&tagged), at.length, f)) ||
            (err = rp_tagged_data(&checked, &tagged, body, len, &beside, f)) ||
            (beside.offsets && (err = rp_offsets_check(&checked, beside.offsets, f))))
            return err;
        *n = rp_put_at(out, &spec, &at);
        *n += t_put_tagged(out + *n, &tagged, spec.tagged_len);
        memcpy(out + *n, body, len);
        *n += len;
        return RP_OK;
    default:
        return rp_fail(f, RP_BAD_MESSAGE, "type", 0, "unknown message type %u", h->type);
    }
}

static inline rp_err t_decode_entries(const uint8_t *body, size_t len, uint8_t *out, size_t *n, rp_fault *f)
{
    rp_reader r = {.body = body, .len = len};
    rp_writer w = {.out = out, .cap = RP_MAX_BODY};
    for (;;) {
        rp_entry e;
        bool end;
        rp_err err = rp_get_entry(&r, &e, &end, f);
        if (err || end) {
            *n = w.used;
            return err;
        }
        if (rp_put_entry(&w, &e))
            abort();
    }
}

static inline rp_err t_decode_residents(const uint8_t *body, size_t len, uint8_t *out, size_t *n, rp_fault *f)
{
    rp_reader r = {.body = body, .len = len};
    for (*n = 0;;) {
        rp_resident x;
        bool end;
        rp_err err = rp_get_resident(&r, &x, &end, f);
        if (err || end)
            return err;
        *n += rp_put_resident(out + *n, &x);
    }
}

static inline rp_err t_decode_reply(const rp_header *h, const uint8_t *body, uint8_t *out, size_t *n, rp_fault *f)
{
    size_t len = (size_t)h->body_len;
    rp_welcome welcome;
    rp_result result;
    rp_fault fault;
    const uint8_t *cells;
    uint64_t number;
    rp_err err;
    if (h->status) {
        if ((err = rp_get_fault(body, len, h->status, h->time_ms, &fault, f)))
            return err;
        *n = rp_put_fault(out, &fault);
        if (t_has_nul(body + RP_ERROR_SIZE, len - RP_ERROR_SIZE)) {
            memcpy(out, body, len);
            *n = len;
        }
        return RP_OK;
    }
    switch (h->type) {
    case RP_MSG_HELLO:
        if (!(err = rp_get_welcome(body, len, &welcome, f)))
            *n = rp_put_welcome(out, &welcome);
        return err;
    case RP_MSG_QUERY:
        return t_decode_entries(body, len, out, n, f);
    case RP_MSG_REDUCE:
    case RP_MSG_REDUCE_AT:
    case RP_MSG_FINISH:
        if ((err = rp_get_result(body, len, &result, &cells, f)))
            return err;
        *n = rp_put_result(out, &result);
        out[3] = body[3]; /* reserved, and ignored */
        if (!cells)
            return RP_OK; /* they are elsewhere */
        memcpy(out + *n, cells, result.cells * result.cell_size);
        *n += result.cells * result.cell_size;
        return RP_OK;
    case RP_MSG_LIST:
        return t_decode_residents(body, len, out, n, f);
    case RP_MSG_BEGIN:
    case RP_MSG_APPEND:
    case RP_MSG_STORE:
    case RP_MSG_WRITE:
    case RP_MSG_WRITE_AT:
    case RP_MSG_CANCEL:
        if (!(err = rp_get_u64(body, len, &number, "number", f)))
            *n = rp_put_u64(out, number);
        return err;
    case RP_MSG_PING:
        return t_decode_request(h, body, out, n, f);
    case RP_MSG_ABORT:
    case RP_MSG_COMMIT:
    case RP_MSG_DROP:
        if (len)
            return rp_fail(f, RP_BAD_MESSAGE, "body_len", 0, "the reply of %s has no body", rp_msg_name(h->type));
        *n = 0;
        return RP_OK;
    default:
        return rp_fail(f, RP_BAD_MESSAGE, "type", 0, "unknown message type %u", h->type);
    }
}

/* Decode msg[0..len) completely. When accepted, out[0..*n) (T_MAX_MESSAGE bytes of room) holds it encoded again, which
 * must be the same bytes: every byte of an accepted message means something. */
static inline rp_err t_decode(const uint8_t *msg, size_t len, uint8_t *out, size_t *n, rp_fault *f)
{
    rp_header h;
    rp_err err = rp_get_header(msg, len, &h, f);
    if (err)
        return err;
    size_t body = 0;
    const uint8_t *from = msg + RP_HEADER_SIZE;
    err = h.reply ? t_decode_reply(&h, from, out + RP_HEADER_SIZE, &body, f)
                  : t_decode_request(&h, from, out + RP_HEADER_SIZE, &body, f);
    *n = rp_put_header(out, &h) + body;
    return err;
}

#endif
