/* Two texts of metrics as lines: rates from their differences, levels from the later one. */
#include <float.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/top.h"

enum { MAX_LINE = 200, MAX_NAME = 24, MAX_BUCKETS = 64 };

typedef struct {
    const ctl_metrics *then, *now;
    double seconds; /* between them */
    ctl_put_line *put;
    void *arg;
} frame;

static void say(const frame *f, bool heading, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void say(const frame *f, bool heading, const char *fmt, ...)
{
    char line[MAX_LINE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    f->put(f->arg, heading, line);
}

/* More of the line that is being written. */
static void add(char line[MAX_LINE], const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(char line[MAX_LINE], const char *fmt, ...)
{
    size_t n = strlen(line);
    va_list args;
    va_start(args, fmt);
    vsnprintf(line + n, MAX_LINE - n, fmt, args);
    va_end(args);
}

/* ---- numbers ---- */
static double value(const frame *f, const char *name, const char *labels) { return ctl_metrics_value(f->now, name, labels); }

/* What a counter grew by; from 0 if the daemon was started anew. */
static double growth(const frame *f, const char *name, const char *labels)
{
    double now = ctl_metrics_value(f->now, name, labels), then = ctl_metrics_value(f->then, name, labels);
    return now >= then ? now - then : now;
}

static double rate(const frame *f, const char *name, const char *labels)
{
    return f->seconds > 0 ? growth(f, name, labels) / f->seconds : 0;
}

static double total_rate(const frame *f, const char *name)
{
    size_t n;
    double sum = 0;
    const ctl_sample *s = ctl_metrics_family(f->now, name, &n);
    for (size_t i = 0; i < n; i++)
        sum += rate(f, name, s[i].labels);
    return sum;
}

/* "1.5 MiB" */
static char *bytes(char out[16], double v)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t u = 0;
    while (v >= 1024 && u + 1 < sizeof units / sizeof units[0]) {
        v /= 1024;
        u++;
    }
    snprintf(out, 16, u ? "%.1f %s" : "%.0f %s", v, units[u]);
    return out;
}

/* ---- quantiles ---- */
typedef struct {
    double le, count;
} bucket;

static int top_by_le(const void *a, const void *b)
{
    const bucket *x = a, *y = b;
    return (x->le > y->le) - (x->le < y->le);
}

/* The buckets of a stage, for what was between the texts; ascending and cumulative. */
static size_t read_buckets(const frame *f, const char *stage, bucket out[MAX_BUCKETS])
{
    size_t n, used = 0;
    const ctl_sample *s = ctl_metrics_family(f->now, "reduced_request_seconds_bucket", &n);
    for (size_t i = 0; i < n && used < MAX_BUCKETS; i++) {
        char text[MAX_NAME];
        if (strcmp(ctl_label(text, sizeof text, s[i].labels, "stage"), stage))
            continue;
        double le = strtod(ctl_label(text, sizeof text, s[i].labels, "le"), NULL);
        out[used++] = (bucket){le, growth(f, s[i].name, s[i].labels)};
    }
    qsort(out, used, sizeof *out, top_by_le);
    return used;
}

/* Seconds that the share q stays below, as if times were spread evenly within a bucket. */
static double quantile(const frame *f, const char *stage, double q)
{
    bucket b[MAX_BUCKETS], low = {0, 0};
    size_t n = read_buckets(f, stage, b);
    double want = n ? q * b[n - 1].count : 0;
    for (size_t i = 0; want > 0 && i < n; low = b[i++])
        if (b[i].count >= want)
            return b[i].le > DBL_MAX ? low.le : low.le + (b[i].le - low.le) * (want - low.count) / (b[i].count - low.count);
    return 0;
}

/* ---- the upper part ---- */
static void put_daemon(const frame *f)
{
    size_t n;
    const ctl_sample *s = ctl_metrics_family(f->now, "reduced_info", &n);
    const char *labels = n ? s->labels : "";
    char version[MAX_NAME], backend[MAX_NAME], device[96];
    unsigned long up = (unsigned long)value(f, "reduced_uptime_seconds", "");
    say(f, false, "reduced %s  %s  %s  up %lu:%02lu:%02lu  %s", ctl_label(version, sizeof version, labels, "version"),
        ctl_label(backend, sizeof backend, labels, "backend"), ctl_label(device, sizeof device, labels, "device"), up / 3600,
        up / 60 % 60, up % 60, value(f, "reduced_healthy", "") > 0 ? "healthy" : "NOT HEALTHY");
}

static void put_traffic(const frame *f)
{
    char data[16], received[16];
    say(f, false, "messages  %.1f/s  errors %.1f/s  data %s/s  received %s/s", total_rate(f, "reduced_messages_total"),
        total_rate(f, "reduced_errors_total"), bytes(data, total_rate(f, "reduced_data_bytes_total")),
        bytes(received, rate(f, "reduced_received_bytes_total", "")));
}

static void put_times(const frame *f)
{
    say(f, false, "requests  median %.1f us  p99 %.1f us, of which queue %.1f  copy %.1f  kernel %.1f",
        quantile(f, "total", 0.5) * 1e6, quantile(f, "total", 0.99) * 1e6, quantile(f, "queue", 0.99) * 1e6,
        quantile(f, "copy", 0.99) * 1e6, quantile(f, "kernel", 0.99) * 1e6);
}

static void put_engine(const frame *f)
{
    char line[MAX_LINE] = "", where[MAX_NAME];
    size_t n;
    const ctl_sample *s = ctl_metrics_family(f->now, "reduced_engine_tasks_total", &n);
    add(line, "engine    busy %.1f%%  slots %.0f of %.0f  tasks", 100 * rate(f, "reduced_engine_busy_seconds_total", ""),
        value(f, "reduced_slots_busy", ""), value(f, "reduced_slots", ""));
    for (size_t i = 0; i < n; i++)
        add(line, "  %s %.1f/s", ctl_label(where, sizeof where, s[i].labels, "where"), rate(f, s[i].name, s[i].labels));
    double batches = growth(f, "reduced_batch_requests_count", "");
    if (batches > 0)
        add(line, "  batches of %.1f", growth(f, "reduced_batch_requests_sum", "") / batches);
    say(f, false, "%s", line);
}

static void put_queues(const frame *f)
{
    char line[MAX_LINE] = "queues  ", queue[MAX_NAME];
    size_t n;
    const ctl_sample *s = ctl_metrics_family(f->now, "reduced_queue_length", &n);
    for (size_t i = 0; i < n; i++)
        add(line, "  %s %.0f", ctl_label(queue, sizeof queue, s[i].labels, "queue"), s[i].value);
    add(line, "    sessions %.0f  connections %.0f  streams %.0f", value(f, "reduced_sessions", ""),
        value(f, "reduced_connections", ""), value(f, "reduced_streams", ""));
    say(f, false, "%s", line);
}

static void put_pools(const frame *f)
{
    char line[MAX_LINE] = "pools   ", pool[MAX_NAME], used[16], cap[16];
    size_t n;
    const ctl_sample *s = ctl_metrics_family(f->now, "reduced_pool_bytes", &n);
    for (size_t i = 0; i < n; i++) {
        double most = value(f, "reduced_pool_cap_bytes", s[i].labels);
        if (most > 0) /* there is such a pool */
            add(line, "  %s %s of %s", ctl_label(pool, sizeof pool, s[i].labels, "pool"), bytes(used, s[i].value),
                bytes(cap, most));
    }
    say(f, false, "%s", line);
}

/* ---- tables ---- */
typedef struct {
    const char *labels;
    double rate, errors, total; /* requests and errors per second; requests ever */
} row;

static int top_busiest_first(const void *a, const void *b)
{
    const row *x = a, *y = b;
    return x->rate != y->rate ? (x->rate < y->rate) - (x->rate > y->rate) : (x->total < y->total) - (x->total > y->total);
}

/* Do two samples of requests_total differ in nothing but the result, their last label? */
static bool same_kind(const char *a, const char *b)
{
    const char *end = strstr(a, ",result=");
    return end && !strncmp(a, b, (size_t)(end - a) + 1);
}

/* A row for each op, type and path. Its samples are neighbours. */
static size_t read_ops(const frame *f, row *rows)
{
    size_t n, used = 0;
    char result[MAX_NAME];
    const ctl_sample *s = ctl_metrics_family(f->now, "reduced_requests_total", &n);
    for (size_t i = 0; i < n; i++) {
        if (!used || !same_kind(rows[used - 1].labels, s[i].labels))
            rows[used++] = (row){.labels = s[i].labels};
        row *x = &rows[used - 1];
        double r = rate(f, s[i].name, s[i].labels);
        x->rate += r;
        x->total += s[i].value;
        if (strcmp(ctl_label(result, sizeof result, s[i].labels, "result"), "OK"))
            x->errors += r;
    }
    return used;
}

static size_t read_users(const frame *f, row *rows)
{
    size_t n;
    const ctl_sample *s = ctl_metrics_family(f->now, "reduced_user_requests_total", &n);
    for (size_t i = 0; i < n; i++)
        rows[i] = (row){.labels = s[i].labels,
                        .rate = rate(f, s[i].name, s[i].labels),
                        .errors = rate(f, "reduced_user_errors_total", s[i].labels),
                        .total = s[i].value};
    return n;
}

static void top_op(const frame *f, const row *x)
{
    char op[MAX_NAME], dtype[MAX_NAME], path[MAX_NAME];
    say(f, false, "%-14s %-8s %-8s %12.1f %10.1f %14.0f", ctl_label(op, sizeof op, x->labels, "op"),
        ctl_label(dtype, sizeof dtype, x->labels, "dtype"), ctl_label(path, sizeof path, x->labels, "path"), x->rate, x->errors,
        x->total);
}

static void top_user(const frame *f, const row *x)
{
    char uid[MAX_NAME], data[16];
    double engine = rate(f, "reduced_user_engine_seconds_total", x->labels);
    bytes(data, rate(f, "reduced_user_data_bytes_total", x->labels));
    say(f, false, "%-10s %9.1f%% %10s/s %12.1f %10.1f %14.0f", ctl_label(uid, sizeof uid, x->labels, "uid"), 100 * engine, data,
        x->rate, x->errors, x->total);
}

/* The busiest that fit. */
static void put_rows(const frame *f, row *rows, size_t n, int room, void (*put)(const frame *, const row *))
{
    qsort(rows, n, sizeof *rows, top_busiest_first);
    for (size_t i = 0; i < n && room-- > 0; i++)
        put(f, &rows[i]);
}

/* Users get a third of the room if there are so many, ops the rest. */
static void put_tables(const frame *f, int room)
{
    size_t samples = f->now->n;
    row *ops = calloc(samples + 1, sizeof *ops), *users = calloc(samples + 1, sizeof *users);
    if (ops && users) {
        size_t n_ops = read_ops(f, ops), n_users = read_users(f, users);
        int for_users = n_users < (size_t)(room / 3) ? (int)n_users : room / 3;
        say(f, true, "%-14s %-8s %-8s %12s %10s %14s", "OP", "TYPE", "PATH", "REQUESTS/S", "ERRORS/S", "TOTAL");
        put_rows(f, ops, n_ops, room - for_users, top_op);
        if (n_users) { /* this user may see them */
            say(f, false, "%s", "");
            say(f, true, "%-10s %10s %12s %12s %10s %14s", "USER", "ENGINE", "DATA", "REQUESTS/S", "ERRORS/S", "TOTAL");
            put_rows(f, users, n_users, for_users, top_user);
        }
    }
    free(ops);
    free(users);
}

/* The daemon's own clock says how long it was; a restarted daemon has counted since its start. */
static double between(const ctl_metrics *then, const ctl_metrics *now)
{
    double a = ctl_metrics_value(then, "reduced_uptime_seconds", ""), b = ctl_metrics_value(now, "reduced_uptime_seconds", "");
    return b >= a ? b - a : b;
}

void ctl_frame(const ctl_metrics *then, const ctl_metrics *now, int rows, ctl_put_line *put, void *arg)
{
    enum { FIXED = 10 }; /* lines beside the tables' rows */
    frame f = {.then = then, .now = now, .seconds = between(then, now), .put = put, .arg = arg};
    put_daemon(&f);
    put_traffic(&f);
    put_times(&f);
    put_engine(&f);
    put_queues(&f);
    put_pools(&f);
    say(&f, false, "%s", "");
    put_tables(&f, rows > FIXED ? rows - FIXED : 0);
}
