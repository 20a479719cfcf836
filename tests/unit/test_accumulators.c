/* Accumulators: every group has the state of its elements, to the byte, whatever the order, the batches and the sizes of the
 * elements; what is refused changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "client/reduce.h"
#include "kernels/cpu/keys/slots.h"
#include "kernels/cpu/keys/window.h"
#include "kernels/exact/line.h"
#include "tests/unit/oracle.h"

enum { N = 3000, GROUPS = 23 };

/* ---- data -------------------------------------------------------------------------------------------------------- */

enum { USUAL, WIDE, ALL_BITS, SPECIAL, ZEROS, KINDS };

/* Bits of a float: near 1, of any size, any at all, with infinities and NaNs, zeros of both signs. */
static uint64_t float_bits(t_rng *r, int dtype, int kind)
{
    const rk_format f = rk_format_of(dtype);
    const uint64_t bits = t_next(r) & (~(uint64_t)0 >> (64 - f.width)), one = (uint64_t)-f.emin + 1;
    const uint64_t fraction = bits & (((uint64_t)1 << (f.precision - 1)) - 1), sign = bits & rk_sign_bit(f, 1);
    switch (kind) {
    case USUAL:
        return sign | (one - t_below(r, 9)) << (f.precision - 1) | fraction;
    case WIDE:
        return (bits & ~rk_sign_bit(f, 1)) >= rk_inf_bits(f) ? sign : bits;
    case SPECIAL:
        return t_below(r, 40) ? bits : sign | rk_inf_bits(f) | (t_below(r, 3) ? 0 : 1);
    case ZEROS:
        return t_below(r, 3) ? sign : bits & 1;
    default:
        return bits;
    }
}

typedef struct data {
    int op, dtype, nan;
    uint8_t values[8 * N], mask[N];
    uint32_t key[N];
} data;

static void fill(data *d, t_rng *r, int op, int dtype, int nan, int kind)
{
    const int size = rk_bytes(dtype);
    *d = (data){.op = op, .dtype = dtype, .nan = nan};
    for (int i = 0; i < N; i++) {
        const uint64_t bits = rk_is_float(dtype) ? float_bits(r, dtype, kind) : t_next(r) >> (t_below(r, 2) ? 0 : 56);
        memcpy(d->values + i * size, &bits, (size_t)size);
        d->mask[i] = (uint8_t)t_below(r, 4);
        d->key[i] = (uint32_t)(t_below(r, 8) ? t_below(r, GROUPS - 1) : 0); /* the last group has none */
    }
}

/* The state of a group, element by element. */
static void expect(const data *d, uint32_t group, bool masked, rk_state *s)
{
    const int size = rk_bytes(d->dtype);
    memset(s, 0, sizeof *s);
    rk_state_init(s, rp_state_layout(d->op, d->dtype), d->dtype);
    for (int i = 0; i < N; i++)
        if (d->key[i] == group && (!masked || d->mask[i]))
            rk_state_add(s, rk_load(d->values + i * size, size), 5 + (uint64_t)i, d->nan);
}

static reduce_accumulators *made(const data *d)
{
    reduce_accumulators *a = NULL;
    assert_int_equal(reduce_accumulators_new(d->op, d->dtype, d->nan, GROUPS, &a), 0);
    return a;
}

/* Add elements [from, from + n). */
static void add(reduce_accumulators *a, const data *d, int from, int n, bool masked)
{
    reduce_batch b = REDUCE_BATCH_INIT;
    b.key_dtype = REDUCE_U32;
    b.keys = d->key + from;
    b.values = d->values + from * rk_bytes(d->dtype);
    b.mask = masked ? d->mask + from : NULL;
    b.count = (uint64_t)n;
    b.index = 5 + (uint64_t)from;
    assert_int_equal(reduce_accumulators_add(a, &b), 0);
}

static void assert_states(const reduce_accumulators *a, const data *d, bool masked)
{
    const size_t size = reduce_state_size(d->op, d->dtype);
    uint8_t got[REDUCE_MAX_STATE];
    rk_state want;
    for (uint32_t g = 0; g < GROUPS; g++) {
        expect(d, g, masked, &want);
        assert_int_equal(reduce_accumulators_state(a, g, got, sizeof got), 0);
        assert_memory_equal(got, &want, size);
        assert_int_equal(reduce_state_check(got, size, d->op, d->dtype), 0);
    }
}

static bool exists(int op, int dtype)
{
    uint8_t s[REDUCE_MAX_STATE];
    return reduce_state_init(s, sizeof s, op, dtype) == 0;
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

/* All at once, and in pieces to two accumulators that are merged. */
static void try(const data *d, t_rng *r, bool masked)
{
    reduce_accumulators *a = made(d), *b = made(d);
    add(a, d, 0, N, masked);
    assert_states(a, d, masked);
    reduce_accumulators_free(a);
    a = made(d);
    for (int from = 0, n; from < N; from += n) {
        n = 1 + (int)t_below(r, 700);
        if (n > N - from)
            n = N - from;
        add(t_below(r, 2) ? a : b, d, from, n, masked);
    }
    assert_int_equal(reduce_accumulators_merge(a, b), 0);
    assert_states(a, d, masked);
    reduce_accumulators_free(a);
    reduce_accumulators_free(b);
}

static void test_states(void **state)
{
    (void)state;
    t_rng r = {20261128};
    data *d = malloc(sizeof *d);
    int tried = 0;
    for (int op = 1; op <= RP_OP_COUNT; op++)
        for (int dtype = 1; dtype <= RP_DTYPE_COUNT; dtype++)
            for (int kind = 0; exists(op, dtype) && kind < (rk_is_float(dtype) ? KINDS : 1); kind++, tried++) {
                fill(d, &r, op, dtype, (int)t_below(&r, 3), kind);
                try(d, &r, t_below(&r, 2));
            }
    free(d);
    assert_true(tried > 500);
}

/* One group of many elements: windows overflow, that of the sum and, where signs alternate, that of squares. They move, and
 * fill again. */
static void test_one_group(void **state)
{
    (void)state;
    t_rng r = {7};
    data *d = malloc(sizeof *d);
    const double large[] = {0x1.fffffffffffffp1023, 0x1p1023, 0x1p-1074, -0x1.8p1000, 0x1p60, -0x1p-60};
    for (int op = 0; op < 3; op++) {
        fill(d, &r, op ? REDUCE_VAR : REDUCE_SUM, REDUCE_F64, 0, USUAL);
        for (int i = 0; i < N; i++) {
            const double x = large[i < N / 2 ? 0 : t_below(&r, 6)] * (op == 2 && i % 2 ? -1 : 1);
            memcpy(d->values + 8 * i, &x, 8);
            d->key[i] = 3;
        }
        try(d, &r, false);
    }
    free(d);
}

/* Without keys all are of group 0, by the loops over elements. */
static void test_no_keys(void **state)
{
    (void)state;
    t_rng r = {11};
    data *d = malloc(sizeof *d);
    for (int masked = 0; masked < 2; masked++) {
        fill(d, &r, REDUCE_STATS, REDUCE_F32, REDUCE_NAN_OMIT, SPECIAL);
        memset(d->key, 0, sizeof d->key);
        reduce_accumulators *a = made(d);
        reduce_batch b = REDUCE_BATCH_INIT;
        b.values = d->values;
        b.mask = masked ? d->mask : NULL;
        b.count = N;
        b.index = 5;
        assert_int_equal(reduce_accumulators_add(a, &b), 0);
        assert_states(a, d, masked);
        reduce_accumulators_free(a);
    }
    free(d);
}

/* A slot that was settled goes on where it was. */
static void test_settle(void **state)
{
    (void)state;
    t_rng r = {13};
    data *d = malloc(sizeof *d);
    rk_slots k;
    rk_state got, want;
    for (int op = 0; op < 2; op++) {
        fill(d, &r, op ? REDUCE_NORM2 : REDUCE_SUM, REDUCE_F64, REDUCE_NAN_OMIT, SPECIAL);
        memset(d->key, 0, sizeof d->key);
        expect(d, 0, false, &want);
        rk_slots_of(&k, want.layout, RP_F64, REDUCE_NAN_OMIT);
        void *slot = aligned_alloc(64, 64), *slots[1] = {slot};
        rk_slot_init(&k, slot);
        for (int i = 0; i < N; i++) {
            assert_int_equal(rk_slots_add(&k, slots, d->values + 8 * i, 5, NULL, 1), 1);
            if (i % 100 == 0)
                assert_true(rk_slot_settle(&k, slot));
        }
        memset(&got, 0, sizeof got);
        rk_slot_state(&k, slot, &got);
        assert_memory_equal(&got, &want, rp_state_size(want.layout));
        assert_int_equal(rk_slot_count(&k, slot), want.count);
        rk_slot_drop(&k, slot);
        free(slot);
    }
    free(d);
}

/* Products of two arrays, by groups, beside the definition that adds one pair at a time. */
static void try_pairs(const data *x, const data *y, t_rng *r)
{
    const int size = rk_bytes(x->dtype);
    rk_slots k;
    rk_slots_of(&k, rp_state_layout(REDUCE_DOT, x->dtype), x->dtype, x->nan);
    uint8_t *slots = rk_slots_room(&k, 2 * GROUPS);
    void *slot[N];
    for (int g = 0; g < 2 * GROUPS; g++)
        rk_slot_init(&k, slots + (size_t)g * k.bytes);
    for (int i = 0; i < N; i++)
        slot[i] = slots + (x->key[i] + (t_below(r, 2) ? GROUPS : 0)) * k.bytes;
    assert_int_equal(rk_slots_add_pairs(&k, slot, x->values, y->values, N), N);
    for (uint32_t g = 0; g < GROUPS; g++) {
        rk_state got = {0}, want = {0};
        rk_state_init(&want, k.layout, k.dtype);
        for (int i = 0; i < N; i++)
            if (x->key[i] == g)
                rk_pairs_add(&want, rk_load(x->values + i * size, size), rk_load(y->values + i * size, size), x->nan, false);
        assert_true(rk_slot_join(&k, slots + g * k.bytes, slots + (g + GROUPS) * k.bytes));
        if (g % 2)
            assert_true(rk_slot_settle(&k, slots + g * k.bytes));
        rk_slot_state(&k, slots + g * k.bytes, &got);
        assert_memory_equal(&got, &want, rp_state_size(k.layout));
    }
    for (int g = 0; g < 2 * GROUPS; g++)
        rk_slot_drop(&k, slots + (size_t)g * k.bytes);
    free(slots);
}

static void test_pairs(void **state)
{
    (void)state;
    t_rng r = {19};
    data *x = malloc(sizeof *x), *y = malloc(sizeof *y);
    const double large[] = {0x1.fffffffffffffp1023, -0x1.8p1023, 0x1p-1022, 0x1p-1074, 1, -0x1p-60};
    for (int dtype = 1; dtype <= RP_DTYPE_COUNT; dtype++)
        for (int i = 0; i < (rk_is_float(dtype) ? KINDS * KINDS : 1); i++) {
            fill(x, &r, REDUCE_DOT, dtype, (int)t_below(&r, 3), i % KINDS);
            fill(y, &r, REDUCE_DOT, dtype, x->nan, i / KINDS);
            try_pairs(x, y, &r);
        }
    for (int few = 1; few <= 6; few++) { /* a window that overflows with either sign, and moves */
        fill(x, &r, REDUCE_DOT, RP_F64, 0, USUAL);
        fill(y, &r, REDUCE_DOT, RP_F64, 0, USUAL);
        for (int i = 0; i < N; i++) {
            memcpy(x->values + 8 * i, &large[t_below(&r, few)], 8);
            memcpy(y->values + 8 * i, &large[few == 2 ? 0 : t_below(&r, few)], 8);
            x->key[i] = 3;
        }
        try_pairs(x, y, &r);
    }
    free(x);
    free(y);
}

/* Windows that are as full as they can be, of either sign, take more without a carry that is lost. */
static void test_full(void **state)
{
    (void)state;
    static const int ops[] = {REDUCE_SUM, REDUCE_VAR, REDUCE_DOT};
    const double x = 0x1.fffffffffffffp1023, y = -x, *pairs[] = {&x, &y};
    for (int i = 0; i < 6; i++) {
        rk_slots k;
        rk_state got = {0}, want = {0};
        const double *given = pairs[i % 2];
        rk_slots_of(&k, rp_state_layout(ops[i / 2], RP_F64), RP_F64, 0);
        uint8_t *slot = rk_slots_room(&k, 1);
        void *slots[] = {slot};
        rk_slot_init(&k, slot);
        for (int n = 0; n < 4; n++) {
            rk_slot_state(&k, slot, &want);
            if (ops[i / 2] == REDUCE_DOT) {
                assert_int_equal(rk_slots_add_pairs(&k, slots, &x, given, 1), 1);
                rk_pairs_add(&want, rk_load((const uint8_t *)&x, 8), rk_load((const uint8_t *)given, 8), 0, false);
            } else {
                assert_int_equal(rk_slots_add(&k, slots, given, 0, NULL, 1), 1);
                rk_state_add(&want, rk_load((const uint8_t *)given, 8), 0, 0);
            }
            rk_slot_state(&k, slot, &got);
            assert_memory_equal(&got, &want, rp_state_size(k.layout));
            const rk_int128 most = ((rk_int128)INT64_MAX << 64) + INT64_MAX;
            const uint64_t top = ops[i / 2] == REDUCE_VAR ? UINT64_MAX : i % 2 ? (uint64_t)INT64_MIN : INT64_MAX;
            if (ops[i / 2] == REDUCE_SUM)
                ((rk_window *)slot)->sum = i % 2 ? -most : most;
            else
                *(rk_square_window *)(slot + sizeof(rk_window)) = (rk_square_window){{UINT64_MAX, UINT64_MAX, UINT64_MAX, top}};
        }
        rk_slot_drop(&k, slot);
        free(slot);
    }
}

/* Keys of every integer type, at any alignment. */
static void test_keys(void **state)
{
    (void)state;
    t_rng r = {17};
    data *d = malloc(sizeof *d);
    uint8_t keys[8 * N + 1];
    fill(d, &r, REDUCE_SUM, REDUCE_I32, 0, USUAL);
    for (int dtype = RP_I8; dtype <= RP_U64; dtype++) {
        const size_t size = (size_t)rk_bytes(dtype);
        reduce_accumulators *a = made(d);
        reduce_batch b = REDUCE_BATCH_INIT;
        for (size_t i = 0; i < N; i++) {
            const uint64_t key = d->key[i];
            memcpy(keys + 1 + i * size, &key, size);
        }
        b.key_dtype = dtype;
        b.keys = keys + 1;
        b.values = d->values;
        b.count = N;
        b.index = 5;
        assert_int_equal(reduce_accumulators_add(a, &b), 0);
        assert_states(a, d, false);
        reduce_accumulators_free(a);
    }
    free(d);
}

/* A key that is no group: an error that names the element and changes nothing, or left out. */
static void test_outside(void **state)
{
    (void)state;
    const int16_t keys[] = {0, 1, -1, 1, 2, 0};
    const double values[] = {1, 2, 4, 8, 16, 32};
    reduce_accumulators *a = NULL;
    reduce_fault fault = REDUCE_FAULT_INIT;
    reduce_spec spec = REDUCE_SPEC_INIT;
    double sums[2] = {-1, -1};
    reduce_batch b = REDUCE_BATCH_INIT;
    b.key_dtype = REDUCE_I16;
    b.keys = keys;
    b.values = values;
    b.count = 6;
    spec.dtype = REDUCE_F64;
    assert_int_equal(reduce_accumulators_new(REDUCE_SUM, REDUCE_F64, 0, 2, &a), 0);
    assert_int_equal(reduce_accumulators_add(a, &b), REDUCE_E_SHAPE);
    reduce_last_fault(&fault);
    assert_int_equal(fault.index, 2);
    assert_string_equal(fault.field, "keys");
    assert_non_null(strstr(reduce_errmsg(), "key -1 at element 2: groups are 0 to 1"));
    b.flags = REDUCE_DROP_NEGATIVE;
    assert_int_equal(reduce_accumulators_add(a, &b), REDUCE_E_SHAPE);
    reduce_last_fault(&fault);
    assert_int_equal(fault.index, 4);
    assert_int_equal(reduce_accumulators_finish(a, &spec, 0, 2, sums, sizeof sums), 0);
    assert_true(sums[0] == 0 && sums[1] == 0);
    b.flags = REDUCE_DROP_OUTSIDE;
    assert_int_equal(reduce_accumulators_add(a, &b), 0);
    assert_int_equal(reduce_accumulators_finish(a, &spec, 0, 2, sums, sizeof sums), 0);
    assert_true(sums[0] == 33 && sums[1] == 10);
    assert_int_equal(reduce_accumulators_grow(a, 3), 0);
    assert_int_equal(reduce_accumulators_groups(a), 3);
    assert_int_equal(reduce_accumulators_finish(a, &spec, 2, 1, sums, sizeof sums), 0);
    assert_true(sums[0] == 0);
    reduce_accumulators_free(a);
}

/* ---- by several threads ------------------------------------------------------------------------------------------ */

enum { MANY = (1 << 18) + 77, MANY_GROUPS = 20000 };

static void add_many(reduce_accumulators *a, const uint32_t *key, const uint8_t *values, const uint8_t *mask, int size,
                     uint64_t each)
{
    reduce_batch b = REDUCE_BATCH_INIT;
    b.key_dtype = REDUCE_U32;
    for (uint64_t from = 0; from < MANY; from += each) {
        b.keys = key + from;
        b.values = values + from * (uint64_t)size;
        b.mask = mask ? mask + from : NULL;
        b.count = MANY - from < each ? MANY - from : each;
        b.index = from;
        assert_int_equal(reduce_accumulators_add(a, &b), 0);
    }
}

/* A batch that threads share gives the states of small batches, with slots of the threads' own and with groups of their own. */
static void try_many(int op, int dtype, size_t groups, bool masked, bool skewed)
{
    t_rng r = {(uint64_t)op * 31 + groups};
    const int size = rk_bytes(dtype);
    uint32_t *key = malloc(MANY * sizeof *key);
    uint8_t *values = malloc(MANY * 8), *mask = malloc(MANY), one[REDUCE_MAX_STATE], other[REDUCE_MAX_STATE];
    reduce_accumulators *a = NULL, *b = NULL;
    assert_true(key && values && mask);
    for (uint64_t i = 0; i < MANY; i++) {
        const uint64_t bits = rk_is_float(dtype) ? float_bits(&r, dtype, (int)t_below(&r, 50) ? USUAL : WIDE) : t_next(&r);
        memcpy(values + i * (uint64_t)size, &bits, (size_t)size);
        key[i] = skewed && t_below(&r, 10) ? 3 : (uint32_t)t_below(&r, groups);
        mask[i] = (uint8_t)t_below(&r, 3);
    }
    assert_int_equal(reduce_accumulators_new(op, dtype, 0, groups, &a), 0);
    assert_int_equal(reduce_accumulators_new(op, dtype, 0, groups, &b), 0);
    add_many(a, key, values, masked ? mask : NULL, size, MANY);
    add_many(b, key, values, masked ? mask : NULL, size, 5000);
    for (size_t g = 0; g < groups; g++) {
        assert_int_equal(reduce_accumulators_state(a, g, one, sizeof one), 0);
        assert_int_equal(reduce_accumulators_state(b, g, other, sizeof other), 0);
        assert_memory_equal(one, other, reduce_state_size(op, dtype));
    }
    reduce_accumulators_free(a);
    reduce_accumulators_free(b);
    free(key);
    free(values);
    free(mask);
}

static void test_threads(void **state)
{
    (void)state;
    try_many(REDUCE_SUM, REDUCE_F64, 5, false, false);
    try_many(REDUCE_SUM, REDUCE_F64, MANY_GROUPS, false, false);
    try_many(REDUCE_VAR, REDUCE_F32, MANY_GROUPS, true, true);
    try_many(REDUCE_ARGMAX, REDUCE_I8, 5, false, true);
    try_many(REDUCE_ARGMAX, REDUCE_I8, MANY_GROUPS, true, false);
    try_many(REDUCE_SUM, REDUCE_I16, 1, true, false);
    try_many(REDUCE_MIN, REDUCE_F16, MANY_GROUPS, false, false);
}

/* The first wrong key is named, whichever thread finds one first; nothing is added. */
static void test_wrong_key_among_many(void **state)
{
    (void)state;
    uint32_t *key = calloc(MANY, sizeof *key);
    double *values = calloc(MANY, sizeof *values), sum = -1;
    reduce_accumulators *a = NULL;
    reduce_fault fault = REDUCE_FAULT_INIT;
    reduce_spec spec = REDUCE_SPEC_INIT;
    reduce_batch b = REDUCE_BATCH_INIT;
    assert_true(key && values);
    values[0] = 1;
    key[1000] = key[MANY - 1] = 2;
    b.key_dtype = REDUCE_U32;
    b.keys = key;
    b.values = values;
    b.count = MANY;
    spec.dtype = REDUCE_F64;
    assert_int_equal(reduce_accumulators_new(REDUCE_SUM, REDUCE_F64, 0, 2, &a), 0);
    assert_int_equal(reduce_accumulators_add(a, &b), REDUCE_E_SHAPE);
    reduce_last_fault(&fault);
    assert_int_equal(fault.index, 1000);
    key[1000] = 0;
    assert_int_equal(reduce_accumulators_add(a, &b), REDUCE_E_SHAPE);
    reduce_last_fault(&fault);
    assert_int_equal(fault.index, MANY - 1);
    assert_int_equal(reduce_accumulators_finish(a, &spec, 0, 1, &sum, sizeof sum), 0);
    assert_true(sum == 0);
    reduce_accumulators_free(a);
    free(key);
    free(values);
}

/* A group without elements has no least one: the error names it, and the groups before it are written. */
static void test_empty_group(void **state)
{
    (void)state;
    const uint8_t keys[] = {0, 1, 3};
    const float values[] = {1, 2, 4};
    float least[4] = {0};
    reduce_accumulators *a = NULL;
    reduce_fault fault = REDUCE_FAULT_INIT;
    reduce_spec spec = REDUCE_SPEC_INIT;
    reduce_batch b = REDUCE_BATCH_INIT;
    b.key_dtype = REDUCE_U8;
    b.keys = keys;
    b.values = values;
    b.count = 3;
    spec.op = REDUCE_MIN;
    spec.dtype = spec.out = REDUCE_F32;
    assert_int_equal(reduce_accumulators_new(REDUCE_MIN, REDUCE_F32, 0, 4, &a), 0);
    assert_int_equal(reduce_accumulators_add(a, &b), 0);
    assert_int_equal(reduce_accumulators_finish(a, &spec, 0, 4, least, sizeof least), REDUCE_E_EMPTY);
    reduce_last_fault(&fault);
    assert_int_equal(fault.index, 2);
    assert_true(least[0] == 1 && least[1] == 2);
    reduce_accumulators_free(a);
}

static void test_refused(void **state)
{
    (void)state;
    reduce_accumulators *a = NULL, *other = NULL;
    reduce_batch b = REDUCE_BATCH_INIT;
    const double x = 1, key = 0;
    uint8_t s[REDUCE_MAX_STATE];
    assert_int_equal(reduce_accumulators_new(0, REDUCE_F64, 0, 1, &a), REDUCE_E_OP);
    assert_int_equal(reduce_accumulators_new(REDUCE_AND, REDUCE_F64, 0, 1, &a), REDUCE_E_TYPE);
    assert_int_equal(reduce_accumulators_new(REDUCE_SUM, REDUCE_F64, 9, 1, &a), REDUCE_E_BAD_MESSAGE);
    assert_int_equal(reduce_accumulators_new(REDUCE_SUM, REDUCE_F64, 0, ((size_t)1 << 32) + 1, &a), REDUCE_E_TOO_LARGE);
    assert_int_equal(reduce_accumulators_new(REDUCE_SUM, REDUCE_F64, 0, 2, &a), 0);
    assert_int_equal(reduce_accumulators_new(REDUCE_MAX, REDUCE_F64, 0, 2, &other), 0);
    assert_int_equal(reduce_accumulators_grow(a, 1), REDUCE_E_ARGUMENT);
    assert_int_equal(reduce_accumulators_merge(a, other), REDUCE_E_BAD_MESSAGE);
    assert_int_equal(reduce_accumulators_state(a, 2, s, sizeof s), REDUCE_E_SHAPE);
    assert_int_equal(reduce_accumulators_state(a, 1, s, 8), REDUCE_E_ARGUMENT);
    assert_int_equal(reduce_accumulators_state(other, 1, s, sizeof s), 0);
    assert_int_equal(reduce_accumulators_merge_state(a, 1, s, sizeof s), REDUCE_E_BAD_MESSAGE);
    b.count = 1;
    assert_int_equal(reduce_accumulators_add(a, &b), REDUCE_E_ARGUMENT);
    b.values = &x;
    b.keys = &key;
    b.key_dtype = REDUCE_F64;
    assert_int_equal(reduce_accumulators_add(a, &b), REDUCE_E_TYPE);
    b.key_dtype = REDUCE_U64;
    b.flags = 4;
    assert_int_equal(reduce_accumulators_add(a, &b), REDUCE_E_ARGUMENT);
    b.flags = 0;
    b.count = ((uint64_t)1 << 60) + 1;
    assert_int_equal(reduce_accumulators_add(a, &b), REDUCE_E_TOO_LARGE);
    b.count = 1;
    b.index = ((uint64_t)1 << 60) + 1;
    assert_int_equal(reduce_accumulators_add(a, &b), REDUCE_E_TOO_LARGE);
    reduce_accumulators_free(a);
    assert_int_equal(reduce_accumulators_new(REDUCE_SUM, REDUCE_F64, 0, 0, &a), 0);
    b.index = 0;
    b.keys = NULL;
    assert_int_equal(reduce_accumulators_add(a, &b), REDUCE_E_SHAPE); /* no group 0 */
    b.flags = REDUCE_DROP_OUTSIDE;
    assert_int_equal(reduce_accumulators_add(a, &b), 0);
    reduce_accumulators_free(a);
    reduce_accumulators_free(other);
    reduce_accumulators_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states),      cmocka_unit_test(test_one_group), cmocka_unit_test(test_no_keys),
        cmocka_unit_test(test_settle),      cmocka_unit_test(test_keys),      cmocka_unit_test(test_outside),
        cmocka_unit_test(test_empty_group), cmocka_unit_test(test_refused),   cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_full),        cmocka_unit_test(test_threads),   cmocka_unit_test(test_wrong_key_among_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
