/* The front of the engines: finds a device for each task, runs small tasks at once, checks health, sums counters.
 *
 * Threads: the owner's thread queues tasks, calls rk_poll and rk_get_stats; backend threads call rk_complete (inflight.c); any
 * thread submits in the other ways. Shared state is in the devices, under their locks. */
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/engine/front.h"
#include "kernels/engine/helper.h"
#include "kernels/engine/select.h"
#include "kernels/engine/share.h"

/* ---- which device ---- */

/* The device with the least work queued. A faster device empties its queue sooner, so it gets work at its measured rate. NULL:
 * all are lost. */
static rk_device *least_loaded(const rk_fleet *v)
{
    rk_device *best = NULL;
    for (unsigned i = 0; i < v->devices; i++) {
        rk_device *d = v->device[i];
        if (!rk_device_is_lost(d) && (!best || rk_inflight_load(&d->tasks) < rk_inflight_load(&best->tasks)))
            best = d;
    }
    return best;
}

/* Tiles of a large array come one after the other. So devices and CPU each take a share, and end at about the same time. */
static rk_device *shared(const rk_fleet *v, const rk_task *t)
{
    rk_inflight *tasks[RK_MAX_DEVICES + 1];
    for (unsigned i = 0; i < v->devices; i++)
        tasks[i] = rk_device_is_lost(v->device[i]) ? NULL : &v->device[i]->tasks;
    tasks[v->devices] = &v->helper->tasks;
    const unsigned i = rk_share(tasks, v->devices + 1, rk_task_size(t));
    return i < v->devices ? v->device[i] : v->helper;
}

rk_device *rk_device_for(const rk_fleet *v, const rk_task *t)
{
    if (t->memory)
        return t->memory->device;
    if (t->spec.device)
        return v->device[(t->spec.device - 1) % v->devices];
    if (v->helper && (t->spec.flags & RP_KEYS || !rk_device_takes(v->device[0], t)))
        return v->helper;
    if (v->helper && t->bytes >= RK_SHARED_BYTES && !(t->spec.flags & RP_STATES_IN))
        return shared(v, t);
    rk_device *d = v->devices == 1 ? v->device[0] : least_loaded(v);
    return d ? d : v->device[0];
}

/* ---- tasks ---- */

/* Does the task run in the submitter's thread? The probe never does, because it tests the backend. Nor do data on a device, or
 * on several. Partial states do: a launch for those of a file's parts took a tenth of the file's time. */
static bool is_small(const rk_engine *e, const rk_task *t)
{
    if (t->fill || (t->memory && (t->memory->parts || t->memory->device->backend == RP_BACKEND_CUDA)))
        return false;
    return t->data != e->probe_data && rk_task_size(t) <= e->o.small_bytes;
}

void rk_work_begin(rk_engine *e)
{
    rk_reading_begin(&e->reading);
    rk_busy_begin(&e->busy);
}

void rk_states_join(void *into, const void *from, uint64_t n, size_t size)
{
    const uint64_t saved = rk_fp_enter();
    for (uint64_t i = 0; i < n; i++)
        rk_state_merge((rk_state *)((uint8_t *)into + i * size), (const rk_state *)((const uint8_t *)from + i * size));
    rk_fp_leave(saved);
}

void rk_work_end(rk_engine *e)
{
    rk_busy_end(&e->busy);
    rk_reading_end(&e->reading);
}

static void run_small(rk_engine *e, const rk_fleet *v, rk_task *t)
{
    rk_device *d = rk_device_for(v, t);
    rk_device_locate(d, t);
    t->device = (uint8_t)rk_device_number(d);
    rk_busy_begin(&e->busy);
    rk_cpu_run(t);
    rk_busy_end(&e->busy);
    rk_inflight_past(&d->tasks, t, true);
}

static void submit_queued(rk_engine *e, const rk_fleet *v, rk_task *t)
{
    if (t->memory && t->memory->parts)
        rk_joints_submit(&e->joints, t);
    else
        rk_device_submit(rk_device_for(v, t), t, NULL);
}

static bool submit_alone(const rk_fleet *v, rk_task *t)
{
    return !(t->memory && t->memory->parts) && rk_device_submit_alone(rk_device_for(v, t), t, t->done);
}

rk_submitted rk_submit(rk_engine *e, rk_task *t, unsigned ways)
{
    const rk_fleet *v = rk_fleet_of(e);
    if (ways & RK_HERE && is_small(e, t)) {
        run_small(e, v, t);
        return RK_FINISHED;
    }
    if (ways & RK_ALONE && submit_alone(v, t))
        return RK_UNDER_WAY;
    if (!(ways & RK_QUEUED))
        return RK_REFUSED;
    submit_queued(e, v, t);
    return RK_UNDER_WAY;
}

/* The task's device failed, and any other device can do the task. */
static bool moves_on(rk_engine *e, rk_task *t)
{
    if (t->fault.code != RP_DEVICE_LOST || t->memory || t->spec.device)
        return false;
    rk_device *d = least_loaded(rk_fleet_of(e));
    if (d)
        rk_device_submit(d, t, NULL);
    return d != NULL;
}

static rk_task *poll_all(rk_engine *e)
{
    const rk_fleet *v = rk_fleet_of(e);
    rk_task *t = NULL;
    for (unsigned i = 0; i < v->devices && !t; i++)
        t = rk_inflight_poll(&v->device[i]->tasks);
    if (!t && v->helper)
        t = rk_inflight_poll(&v->helper->tasks);
    if (!t && e->stand_in)
        t = rk_inflight_poll(&e->stand_in->tasks);
    return t || v->devices == 1 ? t : rk_inflight_poll(&e->joints.tasks);
}

rk_task *rk_poll(rk_engine *e)
{
    rk_task *t;
    while ((t = poll_all(e)) && moves_on(e, t))
        ;
    return t;
}

/* Pins on the first device that can; the later ones note it, too. */
static bool engine_pin(const rk_engine *e, const void *base, size_t bytes)
{
    const rk_fleet *v = rk_fleet_to_be(e);
    bool pinned = false;
    for (unsigned i = 0; i < v->devices; i++) {
        const rk_device *d = v->device[i];
        pinned |= d->ops->pin && !rk_device_is_lost(d) && d->ops->pin(d->impl, base, bytes);
    }
    return pinned;
}

void rk_pin_noted(rk_engine *e) { rk_noted_pins_end(&e->noted, engine_pin, e); }

bool rk_pin(rk_engine *e, const void *base, size_t bytes)
{
    bool noted;
    return rk_noted_pins_add(&e->noted, base, bytes, &noted) ? noted : engine_pin(e, base, bytes);
}

void rk_unpin(rk_engine *e, const void *base)
{
    if (rk_noted_pins_remove(&e->noted, base))
        return;
    const rk_fleet *v = rk_fleet_to_be(e);
    for (unsigned i = v->devices; i-- > 0;) /* backwards: the device that locked it comes last */
        if (v->device[i]->ops->unpin)
            v->device[i]->ops->unpin(v->device[i]->impl, base);
}

/* ---- health ---- */

void rk_probe_fill(rk_task *t, double *quads, double *cell)
{
    for (int k = 0; k < PROBE_QUADS; k++) {
        double quad[4] = {0x1p900, k, -0x1p900, 0x1p-1074};
        memcpy(quads + 4 * k, quad, sizeof quad);
    }
    *cell = 0;
    memset(t, 0, sizeof *t);
    t->spec = (rp_spec){.op = RP_OP_SUM, .dtype = RP_F64, .out = RP_F64, .rows = 1, .row_len = PROBE_ELEMENTS};
    t->data = quads;
    t->bytes = PROBE_ELEMENTS * sizeof *quads;
    t->cells = cell;
}

void rk_probe(rk_engine *e, unsigned device, rk_task *t)
{
    rk_probe_fill(t, e->probe_data, &e->probe_cell[device]);
    t->spec.device = (uint16_t)(device + 1);
}

bool rk_probe_ok(const rk_task *t)
{
    double want = PROBE_QUADS * (PROBE_QUADS - 1) / 2, got;
    memcpy(&got, t->cells, sizeof got);
    return t->fault.code == RP_OK && got == want;
}

void rk_retire(rk_engine *e, unsigned device) { rk_inflight_lose(&rk_fleet_of(e)->device[device]->tasks); }

/* ---- devices and counters ---- */

bool rk_opening(const rk_engine *e) { return __atomic_load_n(&e->phase, __ATOMIC_ACQUIRE) != RK_SETTLED; }

unsigned rk_devices(const rk_engine *e) { return rk_fleet_of(e)->devices; }

unsigned rk_sharers(const rk_engine *e)
{
    const rk_fleet *v = rk_fleet_of(e);
    return v->devices + (v->helper != NULL);
}

bool rk_device_lost(const rk_engine *e, unsigned device) { return rk_device_is_lost(rk_fleet_of(e)->device[device]); }

unsigned rk_devices_left(const rk_engine *e)
{
    const rk_fleet *v = rk_fleet_of(e);
    unsigned left = 0;
    if (v->device[0]->ops->settle)
        v->device[0]->ops->settle();
    for (unsigned i = 0; i < v->devices; i++)
        left += !rk_device_is_lost(v->device[i]);
    return left;
}

static unsigned infos_of(const rk_engine *e, rk_device_info *out)
{
    const rk_fleet *v = rk_fleet_of(e);
    for (unsigned i = 0; i < v->devices; i++)
        out[i] = v->device[i]->info;
    return v->devices;
}

void rk_device_names(const rk_engine *e, char *out, size_t cap)
{
    rk_device_info there[RK_MAX_DEVICES];
    rk_device_list(there, infos_of(e, there), out, cap);
}

void rk_get_device_stats(rk_engine *e, unsigned device, rk_stats *s) { rk_device_stats(rk_fleet_of(e)->device[device], s); }

/* What a device has done, and the memory in use there. */
static void add_work(rk_stats *s, const rk_stats *d)
{
    s->resident_bytes += d->resident_bytes;
    s->tasks += d->tasks;
    s->small_tasks += d->small_tasks;
    s->busy_ns += d->busy_ns;
}

/* The sum of the devices' counters. */
static void add_stats(rk_stats *s, const rk_stats *d)
{
    add_work(s, d);
    s->devices += d->devices;
    s->devices_lost += d->devices_lost;
    s->device_rate += d->device_rate;
    s->cpu_rate += d->cpu_rate;
    s->threads += d->threads;
    s->device_bytes += d->device_bytes;
    s->pinned_bytes += d->pinned_bytes;
    s->device_cap += d->device_cap;
    s->pinned_cap += d->pinned_cap;
    s->locked_bytes += d->locked_bytes;
    s->resident_cap += d->resident_cap;
    s->imports += d->imports;
    s->slots += d->slots;
    s->slots_busy += d->slots_busy;
    s->device_tasks += d->device_tasks;
}

static void add_helper(rk_stats *s, rk_device *helper)
{
    rk_stats h;
    rk_device_stats(helper, &h);
    s->threads += h.threads;
    s->cpu_rate = h.cpu_rate;
    s->tasks += h.tasks;
    s->busy_ns += h.busy_ns;
    snprintf(s->simd, sizeof s->simd, "%s", h.simd);
}

/* What the CPU did before the devices joined, so that no counter goes back. */
static void add_stand_in(rk_stats *s, rk_device *stand_in)
{
    rk_stats h;
    rk_device_stats(stand_in, &h);
    add_work(s, &h);
}

static void sum_stats(const rk_engine *e, const rk_fleet *v, rk_stats *s)
{
    for (unsigned i = 1; i < v->devices; i++) {
        rk_stats d;
        rk_device_stats(v->device[i], &d);
        add_stats(s, &d);
    }
    s->lost = s->devices_lost == s->devices;
    if (v->helper)
        add_helper(s, v->helper);
    if (v->devices == 1)
        return;
    s->uuid[0] = 0;
    if (e->o.resident_bytes && s->resident_cap > e->o.resident_bytes)
        s->resident_cap = e->o.resident_bytes;
}

void rk_get_stats(rk_engine *e, rk_stats *s)
{
    const rk_fleet *v = rk_fleet_of(e);
    rk_device_stats(v->device[0], s);
    sum_stats(e, v, s);
    s->opening = rk_opening(e);
    if (e->stand_in && v->device[0] != e->stand_in)
        add_stand_in(s, e->stand_in);
    s->active_ns = rk_busy_ns(&e->busy);
}
