#include "daemon/request/session_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/request/describe.h"
#include "daemon/request/entries.h"
#include "proto/clean.h"

static void count(atomic_uint_fast64_t *counter, uint64_t n)
{
    if (n)
        atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

void rd_session_count(rd_session *x, const rd_record *a)
{
    count(&x->use.requests, 1);
    count(&x->use.pieces, a->piece && !a->err);
    count(&x->use.errors, a->err != RP_OK);
    if (a->err)
        return;
    count(&x->use.bytes, a->data_bytes);
    count(&x->use.engine_ns, a->stage_ns[RD_COPY] + a->stage_ns[RD_KERNEL]);
}

static uint64_t counted(const atomic_uint_fast64_t *counter) { return atomic_load_explicit(counter, memory_order_relaxed); }

/* "uid=1000 pid=12 priority=normal requests=7 ... name=demo": the name, which may have blanks, last */
static void describe(const rd_session *x, char *out, size_t cap)
{
    FILE *f = fmemopen(out, cap, "w"); /* cuts what is too long, and ends the text */
    out[0] = '\0';
    if (!f)
        return;
    rd_describe_peer(f, x);
    fprintf(f, " priority=%s requests=%" PRIu64 " pieces=%" PRIu64 " errors=%" PRIu64 " bytes=%" PRIu64 " engine_us=%" PRIu64,
            rp_priority_name((int)x->priority), counted(&x->use.requests), counted(&x->use.pieces), counted(&x->use.errors),
            counted(&x->use.bytes), counted(&x->use.engine_ns) / 1000);
    fputs(" name=", f);
    rd_describe_name(f, x);
    fclose(f);
    rp_clean(out, cap, out, 0); /* the client chose the name, and a character may have been cut */
}

static bool listed(const rd_session *viewer, const rd_session *x) { return x->id && rd_may_see(viewer, x); }

static void put_session(const rd_session *x, rp_writer *w)
{
    char key[RP_MAX_KEY + 1], text[RP_MAX_VALUE + 1];
    snprintf(key, sizeof key, "session.%" PRIu32, x->connection);
    describe(x, text, sizeof text);
    rd_put_text(w, key, text);
}

void rd_session_list_put(const rd_sessions *s, const rd_session *viewer, rp_writer *w)
{
    uint64_t n = 0;
    for (size_t i = 0; i <= s->mask; i++)
        for (const rd_session *x = s->bucket[i]; x; x = x->next)
            n += listed(viewer, x);
    rd_put_u64(w, "sessions", n);
    for (size_t i = 0; i <= s->mask; i++)
        for (const rd_session *x = s->bucket[i]; x; x = x->next)
            if (listed(viewer, x) && w->n < RP_MAX_ENTRIES)
                put_session(x, w);
}

static rd_process process_of(const rd_session *x)
{
    rd_process p = {.uid = x->peer.uid, .pid = x->peer.pid, .connection = x->connection};
    rp_clean(p.name, sizeof p.name, x->name, 0);
    p.requests = counted(&x->use.requests);
    p.pieces = counted(&x->use.pieces);
    p.errors = counted(&x->use.errors);
    p.bytes = counted(&x->use.bytes);
    p.engine_ns = counted(&x->use.engine_ns);
    return p;
}

rd_process *rd_session_list_processes(const rd_sessions *s, size_t *n)
{
    size_t cap = s->connections;
    rd_process *p = cap ? malloc(cap * sizeof *p) : NULL;
    *n = 0;
    for (size_t i = 0; p && i <= s->mask; i++)
        for (const rd_session *x = s->bucket[i]; x && *n < cap; x = x->next)
            if (x->id && x->peer.local)
                p[(*n)++] = process_of(x);
    return p;
}
