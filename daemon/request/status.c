/* QUERY: what this daemon is (info), what it is doing (status), and its counters (metrics). The keys are stable: people's
 * scripts read them. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/request/dispatch.h"

static void put_u64(rp_writer *w, const char *key, uint64_t v)
{
    rp_entry e = {.kind = RP_KIND_U64, .key = key, .key_len = (uint8_t)strlen(key), .u64 = v};
    rp_put_entry(w, &e);
}

static void put_f64(rp_writer *w, const char *key, double v)
{
    rp_entry e = {.kind = RP_KIND_F64, .key = key, .key_len = (uint8_t)strlen(key), .f64 = v};
    rp_put_entry(w, &e);
}

static void put_text(rp_writer *w, const char *key, const char *text)
{
    rp_entry e = {.kind = RP_KIND_TEXT, .key = key, .key_len = (uint8_t)strlen(key)};
    e.text = text;
    e.text_len = (uint16_t)strlen(text);
    rp_put_entry(w, &e);
}

/* "requests." + "sum" */
static void put_counter(rp_writer *w, const char *group, const char *name, uint64_t v)
{
    char key[RP_MAX_KEY + 1];
    snprintf(key, sizeof key, "%s.%s", group, name);
    put_u64(w, key, v);
}

static const char *health_name(rd_health h)
{
    static const char *const names[] = {"unknown", "ok", "slow", "wrong"};
    return names[h];
}

uint64_t rd_resident_bytes(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%*u %lu", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void put_device(rd_server *s, const rk_stats *k, rp_writer *w)
{
    put_text(w, "version", REDUCED_VERSION);
    put_text(w, "backend", rp_backend_name(k->backend));
    put_text(w, "device", k->device);
    put_text(w, "device_note", s->why);
    put_text(w, "simd", k->simd);
    put_u64(w, "threads", (uint64_t)k->threads);
}

static void put_info(rd_server *s, const rk_stats *k, rp_writer *w)
{
    put_device(s, k, w);
    put_u64(w, "protocol", RP_WIRE_VERSION);
    put_u64(w, "limits.max_data", RP_MAX_DATA);
    put_u64(w, "limits.chunk_hint", RP_CHUNK_HINT);
    put_u64(w, "limits.max_count", RP_MAX_COUNT);
    put_u64(w, "limits.max_deadline_ms", RP_MAX_DEADLINE_MS);
    put_u64(w, "limits.max_inflight", s->config.max_inflight);
    put_u64(w, "limits.max_streams", s->config.max_streams);
    put_u64(w, "limits.max_sessions", s->config.max_sessions);
    put_u64(w, "limits.contexts", s->config.contexts);
    put_u64(w, "limits.small_bytes", s->config.small_bytes);
    put_u64(w, "limits.batch_bytes", s->config.batch_bytes);
}

static void put_requests(const rd_stats *s, rp_writer *w)
{
    const rd_tally *t = &s->tally;
    put_u64(w, "requests", t->requests);
#define X(NAME, name, code) put_counter(w, "requests", name, t->by_msg[code]);
    RP_MSGS(X)
#undef X
#define X(NAME, name, code, help) put_counter(w, "requests", name, t->by_op[code]);
    RP_OPS(X)
#undef X
    put_u64(w, "errors", t->errors);
    for (int i = 1; i < RD_ERRS; i++)
        if (s->by_err[i])
            put_counter(w, "errors", rp_err_name(i), s->by_err[i]);
    put_u64(w, "disconnected", s->dropped);
    put_u64(w, "bytes_in", t->bytes_in);
}

static void put_engine(const rk_stats *k, rp_writer *w)
{
    put_u64(w, "pool.device.bytes", k->device_bytes);
    put_u64(w, "pool.device.cap", k->device_cap);
    put_u64(w, "pool.pinned.bytes", k->pinned_bytes);
    put_u64(w, "pool.pinned.cap", k->pinned_cap);
    put_u64(w, "pool.locked.bytes", k->locked_bytes);
    put_u64(w, "pool.locked.cap", k->locked_cap);
    put_u64(w, "pool.slots", k->slots);
    put_u64(w, "pool.slots_busy", k->slots_busy);
    put_u64(w, "tasks", k->tasks);
    put_u64(w, "tasks_small", k->small_tasks);
    put_u64(w, "tasks_device", k->device_tasks);
    put_f64(w, "busy_s", (double)k->busy_ns * 1e-9);
}

/* "batch.4" counts the batches of 4 to 7 requests. */
static void put_batches(const rk_stats *k, rp_writer *w)
{
    put_u64(w, "batch.launches", k->batches);
    put_u64(w, "batch.requests", k->batched_tasks);
    put_u64(w, "batch.largest", k->largest_batch);
    for (unsigned i = 0; i < RK_BATCH_SIZES; i++) {
        char size[12];
        snprintf(size, sizeof size, "%u", 1u << i);
        put_counter(w, "batch", size, k->batch_sizes[i]);
    }
}

static void put_latency(const rd_histogram *h, rp_writer *w)
{
    put_f64(w, "latency.p50_us", (double)rd_histogram_quantile(h, 0.5) * 1e-3);
    put_f64(w, "latency.p90_us", (double)rd_histogram_quantile(h, 0.9) * 1e-3);
    put_f64(w, "latency.p99_us", (double)rd_histogram_quantile(h, 0.99) * 1e-3);
    put_f64(w, "latency.max_us", (double)h->max * 1e-3);
}

static void put_status(rd_server *s, const rk_stats *k, rp_writer *w)
{
    put_device(s, k, w);
    put_f64(w, "uptime_s", (double)(rd_now_ns() - s->stats.started_ns) * 1e-9);
    put_text(w, "health", health_name(s->health));
    for (unsigned i = 0; i < s->serving; i++) {
        char key[RP_MAX_KEY + 1];
        snprintf(key, sizeof key, "listen.%u", i);
        put_text(w, key, s->urls[i]);
    }
    put_u64(w, "sessions", s->sessions.greeted);
    put_u64(w, "sessions_total", s->stats.sessions);
    put_u64(w, "connections", s->sessions.connections);
    put_u64(w, "streams", rd_sessions_streams(&s->sessions));
    put_u64(w, "streams_total", s->streams_opened);
    put_u64(w, "inflight", rd_transport_busy(s->transport));
    put_u64(w, "side.channels", s->fdpass.channels);
    put_u64(w, "side.files", s->users.files);
    put_u64(w, "side.arena_bytes", s->users.arena_bytes);
    put_u64(w, "side.arena_cap", s->users.arena_cap);
    put_u64(w, "side.devices", s->users.devices);
    put_u64(w, "side.buffers", s->buffers.made);
    put_u64(w, "resident.arrays", s->users.residents);
    put_u64(w, "resident.bytes", s->users.resident_bytes);
    put_u64(w, "resident.cap", s->users.resident_cap);
    put_u64(w, "resident.user_cap", s->users.resident_user_cap);
    rd_fastpath_collect(&s->fastpath, &s->stats.tally);
    put_requests(&s->stats, w);
    put_engine(k, w);
    put_batches(k, w);
    put_latency(&s->stats.tally.latency, w);
    put_u64(w, "rss_bytes", rd_resident_bytes());
}

static rp_err answer_metrics(rd_server *s, rd_request *r, rp_fault *f)
{
    if (!rd_metrics_refresh(s))
        return rd_no_memory(f);
    const rd_peer *p = &r->session->peer;
    bool admin = p->local && (p->uid == 0 || p->uid == geteuid()); /* others see no other user's doings */
    size_t len = admin ? s->metrics.len : s->metrics.totals;       /* the loop alone changes them: it needs no lock */
    uint8_t *body = rd_exchange_reply(&r->exchange, len);
    if (!body)
        return rd_no_memory(f);
    memcpy(body, s->metrics.text, len);
    rd_answer(s, r, len);
    return RP_OK;
}

static rp_err answer_entries(rd_server *s, rd_request *r, uint32_t topic, rp_fault *f)
{
    rk_stats k;
    enum { ROOM = 16384 }; /* some 80 entries of at most 300 bytes; all but a few have 40 */
    uint8_t *body = rd_exchange_reply(&r->exchange, ROOM);
    if (!body)
        return rd_no_memory(f);
    rp_writer w = {.out = body, .cap = ROOM};
    rk_get_stats(s->engine, &k);
    if (topic == RP_TOPIC_INFO)
        put_info(s, &k, &w);
    else
        put_status(s, &k, &w);
    rd_answer(s, r, w.used);
    return RP_OK;
}

rp_err rd_on_query(rd_server *s, rd_request *r, rp_fault *f)
{
    uint32_t topic;
    rp_err err = rp_get_query(r->body, r->body_len, &topic, f);
    if (err)
        return err;
    return topic == RP_TOPIC_METRICS ? answer_metrics(s, r, f) : answer_entries(s, r, topic, f);
}
