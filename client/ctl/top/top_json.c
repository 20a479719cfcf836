/* Two moments of a daemon as one object of JSON on one line. */
#include <string.h>

#include "client/ctl/top/top_rates.h"

static void put_text(FILE *out, const char *key, const char *text)
{
    fprintf(out, "\"%s\":", key);
    ctl_json_string(out, text);
}

static void put_number(FILE *out, const char *key, double v) { fprintf(out, ",\"%s\":%.12g", key, v); }

/* A family with one label as an object. */
static void put_family(const top_frame *f, FILE *out, const char *key, const char *name, const char *label, bool rates)
{
    size_t n;
    char value[TOP_NAME];
    const ctl_sample *s = ctl_metrics_family(f->now, name, &n);
    fprintf(out, ",\"%s\":{", key);
    for (size_t i = 0; i < n; i++) {
        fputs(i ? "," : "", out);
        ctl_json_string(out, ctl_label(value, sizeof value, s[i].labels, label));
        fprintf(out, ":%.12g", rates ? top_rate(f, name, s[i].labels) : s[i].value);
    }
    fputc('}', out);
}

static void put_times(const top_frame *f, FILE *out)
{
    static const char *const stages[] = {"queue", "copy", "kernel", "total"};
    fputs(",\"seconds\":{", out);
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        fprintf(out, "%s\"%s\":{\"p50\":%.6g,\"p99\":%.6g}", i ? "," : "", stages[i], top_quantile(f, stages[i], 0.5),
                top_quantile(f, stages[i], 0.99));
    fputc('}', out);
}

static void put_device(const top_frame *f, FILE *out)
{
    size_t n;
    ctl_metrics_family(f->now, "reduced_device_memory_bytes", &n);
    if (n == 0)
        return;
    put_number(out, "device_busy", top_value(f, "reduced_device_busy_ratio", ""));
    put_number(out, "device_celsius", top_value(f, "reduced_device_temperature_celsius", ""));
    put_number(out, "device_watts", top_value(f, "reduced_device_power_watts", ""));
    put_family(f, out, "device_memory_bytes", "reduced_device_memory_bytes", "kind", false);
}

/* Each device, where there are several. */
static void put_gpus(const top_frame *f, FILE *out)
{
    size_t n;
    char text[48]; /* a whole UUID */
    const ctl_sample *s = ctl_metrics_family(f->now, "reduced_gpu_healthy", &n);
    if (n < 2)
        return;
    fputs(",\"gpus\":[", out);
    for (size_t i = 0; i < n; i++) {
        fputs(i ? ",{" : "{", out);
        put_text(out, "gpu", ctl_label(text, sizeof text, s[i].labels, "gpu"));
        fputc(',', out);
        put_text(out, "uuid", ctl_label(text, sizeof text, s[i].labels, "uuid"));
        fprintf(out, ",\"healthy\":%s", s[i].value > 0 ? "true" : "false");
        put_number(out, "busy", top_rate(f, "reduced_gpu_engine_busy_seconds_total", s[i].labels));
        put_number(out, "tasks_per_s", top_rate(f, "reduced_gpu_engine_tasks_total", s[i].labels));
        fputc('}', out);
    }
    fputc(']', out);
}

static void put_measures(FILE *out, const top_row *x, bool engine)
{
    put_number(out, "requests_per_s", x->rate);
    put_number(out, "errors_per_s", x->errors);
    put_number(out, "requests", x->total);
    if (engine) {
        put_number(out, "engine", x->engine);
        put_number(out, "bytes_per_s", x->bytes);
    }
}

static void put_table(FILE *out, const char *key, const char *const names[4], top_rows rows)
{
    fprintf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < rows.n; i++) {
        const top_row *x = &rows.row[i];
        const char *const texts[] = {x->first, x->second, x->third, x->user};
        fputs(i ? ",{" : "{", out);
        for (int k = 0, put = 0; k < 4; k++)
            if (names[k] && texts[k][0]) {
                fputs(put++ ? "," : "", out);
                put_text(out, names[k], texts[k]);
            }
        put_measures(out, x, !names[1] || strcmp(names[1], "dtype"));
        fputc('}', out);
    }
    fputc(']', out);
    top_rows_free(&rows);
}

void ctl_frame_json(const ctl_view *v, FILE *out)
{
    static const char *const op[] = {"op", "dtype", "path", NULL}, *const user[] = {"uid", NULL, NULL, "user"},
                             *const process[] = {"name", "pid", "uid", "user"};
    top_frame f = top_frame_of(v);
    fprintf(out, "{\"over_s\":%.9g,\"healthy\":%s", f.seconds, top_value(&f, "reduced_healthy", "") > 0 ? "true" : "false");
    put_number(out, "uptime_s", top_value(&f, "reduced_uptime_seconds", ""));
    put_number(out, "requests_per_s",
               top_total_rate(&f, "reduced_requests_total") - top_total_rate(&f, "reduced_pieces_total"));
    put_number(out, "pieces_per_s", top_total_rate(&f, "reduced_pieces_total"));
    put_number(out, "messages_per_s", top_total_rate(&f, "reduced_messages_total"));
    put_number(out, "errors_per_s", top_total_rate(&f, "reduced_errors_total"));
    put_number(out, "bytes_per_s", top_total_rate(&f, "reduced_data_bytes_total"));
    put_number(out, "received_bytes_per_s", top_rate(&f, "reduced_received_bytes_total", ""));
    put_number(out, "engine_busy", top_rate(&f, "reduced_engine_busy_seconds_total", ""));
    put_number(out, "sessions", top_value(&f, "reduced_sessions", ""));
    put_times(&f, out);
    put_family(&f, out, "tasks_per_s", "reduced_engine_tasks_total", "where", true);
    put_family(&f, out, "queues", "reduced_queue_length", "queue", false);
    put_family(&f, out, "pool_bytes", "reduced_pool_bytes", "pool", false);
    put_family(&f, out, "pool_cap_bytes", "reduced_pool_cap_bytes", "pool", false);
    put_device(&f, out);
    put_gpus(&f, out);
    put_table(out, "ops", op, top_read_ops(&f));
    put_table(out, "users", user, top_read_users(&f));
    put_table(out, "processes", process, top_read_processes(&f));
    fputs("}\n", out);
}
