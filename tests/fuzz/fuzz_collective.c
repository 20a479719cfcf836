/* Any bytes as what other ranks send to reduce_collective: byte 0 an op, byte 1 a dtype, byte 2 the number of items, whether
 * states are asked for, and whether the message is joined with this rank's or replaces it. Then patches of the message and of
 * the states behind it: two bytes of offset, one of length, and bytes that are combined with those there. What is not refused
 * must be values, or states. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_ITEMS = 8, VALUES = 96 };

typedef struct peer {
    const uint8_t *patches;
    size_t size;
    bool joins;
} peer;

static void expect(bool fine, const char *what)
{
    if (fine)
        return;
    fprintf(stderr, "fuzz_collective: %s: %s\n", what, reduce_errmsg());
    abort();
}

/* Patches whose offsets count from `first` on. */
static void patch(const peer *p, uint8_t *bytes, size_t first, size_t n)
{
    for (size_t i = 0; p->size - i > 3;) {
        const size_t at = p->patches[i] | (size_t)p->patches[i + 1] << 8, most = p->size - i - 3;
        const size_t length = p->patches[i + 2] < most ? p->patches[i + 2] : most;
        i += 3;
        for (size_t k = 0; k < length; k++)
            if (at + k >= first && at + k - first < n)
                bytes[at + k - first] ^= p->patches[i + k];
        i += length;
    }
}

static int exchange(void *arg, void *buffer, size_t bytes)
{
    const peer *p = arg;
    uint8_t *theirs = malloc(bytes);
    if (!theirs)
        return 1;
    memcpy(theirs, buffer, bytes);
    patch(p, theirs, bytes == REDUCE_MESSAGE ? 0 : REDUCE_MESSAGE, bytes);
    if (p->joins)
        reduce_states_merge(buffer, theirs, bytes);
    else
        memcpy(buffer, theirs, bytes);
    free(theirs);
    return 0;
}

static void check_states(const reduce_spec *s, const uint8_t *out, size_t n)
{
    const size_t size = reduce_state_size(s->op, s->dtype);
    for (size_t i = 0; i < n; i++)
        expect(!reduce_state_check(out + i * REDUCE_MAX_STATE, size, s->op, s->dtype), "what was given is not a state");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t elements[16] = {1, 0, 0, 0, 0, 0, 0, 0, 2};
    static uint8_t out[MOST_ITEMS * REDUCE_MAX_STATE];
    if (size < 3)
        return 0;
    reduce_spec spec = REDUCE_SPEC_INIT;
    reduce_item items[MOST_ITEMS];
    peer p = {.patches = data + 3, .size = size - 3, .joins = data[2] & 16};
    const size_t n = data[2] % MOST_ITEMS;
    const bool states = data[2] & 8;
    spec.op = data[0] % 32;
    spec.dtype = data[1] % 16;
    spec.flags = states ? REDUCE_STATES_OUT : 0;
    for (size_t i = 0; i < n; i++) {
        items[i] = (reduce_item)REDUCE_ITEM_INIT;
        items[i].spec = &spec;
        items[i].data = elements;
        items[i].bytes = 2 * reduce_dtype_size(spec.dtype);
        items[i].out = out + i * REDUCE_MAX_STATE;
        items[i].room = REDUCE_MAX_STATE;
    }
    memset(out, 0xee, sizeof out);
    const int err = reduce_collective(NULL, items, n, 3, exchange, &p);
    expect(!err || reduce_errmsg()[0], "an error without a text");
    if (!err && states)
        check_states(&spec, out, n);
    for (size_t i = 0; i < n && !states; i++)
        expect(out[i * REDUCE_MAX_STATE + VALUES] == 0xee, "a value is longer than any");
    return 0;
}
