/* Data on the daemon's GPU, in allocations of this process. The daemon opens an allocation with the first call on it; its
 * handle is kept until reduce_device_close, or until the session is no more. */
#include <stdlib.h>
#include <string.h>

#include "client/internal.h"

/* With the mutex held: where it is in the list, or would be. */
static rc_device **find(reduce_client *c, const uint8_t *device)
{
    rc_device **at = &c->devices;
    while (*at && memcmp((*at)->device, device, RP_DEVICE_HANDLE) != 0)
        at = &(*at)->next;
    return at;
}

/* The daemon's handle, if it gave one in the session of now; else 0. */
static uint64_t known(reduce_client *c, const uint8_t *device)
{
    rc_enter(c);
    const rc_device *d = *find(c, device);
    uint64_t handle = d && d->session == c->session ? d->handle : 0;
    rc_leave(c);
    return handle;
}

static int remember(reduce_client *c, const uint8_t *device, uint64_t handle, uint64_t session, rp_fault *f)
{
    rc_enter(c);
    rc_device **at = find(c, device), *d = *at;
    if (!d && (d = calloc(1, sizeof *d)))
        *at = d;
    if (!d || (d->handle && d->session == session)) { /* another thread was faster */
        rc_side_drop(c, session, handle);
    } else {
        *d = (rc_device){.handle = handle, .session = session, .next = d->next};
        memcpy(d->device, device, sizeof d->device);
    }
    rc_leave(c);
    return d ? 0 : rc_fail(f, REDUCE_E_NO_MEMORY, "", "no memory for a handle");
}

/* A handle of the daemon's for it. 0: `f` tells. */
static uint64_t ask(reduce_client *c, const uint8_t *device, uint64_t *session, rp_fault *f)
{
    rc_call ping = {.type = RP_MSG_PING};
    uint64_t handle = rc_side_device(c, device, session, f);
    if (handle || -(int)f->code != REDUCE_E_ARGUMENT)
        return handle;
    /* no side channel, perhaps because the session ended: any call makes another one */
    if (rc_call_wait(c, &ping, NULL, NULL)) {
        *f = ping.fault;
        return 0;
    }
    return rc_side_device(c, device, session, f);
}

int rc_device_open(reduce_client *c, rc_bulk *b, rp_fault *f)
{
    uint64_t session;
    b->at = b->offset;
    b->handle = known(c, b->device);
    if (b->handle)
        return 0;
    uint64_t handle = ask(c, b->device, &session, f);
    int err = handle ? remember(c, b->device, handle, session, f) : -(int)f->code;
    b->handle = err ? 0 : known(c, b->device);
    return err;
}

void rc_devices_fini(reduce_client *c)
{
    while (c->devices) {
        rc_device *d = c->devices;
        c->devices = d->next;
        free(d);
    }
}

/* ---- public ---- */

int reduce_device(reduce_client *c, const reduce_spec *spec, const void *handle, uint64_t offset, uint64_t bytes, void *out,
                  size_t room, reduce_result *result)
{
    const rc_input in = {.fd = -1, .offset = offset, .device = handle};
    if (!handle)
        return rc_error(REDUCE_E_ARGUMENT, "handle", "the handle is NULL");
    int err = rc_job_run(c, spec, &in, (size_t)bytes, out, room, result);
    if (err == REDUCE_E_BAD_HANDLE) { /* of a session that is no more, perhaps: once again */
        reduce_device_close(c, handle);
        err = rc_job_run(c, spec, &in, (size_t)bytes, out, room, result);
    }
    return err;
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
        rc_side_drop(c, d->session, d->handle);
    }
    rc_leave(c);
    free(d);
    return 0;
}
