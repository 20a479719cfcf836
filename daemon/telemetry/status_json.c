#include "daemon/telemetry/status_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/telemetry/json_text.h"
#include "proto/clock.h"
#include "proto/codec.h"

/* The addresses it listens on are for its users, which may ask it. */
static bool is_public(const rp_entry *e) { return e->key_len < 7 || memcmp(e->key, "listen.", 7) != 0; }

static void put_entry(FILE *f, const rp_entry *e)
{
    rd_json_text(f, e->key, e->key_len);
    fputc(':', f);
    if (e->kind == RP_KIND_TEXT)
        rd_json_text(f, e->text, e->text_len);
    else if (e->kind == RP_KIND_U64)
        fprintf(f, "%" PRIu64, e->u64);
    else
        fprintf(f, "%.9g", e->f64);
}

static void put_status(FILE *f, const void *entries, size_t n)
{
    rp_reader r = {.body = entries, .len = n};
    rp_entry e;
    rp_fault fault;
    bool end = false;
    const char *between = "";
    fputs("\"status\":{", f);
    while (rp_get_entry(&r, &e, &end, &fault) == RP_OK && !end)
        if (is_public(&e)) {
            fputs(between, f);
            put_entry(f, &e);
            between = ",";
        }
    fputc('}', f);
}

static uint64_t failures(const rd_stats *s, int op, int dtype, int path)
{
    uint64_t n = 0;
    for (int e = 1; e < RD_ERRS; e++)
        n += s->failed[op][dtype][path][e];
    return n;
}

static void put_op(FILE *f, const rd_stats *s, int op, int dtype, int path, const char **between)
{
    uint64_t done = s->tally.done[op][dtype][path], failed = failures(s, op, dtype, path);
    if (done + failed == 0)
        return;
    fprintf(f,
            "%s{\"op\":\"%s\",\"dtype\":\"%s\",\"path\":\"%s\",\"ok\":%" PRIu64 ",\"pieces\":%" PRIu64 ",\"errors\":%" PRIu64
            ",\"bytes\":%" PRIu64 "}",
            *between, rd_known_name(op, rp_op_name), rd_known_name(dtype, rp_dtype_name), rd_known_name(path, rp_path_name),
            done, s->tally.pieces[op][dtype][path], failed, s->tally.data_bytes[op][dtype][path]);
    *between = ",";
}

static void put_ops(FILE *f, const rd_stats *s)
{
    const char *between = "";
    fputs(",\"ops\":[", f);
    for (int op = 0; op < RD_OPS; op++)
        for (int dtype = 0; dtype < RD_DTYPES; dtype++)
            for (int path = 0; path < RD_PATHS; path++)
                put_op(f, s, op, dtype, path, &between);
    fputs("],\"bytes\":{", f);
    for (int path = 1; path < RD_PATHS; path++)
        fprintf(f, "%s\"%s\":%" PRIu64, path > 1 ? "," : "", rp_path_name(path), rd_tally_path_bytes(&s->tally, path));
    fputc('}', f);
}

/* How many requests took less than 2^10, 2^11, ... ns, and all. */
static void put_times(FILE *f, const rd_tally *t)
{
    fputs(",\"times\":{", f);
    for (int i = 0; i < RD_STAGES; i++) {
        fprintf(f, "%s\"%s\":[", i ? "," : "", rd_stage_names[i]);
        for (unsigned e = RD_FIRST_LE; e <= RD_LAST_LE; e++)
            fprintf(f, "%" PRIu64 ",", rd_histogram_below(&t->stage[i], e));
        fprintf(f, "%" PRIu64 "]", t->stage[i].count);
    }
    fputc('}', f);
}

static void put_users(FILE *f, const rd_stats *s, const rd_logins *logins)
{
    const char *between = "";
    fputs(",\"users\":[", f);
    for (unsigned i = 0; i < RD_FIRST_USER + s->users; i++) {
        const rd_use *u = &s->tally.use[i];
        if (i < RD_FIRST_USER && !u->requests)
            continue;
        fprintf(f, "%s{\"uid\":\"%s\"", between, s->user[i]);
        if (logins->name[i][0]) {
            fputs(",\"name\":", f);
            rd_json_text(f, logins->name[i], strlen(logins->name[i]));
        }
        fprintf(f,
                ",\"requests\":%" PRIu64 ",\"pieces\":%" PRIu64 ",\"errors\":%" PRIu64 ",\"bytes\":%" PRIu64
                ",\"engine_s\":%.9f}",
                u->requests, u->pieces, u->errors, u->bytes, (double)u->engine_ns * 1e-9);
        between = ",";
    }
    fputc(']', f);
}

/* ---- devices ---- */
static void put_device(FILE *f, const rk_stats *k, uint64_t bytes, double best)
{
    fputs("{\"name\":", f);
    rd_json_text(f, k->device, strlen(k->device));
    fprintf(f, ",\"uuid\":\"%s\",\"lost\":%s,\"active_s\":%.9f", k->uuid, k->lost ? "true" : "false",
            (double)k->active_ns * 1e-9);
    fprintf(f, ",\"tasks\":%" PRIu64 ",\"slots\":%" PRIu64 ",\"slots_busy\":%" PRIu64, k->tasks, k->slots, k->slots_busy);
    fprintf(f, ",\"memory\":%" PRIu64 ",\"memory_cap\":%" PRIu64, k->device_bytes, k->device_cap);
    fprintf(f, ",\"resident\":%" PRIu64 ",\"resident_cap\":%" PRIu64, k->resident_bytes, k->resident_cap);
    fprintf(f, ",\"bytes\":%" PRIu64 ",\"best_bytes_per_s\":%.9g,\"peak_bytes_per_s\":%" PRIu64 "}", bytes, best,
            k->memory_peak);
}

/* A single CPU engine is one entry, whose figures are the totals. */
static void put_devices(FILE *f, const rd_measures *m, const rd_rates *rates)
{
    fputs(",\"devices\":[", f);
    for (unsigned i = 0; i < (m->gpus ? m->gpus : 1); i++) {
        fputs(i ? "," : "", f);
        put_device(f, m->gpus ? &m->gpu[i] : &m->engine, m->stats->tally.device_bytes[i], rates->device_best[i]);
    }
    fputc(']', f);
}

static void put_one_slow(FILE *f, const rd_slow *x, uint64_t now_ns)
{
    fprintf(f, "{\"op\":\"%s\",\"dtype\":\"%s\",\"path\":\"%s\",\"bytes\":%" PRIu64 ",\"age_s\":%.3f",
            rd_known_name(x->op, rp_op_name), rd_known_name(x->dtype, rp_dtype_name), rd_known_name(x->path, rp_path_name),
            x->bytes, now_ns > x->end_ns ? (double)(now_ns - x->end_ns) * 1e-9 : 0);
    fprintf(f, ",\"queue_s\":%.9f,\"copy_s\":%.9f,\"kernel_s\":%.9f,\"total_s\":%.9f}", (double)x->stage_ns[RD_QUEUE] * 1e-9,
            (double)x->stage_ns[RD_COPY] * 1e-9, (double)x->stage_ns[RD_KERNEL] * 1e-9, (double)x->stage_ns[RD_TOTAL] * 1e-9);
}

/* The last one first */
static void put_slow(FILE *f, const rd_tally *t)
{
    uint64_t now = rp_now_ns(), n = t->slow_n < RD_SLOW ? t->slow_n : RD_SLOW;
    fprintf(f, ",\"slow_total\":%" PRIu64 ",\"slow\":[", t->slow_n);
    for (uint64_t i = 0; i < n; i++) {
        fputs(i ? "," : "", f);
        put_one_slow(f, &t->slow[(t->slow_n - 1 - i) % RD_SLOW], now);
    }
    fputc(']', f);
}

char *rd_status_json(const rd_measures *m, const void *entries, size_t n, const rd_rates *rates, const rd_logins *logins,
                     size_t *len)
{
    char *text = NULL;
    struct timespec now;
    FILE *f = open_memstream(&text, len);
    if (!f)
        return NULL;
    clock_gettime(CLOCK_REALTIME, &now);
    fprintf(f, "{\"now_ms\":%lld,\"best_bytes_per_s\":%.9g,", (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000,
            rates->best);
    fprintf(f, "\"busy_s\":%.9f,", (double)m->gauges.active * 1e-9);
    put_status(f, entries, n);
    put_ops(f, m->stats);
    put_times(f, &m->stats->tally);
    put_users(f, m->stats, logins);
    put_devices(f, m, rates);
    put_slow(f, &m->stats->tally);
    fputs("}\n", f);
    if (fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}
