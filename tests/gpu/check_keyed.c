/* Reductions by key in the caller's stream beside states to which elements are added one at a time, bit for bit: random
 * operations, types, keys, groups, masks, data.
 *
 *     check_keyed [--n N] [--seed N] [--most N] [--no-graphs]
 *
 * most: elements of a call. Every eighth call is captured into a graph, which runs twice. Exit 0: all equal; 77: no device. The
 * last line counts. */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cuda/checked.h"
#include "kernels/exact/cell.h"
#include "kernels/exact/state.h"

enum { MOST_GROUPS = 40000 };

static uint64_t seed = 1, n_calls = 200, most = 60000;
static bool graphs = true;
static reduce_cuda *handle;

static uint64_t rng(void) /* splitmix64 */
{
    uint64_t z = (seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t below(uint64_t n) { return rng() % n; }

static void must(cudaError_t err, const char *what)
{
    if (err == cudaSuccess)
        return;
    printf("FAIL %s: %s\n", what, cudaGetErrorString(err));
    exit(1);
}

/* ---- a random call ---- */

typedef struct call {
    reduce_spec spec;
    reduce_cuda_keys keys;
    uint64_t count;
    rc_cuda_checked checked;
    uint8_t *data, *key, *mask, *out, *want; /* of the host */
    uint8_t *contents;                       /* an element of each group */
    uint64_t initial;
} call;

/* Any bits, small integers, values of like size, one value, zeros of both signs. */
static uint64_t element(int dtype, unsigned kind)
{
    uint64_t x = rng();
    const bool narrow = dtype == RP_F32, wide = dtype == RP_F64;
    if (kind == 1 && narrow)
        memcpy(&x, &(float){(float)(int64_t)(x % 2001) - 1000}, 4);
    else if (kind == 1 && wide)
        memcpy(&x, &(double){(double)(int64_t)(x % 2001) - 1000}, 8);
    else if (kind == 1)
        x %= 100;
    else if (kind == 2 && narrow)
        x = (x & 0x83ffffff) | 0x3c000000;
    else if (kind == 2 && wide)
        x = (x & 0x803fffffffffffff) | 0x3fc0000000000000;
    else if (kind == 3)
        x = below(3) ? 0 : (uint64_t)1 << (8 * rp_dtype_size(dtype) - 1);
    return x;
}

static uint64_t key_of(uint64_t i, const call *c, unsigned kind)
{
    if (c->keys.groups == 0)
        return 0;
    switch (kind) {
    case 0:
        return i * c->keys.groups / c->count; /* sorted */
    case 1:
        return c->keys.groups / 2;
    case 2:
        return below(50) ? below(c->keys.groups) : rng(); /* perhaps no group */
    default:
        return below(4) ? below(c->keys.groups) : below(c->keys.groups) / 7;
    }
}

static void draw(call *c)
{
    static const int ops[] = {RP_OP_SUM,   RP_OP_SUM,    RP_OP_MEAN,   RP_OP_MIN,   RP_OP_MAX,
                              RP_OP_COUNT, RP_OP_VAR,    RP_OP_STD,    RP_OP_SUMSQ, RP_OP_NORM2,
                              RP_OP_RMS,   RP_OP_ARGMIN, RP_OP_ARGMAX, RP_OP_SEM,   RP_OP_STATS};
    static const int outs[] = {0, 0, 0, RP_F32, RP_F16, RP_BF16, RP_F64};
    static const int key_types[] = {RP_I64, RP_I32, RP_U8, RP_U16, RP_I8, RP_U32, RP_U64, RP_I16};
    c->spec = (reduce_spec)REDUCE_SPEC_INIT;
    c->spec.op = ops[below(sizeof ops / sizeof *ops)];
    c->spec.dtype = below(2) ? (below(2) ? RP_F32 : RP_F64) : 1 + (int32_t)below(RP_DTYPE_COUNT);
    c->spec.out = c->spec.op == RP_OP_STATS ? 0 : outs[below(7)];
    c->spec.nan = (int32_t)below(3);
    c->spec.flags = below(6) ? 0 : REDUCE_STATES_OUT;
    c->keys.dtype = key_types[below(8)];
    c->keys.flags = below(3) ? REDUCE_DROP_OUTSIDE : below(2) ? REDUCE_DROP_NEGATIVE : 0;
    c->spec.index_base = below(2) ? 0 : below(1000);
    c->spec.ddof = (c->spec.op == RP_OP_VAR || c->spec.op == RP_OP_STD || c->spec.op == RP_OP_SEM || c->spec.op == RP_OP_STATS)
                       ? (uint32_t)below(3)
                       : 0;
    c->spec.initial = below(4) || c->spec.flags ? NULL : &c->initial;
    c->keys.initial = below(4) || c->spec.flags || c->spec.initial ? NULL : c->contents;
    c->keys.groups = below(3) ? below(200) : below(MOST_GROUPS);
    c->count = below(4) ? below(2000) : below(most);
}

static void fill(call *c)
{
    const size_t size = rp_dtype_size(c->spec.dtype), key_size = rp_dtype_size(c->keys.dtype);
    const unsigned kind = (unsigned)below(5), keys = (unsigned)below(4);
    const uint64_t one = element(c->spec.dtype, 0);
    for (uint64_t g = 0; g < c->keys.groups; g++) {
        const uint64_t x = element(c->spec.dtype, below(9) ? kind % 4 : 3);
        memcpy(c->contents + g * size, &x, size);
    }
    for (uint64_t i = 0; i < c->count; i++) {
        const uint64_t x = kind == 4 ? one : element(c->spec.dtype, kind), key = key_of(i, c, keys);
        memcpy(c->data + i * size, &x, size);
        memcpy(c->key + i * key_size, &key, key_size);
        c->mask[i] = below(3) > 0;
    }
}

/* ---- the states of all groups ---- */

/* The key of element i as the call sees it: a large number if it is below 0. */
static uint64_t stored_key(const call *c, uint64_t i, bool *negative)
{
    const size_t size = rp_dtype_size(c->keys.dtype);
    uint64_t key = 0;
    memcpy(&key, c->key + i * size, size);
    if (rk_is_signed(c->keys.dtype))
        key = rk_sign_extend(key, (int)size);
    *negative = rk_is_signed(c->keys.dtype) && key >> 63;
    return key;
}

/* Returns the code, and where. */
static int by_states(call *c, uint64_t *index)
{
    const rp_spec *s = &c->checked.spec;
    const size_t size = rp_dtype_size(s->dtype), cell = rp_cell_size(s);
    rk_state *const states = malloc((c->keys.groups + 1) * sizeof *states);
    int code = 0;
    *index = REDUCE_NO_INDEX;
    for (uint64_t g = 0; g < c->keys.groups; g++)
        rk_state_init(&states[g], rp_spec_layout(s), s->dtype);
    for (uint64_t i = 0; i < c->count; i++) {
        bool negative;
        const uint64_t key = stored_key(c, i, &negative);
        uint64_t bits = 0;
        memcpy(&bits, c->data + i * size, size);
        if (c->spec.mask && !c->mask[i])
            continue;
        if (key < c->keys.groups)
            rk_state_add(&states[key], bits, c->spec.index_base + i, s->nan);
        else if (!code && !(c->keys.flags & REDUCE_DROP_OUTSIDE) && !(negative && c->keys.flags & REDUCE_DROP_NEGATIVE))
            code = REDUCE_E_SHAPE, *index = i;
    }
    for (uint64_t g = 0; g < c->keys.groups; g++) {
        uint64_t more = 0;
        memcpy(&more, c->contents + g * size, size);
        if (c->keys.initial)
            rk_state_add(&states[g], more, RP_NO_INDEX, s->nan);
        const int err = rk_cell_write(&states[g], s, c->want + g * cell);
        if (err && !code)
            code = -err, *index = g;
    }
    free(states);
    return code;
}

/* ---- the device ---- */

typedef struct device {
    cudaStream_t stream;
    void *data, *keys, *mask, *initial, *out, *memory;
    uint8_t *workspace; /* of memory: aligned */
    reduce_cuda_status *status;
} device;

/* At the end of its memory, where what reads behind it is found */
static void *copy_in(void **memory, const void *from, size_t bytes, cudaStream_t stream)
{
    const size_t room = (bytes + 255) / 256 * 256;
    must(cudaMalloc(memory, room + 1), "memory");
    uint8_t *to = (uint8_t *)*memory + (room - bytes) / 8 * 8;
    if (bytes)
        must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "copy");
    return to;
}

static int enqueue(const call *c, device *d, const void *data, size_t room, size_t bytes)
{
    return reduce_cuda_enqueue_keyed(handle, &c->spec, &c->keys, data, c->count, d->out, room, d->status, d->workspace, bytes,
                                     d->stream);
}

static void captured(const call *c, device *d, const void *data, size_t room, size_t bytes)
{
    cudaGraph_t graph;
    cudaGraphExec_t made;
    must(reduce_cuda_prepare_keyed(handle, &c->spec, &c->keys, c->count, d->workspace, bytes) ? cudaErrorUnknown : cudaSuccess,
         reduce_cuda_errmsg());
    must(cudaStreamBeginCapture(d->stream, cudaStreamCaptureModeThreadLocal), "capture");
    const int err = enqueue(c, d, data, room, bytes);
    must(cudaStreamEndCapture(d->stream, &graph), "the end of a capture");
    must(err ? cudaErrorUnknown : cudaSuccess, reduce_cuda_errmsg());
    must(cudaGraphInstantiate(&made, graph, 0), "a graph");
    for (int i = 0; i < 2; i++)
        must(cudaGraphLaunch(made, d->stream), "a replay");
    must(cudaStreamSynchronize(d->stream), "the stream");
    cudaGraphExecDestroy(made);
    cudaGraphDestroy(graph);
}

static bool run(call *c, reduce_cuda_status *status)
{
    device d = {0};
    size_t bytes;
    const size_t room = rp_results(&c->checked.spec) * rp_cell_size(&c->checked.spec);
    must(reduce_cuda_keyed_workspace(&c->spec, &c->keys, c->count, &bytes) ? cudaErrorUnknown : cudaSuccess,
         reduce_cuda_errmsg());
    must(cudaStreamCreateWithFlags(&d.stream, cudaStreamNonBlocking), "a stream");
    const void *data = copy_in(&d.data, c->data, c->count * rp_dtype_size(c->spec.dtype), d.stream);
    c->keys.keys = copy_in(&d.keys, c->key, c->count * rp_dtype_size(c->keys.dtype), d.stream);
    if (c->spec.mask)
        c->spec.mask = copy_in(&d.mask, c->mask, c->count, d.stream);
    if (c->keys.initial)
        c->keys.initial = copy_in(&d.initial, c->contents, c->keys.groups * rp_dtype_size(c->spec.dtype), d.stream);
    must(cudaMalloc(&d.out, room + 8), "memory");
    must(cudaMalloc(&d.memory, bytes + REDUCE_CUDA_ALIGN), "memory");
    d.workspace = (uint8_t *)d.memory + (0 - (uintptr_t)d.memory) % REDUCE_CUDA_ALIGN;
    must(cudaMalloc((void **)&d.status, sizeof *status), "memory");
    must(cudaMemsetAsync(d.workspace, 0x5a, bytes, d.stream), "memory");
    bool fine = true;
    if (graphs && below(8) == 0)
        captured(c, &d, data, room, bytes);
    else
        fine = enqueue(c, &d, data, room, bytes) == 0;
    must(cudaMemcpyAsync(c->out, d.out, room, cudaMemcpyDeviceToHost, d.stream), "copy");
    must(cudaMemcpyAsync(status, d.status, sizeof *status, cudaMemcpyDeviceToHost, d.stream), "copy");
    must(cudaStreamSynchronize(d.stream), "the stream");
    void *const memory[] = {d.data, d.keys, d.mask, d.initial, d.out, d.memory, d.status};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        cudaFree(memory[i]);
    cudaStreamDestroy(d.stream);
    return fine;
}

/* The first group whose result differs, both results, and its elements. */
static void print_difference(const call *c, size_t cell)
{
    const size_t size = rp_dtype_size(c->spec.dtype), key_size = rp_dtype_size(c->keys.dtype);
    uint64_t group = 0;
    while (!memcmp(c->out + group * cell, c->want + group * cell, cell))
        group++;
    printf("     group %" PRIu64 ":", group);
    for (size_t at = 0; at < cell; at += 8) {
        uint64_t got = 0, want = 0;
        memcpy(&got, c->out + group * cell + at, cell - at < 8 ? cell - at : 8);
        memcpy(&want, c->want + group * cell + at, cell - at < 8 ? cell - at : 8);
        printf(got == want ? " %" PRIx64 : " %" PRIx64 " for %" PRIx64, got, want);
    }
    printf("; elements");
    for (uint64_t i = 0, shown = 0; i < c->count && shown < 40; i++) {
        uint64_t key = 0, bits = 0;
        memcpy(&key, c->key + i * key_size, key_size);
        memcpy(&bits, c->data + i * size, size);
        if (key == group && (!c->spec.mask || c->mask[i]))
            printf(" %" PRIx64, bits), shown++;
    }
    printf("\n");
}

/* 1: equal; 0: not; -1: refused */
static int one(call *c)
{
    reduce_cuda_status status;
    uint64_t index;
    draw(c);
    c->spec.mask = below(3) ? NULL : c->mask;
    c->initial = element(c->spec.dtype, (unsigned)below(4));
    if (rc_cuda_check_keyed(&c->spec, &c->keys, c->count, &c->checked))
        return -1;
    fill(c);
    const bool ran = run(c, &status);
    const int code = by_states(c, &index);
    const rp_spec *s = &c->checked.spec;
    const bool same = ran && status.code == code && status.index == index &&
                      (code || !memcmp(c->out, c->want, c->keys.groups * rp_cell_size(s)));
    if (!same)
        printf("FAIL %s of %s as %s, nan %s, flags %u, %" PRIu64 " elements, %" PRIu64 " groups by %s%s: states %d %" PRIu64
               ", stream %d %" PRIu64 " %s\n",
               rp_op_name(s->op), rp_dtype_name(s->dtype), rp_dtype_name(s->out), rp_nan_name(s->nan), s->flags, c->count,
               c->keys.groups, rp_dtype_name((uint8_t)c->keys.dtype),
               c->spec.mask      ? ", masked"
               : c->keys.initial ? ", contents"
                                 : "",
               code, index, status.code, status.index, ran ? "" : reduce_cuda_errmsg());
    if (!same && ran && status.code == code && !code)
        print_difference(c, rp_cell_size(s));
    return same;
}

int main(int argc, char **argv)
{
    unsigned long passed = 0, failed = 0, refused = 0;
    int devices = 0;
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "0";
        if (!strcmp(argv[i], "--no-graphs"))
            graphs = false;
        else if (!strcmp(argv[i], "--n"))
            n_calls = strtoull(next, NULL, 10), i++;
        else if (!strcmp(argv[i], "--seed"))
            seed = strtoull(next, NULL, 10), i++;
        else if (!strcmp(argv[i], "--most"))
            most = strtoull(next, NULL, 10), i++;
    }
    const uint64_t first = seed;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
        return 77;
    must(reduce_cuda_create(&handle, 0) ? cudaErrorUnknown : cudaSuccess, reduce_cuda_errmsg());
    call c = {.data = malloc(most * 8), .key = malloc(most * 8), .mask = malloc(most), .contents = malloc(MOST_GROUPS * 8)};
    c.out = malloc((size_t)MOST_GROUPS * sizeof(rk_state));
    c.want = malloc((size_t)MOST_GROUPS * sizeof(rk_state));
    for (uint64_t i = 0; i < n_calls;) {
        const int same = one(&c);
        passed += same == 1;
        failed += same == 0;
        refused += same < 0;
        i += same >= 0;
    }
    reduce_cuda_destroy(handle);
    void *const memory[] = {c.data, c.key, c.mask, c.contents, c.out, c.want};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        free(memory[i]);
    printf("check_keyed: %lu passed, %lu failed; %lu refused (seed %" PRIu64 ")\n", passed, failed, refused, first);
    return failed != 0;
}
