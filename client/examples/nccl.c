/* The exact sum of an array whose parts lie on all GPUs of a machine: the same bits for any number of them.
 *     cc nccl.c -I/usr/local/cuda/include -lreduce-cuda -L/usr/local/cuda/lib64 -lcudart -lnccl -o nccl && ./nccl
 * Each GPU makes a state of its part; states become words of int64, which NCCL adds as any integers; the sums become states. */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <reduce_cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1 << 20, MOST = 16 };

typedef struct part {
    reduce_cuda *h;
    cudaStream_t stream;
    float *data;
    unsigned char *state, *workspace;
    int64_t *words;
    double *sum;
    int n;        /* elements of this GPU */
    size_t bytes; /* of workspace */
} part;

static void must(int failed, const char *why)
{
    if (!failed)
        return;
    fprintf(stderr, "%s\n", why);
    exit(1);
}

static void *on_device(size_t bytes)
{
    void *p;
    must(cudaMalloc(&p, bytes), "no memory on the GPU");
    return p;
}

/* The current device's part, of n elements from x on. */
static void open_part(part *p, int device, const reduce_spec *spec, const float *x, int n, size_t state, size_t words)
{
    p->n = n;
    must(reduce_cuda_create(&p->h, device), reduce_cuda_errmsg());
    must(reduce_cuda_workspace(p->h, spec, (uint64_t)n, &p->bytes), reduce_cuda_errmsg());
    must(cudaStreamCreate(&p->stream), "no stream");
    p->data = on_device(sizeof(float) * (size_t)n);
    p->state = on_device(state);
    p->words = on_device(words * sizeof(int64_t));
    p->sum = on_device(sizeof(double));
    p->workspace = on_device(p->bytes);
    must(reduce_cuda_clear(p->h, p->workspace, p->bytes, p->stream), reduce_cuda_errmsg());
    must(cudaMemcpy(p->data, x, sizeof(float) * (size_t)n, cudaMemcpyHostToDevice), "no copy");
}

int main(void)
{
    static float x[N];
    part parts[MOST];
    ncclComm_t comms[MOST];
    int devices, at = 0;
    size_t state, words;
    reduce_spec spec = REDUCE_SPEC_INIT; /* the sum of f32, to f64 */
    reduce_spec states = spec, merge = spec;
    states.flags = REDUCE_STATES_OUT;
    merge.flags = REDUCE_STATES_IN;
    for (int k = 0; k < N; k++)
        x[k] = k % 3 ? 1e-3f * (float)k : -1e7f / (float)(k + 1);

    must(cudaGetDeviceCount(&devices) || devices < 1 || devices > MOST, "no GPU, or too many");
    must(reduce_cuda_result_size(&states, N, &state) || reduce_cuda_words(&spec, &words), reduce_cuda_errmsg());
    must(ncclCommInitAll(comms, devices, NULL), "NCCL does not start");
    for (int d = 0; d < devices; d++) {
        const int n = d + 1 == devices ? N - at : N / devices - 100 * (d % 2); /* parts may have any lengths */
        must(cudaSetDevice(d), "no such GPU");
        open_part(&parts[d], d, &spec, x + at, n, state, words);
        at += n;
    }
    for (int d = 0; d < devices; d++) {
        part *p = &parts[d];
        must(cudaSetDevice(d), "no such GPU");
        must(reduce_cuda_enqueue(p->h, &states, p->data, (uint64_t)p->n, p->state, state, NULL, p->workspace, p->bytes,
                                 p->stream),
             reduce_cuda_errmsg());
        must(reduce_cuda_enqueue_words(p->h, &spec, p->state, 1, p->words, p->stream), reduce_cuda_errmsg());
    }
    must(ncclGroupStart(), "NCCL failed");
    for (int d = 0; d < devices; d++)
        must(ncclAllReduce(parts[d].words, parts[d].words, words, ncclInt64, ncclSum, comms[d], parts[d].stream),
             "NCCL failed");
    must(ncclGroupEnd(), "NCCL failed");
    for (int d = 0; d < devices; d++) {
        part *p = &parts[d];
        double sum;
        must(cudaSetDevice(d), "no such GPU");
        must(reduce_cuda_enqueue_states(p->h, &spec, p->words, 1, p->state, NULL, p->stream), reduce_cuda_errmsg());
        must(reduce_cuda_enqueue(p->h, &merge, p->state, 1, p->sum, sizeof sum, NULL, p->workspace, p->bytes, p->stream),
             reduce_cuda_errmsg());
        must(cudaMemcpyAsync(&sum, p->sum, sizeof sum, cudaMemcpyDeviceToHost, p->stream), "no copy");
        must(cudaStreamSynchronize(p->stream), "the GPU failed");
        printf("GPU %d: %.17g\n", d, sum);
        reduce_cuda_destroy(p->h);
    }
    return 0;
}
