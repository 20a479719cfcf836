/* A CUDA runtime without a device, for walking the engine's errors where there is no GPU: memory is the host's, streams are
 * always done and events t_cuda_latency_ns after they were recorded. Kernels do nothing, so no answer is right, unless
 * tests/device/kernels.cu runs them. It shows t_cuda_devices devices. Each call that the engine makes fails on cue with
 * t_cuda_failure, and like the real one leaves its error for cudaGetLastError. After an error of a kernel every call of a
 * thread with that device current fails. Page-locked memory is the process's: with t_cuda_host_breaks such an error fails its
 * calls with any device current. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
int __sanitizer_get_ownership(const volatile void *p); /* does an allocation begin there? Its size: */
size_t __sanitizer_get_allocated_size(const volatile void *p);
#endif

#include "tests/faults/cudart.h"
#include "tests/faults/faults.h"

enum { MOST_DEVICES = 8 };
int t_cuda_failure = cudaErrorMemoryAllocation, t_cuda_devices = 1, t_cuda_sms = 4, t_cuda_failing = -1;
bool t_cuda_host_breaks;
uint64_t t_cuda_latency_ns;
void (*t_cuda_init)(void), (*t_cuda_look)(void);
static _Atomic int contexts[MOST_DEVICES]; /* the error of a kernel, which the context never gets over */
static _Thread_local cudaError_t last;
static _Thread_local int current;
#define broken contexts[current]

/* What is page-locked. A piece that a broken context could not unlock stays so: what is mapped there later is not. */
enum { MOST_PIECES = 4096 };
static struct {
    const char *base;
    size_t bytes; /* 0: a free entry */
    bool stale;
} pieces[MOST_PIECES];
static pthread_mutex_t pieces_lock = PTHREAD_MUTEX_INITIALIZER;

void t_cuda_mend(void)
{
    for (int i = 0; i < MOST_DEVICES; i++)
        contexts[i] = cudaSuccess;
    memset(pieces, 0, sizeof pieces);
}

static bool passing(int error) { return error == cudaErrorMemoryAllocation; }

void t_cuda_break(int device) { contexts[device] = cudaErrorLaunchFailure; }

static cudaError_t call(const char *name)
{
    if (broken == cudaSuccess && (t_cuda_failing < 0 || t_cuda_failing == current) && t_fails(name)) {
        last = (cudaError_t)t_cuda_failure;
        if (!passing(t_cuda_failure))
            broken = t_cuda_failure;
        return last;
    }
    if (broken != cudaSuccess)
        last = (cudaError_t)broken;
    return (cudaError_t)broken;
}

#define TRY()                              \
    do {                                   \
        cudaError_t err_ = call(__func__); \
        if (err_ != cudaSuccess)           \
            return err_;                   \
    } while (0)

/* A call on page-locked memory. */
static cudaError_t host_call(const char *name)
{
    cudaError_t err = call(name);
    for (int i = 0; err == cudaSuccess && t_cuda_host_breaks && i < MOST_DEVICES; i++)
        err = last = (cudaError_t)contexts[i];
    return err;
}

static cudaError_t give(void **to, size_t bytes)
{
    *to = calloc(1, bytes ? bytes : 1);
    return *to ? cudaSuccess : cudaErrorMemoryAllocation;
}

/* ---- errors ---- */
cudaError_t cudaGetLastError(void)
{
    cudaError_t err = last;
    last = (cudaError_t)broken;
    return err;
}

const char *cudaGetErrorName(cudaError_t err) { return err == cudaSuccess ? "cudaSuccess" : "cudaErrorOfTheTest"; }
const char *cudaGetErrorString(cudaError_t err) { return err == cudaSuccess ? "no error" : "an error of the test"; }

/* ---- the device ---- */
static void initialise(void)
{
    if (t_cuda_init)
        t_cuda_init();
}

cudaError_t cudaDriverGetVersion(int *version)
{
    initialise();
    *version = CUDART_VERSION;
    return call(__func__);
}

cudaError_t cudaGetDeviceCount(int *n)
{
    initialise();
    *n = t_cuda_devices;
    return call(__func__);
}

cudaError_t cudaSetDevice(int id)
{
    current = id;
    return call(__func__);
}

cudaError_t cudaGetDevice(int *id)
{
    *id = current;
    return call(__func__);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int id)
{
    TRY();
    memset(p, 0, sizeof *p);
    strcpy(p->name, "no device");
    p->uuid.bytes[0] = (char)id;
#ifdef SIMT_ARCH
    p->major = SIMT_ARCH / 10; /* what kernels are compiled for */
    p->minor = SIMT_ARCH % 10;
#else
    p->major = 9;
#endif
    p->multiProcessorCount = t_cuda_sms;
    p->totalGlobalMem = (size_t)1 << 30;
    p->sharedMemPerBlockOptin = 227 << 10;
    p->sharedMemPerMultiprocessor = 228 << 10;
    p->unifiedAddressing = 1;
    p->canMapHostMemory = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr a, int id)
{
    (void)id;
    *value = a == cudaDevAttrSingleToDoublePrecisionPerfRatio ? 2 : 1;
    return call(__func__);
}

cudaError_t cudaMemGetInfo(size_t *idle, size_t *total)
{
    if (t_cuda_look)
        t_cuda_look();
    *idle = *total = (size_t)1 << 30;
    return call(__func__);
}

/* ---- the driver: what maps the memory of a descriptor ---- */
static CUresult driver(const char *name) { return call(name) == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN; }

static CUresult import(CUmemGenericAllocationHandle *h, void *fd, CUmemAllocationHandleType type)
{
    (void)fd, (void)type;
    *h = 1;
    return driver("cuMemImportFromShareableHandle");
}

static CUresult properties(CUmemAllocationProp *p, CUmemGenericAllocationHandle h)
{
    (void)h;
    *p = (CUmemAllocationProp){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = t_cuda_devices - 1}};
    return driver("cuMemGetAllocationPropertiesFromHandle");
}

static CUresult reserve(CUdeviceptr *at, size_t n, size_t alignment, CUdeviceptr hint, unsigned long long flags)
{
    void *memory = NULL;
    (void)alignment, (void)hint, (void)flags;
    CUresult err = driver("cuMemAddressReserve");
    if (err == CUDA_SUCCESS && give(&memory, n) != cudaSuccess)
        err = CUDA_ERROR_OUT_OF_MEMORY;
    *at = (CUdeviceptr)memory;
    return err;
}

static CUresult map(CUdeviceptr at, size_t n, size_t offset, CUmemGenericAllocationHandle h, unsigned long long flags)
{
    (void)at, (void)n, (void)offset, (void)h, (void)flags;
    return driver("cuMemMap");
}

static CUresult set_access(CUdeviceptr at, size_t n, const CUmemAccessDesc *d, size_t count)
{
    (void)at, (void)n, (void)d, (void)count;
    return driver("cuMemSetAccess");
}

static CUresult unmap(CUdeviceptr at, size_t n)
{
    (void)at, (void)n;
    return driver("cuMemUnmap");
}

static CUresult address_free(CUdeviceptr at, size_t n)
{
    (void)n;
    free((void *)at);
    return CUDA_SUCCESS;
}

static CUresult release(CUmemGenericAllocationHandle h)
{
    (void)h;
    return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result)
{
    static const struct {
        const char *name;
        void *function;
    } functions[] = {{"cuMemImportFromShareableHandle", import},
                     {"cuMemGetAllocationPropertiesFromHandle", properties},
                     {"cuMemAddressReserve", reserve},
                     {"cuMemMap", map},
                     {"cuMemSetAccess", set_access},
                     {"cuMemUnmap", unmap},
                     {"cuMemAddressFree", address_free},
                     {"cuMemRelease", release}};
    (void)version, (void)flags;
    *function = NULL;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (strcmp(name, functions[i].name) == 0)
            *function = functions[i].function;
    *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return call(__func__);
}

/* ---- memory ---- */
cudaError_t cudaMalloc(void **to, size_t bytes)
{
    TRY();
    return give(to, bytes);
}

cudaError_t cudaHostAlloc(void **to, size_t bytes, unsigned flags)
{
    (void)flags;
    cudaError_t err = host_call(__func__);
    return err == cudaSuccess ? give(to, bytes) : err;
}

/* What is freed is freed, also in a broken context: the sanitizer looks for the rest. */
cudaError_t cudaFree(void *p)
{
    free(p);
    return (cudaError_t)broken;
}

cudaError_t cudaFreeHost(void *p)
{
    free(p);
    return (cudaError_t)broken;
}

/* Bytes are about to be copied, or set. Where an allocation begins with a copy from the host, kernels must not read what lies
 * behind it, up to whole vectors of 16 bytes. */
static void fence(void *to, size_t n, bool from_host)
{
#ifdef __SANITIZE_ADDRESS__
    const size_t end = (n + 15) / 16 * 16;
    ASAN_UNPOISON_MEMORY_REGION(to, n);
    if (from_host && __sanitizer_get_ownership(to) && __sanitizer_get_allocated_size(to) > end) {
        ASAN_UNPOISON_MEMORY_REGION(to, end);
        ASAN_POISON_MEMORY_REGION((char *)to + end, __sanitizer_get_allocated_size(to) - end);
    }
#else
    (void)to, (void)n, (void)from_host;
#endif
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t n, cudaStream_t s)
{
    (void)s;
    TRY();
    fence(to, n, false);
    memset(to, value, n);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, enum cudaMemcpyKind kind, cudaStream_t s)
{
    (void)s;
    TRY();
    fence(to, n, kind == cudaMemcpyHostToDevice);
    memcpy(to, from, n);
    return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                              enum cudaMemcpyKind kind, cudaStream_t s)
{
    (void)kind, (void)s;
    TRY();
    fence(to, height ? (height - 1) * to_pitch + width : 0, false);
    for (size_t i = 0; i < height; i++)
        memcpy((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
    return cudaSuccess;
}

/* With the lock: the piece that has some of these bytes; -1: there is none. */
static int piece_of(const char *base, size_t bytes)
{
    int i = MOST_PIECES - 1;
    while (i >= 0 && !(pieces[i].bytes && pieces[i].base < base + bytes && base < pieces[i].base + pieces[i].bytes))
        i--;
    return i;
}

bool t_cuda_stale(const void *base)
{
    pthread_mutex_lock(&pieces_lock);
    const int i = piece_of(base, 1);
    const bool stale = i >= 0 && pieces[i].stale;
    pthread_mutex_unlock(&pieces_lock);
    return stale;
}

static cudaError_t add_piece(const char *base, size_t bytes)
{
    if (piece_of(base, bytes) >= 0)
        return last = cudaErrorHostMemoryAlreadyRegistered;
    int i = 0;
    while (i < MOST_PIECES && pieces[i].bytes)
        i++;
    if (i == MOST_PIECES)
        return last = cudaErrorMemoryAllocation;
    pieces[i].base = base;
    pieces[i].bytes = bytes;
    pieces[i].stale = false;
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *p, size_t n, unsigned flags)
{
    (void)flags;
    cudaError_t err = host_call(__func__);
    if (err != cudaSuccess)
        return err;
    pthread_mutex_lock(&pieces_lock);
    err = add_piece(p, n);
    pthread_mutex_unlock(&pieces_lock);
    return err;
}

cudaError_t cudaHostUnregister(void *p)
{
    cudaError_t err = host_call(__func__);
    pthread_mutex_lock(&pieces_lock);
    const int i = piece_of(p, 1);
    if (i >= 0 && err == cudaSuccess)
        pieces[i].bytes = 0;
    else if (i >= 0)
        pieces[i].stale = true;
    else if (err == cudaSuccess)
        err = last = cudaErrorHostMemoryNotRegistered;
    pthread_mutex_unlock(&pieces_lock);
    return err;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p)
{
    TRY();
    *a = (struct cudaPointerAttributes){.type = cudaMemoryTypeDevice, .device = t_cuda_devices - 1, .devicePointer = (void *)p};
    return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void **to, cudaIpcMemHandle_t handle, unsigned flags)
{
    (void)handle, (void)flags;
    TRY();
    return give(to, 4096);
}

cudaError_t cudaIpcCloseMemHandle(void *p)
{
    free(p);
    return (cudaError_t)broken;
}

/* ---- streams: a byte each; events: when they are done ---- */
static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    (void)flags;
    TRY();
    return give((void **)s, 1);
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    free(s);
    return (cudaError_t)broken;
}

/* It has no graphs. */
cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    (void)s, (void)mode;
    return cudaErrorNotSupported;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph)
{
    (void)s, (void)graph;
    return cudaErrorNotSupported;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long flags)
{
    (void)made, (void)graph, (void)flags;
    return cudaErrorNotSupported;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t made, cudaStream_t s)
{
    (void)made, (void)s;
    return cudaErrorNotSupported;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t made)
{
    (void)made;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    (void)graph;
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
    (void)s;
    return call(__func__);
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    (void)s;
    return call(__func__);
}

cudaError_t cudaEventCreate(cudaEvent_t *e)
{
    TRY();
    return give((void **)e, sizeof(uint64_t));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
    (void)flags;
    return cudaEventCreate(e);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    (void)s, (void)e, (void)flags;
    return call(__func__);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    free(e);
    return (cudaError_t)broken;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    (void)s;
    TRY();
    __atomic_store_n((uint64_t *)(void *)e, now_ns() + t_cuda_latency_ns, __ATOMIC_RELAXED);
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
    TRY();
    if (t_cuda_latency_ns && __atomic_load_n((uint64_t *)(void *)e, __ATOMIC_RELAXED) > now_ns())
        return last = cudaErrorNotReady;
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    (void)from, (void)to;
    *ms = 0.01f;
    return call(__func__);
}

/* ---- kernels ---- */
enum { MOST_ALLOWED = 1024, USUAL_SHARED = 48 << 10 };
static struct {
    const void *f;
    int bytes;
} allowed[MOST_ALLOWED]; /* what cudaFuncSetAttribute said last */
static pthread_mutex_t allowed_lock = PTHREAD_MUTEX_INITIALIZER;

/* The kernel's place, or a free one. */
static int place_of(const void *f)
{
    int i = 0;
    while (i < MOST_ALLOWED - 1 && allowed[i].f && allowed[i].f != f)
        i++;
    return i;
}

int t_dynamic_shared(const void *f)
{
    pthread_mutex_lock(&allowed_lock);
    const int i = place_of(f), bytes = allowed[i].f == f ? allowed[i].bytes : USUAL_SHARED;
    pthread_mutex_unlock(&allowed_lock);
    return bytes;
}

cudaError_t cudaFuncSetAttribute(const void *f, enum cudaFuncAttribute a, int value)
{
    TRY();
    if (a == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        pthread_mutex_lock(&allowed_lock);
        const int i = place_of(f);
        allowed[i].f = f;
        allowed[i].bytes = value;
        pthread_mutex_unlock(&allowed_lock);
    }
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *f, int threads, size_t shared)
{
    (void)f, (void)threads, (void)shared;
    *n = 2;
    return call(__func__);
}

#pragma weak t_kernel

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *f, void **args)
{
    (void)config;
    TRY();
    if (t_kernel)
        t_kernel(f, args);
    return cudaSuccess;
}

/* What nvcc calls for <<<>>> and for registering kernels. */
cudaError_t __cudaLaunchKernel(cudaKernel_t k, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t s);
cudaError_t __cudaLaunchKernel(cudaKernel_t k, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t s)
{
    (void)k, (void)grid, (void)block, (void)args, (void)shared, (void)s;
    return call(__func__);
}

cudaError_t __cudaGetKernel(cudaKernel_t *k, const void *f);
cudaError_t __cudaGetKernel(cudaKernel_t *k, const void *f)
{
    *k = (cudaKernel_t)f;
    return cudaSuccess;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *s);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *s)
{
    (void)grid, (void)block, (void)shared, (void)s;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *s);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *s)
{
    *grid = *block = (dim3){1, 1, 1};
    *shared = 0;
    *(void **)s = NULL;
    return cudaSuccess;
}

static void *binary;
void **__cudaRegisterFatBinary(void *b);
void **__cudaRegisterFatBinary(void *b)
{
    (void)b;
    return &binary;
}

void __cudaRegisterFatBinaryEnd(void **b);
void __cudaRegisterFatBinaryEnd(void **b) { (void)b; }
void __cudaUnregisterFatBinary(void **b);
void __cudaUnregisterFatBinary(void **b) { (void)b; }

void __cudaRegisterFunction(void **b, const char *f, char *device, const char *name, int limit, void *tid, void *bid,
                            void *block, void *grid, int *w);
void __cudaRegisterFunction(void **b, const char *f, char *device, const char *name, int limit, void *tid, void *bid,
                            void *block, void *grid, int *w)
{
    (void)b, (void)f, (void)device, (void)name, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)w;
}

void __cudaRegisterVar(void **b, char *host, char *device, const char *name, int ext, size_t n, int constant, int global);
void __cudaRegisterVar(void **b, char *host, char *device, const char *name, int ext, size_t n, int constant, int global)
{
    (void)b, (void)host, (void)device, (void)name, (void)ext, (void)n, (void)constant, (void)global;
}
