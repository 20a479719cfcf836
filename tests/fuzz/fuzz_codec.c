/* Any bytes as a message, and as a packet of the fdpass socket: decoded whole or refused with a fault that fits its
 * buffers; what is accepted encodes to the same bytes again. */
#include <stdio.h>

#include "tests/decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

static void check(const uint8_t *data, size_t size, rp_err err, const rp_fault *f, const uint8_t *again, size_t n)
{
    if (!err && (n != size || memcmp(again, data, n) != 0))
        fail("what is accepted encodes to other bytes");
    if (err && (f->code != err || !f->field[0] || !f->text[0]))
        fail("a refusal without code, field or text");
}

static void side_packets(const uint8_t *data, size_t size)
{
    uint8_t again[RP_SIDE_MAX + RP_ERROR_SIZE + RP_MAX_FIELD + RP_MAX_TEXT];
    rp_fault f = {0}, carried = {0};
    rp_side p = {0};
    rp_err err = rp_get_side(data, size, &p, &f);
    check(data, size, err, &f, again, err ? 0 : rp_put_side(again, &p));
    err = rp_get_side_reply(data, size, &p, &carried, &f);
    size_t n = err ? 0 : rp_put_side(again, &p);
    if (!err && p.status)
        n += rp_put_fault(again + n, &carried);
    check(data, size, err, &f, again, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t again[T_MAX_MESSAGE];
    rp_fault f = {0};
    size_t n = 0;
    rp_err err = t_decode(data, size, again, &n, &f);
    check(data, size, err, &f, again, n);
    side_packets(data, size);
    return 0;
}
