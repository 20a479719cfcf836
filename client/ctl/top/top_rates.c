#include "client/ctl/top/top_rates.h"

#include <float.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BUCKETS = 64 };

/* The interval is measured by the daemon's own clock; a restarted daemon has counted only since its start. */
static double between(const ctl_metrics *then, const ctl_metrics *now)
{
    double a = ctl_metrics_value(then, "reduced_uptime_seconds", ""), b = ctl_metrics_value(now, "reduced_uptime_seconds", "");
    return b >= a ? b - a : b;
}

top_frame top_frame_of(const ctl_view *v)
{
    const ctl_metrics *then = &v->then->metrics, *now = &v->now->metrics;
    return (top_frame){.view = v, .then = then, .now = now, .seconds = between(then, now)};
}

/* ---- numbers ---- */
double top_value(const top_frame *f, const char *name, const char *labels) { return ctl_metrics_value(f->now, name, labels); }

static double grown(double then, double now) { return now >= then ? now - then : now; }

/* From 0 if the daemon was started anew. */
static double growth(const top_frame *f, const char *name, const char *labels)
{
    return grown(ctl_metrics_value(f->then, name, labels), ctl_metrics_value(f->now, name, labels));
}

static double per_second(const top_frame *f, double more) { return f->seconds > 0 ? more / f->seconds : 0; }

double top_rate(const top_frame *f, const char *name, const char *labels) { return per_second(f, growth(f, name, labels)); }

double top_total_rate(const top_frame *f, const char *name)
{
    size_t n;
    double sum = 0;
    const ctl_sample *s = ctl_metrics_family(f->now, name, &n);
    for (size_t i = 0; i < n; i++)
        sum += top_rate(f, name, s[i].labels);
    return sum;
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
static size_t read_buckets(const top_frame *f, const char *stage, bucket out[MAX_BUCKETS])
{
    size_t n, used = 0;
    const ctl_sample *s = ctl_metrics_family(f->now, "reduced_request_seconds_bucket", &n);
    for (size_t i = 0; i < n && used < MAX_BUCKETS; i++) {
        char text[TOP_NAME];
        if (strcmp(ctl_label(text, sizeof text, s[i].labels, "stage"), stage))
            continue;
        double le = strtod(ctl_label(text, sizeof text, s[i].labels, "le"), NULL);
        out[used++] = (bucket){le, growth(f, s[i].name, s[i].labels)};
    }
    qsort(out, used, sizeof *out, top_by_le);
    return used;
}

double top_quantile(const top_frame *f, const char *stage, double q)
{
    bucket b[MAX_BUCKETS], low = {0, 0};
    size_t n = read_buckets(f, stage, b);
    double want = n ? q * b[n - 1].count : 0;
    for (size_t i = 0; want > 0 && i < n; low = b[i++])
        if (b[i].count >= want)
            return b[i].le > DBL_MAX ? low.le : low.le + (b[i].le - low.le) * (want - low.count) / (b[i].count - low.count);
    return 0;
}

/* ---- rows ---- */
typedef struct {
    ctl_sort by;
    top_row row;
} sortable;

static double key_of(const sortable *x)
{
    return x->by == CTL_BY_DATA     ? x->row.bytes
           : x->by == CTL_BY_ENGINE ? x->row.engine
           : x->by == CTL_BY_TOTAL  ? x->row.total
           : x->by == CTL_BY_NAME   ? 0
                                    : x->row.rate;
}

static int top_name_order(const top_row *a, const top_row *b)
{
    int order = strcmp(a->user, b->user);
    order = order ? order : strcmp(a->first, b->first);
    order = order ? order : strcmp(a->second, b->second);
    return order ? order : strcmp(a->third, b->third);
}

static int top_first(const void *a, const void *b)
{
    const sortable *x = a, *y = b;
    double p = key_of(x), q = key_of(y);
    if (p != q)
        return (p < q) - (p > q);
    if (x->by != CTL_BY_NAME && x->row.total != y->row.total)
        return (x->row.total < y->row.total) - (x->row.total > y->row.total);
    return top_name_order(&x->row, &y->row);
}

static void sort_rows(top_rows *r, ctl_sort by)
{
    sortable *all = malloc((r->n + 1) * sizeof *all);
    for (size_t i = 0; all && i < r->n; i++)
        all[i] = (sortable){by, r->row[i]};
    if (all)
        qsort(all, r->n, sizeof *all, top_first);
    for (size_t i = 0; all && i < r->n; i++)
        r->row[i] = all[i].row;
    free(all);
}

static top_rows new_rows(size_t most) { return (top_rows){calloc(most + 1, sizeof(top_row)), 0}; }

void top_rows_free(top_rows *r)
{
    free(r->row);
    *r = (top_rows){0};
}

/* The sample of pieces_total for one of requests_total: its labels without the last one, the result. */
static void labels_of_pieces(char *out, size_t cap, const char *labels)
{
    const char *end = strstr(labels, ",result=");
    snprintf(out, cap, "%.*s", end ? (int)(end - labels) : (int)strlen(labels), labels);
}

static bool is_row(const top_row *x, const char *op, const char *dtype, const char *path)
{
    return !strcmp(x->first, op) && !strcmp(x->second, dtype) && !strcmp(x->third, path);
}

static void add_op(const top_frame *f, top_rows *r, const ctl_sample *s)
{
    char op[TOP_NAME], dtype[TOP_NAME], path[TOP_NAME], result[TOP_NAME], pieces[160];
    ctl_label(op, sizeof op, s->labels, "op");
    ctl_label(dtype, sizeof dtype, s->labels, "dtype");
    ctl_label(path, sizeof path, s->labels, "path");
    bool fine = !strcmp(ctl_label(result, sizeof result, s->labels, "result"), "OK");
    top_row *x = &r->row[r->n ? r->n - 1 : 0];
    if (!r->n || !is_row(x, op, dtype, path)) {
        x = &r->row[r->n++];
        memcpy(x->first, op, sizeof op);
        memcpy(x->second, dtype, sizeof dtype);
        memcpy(x->third, path, sizeof path);
    }
    labels_of_pieces(pieces, sizeof pieces, s->labels);
    double rate = top_rate(f, s->name, s->labels);
    x->errors += fine ? 0 : rate;
    x->rate += rate - (fine ? top_rate(f, "reduced_pieces_total", pieces) : 0);
    x->total += s->value - (fine ? top_value(f, "reduced_pieces_total", pieces) : 0);
}

/* A row for each op, type and path, whose samples are neighbours. Rows of pieces alone go. */
top_rows top_read_ops(const top_frame *f)
{
    size_t n, kept = 0;
    const ctl_sample *s = ctl_metrics_family(f->now, "reduced_requests_total", &n);
    top_rows r = new_rows(n);
    for (size_t i = 0; r.row && i < n; i++)
        add_op(f, &r, &s[i]);
    for (size_t i = 0; i < r.n; i++)
        if (r.row[i].total > 0)
            r.row[kept++] = r.row[i];
    r.n = kept;
    sort_rows(&r, f->view->sort);
    return r;
}

/* The name in a user's certificate, or of a user of this machine; "" if it has none. */
static void name_user(const top_frame *f, char *out, size_t cap, const char *uid)
{
    if (!strncmp(uid, "tls:", 4)) {
        snprintf(out, cap, "%s", uid + 4);
        return;
    }
    char *end;
    unsigned long id = strtoul(uid, &end, 10);
    const struct passwd *p = f->view->names && *uid && !*end ? getpwuid((uid_t)id) : NULL;
    snprintf(out, cap, "%s", p ? p->pw_name : "");
}

top_rows top_read_users(const top_frame *f)
{
    size_t n;
    const ctl_sample *s = ctl_metrics_family(f->now, "reduced_user_requests_total", &n);
    top_rows r = new_rows(n);
    for (size_t i = 0; r.row && i < n; i++) {
        top_row *x = &r.row[r.n++];
        ctl_label(x->first, sizeof x->first, s[i].labels, "uid");
        name_user(f, x->user, sizeof x->user, x->first);
        x->engine = top_rate(f, "reduced_user_engine_seconds_total", s[i].labels);
        x->bytes = top_rate(f, "reduced_user_data_bytes_total", s[i].labels);
        x->rate = top_rate(f, s[i].name, s[i].labels) - top_rate(f, "reduced_user_pieces_total", s[i].labels);
        x->errors = top_rate(f, "reduced_user_errors_total", s[i].labels);
        x->total = s[i].value - top_value(f, "reduced_user_pieces_total", s[i].labels);
    }
    sort_rows(&r, f->view->sort);
    return r;
}

/* ---- processes ---- */

/* What follows `key` in the text, up to the next blank. */
static const char *field(char *out, size_t cap, const char *text, const char *key)
{
    const char *at = strstr(text, key);
    size_t n = at ? strcspn(at + strlen(key), " ") : 0;
    snprintf(out, cap, "%.*s", (int)(n < cap ? n : cap - 1), at ? at + strlen(key) : "");
    return out;
}

static double number(const char *text, const char *key)
{
    char digits[TOP_NAME];
    return strtod(field(digits, sizeof digits, text, key), NULL);
}

bool ctl_process_read(ctl_process *p, const char *key, const char *text)
{
    const char *name = strstr(text, " name=");
    if (strncmp(key, "session.", 8) || !name)
        return false;
    *p = (ctl_process){.uid = "-"};
    snprintf(p->key, sizeof p->key, "%s", key + 8);
    snprintf(p->name, sizeof p->name, "%s", name + 6);
    if (!strncmp(text, "uid=", 4)) {
        field(p->uid, sizeof p->uid, text, "uid=");
        field(p->pid, sizeof p->pid, text, " pid=");
    } else {
        field(p->pid, sizeof p->pid, text, "address=");
        const char *user = strstr(text, " user=");
        if (user && user < name) /* and not in the name, which the client chose */
            field(p->uid, sizeof p->uid, text, " user=");
    }
    p->requests = number(text, " requests=");
    p->pieces = number(text, " pieces=");
    p->errors = number(text, " errors=");
    p->bytes = number(text, " bytes=");
    p->engine_s = number(text, " engine_us=") * 1e-6;
    return true;
}

/* The same session at the first moment; zeros if it has begun since. */
static ctl_process earlier(const top_frame *f, const ctl_process *p)
{
    const ctl_moment *m = f->view->then;
    for (size_t i = 0; i < m->n_processes; i++)
        if (!strcmp(m->process[i].key, p->key) && !strcmp(m->process[i].pid, p->pid))
            return m->process[i];
    return (ctl_process){0};
}

top_rows top_read_processes(const top_frame *f)
{
    const ctl_moment *m = f->view->now;
    top_rows r = new_rows(m->n_processes);
    for (size_t i = 0; r.row && i < m->n_processes; i++) {
        const ctl_process *p = &m->process[i];
        ctl_process was = earlier(f, p);
        top_row *x = &r.row[r.n++];
        snprintf(x->first, sizeof x->first, "%s", p->name);
        snprintf(x->second, sizeof x->second, "%s", p->pid);
        snprintf(x->third, sizeof x->third, "%s", p->uid);
        name_user(f, x->user, sizeof x->user, p->uid);
        x->engine = per_second(f, grown(was.engine_s, p->engine_s));
        x->bytes = per_second(f, grown(was.bytes, p->bytes));
        x->rate = per_second(f, grown(was.requests - was.pieces, p->requests - p->pieces));
        x->errors = per_second(f, grown(was.errors, p->errors));
        x->total = p->requests - p->pieces;
    }
    sort_rows(&r, f->view->sort);
    return r;
}

/* ---- history ---- */
void ctl_history_add(ctl_history *h, const ctl_view *v)
{
    top_frame f = top_frame_of(v);
    if (h->n == CTL_HISTORY) {
        h->n--;
        memmove(h->requests, h->requests + 1, h->n * sizeof *h->requests);
        memmove(h->bytes, h->bytes + 1, h->n * sizeof *h->bytes);
    }
    h->requests[h->n] = top_total_rate(&f, "reduced_requests_total") - top_total_rate(&f, "reduced_pieces_total");
    h->bytes[h->n++] = top_total_rate(&f, "reduced_data_bytes_total");
}
