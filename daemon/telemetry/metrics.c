#include "daemon/telemetry/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/turned_away.h"
#include "daemon/telemetry/status_json.h"
#include "proto/clock.h"

enum { SHARE = 20 }; /* the text is made again when its age exceeds this many times the time that making it took */

/* ---- lines ---- */
static void family(FILE *f, const char *name, const char *type, const char *help)
{
    fprintf(f, "# HELP reduced_%s %s\n# TYPE reduced_%s %s\n", name, help, name, type);
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
static void put_info(FILE *f, const rk_stats *k)
{
    family(f, "info", "gauge", "What this daemon is; always 1.");
    fputs("reduced_info{version=\"" REDUCED_VERSION "\",", f);
    put_label(f, "backend", rp_backend_name(k->backend));
    fputc(',', f);
    put_label(f, "device", k->device);
    fputc(',', f);
    put_label(f, "simd", k->simd);
    fputs("} 1\n", f);
}

static void put_gauge(FILE *f, const char *name, const char *label, const rd_gauge *g, uint64_t v)
{
    fprintf(f, "reduced_%s", name);
    if (label[0])
        fprintf(f, "{%s=\"%s\"}", label, g->value);
    if (g->unit == RD_SECONDS)
        fprintf(f, " %.9f\n", (double)v * 1e-9);
    else
        fprintf(f, " %" PRIu64 "\n", v);
}

static void put_gauges(FILE *f, const rd_gauges *g)
{
    static const struct {
        const char *name, *type, *label, *help;
    } families[] = {
#define X(FAMILY, name, type, label, help) {name, type, label, help},
        RD_FAMILIES(X)
#undef X
    };
    for (unsigned i = 0; i < RD_FAMILY_NONE; i++) {
        family(f, families[i].name, families[i].type, families[i].help);
        for (unsigned k = 0; k < RD_N_GAUGES; k++)
            if (rd_gauge_table[k].family == i)
                put_gauge(f, families[i].name, families[i].label, &rd_gauge_table[k], rd_gauge_of(g, k));
    }
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
    family(f, "faults_total", "counter",
           "The same, by whose fault: the data, the request, the load, the daemon, or the machine with its device.");
    for (int i = 0; i < RD_FAULTS; i++)
        labelled(f, "faults_total", "fault", rd_fault_names[i], rd_stats_faults(s, i));
}

static void put_turned_away(FILE *f)
{
    family(f, "turned_away_total", "counter", "Peers that were not let in, or could not be, by reason.");
    for (int i = 0; i < RD_AWAY_N; i++)
        labelled(f, "turned_away_total", "reason", rd_away_label(i), rd_turned_away(i));
}

static void put_request(FILE *f, int op, int dtype, int path, int result, uint64_t v)
{
    if (v)
        fprintf(f, "reduced_requests_total{op=\"%s\",dtype=\"%s\",path=\"%s\",result=\"%s\"} %" PRIu64 "\n",
                rd_known_name(op, rp_op_name), rd_known_name(dtype, rp_dtype_name), rd_known_name(path, rp_path_name),
                rp_err_name(result), v);
}

static void put_pieces(FILE *f, const rd_tally *t)
{
    family(f, "pieces_total", "counter",
           "Of the requests that succeeded: parts of large arrays and streams, whose answer is not a value.");
    for (int op = 0; op < RD_OPS; op++)
        for (int dtype = 0; dtype < RD_DTYPES; dtype++)
            for (int path = 0; path < RD_PATHS; path++)
                if (t->pieces[op][dtype][path])
                    fprintf(f, "reduced_pieces_total{op=\"%s\",dtype=\"%s\",path=\"%s\"} %" PRIu64 "\n",
                            rd_known_name(op, rp_op_name), rd_known_name(dtype, rp_dtype_name),
                            rd_known_name(path, rp_path_name), t->pieces[op][dtype][path]);
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
        labelled(f, "data_bytes_total", "path", rp_path_name(path), rd_tally_path_bytes(&s->tally, path));
}

static void put_histogram(FILE *f, const char *stage, const rd_histogram *h)
{
    for (unsigned e = RD_FIRST_LE; e <= RD_LAST_LE; e++) /* whole nanoseconds below 2^e are at most 2^e - 1 */
        fprintf(f, "reduced_request_seconds_bucket{stage=\"%s\",le=\"%.12g\"} %" PRIu64 "\n", stage,
                (double)((UINT64_C(1) << e) - 1) * 1e-9, rd_histogram_below(h, e));
    fprintf(f, "reduced_request_seconds_bucket{stage=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", stage, h->count);
    fprintf(f, "reduced_request_seconds_sum{stage=\"%s\"} %.9f\n", stage, (double)h->sum * 1e-9);
    fprintf(f, "reduced_request_seconds_count{stage=\"%s\"} %" PRIu64 "\n", stage, h->count);
}

static void put_times(FILE *f, const rd_tally *t)
{
    family(f, "request_seconds", "histogram",
           "Times of the requests that succeeded: until the engine took them up, copying, computing, receipt to reply.");
    for (int i = 0; i < RD_STAGES; i++)
        put_histogram(f, rd_stage_names[i], &t->stage[i]);
}

/* ---- users ---- */
static bool has_lines(const rd_stats *s, unsigned place) { return place >= RD_FIRST_USER || s->tally.use[place].requests; }

static void put_users(FILE *f, const rd_stats *s, const char *name, const char *help, size_t at)
{
    family(f, name, "counter", help);
    for (unsigned i = 0; i < RD_FIRST_USER + s->users; i++) {
        uint64_t v;
        memcpy(&v, (const char *)&s->tally.use[i] + at, sizeof v);
        if (has_lines(s, i))
            labelled(f, name, "uid", s->user[i], v);
    }
}

static void put_user_seconds(FILE *f, const rd_stats *s)
{
    family(f, "user_engine_seconds_total", "counter", "Copying and computing for the user.");
    for (unsigned i = 0; i < RD_FIRST_USER + s->users; i++)
        if (has_lines(s, i))
            fprintf(f, "reduced_user_engine_seconds_total{uid=\"%s\"} %.9f\n", s->user[i],
                    (double)s->tally.use[i].engine_ns * 1e-9);
}

static void put_use(FILE *f, const rd_stats *s)
{
    put_users(f, s, "user_requests_total", "Messages answered, by user; `tcp`: not known; `other`: users beyond the table.",
              offsetof(rd_use, requests));
    put_users(f, s, "user_pieces_total", "Of these, parts of large arrays and streams.", offsetof(rd_use, pieces));
    put_users(f, s, "user_errors_total", "Error replies, by user.", offsetof(rd_use, errors));
    put_users(f, s, "user_data_bytes_total", "Elements and states of the requests that succeeded, by user.",
              offsetof(rd_use, bytes));
    put_users(f, s, "user_claimed_requests_total",
              "Claimed by the user's clients, not checked: reductions in their own processes.",
              offsetof(rd_use, claim.requests));
    put_users(f, s, "user_claimed_bytes_total", "Claimed by the user's clients, not checked: elements of these.",
              offsetof(rd_use, claim.bytes));
    put_user_seconds(f, s);
}

/* What each user holds that holds anything. */
static void put_held(FILE *f, const rd_users *u)
{
    enum { MOST_USERS = 64 }; /* as many as have counters of their own */
    unsigned n = 0;
    family(f, "user_held", "gauge", "What the daemon holds for the user: things, or bytes.");
    for (const rd_user *user = u->first; user && n < MOST_USERS; user = user->next, n++)
        for (unsigned k = 0; k < RD_CHARGE_KINDS; k++)
            fprintf(f, "reduced_user_held{uid=\"%s\",what=\"%s\"} %" PRIu64 "\n", user->text, rd_charge_key(k),
                    rd_held(&user->charges, k));
}

static void put_limits(FILE *f, const rd_users *u)
{
    family(f, "user_limit", "gauge", "Most that the daemon holds for one user.");
    for (unsigned k = 0; k < RD_CHARGE_KINDS; k++)
        if (u->cap[k])
            labelled(f, "user_limit", "what", rd_charge_key(k), u->cap[k]);
}

static void put_trace(FILE *f, rd_trace *t)
{
    rd_trace_counts c = rd_trace_counted(t);
    family(f, "trace_requests_total", "counter", "Requests written to the trace, and those dropped from it.");
    labelled(f, "trace_requests_total", "fate", "written", c.written);
    labelled(f, "trace_requests_total", "fate", "dropped", c.dropped);
}

static void put_one(FILE *f, const char *name, const char *help, double v)
{
    family(f, name, "gauge", help);
    fprintf(f, "reduced_%s %.12g\n", name, v);
}

/* Of several GPUs: sums, the mean of their load, the highest temperature. */
static void put_device(FILE *f, const rd_device_reading *d)
{
    family(f, "device_memory_bytes", "gauge", "Memory of the GPU, of all its processes, as its driver reports it.");
    labelled(f, "device_memory_bytes", "kind", "used", d->memory_used);
    labelled(f, "device_memory_bytes", "kind", "total", d->memory_total);
    put_one(f, "device_temperature_celsius", "Temperature of the GPU.", d->celsius);
    put_one(f, "device_busy_ratio", "Share of the driver's last sample period with a kernel running, of any process.",
            d->busy_percent * 0.01);
    put_one(f, "device_power_watts", "Power that the GPU draws.", d->milliwatts * 1e-3);
}

/* ---- devices ---- */

/* A line for each device: of a pool, or "". */
static void put_gpu_lines(FILE *f, const rd_measures *m, const char *name, const char *pool, size_t at, double unit)
{
    for (unsigned i = 0; i < m->gpus; i++) {
        uint64_t v;
        memcpy(&v, (const char *)&m->gpu[i] + at, sizeof v);
        fprintf(f, "reduced_%s{gpu=\"%d\",uuid=\"%s\"", name, m->gpu[i].ordinal, m->gpu[i].uuid);
        if (pool[0])
            fprintf(f, ",pool=\"%s\"", pool);
        if (unit == 1)
            fprintf(f, "} %" PRIu64 "\n", v);
        else
            fprintf(f, "} %.9f\n", (double)v * unit);
    }
}

static void put_gpu_health(FILE *f, const rd_measures *m)
{
    family(f, "gpu_healthy", "gauge", "1 until the device fails.");
    for (unsigned i = 0; i < m->gpus; i++)
        fprintf(f, "reduced_gpu_healthy{gpu=\"%d\",uuid=\"%s\"} %d\n", m->gpu[i].ordinal, m->gpu[i].uuid, !m->gpu[i].lost);
}

/* A line for each GPU that NVML knows. */
static void put_readings(FILE *f, const rd_measures *m, const char *name, const char *label,
                         double (*of)(const rd_device_reading *d))
{
    for (unsigned i = 0; i < m->gpus; i++)
        if (m->reading[i].valid)
            fprintf(f, "reduced_%s{gpu=\"%d\",uuid=\"%s\"%s} %.12g\n", name, m->gpu[i].ordinal, m->gpu[i].uuid, label,
                    of(&m->reading[i]));
}

static double metrics_used(const rd_device_reading *d) { return (double)d->memory_used; }
static double metrics_total(const rd_device_reading *d) { return (double)d->memory_total; }
static double metrics_celsius(const rd_device_reading *d) { return d->celsius; }
static double metrics_busy(const rd_device_reading *d) { return d->busy_percent * 0.01; }
static double metrics_watts(const rd_device_reading *d) { return d->milliwatts * 1e-3; }

static void put_gpu_readings(FILE *f, const rd_measures *m)
{
    family(f, "gpu_memory_bytes", "gauge", "Memory of the GPU, of all its processes, as its driver reports it.");
    put_readings(f, m, "gpu_memory_bytes", ",kind=\"used\"", metrics_used);
    put_readings(f, m, "gpu_memory_bytes", ",kind=\"total\"", metrics_total);
    family(f, "gpu_temperature_celsius", "gauge", "Temperature of the GPU.");
    put_readings(f, m, "gpu_temperature_celsius", "", metrics_celsius);
    family(f, "gpu_busy_ratio", "gauge", "Share of the driver's last sample period with a kernel running, of any process.");
    put_readings(f, m, "gpu_busy_ratio", "", metrics_busy);
    family(f, "gpu_power_watts", "gauge", "Power that the GPU draws.");
    put_readings(f, m, "gpu_power_watts", "", metrics_watts);
}

/* The engine's metrics, of one device each: their sums are in the families without `gpu_`. */
static void put_gpus(FILE *f, const rd_measures *m)
{
#define AT(member) offsetof(rk_stats, member)
    static const struct {
        const char *name, *type, *help, *pool;
        size_t at;
        double unit;
    } lines[] = {
        {"gpu_engine_tasks_total", "counter", "Tasks that the device finished.", "", AT(tasks), 1},
        {"gpu_engine_busy_seconds_total", "counter", "Time with at least one task at the device.", "", AT(active_ns), 1e-9},
        {"gpu_engine_work_seconds_total", "counter", "Time of the device's work, summed.", "", AT(busy_ns), 1e-9},
        {"gpu_slots", "gauge", "Staging slots of the device.", "", AT(slots), 1},
        {"gpu_slots_busy", "gauge", "Of these, in use.", "", AT(slots_busy), 1},
        {"gpu_pool_bytes", "gauge", "Memory in pools of the device.", "device", AT(device_bytes), 1},
        {"gpu_pool_bytes", NULL, NULL, "pinned", AT(pinned_bytes), 1},
        {"gpu_pool_bytes", NULL, NULL, "locked", AT(locked_bytes), 1},
        {"gpu_pool_bytes", NULL, NULL, "resident", AT(resident_bytes), 1},
        {"gpu_pool_cap_bytes", "gauge", "Most that these pools may hold.", "device", AT(device_cap), 1},
        {"gpu_pool_cap_bytes", NULL, NULL, "pinned", AT(pinned_cap), 1},
        {"gpu_pool_cap_bytes", NULL, NULL, "locked", AT(locked_cap), 1},
        {"gpu_pool_cap_bytes", NULL, NULL, "resident", AT(resident_cap), 1},
    };
#undef AT
    put_gpu_health(f, m);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (lines[i].type)
            family(f, lines[i].name, lines[i].type, lines[i].help);
        put_gpu_lines(f, m, lines[i].name, lines[i].pool, lines[i].at, lines[i].unit);
    }
}

static void put_end(FILE *f, const char *file, int64_t end)
{
    if (end)
        fprintf(f, "reduced_certificate_end_seconds{file=\"%s\"} %" PRId64 "\n", file, end);
}

/* There are none without TLS. */
static void put_certificates(FILE *f, const rd_cert_ends *e)
{
    if (!e->cert)
        return;
    family(f, "certificate_end_seconds", "gauge",
           "When the TLS files end, in seconds since 1970: the first certificate, the last CA, the first list.");
    put_end(f, "tls-cert", e->cert);
    put_end(f, "tls-ca", e->ca);
    put_end(f, "tls-crl", e->crl);
}

static void put_totals(FILE *f, const rd_measures *m)
{
    put_info(f, &m->engine);
    put_gauges(f, &m->gauges);
    put_messages(f, m->stats);
    put_turned_away(f);
    put_requests(f, m->stats);
    put_pieces(f, &m->stats->tally);
    put_times(f, &m->stats->tally);
    put_limits(f, m->users);
    put_certificates(f, &m->certs);
    if (m->gpus)
        put_gpus(f, m);
    if (m->device.valid) {
        put_device(f, &m->device);
        put_gpu_readings(f, m);
    }
    if (m->trace)
        put_trace(f, m->trace);
}

/* ---- the text ---- */
bool rd_metrics_init(rd_metrics *m, void (*measure)(void *arg, rd_measures *out), void *arg)
{
    *m = (rd_metrics){.measure = measure, .arg = arg};
    return pthread_mutex_init(&m->lock, NULL) == 0;
}

void rd_metrics_fini(rd_metrics *m)
{
    free(m->text);
    free(m->json);
    free(m->processes);
    pthread_mutex_destroy(&m->lock);
}

/* NULL: no memory. *totals: how much of it comes before what single users did. */
static char *render(const rd_measures *m, size_t *len, size_t *totals)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, len);
    if (!f)
        return NULL;
    put_totals(f, m);
    *totals = (size_t)ftell(f);
    put_use(f, m->stats);
    put_held(f, m->users);
    if (fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

void rd_metrics_want_json(rd_metrics *m, size_t (*entries)(void *arg, const rd_measures *m, uint8_t *out, size_t cap),
                          rd_process *(*list)(void *arg, size_t *n))
{
    m->entries = entries;
    m->list = list;
    m->logins.shown = list != NULL;
}

static void rate(double *best, uint64_t *then, uint64_t now, uint64_t ns)
{
    double v = (double)(now - *then) / (double)ns * 1e9;
    *best = ns && v > *best ? v : *best;
    *then = now;
}

/* Of half a second or more, for a moment proves nothing. */
static void take_rates(rd_rates *r, const rd_tally *t, uint64_t now_ns)
{
    uint64_t bytes = 0, ns = r->at_ns ? now_ns - r->at_ns : 0;
    if (r->at_ns && ns < UINT64_C(500000000))
        return;
    for (int path = 1; path < RD_PATHS; path++)
        bytes += rd_tally_path_bytes(t, path);
    rate(&r->best, &r->bytes, bytes, ns);
    for (unsigned i = 0; i < RP_MAX_GPUS; i++)
        rate(&r->device_best[i], &r->device_bytes[i], t->device_bytes[i], ns);
    r->at_ns = now_ns;
}

/* Each is looked up once, when its user is new. */
static void take_logins(rd_logins *l, const rd_stats *s)
{
    for (; l->shown && l->known < s->users; l->known++)
        rd_login_of("/etc/passwd", s->user[RD_FIRST_USER + l->known], l->name[RD_FIRST_USER + l->known]);
}

static char *render_json(rd_metrics *m, const rd_measures *now, size_t *len)
{
    if (!m->entries)
        return NULL;
    uint8_t *entries = malloc(RD_STATUS_BYTES);
    size_t n = entries ? m->entries(m->arg, now, entries, RD_STATUS_BYTES) : 0;
    char *json = entries ? rd_status_json(now, entries, n, &m->rates, &m->logins, len) : NULL;
    free(entries);
    return json;
}

static void take_processes(rd_metrics *m)
{
    size_t n = 0;
    rd_process *now = m->list ? m->list(m->arg, &n) : NULL;
    pthread_mutex_lock(&m->lock);
    rd_process *old = m->processes;
    m->processes = now;
    m->n_processes = n;
    pthread_mutex_unlock(&m->lock);
    free(old);
}

bool rd_metrics_refresh(rd_metrics *m)
{
    rd_measures now;
    uint64_t start = rp_now_ns();
    if (m->text && start - m->made_ns < SHARE * m->cost_ns)
        return true;
    size_t len, totals, json_len = 0;
    m->measure(m->arg, &now);
    take_rates(&m->rates, &now.stats->tally, start);
    take_logins(&m->logins, now.stats);
    take_processes(m);
    char *text = render(&now, &len, &totals), *json = render_json(m, &now, &json_len);
    if (!text) {
        free(json);
        return m->text != NULL;
    }
    pthread_mutex_lock(&m->lock);
    char *old = m->text, *old_json = json ? m->json : NULL;
    m->text = text;
    m->len = len;
    m->totals = totals;
    if (json) {
        m->json = json;
        m->json_len = json_len;
    }
    pthread_mutex_unlock(&m->lock);
    free(old);
    free(old_json);
    m->made_ns = rp_now_ns();
    m->cost_ns = m->made_ns - start;
    return true;
}

static char *copy(rd_metrics *m, char *const *text, const size_t *size, size_t *len)
{
    pthread_mutex_lock(&m->lock);
    char *copy = *text ? malloc(*size) : NULL;
    if (copy)
        memcpy(copy, *text, *len = *size);
    pthread_mutex_unlock(&m->lock);
    return copy;
}

char *rd_metrics_copy(void *metrics, size_t *len)
{
    rd_metrics *m = metrics;
    return copy(m, &m->text, &m->len, len);
}

char *rd_metrics_copy_json(void *metrics, size_t *len)
{
    rd_metrics *m = metrics;
    return copy(m, &m->json, &m->json_len, len);
}

char *rd_metrics_copy_processes(void *metrics, const uint64_t *uid, size_t *len)
{
    rd_metrics *m = metrics;
    pthread_mutex_lock(&m->lock);
    char *text = rd_processes_json(m->processes, m->n_processes, uid, len);
    pthread_mutex_unlock(&m->lock);
    return text;
}
