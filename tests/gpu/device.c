/* A CUDA program that lets the daemon reduce its memory on the GPU, where it lies: the example for reduce_device and
 * reduce_device_import.
 *
 *     device URL CPU_URL RUNS [POWER ...]
 *
 * First checks: the same bits as a daemon on CPU_URL gives for a copy in host memory; wrong handles, descriptors and ranges
 * refused, after which the daemon goes on; all of it let go of in the end. Then
 * it prints, for each of RUNS sums of 2^28 f32, or of 2^POWER, the microseconds of the call, of the work on the GPU in it, and
 * in the daemon before the start, one a line. CPU_URL `-`: no checks. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "client/reduce.h"

enum { CHECKED = 4 << 20 }; /* elements */
enum { ROOM = 1 << 20 };    /* bytes for results */

static void die(const char *what, const char *why)
{
    fprintf(stderr, "device: %s: %s\n", what, why);
    exit(1);
}

static void cuda(cudaError_t err, const char *what)
{
    if (err != cudaSuccess)
        die(what, cudaGetErrorString(err));
}

static void reduced(int err, const char *what)
{
    if (err)
        die(what, reduce_errmsg());
}

static void expect(int want, int got, const char *what)
{
    if (got != want)
        die(what, got ? reduce_errmsg() : "not refused");
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* An allocation on the device and the 64 bytes that reduce_device knows it by. */
typedef struct {
    float *at;
    size_t bytes;
    cudaIpcMemHandle_t handle;
    int fd; /* of cuMemCreate's; -1: cudaMalloc's */
} allocation;

static allocation allocate(size_t bytes)
{
    allocation a = {.bytes = bytes, .fd = -1};
    cuda(cudaMalloc((void **)&a.at, bytes), "cudaMalloc");
    cuda(cudaIpcGetMemHandle(&a.handle, a.at), "cudaIpcGetMemHandle");
    return a;
}

/* A function of the driver, which this program is not linked against. */
static void *driver(const char *name)
{
    void *function;
    enum cudaDriverEntryPointQueryResult found;
    cuda(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found), name);
    if (found != cudaDriverEntryPointSuccess)
        die(name, "no such function");
    return function;
}

static void made(CUresult err, const char *what)
{
    if (err != CUDA_SUCCESS)
        die(what, "the driver refuses");
}

#define DRIVER(call, ...) made(((__typeof__(&call))driver(#call))(__VA_ARGS__), #call)

/* `bytes`: a multiple of 2 MiB. */
static allocation create(size_t bytes)
{
    allocation a = {.bytes = bytes};
    CUmemAllocationProp p = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                             .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                             .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {.location = p.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle h;
    CUdeviceptr at;
    DRIVER(cuMemCreate, &h, bytes, &p, 0);
    DRIVER(cuMemAddressReserve, &at, bytes, 0, 0, 0);
    DRIVER(cuMemMap, at, bytes, 0, h, 0);
    DRIVER(cuMemSetAccess, at, bytes, &access, 1);
    DRIVER(cuMemExportToShareableHandle, &a.fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    DRIVER(cuMemRelease, h); /* the mapping keeps it, and so does the descriptor */
    a.at = (float *)at;
    return a;
}

/* What the daemon is to have done with it before it is freed. */
static void release(reduce_client *c, allocation *a)
{
    reduced(reduce_device_close(c, &a->handle), "reduce_device_close");
    if (a->fd < 0) {
        cuda(cudaFree(a->at), "cudaFree");
        return;
    }
    close(a->fd);
    DRIVER(cuMemUnmap, (CUdeviceptr)a->at, a->bytes);
    DRIVER(cuMemAddressFree, (CUdeviceptr)a->at, a->bytes);
}

/* Reduce elements first .. first + n on both sides; with `planes` the columns of that many matrices of `rows` rows. */
static void compare(reduce_client *gpu, reduce_client *cpu, const allocation *a, const float *copy, int op, uint64_t planes,
                    uint64_t rows, size_t first, size_t n)
{
    static char here[ROOM], there[ROOM];
    reduce_result result = REDUCE_RESULT_INIT;
    reduce_spec s = REDUCE_SPEC_INIT;
    s.op = op;
    s.dtype = REDUCE_F32;
    s.rows = rows;
    s.planes = planes;
    s.flags = planes ? REDUCE_COLUMNS : 0;
    reduced(reduce_device(gpu, &s, &a->handle, first * sizeof(float), n * sizeof(float), here, sizeof here, &result),
            reduce_op_name(op));
    if (result.path != REDUCE_PATH_DEVICE || result.count != n)
        die(reduce_op_name(op), "another path, or another count");
    reduced(reduce_run(cpu, &s, copy + first, n * sizeof(float), there, sizeof there, NULL), "on the CPU");
    if (memcmp(here, there, result.cells * result.cell_size))
        die(reduce_op_name(op), "other bits than on the CPU");
}

static void compare_many(reduce_client *gpu, reduce_client *cpu, const allocation *a, const float *copy)
{
    static const int ops[] = {REDUCE_SUM, REDUCE_MAX, REDUCE_ARGMIN, REDUCE_STD, REDUCE_STATS, REDUCE_COUNT_NONZERO};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        compare(gpu, cpu, a, copy, ops[i], 0, 1, 0, CHECKED);
        compare(gpu, cpu, a, copy, ops[i], 0, 1, 3, CHECKED - 1000);
        compare(gpu, cpu, a, copy, ops[i], 0, 1024, 0, CHECKED);
        compare(gpu, cpu, a, copy, ops[i], 1, 4096, 1, CHECKED / 2);
        compare(gpu, cpu, a, copy, ops[i], 16, 256, 1, CHECKED / 4);  /* a few planes of wide rows */
        compare(gpu, cpu, a, copy, ops[i], 1024, 1024, 0, CHECKED);   /* many of narrow ones */
        compare(gpu, cpu, a, copy, ops[i], 2000, 3, 5, 2000 * 3 * 5); /* small ones */
    }
}

/* Requests that the handle of `a` does not allow. */
static void check_refusals(reduce_client *c, const allocation *a)
{
    double cell, many[16];
    reduce_spec s = REDUCE_SPEC_INIT;
    s.op = REDUCE_SUM;
    s.dtype = REDUCE_F32;
    expect(REDUCE_E_SHAPE, reduce_device(c, &s, &a->handle, 1ull << 40, 4, &cell, sizeof cell, NULL), "beyond the end");
    expect(REDUCE_E_SHAPE, reduce_device(c, &s, &a->handle, 2, 4, &cell, sizeof cell, NULL), "within an element");
    cudaIpcMemHandle_t wrong;
    memset(&wrong, 0x5a, sizeof wrong);
    expect(REDUCE_E_BAD_HANDLE, reduce_device(c, &s, &wrong, 0, 4, &cell, sizeof cell, NULL), "a made-up handle");
    s.op = REDUCE_PROD; /* the fault is that of the row */
    s.dtype = REDUCE_I32;
    s.rows = 16;
    expect(REDUCE_E_OVERFLOW, reduce_device(c, &s, &a->handle, 0, a->bytes, many, sizeof many, NULL), "a product");
}

/* Descriptors of everything but such memory, and sizes that are not its own. */
static void check_wrong_descriptors(reduce_client *c, const allocation *a)
{
    static const char *const files[] = {"/dev/null",       "/dev/nvidiactl", "/dev/nvidia0",
                                        "/dev/nvidia-uvm", "/proc/self/exe", "/"};
    const size_t sizes[] = {0, 1, a->bytes / 2, a->bytes - 4, 2 * a->bytes, (size_t)1 << 40, SIZE_MAX};
    char handle[64];
    int ends[2], sockets[2], memory = memfd_create("wrong", 0);
    if (pipe(ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || ftruncate(memory, (off_t)a->bytes))
        die("pipe", "no descriptors");
    expect(REDUCE_E_BAD_HANDLE, reduce_device_import(c, ends[0], a->bytes, handle), "a pipe");
    expect(REDUCE_E_BAD_HANDLE, reduce_device_import(c, sockets[0], a->bytes, handle), "a socket");
    expect(REDUCE_E_BAD_HANDLE, reduce_device_import(c, memory, a->bytes, handle), "a memfd");
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        int fd = open(files[i], O_RDONLY);
        if (fd >= 0)
            expect(REDUCE_E_BAD_HANDLE, reduce_device_import(c, fd, a->bytes, handle), files[i]);
        close(fd);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        expect(REDUCE_E_BAD_HANDLE, reduce_device_import(c, a->fd, sizes[i], handle), "another size");
    for (int i = 0; i < 2; i++) {
        close(ends[i]);
        close(sockets[i]);
    }
    close(memory);
}

static int no_devices(void *arg, const reduce_entry *e)
{
    *(bool *)arg |= strcmp(e->key, "side.devices") == 0 && e->u64 == 0;
    return 0;
}

/* Wait until the daemon has released what was closed. */
static void await_none(reduce_client *c)
{
    for (bool none = false; !none; usleep(1000)) /* poll interval */
        reduced(reduce_query(c, REDUCE_TOPIC_STATUS, no_devices, &none), "reduce_query");
}

static float *random_floats(size_t n)
{
    float *x = malloc(n * sizeof *x);
    uint32_t random = 12345;
    for (size_t i = 0; x && i < n; i++) {
        random = random * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)random * (i % 1000 ? 1e-9f : 1e20f);
    }
    if (!x)
        die("malloc", "no memory");
    return x;
}

/* `other`: a second client of the daemon of `gpu`. */
static void check(reduce_client *gpu, reduce_client *other, reduce_client *cpu)
{
    const size_t bytes = CHECKED * sizeof(float);
    float *copy = random_floats(CHECKED);
    allocation a = allocate(bytes), b = create(bytes);
    cuda(cudaMemcpy(a.at, copy, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    cuda(cudaMemcpy(b.at, copy, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    compare_many(gpu, cpu, &a, copy);
    check_refusals(gpu, &a);
    compare(other, cpu, &a, copy, REDUCE_SUM, 0, 1, 0, CHECKED);
    reduced(reduce_device_close(gpu, &a.handle), "reduce_device_close");
    compare(other, cpu, &a, copy, REDUCE_SUM, 0, 1, 1, CHECKED - 1); /* which keeps it open */
    release(other, &a);

    reduced(reduce_device_import(gpu, b.fd, bytes, &b.handle), "reduce_device_import");
    check_wrong_descriptors(gpu, &b);
    compare_many(gpu, cpu, &b, copy);
    check_refusals(gpu, &b);
    release(gpu, &b);
    await_none(gpu);
    free(copy);
}

static void measure(reduce_client *c, int runs, int power)
{
    const size_t bytes = sizeof(float) << power;
    allocation a = allocate(bytes);
    reduce_result result = REDUCE_RESULT_INIT;
    reduce_spec s = REDUCE_SPEC_INIT;
    double sum;
    s.op = REDUCE_SUM;
    s.dtype = REDUCE_F32;
    s.out = REDUCE_F64;
    cuda(cudaMemset(a.at, 0x3f, bytes), "cudaMemset");      /* elements 0x3f3f3f3f = 12533567 * 2^-24 */
    cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); /* before the daemon looks at it */
    for (int i = -3; i < runs; i++) {                       /* the first ones open it and warm up */
        double begin = now_us();
        reduced(reduce_device(c, &s, &a.handle, 0, bytes, &sum, sizeof sum, &result), "sum");
        double wall = now_us() - begin;
        if (sum != 12533567.0 * (double)(1 << power) / (1 << 24))
            die("sum", "not what the elements add up to");
        if (i >= 0)
            printf("%.1f %.1f %.1f\n", wall, (double)(result.copy_ns + result.compute_ns) / 1e3, (double)result.queue_ns / 1e3);
    }
    release(c, &a);
}

int main(int argc, char **argv)
{
    reduce_client *gpu, *other, *cpu;
    if (argc < 4)
        die("usage", "device URL CPU_URL RUNS [POWER ...]");
    reduced(reduce_open(&gpu, argv[1], NULL), argv[1]);
    if (strcmp(argv[2], "-")) {
        reduced(reduce_open(&other, argv[1], NULL), argv[1]);
        reduced(reduce_open(&cpu, argv[2], NULL), argv[2]);
        check(gpu, other, cpu);
        reduce_close(other);
        reduce_close(cpu);
    }
    for (int i = 4; i < argc; i++)
        measure(gpu, atoi(argv[3]), atoi(argv[i]));
    if (argc == 4)
        measure(gpu, atoi(argv[3]), 28);
    reduce_close(gpu);
    return 0;
}
