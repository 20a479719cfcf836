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
static inline rp_err t_check_parts(const rp_spec *s, const uint8_t *data, size_t bytes, rp_fault *f)
{
    rp_parts p = rp_spec_parts(s, data);
    uint64_t item = s->flags & RP_STATES_IN ? rp_state_size(rp_state_layout(s->op, s->dtype)) : rp_dtype_size(s->dtype);
    const uint8_t *head = s->flags & RP_OFFSETS ? data + 8 * (s->rows + 1) : data, *tail = head + rp_elements(s) * item;
    const uint8_t *end = s->flags & RP_MASK ? tail + rp_elements(s) : tail;
    if (p.elements != head || p.offsets != (head == data ? NULL : data) || end != data + bytes ||
        p.mask != (s->flags & RP_MASK ? tail : NULL))
        abort();
    return p.offsets ? rp_offsets_check(s, p.offsets, f) : RP_OK;
}

static inline rp_err t_decode_request(const rp_header *h, const uint8_t *body, uint8_t *out, size_t *n, rp_fault *f)
{
    size_t len = (size_t)h->body_len;
    rp_hello hello;
    rp_spec spec, checked;
    rp_append append;
    rp_finish finish;
    rp_at at;
    rp_mask_at mask;
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
        if ((err = rp_get_spec(body, len, &spec, f)))
            return err;
        checked = spec;
        if ((err = rp_spec_check(&checked, f)) || (err = rp_spec_match(&checked, len - RP_SPEC_SIZE, f)) ||
            (err = t_check_parts(&checked, body + RP_SPEC_SIZE, len - RP_SPEC_SIZE, f)))
            return err;
        *n = rp_put_spec(out, &spec);
        memcpy(out + *n, body + RP_SPEC_SIZE, len - RP_SPEC_SIZE);
        *n = len;
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
        if ((err = rp_get_at(body, len, &spec, &at, &mask, f)))
            return err;
        checked = spec;
        checked.flags &= ~(uint32_t)(mask.handle ? RP_MASK : 0);
        if ((err = rp_spec_check(&checked, f)) || (err = rp_spec_match(&checked, at.length, f)))
            return err;
        *n = rp_put_at(out, &spec, &at);
        *n += mask.handle ? rp_put_mask_at(out + *n, &mask) : 0;
        *n += at.stride ? rp_put_stride(out + *n, at.stride) : 0;
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
