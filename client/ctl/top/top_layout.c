/* Two moments of a daemon as lines: rates from their differences, levels from the later one. */
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/text/screen_text.h"
#include "client/ctl/top/top_rates.h"

enum { OP_HEADING = 1, MEASURES_HEADING = 2 }; /* lines */
enum {
    MAX_LINE = 256,
    FOLD_FROM = 72 /* columns; narrower screens cut what does not fit */,
    INDENT = 10,
    HISTORY_TEXT = 39,
    MEASURES = 61 /* columns of a user's numbers */,
    FEW = 10 /* seconds */
};

typedef struct {
    top_frame rates;
    int columns, lines; /* lines: put so far */
    ctl_put_line *put;
    void *arg;
} frame;

/* As much of the line as fits. */
static void put_cut(frame *f, bool heading, char *line)
{
    line[ctl_fit(line, f->columns)] = '\0';
    f->put(f->arg, heading, line);
    f->lines++;
}

/* Where to break the line: before the last two blanks that leave a whole field in front. 0: nowhere. */
static size_t break_at(const char *line, int columns)
{
    size_t at = ctl_fit(line, columns);
    if (!line[at])
        return 0;
    while (at > INDENT && (line[at] != ' ' || line[at + 1] != ' ' || line[at - 1] == ' '))
        at--;
    return at > INDENT ? at : 0;
}

/* A line of fields with two blanks between, on several lines if need be. */
static void put_fields(frame *f, char *line)
{
    for (size_t at; f->columns >= FOLD_FROM && (at = break_at(line, f->columns)) > 0;) {
        char rest[MAX_LINE];
        snprintf(rest, sizeof rest, "%*s%s", INDENT, "", line + at + strspn(line + at, " "));
        line[at] = '\0';
        put_cut(f, false, line);
        memcpy(line, rest, sizeof rest);
    }
    put_cut(f, false, line);
}

static void say(frame *f, bool heading, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void say(frame *f, bool heading, const char *fmt, ...)
{
    char line[MAX_LINE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    put_cut(f, heading, line);
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

static void fields(frame *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void fields(frame *f, const char *fmt, ...)
{
    char line[MAX_LINE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    put_fields(f, line);
}

/* ---- the upper part ---- */

/* A screen has no room for what is 0 among many. */
static bool is_shown(const frame *f, double v) { return f->columns == INT_MAX || v > 0; }

static void put_daemon(frame *f)
{
    size_t n;
    const ctl_sample *s = ctl_metrics_family(f->rates.now, "reduced_info", &n);
    const char *labels = n ? s->labels : "";
    char version[TOP_NAME], backend[TOP_NAME], device[96];
    unsigned long up = (unsigned long)top_value(&f->rates, "reduced_uptime_seconds", "");
    fields(f, "reduced %s  %s  %s  up %lu:%02lu:%02lu  %s", ctl_label(version, sizeof version, labels, "version"),
           ctl_label(backend, sizeof backend, labels, "backend"), ctl_label(device, sizeof device, labels, "device"), up / 3600,
           up / 60 % 60, up % 60, top_value(&f->rates, "reduced_healthy", "") > 0 ? "healthy" : "NOT HEALTHY");
}

static void put_traffic(frame *f)
{
    char data[16], received[16];
    fields(f, "messages  %.1f/s  pieces %.1f/s  errors %.1f/s  data %s/s  received %s/s",
           top_total_rate(&f->rates, "reduced_messages_total"), top_total_rate(&f->rates, "reduced_pieces_total"),
           top_total_rate(&f->rates, "reduced_errors_total"),
           bytes(data, top_total_rate(&f->rates, "reduced_data_bytes_total")),
           bytes(received, top_rate(&f->rates, "reduced_received_bytes_total", "")));
}

static void put_times(frame *f)
{
    fields(f, "requests  median %.1f us  p99 %.1f us, of which queue %.1f  copy %.1f  kernel %.1f",
           top_quantile(&f->rates, "total", 0.5) * 1e6, top_quantile(&f->rates, "total", 0.99) * 1e6,
           top_quantile(&f->rates, "queue", 0.99) * 1e6, top_quantile(&f->rates, "copy", 0.99) * 1e6,
           top_quantile(&f->rates, "kernel", 0.99) * 1e6);
}

static void put_engine(frame *f)
{
    char line[MAX_LINE] = "", where[TOP_NAME];
    size_t n;
    const ctl_sample *s = ctl_metrics_family(f->rates.now, "reduced_engine_tasks_total", &n);
    add(line, "engine    busy %.1f%%  slots %.0f of %.0f  tasks",
        100 * top_rate(&f->rates, "reduced_engine_busy_seconds_total", ""), top_value(&f->rates, "reduced_slots_busy", ""),
        top_value(&f->rates, "reduced_slots", ""));
    for (size_t i = 0; i < n; i++)
        if (is_shown(f, top_rate(&f->rates, s[i].name, s[i].labels)))
            add(line, "  %s %.1f/s", ctl_label(where, sizeof where, s[i].labels, "where"),
                top_rate(&f->rates, s[i].name, s[i].labels));
    put_fields(f, line);
}

static void put_queues(frame *f)
{
    char line[MAX_LINE] = "queues  ", queue[TOP_NAME];
    size_t n;
    const ctl_sample *s = ctl_metrics_family(f->rates.now, "reduced_queue_length", &n);
    for (size_t i = 0; i < n; i++)
        if (is_shown(f, s[i].value))
            add(line, "  %s %.0f", ctl_label(queue, sizeof queue, s[i].labels, "queue"), s[i].value);
    add(line, "  sessions %.0f  connections %.0f  streams %.0f", top_value(&f->rates, "reduced_sessions", ""),
        top_value(&f->rates, "reduced_connections", ""), top_value(&f->rates, "reduced_streams", ""));
    put_fields(f, line);
}

static void put_pools(frame *f)
{
    char line[MAX_LINE] = "pools   ", pool[TOP_NAME], used[16], cap[16];
    size_t n;
    const ctl_sample *s = ctl_metrics_family(f->rates.now, "reduced_pool_bytes", &n);
    for (size_t i = 0; i < n; i++) {
        double most = top_value(&f->rates, "reduced_pool_cap_bytes", s[i].labels);
        if (most > 0) /* there is such a pool */
            add(line, "  %s %s of %s", ctl_label(pool, sizeof pool, s[i].labels, "pool"), bytes(used, s[i].value),
                bytes(cap, most));
    }
    put_fields(f, line);
}

/* The GPU as its driver sees it. */
static void put_device(frame *f)
{
    size_t n;
    char used[16], total[16];
    ctl_metrics_family(f->rates.now, "reduced_device_memory_bytes", &n);
    if (n == 0)
        return;
    bytes(used, top_value(&f->rates, "reduced_device_memory_bytes", "kind=\"used\""));
    bytes(total, top_value(&f->rates, "reduced_device_memory_bytes", "kind=\"total\""));
    fields(f, "device    busy %.0f%%  memory %s of %s  %.0f C  %.0f W",
           100 * top_value(&f->rates, "reduced_device_busy_ratio", ""), used, total,
           top_value(&f->rates, "reduced_device_temperature_celsius", ""),
           top_value(&f->rates, "reduced_device_power_watts", ""));
}

/* A line for each of several devices. */
static void put_gpus(frame *f)
{
    size_t n;
    const ctl_sample *s = ctl_metrics_family(f->rates.now, "reduced_gpu_healthy", &n);
    for (size_t i = 0; n > 1 && i < n; i++) {
        char line[MAX_LINE] = "", ordinal[TOP_NAME], uuid[TOP_NAME], labels[MAX_LINE], used[16], cap[16];
        const char *gpu = s[i].labels;
        snprintf(labels, sizeof labels, "%s,pool=\"resident\"", gpu);
        const bool whole = f->columns == INT_MAX; /* else a line of a screen for each */
        add(line, "gpu %-5s busy %.1f%%", ctl_label(ordinal, sizeof ordinal, gpu, "gpu"),
            100 * top_rate(&f->rates, "reduced_gpu_engine_busy_seconds_total", gpu));
        if (whole)
            add(line, "  slots %.0f of %.0f", top_value(&f->rates, "reduced_gpu_slots_busy", gpu),
                top_value(&f->rates, "reduced_gpu_slots", gpu));
        add(line, "  tasks %.1f/s  resident %s", top_rate(&f->rates, "reduced_gpu_engine_tasks_total", gpu),
            bytes(used, top_value(&f->rates, "reduced_gpu_pool_bytes", labels)));
        if (whole)
            add(line, " of %s", bytes(cap, top_value(&f->rates, "reduced_gpu_pool_cap_bytes", labels)));
        if (top_value(&f->rates, "reduced_gpu_power_watts", gpu) > 0) /* its driver speaks */
            add(line, "  %.0f C  %.0f W", top_value(&f->rates, "reduced_gpu_temperature_celsius", gpu),
                top_value(&f->rates, "reduced_gpu_power_watts", gpu));
        if (whole)
            add(line, "  %.12s", ctl_label(uuid, sizeof uuid, gpu, "uuid"));
        add(line, "%s", s[i].value > 0 ? "" : "  LOST");
        put_fields(f, line);
    }
}

/* ---- the last minute ---- */
static double largest(const double *v, unsigned n)
{
    double most = 0;
    for (unsigned i = 0; i < n; i++)
        most = v[i] > most ? v[i] : most;
    return most;
}

/* A character a second, its height of 8; ASCII, for every terminal has it. */
static void spark(char out[CTL_HISTORY + 1], const double *v, unsigned n)
{
    static const char level[] = "_.,:-=+*#";
    double most = largest(v, n);
    for (unsigned i = 0; i < n; i++)
        out[i] = most > 0 ? level[(int)(8 * v[i] / most + 0.999)] : level[0];
    out[n] = '\0';
}

static void put_history(frame *f)
{
    const ctl_history *h = f->rates.view->history;
    char line[CTL_HISTORY + 1], most[16];
    const int room = f->columns - HISTORY_TEXT, width = room < FEW ? FEW : room < CTL_HISTORY ? room : CTL_HISTORY;
    const unsigned n = h->n < (unsigned)width ? h->n : (unsigned)width, old = h->n - n;
    spark(line, h->requests + old, n);
    say(f, false, "history   requests %-*s  most %.1f/s", width, line, largest(h->requests + old, n));
    spark(line, h->bytes + old, n);
    say(f, false, "          data     %-*s  most %s/s", width, line, bytes(most, largest(h->bytes + old, n)));
}

static void put_help(frame *f)
{
    say(f, false, "keys      sort by requests (r), data (d), engine (e), total (t), name (n); h: this line; q: quit");
}

/* ---- tables ---- */
static void top_op(frame *f, const top_row *x)
{
    say(f, false, "%-14s %-8s %-8s %12.1f %10.1f %14.0f", x->first, x->second, x->third, x->rate, x->errors, x->total);
}

static void top_user(frame *f, const top_row *x)
{
    char data[16];
    bytes(data, x->bytes);
    say(f, false, "%-10.10s %6.1f%% %10s/s %10.1f %8.1f %9.0f%s%s", x->first, 100 * x->engine, data, x->rate, x->errors,
        x->total, x->user[0] ? "  " : "", x->user);
}

static void top_process(frame *f, const top_row *x)
{
    char data[16];
    bytes(data, x->bytes);
    const char *user = x->user[0] ? x->user : x->third;
    const int room = f->columns - MEASURES - (int)sizeof "   ()" + 1 - ctl_columns(user);
    say(f, false, "%-10s %6.1f%% %10s/s %10.1f %8.1f %9.0f  %.*s (%s)", x->second, 100 * x->engine, data, x->rate, x->errors,
        x->total, (int)ctl_fit(x->first, room > 0 ? room : 0), x->first, user);
}

/* The first that fit. */
static void put_rows(frame *f, const top_rows *r, int room, void (*put)(frame *, const top_row *))
{
    for (size_t i = 0; i < r->n && room-- > 0; i++)
        put(f, &r->row[i]);
}

static void put_measures(frame *f, const char *what, const char *name)
{
    say(f, false, "%s", "");
    say(f, true, "%-10s %7s %12s %10s %8s %9s%s", what, "ENGINE", "DATA", "REQUESTS/S", "ERRORS/S", "TOTAL", name);
}

static int at_most(size_t n, int room) { return n < (size_t)room ? (int)n : room; }

/* Users and processes get up to a third of the room each, ops the rest. */
static void put_tables(frame *f, int room)
{
    top_rows ops = top_read_ops(&f->rates), users = top_read_users(&f->rates), processes = top_read_processes(&f->rates);
    int for_users = at_most(users.n, room / 3), for_processes = at_most(processes.n, room / 3);
    say(f, true, "%-14s %-8s %-8s %12s %10s %14s", "OP", "TYPE", "PATH", "REQUESTS/S", "ERRORS/S", "TOTAL");
    put_rows(f, &ops, room - for_users - for_processes, top_op);
    if (users.n) { /* this user may see them */
        put_measures(f, "USER", f->rates.view->names ? "  NAME" : "");
        put_rows(f, &users, for_users, top_user);
    }
    if (processes.n) {
        put_measures(f, "PROCESS", "  NAME (USER)");
        put_rows(f, &processes, for_processes, top_process);
    }
    top_rows_free(&ops);
    top_rows_free(&users);
    top_rows_free(&processes);
}

void ctl_frame(const ctl_view *v, int rows, int columns, ctl_put_line *put, void *arg)
{
    frame f = {.rates = top_frame_of(v), .columns = columns, .put = put, .arg = arg};
    put_daemon(&f);
    put_traffic(&f);
    put_times(&f);
    put_engine(&f);
    put_queues(&f);
    put_pools(&f);
    put_device(&f);
    put_gpus(&f);
    if (v->history)
        put_history(&f);
    if (v->help)
        put_help(&f);
    say(&f, false, "%s", "");
    const int headings = OP_HEADING + (v->now->n_processes ? 2 : 1) * MEASURES_HEADING, taken = f.lines + headings;
    put_tables(&f, rows > taken ? rows - taken : 0);
}
