#include "daemon/request/dump.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/request/describe.h"
#include "daemon/request/executor.h"
#include "proto/clean.h"
#include "proto/clock.h"

typedef struct filling {
    rd_dump *dump;
    const rd_session *viewer;
    size_t cap;
    uint64_t now_ns;
} filling;

/* "finish sum f32 bytes=0 age_ms=12.345 where=stream uid=1000 pid=12 id=7 name=demo": the name, which may have blanks, last */
static void describe(const rd_request *r, const char *where, uint64_t now_ns, char *out, size_t cap)
{
    const rk_task *t = &r->job.task;
    uint64_t age_us = now_ns > r->exchange.received_ns ? (now_ns - r->exchange.received_ns) / 1000 : 0;
    FILE *f = fmemopen(out, cap, "w"); /* cuts what is too long, and ends the text */
    if (!f)
        return;
    fputs(rp_msg_name(r->exchange.header.type), f);
    if (t->spec.op)
        fprintf(f, " %s %s", rp_op_name(t->spec.op), rp_dtype_name(t->spec.dtype));
    fprintf(f, " bytes=%" PRIu64 " age_ms=%" PRIu64 ".%03u where=%s", t->bytes, age_us / 1000, (unsigned)(age_us % 1000),
            where);
    fputc(' ', f);
    rd_describe_peer(f, r->session);
    fprintf(f, " id=%" PRIu64 " name=", r->exchange.header.id);
    rd_describe_name(f, r->session);
    fclose(f);
    rp_clean(out, cap, out, 0); /* the client chose the name, and a character may have been cut */
}

static void add(filling *f, const rd_request *r, const char *where)
{
    if (f->dump->n == f->cap || !rd_may_see(f->viewer, r->session))
        return;
    rd_dump_line *l = &f->dump->line[f->dump->n++];
    *l = (rd_dump_line){.received_ns = r->exchange.received_ns, .exchange = r->exchange.number};
    describe(r, where, f->now_ns, l->text, sizeof l->text);
}

static void dump_add_fast(void *arg, const rd_request *r) { add(arg, r, "engine"); }

static int dump_older(const void *a, const void *b)
{
    const rd_dump_line *x = a, *y = b;
    return (x->received_ns > y->received_ns) - (x->received_ns < y->received_ns);
}

bool rd_dump_take(rd_requests *q, const rd_session *viewer, rd_dump *d)
{
    filling f = {.dump = d, .viewer = viewer, .cap = q->config->contexts, .now_ns = rp_now_ns()};
    *d = (rd_dump){.line = malloc(f.cap * sizeof *d->line)};
    if (!d->line)
        return false;
    for (const rd_request *r = q->waiting; r; r = r->next)
        add(&f, r, rd_whereabouts(r));
    rd_fastpath_each(&q->fastpath, dump_add_fast, &f);
    qsort(d->line, d->n, sizeof *d->line, dump_older);
    return true;
}

void rd_dump_free(rd_dump *d) { free(d->line); }

void rd_dump_log(rd_requests *q)
{
    rd_dump d;
    if (!rd_dump_take(q, NULL, &d)) {
        rd_log(RD_LOG_ERROR, "no memory for a list of the requests under way");
        return;
    }
    rd_log(RD_LOG_INFO, "%zu requests under way", d.n);
    for (size_t i = 0; i < d.n; i++)
        rd_log(RD_LOG_INFO, "request %u: %s", d.line[i].exchange, d.line[i].text);
    rd_dump_free(&d);
}
