/* What reduce_cuda.h refuses before anything is launched: the code, and words of the text. It takes a device, which may be that
 * of tests/simt. The last line counts. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "client/reduce_cuda.h"

enum { BYTES = 64 << 20 };

static unsigned passed, failed;

static void refused(int got, int code, const char *words, const char *call)
{
    const char *text = got ? reduce_cuda_errmsg() : "";
    if (got == code && strstr(text, words)) {
        passed++;
        return;
    }
    failed++;
    printf("FAIL %s: %d (%s), expected %d with '%s'\n", call, got, text, code, words);
}
#define REFUSED(code, words, call) refused(call, REDUCE_E_##code, words, #call)

static reduce_cuda *h;
static unsigned char *m; /* of the device, aligned to a workspace's alignment */

static reduce_spec of(int op, int dtype)
{
    reduce_spec s = REDUCE_SPEC_INIT;
    s.op = op;
    s.dtype = dtype;
    return s;
}

/* ---- one spec, one argument wrong ---- */

static int enqueue(const reduce_spec *s, const void *data, uint64_t count, void *out, size_t room, void *status,
                   void *workspace, size_t bytes)
{
    return reduce_cuda_enqueue(h, s, data, count, out, room, status, workspace, bytes, NULL);
}

static void pointers(void)
{
    reduce_spec s = of(REDUCE_SUM, REDUCE_F32);
    size_t n;
    REFUSED(ARGUMENT, "handle", reduce_cuda_create(NULL, 0));
    REFUSED(ARGUMENT, "handle", reduce_cuda_workspace(NULL, &s, 1, &n));
    REFUSED(ARGUMENT, "NULL", reduce_cuda_workspace(h, &s, 1, NULL));
    REFUSED(ARGUMENT, "room", reduce_cuda_result_size(&s, 1, NULL));
    REFUSED(ARGUMENT, "struct", reduce_cuda_result_size(NULL, 1, &n));
    REFUSED(ARGUMENT, "handle", reduce_cuda_clear(NULL, m, BYTES, NULL));
    REFUSED(ARGUMENT, "256", reduce_cuda_clear(h, NULL, BYTES, NULL));
    REFUSED(ARGUMENT, "256", reduce_cuda_clear(h, m + 8, BYTES, NULL));
    REFUSED(ARGUMENT, "bytes of", reduce_cuda_clear(h, m, 100, NULL));
    REFUSED(ARGUMENT, "handle", reduce_cuda_prepare(NULL, &s, 1, m, BYTES));
    REFUSED(ARGUMENT, "bytes of", reduce_cuda_prepare(h, &s, 1, m, 100));
    REFUSED(ARGUMENT, "NULL", enqueue(&s, NULL, 10, m, 4, NULL, m, BYTES));
    REFUSED(ARGUMENT, "aligned", enqueue(&s, m + 2, 10, m, 4, NULL, m, BYTES));
    REFUSED(ARGUMENT, "NULL", enqueue(&s, m, 10, NULL, 4, NULL, m, BYTES));
    REFUSED(ARGUMENT, "aligned to 8", enqueue(&s, m, 10, m + 4, 4, NULL, m, BYTES));
    REFUSED(ARGUMENT, "there is room for 3", enqueue(&s, m, 10, m, 3, NULL, m, BYTES));
    REFUSED(ARGUMENT, "aligned to 8", enqueue(&s, m, 10, m, 8, m + 4, m, BYTES));
    REFUSED(ARGUMENT, "256", enqueue(&s, m, 10, m, 4, NULL, m + 64, BYTES));
    REFUSED(ARGUMENT, "bytes of", enqueue(&s, m, 10, m, 4, NULL, m, 1000));
    s.offsets = (const uint64_t *)(const void *)(m + 4);
    REFUSED(ARGUMENT, "aligned to 8", enqueue(&s, m, 10, m, 4, NULL, m, BYTES));
    s = of(REDUCE_DOT, REDUCE_F32);
    s.weights = m + 2;
    REFUSED(ARGUMENT, "aligned to their type", enqueue(&s, m, 10, m, 4, NULL, m, BYTES));
}

static void specs(void)
{
    reduce_spec s = of(99, REDUCE_F32);
    size_t n;
    REFUSED(OP, "op", reduce_cuda_result_size(&s, 1, &n));
    s = of(REDUCE_SUM, 99);
    REFUSED(TYPE, "type", reduce_cuda_result_size(&s, 1, &n));
    s = of(REDUCE_SUM, REDUCE_F32);
    s.rows = 3;
    REFUSED(SHAPE, "cannot be cut", reduce_cuda_result_size(&s, 10, &n));
    s = of(REDUCE_MIN, REDUCE_F32);
    s.nan = REDUCE_NAN_ERROR;
    s.mask = m;
    REFUSED(BAD_MESSAGE, "two reasons", enqueue(&s, m, 10, m, 4, NULL, m, BYTES));
    s = of(REDUCE_MEDIAN, REDUCE_F32);
    s.offsets = (const uint64_t *)(const void *)m;
    REFUSED(OP, "segments", enqueue(&s, m, 10, m, 4, NULL, m, BYTES));
    s = of(REDUCE_SUM, REDUCE_F32);
    s.rows = 3u << 20;
    s.planes = 2;
    REFUSED(OP, "4 MiB", enqueue(&s, m, 12u << 20, m, BYTES, NULL, m, BYTES));
    s = of(REDUCE_MEDIAN, REDUCE_F32);
    s.flags = REDUCE_COLUMNS;
    REFUSED(OP, "4 MiB", enqueue(&s, m, 3u << 20, m, BYTES, NULL, m, BYTES));
}

static void lists(void)
{
    reduce_spec s = of(REDUCE_SUM, REDUCE_F32);
    reduce_cuda_array a[3] = {{m, 10}, {m, 10}, {m, 10}};
#define LIST(arrays, n) reduce_cuda_enqueue_list(h, &s, arrays, n, m, 64, NULL, m, BYTES, NULL)
    REFUSED(ARGUMENT, "NULL", LIST(NULL, 3));
    REFUSED(SHAPE, "no arrays", LIST(a, 0));
    REFUSED(TOO_LARGE, "arrays", LIST(a, 1u << 30));
    a[1].data = NULL;
    REFUSED(ARGUMENT, "array 1", LIST(a, 3));
    a[1].data = m + 1;
    REFUSED(ARGUMENT, "array 1", LIST(a, 3));
    a[1] = (reduce_cuda_array){m, UINT64_MAX};
    REFUSED(TOO_LARGE, "elements", LIST(a, 3));
    a[1].count = 10;
    s.rows = 2;
    REFUSED(SHAPE, "3 arrays", LIST(a, 3));
    s = of(REDUCE_MIN, REDUCE_F32);
    REFUSED(OP, "lists", LIST(a, 3));
    s = of(REDUCE_SUM, REDUCE_I32);
    REFUSED(OP, "lists", LIST(a, 3));
    REFUSED(ARGUMENT, "bytes of", reduce_cuda_prepare_list(h, &s, 3, m, 0));
#define THERE(arrays, n, most) reduce_cuda_enqueue_device_list(h, &s, arrays, n, most, m, 64, NULL, m, BYTES, NULL)
    REFUSED(OP, "lists", THERE((void *)m, 3, 30));
    s = of(REDUCE_SUM, REDUCE_F32);
    REFUSED(ARGUMENT, "NULL", THERE(NULL, 3, 30));
    REFUSED(ARGUMENT, "aligned to 8", THERE((void *)(m + 4), 3, 30));
    REFUSED(SHAPE, "no arrays", THERE((void *)m, 0, 30));
    REFUSED(TOO_LARGE, "arrays", THERE((void *)m, 1u << 30, 30));
    REFUSED(TOO_LARGE, "elements", THERE((void *)m, 3, UINT64_MAX));
}

static void by_key(void)
{
    reduce_spec s = of(REDUCE_SUM, REDUCE_F32);
    reduce_cuda_keys k = {m, 10, REDUCE_I64, 0, NULL};
    size_t n;
#define KEYED(keys, data, count, out, room, workspace, bytes) \
    reduce_cuda_enqueue_keyed(h, &s, keys, data, count, out, room, NULL, workspace, bytes, NULL)
    REFUSED(ARGUMENT, "bytes", reduce_cuda_keyed_workspace(&s, &k, 10, NULL));
    REFUSED(ARGUMENT, "keys", reduce_cuda_keyed_workspace(&s, NULL, 10, &n));
    REFUSED(ARGUMENT, "keys", KEYED(NULL, m, 10, m, 40, m, BYTES));
    REFUSED(ARGUMENT, "NULL", KEYED(&k, NULL, 10, m, 40, m, BYTES));
    REFUSED(ARGUMENT, "aligned", KEYED(&k, m + 1, 10, m, 40, m, BYTES));
    REFUSED(ARGUMENT, "there is room for 39", KEYED(&k, m, 10, m, 39, m, BYTES));
    REFUSED(ARGUMENT, "256", KEYED(&k, m, 10, m, 40, m + 8, BYTES));
    REFUSED(ARGUMENT, "bytes of", KEYED(&k, m, 10, m, 40, m, 300));
    k.keys = m + 4;
    REFUSED(ARGUMENT, "aligned to its type", KEYED(&k, m, 10, m, 40, m, BYTES));
    k.keys = NULL;
    REFUSED(ARGUMENT, "NULL", KEYED(&k, m, 10, m, 40, m, BYTES));
    k = (reduce_cuda_keys){m, 10, REDUCE_I64, 8, NULL};
    REFUSED(ARGUMENT, "flags", KEYED(&k, m, 10, m, 40, m, BYTES));
    k = (reduce_cuda_keys){m, 10, REDUCE_F32, 0, NULL};
    REFUSED(TYPE, "integer", KEYED(&k, m, 10, m, 40, m, BYTES));
    k.dtype = 77;
    REFUSED(TYPE, "integer", KEYED(&k, m, 10, m, 40, m, BYTES));
    k = (reduce_cuda_keys){m, 1ull << 33, REDUCE_I64, 0, NULL};
    REFUSED(TOO_LARGE, "groups", reduce_cuda_keyed_workspace(&s, &k, 10, &n));
    k.groups = 10;
    REFUSED(TOO_LARGE, "elements", reduce_cuda_keyed_workspace(&s, &k, 1ull << 31, &n));
    s.rows = 2;
    REFUSED(SHAPE, "rows", reduce_cuda_keyed_workspace(&s, &k, 10, &n));
    s.rows = 1;
    k.keys = m;
    k.initial = m + 2;
    REFUSED(ARGUMENT, "initial", KEYED(&k, m, 10, m, 40, m, BYTES));
    k.initial = m;
    s.flags = REDUCE_STATES_OUT;
    REFUSED(BAD_MESSAGE, "states", reduce_cuda_keyed_workspace(&s, &k, 10, &n));
    s.flags = 0;
    s.initial = m;
    REFUSED(BAD_MESSAGE, "one of the spec", reduce_cuda_keyed_workspace(&s, &k, 10, &n));
    k.initial = NULL;
    s = of(REDUCE_COUNT, REDUCE_F32);
    s.flags = REDUCE_STATES_OUT;
    REFUSED(OP, "without states", reduce_cuda_keyed_workspace(&s, &k, 10, &n));
    s = of(REDUCE_PROD, REDUCE_F32);
    REFUSED(OP, "by key", reduce_cuda_keyed_workspace(&s, &k, 10, &n));
    s = of(REDUCE_MIN, REDUCE_F32);
    s.nan = REDUCE_NAN_ERROR;
    REFUSED(BAD_MESSAGE, "two reasons", reduce_cuda_keyed_workspace(&s, &k, 10, &n));
}

static void words(void)
{
    reduce_spec s = of(REDUCE_SUM, REDUCE_F32);
    int64_t *const w = (int64_t *)(void *)m;
    size_t n;
    REFUSED(ARGUMENT, "each", reduce_cuda_words(&s, NULL));
    REFUSED(ARGUMENT, "states", reduce_cuda_enqueue_words(h, &s, NULL, 1, w, NULL));
    REFUSED(ARGUMENT, "states", reduce_cuda_enqueue_words(h, &s, m + 4, 1, w, NULL));
    REFUSED(ARGUMENT, "words", reduce_cuda_enqueue_words(h, &s, m, 1, NULL, NULL));
    REFUSED(ARGUMENT, "status", reduce_cuda_enqueue_states(h, &s, w, 1, m, (reduce_cuda_status *)(void *)(m + 4), NULL));
    REFUSED(ARGUMENT, "handle", reduce_cuda_enqueue_states(NULL, &s, w, 1, m, NULL, NULL));
    s = of(REDUCE_ARGMIN, REDUCE_F32);
    REFUSED(OP, "no words", reduce_cuda_words(&s, &n));
}

int main(void)
{
    int devices = 0;
    void *memory;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
        return 77;
    if (reduce_cuda_create(&h, 0) || cudaMalloc(&memory, BYTES + REDUCE_CUDA_ALIGN) != cudaSuccess)
        return 1;
    m = (unsigned char *)memory + (0 - (uintptr_t)memory) % REDUCE_CUDA_ALIGN;
    pointers();
    specs();
    lists();
    by_key();
    words();
    cudaFree(memory);
    reduce_cuda_destroy(h);
    reduce_cuda_destroy(NULL);
    printf("stream_errors: %u passed, %u failed\n", passed, failed);
    return failed != 0;
}
