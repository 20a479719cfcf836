/* reducectl status: the daemon's status by section, in readable units. Zeros among many counters are left out. A terminal gets
 * several values a line, and of what is held only that. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/ctl/ctl.h"
#include "client/ctl/text/screen_text.h"

typedef struct section {
    const char *name, *brief;
    const char *keys[12]; /* a key, or with a point or an underscore at its end what keys begin with */
} section;

static const section sections[] = {
    {"daemon",
     "daemon",
     {"version", "backend", "device", "device_note", "simd", "threads", "local", "uptime_s", "health", "listen.", "rss_bytes"}},
    {"clients", "clients", {"sessions", "sessions_", "connections", "streams", "streams_", "inflight", "disconnected"}},
    {"requests", "requests", {"requests", "errors", "errors.", "bytes_in", "latency.", "requests.", "claimed."}},
    {"engine", "engine", {"tasks", "tasks_", "busy_s", "pool."}},
    {"shared memory and files", "files", {"side."}},
    {"devices", "devices", {"devices", "devices_", "device.", "gpu."}},
    {"resident data", "resident", {"resident."}},
    {"held for this user, and limits", "held", {"held.", "limit."}},
    {"held for all and for other users", "others", {"all.", "all_limit.", "user."}},
    {"other", "other", {""}}};
enum { SECTIONS = sizeof sections / sizeof *sections, MAX_TEXT = 64 };
enum { FIELD = 256, TITLE = 10 };

typedef struct line {
    char *key, *value;
    int section;
} line;

typedef struct report {
    line *lines;
    size_t n;
} report;

/* ---- units ---- */

static bool ends_in(const char *key, const char *end)
{
    size_t n = strlen(key), m = strlen(end);
    return n >= m && !strcmp(key + n - m, end);
}

static void put_bytes(char out[MAX_TEXT], uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double v = (double)bytes;
    int unit = 0;
    for (; v >= 1024 && unit < 6; unit++)
        v /= 1024;
    snprintf(out, MAX_TEXT, unit ? "%.3g %s" : "%.0f %s", v >= 1000 ? (double)(int)v : v, units[unit]);
}

static void put_seconds(char out[MAX_TEXT], double s)
{
    uint64_t whole = (uint64_t)s;
    if (s < 1e-3)
        snprintf(out, MAX_TEXT, "%.3g us", s * 1e6);
    else if (s < 1)
        snprintf(out, MAX_TEXT, "%.3g ms", s * 1e3);
    else if (whole < 60)
        snprintf(out, MAX_TEXT, "%.3g s", s);
    else if (whole < 3600)
        snprintf(out, MAX_TEXT, "%" PRIu64 " min %" PRIu64 " s", whole / 60, whole % 60);
    else if (whole < 86400)
        snprintf(out, MAX_TEXT, "%" PRIu64 " h %" PRIu64 " min", whole / 3600, whole / 60 % 60);
    else
        snprintf(out, MAX_TEXT, "%" PRIu64 " d %" PRIu64 " h", whole / 86400, whole / 3600 % 24);
}

static void put_value(char out[MAX_TEXT], const reduce_entry *e)
{
    double v = e->kind == REDUCE_KIND_F64 ? e->f64 : (double)e->u64;
    if (e->kind == REDUCE_KIND_U64 && (ends_in(e->key, "bytes") || ends_in(e->key, "cap") || ends_in(e->key, "bytes_in")))
        put_bytes(out, e->u64);
    else if (ends_in(e->key, "_s"))
        put_seconds(out, v);
    else if (ends_in(e->key, "_us"))
        put_seconds(out, v * 1e-6);
    else if (e->kind == REDUCE_KIND_F64)
        snprintf(out, MAX_TEXT, "%g", e->f64);
    else
        snprintf(out, MAX_TEXT, "%" PRIu64, e->u64);
}

/* ---- the report ---- */

static int section_of(const char *key)
{
    for (int s = 0; s < SECTIONS; s++)
        for (int k = 0; k < 12 && sections[s].keys[k]; k++) {
            const char *want = sections[s].keys[k];
            size_t n = strlen(want);
            bool prefix = n == 0 || want[n - 1] == '.' || want[n - 1] == '_';
            if (prefix ? !strncmp(key, want, n) : !strcmp(key, want))
                return s;
        }
    return SECTIONS - 1;
}

/* One of many counters, which is 0 */
static bool is_dull(const reduce_entry *e)
{
    static const char *const many[] = {"requests.", "pool.", "side.", "tasks_"};
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        if (!strncmp(e->key, many[i], strlen(many[i])))
            return e->kind == REDUCE_KIND_U64 ? e->u64 == 0 : e->kind == REDUCE_KIND_F64 && e->f64 == 0;
    return false;
}

static int status_take(void *arg, const reduce_entry *e)
{
    report *r = arg;
    char text[MAX_TEXT];
    if (is_dull(e))
        return 0;
    line *more = realloc(r->lines, (r->n + 1) * sizeof *more);
    if (!more)
        return REDUCE_E_NO_MEMORY;
    r->lines = more;
    if (e->kind != REDUCE_KIND_TEXT)
        put_value(text, e);
    line l = {strdup(e->key), strdup(e->kind == REDUCE_KIND_TEXT ? e->text : text), section_of(e->key)};
    r->lines[r->n++] = l;
    return l.key && l.value ? 0 : REDUCE_E_NO_MEMORY;
}

static void print_report(const report *r)
{
    for (int s = 0; s < SECTIONS; s++) {
        bool headed = false;
        for (size_t i = 0; i < r->n; i++) {
            if (r->lines[i].section != s)
                continue;
            if (!headed)
                printf("-- %s --\n", sections[s].name);
            headed = true;
            printf("%-24s %s\n", r->lines[i].key, r->lines[i].value);
        }
    }
}

/* ---- on a terminal ---- */

static const char *value_of(const report *r, const char *before, const char *key)
{
    const size_t n = strlen(before);
    for (size_t i = 0; i < r->n; i++)
        if (!strncmp(r->lines[i].key, before, n) && !strcmp(r->lines[i].key + n, key))
            return r->lines[i].value;
    return NULL;
}

static bool is_zero(const char *value) { return value[0] == '0' && (!value[1] || value[1] == ' '); }

static bool begins(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

/* Bytes of "gpu.N." at the begin of a key; 0: it is of another kind. */
static int gpu_title(const char *key)
{
    const size_t digits = begins(key, "gpu.") ? strspn(key + 4, "0123456789") : 0;
    return digits && key[4 + digits] == '.' ? (int)(4 + digits + 1) : 0;
}

/* Returns the column after it. */
static int put_title(const char *text, int gpu, bool ends)
{
    char title[TITLE + 1];
    if (gpu)
        snprintf(title, sizeof title, "gpu %.*s", gpu - 5, text + 4);
    else
        snprintf(title, sizeof title, "%s", text);
    if (ends)
        putchar('\n');
    return printf("%-*s", TITLE, title);
}

/* The value of what ends in `to` where the key ends in `from`; NULL: the key does not, or there is none. */
static const char *sibling(const report *r, const char *key, const char *from, const char *to)
{
    char other[FIELD];
    if (!ends_in(key, from))
        return NULL;
    snprintf(other, sizeof other, "%.*s%s", (int)(strlen(key) - strlen(from)), key, to);
    return value_of(r, "", other);
}

/* Left out: 0, which is news only of errors; limits and caps, which stand behind what they bound; what all users hold if it is
 * what this one holds. */
static bool is_left_out(const report *r, const line *l)
{
    const char *own = begins(l->key, "all.") ? value_of(r, "held.", l->key + strlen("all.")) : NULL;
    return (is_zero(l->value) && strcmp(l->key, "errors")) || begins(l->key, "limit.") || begins(l->key, "all_limit.") ||
           sibling(r, l->key, "cap", "bytes") || (own && !strcmp(own, l->value));
}

/* "key value" or "key value of limit", without what the line's title says. */
static void put_field(const report *r, const line *l, char out[FIELD])
{
    const char *key = l->key, *limit = sibling(r, key, "bytes", "cap");
    if (begins(key, "held.") || begins(key, "all.")) {
        const bool held = begins(key, "held.");
        key += strlen(held ? "held." : "all.");
        limit = value_of(r, held ? "limit." : "all_limit.", key);
    } else if (begins(key, "gpu.")) {
        key += gpu_title(key);
    }
    snprintf(out, FIELD, "%s %s%s%s", key, l->value, limit ? " of " : "", limit ? limit : "");
}

/* A line begins with the section's title, and with "gpu N" for each of several devices. */
static void print_section(const report *r, int s, int columns)
{
    const char *before = "";
    int at = 0;
    for (size_t i = 0; i < r->n; i++) {
        const line *l = &r->lines[i];
        char field[FIELD];
        if (l->section != s || is_left_out(r, l))
            continue;
        put_field(r, l, field);
        const int title = gpu_title(l->key), width = ctl_columns(field);
        const bool anew = at == 0 || title != gpu_title(before) || strncmp(before, l->key, (size_t)title) != 0;
        before = l->key;
        if (anew)
            at = put_title(title ? l->key : sections[s].brief, title, at > 0);
        else if (at + 2 + width > columns)
            at = printf("\n%*s", TITLE, "") - 1;
        else
            at += printf("  ");
        at = ctl_put_words(stdout, at, TITLE, columns, field);
    }
    if (at)
        putchar('\n');
}

static void print_screen(const report *r)
{
    const int columns = ctl_screen_columns();
    for (int s = 0; s < SECTIONS; s++)
        print_section(r, s, columns);
}

int ctl_status(reduce_client *c, const ctl_options *o)
{
    report r = {0};
    int err = reduce_query(c, REDUCE_TOPIC_STATUS, status_take, &r);
    if (!err)
        (isatty(STDOUT_FILENO) && !o->verbose ? print_screen : print_report)(&r);
    for (size_t i = 0; i < r.n; i++) {
        free(r.lines[i].key);
        free(r.lines[i].value);
    }
    free(r.lines);
    return err ? ctl_print_error(o, &(ctl_where){.name = "status"}, err, err == REDUCE_E_NO_MEMORY ? "no memory for it" : NULL)
               : CTL_OK;
}

/* ---- again and again ---- */

int ctl_watch(reduce_client *c, const ctl_options *o, int (*show)(reduce_client *c, const ctl_options *o))
{
    const struct timespec second = {1, 0};
    int code = CTL_OK;
    while (code == CTL_OK && !ctl_interrupted()) {
        if (isatty(STDOUT_FILENO))
            fputs("\033[H\033[2J", stdout);
        code = show(c, o);
        if (fflush(stdout))
            return code;
        nanosleep(&second, NULL); /* shorter if interrupted */
    }
    return code;
}
