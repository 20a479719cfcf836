#include "daemon/telemetry/stats.h"

#include <stdio.h>
#include <string.h>

#include "daemon/base/brief_lock.h"
#include "proto/clock.h"

/* Every code has its place. */
#define X(NAME, name, code) _Static_assert(code < RD_MSGS, "RD_MSGS");
RP_MSGS(X)
#undef X
#define X(NAME, name, code, ...) _Static_assert(code < RD_OPS, "a gap in RP_OPS");
RP_OPS(X)
#undef X
#define X(NAME, name, code, bytes, class) _Static_assert(code < RD_DTYPES, "a gap in RP_DTYPES");
RP_DTYPES(X)
#undef X
#define X(NAME, name, code) _Static_assert(code < RD_PATHS, "a gap in RP_PATHS");
RP_PATHS(X)
#undef X
#define X(NAME, code, help) _Static_assert(code < RD_ERRS, "a gap in RP_ERRORS");
RP_ERRORS(X)
#undef X

const char *const rd_stage_names[RD_STAGES] = {"queue", "copy", "kernel", "total"};

const char *const rd_fault_names[RD_FAULTS] = {"data", "request", "load", "daemon", "machine"};

/* IO is of the file that a client passed. That includes disks that fail: a client may pass a file whose reads fail as it
 * likes. */
static rd_whose_fault fault_of(rp_err err)
{
    switch (err) {
    case RP_EMPTY:
    case RP_OVERFLOW:
    case RP_NAN:
    case RP_IO:
        return RD_FAULT_DATA;
    case RP_BAD_MESSAGE:
    case RP_VERSION:
    case RP_TYPE:
    case RP_OP:
    case RP_SHAPE:
    case RP_TOO_LARGE:
    case RP_NO_SESSION:
    case RP_BAD_HANDLE:
    case RP_AUTH:
    case RP_EXISTS:
        return RD_FAULT_REQUEST;
    case RP_QUOTA:
    case RP_BUSY:
    case RP_DEADLINE:
    case RP_CANCELLED:
        return RD_FAULT_LOAD;
    case RP_DEVICE_LOST:
    case RP_NO_MEMORY:
        return RD_FAULT_MACHINE;
    case RP_INTERNAL:
    case RP_OK:
        break;
    }
    return RD_FAULT_DAEMON;
}

uint64_t rd_stats_faults(const rd_stats *s, rd_whose_fault fault)
{
    uint64_t n = 0;
    for (int e = 1; e < RD_ERRS; e++)
        n += fault_of((rp_err)e) == fault ? s->by_err[e] : 0;
    return n;
}

/* The place of a code that may be none. */
static unsigned place(int code, unsigned places) { return code > 0 && (unsigned)code < places ? (unsigned)code : 0; }

unsigned rd_stats_user(rd_stats *s, const char *text)
{
    if (!text)
        return RD_USER_UNKNOWN;
    for (unsigned i = RD_FIRST_USER; i < RD_FIRST_USER + s->users; i++)
        if (strcmp(s->user[i], text) == 0)
            return i;
    if (RD_FIRST_USER + s->users == RD_MAX_USERS)
        return RD_USER_OTHER;
    unsigned i = RD_FIRST_USER + s->users++;
    snprintf(s->user[i], sizeof s->user[i], "%s", text);
    return i;
}

static void add_slow(rd_tally *t, const rd_slow *x) { t->slow[t->slow_n++ % RD_SLOW] = *x; }

static void add_if_slow(rd_tally *t, const rd_record *a)
{
    rd_slow x = {
        place(a->op, RD_OPS), place(a->dtype, RD_DTYPES), place(a->path, RD_PATHS), a->data_bytes, a->received_ns, {0}};
    if (a->stage_ns[RD_TOTAL] < RD_SLOW_MS * RP_NS_PER_MS)
        return;
    x.end_ns += a->stage_ns[RD_TOTAL];
    memcpy(x.stage_ns, a->stage_ns, sizeof x.stage_ns);
    add_slow(t, &x);
}

static void add_work(rd_tally *t, const rd_record *a)
{
    unsigned op = place(a->op, RD_OPS), dtype = place(a->dtype, RD_DTYPES), path = place(a->path, RD_PATHS);
    t->done[op][dtype][path]++;
    t->pieces[op][dtype][path] += a->piece;
    t->use[a->user].pieces += a->piece;
    t->data_bytes[op][dtype][path] += a->data_bytes;
    if (a->device >= 0)
        t->device_bytes[a->device] += a->data_bytes;
    t->use[a->user].bytes += a->data_bytes;
    t->use[a->user].engine_ns += a->stage_ns[RD_COPY] + a->stage_ns[RD_KERNEL];
    add_if_slow(t, a);
    for (int i = 0; i < RD_STAGES; i++)
        rd_histogram_add(&t->stage[i], a->stage_ns[i]);
}

/* No number of a client's choice makes a sum small again. */
static void add_claim(rp_claim *to, rp_claim more)
{
    to->requests = to->requests + more.requests < more.requests ? UINT64_MAX : to->requests + more.requests;
    to->bytes = to->bytes + more.bytes < more.bytes ? UINT64_MAX : to->bytes + more.bytes;
}

rp_claim rd_tally_claim(const rd_tally *t)
{
    rp_claim all = {0};
    for (int i = 0; i < RD_MAX_USERS; i++)
        add_claim(&all, t->use[i].claim);
    return all;
}

void rd_tally_add(rd_tally *t, const rd_record *a)
{
    bool failed = a->err != RP_OK;
    t->requests++;
    t->by_msg[place(a->msg, RD_MSGS)]++;
    t->bytes_in += a->body_bytes;
    t->errors += failed;
    rd_histogram_add(&t->latency, a->stage_ns[RD_TOTAL]);
    t->use[a->user].requests++;
    t->use[a->user].errors += failed;
    add_claim(&t->use[a->user].claim, a->claim);
    if (a->worked && !failed)
        add_work(t, a);
}

uint64_t rd_tally_path_bytes(const rd_tally *t, int path)
{
    uint64_t n = 0;
    for (int op = 0; op < RD_OPS; op++)
        for (int dtype = 0; dtype < RD_DTYPES; dtype++)
            n += t->data_bytes[op][dtype][path];
    return n;
}

static void join(uint64_t *to, const uint64_t *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

static void join_use(rd_use *to, const rd_use *from)
{
    to->requests += from->requests;
    to->pieces += from->pieces;
    to->errors += from->errors;
    to->bytes += from->bytes;
    to->engine_ns += from->engine_ns;
    add_claim(&to->claim, from->claim);
}

void rd_tally_join(rd_tally *t, const rd_tally *from)
{
    t->requests += from->requests;
    t->bytes_in += from->bytes_in;
    t->errors += from->errors;
    join(t->by_msg, from->by_msg, RD_MSGS);
    join(t->by_op, from->by_op, RD_OPS);
    join(&t->done[0][0][0], &from->done[0][0][0], sizeof t->done / sizeof(uint64_t));
    join(&t->pieces[0][0][0], &from->pieces[0][0][0], sizeof t->pieces / sizeof(uint64_t));
    join(&t->data_bytes[0][0][0], &from->data_bytes[0][0][0], sizeof t->data_bytes / sizeof(uint64_t));
    join(t->device_bytes, from->device_bytes, RP_MAX_GPUS);
    rd_histogram_join(&t->latency, &from->latency);
    for (int i = 0; i < RD_STAGES; i++)
        rd_histogram_join(&t->stage[i], &from->stage[i]);
    for (int i = 0; i < RD_MAX_USERS; i++)
        join_use(&t->use[i], &from->use[i]);
    for (uint64_t i = from->slow_n > RD_SLOW ? from->slow_n - RD_SLOW : 0; i < from->slow_n; i++)
        add_slow(t, &from->slow[i % RD_SLOW]);
}

void rd_stats_answered(rd_stats *s, const rd_record *a)
{
    rd_tally_add(&s->tally, a);
    if (a->err == RP_OK)
        return;
    unsigned err = place((int)a->err, RD_ERRS);
    s->by_err[err ? err : RP_INTERNAL]++;
    if (a->worked)
        s->failed[place(a->op, RD_OPS)][place(a->dtype, RD_DTYPES)][place(a->path, RD_PATHS)][err ? err : RP_INTERNAL]++;
}

/* ---- what several threads count ---- */
bool rd_stats_init(rd_stats *s, uint64_t now_ns)
{
    s->started_ns = now_ns;
    strcpy(s->user[RD_USER_OTHER], "other");
    strcpy(s->user[RD_USER_UNKNOWN], "tcp");
    return rd_brief_lock_init(&s->shared.lock);
}

void rd_stats_fini(rd_stats *s) { pthread_mutex_destroy(&s->shared.lock); }

void rd_shared_tally_add(rd_shared_tally *t, const rd_record *a)
{
    pthread_mutex_lock(&t->lock);
    rd_tally_op(&t->tally, a->op);
    rd_tally_add(&t->tally, a);
    pthread_mutex_unlock(&t->lock);
}

void rd_stats_collect(rd_stats *s)
{
    rd_shared_tally *t = &s->shared;
    pthread_mutex_lock(&t->lock);
    rd_tally_join(&s->tally, &t->tally);
    memset(&t->tally, 0, sizeof t->tally);
    pthread_mutex_unlock(&t->lock);
}
