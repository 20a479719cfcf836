#include "daemon/opening.h"

#include <stdio.h>

#include "daemon/base/host.h"
#include "daemon/base/log.h"
#include "daemon/base/notify.h"
#include "daemon/base/sandbox.h"
#include "daemon/health.h"
#include "daemon/request/dispatch.h"
#include "daemon/request/executor.h"
#include "daemon/state/handle.h"
#include "daemon/state/resident.h"
#include "proto/clock.h"

/* ---- the thread ---- */
static void *opening_run(void *server)
{
    rd_server *s = server;
    while (sem_wait(&s->opening.go) != 0) /* a signal */
        ;
    if (s->requests.engine)
        rk_open_devices(s->requests.engine);
    atomic_store(&s->opening.done, true);
    rd_waker_ring(&s->waker);
    return NULL;
}

bool rd_opening_begin(rd_server *s, const rk_options *o)
{
    if (!rk_may_be_early(o) || sem_init(&s->opening.go, 0, 0) != 0)
        return false;
    s->opening.begun = pthread_create(&s->opening.thread, NULL, opening_run, s) == 0;
    return s->opening.begun;
}

void rd_opening_go(rd_server *s)
{
    s->opening.since_ns = rp_now_ns();
    if (s->opening.begun)
        sem_post(&s->opening.go);
    s->opening.posted = s->opening.begun;
}

bool rd_opening_end(rd_server *s)
{
    if (s->opening.begun && !s->opening.posted) { /* the start failed */
        sem_post(&s->opening.go);
    } else if (s->opening.begun && !atomic_load(&s->opening.done)) {
        pthread_detach(s->opening.thread);
        return false;
    }
    if (s->opening.begun)
        pthread_join(s->opening.thread, NULL);
    s->opening.begun = false;
    return true;
}

/* ---- what depends on the devices ---- */
static void set_resident_caps(rd_server *s)
{
    rk_stats k;
    rk_get_stats(s->requests.engine, &k);
    s->users.cap_all[RD_HELD_RESIDENT_BYTES] = k.resident_cap;
    s->users.cap[RD_HELD_RESIDENT_BYTES] = s->config.resident_user ? s->config.resident_user << 20 : k.resident_cap / 2;
}

/* The meter is for monitoring only; without NVML monitoring shows less. */
static void open_meter(rd_server *s)
{
    const unsigned n = rk_devices(s->requests.engine);
    int ordinals[RK_MAX_DEVICES];
    rk_stats k;
    for (unsigned i = 0; i < n; i++) {
        rk_get_device_stats(s->requests.engine, i, &k);
        ordinals[i] = k.ordinal;
    }
    if (k.backend == RP_BACKEND_CUDA)
        s->requests.meter = s->meter = rd_device_meter_open(ordinals, n);
}

/* The devices' names in the log. */
static void label_devices(rd_server *s)
{
    for (unsigned i = 0; i < rk_devices(s->requests.engine); i++) {
        rk_stats k;
        rk_get_device_stats(s->requests.engine, i, &k);
        if (k.backend == RP_BACKEND_CUDA || rk_devices(s->requests.engine) > 1)
            snprintf(s->requests.devices[i].label, sizeof s->requests.devices[i].label, "device %d (%s)", k.ordinal, k.uuid);
    }
}

/* Do readers reduce what they read? They do not if there are devices, or may be later. */
static bool readers_reduce(const rd_server *s)
{
    rk_stats k;
    rk_get_stats(s->requests.engine, &k);
    return k.backend == RP_BACKEND_CPU && !rk_opening(s->requests.engine);
}

/* Half of a machine's cores saturate its memory bus; the others are for small requests. On few cores there are more readers,
 * because they wait for disks. 16 saturate the bus of one device. Several devices, a device and the CPU, or readers that reduce
 * get seven eighths of the cores (tests/bench/tuning/devices.md). */
unsigned rd_opening_readers(const rd_server *s)
{
    const unsigned half = rd_half_the_cores(), sharers = rk_sharers(s->requests.engine);
    const unsigned fit = sharers > 1 || readers_reduce(s) ? half * 7 / 4 : half,
                   most = 16 * sharers < RD_MAX_READERS ? 16 * sharers : RD_MAX_READERS;
    if (s->config.readers)
        return (unsigned)s->config.readers;
    return fit < 4 ? 4 : fit > most ? most : fit;
}

/* Copies of data on a device take at most a quarter of the host's memory, as arenas do. */
static void choose_keep(rd_server *s)
{
    rd_holdings *h = &s->holdings;
    rk_stats k;
    rk_get_stats(s->requests.engine, &k);
    h->store_room = rd_notify_store_room();
    if (!h->store_room || s->config.no_resident_keep)
        h->keep = RD_KEEP_NONE;
    else
        h->keep = k.backend == RP_BACKEND_CPU ? RD_KEEP_IN_PLACE : RD_KEEP_COPY;
    h->copied_cap = rd_host_memory() / 4;
}

void rd_opening_know(rd_server *s)
{
    label_devices(s);
    set_resident_caps(s);
    choose_keep(s);
    open_meter(s);
}

/* ---- joining ---- */
static void tell(const rd_server *s, rp_err err)
{
    const unsigned long long ms = (rp_now_ns() - s->opening.since_ns) / RP_NS_PER_MS;
    if (!err)
        rd_log(RD_LOG_INFO, "the devices are open after %llu ms: %s", ms, s->requests.why);
    else /* the machine has no device at all */
        rd_log(err == RP_TYPE ? RD_LOG_INFO : RD_LOG_WARN, "no device is open after %llu ms: %s", ms, s->requests.why);
}

static void fit(rd_server *s)
{
    const unsigned n = rd_opening_readers(s);
    rd_opening_know(s);
    rd_executor_fit(&s->requests);
    rd_workers_fit(&s->workers, n);
    s->requests.buffers.cap = 2 * n;
}

/* The fast path is closed meanwhile, because its threads read the names of devices. */
static bool join(rd_server *s, rp_err *err)
{
    rd_requests *q = &s->requests;
    rd_fastpath_close(&q->fastpath);
    const bool joined = rk_join(q->engine, err, q->why, sizeof q->why);
    if (joined && !*err)
        fit(s);
    if (q->serving)
        rd_fastpath_reopen(&q->fastpath);
    return joined;
}

void rd_opening_turn(rd_server *s)
{
    rp_err err;
    if (!s->opening.begun || !atomic_load(&s->opening.done) || !rd_opening_end(s) || s->requests.halted || !join(s, &err))
        return;
    tell(s, err);
    if (!s->config.no_sandbox)
        rd_sandbox_gather();
    rd_handles_open_late(&s->holdings);
    if (!err)
        rd_residents_move(&s->holdings);
    rd_dispatch_held(&s->requests);
    if (s->phase >= RD_SERVING)
        rd_health_tell(s);
}
