/* A call that the thread waits for. */
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/error.h"
#include "proto/clock.h"

enum { ASK_MS = 50 }; /* most calls end sooner */

/* ---- asking the program ---- */

uint64_t rc_ask_at(const reduce_client *c) { return c->opts.interrupted ? rp_deadline_after(ASK_MS) : 0; }

static bool is_due(uint64_t ask_ns) { return ask_ns && rp_now_ns() >= ask_ns; }

bool rc_is_interrupted(const reduce_client *c, uint64_t *ask_ns)
{
    if (!is_due(*ask_ns))
        return false;
    const bool interrupted = c->opts.interrupted(c->opts.interrupted_arg);
    *ask_ns = interrupted ? 0 : rp_deadline_after(ASK_MS);
    return interrupted;
}

bool rc_interrupted(reduce_client *c, uint64_t *ask_ns)
{
    if (!is_due(*ask_ns))
        return false;
    pthread_mutex_unlock(&c->lock);
    if (c->connection)
        rc_connection_interrupt(c->connection); /* the program's function may take long */
    const bool interrupted = rc_is_interrupted(c, ask_ns);
    pthread_mutex_lock(&c->lock);
    return interrupted;
}

int rc_fail_interrupted(rp_fault *f)
{
    return rc_fail(f, REDUCE_E_INTERRUPTED, "", "the program interrupted the call before it was done");
}

int rc_report_interrupted(void)
{
    rp_fault f;
    rc_fail_interrupted(&f);
    return rc_report(&f);
}

/* ---- waiting ---- */

typedef struct waiting {
    reduce_client *c;
    pthread_cond_t cond;
    bool done;
    int err;
    uint8_t *body;
    size_t len;
} waiting;

static void wait_on_reply(rc_call *call, int err, const uint8_t *body, size_t len)
{
    waiting *w = call->owner;
    w->err = err;
    if (!err && len) {
        w->body = malloc(len);
        w->len = len;
        if (w->body)
            memcpy(w->body, body, len);
        else
            w->err = rc_fail(&call->fault, REDUCE_E_NO_MEMORY, "", "no memory for a reply");
    }
    w->done = true;
    rc_wake(&w->cond, w->c);
}

/* The answer may have come while the program was asked. */
static void end_interrupted(waiting *w, rc_call *call)
{
    if (!w->err)
        rc_call_undo(w->c, call->type, call->session, w->body, w->len);
    free(w->body);
    w->body = NULL;
    w->err = rc_fail_interrupted(&call->fault);
}

int rc_call_wait_locked(reduce_client *c, rc_call *call, uint8_t **body, size_t *len)
{
    waiting w = {.c = c};
    rp_cond_init(&w.cond);
    call->owner = &w;
    call->done = wait_on_reply;
    rc_call_start(c, call);
    uint64_t until = call->deadline_ns, ask = call->deaf ? 0 : rc_ask_at(c);
    bool interrupted = false;
    while (!w.done) {
        const uint64_t next = rc_earlier(until, ask);
        const bool late = !rc_reply_wait(&w.cond, c, next, 0) && next == until;
        const bool asked = !w.done && rc_interrupted(c, &ask);
        interrupted |= asked;
        if (w.done || !(late || asked))
            continue;
        until = ask = 0;
        rc_call_cancel(c, call);
    }
    pthread_cond_destroy(&w.cond);
    if (interrupted)
        end_interrupted(&w, call);
    else if (w.err == REDUCE_E_CANCELLED && call->deadline_ns && until == 0)
        w.err = rc_fail(&call->fault, REDUCE_E_DEADLINE, "deadline_ms", "not done before the deadline");
    if (body) {
        *body = w.body;
        *len = w.len;
    } else {
        free(w.body);
    }
    return w.err;
}

int rc_call_wait(reduce_client *c, rc_call *call, uint8_t **body, size_t *len)
{
    rc_enter(c);
    int err = rc_call_wait_locked(c, call, body, len);
    rc_leave(c);
    return err;
}
