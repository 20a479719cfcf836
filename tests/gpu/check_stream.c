/* The door of the caller's stream beside the CPU engine, bit for bit: random operations, types, shapes, masks, segments,
 * weights, data; lists.
 *
 *     check_stream [--n N] [--seed N] [--threads N] [--no-graphs]
 *
 * Each thread has a stream and a workspace of its own, and all share a handle. Every eighth call is captured into a graph,
 * which is replayed with other data. Exit 0: all equal; 77: no device. The last line counts. */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cuda/checked.h"
#include "kernels/cpu/cpu.h"
#include "kernels/exact/state.h"
#include "kernels/kernels.h"

enum {
    MOST = 200000,
    ROOM = MOST * 512 + (1 << 20),
    REPLAYS = 3,
    MOST_THREADS = 16,
    MOST_ARRAYS = 1200,
    MOST_ROWS = 3001,
    MOST_EDGES = 700
};

static reduce_cuda *handle;
static bool graphs = true;
static unsigned long n_calls = 1000;

typedef struct worker {
    pthread_t thread;
    uint64_t state; /* of random numbers */
    unsigned long passed, failed, refused, missing, replayed, lists;
    cudaStream_t stream;
    void *workspace, *data, *mask, *results; /* data and mask: MOST elements of 8 bytes, and of 1 */
    void *out;                               /* of a call: there, or 8 bytes behind, as results are aligned to 8 alone */
    void *offsets, *weights;                 /* MOST_ROWS + 1 of them; MOST of 8 bytes */
    int64_t *words, *summed;                 /* MOST of each */
    const void *data_at;                     /* of a call: at the begin or at the end, where what reads behind it is found */
    uint8_t *mask_at, *weights_at;
    uint64_t host_offsets[MOST_ROWS + 1], n_weights;
    size_t bytes;
    reduce_cuda_status *status;
    uint8_t *host, *host_mask, *host_weights, *got, *want;
    uint8_t *joined; /* the elements of a list */
    uint64_t first[MOST_ARRAYS];
    reduce_cuda_array array[MOST_ARRAYS], *arrays; /* of the host; of the device */
} worker;

static uint64_t rng(worker *w) /* splitmix64 */
{
    uint64_t z = (w->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t below(worker *w, uint64_t n) { return rng(w) % n; }

static void must(cudaError_t err, const char *what)
{
    if (err == cudaSuccess)
        return;
    printf("FAIL %s: %s\n", what, cudaGetErrorString(err));
    exit(1);
}

/* ---- a random call ---- */

/* Any bits, small integers, or values of like size. */
static void fill(worker *w, uint8_t *to, int dtype, uint64_t count)
{
    const size_t size = rp_dtype_size((uint8_t)dtype);
    const unsigned kind = (unsigned)below(w, 3);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t x = rng(w);
        if (kind == 0 && dtype == RP_F32)
            memcpy(&x, &(float){(float)(int64_t)(x % 2001) - 1000}, 4);
        else if (kind == 0 && dtype == RP_F64)
            memcpy(&x, &(double){(double)(int64_t)(x % 2001) - 1000}, 8);
        else if (kind == 1 && rp_dtype_class((uint8_t)dtype) != RP_CLASS_FLOAT)
            x %= 100;
        else if (kind == 1 && dtype == RP_F32)
            x = (x & 0x80ffffff) | 0x3e000000;
        memcpy(to + i * size, &x, size);
    }
}

static uint64_t some(worker *w, uint64_t most)
{
    const uint64_t n = below(w, 4) ? below(w, 70) : below(w, most + 1);
    return n < most ? n : most;
}

static reduce_spec draw(worker *w, uint64_t *count, double q[MOST_EDGES])
{
    reduce_spec s = REDUCE_SPEC_INIT;
    static const int32_t outs[] = {0, 0, 0, RP_F32, RP_F16, RP_BF16};
    s.op = RP_OP_SUM + (int32_t)below(w, RP_OP_CORR);
    s.dtype = 1 + (int32_t)below(w, RP_DTYPE_COUNT);
    s.out = outs[below(w, 6)];
    s.nan = (int32_t)below(w, 3);
    s.flags = (below(w, 3) == 0 ? REDUCE_COLUMNS : 0) | (below(w, 8) == 0 ? REDUCE_STATES_OUT : 0);
    s.ddof = (uint32_t)below(w, 2);
    s.rows = 1 + (below(w, 3) || s.flags & REDUCE_COLUMNS ? some(w, 3000) : 0);
    s.planes = below(w, 4) ? 0 : below(w, 5);
    const uint64_t lines = s.rows * (s.planes ? s.planes : 1);
    *count = lines * some(w, MOST / lines);
    if (s.op == REDUCE_QUANTILE) {
        for (int i = 0; i < 3; i++)
            q[i] = (double)below(w, 101) / 100;
        s.q = q;
        s.quantiles = 1 + (uint32_t)below(w, 3);
        s.method = (int32_t)below(w, 13);
    }
    if (rp_is_top(s.op))
        s.k = 1 + (int64_t)below(w, 5);
    if (s.op == REDUCE_KTH)
        s.k = below(w, 4) ? 0 : -1;
    if (s.op == REDUCE_HISTOGRAM) {
        s.n_edges = 2 + some(w, MOST_EDGES - 2);
        for (uint64_t i = 0; i < s.n_edges; i++)
            q[i] = -1000 + (double)i * 2000 / (double)(s.n_edges - 1);
        s.edges = q;
    }
    return s;
}

/* Segments instead of rows, and weights where the operation takes them */
static void draw_beside(worker *w, reduce_spec *s, uint64_t count)
{
    static const int32_t extents[] = {REDUCE_EACH_ELEMENT, REDUCE_EACH_COLUMN, REDUCE_EACH_ROW};
    w->n_weights = 0;
    if (below(w, 4) == 0) {
        s->flags &= ~(uint32_t)REDUCE_COLUMNS;
        s->planes = 0;
        s->offsets = w->offsets;
        for (uint64_t i = 0, at = 0; i <= s->rows; i++) {
            w->host_offsets[i] = at;
            at += i == s->rows - 1 && below(w, 2) ? count - at : below(w, (count - at) / (s->rows + 1 - i) * 2 + 1);
            at = at < count ? at : count;
        }
        must(cudaMemcpyAsync(w->offsets, w->host_offsets, (s->rows + 1) * 8, cudaMemcpyHostToDevice, w->stream), "copy");
    }
    if (!rp_is_paired((uint8_t)s->op))
        return;
    s->weights_dtype = s->dtype == RP_F32 && below(w, 2) ? RP_F64 : s->dtype;
    s->weights_extent = s->offsets ? REDUCE_EACH_ELEMENT : extents[below(w, 3)];
    const uint64_t lines = s->rows * (s->planes ? s->planes : 1), planes = s->planes ? s->planes : 1;
    w->n_weights = s->weights_extent == REDUCE_EACH_ELEMENT || !count ? count
                   : s->weights_extent == REDUCE_EACH_COLUMN          ? count / lines
                                                                      : lines / planes;
    const size_t bytes = w->n_weights * rp_dtype_size((uint8_t)s->weights_dtype);
    s->weights = w->weights_at = (uint8_t *)w->weights + (size_t)MOST * 8 - bytes;
    fill(w, w->host_weights, s->weights_dtype, w->n_weights);
    must(cudaMemcpyAsync(w->weights_at, w->host_weights, bytes, cudaMemcpyHostToDevice, w->stream), "copy");
}

/* ---- one call ---- */

static void copy_in(worker *w, int dtype, uint64_t count)
{
    fill(w, w->host, dtype, count);
    for (uint64_t i = 0; i < count; i++)
        w->host_mask[i] = below(w, 3) > 0;
    must(cudaMemcpyAsync((void *)w->data_at, w->host, count * rp_dtype_size((uint8_t)dtype), cudaMemcpyHostToDevice, w->stream),
         "copy");
    must(cudaMemcpyAsync(w->mask_at, w->host_mask, count, cudaMemcpyHostToDevice, w->stream), "copy");
}

static void compare(worker *w, const reduce_spec *s, uint64_t count, const char *how)
{
    rc_cuda_checked c;
    reduce_cuda_status status;
    rc_cuda_check(s, count, &c);
    const size_t bytes = rp_results(&c.spec) * rp_cell_size(&c.spec);
    must(cudaMemcpyAsync(w->got, w->out, bytes, cudaMemcpyDeviceToHost, w->stream), "copy");
    must(cudaMemcpyAsync(&status, w->status, sizeof status, cudaMemcpyDeviceToHost, w->stream), "copy");
    must(cudaStreamSynchronize(w->stream), "the stream");
    const rp_parts beside = {.mask = s->mask ? w->host_mask : NULL,
                             .offsets = s->offsets ? (const uint8_t *)w->host_offsets : NULL,
                             .weights = s->weights ? w->host_weights : NULL};
    rk_task t = {
        .spec = c.spec, .data = w->host, .bytes = count * rp_dtype_size(c.spec.dtype), .beside = &beside, .cells = w->want};
    rk_cpu_run(&t);
    const bool same = t.fault.code ? status.code == -(int)t.fault.code && (s->offsets || status.index == t.fault.index)
                                   : status.code == 0 && !memcmp(w->got, w->want, bytes);
    w->passed += same;
    w->failed += !same;
    w->missing += t.fault.code != RP_OK;
    if (!same)
        printf("FAIL %s of %s as %s, nan %s, flags %u, %" PRIu64 " x %" PRIu64 ", %" PRIu64 " planes%s, %s: cpu %s %" PRIu64
               ", stream %d %" PRIu64 "\n",
               rp_op_name(c.spec.op), rp_dtype_name(c.spec.dtype), rp_dtype_name(c.spec.out), rp_nan_name(c.spec.nan),
               c.spec.flags, c.spec.rows, c.spec.row_len, c.spec.planes,
               s->mask      ? ", masked"
               : s->offsets ? ", segments"
                            : "",
               how, rp_err_name(t.fault.code), t.fault.index, status.code, status.index);
}

static int enqueue(worker *w, const reduce_spec *s, uint64_t count)
{
    const reduce_cuda_call call = {handle, s, count, ROOM, w->status, w->workspace, w->bytes, w->stream};
    return count % 2
               ? reduce_cuda_again(&call, w->data_at, w->out) // the same, by the other name
               : reduce_cuda_enqueue(handle, s, w->data_at, count, w->out, ROOM, w->status, w->workspace, w->bytes, w->stream);
}

static void replay(worker *w, const reduce_spec *s, uint64_t count)
{
    cudaGraph_t graph;
    cudaGraphExec_t made;
    if (reduce_cuda_prepare(handle, s, count, w->workspace, w->bytes)) {
        printf("FAIL prepare: %s\n", reduce_cuda_errmsg());
        w->failed++;
        return;
    }
    must(cudaStreamBeginCapture(w->stream, cudaStreamCaptureModeThreadLocal), "capture");
    const int err = enqueue(w, s, count);
    must(cudaStreamEndCapture(w->stream, &graph), "the end of a capture");
    must(err ? cudaErrorUnknown : cudaSuccess, reduce_cuda_errmsg());
    must(cudaGraphInstantiate(&made, graph, 0), "a graph");
    for (int i = 0; i < REPLAYS; i++) {
        copy_in(w, s->dtype, count);
        must(cudaGraphLaunch(made, w->stream), "a replay");
        compare(w, s, count, "replayed");
        w->replayed++;
    }
    cudaGraphExecDestroy(made);
    cudaGraphDestroy(graph);
}

/* ---- one list ---- */

/* The CPU's cells of `count` elements at `data`. Returns the fault's code. */
static int by_cpu(const rp_spec *spec, const uint8_t *data, uint64_t count, uint8_t *cells)
{
    rp_spec s = *spec;
    s.rows = 1;
    s.row_len = count;
    rk_task t = {.spec = s, .data = data, .bytes = count * rp_dtype_size(s.dtype), .cells = cells};
    rk_cpu_run(&t);
    return (int)t.fault.code;
}

/* Arrays with gaps between them, the last one up to the end of memory; w->joined gets their elements. */
static uint64_t lay_out(worker *w, uint64_t n, size_t size)
{
    const uint64_t room = below(w, 3) ? 5000 : MOST;
    uint64_t at = 0, count = 0;
    w->data_at = (uint8_t *)w->data + ((uint64_t)MOST * 8 - room * size);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t left = room - at, gap = below(w, 3) < left ? below(w, 3) : 0;
        const uint64_t some = i + 1 == n ? left - (gap < left ? gap : left) : below(w, left / (n - i) + 1);
        at += gap < left ? gap : 0;
        w->first[i] = at;
        w->array[i] = (reduce_cuda_array){(const uint8_t *)w->data_at + at * size, below(w, 8) ? some : 0};
        at += some < room - at ? some : room - at;
        count += w->array[i].count;
    }
    return count;
}

static int want_list(worker *w, const rp_spec *s, uint64_t n, uint64_t *index)
{
    const size_t size = rp_dtype_size(s->dtype), cell = rp_cell_size(s);
    uint64_t at = 0;
    int code = 0;
    *index = REDUCE_NO_INDEX;
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *mine = w->host + w->first[i] * size;
        const int err = s->rows > 1 ? by_cpu(s, mine, w->array[i].count, w->want + i * cell) : 0;
        if (err && !code)
            *index = i;
        code = code ? code : err;
        memcpy(w->joined + at, mine, w->array[i].count * size);
        at += w->array[i].count * size;
    }
    if (s->rows > 1)
        return code;
    code = by_cpu(s, w->joined, at / size, w->want);
    *index = code ? 0 : REDUCE_NO_INDEX;
    return code;
}

/* The `n` states in w->out to words, these doubled, as if a second rank had them too, and back: the states merged with
 * themselves. */
static bool by_words(worker *w, const reduce_spec *spec, const rp_spec *s, uint64_t n)
{
    const size_t bytes = rp_cell_size(s);
    size_t each;
    reduce_cuda_status status;
    int64_t *const words = (int64_t *)w->joined;
    if (reduce_cuda_words(spec, &each) || n * each * 8 > MOST * 8)
        return true; /* as said in the text, or too many for this buffer */
    if (reduce_cuda_enqueue_words(handle, spec, w->out, n, w->words, w->stream))
        return false;
    must(cudaMemcpyAsync(words, w->words, n * each * 8, cudaMemcpyDeviceToHost, w->stream), "copy");
    must(cudaStreamSynchronize(w->stream), "the stream");
    for (size_t i = 0; i < n * each; i++)
        words[i] *= 2;
    must(cudaMemcpyAsync(w->summed, words, n * each * 8, cudaMemcpyHostToDevice, w->stream), "copy");
    if (reduce_cuda_enqueue_states(handle, spec, w->summed, n, w->out, w->status, w->stream))
        return false;
    must(cudaMemcpyAsync(w->got, w->out, n * bytes, cudaMemcpyDeviceToHost, w->stream), "copy");
    must(cudaMemcpyAsync(&status, w->status, sizeof status, cudaMemcpyDeviceToHost, w->stream), "copy");
    must(cudaStreamSynchronize(w->stream), "the stream");
    for (uint64_t i = 0; i < n; i++) {
        rk_state twice, once;
        memcpy(&once, w->want + i * bytes, bytes);
        memcpy(&twice, &once, bytes);
        rk_state_merge(&twice, &once);
        memcpy(w->want + i * bytes, &twice, bytes);
    }
    return status.code == 0 && status.index == REDUCE_NO_INDEX && !memcmp(w->got, w->want, n * bytes);
}

/* The first array that is too much. */
static int too_many(const worker *w, uint64_t n, uint64_t most, uint64_t *index)
{
    uint64_t i = 0;
    for (uint64_t all = w->array[0].count; all <= most && i + 1 < n; all += w->array[i].count)
        i++;
    *index = i;
    return -REDUCE_E_TOO_LARGE;
}

static void must_be_taken(int err) { must(err ? cudaErrorUnknown : cudaSuccess, reduce_cuda_errmsg()); }

/* A list of the device; some in a graph that is made before the list is there. */
static void enqueue_there(worker *w, const reduce_spec *s, uint64_t n, uint64_t most, size_t room)
{
    cudaGraph_t graph;
    cudaGraphExec_t made;
    const bool captured = graphs && below(w, 4) == 0;
    if (captured) {
        must_be_taken(reduce_cuda_prepare_list(handle, s, n, w->workspace, w->bytes));
        must(cudaMemsetAsync(w->arrays, 0, n * sizeof *w->array, w->stream), "clearing");
        must(cudaStreamBeginCapture(w->stream, cudaStreamCaptureModeThreadLocal), "capture");
    } else {
        must(cudaMemcpyAsync(w->arrays, w->array, n * sizeof *w->array, cudaMemcpyHostToDevice, w->stream), "copy");
    }
    must_be_taken(reduce_cuda_enqueue_device_list(handle, s, w->arrays, n, most, w->out, room, w->status, w->workspace,
                                                  w->bytes, w->stream));
    if (!captured)
        return;
    must(cudaStreamEndCapture(w->stream, &graph), "the end of a capture");
    must(cudaGraphInstantiate(&made, graph, 0), "a graph");
    must(cudaGraphLaunch(made, w->stream), "a replay");
    must(cudaMemcpyAsync(w->arrays, w->array, n * sizeof *w->array, cudaMemcpyHostToDevice, w->stream), "copy");
    must(cudaGraphLaunch(made, w->stream), "a replay");
    must(cudaStreamSynchronize(w->stream), "the stream");
    cudaGraphExecDestroy(made);
    cudaGraphDestroy(graph);
    w->replayed++;
}

static void one_list(worker *w)
{
    static const int dtypes[] = {RP_F32, RP_F32, RP_F64, RP_F16, RP_BF16};
    const uint64_t n = 1 + (below(w, 20) ? below(w, 40) : below(w, MOST_ARRAYS));
    uint64_t count, index;
    double q[MOST_EDGES];
    rc_cuda_checked c;
    reduce_cuda_status status;
    reduce_spec s = draw(w, &count, q);
    s.dtype = dtypes[below(w, 5)];
    s.rows = below(w, 2) ? n : 1;
    s.planes = 0;
    s.flags = below(w, 4) ? 0 : REDUCE_STATES_OUT;
    count = lay_out(w, n, rp_dtype_size((uint8_t)s.dtype));
    w->mask_at = w->mask;
    if (rc_cuda_check_list(&s, n, count, &c)) {
        w->refused++;
        return;
    }
    const size_t bytes = rp_results(&c.spec) * rp_cell_size(&c.spec), size = rp_dtype_size(c.spec.dtype);
    copy_in(w, s.dtype, ((uint64_t)MOST * 8 - (uint64_t)((const uint8_t *)w->data_at - (uint8_t *)w->data)) / size);
    const bool there = below(w, 2); /* the list, too */
    const uint64_t most = below(w, 8) || !count ? count + below(w, 1000) : count - 1;
    if (there)
        enqueue_there(w, &s, n, most, bytes);
    else
        must_be_taken(
            reduce_cuda_enqueue_list(handle, &s, w->array, n, w->out, bytes, w->status, w->workspace, w->bytes, w->stream));
    must(cudaMemcpyAsync(w->got, w->out, bytes, cudaMemcpyDeviceToHost, w->stream), "copy");
    must(cudaMemcpyAsync(&status, w->status, sizeof status, cudaMemcpyDeviceToHost, w->stream), "copy");
    must(cudaStreamSynchronize(w->stream), "the stream");
    const int code = there && most < count ? too_many(w, n, most, &index) : want_list(w, &c.spec, n, &index);
    const bool same = status.code == -code && status.index == index && (code || !memcmp(w->got, w->want, bytes)) &&
                      (code || !(s.flags & REDUCE_STATES_OUT) || by_words(w, &s, &c.spec, c.spec.rows));
    w->passed += same;
    w->failed += !same;
    w->missing += code != 0;
    w->lists++;
    if (!same)
        printf("FAIL %s of %s as %s, nan %s, flags %u, %" PRIu64 " results of %" PRIu64 " arrays, %" PRIu64
               " elements: cpu %s %" PRIu64 ", stream %d %" PRIu64 "\n",
               rp_op_name(c.spec.op), rp_dtype_name(c.spec.dtype), rp_dtype_name(c.spec.out), rp_nan_name(c.spec.nan),
               c.spec.flags, c.spec.rows, n, count, rp_err_name((uint32_t)code), index, status.code, status.index);
}

static void one_call(worker *w)
{
    uint64_t count;
    double q[MOST_EDGES];
    reduce_spec s = draw(w, &count, q);
    draw_beside(w, &s, count);
    const bool at_end = below(w, 2);
    w->data_at = (uint8_t *)w->data + (at_end ? (size_t)MOST * 8 - count * rp_dtype_size((uint8_t)s.dtype) : 0);
    w->mask_at = (uint8_t *)w->mask + (at_end ? MOST - count : 0);
    s.mask = below(w, 4) ? NULL : w->mask_at;
    size_t bytes;
    const int err = reduce_cuda_workspace(handle, &s, count, &bytes);
    if (err) { /* no such operation of the type, no states, ... */
        w->refused++;
        return;
    }
    if (graphs && below(w, 8) == 0) {
        replay(w, &s, count);
        return;
    }
    copy_in(w, s.dtype, count);
    if (enqueue(w, &s, count)) {
        printf("FAIL enqueue: %s\n", reduce_cuda_errmsg());
        w->failed++;
        return;
    }
    compare(w, &s, count, "once");
}

/* ---- threads ---- */

static void open_worker(worker *w)
{
    reduce_spec s = REDUCE_SPEC_INIT;
    must(reduce_cuda_workspace(handle, &s, 1, &w->bytes) ? cudaErrorUnknown : cudaSuccess, reduce_cuda_errmsg());
    must(cudaStreamCreateWithFlags(&w->stream, cudaStreamNonBlocking), "a stream");
    must(cudaMalloc(&w->workspace, w->bytes), "memory");
    must(cudaMalloc(&w->data, MOST * 8), "memory");
    must(cudaMalloc(&w->mask, MOST), "memory");
    must(cudaMalloc(&w->offsets, (MOST_ROWS + 1) * 8), "memory");
    must(cudaMalloc(&w->weights, MOST * 8), "memory");
    must(cudaMalloc((void **)&w->words, MOST * 8), "memory");
    must(cudaMalloc((void **)&w->summed, MOST * 8), "memory");
    must(cudaMalloc(&w->results, ROOM + 8), "memory");
    must(cudaMalloc((void **)&w->status, sizeof *w->status), "memory");
    must(cudaMalloc((void **)&w->arrays, sizeof w->array), "memory");
    must(reduce_cuda_clear(handle, w->workspace, w->bytes, w->stream) ? cudaErrorUnknown : cudaSuccess, reduce_cuda_errmsg());
    w->host = malloc(MOST * 8);
    w->host_mask = malloc(MOST);
    w->host_weights = malloc(MOST * 8);
    w->got = malloc(ROOM);
    w->want = malloc(ROOM);
    w->joined = malloc(MOST * 8);
}

static void close_worker(worker *w)
{
    void *const device[] = {w->workspace, w->data,   w->mask,    w->offsets, w->weights,
                            w->words,     w->summed, w->results, w->status,  w->arrays};
    void *const host[] = {w->host, w->host_mask, w->host_weights, w->got, w->want, w->joined};
    for (size_t i = 0; i < sizeof device / sizeof device[0]; i++)
        cudaFree(device[i]);
    for (size_t i = 0; i < sizeof host / sizeof host[0]; i++)
        free(host[i]);
    cudaStreamDestroy(w->stream);
}

static void *work(void *arg)
{
    worker *w = arg;
    open_worker(w);
    while (w->passed + w->failed < n_calls) {
        w->out = (uint8_t *)w->results + 8 * below(w, 2);
        below(w, 4) ? one_call(w) : one_list(w);
    }
    close_worker(w);
    return NULL;
}

int main(int argc, char **argv)
{
    static worker all[MOST_THREADS];
    unsigned long threads = 1, passed = 0, failed = 0, missing = 0, replayed = 0, lists = 0;
    uint64_t seed = 1;
    int devices;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--n") == 0 && i + 1 < argc)
            n_calls = strtoul(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            threads = strtoul(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--no-graphs") == 0)
            graphs = false;
    }
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        printf("no device\n");
        return 77;
    }
    if (threads < 1 || threads > MOST_THREADS || reduce_cuda_create(&handle, 0)) {
        printf("FAIL create: %s\n", reduce_cuda_errmsg());
        return 1;
    }
    for (unsigned long i = 0; i < threads; i++) {
        all[i].state = seed * 1000003 + i;
        must(pthread_create(&all[i].thread, NULL, work, &all[i]) ? cudaErrorUnknown : cudaSuccess, "a thread");
    }
    for (unsigned long i = 0; i < threads; i++) {
        pthread_join(all[i].thread, NULL);
        passed += all[i].passed;
        failed += all[i].failed;
        missing += all[i].missing;
        replayed += all[i].replayed;
        lists += all[i].lists;
    }
    reduce_cuda_destroy(handle);
    printf("check_stream: %lu passed, %lu failed; %lu lists, %lu without a result, %lu replayed (seed %" PRIu64 ")\n", passed,
           failed, lists, missing, replayed, seed);
    return failed != 0;
}
