/* An exact sum inside a CUDA graph:
 *     cc graph.c -I/usr/local/cuda/include -lreduce-cuda -L/usr/local/cuda/lib64 -lcudart -o graph && ./graph */
#include <cuda_runtime_api.h>
#include <reduce_cuda.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1 << 20, REPLAYS = 3 };

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

int main(void)
{
    static float x[N];
    reduce_cuda *h;
    reduce_spec spec = REDUCE_SPEC_INIT; /* the sum of f32, to f64 */
    size_t bytes;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t run;
    must(reduce_cuda_create(&h, 0), reduce_cuda_errmsg());
    must(reduce_cuda_workspace(h, &spec, N, &bytes), reduce_cuda_errmsg());
    must(cudaStreamCreate(&stream), "no stream");
    void *workspace = on_device(bytes), *data = on_device(sizeof x), *out = on_device(sizeof(double));
    reduce_cuda_status *status = on_device(sizeof *status);
    must(reduce_cuda_clear(h, workspace, bytes, stream), reduce_cuda_errmsg());
    must(reduce_cuda_prepare(h, &spec, N, workspace, bytes), reduce_cuda_errmsg());

    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "no capture");
    must(reduce_cuda_enqueue(h, &spec, data, N, out, sizeof(double), status, workspace, bytes, stream), reduce_cuda_errmsg());
    must(cudaStreamEndCapture(stream, &graph), "no graph");
    must(cudaGraphInstantiate(&run, graph, 0), "no graph");

    for (int i = 0; i < REPLAYS; i++) {
        double sum;
        reduce_cuda_status how;
        for (int k = 0; k < N; k++)
            x[k] = (float)(i + 1) / 10;
        cudaMemcpyAsync(data, x, sizeof x, cudaMemcpyHostToDevice, stream);
        cudaGraphLaunch(run, stream);
        cudaMemcpyAsync(&sum, out, sizeof sum, cudaMemcpyDeviceToHost, stream);
        cudaMemcpyAsync(&how, status, sizeof how, cudaMemcpyDeviceToHost, stream);
        must(cudaStreamSynchronize(stream), "the GPU failed");
        must(how.code, "no result");
        printf("%.17g\n", sum);
    }
    reduce_cuda_destroy(h);
    return 0;
}
