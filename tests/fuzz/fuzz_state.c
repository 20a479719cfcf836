/* Any bytes as partial states: byte 0 an op, byte 1 a dtype, then states. What rk_state_check accepts must merge both ways
 * round to the same bytes, stay acceptable, and finish for every reply type and policy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/finish.h"
#include "kernels/kernels.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

static void finish_all(int op, const rk_state *s)
{
    for (int out = RP_I8; out <= RP_F64; out++)
        for (int nan = RP_NAN_PROPAGATE; nan <= RP_NAN_ERROR; nan++) {
            rp_spec spec = {.op = (uint8_t)op, .dtype = s->dtype, .out = (uint8_t)out, .nan = (uint8_t)nan, .rows = 1};
            uint64_t scratch[RK_FINISH_SCRATCH], words[RP_MAX_CELL_WORDS];
            if (rp_spec_check(&spec, NULL))
                continue;
            int code = rk_state_finish(s, &spec, scratch, words);
            if (code != RP_OK && code != RP_EMPTY && code != RP_NAN && code != RP_OVERFLOW)
                fail("finish gives an error that it must not");
            if (code == RP_OK && rp_dtype_size(out) < 8 && words[0] >> (8 * rp_dtype_size(out)))
                fail("finish gives bits beyond the reply type");
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    int op = data[0] % 8, dtype = data[1] % 16;
    size_t bytes = rp_state_size(rp_state_layout(op, dtype));
    rk_state sum, s, left, right;
    size_t n = 0;
    if (rp_op_name(op)[0] == '?' || rp_dtype_size(dtype) == 0)
        return 0;
    rk_state_check(op, dtype, data + 2, size - 2, NULL); /* of any length */
    for (size_t at = 2; size - at >= bytes; at += bytes) {
        rp_fault f = {0};
        if (rk_state_check(op, dtype, data + at, bytes, &f)) {
            if (f.code != RP_BAD_MESSAGE || !f.field[0])
                fail("a refusal without code or field");
            continue;
        }
        memset(&s, 0, sizeof s);
        memcpy(&s, data + at, bytes);
        finish_all(op, &s);
        if (n++ == 0) {
            sum = s;
            continue;
        }
        if (sum.count + s.count > RP_MAX_COUNT)
            continue;
        left = sum;
        rk_state_merge(&left, &s);
        right = s;
        rk_state_merge(&right, &sum);
        if (memcmp(&left, &right, bytes) != 0)
            fail("merging does not commute");
        if (rk_state_check(op, dtype, &left, bytes, NULL))
            fail("a merged state is not acceptable");
        sum = left;
    }
    return 0;
}
