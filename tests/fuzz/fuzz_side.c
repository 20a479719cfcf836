/* Any bytes as a packet of the side channel: byte 0 says whether the daemon or a client reads it. Accepted whole or refused
 * with a fault that fits its buffers; what is accepted encodes to the same bytes again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PACKET = RP_SIDE_SIZE + RP_ERROR_SIZE + RP_MAX_FIELD + RP_MAX_TEXT };

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

static rp_err decode(const uint8_t *packet, size_t len, bool reply, uint8_t *again, size_t *n, rp_fault *f)
{
    rp_side p;
    rp_fault carried = {.code = RP_OK};
    rp_err err = reply ? rp_get_side_reply(packet, len, &p, &carried, f) : rp_get_side(packet, len, &p, f);
    if (err)
        return err;
    *n = rp_put_side(again, &p);
    if (reply && p.status)
        *n += rp_put_fault(again + *n, &carried);
    return RP_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t again[PACKET];
    rp_fault f = {0};
    size_t n = 0;
    if (size < 1)
        return 0;
    rp_err err = decode(data + 1, size - 1, data[0] & 1, again, &n, &f);
    if (!err && (n != size - 1 || memcmp(again, data + 1, n) != 0))
        fail("an accepted packet encodes to other bytes");
    if (err && (f.code != err || !f.field[0] || !f.text[0]))
        fail("a refusal without code, field or text");
    return 0;
}
