/* Calls: one request to the daemon until it is answered.
 *
 *   start -> queue -> place (exchange) -> sent -> answered -> done
 *                       ^                 |
 *                       +-- BUSY, connection lost, session unknown: repeat
 *
 * Requests are idempotent, so they repeat until their time is up; those of a stream (`bound`) die with its session.
 * A session belongs to a connection: when that goes, session = 0, and the next call waits in the queue for a HELLO, of
 * which there is one under way at most.
 *
 * A cancelled call ends at once. Its exchange continues without it, because half a message would break the connection. A CANCEL
 * asks the daemon to drop the request, unless it has begun. If the request has still begun a stream or an array, that is undone
 * when the answer comes. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/autostart.h"
#include "client/client.h"
#include "client/error.h"
#include "proto/clock.h"

enum {
    MAX_LOSSES = 10, /* a request after which the connection was lost this often is not sent again */
    FAST_LOGINS = 3, /* after this many hellos in a row for one request, the next one waits */
    FIRST_PAUSE_MS = 2,
    OWN_GONE_MS = 500,    /* without a connection for this long, another private daemon is started; a second one finds the lock
                          taken and exits */
    OTHER_GONE_MS = 2000, /* the same where a supervisor may restart the daemon */
    LONGEST_PAUSE_MS = 500,
    LONG_COPY = 64 * 1024, /* bytes: during such a copy other threads must read */
    GRACE_MS = 1000        /* past a deadline, because the daemon's own DEADLINE reply may be on its way */
};

/* ---- messages that go once the mutex is left ---- */

static void send_place(rc_place *p)
{
    if (p->pause_ms) {
        rc_slot_pause(p->exchange, p->pause_ms);
        return;
    }
    const rc_call *call = p->call;
    if (call->data_len >= LONG_COPY)
        rc_connection_interrupt(p->client->connection);
    rc_slot_exchange(p->exchange, p->head, p->head_len, call->data, call->data_len, call->fill, p->send_ms, p->reply_ms);
}

/* Asks one more thread to take its share of the outbox. */
static void call_help(void *client)
{
    rc_enter(client);
    rc_leave(client);
}

static void orphan(reduce_client *c, rc_call *call);

/* The transport owns the message of place `p` now, so the call's data are no longer read. The place may already have another
 * call, whose post has another number. */
static void posted(reduce_client *c, rc_place *p, uint64_t number)
{
    if (p->posts != number)
        return;
    p->posting = false;
    if (p->call && p->call->cancelled)
        orphan(c, p->call);
}

/* An rc_ending (enter.h): sends the message of a place. */
static void call_post(reduce_client *c, rc_ending *work)
{
    rc_place *p = (rc_place *)work;
    const uint64_t number = p->posts;
    const bool help = c->outbox && p->call && p->call->copies; /* each helper calls for the next one */
    pthread_mutex_unlock(&c->lock);
    if (help)
        rc_connection_help(c->connection, call_help);
    send_place(p);
    pthread_mutex_lock(&c->lock);
    posted(c, p, number);
}

static void push_outbox(reduce_client *c, rc_place *p)
{
    p->post.run = call_post;
    p->posting = true;
    p->posts++;
    rc_send_later(c, &p->post);
}

/* ---- places ---- */

/* A place for one more request; NULL if as many as the daemon allows are under way. */
static rc_place *take_place(reduce_client *c)
{
    rc_place *p = c->idle;
    if (p) {
        c->idle = p->next;
    } else {
        uint32_t most = c->welcome.max_inflight < RP_MAX_INFLIGHT ? c->welcome.max_inflight : RP_MAX_INFLIGHT;
        if (c->n_places >= (most ? most : 1))
            return NULL;
        p = &c->places[c->n_places];
        p->client = c;
        p->exchange = rc_slot_new(c->connection, rc_call_on_exchange, p);
        if (!p->exchange)
            return NULL;
        c->n_places++;
    }
    rc_slot_arm(p->exchange);
    c->busy++;
    return p;
}

static void free_place(reduce_client *c, rc_place *p)
{
    p->call = NULL;
    if (p != &c->hello_place) {
        p->next = c->idle;
        c->idle = p;
    }
    c->busy--;
    rc_wake(&c->changed, c);
}

static void leave_place(reduce_client *c, rc_call *call)
{
    free_place(c, call->place);
    call->place = NULL;
}

/* ---- one call ---- */

static void finish(reduce_client *c, rc_call *call, int err, const uint8_t *body, size_t len)
{
    if (call->place)
        leave_place(c, call);
    call->done(call, err, body, len);
}

static bool late(const rc_call *call, uint64_t now) { return call->deadline_ns && now >= call->deadline_ns; }

static void finish_late(reduce_client *c, rc_call *call)
{
    finish(c, call, rc_fail(&call->fault, REDUCE_E_DEADLINE, "deadline_ms", "not done before the deadline"), NULL, 0);
}

static void finish_timeout(reduce_client *c, rc_call *call)
{
    if (late(call, rp_now_ns())) {
        finish_late(c, call);
        return;
    }
    rc_fail(&call->fault, REDUCE_E_TIMEOUT, "timeout_ms", "the daemon did not answer %s in time", rp_msg_name(call->type));
    finish(c, call, REDUCE_E_TIMEOUT, NULL, 0);
}

static uint32_t ms_until(uint64_t when, uint64_t now)
{
    uint64_t ms = when > now ? (when - now + RP_NS_PER_MS - 1) / RP_NS_PER_MS : 0;
    return ms < RP_MAX_DEADLINE_MS ? (uint32_t)ms : RP_MAX_DEADLINE_MS;
}

/* The call gives up after so long. */
static void give_up_after(const reduce_client *c, rc_call *call, uint32_t ms)
{
    call->give_up_ns = rp_deadline_after(ms);
    call->stood_ns = rc_connection_stood_ns(c->connection, false);
}

/* Is it time to give up? Not for a time in which this process stood still. */
static bool gives_up(const reduce_client *c, rc_call *call, uint64_t now)
{
    if (now < call->give_up_ns)
        return false;
    const uint64_t stood_ns = rc_connection_stood_ns(c->connection, true);
    call->give_up_ns += stood_ns - call->stood_ns;
    call->stood_ns = stood_ns;
    return now >= call->give_up_ns;
}

static uint64_t first_of(uint64_t a, uint64_t b) { return b && b < a ? b : a; }

/* Does the answer name an object that lives until the session ends? Then it is awaited beyond the deadline. */
static bool begins(uint8_t type) { return type == RP_MSG_BEGIN || type == RP_MSG_STORE; }

/* How long a message may wait for a connection. */
static uint32_t unsent_ms(const reduce_client *c, const rc_call *call)
{
    if (call != &c->hello || !c->may_start)
        return c->opts.reconnect_timeout_ms;
    return c->autostarted ? OWN_GONE_MS : OTHER_GONE_MS;
}

/* Write the message's header and hand the place to rc_leave for sending. */
static void post(reduce_client *c, rc_call *call)
{
    uint64_t now = rp_now_ns();
    if (late(call, now)) {
        finish_late(c, call);
        return;
    }
    rc_place *p = call->place;
    if (!call->bound)
        call->session = call->type == RP_MSG_HELLO ? 0 : c->session;
    call->id = ++c->last_id;
    gives_up(c, call, now); /* which brings give_up_ns up to date */
    bool graced = call->deadline_ns && !begins(call->type);
    uint64_t end = first_of(call->give_up_ns, graced ? call->deadline_ns + GRACE_MS * RP_NS_PER_MS : 0);
    rp_header h = {.version = call->type == RP_MSG_HELLO ? RP_WIRE_VERSION : c->welcome.version,
                   .type = call->type,
                   .time_ms = call->deadline_ns ? ms_until(call->deadline_ns, now) : 0,
                   .session = call->session,
                   .id = call->id,
                   .body_len = call->head_len + call->data_len};
    rp_put_header(p->head, &h);
    memcpy(p->head + RP_HEADER_SIZE, call->head, call->head_len);
    p->head_len = RP_HEADER_SIZE + call->head_len;
    p->pause_ms = 0;
    p->reply_ms = ms_until(end, now) + 1;
    p->send_ms = p->reply_ms < unsent_ms(c, call) ? p->reply_ms : unsent_ms(c, call);
    if (c->busy > 1) /* too many exchanges for a helper, which must not read other replies */
        rc_connection_interrupt(c->connection);
    push_outbox(c, p);
}

static void enqueue(reduce_client *c, rc_call *call)
{
    call->next = NULL;
    if (c->queue)
        c->queue_end->next = call;
    else
        c->queue = call;
    c->queue_end = call;
}

static void unqueue(reduce_client *c, rc_call *call)
{
    rc_call **at = &c->queue, *before = NULL;
    while (*at != call) {
        before = *at;
        at = &before->next;
    }
    *at = call->next;
    if (c->queue_end == call)
        c->queue_end = before;
}

/* Stop waiting for the daemon that was started. */
static void forget_started(reduce_client *c)
{
    if (c->started >= 0)
        close(c->started);
    c->started = -1;
}

void rc_say_hello(reduce_client *c, uint32_t within_ms)
{
    if (c->greeting)
        return;
    c->greeting = true;
    forget_started(c);
    give_up_after(c, &c->hello, within_ms);
    c->hello.cancelled = false;
    c->hello.losses = c->hello.waits = c->hello.logins = 0;
    c->hello.place = &c->hello_place;
    c->hello_place.call = &c->hello;
    rc_slot_arm(c->hello_place.exchange);
    c->busy++;
    post(c, &c->hello);
}

/* Give places to the calls that wait for one. */
static void pump(reduce_client *c)
{
    while (c->queue && !c->closing) {
        if (c->session == 0) {
            rc_say_hello(c, c->up ? c->opts.timeout_ms : c->opts.reconnect_timeout_ms);
            return;
        }
        rc_place *p = take_place(c);
        if (!p) {
            if (c->n_places == 0) { /* not a single place could be made */
                rc_call *call = c->queue;
                unqueue(c, call);
                finish(c, call, rc_fail(&call->fault, REDUCE_E_NO_MEMORY, "", "no memory for a request"), NULL, 0);
                continue;
            }
            return;
        }
        rc_call *call = c->queue;
        unqueue(c, call);
        call->place = p;
        p->call = call;
        if (call->give_up_ns == 0)
            give_up_after(c, call, c->opts.timeout_ms);
        post(c, call);
    }
}

void rc_call_start(reduce_client *c, rc_call *call)
{
    call->place = NULL;
    call->give_up_ns = 0;
    call->losses = call->logins = call->waits = 0;
    call->cancelled = false;
    if (c->closing) {
        call->done(call, rc_fail(&call->fault, REDUCE_E_CANCELLED, "", "the client is being closed"), NULL, 0);
        return;
    }
    enqueue(c, call);
    pump(c);
}

static void finish_cancelled(reduce_client *c, rc_call *call)
{
    finish(c, call, rc_fail(&call->fault, REDUCE_E_CANCELLED, "", "cancelled before it was done"), NULL, 0);
}

static void call_on_word(rc_call *call, int err, const uint8_t *body, size_t len)
{
    (void)err;
    (void)body;
    (void)len;
    free(call);
}

/* NULL: out of memory, or the session ends anyway. */
static rc_call *word_of(const reduce_client *c, uint8_t type, uint64_t session, uint64_t value)
{
    rc_call *tell = c->closing ? NULL : malloc(sizeof *tell);
    if (tell) {
        *tell = (rc_call){.type = type, .bound = true, .session = session, .done = call_on_word};
        tell->head_len = (uint8_t)rp_put_u64(tell->head, value);
    }
    return tell;
}

/* A CANCEL for the request; NULL: the daemon need not know. It does no harm if the request was answered or never arrives. */
static rc_call *cancellation_of(const reduce_client *c, const rc_call *call)
{
    bool waits = call->type != RP_MSG_HELLO && call->type != RP_MSG_CANCEL && call->session == c->session;
    return waits ? word_of(c, RP_MSG_CANCEL, call->session, call->id) : NULL;
}

void rc_call_tell(reduce_client *c, uint8_t type, uint64_t session, uint64_t value)
{
    rc_call *tell = word_of(c, type, session, value);
    if (tell)
        rc_call_start(c, tell);
}

void rc_call_undo(reduce_client *c, uint8_t type, uint64_t session, const uint8_t *body, size_t len)
{
    rp_fault bad;
    uint64_t begun;
    if (begins(type) && !rp_get_u64(body, len, &begun, "handle", &bad))
        rc_call_tell(c, RP_MSG_ABORT, session, begun);
}

/* An answer to a cancelled request. */
static void end_orphan(reduce_client *c, rc_place *p, const uint8_t *msg, size_t len)
{
    rp_header h;
    rp_fault bad;
    free_place(c, p);
    if (msg && !rp_get_header(msg, len, &h, &bad) && !h.status)
        rc_call_undo(c, h.type, h.session, msg + RP_HEADER_SIZE, len - RP_HEADER_SIZE);
}

/* End the call; its place stays until the exchange is over. */
static void orphan(reduce_client *c, rc_call *call)
{
    rc_call *tell = cancellation_of(c, call);
    call->place->call = NULL;
    call->place = NULL;
    finish_cancelled(c, call);
    if (tell)
        rc_call_start(c, tell);
}

void rc_call_cancel(reduce_client *c, rc_call *call)
{
    call->cancelled = true;
    if (!call->place) {
        unqueue(c, call);
        finish_cancelled(c, call);
    } else if (call->place->pause_ms) {
        rc_slot_cancel(call->place->exchange);
    } else if (!call->place->posting) { /* else `posted` does it */
        orphan(c, call);
    }
}

/* ---- what comes back ---- */

/* Pause, then send again, unless the deadline has passed. */
static void retry_later(reduce_client *c, rc_call *call, uint32_t hint_ms, int err)
{
    uint32_t backoff = FIRST_PAUSE_MS << (call->waits < 8 ? call->waits : 8);
    uint32_t ms = hint_ms > backoff ? hint_ms : backoff;
    if (ms > LONGEST_PAUSE_MS)
        ms = hint_ms > LONGEST_PAUSE_MS ? hint_ms : LONGEST_PAUSE_MS;
    const uint64_t then = rp_now_ns() + ms * RP_NS_PER_MS;
    gives_up(c, call, then); /* which brings give_up_ns up to date */
    uint64_t end = first_of(call->give_up_ns, call->deadline_ns);
    if (then >= end) {
        if (call->deadline_ns && end == call->deadline_ns)
            finish_late(c, call);
        else
            finish(c, call, err, NULL, 0);
        return;
    }
    if (call->waits < UINT8_MAX)
        call->waits++;
    call->place->pause_ms = ms;
    push_outbox(c, call->place);
}

/* The session that carried the call has ended: say hello and send it again. */
static void start_over(reduce_client *c, rc_call *call)
{
    if (c->session == call->session)
        c->session = 0;
    if (call->type == RP_MSG_HELLO) {
        post(c, call);
        return;
    }
    leave_place(c, call);
    enqueue(c, call);
    pump(c);
}

static void on_lost(reduce_client *c, rc_call *call)
{
    rc_fail(&call->fault, REDUCE_E_NO_DAEMON, "", "the daemon closed the connection");
    if (call->bound || (c->opts.flags & REDUCE_NO_RETRY) || ++call->losses > MAX_LOSSES)
        finish(c, call, REDUCE_E_NO_DAEMON, NULL, 0);
    else
        retry_later(c, call, 0, REDUCE_E_NO_DAEMON); /* a stopping daemon may accept and close several times */
}

/* After a pause: send again, in the current session. */
static void go_on(reduce_client *c, rc_call *call)
{
    if (call->bound || c->session || call->type == RP_MSG_HELLO)
        post(c, call);
    else
        start_over(c, call);
}

/* The private daemon is gone: start another one at its address; the hello waits anew for it. If the last started one still
 * runs, it may only be slow, and no other is started. */
static int start_another(reduce_client *c, rc_call *hello)
{
    rc_child child;
    if (c->started < 0 || rc_child_gone(c->started)) {
        int err = rc_start_daemon(c->url, &c->opts, &child, &hello->fault);
        if (err)
            return err;
        if (c->started >= 0)
            close(c->started);
        if (!hello->logins++)
            give_up_after(c, hello, c->opts.reconnect_timeout_ms); /* its timeout begins now */
        c->started = child.pidfd;
        c->autostarted = true;
    }
    post(c, hello);
    return 0;
}

static void on_unsent(reduce_client *c, rc_call *call)
{
    uint64_t now = rp_now_ns();
    if (late(call, now)) {
        finish_late(c, call);
    } else if (!c->up && call == &c->hello && c->may_start && !gives_up(c, call, now)) {
        int err = start_another(c, call);
        if (err)
            finish(c, call, err, NULL, 0);
    } else if (!c->up) {
        rc_fail(&call->fault, REDUCE_E_NO_DAEMON, "",
                "the daemon on %.80s went away and did not come back within %" PRIu32 " ms", c->url,
                c->opts.reconnect_timeout_ms);
        finish(c, call, REDUCE_E_NO_DAEMON, NULL, 0);
    } else if (gives_up(c, call, now)) {
        finish_timeout(c, call);
    } else {
        post(c, call);
    }
}

/* May the same request succeed a moment later? CANCELLED comes from a daemon that is leaving. */
static bool passing(const reduce_client *c, const rc_call *call, rp_err code)
{
    if (c->opts.flags & REDUCE_NO_RETRY)
        return false;
    if (code == RP_BUSY)
        return call->type != RP_MSG_FINISH;
    if (code == RP_DEVICE_LOST && call->fault.limit) /* the daemon continues with other devices; this one is lost for good */
        return false;
    return !call->bound && (code == RP_DEVICE_LOST || code == RP_CANCELLED);
}

static void log_in_again(reduce_client *c, rc_call *call)
{
    if (c->session == call->session)
        c->session = 0;
    if (call->logins < FAST_LOGINS) {
        call->logins++;
        start_over(c, call);
    } else {
        retry_later(c, call, 0, REDUCE_E_NO_SESSION);
    }
}

/* The library has checked the operation, so a daemon that does not know it is an older one. */
static void tell_unknown_op(const reduce_client *c, rc_call *call)
{
    const bool spec = call->type == RP_MSG_REDUCE || call->type == RP_MSG_REDUCE_AT || call->type == RP_MSG_BEGIN;
    if (spec)
        rc_fail(&call->fault, REDUCE_E_OP, "op", "the daemon (%s) does not know %s, which libreduce %s does", c->server,
                reduce_op_name(call->head[0]), REDUCED_VERSION);
}

static void on_refused(reduce_client *c, rc_call *call, const rp_header *h, const uint8_t *body, size_t len)
{
    rp_fault bad;
    if (rp_get_fault(body, len, h->status, h->time_ms, &call->fault, &bad)) {
        rc_fail(&call->fault, REDUCE_E_PROTOCOL, bad.field, "malformed error reply: %s", bad.text);
        finish(c, call, REDUCE_E_PROTOCOL, NULL, 0);
        return;
    }
    if (h->status == RP_OP)
        tell_unknown_op(c, call);
    bool ending = c->closing || call->cancelled;
    if (ending)
        finish(c, call, -(int)h->status, NULL, 0);
    else if (h->status == RP_NO_SESSION && !call->bound && call->type != RP_MSG_HELLO)
        log_in_again(c, call);
    else if (passing(c, call, (rp_err)h->status))
        retry_later(c, call, h->time_ms, -(int)h->status);
    else
        finish(c, call, -(int)h->status, NULL, 0);
}

static void on_reply(reduce_client *c, rc_call *call, const uint8_t *msg, size_t len)
{
    rp_header h;
    rp_fault bad = {0};
    int wrong = (int)rp_get_header(msg, len, &h, &bad);
    if (!wrong && (!h.reply || h.type != call->type || h.id != call->id))
        wrong = rc_fail(&bad, REDUCE_E_PROTOCOL, "id", "the reply answers another request");
    if (!wrong && h.status > INT16_MAX)
        wrong = rc_fail(&bad, REDUCE_E_PROTOCOL, "status", "unknown status %" PRIu32, h.status);
    if (wrong) {
        rc_fail(&call->fault, REDUCE_E_PROTOCOL, bad.field, "malformed reply: %s", bad.text);
        finish(c, call, REDUCE_E_PROTOCOL, NULL, 0);
        return;
    }
    const uint8_t *body = msg + RP_HEADER_SIZE;
    if (h.status)
        on_refused(c, call, &h, body, len - RP_HEADER_SIZE);
    else
        finish(c, call, 0, body, len - RP_HEADER_SIZE);
}

void rc_call_on_exchange(void *place, rc_io end, const uint8_t *reply, size_t len)
{
    rc_place *p = place;
    reduce_client *c = p->client;
    rc_enter(c);
    rc_call *call = p->call;
    p->posting = false;
    if (!call)
        end_orphan(c, p, reply, len);
    else if (end == RC_IO_OK)
        on_reply(c, call, reply, len);
    else if (call->cancelled || c->closing || end == RC_IO_CANCELLED)
        finish_cancelled(c, call);
    else if (end == RC_IO_PAUSED)
        go_on(c, call);
    else if (end == RC_IO_LOST)
        on_lost(c, call);
    else if (end == RC_IO_UNSENT)
        on_unsent(c, call);
    else if (end == RC_IO_TIMEOUT)
        finish_timeout(c, call);
    else
        finish(c, call, rc_fail(&call->fault, REDUCE_E_NO_MEMORY, "", "no memory for a message"), NULL, 0);
    pump(c);
    rc_leave(c);
}

void rc_call_on_connection(void *client, bool up)
{
    reduce_client *c = client;
    rc_enter(c);
    c->up = up;
    if (!up)
        c->session = 0;
    else if (c->welcome.session)
        c->reconnects++;
    /* messages that were just posted wait for a connection; they do not start a daemon */
    if (!up && c->may_start && c->busy && !c->closing)
        rc_say_hello(c, c->opts.reconnect_timeout_ms);
    rc_wake(&c->changed, c);
    rc_leave(c);
}

bool rc_call_lost(int err)
{
    return err == REDUCE_E_NO_SESSION || err == REDUCE_E_NO_DAEMON || err == REDUCE_E_BAD_HANDLE ||
           err == REDUCE_E_DEVICE_LOST || err == REDUCE_E_CANCELLED;
}
