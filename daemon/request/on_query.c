#include "daemon/request/on_query.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/request/dispatch.h"
#include "daemon/request/dump.h"
#include "daemon/request/entries.h"
#include "daemon/request/held.h"
#include "daemon/request/reply.h"
#include "daemon/request/session_list.h"
#include "proto/clock.h"

static const char *health_name(rd_health_state h)
{
    static const char *const names[] = {"unknown", "ok", "slow", "wrong"};
    return names[h];
}

static uint64_t process_bytes(void)
{
    unsigned long pages;
    FILE *f = fopen("/proc/self/statm", "re");
    const bool known = f && fscanf(f, "%*u %lu", &pages) == 1;
    if (f)
        fclose(f);
    return known ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* Which arrays may clients reduce themselves? A daemon that is to use the GPU alone protects the processors. */
static const char *local_of(const rd_config *c) { return c->no_local || c->backend == RP_BACKEND_CUDA ? "small" : "yes"; }

static void put_device(rd_requests *q, const rk_stats *k, rp_writer *w)
{
    rd_put_text(w, "version", REDUCED_VERSION);
    rd_put_text(w, "backend", rp_backend_name(k->backend));
    rd_put_text(w, "device", k->device);
    rd_put_text(w, "device_note", q->why);
    rd_put_text(w, "simd", k->simd);
    rd_put_u64(w, "threads", (uint64_t)k->threads);
    rd_put_text(w, "local", local_of(q->config));
}

static void put_requests(const rd_stats *s, rp_writer *w)
{
    const rd_tally *t = &s->tally;
    rd_put_u64(w, "requests", t->requests);
#define X(NAME, name, code) rd_put_u64_of(w, "requests", name, t->by_msg[code]);
    RP_MSGS(X)
#undef X
#define X(NAME, name, code, ...) rd_put_u64_of(w, "requests", name, t->by_op[code]);
    RP_OPS(X)
#undef X
    rd_put_u64(w, "errors", t->errors);
    for (int i = 1; i < RD_ERRS; i++)
        if (s->by_err[i])
            rd_put_u64_of(w, "errors", rp_err_name(i), s->by_err[i]);
}

static void put_latency(const rd_histogram *h, rp_writer *w)
{
    rd_put_f64(w, "latency.p50_us", (double)rd_histogram_quantile(h, 0.5) * 1e-3);
    rd_put_f64(w, "latency.p90_us", (double)rd_histogram_quantile(h, 0.9) * 1e-3);
    rd_put_f64(w, "latency.p99_us", (double)rd_histogram_quantile(h, 0.99) * 1e-3);
    rd_put_f64(w, "latency.max_us", (double)h->max * 1e-3);
}

/* ---- gauges ---- */
static void measure_users(const rd_requests *q, rd_gauges *g)
{
    const rd_users *u = q->users;
    const rd_charges *all = &u->charges;
    g->files = rd_held(all, RD_HELD_FILES);
    g->devices = rd_held(all, RD_HELD_DEVICES);
    g->arena_bytes = rd_held(all, RD_HELD_ARENA_BYTES);
    g->arena_cap = u->cap_all[RD_HELD_ARENA_BYTES];
    g->residents = rd_held(all, RD_HELD_RESIDENTS);
    g->residents_kept = q->holdings->stored;
    g->resident_bytes = rd_held(all, RD_HELD_RESIDENT_BYTES);
    g->resident_cap = u->cap_all[RD_HELD_RESIDENT_BYTES];
    g->resident_user_cap = u->cap[RD_HELD_RESIDENT_BYTES];
    g->buffers = q->buffers.made;
    g->stuck = rd_workers_stuck(q->holdings->workers);
    g->read_bytes = (uint64_t)q->buffers.made * RP_MAX_DATA;
    g->read_cap = (uint64_t)q->buffers.cap * RP_MAX_DATA;
}

static void measure_requests(const rd_requests *q, rd_gauges *g)
{
    g->sessions = q->sessions->greeted;
    g->sessions_total = q->stats->sessions;
    g->connections = q->sessions->connections;
    g->streams = rd_sessions_streams(q->sessions);
    g->streams_total = q->streams_opened;
    g->inflight = rd_transport_busy(q->transport);
    g->in_engine = q->jobs + rd_fastpath_under_way(&q->fastpath);
    g->queued_small = q->sched.queue[RD_QUEUE_SMALL].queued;
    g->queued_large = q->sched.queue[RD_QUEUE_LARGE].queued;
    g->queued_read = q->sched.queue[RD_QUEUE_READ].queued;
    g->channels = q->fdpass->channels;
    g->disconnected = q->stats->dropped + q->fdpass->refused;
    g->bytes_in = q->stats->tally.bytes_in;
    const rp_claim claimed = rd_tally_claim(&q->stats->tally);
    g->claimed_requests = claimed.requests;
    g->claimed_bytes = claimed.bytes;
}

static void measure_engine(const rk_stats *k, rd_gauges *g)
{
    g->device_bytes = k->device_bytes;
    g->device_cap = k->device_cap;
    g->pinned_bytes = k->pinned_bytes;
    g->pinned_cap = k->pinned_cap;
    g->locked_bytes = k->locked_bytes;
    g->locked_cap = k->locked_cap;
    g->engine_devices = k->devices;
    g->engine_devices_lost = k->devices_lost;
    g->engine_devices_opening = k->opening;
    g->device_rate = k->device_rate;
    g->cpu_rate = k->cpu_rate;
    g->slots = k->slots;
    g->slots_busy = k->slots_busy;
    g->tasks = k->tasks;
    g->small_tasks = k->small_tasks;
    g->device_tasks = k->device_tasks;
    g->worker_tasks = k->tasks - k->small_tasks - k->device_tasks;
    g->active = k->active_ns;
    g->busy = k->busy_ns;
}

/* A single CPU engine needs no list of devices: the totals describe it. */
static void measure_gpus(const rd_requests *q, rd_measures *m)
{
    m->gpus = m->engine.backend == RP_BACKEND_CUDA || m->engine.devices > 1 ? m->engine.devices : 0;
    for (unsigned i = 0; i < m->gpus; i++)
        rk_get_device_stats(q->engine, i, &m->gpu[i]);
    rd_device_meter_read(q->meter, m->reading, m->gpus);
    m->device = rd_device_meter_sum(m->reading, m->gpus);
}

void rd_measure(void *requests, rd_measures *m)
{
    rd_requests *q = requests;
    *m = (rd_measures){.stats = q->stats, .users = q->users, .trace = q->trace};
    rd_stats_collect(q->stats);
    rk_get_stats(q->engine, &m->engine);
    m->certs = rd_transport_tls_ends(q->transport);
    measure_gpus(q, m);
    m->gauges.uptime = rp_now_ns() - q->stats->started_ns;
    m->gauges.healthy = q->health == RD_HEALTH_OK;
    m->gauges.process_bytes = process_bytes();
    measure_users(q, &m->gauges);
    measure_requests(q, &m->gauges);
    measure_engine(&m->engine, &m->gauges);
}

static void put_gauges(const rd_gauges *g, rp_writer *w)
{
    for (unsigned i = 0; i < RD_N_GAUGES; i++) {
        const rd_gauge *row = &rd_gauge_table[i];
        if (row->key && row->unit == RD_SECONDS)
            rd_put_f64(w, row->key, (double)rd_gauge_of(g, i) / 1e9);
        else if (row->key)
            rd_put_u64(w, row->key, rd_gauge_of(g, i));
    }
}

static void put_meter(const char *group, const rd_device_reading *d, rp_writer *w)
{
    rd_put_u64_of(w, group, "memory_bytes", d->memory_used);
    rd_put_u64_of(w, group, "memory_cap", d->memory_total);
    rd_put_u64_of(w, group, "temperature_c", d->celsius);
    rd_put_u64_of(w, group, "busy_percent", d->busy_percent);
    rd_put_f64_of(w, group, "power_w", d->milliwatts * 1e-3);
}

/* Which device it is: "gpu.0.uuid" and so on. */
static void put_gpu_name(const char *group, const rk_stats *k, rp_writer *w)
{
    rd_put_text_of(w, group, "uuid", k->uuid);
    rd_put_text_of(w, group, "state", k->lost ? "lost" : "ok");
    rd_put_u64_of(w, group, "ordinal", (uint64_t)k->ordinal);
}

static void put_info(rd_requests *q, const rd_measures *m, rp_writer *w)
{
    put_device(q, &m->engine, w);
    rd_put_u64(w, "protocol", RP_WIRE_VERSION);
    rd_put_u64(w, "limits.max_data", RP_MAX_DATA);
    rd_put_u64(w, "limits.max_strided", m->engine.backend == RP_BACKEND_CPU ? RP_MAX_STRIDED : RP_MAX_DATA);
    rd_put_u64(w, "limits.chunk_hint", RP_CHUNK_HINT);
    rd_put_u64(w, "limits.max_count", RP_MAX_COUNT);
    rd_put_u64(w, "limits.max_deadline_ms", RP_MAX_DEADLINE_MS);
    rd_put_u64(w, "limits.max_inflight", q->config->max_inflight);
    rd_put_u64(w, "limits.max_streams", q->config->max_streams);
    rd_put_u64(w, "limits.max_sessions", q->config->max_sessions);
    rd_put_u64(w, "limits.contexts", q->config->contexts);
    rd_put_u64(w, "limits.small_bytes", q->config->small_bytes);
    rd_put_u64(w, "devices_opening", m->engine.opening);
    rd_put_u64(w, "rate.device", m->engine.device_rate);
    rd_put_u64(w, "rate.cpu", m->engine.cpu_rate);
    for (unsigned i = 0; i < m->gpus; i++) {
        char group[16];
        snprintf(group, sizeof group, "gpu.%u", i);
        put_gpu_name(group, &m->gpu[i], w);
    }
}

/* Entries that a status reply has to spare for the GPUs. Six GPUs have all of theirs, 14 those of put_gpu_use. `info` names all
 * GPUs, and the metrics have the rest. */
enum { GPU_ENTRIES = 84, GPU_ALL = 14, GPU_USE = 6 };

static void put_gpu_use(const char *group, const rk_stats *k, rp_writer *w)
{
    put_gpu_name(group, k, w);
    rd_put_u64_of(w, group, "tasks", k->tasks);
    rd_put_f64_of(w, group, "busy_s", (double)k->active_ns / 1e9);
    rd_put_u64_of(w, group, "resident_bytes", k->resident_bytes);
}

static void put_gpu_caps(const char *group, const rk_stats *k, const rd_device_reading *d, rp_writer *w)
{
    rd_put_u64_of(w, group, "slots", k->slots);
    rd_put_u64_of(w, group, "slots_busy", k->slots_busy);
    rd_put_u64_of(w, group, "resident_cap", k->resident_cap);
    if (d->valid)
        put_meter(group, d, w);
}

static void put_gpus(const rd_measures *m, rp_writer *w)
{
    char group[16];
    for (unsigned i = 0; i < m->gpus && i < GPU_ENTRIES / GPU_USE; i++) {
        snprintf(group, sizeof group, "gpu.%u", i);
        put_gpu_use(group, &m->gpu[i], w);
        if (m->gpus <= GPU_ENTRIES / GPU_ALL)
            put_gpu_caps(group, &m->gpu[i], &m->reading[i], w);
    }
}

static void put_status(rd_requests *q, const rd_measures *m, rp_writer *w)
{
    put_device(q, &m->engine, w);
    rd_put_text(w, "health", m->engine.devices_lost && q->health == RD_HEALTH_OK ? "degraded" : health_name(q->health));
    for (unsigned i = 0; i < q->n_urls; i++) {
        char key[RP_MAX_KEY + 1];
        snprintf(key, sizeof key, "listen.%u", i);
        rd_put_text(w, key, q->urls[i]);
    }
    if (m->device.valid)
        put_meter("device", &m->device, w);
    put_gpus(m, w);
    put_gauges(&m->gauges, w);
    put_requests(q->stats, w);
    put_latency(&q->stats->tally.latency, w);
}

size_t rd_status_entries(void *requests, const rd_measures *m, uint8_t *out, size_t cap)
{
    rp_writer w = {.out = out, .cap = cap};
    put_status(requests, m, &w);
    return w.used;
}

rd_process *rd_processes(void *requests, size_t *n)
{
    const rd_requests *q = requests;
    return rd_session_list_processes(q->sessions, n);
}

static rp_err answer_metrics(rd_requests *q, rd_request *r, rp_fault *f)
{
    if (!rd_metrics_refresh(q->metrics))
        return rd_no_memory(f);
    bool admin = rd_session_is_admin(r->session);              /* others do not see what other users do */
    size_t len = admin ? q->metrics->len : q->metrics->totals; /* without the lock: only the loop changes them */
    uint8_t *body = rd_exchange_reply(&r->exchange, len);
    if (!body)
        return rd_no_memory(f);
    memcpy(body, q->metrics->text, len);
    rd_answer(q, r, len);
    return RP_OK;
}

static rp_err answer_entries(rd_requests *q, rd_request *r, uint32_t topic, rp_fault *f)
{
    rd_measures m;
    uint8_t *body = rd_exchange_reply(&r->exchange, RD_STATUS_BYTES);
    if (!body)
        return rd_no_memory(f);
    rp_writer w = {.out = body, .cap = RD_STATUS_BYTES};
    rd_measure(q, &m);
    if (topic == RP_TOPIC_INFO)
        put_info(q, &m, &w);
    else
        put_status(q, &m, &w);
    if (topic == RP_TOPIC_STATUS)
        rd_put_held(q, r->session, &w);
    rd_answer(q, r, w.used);
    return RP_OK;
}

enum { LIST_BYTES = RP_MAX_ENTRIES * (RP_ENTRY_SIZE + RP_MAX_KEY + RP_MAX_VALUE) }; /* room for the longest entries */

/* The oldest requests, as many as a reply has entries for, and the number of all. */
static rp_err answer_requests(rd_requests *q, rd_request *r, rp_fault *f)
{
    rd_dump d;
    uint8_t *body = rd_exchange_reply(&r->exchange, LIST_BYTES);
    if (!body || !rd_dump_take(q, r->session, &d))
        return rd_no_memory(f);
    rp_writer w = {.out = body, .cap = LIST_BYTES};
    rd_put_u64(&w, "requests", d.n);
    for (size_t i = 0; i < d.n && i + 1 < RP_MAX_ENTRIES; i++) {
        char key[RP_MAX_KEY + 1];
        snprintf(key, sizeof key, "request.%u", d.line[i].exchange);
        rd_put_text(&w, key, d.line[i].text);
    }
    rd_dump_free(&d);
    rd_answer(q, r, w.used);
    return RP_OK;
}

static rp_err answer_sessions(rd_requests *q, rd_request *r, rp_fault *f)
{
    uint8_t *body = rd_exchange_reply(&r->exchange, LIST_BYTES);
    if (!body)
        return rd_no_memory(f);
    rp_writer w = {.out = body, .cap = LIST_BYTES};
    rd_session_list_put(q->sessions, r->session, &w);
    rd_answer(q, r, w.used);
    return RP_OK;
}

rp_err rd_on_query(rd_requests *q, rd_request *r, rp_fault *f)
{
    uint32_t topic;
    rp_err err = rp_get_query(r->body, r->body_len, &topic, f);
    if (err)
        return err;
    if (topic == RP_TOPIC_METRICS)
        return answer_metrics(q, r, f);
    if (topic == RP_TOPIC_SESSIONS)
        return answer_sessions(q, r, f);
    return topic == RP_TOPIC_REQUESTS ? answer_requests(q, r, f) : answer_entries(q, r, topic, f);
}
