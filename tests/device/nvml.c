/* A driver that knows GPUs which are not there, for daemons on devices made of memory: of libcuda what finds a device's bus, of
 * NVML what is read there. Device n has n + 1 GiB in use, 40 + n degrees, a load of 10 n %, and draws n + 1 W. It does not know
 * device 2. */
#include <stdio.h>

int cuDeviceGet(int *device, int ordinal);
int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return 0;
}

int cuDeviceGetPCIBusId(char *out, int cap, int device);
int cuDeviceGetPCIBusId(char *out, int cap, int device)
{
    snprintf(out, (size_t)cap, "0000:%02x:00.0", device);
    return 0;
}

int nvmlInit_v2(void);
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void);
int nvmlShutdown(void) { return 0; }

static const int numbers[] = {0, 1, 2, 3};

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, const int **device);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, const int **device)
{
    unsigned n;
    if (sscanf(bus_id, "0000:%x:", &n) != 1 || n == 2 || n > 3)
        return 6;
    *device = &numbers[n];
    return 0;
}

int nvmlDeviceGetMemoryInfo(const int *device, unsigned long long out[3]);
int nvmlDeviceGetMemoryInfo(const int *device, unsigned long long out[3])
{
    out[0] = 80ull << 30;
    out[2] = (unsigned long long)(*device + 1) << 30;
    out[1] = out[0] - out[2];
    return 0;
}

int nvmlDeviceGetTemperature(const int *device, int sensor, unsigned *celsius);
int nvmlDeviceGetTemperature(const int *device, int sensor, unsigned *celsius)
{
    *celsius = 40 + (unsigned)*device;
    return sensor;
}

int nvmlDeviceGetUtilizationRates(const int *device, unsigned out[2]);
int nvmlDeviceGetUtilizationRates(const int *device, unsigned out[2])
{
    out[0] = 10 * (unsigned)*device;
    out[1] = 0;
    return 0;
}

int nvmlDeviceGetPowerUsage(const int *device, unsigned *milliwatts);
int nvmlDeviceGetPowerUsage(const int *device, unsigned *milliwatts)
{
    *milliwatts = 1000 * ((unsigned)*device + 1);
    return 0;
}
