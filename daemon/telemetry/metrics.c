#include "daemon/telemetry/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/request/executor.h"

enum {
    SHARE = 20,    /* the text is made again when it is older than so many times what making it took */
    FIRST_LE = 10, /* histograms: the smallest bucket is below 2^10 ns = 1 us, ... */
    LAST_LE = 34   /* ... the largest below 2^34 ns = 17 s */
};

/* ---- lines ---- */
static void family(FILE *f, const char *name, const char *type, const char *help)
{
    fprintf(f, "# HELP reduced_%s %s\n# TYPE reduced_%s %s\n", name, help, name, type);
}

static void one(FILE *f, const char *name, const char *type, const char *help, uint64_t v)
{
    family(f, name, type, help);
    fprintf(f, "reduced_%s %" PRIu64 "\n", name, v);
}

static void seconds(FILE *f, const char *name, const char *type, const char *help, uint64_t ns)
{
    family(f, name, type, help);
    fprintf(f, "reduced_%s %.9f\n", name, (double)ns * 1e-9);
}

static void labelled(FILE *f, const char *name, const char *label, const char *value, uint64_t v)
{
    fprintf(f, "reduced_%s{%s=\"%s\"} %" PRIu64 "\n", name, label, value, v);
}

/* A text from elsewhere as a label's value. */
static void put_label(FILE *f, const char *label, const char *value)
{
    fprintf(f, "%s=\"", label);
    for (; *value; value++)
        if (*value == '\n')
            fputs("\\n", f);
        else if (*value == '"' || *value == '\\')
            fprintf(f, "\\%c", *value);
        else
            fputc(*value, f);
    fputc('"', f);
}

/* ---- families ---- */
static void put_daemon(FILE *f, const rd_server *s, const rk_stats *k)
{
    family(f, "info", "gauge", "What this daemon is; always 1.");
    fputs("reduced_info{version=\"" REDUCED_VERSION "\",", f);
    put_label(f, "backend", rp_backend_name(k->backend));
    fputc(',', f);
    put_label(f, "device", k->device);
    fputc(',', f);
    put_label(f, "simd", k->simd);
    fputs("} 1\n", f);
    seconds(f, "uptime_seconds", "gauge", "Since the daemon started.", rd_now_ns() - s->stats.started_ns);
    one(f, "healthy", "gauge", "1 if the last health check, a real reduction, gave the right answer.",
        s->health == RD_HEALTH_OK);
    one(f, "process_bytes", "gauge", "Memory of the process, resident.", rd_resident_bytes());
    one(f, "connections", "gauge", "Open connections.", s->sessions.connections);
    one(f, "sessions", "gauge", "Of these, those that said hello.", s->sessions.greeted);
    one(f, "sessions_total", "counter", "Sessions ever.", s->stats.sessions);
    one(f, "streams", "gauge", "Open streams.", rd_sessions_streams(&s->sessions));
    one(f, "streams_total", "counter", "Streams ever.", s->streams_opened);
    one(f, "disconnects_total", "counter", "Connections closed for bad framing or for not reading.", s->stats.dropped);
}

static void put_queues(FILE *f, const rd_server *s)
{
    static const char *const lanes[RD_LANES] = {"small", "large", "read"};
    family(f, "queue_length", "gauge",
           "Requests: received and not yet sent back (all); of these in the engine, and waiting in a lane for it.");
    labelled(f, "queue_length", "queue", "all", rd_transport_busy(s->transport));
    labelled(f, "queue_length", "queue", "engine", s->jobs + rd_fastpath_under_way(&s->fastpath));
    for (int i = 0; i < RD_LANES; i++)
        labelled(f, "queue_length", "queue", lanes[i], s->sched.lane[i].queued);
}

static void put_messages(FILE *f, const rd_stats *s)
{
    family(f, "messages_total", "counter", "Messages answered, by type.");
#define X(NAME, name, code) labelled(f, "messages_total", "type", name, s->tally.by_msg[code]);
    RP_MSGS(X)
#undef X
    labelled(f, "messages_total", "type", "unknown", s->tally.by_msg[0]);
    family(f, "errors_total", "counter", "Error replies, by kind.");
    for (int e = 1; e < RD_ERRS; e++)
        labelled(f, "errors_total", "error", rp_err_name(e), s->by_err[e]);
    one(f, "received_bytes_total", "counter", "Bodies of messages.", s->tally.bytes_in);
}

static const char *known(int code, const char *(*name)(int)) { return code ? name(code) : "unknown"; }

static void put_request(FILE *f, int op, int dtype, int path, int result, uint64_t v)
{
    if (v)
        fprintf(f, "reduced_requests_total{op=\"%s\",dtype=\"%s\",path=\"%s\",result=\"%s\"} %" PRIu64 "\n",
                known(op, rp_op_name), known(dtype, rp_dtype_name), known(path, rp_path_name), rp_err_name(result), v);
}

/* Every op with every type, path and error would be 50,050 lines, more than a message holds. A quarter of these can happen, if
 * somebody tries hard; those that did are some dozens. */
static void put_requests(FILE *f, const rd_stats *s)
{
    family(f, "requests_total", "counter",
           "Requests that the engine works for (reduce, reduce_at, append, finish), by result.");
    for (int op = 0; op < RD_OPS; op++)
        for (int dtype = 0; dtype < RD_DTYPES; dtype++)
            for (int path = 0; path < RD_PATHS; path++) {
                put_request(f, op, dtype, path, RP_OK, s->tally.done[op][dtype][path]);
                for (int e = 1; e < RD_ERRS; e++)
                    put_request(f, op, dtype, path, e, s->failed[op][dtype][path][e]);
            }
    family(f, "data_bytes_total", "counter", "Elements and states of the requests that succeeded, by path.");
    for (int path = 1; path < RD_PATHS; path++)
        labelled(f, "data_bytes_total", "path", rp_path_name(path), s->tally.data_bytes[path]);
}

static void put_histogram(FILE *f, const char *stage, const rd_histogram *h)
{
    for (unsigned e = FIRST_LE; e <= LAST_LE; e++) /* whole nanoseconds below 2^e are at most 2^e - 1 */
        fprintf(f, "reduced_request_seconds_bucket{stage=\"%s\",le=\"%.12g\"} %" PRIu64 "\n", stage,
                (double)((UINT64_C(1) << e) - 1) * 1e-9, rd_histogram_below(h, e));
    fprintf(f, "reduced_request_seconds_bucket{stage=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", stage, h->count);
    fprintf(f, "reduced_request_seconds_sum{stage=\"%s\"} %.9f\n", stage, (double)h->sum * 1e-9);
    fprintf(f, "reduced_request_seconds_count{stage=\"%s\"} %" PRIu64 "\n", stage, h->count);
}

static void put_times(FILE *f, const rd_tally *t)
{
    static const char *const names[RD_STAGES] = {"queue", "copy", "kernel", "total"};
    family(f, "request_seconds", "histogram",
           "Times of the requests that succeeded: until the engine took them up, copying, computing, receipt to reply.");
    for (int i = 0; i < RD_STAGES; i++)
        put_histogram(f, names[i], &t->stage[i]);
}

/* Requests that shared a launch. */
static void put_batches(FILE *f, const rk_stats *k)
{
    uint64_t below = 0;
    family(f, "batch_requests", "histogram", "Small requests of a launch on the device that they shared.");
    for (unsigned i = 0; i + 1 < RK_BATCH_SIZES; i++) {
        below += k->batch_sizes[i];
        fprintf(f, "reduced_batch_requests_bucket{le=\"%u\"} %" PRIu64 "\n", (2u << i) - 1, below);
    }
    fprintf(f, "reduced_batch_requests_bucket{le=\"+Inf\"} %" PRIu64 "\n", k->batches);
    fprintf(f, "reduced_batch_requests_sum %" PRIu64 "\n", k->batched_tasks);
    fprintf(f, "reduced_batch_requests_count %" PRIu64 "\n", k->batches);
}

static void put_engine(FILE *f, const rd_server *s, const rk_stats *k)
{
    family(f, "engine_tasks_total", "counter",
           "Tasks finished: in the thread that took the request (caller), on the device, by the workers.");
    labelled(f, "engine_tasks_total", "where", "caller", k->small_tasks);
    labelled(f, "engine_tasks_total", "where", "device", k->device_tasks);
    labelled(f, "engine_tasks_total", "where", "workers", k->tasks - k->small_tasks - k->device_tasks);
    seconds(f, "engine_busy_seconds_total", "counter",
            "Time with at least one task at the device or the workers: its rate is their utilisation.", k->active_ns);
    seconds(f, "engine_work_seconds_total", "counter", "Time of the device, the workers and the callers, summed.", k->busy_ns);
    family(f, "pool_bytes", "gauge", "Memory in pools.");
    labelled(f, "pool_bytes", "pool", "device", k->device_bytes);
    labelled(f, "pool_bytes", "pool", "pinned", k->pinned_bytes);
    labelled(f, "pool_bytes", "pool", "locked", k->locked_bytes);
    labelled(f, "pool_bytes", "pool", "arena", s->users.arena_bytes);
    labelled(f, "pool_bytes", "pool", "resident", s->users.resident_bytes);
    labelled(f, "pool_bytes", "pool", "read", (uint64_t)s->buffers.made * RP_MAX_DATA);
    family(f, "pool_cap_bytes", "gauge", "Most that the pools may hold.");
    labelled(f, "pool_cap_bytes", "pool", "device", k->device_cap);
    labelled(f, "pool_cap_bytes", "pool", "pinned", k->pinned_cap);
    labelled(f, "pool_cap_bytes", "pool", "locked", k->locked_cap);
    labelled(f, "pool_cap_bytes", "pool", "arena", s->users.arena_cap);
    labelled(f, "pool_cap_bytes", "pool", "resident", s->users.resident_cap);
    labelled(f, "pool_cap_bytes", "pool", "read", (uint64_t)s->buffers.cap * RP_MAX_DATA);
    one(f, "slots", "gauge", "Staging slots of the device.", k->slots);
    one(f, "slots_busy", "gauge", "Of these, in use.", k->slots_busy);
}

/* ---- users ---- */
static void user_name(char out[24], const rd_stats *s, unsigned place)
{
    if (place == RD_USER_OTHER)
        snprintf(out, 24, "other");
    else if (place == RD_USER_UNKNOWN)
        snprintf(out, 24, "tcp");
    else
        snprintf(out, 24, "%" PRIu64, s->uid[place]);
}

static bool has_lines(const rd_stats *s, unsigned place) { return place >= RD_FIRST_USER || s->tally.use[place].requests; }

static void put_users(FILE *f, const rd_stats *s, const char *name, const char *help, size_t at)
{
    family(f, name, "counter", help);
    for (unsigned i = 0; i < RD_FIRST_USER + s->users; i++) {
        char uid[24];
        uint64_t v;
        memcpy(&v, (const char *)&s->tally.use[i] + at, sizeof v);
        user_name(uid, s, i);
        if (has_lines(s, i))
            labelled(f, name, "uid", uid, v);
    }
}

static void put_user_seconds(FILE *f, const rd_stats *s)
{
    family(f, "user_engine_seconds_total", "counter", "Copying and computing for the user.");
    for (unsigned i = 0; i < RD_FIRST_USER + s->users; i++) {
        char uid[24];
        user_name(uid, s, i);
        if (has_lines(s, i))
            fprintf(f, "reduced_user_engine_seconds_total{uid=\"%s\"} %.9f\n", uid, (double)s->tally.use[i].engine_ns * 1e-9);
    }
}

static void put_use(FILE *f, const rd_stats *s)
{
    put_users(f, s, "user_requests_total", "Messages answered, by user; `tcp`: not known; `other`: users beyond the table.",
              offsetof(rd_use, requests));
    put_users(f, s, "user_errors_total", "Error replies, by user.", offsetof(rd_use, errors));
    put_users(f, s, "user_data_bytes_total", "Elements and states of the requests that succeeded, by user.",
              offsetof(rd_use, bytes));
    put_user_seconds(f, s);
}

static void put_trace(FILE *f, rd_trace *t)
{
    rd_trace_counts c = rd_trace_counted(t);
    family(f, "trace_requests_total", "counter", "Requests in the trace, and those that it lacks.");
    labelled(f, "trace_requests_total", "fate", "written", c.written);
    labelled(f, "trace_requests_total", "fate", "dropped", c.dropped);
}

static void put_totals(FILE *f, const rd_server *s, const rk_stats *k)
{
    put_daemon(f, s, k);
    put_queues(f, s);
    put_messages(f, &s->stats);
    put_requests(f, &s->stats);
    put_times(f, &s->stats.tally);
    put_engine(f, s, k);
    put_batches(f, k);
    if (s->trace)
        put_trace(f, s->trace);
}

/* ---- the text ---- */
bool rd_metrics_init(rd_metrics *m)
{
    *m = (rd_metrics){0};
    return pthread_mutex_init(&m->lock, NULL) == 0;
}

void rd_metrics_fini(rd_metrics *m)
{
    free(m->text);
    pthread_mutex_destroy(&m->lock);
}

/* NULL: no memory. *totals: how much of it comes before what single users did. */
static char *render(rd_server *s, size_t *len, size_t *totals)
{
    rk_stats k;
    char *text = NULL;
    FILE *f = open_memstream(&text, len);
    if (!f)
        return NULL;
    rd_fastpath_collect(&s->fastpath, &s->stats.tally);
    rk_get_stats(s->engine, &k);
    put_totals(f, s, &k);
    *totals = (size_t)ftell(f);
    put_use(f, &s->stats);
    if (fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

bool rd_metrics_refresh(rd_server *s)
{
    rd_metrics *m = &s->metrics;
    uint64_t start = rd_now_ns();
    if (m->text && start - m->made_ns < SHARE * m->cost_ns)
        return true;
    size_t len, totals;
    char *text = render(s, &len, &totals);
    if (!text)
        return m->text != NULL;
    pthread_mutex_lock(&m->lock);
    char *old = m->text;
    m->text = text;
    m->len = len;
    m->totals = totals;
    pthread_mutex_unlock(&m->lock);
    free(old);
    m->made_ns = rd_now_ns();
    m->cost_ns = m->made_ns - start;
    return true;
}

char *rd_metrics_copy(void *metrics, size_t *len)
{
    rd_metrics *m = metrics;
    pthread_mutex_lock(&m->lock);
    char *copy = m->text ? malloc(m->len) : NULL;
    if (copy)
        memcpy(copy, m->text, *len = m->len);
    pthread_mutex_unlock(&m->lock);
    return copy;
}
