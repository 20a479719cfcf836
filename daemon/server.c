/* The loop: engine, events, health. How the daemon starts and leaves: life.c. */
#include "daemon/server.h"

#include <time.h>

#include "daemon/base/log.h"
#include "daemon/base/notify.h"
#include "daemon/life.h"
#include "daemon/request/dispatch.h"
#include "daemon/request/executor.h"
#include "daemon/state/resident.h"

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

void rd_take_work(rd_server *s)
{
    rd_work *c;
    while ((c = rd_workers_take(&s->workers)))
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

/* ---- connections ---- */

/* Who may not use the socket is told so, as long as there are few of them: connections are for the others. */
static bool admit(rd_server *s, rd_session *x)
{
    const rd_peer *p = &x->peer;
    const rd_gate *gate = &s->gates[p->listener];
    if (rd_gate_open(gate) || (p->local && rd_gate_lets(gate, (uint32_t)p->uid, (uint32_t)p->gid)))
        return true;
    rd_session_bar(&s->sessions, x);
    return s->sessions.barred <= RP_MAX_STRANGERS;
}

/* Connections that say nothing are bounded, too, all together and each user's; who says HELLO above the cap on sessions is
 * told. */
static uint64_t connection_cap(uint64_t sessions) { return 2 * sessions + 16; }

static bool has_room(rd_server *s, rd_session *x)
{
    uint64_t uid = x->peer.local ? x->peer.uid : RD_NETWORK;
    return rd_session_own(&s->sessions, x, uid) && x->owner->connections <= connection_cap(s->users.session_cap);
}

static void on_connection_opened(rd_server *s, uint32_t connection)
{
    rd_sessions *t = &s->sessions;
    rd_session *x = NULL;
    if (t->connections < connection_cap(s->config.max_sessions))
        x = rd_session_open(t, connection);
    if (x && rd_transport_peer(s->transport, connection, &x->peer) && has_room(s, x) && admit(s, x))
        return;
    rd_log(RD_LOG_DEBUG, "%s: a connection is refused: there are %zu", x ? x->peer.text : "a peer", t->connections);
    rd_transport_hang_up(s->transport, connection);
}

static void close_session(rd_server *s, uint32_t connection)
{
    rd_session *x = rd_session_find(&s->sessions, connection);
    rp_fault f;
    if (!x)
        return;
    rd_fdpass_leave(s, x);
    rd_residents_leave(s, x->peer.uid, x);
    rd_session_close(&s->sessions, x);
    rp_fail(&f, RP_CANCELLED, "session", 0, "the session has ended");
    rd_withdraw(s, x, NULL, &f);
}

/* ---- a turn of the loop ---- */
static void on_event(rd_server *s, const rd_event *e)
{
    if (e->kind == RD_MESSAGE) {
        rd_dispatch(s, (rd_request *)e->exchange);
    } else if (e->kind == RD_CONNECTION_CLOSED) {
        close_session(s, e->connection);
    } else {
        on_connection_opened(s, e->connection);
    }
}

void rd_turn(rd_server *s)
{
    rd_event batch[BATCH];
    size_t n = 1;
    if (!s->engine)
        return;
    for (int i = 0; n && i < BATCHES; i++) {
        rd_take_work(s);
        if (!s->halted)
            rd_take_finished(s);
        n = rd_inbox_take(&s->inbox, batch, BATCH);
        for (size_t k = 0; k < n; k++)
            on_event(s, &batch[k]);
        rd_executor(s);
    }
    if (n)
        rd_waker_ring(&s->waker); /* the inbox wakes again only after it was found empty */
    rd_sessions_reap(&s->sessions);
    rd_life_turn(s);
}
