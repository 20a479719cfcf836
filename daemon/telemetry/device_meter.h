/* Memory, temperature, load and power of the GPU, as its driver reports them (NVML, loaded at run time).
 *
 * NVML's calls may take milliseconds, so a thread of its own makes them, once a second while a client asks. */
#ifndef RD_DEVICE_METER_H
#define RD_DEVICE_METER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rd_device_meter rd_device_meter;

/* Of the whole device, all processes together */
typedef struct rd_device_reading {
    bool valid;
    uint64_t memory_used, memory_total; /* bytes */
    unsigned celsius, busy_percent;     /* the share of the last sample period with a kernel running */
    unsigned milliwatts;
} rd_device_reading;

/* The CUDA device of this number. NULL: there is no NVML, or it does not know the device. */
rd_device_meter *rd_device_meter_open(int device);
void rd_device_meter_close(rd_device_meter *m); /* NULL is fine */

/* The last reading; the next one will be younger. NULL: not valid. */
rd_device_reading rd_device_meter_read(rd_device_meter *m);

#endif
