/* Memory, temperature, load and power of the GPUs, as their driver reports them (NVML, loaded at run time).
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

/* The CUDA devices of these numbers. NULL: there is no NVML, or it knows none of them. */
rd_device_meter *rd_device_meter_open(const int *devices, unsigned n);
void rd_device_meter_close(rd_device_meter *m); /* NULL is fine */

/* The last readings, one for each device, as far as they are valid; the next ones will be younger. NULL: none is. */
void rd_device_meter_read(rd_device_meter *m, rd_device_reading *out, unsigned n);

/* Of all of them together: sums, the mean of their load, and the highest temperature. */
rd_device_reading rd_device_meter_sum(const rd_device_reading *each, unsigned n);

#endif
