/* Data on the daemon's GPU, in allocations of this process. The daemon opens an allocation with the first call on it; its
 * handle is kept until reduce_device_close, or until the session ends. A descriptor is also kept here, so that the next session
 * can open it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/device.h"
#include "client/error.h"

/* With the mutex held: where it is in the list, or would be. */
static rc_device **find(reduce_client *c, const uint8_t *device)
{
    rc_device **at = &c->devices;
    while (*at && memcmp((*at)->device, device, RP_DEVICE_HANDLE) != 0)
        at = &(*at)->next;
    return at;
}

/* The record of an allocation. Its `handle` is 0 unless it is of the current session. */
static rc_device known(reduce_client *c, const uint8_t *device)
{
    rc_device here = {.fd = -1};
    memcpy(here.device, device, sizeof here.device);
    rc_enter(c);
    const rc_device *d = *find(c, device);
    if (d)
        here = *d;
    if (here.session != c->session)
        here.handle = 0;
    if (rc_version(c) < 2) /* it knows no UUID */
        memset(here.uuid, 0, sizeof here.uuid);
    rc_leave(c);
    return here;
}

/* Keep the handle that the daemon gave for it. */
static int remember(reduce_client *c, const rc_device *opened, rp_fault *f)
{
    rc_enter(c);
    rc_device **at = find(c, opened->device), *d = *at;
    if (!d && (d = calloc(1, sizeof *d))) {
        *d = *opened;
        d->next = NULL;
        *at = d;
    } else if (!d || (d->handle && d->session == opened->session)) { /* another thread was faster */
        rc_fdpass_drop(c, opened->session, opened->handle);
    } else {
        d->handle = opened->handle;
        d->session = opened->session;
    }
    rc_leave(c);
    return d ? 0 : rc_fail(f, REDUCE_E_NO_MEMORY, "", "no memory for a handle");
}

/* A handle of the daemon's for it, d->handle, in d->session. 0, or the error, in `f`. */
static int ask(reduce_client *c, rc_device *d, rp_fault *f)
{
    rc_call ping = {.type = RP_MSG_PING};
    int err = rc_fdpass_device(c, d, f);
    if (err != REDUCE_E_ARGUMENT)
        return err;
    /* no fdpass, perhaps because the session ended: any call makes another one */
    if (rc_call_wait(c, &ping, NULL, NULL)) {
        *f = ping.fault;
        return -(int)f->code;
    }
    return rc_fdpass_device(c, d, f);
}

static int open_device(reduce_client *c, rc_device *d, rp_fault *f)
{
    int err = ask(c, d, f);
    return err ? err : remember(c, d, f);
}

/* The daemon's handle of an allocation. 0, or the error, in `f`. */
static int handle_of(reduce_client *c, const uint8_t *device, uint64_t *handle, rp_fault *f)
{
    rc_device d = known(c, device);
    int err = d.handle ? 0 : open_device(c, &d, f);
    *handle = err ? 0 : known(c, device).handle;
    return err;
}

int rc_device_open(reduce_client *c, rc_datapath *path, rp_fault *f)
{
    path->at = path->offset;
    int err = handle_of(c, path->device, &path->handle, f);
    return err || !path->mask ? err : handle_of(c, path->mask, &path->mask_handle, f);
}

void rc_device_forget(reduce_client *c, const uint8_t *device)
{
    rc_enter(c);
    rc_device *d = *find(c, device);
    if (d) {
        rc_fdpass_drop(c, d->session, d->handle);
        d->handle = 0;
    }
    rc_leave(c);
}

static void free_device(rc_device *d)
{
    if (d && d->fd >= 0)
        close(d->fd);
    free(d);
}

void rc_devices_fini(reduce_client *c)
{
    while (c->devices) {
        rc_device *d = c->devices;
        c->devices = d->next;
        free_device(d);
    }
}

/* ---- public ---- */

int reduce_device_import(reduce_client *c, int fd, uint64_t bytes, void *handle)
{
    rp_fault f = {0};
    int err = rc_check(c);
    if (err)
        return err;
    if (!handle)
        return rc_error(REDUCE_E_ARGUMENT, "handle", "the handle is NULL");
    rc_device d = {.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0), .bytes = bytes};
    if (d.fd < 0)
        return rc_error(REDUCE_E_ARGUMENT, "fd", "the descriptor: %s", strerror(errno));
    rc_enter(c);
    uint64_t number = ++c->device_imports;
    rc_leave(c);
    snprintf((char *)d.device, sizeof d.device, "libreduce's own %" PRIu64, number); /* CUDA's are not text */
    if ((err = open_device(c, &d, &f))) {
        close(d.fd);
        return rc_report(&f);
    }
    memcpy(handle, d.device, sizeof d.device);
    return 0;
}

int reduce_device_uuid(reduce_client *c, const void *handle, const void *uuid)
{
    int err = rc_check(c);
    if (err)
        return err;
    if (!handle || !uuid)
        return rc_error(REDUCE_E_ARGUMENT, handle ? "uuid" : "handle", "the %s is NULL", handle ? "UUID" : "handle");
    rc_enter(c);
    rc_device **at = find(c, handle), *d = *at;
    if (!d && (d = *at = calloc(1, sizeof *d))) {
        memcpy(d->device, handle, sizeof d->device);
        d->fd = -1;
    }
    if (d)
        memcpy(d->uuid, uuid, sizeof d->uuid);
    rc_leave(c);
    return d ? 0 : rc_error(REDUCE_E_NO_MEMORY, "", "no memory for a handle");
}

int reduce_device_close(reduce_client *c, const void *handle)
{
    int err = rc_check(c);
    if (err)
        return err;
    if (!handle)
        return rc_error(REDUCE_E_ARGUMENT, "handle", "the handle is NULL");
    rc_enter(c);
    rc_device **at = find(c, handle), *d = *at;
    if (d) {
        *at = d->next;
        rc_fdpass_drop(c, d->session, d->handle);
    }
    rc_leave(c);
    free_device(d);
    return 0;
}
