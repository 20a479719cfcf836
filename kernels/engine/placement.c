/* Memory of an engine: on which of its devices it is made, opened and found again. Any thread. */
#include <stdlib.h>
#include <string.h>

#include "kernels/engine/front.h"
#include "kernels/engine/select.h"

/* ---- new memory ---- */

static uint64_t resident_room(const rk_engine *e, const rk_fleet *v)
{
    uint64_t used = 0;
    if (!e->o.resident_bytes)
        return UINT64_MAX; /* the devices have caps of their own */
    for (unsigned i = 0; i < v->devices; i++)
        used += v->device[i]->resident_cap - rk_device_room(v->device[i]);
    return used < e->o.resident_bytes ? e->o.resident_bytes - used : 0;
}

/* The one with the most room. NULL: all are lost. */
static rk_device *roomiest(const rk_fleet *v)
{
    rk_device *best = NULL;
    for (unsigned i = 0; i < v->devices; i++)
        if (!rk_device_is_lost(v->device[i]) && (!best || rk_device_room(v->device[i]) > rk_device_room(best)))
            best = v->device[i];
    return best;
}

enum { PART_ALIGN = 4096 }; /* bytes: whole elements, whole pages */

static void close_parts(rk_memory *m)
{
    for (unsigned i = 0; i < m->parts; i++)
        rk_device_close_memory(m->part[i]);
    free(m->part);
    free(m);
}

static rk_memory *new_spread(size_t bytes, unsigned devices)
{
    rk_memory *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->bytes = bytes;
    m->each = (bytes / devices / PART_ALIGN + 1) * PART_ALIGN;
    m->part = calloc(devices, sizeof(rk_memory *));
    if (m->part)
        return m;
    free(m);
    return NULL;
}

/* `lent`: host memory to use in place; NULL: allocate. */
static rp_err memory_on(rk_device *d, uint8_t *lent, size_t bytes, rk_memory **out, rp_fault *f)
{
    if (!d || rk_device_is_lost(d))
        return rp_fail(f, RP_DEVICE_LOST, "device", 0, "the device has failed");
    return lent ? rk_device_lend(d, lent, bytes, out, f) : rk_device_new(d, bytes, out, f);
}

/* Equal parts on the devices that are left. */
static rp_err memory_spread(const rk_fleet *v, uint8_t *lent, size_t bytes, rk_memory **out, rp_fault *f)
{
    unsigned live = 0;
    for (unsigned i = 0; i < v->devices; i++)
        live += !rk_device_is_lost(v->device[i]);
    rk_memory *m = new_spread(bytes, live ? live : 1);
    if (!m)
        return rp_fail(f, RP_NO_MEMORY, "memory", 0, "out of memory");
    rp_err err = live ? RP_OK : rp_fail(f, RP_DEVICE_LOST, "device", 0, "every device has failed");
    size_t left = bytes;
    for (unsigned i = 0; !err && i < v->devices && (left || !m->parts); i++) {
        size_t n = left < m->each ? left : m->each;
        if (rk_device_is_lost(v->device[i]))
            continue;
        err = memory_on(v->device[i], lent ? lent + (bytes - left) : NULL, n, &m->part[m->parts], f);
        m->parts += !err;
        left -= n;
    }
    if (err || left)
        close_parts(m);
    else
        *out = m;
    return err || !left ? err : rp_fail(f, RP_DEVICE_LOST, "device", 0, "a device has failed");
}

static rp_err memory_at(rk_engine *e, int place, uint8_t *lent, size_t bytes, rk_memory **out, rp_fault *f)
{
    const rk_fleet *v = rk_fleet_of(e);
    rk_device *d = place >= 0 && (unsigned)place < v->devices ? v->device[place] : roomiest(v);
    if (place >= (int)v->devices)
        return rp_fail(f, RP_BAD_HANDLE, "device", v->devices, "no device %d", place);
    if (v->devices > 1 && bytes > resident_room(e, v))
        return rp_fail(f, RP_QUOTA, "resident", e->o.resident_bytes, "no room for %zu more bytes of resident data", bytes);
    const bool fits = place >= 0 || (d && bytes <= rk_device_room(d));
    if (v->devices > 1 && (place == RK_PLACE_SPREAD || (!fits && d)))
        return memory_spread(v, lent, bytes, out, f);
    return memory_on(d, lent, bytes, out, f);
}

rp_err rk_memory_new(rk_engine *e, int place, size_t bytes, rk_memory **out, rp_fault *f)
{
    return memory_at(e, place, NULL, bytes, out, f);
}

rp_err rk_memory_lend(rk_engine *e, int place, void *base, size_t bytes, rk_memory **out, rp_fault *f)
{
    if (e->stand_in)
        return rk_device_lend(e->stand_in, base, bytes, out, f);
    if (rk_fleet_of(e)->backend == RP_BACKEND_CUDA)
        return rp_fail(f, RP_TYPE, "device", 0, "this engine computes on a device");
    return memory_at(e, place, base, bytes, out, f);
}

static rp_err copy_all(const rk_memory *m, uint8_t *host, bool out, rp_fault *f)
{
    rp_err err = m->parts ? RP_OK : rk_device_copy(m, host, out, f);
    for (unsigned i = 0; i < m->parts && !err; i++)
        err = rk_device_copy(m->part[i], host + i * m->each, out, f);
    return err;
}

rp_err rk_memory_read(const rk_memory *m, void *to, rp_fault *f) { return copy_all(m, to, true, f); }

rp_err rk_memory_write(rk_memory *m, const void *from, rp_fault *f) { return copy_all(m, (uint8_t *)from, false, f); }

size_t rk_memory_bytes(const rk_memory *m) { return m->bytes; }

int rk_memory_place(const rk_memory *m)
{
    const unsigned number = m->parts ? 0 : rk_device_number(m->device);
    return m->parts ? RK_PLACE_SPREAD : number < RK_MAX_DEVICES ? (int)number : RK_PLACE_ANY;
}

const uint8_t *rk_memory_at(const rk_memory *m, uint64_t offset) { return (const uint8_t *)m->base + offset; }

static bool is_of_host(const rk_memory *m) { return !m->parts && m->device->backend == RP_BACKEND_CPU; }

/* Does the CPU do tasks on this memory? */
static bool goes_to_cpu(const rk_engine *e, const rk_memory *m)
{
    return m ? is_of_host(m) : rk_fleet_of(e)->backend == RP_BACKEND_CPU;
}

bool rk_memory_near(const rk_engine *e, const rk_memory *m, const rk_memory *beside, rp_role role)
{
    if (goes_to_cpu(e, m) || (role == RP_ROLE_KEYS && !m)) /* also beside GPUs */
        return !beside || is_of_host(beside);
    return m && beside && m->device == beside->device && !m->parts && !beside->parts &&
           (role == RP_ROLE_MASK || role == RP_ROLE_WEIGHTS || role == RP_ROLE_KEYS);
}

bool rk_takes_large(const rk_engine *e, const rk_memory *m, bool keyed)
{
    return goes_to_cpu(e, m) || (keyed && !(m && m->parts));
}

bool rk_memory_lost(const rk_memory *m)
{
    bool lost = m->device && rk_device_is_lost(m->device);
    for (unsigned i = 0; i < m->parts; i++)
        lost |= rk_device_is_lost(m->part[i]->device);
    return lost;
}

/* ---- memory of others ---- */

/* With open_lock: the link in the list to this handle's memory, or the list's end. */
static rk_memory **find_opened(rk_engine *e, const uint8_t *handle)
{
    rk_memory **at = &e->opened;
    while (*at && memcmp((*at)->handle, handle, RP_DEVICE_HANDLE) != 0)
        at = &(*at)->next;
    return at;
}

static rp_err no_device(rp_fault *f)
{
    return rp_fail(f, RP_TYPE, "device", 0, "this engine computes on the CPU: it cannot reach memory on a device");
}

/* The device with this UUID, and why there is none. */
static rp_err device_of(const rk_engine *e, const uint8_t *uuid, rk_device **d, rp_fault *f)
{
    char name[RK_UUID], names[RP_MAX_TEXT];
    const rk_fleet *v = rk_fleet_of(e);
    for (unsigned i = 0; i < v->devices; i++) {
        *d = v->device[i];
        if (memcmp((*d)->info.uuid, uuid, sizeof(*d)->info.uuid) == 0)
            return RP_OK;
    }
    rk_uuid_text(uuid, "GPU-", name);
    rk_device_names(e, names, sizeof names);
    return rp_fail(f, RP_BAD_HANDLE, "device", 0, "the memory is on %s; this daemon has %s", name, names);
}

/* The next device from *i on that is in service; NULL: there is none. */
static rk_device *next_live(const rk_fleet *v, unsigned *i)
{
    while (*i < v->devices && rk_device_is_lost(v->device[*i]))
        ++*i;
    return *i < v->devices ? v->device[(*i)++] : NULL;
}

static rp_err none_left(rp_fault *f) { return rp_fail(f, RP_DEVICE_LOST, "device", 0, "every device has failed"); }

/* With open_lock: ask each device until one has the allocation, or has one open that overlaps it. */
static rp_err open_anywhere(rk_engine *e, const uint8_t *handle, rk_memory **out, rp_fault *f)
{
    const rk_fleet *v = rk_fleet_of(e);
    unsigned i = 0;
    rk_device *d = next_live(v, &i);
    rp_err err = d ? rk_device_open_memory(d, handle, out, f) : none_left(f);
    while (err && err != RP_BUSY && (d = next_live(v, &i)))
        err = rk_device_open_memory(d, handle, out, f);
    f->code = err;
    return err;
}

/* With open_lock. */
static rp_err open_handle(rk_engine *e, const uint8_t *handle, const uint8_t *uuid, rk_memory **out, rp_fault *f)
{
    rk_device *d = NULL;
    if (!uuid)
        return open_anywhere(e, handle, out, f);
    rp_err err = device_of(e, uuid, &d, f);
    if (!err && rk_device_is_lost(d))
        err = rp_fail(f, RP_DEVICE_LOST, "device", 0, "device %d (%s) has failed", d->info.ordinal, d->info.name);
    return err ? err : rk_device_open_memory(d, handle, out, f);
}

/* Memory that is already open keeps its device, whatever `uuid` says. */
static rp_err check_device(const rk_engine *e, const rk_memory *m, const uint8_t *uuid, rp_fault *f)
{
    rk_device *said = m->device;
    rp_err err = uuid ? device_of(e, uuid, &said, f) : RP_OK;
    if (err || said == m->device)
        return err;
    return rp_fail(f, RP_BAD_HANDLE, "handle", 0, "the memory is on device %d (%s)", m->device->info.ordinal,
                   m->device->info.name);
}

rp_err rk_memory_open(rk_engine *e, const uint8_t handle[RP_DEVICE_HANDLE], const uint8_t *uuid, rk_memory **out, rp_fault *f)
{
    if (!rk_fleet_of(e)->device[0]->ops->memory_open)
        return no_device(f);
    pthread_mutex_lock(&e->open_lock);
    rk_memory **at = find_opened(e, handle);
    rp_err err = *at ? check_device(e, *at, uuid, f) : open_handle(e, handle, uuid, at, f);
    if (!err) {
        (*at)->uses++;
        *out = *at;
    }
    pthread_mutex_unlock(&e->open_lock);
    return err;
}

/* A descriptor does not say where its memory is: each device is asked. */
rp_err rk_memory_import(rk_engine *e, int fd, size_t bytes, rk_memory **out, rp_fault *f)
{
    const rk_fleet *v = rk_fleet_of(e);
    if (!v->device[0]->ops->memory_import)
        return no_device(f);
    unsigned i = 0;
    rk_device *d = next_live(v, &i);
    rp_err err = d ? rk_device_import(d, fd, bytes, out, f) : none_left(f);
    while (err && (d = next_live(v, &i)))
        err = rk_device_import(d, fd, bytes, out, f);
    f->code = err;
    return err;
}

static void close_opened(rk_engine *e, rk_memory *m)
{
    pthread_mutex_lock(&e->open_lock);
    if (--m->uses == 0) {
        *find_opened(e, m->handle) = m->next;
        rk_device_close_memory(m);
    }
    pthread_mutex_unlock(&e->open_lock);
}

void rk_memory_close(rk_engine *e, rk_memory *m)
{
    if (m && m->parts)
        close_parts(m);
    else if (m && m->kind == RK_MEMORY_OPENED)
        close_opened(e, m);
    else if (m)
        rk_device_close_memory(m);
}
