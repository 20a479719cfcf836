#include "daemon/request/dispatch.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/net/limits.h"
#include "daemon/request/executor.h"
#include "daemon/request/reply.h"
#include "proto/clock.h"

enum {
    SESSION_RETRY_MS = 200, /* BUSY's hint when all sessions are taken */
    LONGEST_RETRY_MS = 100,
    FEW = 4, /* requests that a session may have under way even when exchanges are scarce */
};

/* ---- messages that need no engine ---- */
static rp_err welcome(rd_requests *q, rd_request *r, uint8_t most, rp_fault *f)
{
    static const char name[] = "reduced " REDUCED_VERSION;
    rp_welcome w = {.version = most < RP_WIRE_VERSION ? most : RP_WIRE_VERSION,
                    .priority = (uint8_t)r->session->priority,
                    .max_data = RP_MAX_DATA,
                    .chunk_hint = RP_CHUNK_HINT,
                    .max_inflight = (uint32_t)q->config->max_inflight,
                    .max_streams = (uint32_t)q->config->max_streams,
                    .session = r->session->id,
                    .server_len = sizeof name - 1,
                    .server = name};
    memcpy(w.token, r->session->token, RP_TOKEN);
    uint8_t *body = rd_exchange_reply(&r->exchange, RP_WELCOME_SIZE + sizeof name);
    if (!body)
        return rd_no_memory(f);
    rd_answer(q, r, rp_put_welcome(body, &w));
    return RP_OK;
}

static rp_err busy(rp_fault *f, const char *field, uint64_t limit, uint32_t retry_ms, const char *text)
{
    rp_fail(f, RP_BUSY, field, limit, "%s", text);
    f->retry_ms = retry_ms;
    return RP_BUSY;
}

/* Set the session's class. High is for users that the configuration names, for root and for the daemon's own user. */
static rp_err choose_priority(const rd_requests *q, rd_session *x, int asked, rp_fault *f)
{
    const rd_config *c = q->config;
    uint32_t uid = (uint32_t)x->peer.uid;
    bool trusted = x->peer.local && (rd_uid_is_admin(uid) || rd_ids_have(&c->high_users, uid));
    if (x->peer.local && rd_ids_have(&c->background_users, uid))
        asked = RP_PRIORITY_BACKGROUND;
    if (asked == RP_PRIORITY_HIGH && !trusted)
        return rp_fail(f, RP_AUTH, "priority", 0, "this user may not ask for high priority");
    x->priority = (rp_priority)asked;
    return RP_OK;
}

static rp_err dispatch_hello(rd_requests *q, rd_request *r, rp_fault *f)
{
    rp_hello h;
    rd_session *x = r->session;
    rp_err err = rp_get_hello(r->body, r->body_len, &h, f);
    if (err)
        return err;
    if (h.min_version > RP_WIRE_VERSION || h.max_version < RP_OLDEST_VERSION)
        return rp_fail(f, RP_VERSION, "version", RP_WIRE_VERSION, "this daemon speaks versions %d to %d", RP_OLDEST_VERSION,
                       RP_WIRE_VERSION);
    if (x->id) /* a repeated HELLO gets the same answer, so it does no harm */
        return welcome(q, r, h.max_version, f);
    if (!q->serving)
        return busy(f, "daemon", 0, q->drain_retry_ms, "shutting down");
    if (q->sessions->greeted >= q->config->max_sessions)
        return busy(f, "sessions", q->config->max_sessions, SESSION_RETRY_MS, "no free session");
    if (rd_held(&x->owner->charges, RD_HELD_SESSIONS) >= q->users->cap[RD_HELD_SESSIONS])
        return busy(f, "user_sessions", q->users->cap[RD_HELD_SESSIONS], SESSION_RETRY_MS, "no free session of this user");
    err = choose_priority(q, x, h.priority, f);
    if (err)
        return err;
    rd_sched_join(&q->sched, &x->queues, &x->owner->queues, x->priority);
    x->user = rd_stats_user(q->stats, rd_peer_is_user(&x->peer) ? x->owner->text : NULL);
    x->user_text = q->stats->user[x->user];
    if (!rd_session_greet(q->sessions, x, h.name, h.name_len, x->peer.local && q->fdpass->n_listeners))
        return rp_fail(f, RP_INTERNAL, "session", 0, "no random numbers");
    rd_exchange_admit(&r->exchange, x->id);
    q->stats->sessions++;
    rd_log(RD_LOG_DEBUG, "%s: session of '%s'", x->peer.text, x->name);
    return welcome(q, r, h.max_version, f);
}

static rp_err dispatch_ping(rd_requests *q, rd_request *r, rp_fault *f)
{
    if (r->body_len > RP_MAX_PING)
        return rp_fail(f, RP_TOO_LARGE, "body_len", RP_MAX_PING, "a ping carries at most %u bytes", RP_MAX_PING);
    uint8_t *body = rd_exchange_reply(&r->exchange, r->body_len);
    if (!body)
        return rd_no_memory(f);
    memcpy(body, r->body, r->body_len);
    rd_answer(q, r, r->body_len);
    return RP_OK;
}

static rp_err dispatch_cancel(rd_requests *q, rd_request *r, rp_fault *f)
{
    uint64_t id;
    rp_fault why;
    rp_err err = rp_get_u64(r->body, r->body_len, &id, "id", f);
    if (err)
        return err;
    rp_fail(&why, RP_CANCELLED, "id", 0, "cancelled by its client");
    return rd_answer_u64(q, r, rd_withdraw(q, r->session, &id, &why), f);
}

/* ---- the table ---- */
static const struct {
    rd_handler *run;
    bool sessionless;
    bool new_work;   /* refused while the daemon drains */
    bool takes_room; /* it is held until the engine has finished it: refused when too many are held */
    bool in_time; /* refused once its deadline has passed. (FINISH ends its stream even then, and LIST and others are quick) */
} table[] = {
    [RP_MSG_HELLO] = {.run = dispatch_hello, .sessionless = true},
    [RP_MSG_PING] = {.run = dispatch_ping, .sessionless = true},
    [RP_MSG_QUERY] = {.run = rd_on_query},
    [RP_MSG_REDUCE] = {.run = rd_on_reduce, .new_work = true, .takes_room = true, .in_time = true},
    [RP_MSG_BEGIN] = {.run = rd_on_begin, .new_work = true},
    [RP_MSG_APPEND] = {.run = rd_on_append, .takes_room = true, .in_time = true},
    [RP_MSG_FINISH] = {.run = rd_on_finish},
    [RP_MSG_ABORT] = {.run = rd_on_abort},
    [RP_MSG_REDUCE_AT] = {.run = rd_on_reduce_at, .new_work = true, .takes_room = true, .in_time = true},
    [RP_MSG_STORE] = {.run = rd_on_store, .new_work = true, .takes_room = true},
    [RP_MSG_WRITE] = {.run = rd_on_write, .takes_room = true, .in_time = true},
    [RP_MSG_WRITE_AT] = {.run = rd_on_write_at, .takes_room = true, .in_time = true},
    [RP_MSG_COMMIT] = {.run = rd_on_commit},
    [RP_MSG_LIST] = {.run = rd_on_list},
    [RP_MSG_DROP] = {.run = rd_on_drop},
    [RP_MSG_CANCEL] = {.run = dispatch_cancel},
};
enum { MESSAGES = sizeof table / sizeof table[0] };

/* BUSY because queues are full. Half of the requests took no longer than the hint, so there should be room by then. */
static rp_err full(const rd_requests *q, rp_fault *f, const char *field, uint64_t limit, const char *text)
{
    uint64_t ms = rd_histogram_quantile(&q->stats->tally.latency, 0.5) / RP_NS_PER_MS + 1;
    return busy(f, field, limit, ms < LONGEST_RETRY_MS ? (uint32_t)ms : LONGEST_RETRY_MS, text);
}

/* A message that no repeat can get in. */
static rp_err check_alone(const rd_request *r, const char *field, uint64_t cap, rp_fault *f)
{
    if (!cap || r->exchange.len <= cap)
        return RP_OK;
    return rp_fail(f, RP_TOO_LARGE, field, cap, "the daemon's configuration allows no message of %zu bytes", r->exchange.len);
}

/* Sessions and users have their caps. When most exchanges are taken, the rest are reserved for sessions that hold few. So a
 * client with many requests, or one that does not read its replies, cannot lock out the others. */
static rp_err check_load(const rd_requests *q, const rd_request *r, rp_fault *f)
{
    const rd_config *c = q->config;
    const rd_users *u = q->users;
    const rd_session *x = r->session;
    rp_err err = check_alone(r, "held", c->max_held << 20, f);
    if (!err)
        err = check_alone(r, "user_held", u->cap[RD_HELD_MESSAGE_BYTES], f);
    if (err)
        return err;
    if (x->inflight + atomic_load_explicit(&x->held, memory_order_relaxed) > c->max_inflight)
        return full(q, f, "inflight", c->max_inflight, "too many requests of this session at once");
    const rd_charges *held = &x->owner->charges;
    uint64_t unread = rd_held(held, RD_HELD_REPLY_BYTES), messages = rd_held(held, RD_HELD_MESSAGE_BYTES);
    if (rd_held(held, RD_HELD_REQUESTS) > u->cap[RD_HELD_REQUESTS])
        return full(q, f, "user_inflight", u->cap[RD_HELD_REQUESTS], "too many requests of this user at once");
    if (c->max_held && x->message_bytes + rd_account_bytes(&x->unsent) > c->max_held << 20)
        return full(q, f, "held", c->max_held << 20, "too many bytes of this session at once");
    if (unread > u->cap[RD_HELD_REPLY_BYTES])
        return full(q, f, "user_held", u->cap[RD_HELD_REPLY_BYTES], "too many bytes of unread replies of this user");
    if (u->cap[RD_HELD_MESSAGE_BYTES] && messages + unread > u->cap[RD_HELD_MESSAGE_BYTES])
        return full(q, f, "user_held", u->cap[RD_HELD_MESSAGE_BYTES], "too many bytes of this user at once");
    if (x->inflight > FEW && rd_transport_busy(q->transport) > c->contexts - c->contexts / 8)
        return full(q, f, "contexts", c->contexts, "too many requests of all sessions at once");
    return RP_OK;
}

bool rd_halted(const rd_requests *q, rp_fault *f)
{
    if (q->halted)
        rp_fail(f, RP_CANCELLED, "daemon", 0, "shutting down");
    return q->halted;
}

static rp_err refuse_user(const rd_peer *p, rp_fault *f)
{
    if (p->no_room)
        return busy(f, "descriptors", p->no_room, SESSION_RETRY_MS, "the daemon's descriptors are used up (LimitNOFILE)");
    return p->refused ? rp_fail(f, RP_AUTH, "user", 0, "this certificate is not a user's: %s", p->refused)
                      : rp_fail(f, RP_AUTH, "user", 0, "uid %" PRIu64 " may not use this socket", p->uid);
}

/* Checks in PROTOCOL.md's order, after those of the frame: user, version, type, time_ms, session, then the body in the
 * handler. */
static rp_err check(const rd_requests *q, rd_request *r, rp_fault *f)
{
    const rp_header *h = &r->exchange.header;
    if (r->session->barred)
        return refuse_user(&r->session->peer, f);
    if (h->type != RP_MSG_HELLO && !rp_version_known(h->version))
        return rp_fail(f, RP_VERSION, "version", RP_WIRE_VERSION, "version %u, but this daemon speaks %d to %d", h->version,
                       RP_OLDEST_VERSION, RP_WIRE_VERSION);
    if (h->type >= MESSAGES || !table[h->type].run)
        return rp_fail(f, RP_BAD_MESSAGE, "type", MESSAGES - 1, "unknown message type %u", h->type);
    if (h->time_ms > RP_MAX_DEADLINE_MS)
        return rp_fail(f, RP_TOO_LARGE, "time_ms", RP_MAX_DEADLINE_MS, "a deadline is at most %u ms", RP_MAX_DEADLINE_MS);
    r->deadline_ns = rd_deadline_of(r);
    if (!table[h->type].sessionless) {
        if (r->session->id == 0 || h->session != r->session->id)
            return rp_fail(f, RP_NO_SESSION, "session", 0, "this connection does not have this session: send HELLO");
        rp_err err = table[h->type].takes_room ? check_load(q, r, f) : RP_OK;
        if (err)
            return err;
    }
    if (table[h->type].new_work && !q->serving)
        return busy(f, "daemon", 0, q->drain_retry_ms, "shutting down");
    return table[h->type].in_time && rd_late(r, f) ? RP_DEADLINE : RP_OK;
}

/* A peer within max-inflight has at most that many unread replies; one that gets BUSY may have some more. */
unsigned rd_unread_limit(const rd_config *c)
{
    unsigned twice = 2 * (unsigned)c->max_inflight;
    return twice > RP_MAX_INFLIGHT ? twice : RP_MAX_INFLIGHT;
}

/* ---- requests that need a device, while these are opened ---- */
static void hold(rd_requests *q, rd_request *r)
{
    r->held = true;
    r->job.task = (rk_task){.fault = {.index = RP_NO_INDEX}};
    r->job.done = rd_answer_job; /* for a task that is taken back */
    rd_wait(q, r);
    rd_watch_deadline(q, r);
}

static void run(rd_requests *q, rd_request *r)
{
    rp_fault f = {.index = RP_NO_INDEX};
    rp_err err = rd_halted(q, &f) ? RP_CANCELLED : check(q, r, &f);
    if (!err)
        err = table[r->exchange.header.type].run(q, r, &f);
    if (err == RD_LATER)
        hold(q, r);
    else if (err)
        rd_refuse(q, r, &f);
}

void rd_dispatch_held(rd_requests *q)
{
    rd_request *oldest = NULL, *next;
    for (rd_request *r = q->waiting; r; r = next) { /* newest first */
        next = r->next;
        if (!r->held)
            continue;
        rd_request_unlink(r);
        r->held = false;
        r->next = oldest;
        oldest = r;
    }
    for (rd_request *r = oldest; r; r = next) {
        next = r->next;
        run(q, r);
    }
}

void rd_dispatch(rd_requests *q, rd_request *r)
{
    rd_request_begin(r, q);
    r->session = rd_session_find(q->sessions, r->exchange.connection);
    if (!r->session || !r->session->owner) { /* the peer is gone, so no answer is needed */
        rd_exchange_forget(&r->exchange);
        return;
    }
    rd_request_enter(r);
    r->body = r->exchange.bytes + RP_HEADER_SIZE;
    r->body_len = r->exchange.header.body_len;
    run(q, r);
}
