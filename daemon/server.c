/* The loop: engine, events, health. How the daemon starts and leaves: life.c. */
#include "daemon/server.h"

#include <time.h>

#include "daemon/dispatch.h"
#include "daemon/life.h"
#include "daemon/log.h"
#include "daemon/notify.h"
#include "daemon/resident.h"

enum {
    BATCH = 64,   /* events taken from the inbox at once */
    BATCHES = 16, /* and handled before timers and signals get a look */
};

uint64_t rd_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- jobs ---- */
static void finished(rd_server *s, rd_job *job)
{
    if (--s->jobs == 0)
        s->busy_ns += rd_now_ns() - s->busy_since_ns;
    if (job->task.fault.code == RP_DEVICE_LOST)
        s->device_suspect = true;
    job->done(s, job);
}

void rd_submit(rd_server *s, rd_job *job)
{
    job->task.user = job;
    if (s->jobs++ == 0)
        s->busy_since_ns = rd_now_ns();
    if (rk_submit(s->engine, &job->task))
        finished(s, job);
}

uint64_t rd_engine_busy_ns(const rd_server *s) { return s->busy_ns + (s->jobs ? rd_now_ns() - s->busy_since_ns : 0); }

static void take_finished(rd_server *s)
{
    rk_task *t;
    while ((t = rk_poll(s->engine)))
        finished(s, t->user);
}

void rd_take_chores(rd_server *s)
{
    rd_chore *c;
    while ((c = rd_chores_take(&s->chores)))
        c->done(s, c);
}

/* ---- health ---- */
static void probe_done(rd_server *s, rd_job *job)
{
    bool right = rk_probe_ok(&job->task);
    s->probing = false;
    if (!right)
        rd_log(RD_LOG_ERROR, "the health check gave a wrong answer %s", job->task.fault.text);
    else if (s->health == RD_HEALTH_SLOW || s->health == RD_HEALTH_WRONG)
        rd_log(RD_LOG_INFO, "the health check is right again");
    s->health = right ? RD_HEALTH_OK : RD_HEALTH_WRONG;
    if (right)
        rd_notify_watchdog();
    if (s->phase == RD_STARTING)
        rd_life_probed(s, right);
}

void rd_probe(rd_server *s)
{
    if (s->probing) {
        if (s->health != RD_HEALTH_SLOW)
            rd_log(RD_LOG_WARN, "the health check has not come back yet");
        s->health = RD_HEALTH_SLOW;
        return;
    }
    s->probing = true;
    s->probe.done = probe_done;
    rk_probe(s->engine, &s->probe.task);
    rd_submit(s, &s->probe);
}

/* ---- deadlines of FINISH ---- */
static void on_deadline(uv_timer_t *t)
{
    rd_server *s = t->data;
    uint64_t next = rd_expire_finishes(s, rd_now_ns());
    if (next)
        rd_watch_deadline(s, next);
}

void rd_watch_deadline(rd_server *s, uint64_t deadline_ns)
{
    uint64_t now = rd_now_ns(), ms = deadline_ns > now ? (deadline_ns - now) / 1000000 + 1 : 0;
    if (!uv_is_active((uv_handle_t *)&s->deadline_timer) || uv_timer_get_due_in(&s->deadline_timer) > ms)
        uv_timer_start(&s->deadline_timer, on_deadline, ms, 0);
}

/* ---- a turn of the loop ---- */

/* Who may not use the socket is told so, as long as there are few of them: connections are for the others. */
static bool admit(rd_server *s, rd_session *x)
{
    const rd_peer *p = &x->peer;
    if (!rd_transport_peer(s->transport, x->pipe, &x->peer))
        return false;
    const rd_gate *gate = &s->gates[p->listener];
    if (rd_gate_open(gate) || (p->local && rd_gate_lets(gate, (uint32_t)p->uid, (uint32_t)p->gid)))
        return true;
    rd_session_bar(&s->sessions, x);
    return s->sessions.barred <= RP_MAX_STRANGERS;
}

static void on_pipe_opened(rd_server *s, uint32_t pipe)
{
    rd_sessions *t = &s->sessions;
    rd_session *x = NULL;
    if (t->pipes < 2 * s->config.max_sessions + 16) /* silent ones count; who says HELLO above max-sessions is told */
        x = rd_session_open(t, pipe);
    if (x && admit(s, x))
        return;
    rd_log(RD_LOG_DEBUG, "%s: a connection is refused: there are %zu", x ? x->peer.text : "a peer", t->pipes);
    rd_transport_close_pipe(pipe);
}

static void on_event(rd_server *s, const rd_event *e)
{
    rd_sessions *x = &s->sessions;
    if (e->kind == RD_REQUEST) {
        rd_dispatch(s, e->request);
    } else if (e->kind == RD_PIPE_CLOSED) {
        rd_session *gone = rd_session_find(x, e->pipe);
        rd_side_leave(s, gone);
        if (gone)
            rd_residents_leave(s, gone->peer.uid, gone);
        rd_session_close(x, gone);
    } else {
        on_pipe_opened(s, e->pipe);
    }
}

void rd_turn(rd_server *s)
{
    rd_event batch[BATCH];
    size_t n = 1;
    if (!s->engine)
        return;
    for (int i = 0; n && i < BATCHES; i++) {
        rd_take_chores(s);
        take_finished(s);
        n = rd_inbox_take(&s->inbox, batch, BATCH);
        for (size_t k = 0; k < n; k++)
            on_event(s, &batch[k]);
    }
    if (n)
        rd_bell_ring(&s->bell); /* the inbox wakes again only after it was found empty */
    rd_sessions_reap(&s->sessions);
    rd_life_turn(s);
}
