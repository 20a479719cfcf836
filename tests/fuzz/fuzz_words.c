/* Any bytes as words of states and as states, for libreduce's calls on them: byte 0 an op, byte 1 a dtype, then vectors of
 * words. What reduce_state_from_words accepts must be a state, have words that give it again, and be joined by sums of words as
 * by merging. The same bytes as a state must be refused, or merge and take elements. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/reduce.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what)
{
    fprintf(stderr, "fuzz_words: %s\n", what);
    abort();
}

static void expect(bool fine, const char *what)
{
    if (!fine)
        fail(what);
}

typedef struct kind {
    int op, dtype;
    size_t state, words, added;
} kind;

static kind kind_of(int op, int dtype)
{
    kind k = {op, dtype, reduce_state_size(op, dtype), reduce_state_words(op, dtype), 0};
    k.added = k.words ? k.words : REDUCE_KEYS_ADDED;
    k.words += reduce_state_keys(op, dtype);
    return k;
}

/* The words of both, joined. */
static void join(const kind *k, int64_t *into, const int64_t *from)
{
    for (size_t i = 0; i < k->words; i++)
        into[i] = i < k->added ? into[i] + from[i] : into[i] > from[i] ? into[i] : from[i];
}

/* The canonical words of a state that was accepted. */
static void to_words(const kind *k, const uint8_t *state, int64_t *words)
{
    uint8_t again[REDUCE_LARGEST_STATE];
    expect(!reduce_state_check(state, k->state, k->op, k->dtype), "an accepted state is none");
    expect(!reduce_state_to_words(state, k->state, words, k->words), "a state without words");
    expect(!reduce_state_from_words(again, sizeof again, k->op, k->dtype, words, k->words), "words of a state are refused");
    expect(!memcmp(again, state, k->state), "words give another state");
}

static void try_words(const kind *k, const uint8_t *data, size_t size)
{
    uint8_t sum[REDUCE_LARGEST_STATE], one[REDUCE_LARGEST_STATE], both[REDUCE_LARGEST_STATE];
    int64_t words[REDUCE_LARGEST_WORDS], total[REDUCE_LARGEST_WORDS];
    bool begun = false;
    for (; size >= 8 * k->words; data += 8 * k->words, size -= 8 * k->words) {
        memcpy(words, data, 8 * k->words);
        if (reduce_state_from_words(one, sizeof one, k->op, k->dtype, words, k->words)) {
            expect(reduce_errmsg()[0], "a refusal without a text");
            continue;
        }
        to_words(k, one, words);
        if (!begun) {
            memcpy(sum, one, k->state);
            memcpy(total, words, sizeof total);
            begun = true;
        } else if (!reduce_state_merge(sum, sizeof sum, one, sizeof one)) {
            join(k, total, words);
            expect(!reduce_state_from_words(both, sizeof both, k->op, k->dtype, total, k->words), "joined words are refused");
            expect(!memcmp(both, sum, k->state), "words join to another state");
            to_words(k, sum, total);
        }
    }
}

static void try_state(const kind *k, const uint8_t *data, size_t size)
{
    static const uint8_t elements[16];
    uint8_t state[REDUCE_LARGEST_STATE] = {0}, cell[96];
    reduce_spec spec = REDUCE_SPEC_INIT;
    memcpy(state, data, size < sizeof state ? size : sizeof state);
    spec.op = k->op;
    spec.dtype = k->dtype;
    reduce_state_finish(state, sizeof state, &spec, cell, sizeof cell);
    if (reduce_state_add(state, sizeof state, elements, 2))
        return;
    int err = reduce_state_merge(state, sizeof state, state, sizeof state);
    expect(!err || err == REDUCE_E_TOO_LARGE, "a state that took elements is not mergeable");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    kind k = kind_of(data[0] % 64, data[1] % 16);
    if (k.state && k.words)
        try_words(&k, data + 2, size - 2);
    try_state(&k, data + 2, size - 2);
    return 0;
}
