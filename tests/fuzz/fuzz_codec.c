/* Any bytes as a message: decoded whole or refused with a fault that fits its buffers; what is accepted encodes to the
 * same bytes again. */
#include <stdio.h>

#include "tests/decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t again[T_MAX_MESSAGE];
    rp_fault f = {0};
    size_t n = 0;
    rp_err err = t_decode(data, size, again, &n, &f);
    if (!err && (n != size || memcmp(again, data, n) != 0))
        fail("an accepted message encodes to other bytes");
    if (err && (f.code != err || !f.field[0] || !f.text[0]))
        fail("a refusal without code, field or text");
    return 0;
}
