#include "daemon/telemetry/device_meter.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "proto/clock.h"
#include "proto/limits.h"

/* The part of nvml.h and cuda.h that is used here: their ABI is stable, and a build needs neither. */
typedef struct nvml_device *nvml_device;
typedef struct nvml_memory {
    unsigned long long total, free, used;
} nvml_memory;
typedef struct nvml_load {
    unsigned gpu, memory;
} nvml_load;
enum { NVML_TEMPERATURE_GPU = 0, BUS_ID = 32, MOST = RP_MAX_GPUS };

typedef struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*device_by_bus)(const char *bus_id, nvml_device *device);
    int (*memory)(nvml_device device, nvml_memory *out);
    int (*temperature)(nvml_device device, int sensor, unsigned *celsius);
    int (*load)(nvml_device device, nvml_load *out);
    int (*power)(nvml_device device, unsigned *milliwatts);
} nvml;

struct rd_device_meter {
    nvml nvml;
    nvml_device device[MOST]; /* NULL: it does not know the device */
    unsigned devices;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool asked, closing;
    rd_device_reading last[MOST];
};

static bool symbol(void *library, const char *name, void *out)
{
    void *found = dlsym(library, name);
    *(void **)out = found;
    return found != NULL;
}

static bool load_nvml(nvml *n)
{
    n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    return n->library && symbol(n->library, "nvmlInit_v2", &n->init) && symbol(n->library, "nvmlShutdown", &n->shutdown) &&
           symbol(n->library, "nvmlDeviceGetHandleByPciBusId_v2", &n->device_by_bus) &&
           symbol(n->library, "nvmlDeviceGetMemoryInfo", &n->memory) &&
           symbol(n->library, "nvmlDeviceGetTemperature", &n->temperature) &&
           symbol(n->library, "nvmlDeviceGetUtilizationRates", &n->load) &&
           symbol(n->library, "nvmlDeviceGetPowerUsage", &n->power);
}

/* CUDA and NVML number devices differently, for $CUDA_VISIBLE_DEVICES is CUDA's alone: both know a device by its bus. */
static bool bus_of(int device, char out[BUS_ID])
{
    int (*get)(int *cu, int ordinal), (*bus_id)(char *out, int cap, int cu), cu;
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!cuda)
        return false;
    bool found = symbol(cuda, "cuDeviceGet", &get) && symbol(cuda, "cuDeviceGetPCIBusId", &bus_id) && get(&cu, device) == 0 &&
                 bus_id(out, BUS_ID, cu) == 0;
    dlclose(cuda);
    return found;
}

/* What the device cannot say stays 0. */
static rd_device_reading take_reading(const rd_device_meter *m, nvml_device device)
{
    rd_device_reading r = {0};
    if (!device)
        return r;
    nvml_memory memory = {0};
    nvml_load load = {0};
    r.valid = m->nvml.memory(device, &memory) == 0;
    r.memory_used = memory.used;
    r.memory_total = memory.total;
    if (m->nvml.temperature(device, NVML_TEMPERATURE_GPU, &r.celsius))
        r.celsius = 0;
    if (m->nvml.load(device, &load) == 0)
        r.busy_percent = load.gpu;
    if (m->nvml.power(device, &r.milliwatts))
        r.milliwatts = 0;
    return r;
}

static void wait_second(rd_device_meter *m)
{
    const struct timespec end = rp_timespec(rp_now_ns() + RP_NS_PER_S);
    while (!m->closing && pthread_cond_timedwait(&m->changed, &m->lock, &end) == 0)
        ;
}

static void *device_meter_run(void *arg)
{
    rd_device_meter *m = arg;
    pthread_mutex_lock(&m->lock);
    while (!m->closing) {
        m->asked = false;
        pthread_mutex_unlock(&m->lock);
        rd_device_reading now[MOST];
        for (unsigned i = 0; i < m->devices; i++)
            now[i] = take_reading(m, m->device[i]);
        pthread_mutex_lock(&m->lock);
        memcpy(m->last, now, m->devices * sizeof now[0]);
        wait_second(m);
        while (!m->closing && !m->asked)
            pthread_cond_wait(&m->changed, &m->lock);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

static bool start_thread(rd_device_meter *m)
{
    rp_cond_init(&m->changed);
    pthread_mutex_init(&m->lock, NULL);
    return pthread_create(&m->thread, NULL, device_meter_run, m) == 0;
}

static void free_meter(rd_device_meter *m)
{
    if (m->nvml.library)
        dlclose(m->nvml.library);
    free(m);
}

/* How many of them NVML knows. */
static unsigned find_devices(rd_device_meter *m, const int *devices, unsigned n)
{
    char bus[BUS_ID];
    unsigned known = 0;
    m->devices = n < MOST ? n : MOST;
    for (unsigned i = 0; i < m->devices; i++) {
        if (!bus_of(devices[i], bus) || m->nvml.device_by_bus(bus, &m->device[i]))
            m->device[i] = NULL;
        known += m->device[i] != NULL;
    }
    return known;
}

rd_device_meter *rd_device_meter_open(const int *devices, unsigned n)
{
    rd_device_meter *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    if (!load_nvml(&m->nvml) || m->nvml.init()) {
        free_meter(m);
        return NULL;
    }
    if (find_devices(m, devices, n) && start_thread(m))
        return m;
    m->nvml.shutdown();
    free_meter(m);
    return NULL;
}

void rd_device_meter_close(rd_device_meter *m)
{
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    m->closing = true;
    pthread_cond_signal(&m->changed);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    m->nvml.shutdown();
    free_meter(m);
}

void rd_device_meter_read(rd_device_meter *m, rd_device_reading *out, unsigned n)
{
    memset(out, 0, n * sizeof *out);
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    memcpy(out, m->last, (n < m->devices ? n : m->devices) * sizeof *out);
    m->asked = true;
    pthread_cond_signal(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

rd_device_reading rd_device_meter_sum(const rd_device_reading *each, unsigned n)
{
    rd_device_reading all = {0};
    unsigned valid = 0;
    for (unsigned i = 0; i < n; i++) {
        if (!each[i].valid)
            continue;
        valid++;
        all.memory_used += each[i].memory_used;
        all.memory_total += each[i].memory_total;
        all.celsius = each[i].celsius > all.celsius ? each[i].celsius : all.celsius;
        all.busy_percent += each[i].busy_percent;
        all.milliwatts += each[i].milliwatts;
    }
    all.valid = valid > 0;
    all.busy_percent /= valid ? valid : 1;
    return all;
}
