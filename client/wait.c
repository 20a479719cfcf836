/* A call that the thread waits for. */
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/error.h"

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

int rc_call_wait_locked(reduce_client *c, rc_call *call, uint8_t **body, size_t *len)
{
    waiting w = {.c = c};
    rc_cond_init(&w.cond);
    call->owner = &w;
    call->done = wait_on_reply;
    rc_call_start(c, call);
    uint64_t until = call->deadline_ns;
    while (!w.done)
        if (!rc_reply_wait(&w.cond, c, until, 0) && !w.done) {
            until = 0;
            rc_call_cancel(c, call);
        }
    pthread_cond_destroy(&w.cond);
    if (w.err == REDUCE_E_CANCELLED && call->deadline_ns && until == 0)
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
