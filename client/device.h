/* Data on the daemon's GPU: the allocations that the daemon has opened for a client. */
#ifndef RC_DEVICE_H
#define RC_DEVICE_H

#include "client/client.h"

/* Have the daemon open the allocations of path->device and path->mask, unless it has. 0, or the error, in `f`. */
int rc_device_open(reduce_client *c, rc_datapath *path, rp_fault *f);

/* The daemon's handle of the allocation is no longer valid. */
void rc_device_forget(reduce_client *c, const uint8_t *device);

void rc_devices_fini(reduce_client *c);

#endif
