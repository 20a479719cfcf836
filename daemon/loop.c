#include "daemon/loop.h"

#include "daemon/base/log.h"
#include "daemon/base/turned_away.h"
#include "daemon/opening.h"
#include "daemon/request/dispatch.h"
#include "daemon/request/executor.h"
#include "daemon/request/reply.h"
#include "daemon/shutdown.h"
#include "daemon/state/resident.h"

enum {
    BATCH = 64,   /* events taken from the inbox at once */
    BATCHES = 16, /* and handled before timers and signals get a look */
};

/* ---- connections ---- */

/* A refused name does not become a user, so it cannot exclude similar names. */
static void check_name(rd_server *s, rd_peer *p)
{
    if (p->name[0] && !rd_gate_lets_name(&s->gates[p->listener], p->name))
        p->refused = "allow-name does not list the name";
    else if (p->name[0] && rd_user_looks_alike(&s->users, p->name))
        p->refused = "there is a user with the same name in other letters";
    if (p->refused)
        p->name[0] = '\0';
}

/* A name in a certificate, or a uid. */
static rd_away reason_of(const rd_peer *p) { return p->refused ? RD_AWAY_NAME : RD_AWAY_USER; }

static bool may_use(const rd_gate *gate, const rd_peer *p)
{
    return !p->refused && (rd_gate_open(gate) || (p->local && rd_gate_lets(gate, (uint32_t)p->uid, (uint32_t)p->gid)));
}

/* A connection that was let in, with the gate of today. */
static bool stays(const rd_server *s, const rd_session *x)
{
    const rd_gate *gate = &s->gates[x->peer.listener];
    return x->barred || (may_use(gate, &x->peer) && (!x->peer.name[0] || rd_gate_lets_name(gate, x->peer.name)));
}

size_t rd_evict(rd_server *s)
{
    size_t n = 0;
    for (size_t i = 0; i <= s->sessions.mask; i++)
        for (const rd_session *x = s->sessions.bucket[i]; x; x = x->next)
            if (!stays(s, x)) {
                rd_transport_hang_up(s->transport, x->connection);
                n++;
            }
    return n;
}

/* A user that may not use the socket gets an answer that says so, but only while few such connections exist: the rest are for
 * permitted users. */
static bool admit(rd_server *s, rd_session *x)
{
    const bool allowed = may_use(&s->gates[x->peer.listener], &x->peer);
    if (allowed && !x->peer.no_room)
        return true;
    if (!allowed)
        rd_turn_away(reason_of(&x->peer), x->peer.text, x->peer.refused ? x->peer.refused : "the lists do not let its user in");
    rd_session_bar(&s->sessions, x);
    return s->sessions.barred <= RP_MAX_UNAUTHENTICATED;
}

/* Silent connections are bounded, too, in total and for each user. A HELLO above the cap on sessions is answered. */
static uint64_t connection_cap(uint64_t sessions) { return 2 * sessions + 16; }

static bool has_room(rd_server *s, rd_session *x)
{
    check_name(s, &x->peer);
    return rd_session_own(&s->sessions, x) &&
           rd_held(&x->owner->charges, RD_HELD_CONNECTIONS) <= connection_cap(s->users.cap[RD_HELD_SESSIONS]);
}

static void open_session(rd_server *s, uint32_t connection)
{
    rd_sessions *t = &s->sessions;
    rd_session *x = NULL;
    if (t->connections < connection_cap(s->config.max_sessions))
        x = rd_session_open(t, connection);
    const bool known = x && rd_transport_peer(s->transport, connection, &x->peer), room = known && has_room(s, x);
    if (room && admit(s, x))
        return;
    if (known ? !room : !x)
        rd_turn_away(RD_AWAY_CONNECTIONS, known ? x->peer.text : "a peer",
                     "max-sessions or max-user-sessions bounds connections");
    rd_transport_hang_up(s->transport, connection);
}

static void close_session(rd_server *s, uint32_t connection, bool misbehaved)
{
    rd_session *x = rd_session_find(&s->sessions, connection);
    rp_fault f;
    if (!x)
        return;
    if (misbehaved)
        rd_note_disconnected(&s->requests, x, "a bad frame");
    if (x->channel)
        rd_fdpass_hang_up(x->channel);
    rd_residents_leave(&s->holdings, x->peer.uid, x);
    rd_session_close(&s->sessions, x);
    rp_fail(&f, RP_CANCELLED, "session", 0, "the session has ended");
    rd_withdraw(&s->requests, x, NULL, &f);
}

/* ---- a turn ---- */
static void on_event(rd_server *s, const rd_event *e)
{
    if (e->kind == RD_MESSAGE)
        rd_dispatch(&s->requests, (rd_request *)e->exchange);
    else if (e->kind == RD_CONNECTION_CLOSED)
        close_session(s, e->connection, e->misbehaved);
    else
        open_session(s, e->connection);
}

void rd_turn(rd_server *s)
{
    rd_requests *q = &s->requests;
    rd_event batch[BATCH];
    size_t n = 1;
    if (!q->engine)
        return;
    for (int i = 0; n && i < BATCHES; i++) {
        rd_workers_finish(&s->workers);
        if (!q->halted)
            rd_take_finished(q);
        n = rd_inbox_take(&s->inbox, batch, BATCH);
        for (size_t k = 0; k < n; k++)
            on_event(s, &batch[k]);
        rd_executor_feed(q);
    }
    if (n)
        rd_waker_ring(&s->waker); /* the inbox wakes again only after it was found empty */
    rd_sessions_reap(&s->sessions);
    rd_opening_turn(s);
    rd_shutdown_turn(s);
}
