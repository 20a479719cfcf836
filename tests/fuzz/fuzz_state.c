/* Any bytes as partial states: byte 0 an op, byte 1 a dtype, then states. What rk_state_check accepts must merge both ways
 * round to the same bytes, stay acceptable, and finish for every reply type and policy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/exact/check.h"
#include "kernels/exact/finish.h"
#include "kernels/kernels.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

/* Float words are one value or the canonical NaN, no variance is negative, and no correlation beyond 1. */
static void check_words(const rp_spec *spec, const uint64_t *words)
{
    size_t width = 8 * rp_dtype_size(spec->out), n = rp_cell_size(spec) * 8 / width;
    bool squares = spec->op == RP_OP_VAR || spec->op == RP_OP_STD || spec->op == RP_OP_NORM2 || spec->op == RP_OP_SUMSQ ||
                   spec->op == RP_OP_RMS || spec->op == RP_OP_SEM;
    if (spec->op == RP_OP_STATS) {
        if (words[RP_STATS_VAR] >> 63 || words[RP_STATS_STD] >> 63)
            fail("a negative variance");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (width < 64 && words[i] >> width)
            fail("finish gives bits beyond the reply type");
        if (rk_is_float(spec->out) && rk_is_nan(spec->out, words[i]) && words[i] != rk_nan_bits(rk_format_of(spec->out)))
            fail("finish gives a NaN other than the canonical one");
    }
    const rk_format f = rk_format_of(spec->out);
    if (spec->op == RP_OP_CORR && !rk_is_nan(spec->out, words[0]) &&
        (words[0] & ~rk_sign_bit(f, 1)) > rk_round_window((uint64_t)1 << 63, 0, 0, 0, f))
        fail("a correlation beyond 1");
    if (squares && rk_is_float(spec->out) && words[0] >> (width - 1))
        fail("a negative sum of squares");
}

static void finish_as(const rk_state *s, rp_spec spec)
{
    uint64_t scratch[RK_FINISH_SCRATCH], words[RP_MAX_CELL_WORDS];
    if (rp_spec_check(&spec, NULL))
        return;
    int code = rk_state_finish(s, &spec, scratch, words);
    if (code != RP_OK && code != RP_EMPTY && code != RP_NAN && code != RP_OVERFLOW)
        fail("finish gives an error that it must not");
    if (code == RP_OK)
        check_words(&spec, words);
}

static void finish_all(int op, const rk_state *s)
{
    static const uint32_t ddofs[] = {0, 1, UINT32_MAX};
    for (int out = RP_I8; out <= RP_F64; out++)
        for (int nan = RP_NAN_PROPAGATE; nan <= RP_NAN_ERROR; nan++) {
            rp_spec spec = {.op = (uint8_t)op, .dtype = s->dtype, .out = (uint8_t)out, .nan = (uint8_t)nan, .rows = 1};
            for (int i = 0; i < 3; i++) { /* specs that may not have a ddof or wrap are passed over */
                spec.ddof = ddofs[i];
                finish_as(s, spec);
            }
            spec.ddof = 0;
            spec.flags = RP_WRAP;
            finish_as(s, spec);
        }
}

/* Elements and skipped NaNs, each of which a row may have 2^60 of. */
static bool too_many(const rk_state *a, const rk_state *b)
{
    const int at = rk_limbs(a->layout) - 1;
    bool stats = rk_is_stats(a->layout);
    return a->count + b->count > RP_MAX_COUNT || (stats && a->limb[at] + b->limb[at] > RP_MAX_COUNT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    int op = data[0] % 64, dtype = data[1] % 16;
    size_t bytes = rp_state_size(rp_state_layout(op, dtype));
    rk_state sum, s, left, right;
    size_t n = 0;
    if (rp_op_name(op)[0] == '?' || rp_dtype_size(dtype) == 0)
        return 0;
    rk_state_check(op, dtype, data + 2, size - 2, NULL); /* of any length */
    if (bytes == 0)                                      /* order statistics have no states */
        return 0;
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
        if (too_many(&sum, &s))
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
