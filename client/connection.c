#include "client/connection.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/wire.h"
#include "proto/codec.h"
#include "proto/frame.h"

enum {
    REDIAL_MIN_MS = 10,
    REDIAL_MAX_MS = 200,
    GREETING_LIMIT_MS = 10000,
    FIRST_SLICE_MS = 50,   /* of the wait for the first connection */
    LOOK_MS = 1000,        /* how often it is looked whether the daemon has gone, and for a standstill */
    STOOD_STILL_MS = 1000, /* a timer that rings so late tells of it */
    MAX_FRAME = RP_ROUTE_LEAST + RP_HEADER_SIZE + RP_MAX_BODY
};

typedef enum {
    DOWN, /* until `due_ns`, then another attempt */
    DIALLING,
    GREETING, /* until `due_ns` */
    UP,
    BROKEN /* the stream is closed; what is under way on it comes back */
} link_state;

typedef enum {
    REST,
    QUEUED,    /* until `until_ns`, as all that follow */
    SENDING,   /* the link's `sender` */
    RECEIVING, /* sent; the reply has not come */
    PAUSING
} slot_state;

/* One stream at a time, with two chains of events, each of which has at most one operation with the wire: sending and
 * receiving. None is begun on a closed stream. All times are kept by one timer. */
struct rc_connection {
    rc_connection_event event;
    void *arg;
    void (*_Atomic help)(void *arg); /* rc_connection_help */
    bool ipc;
    rc_wire *wire; /* NULL before the first connection */

    pthread_mutex_t lock; /* guards the rest, and the slots; never held while event or `done` runs */
    pthread_cond_t changed;
    link_state state;
    bool opening; /* rc_connection_open reports a failure, and does not try again */
    bool closing;
    bool told_up;
    rc_connection_err error; /* of the last attempt */
    uint64_t due_ns;
    uint32_t redial_ms;
    rc_slot *slots; /* all */
    uint32_t last_id;
    uint64_t timer_ns;         /* when it rings; UINT64_MAX: never */
    uint64_t begun_ns;         /* when a slot last began to wait */
    _Atomic uint64_t stood_ns; /* how long this process stood still while slots waited */
    /* sending */
    bool sending;
    const uint8_t *out;
    size_t out_left;
    uint8_t *message; /* on its way, and owned; NULL: the greeting is */
    rc_slot *sender;  /* its slot; NULL: no slot waits for it any more */
    rc_slot *queue, *queue_end;
    /* receiving */
    bool receiving;
    rp_frame_reader in;
    uint8_t *frame;
};

struct rc_slot {
    rc_connection *link;
    rc_slot_done done;
    void *arg;
    rc_slot *next, **at; /* of the link's slots */
    slot_state state;
    bool cancelled;
    uint64_t until_ns;
    uint32_t id, reply_timeout_ms;
    uint8_t *message; /* QUEUED: a frame */
    size_t message_size;
    rc_slot *after; /* in the queue, or among those that ended */
    rc_io end;
};

/* ---- the timer ---- */
/* It rings at `when` or earlier. */
static void wake_at(rc_connection *l, uint64_t when)
{
    if (l->closing || when >= l->timer_ns)
        return;
    l->timer_ns = when;
    l->wire->ops->ring(l->wire, when);
}

/* For the slot's deadline, and meanwhile to look at its connection and for a standstill. */
static void wake_for(rc_connection *l, const rc_slot *s)
{
    uint64_t look = rp_after_ms(LOOK_MS);
    wake_at(l, s->until_ns < look ? s->until_ns : look);
}

/* ---- time in which this process stood still ---- */
/* By how much the timer is late, if that is so much that this process was stopped, or got no processor. */
static uint64_t stands_still(const rc_connection *l, uint64_t now)
{
    const uint64_t since = l->timer_ns < l->begun_ns ? l->begun_ns : l->timer_ns;
    return since < now && now - since >= STOOD_STILL_MS * RP_NS_PER_MS ? now - since : 0;
}

/* A daemon may have come back, or have answered, while this process stood still: nothing has run out meanwhile. */
static void put_off(rc_connection *l, uint64_t ns)
{
    atomic_fetch_add_explicit(&l->stood_ns, ns, memory_order_relaxed);
    if (l->state == GREETING)
        l->due_ns += ns;
    for (rc_slot *s = l->slots; s; s = s->next)
        if (s->state != REST && s->state != PAUSING && !s->cancelled)
            s->until_ns += ns;
}

static bool has_waiting(const rc_connection *l)
{
    for (const rc_slot *s = l->slots; s; s = s->next)
        if (s->state != REST)
            return true;
    return false;
}

/* A slot begins to wait: the others may have waited through a standstill that the timer has not noticed so far. */
static void begin_to_wait(rc_connection *l)
{
    const uint64_t now = rp_now_ns(), stood_ns = stands_still(l, now);
    if (stood_ns && has_waiting(l))
        put_off(l, stood_ns);
    l->begun_ns = now;
}

/* ---- slots end ---- */
static void end_slot(rc_slot **ended, rc_slot *s, rc_io end)
{
    s->state = REST;
    s->end = end;
    s->after = *ended;
    *ended = s;
}

/* Call without the lock. A slot may be used again, or freed, as soon as its `done` runs. */
static void tell(rc_slot *ended)
{
    while (ended) {
        rc_slot *s = ended;
        ended = s->after;
        s->done(s->arg, s->end, NULL, 0);
    }
}

static void unqueue(rc_connection *l, rc_slot *s)
{
    rc_slot **at = &l->queue, *before = NULL;
    while (*at != s) {
        before = *at;
        at = &before->after;
    }
    *at = s->after;
    if (l->queue_end == s)
        l->queue_end = before;
}

/* Its time is up, or it was cancelled. A message that is being sent continues without it, because half a message would break
 * the connection. */
static void expire(rc_connection *l, rc_slot *s, rc_slot **ended)
{
    rc_io end = s->state == PAUSING ? RC_IO_PAUSED : s->state == RECEIVING ? RC_IO_TIMEOUT : RC_IO_UNSENT;
    if (s->state == QUEUED) {
        unqueue(l, s);
        free(s->message);
        s->message = NULL;
    } else if (s->state == SENDING) {
        l->sender = NULL;
    }
    end_slot(ended, s, s->cancelled ? RC_IO_CANCELLED : end);
}

/* ---- the end of a connection ---- */
static void redial_later(rc_connection *l)
{
    l->state = DOWN;
    l->due_ns = rp_after_ms(l->redial_ms);
    l->redial_ms = 2 * l->redial_ms < REDIAL_MAX_MS ? 2 * l->redial_ms : REDIAL_MAX_MS;
    if (!l->opening && !l->closing)
        wake_at(l, l->due_ns);
    pthread_cond_broadcast(&l->changed);
}

static void break_off(rc_connection *l, rc_connection_err err)
{
    if (l->state != UP && l->state != GREETING)
        return;
    l->error = err;
    l->state = BROKEN;
    l->wire->ops->hang_up(l->wire);
}

static void end_exchanges(rc_connection *l, rc_slot **ended)
{
    l->sender = NULL;
    for (rc_slot *s = l->slots; s; s = s->next)
        if (s->state == SENDING || s->state == RECEIVING)
            end_slot(ended, s, RC_IO_LOST);
}

/* A chain has ended; the last one of a broken connection closes it. Call with the lock held; it is released. */
static void wind_up(rc_connection *l)
{
    rc_slot *ended = NULL;
    if (l->state == BROKEN && !l->sending && !l->receiving) {
        l->wire->ops->drop(l->wire);
        free(l->message);
        free(l->frame);
        l->message = l->frame = NULL;
        bool was_up = l->told_up;
        l->told_up = false;
        pthread_mutex_unlock(&l->lock);
        if (was_up)
            l->event(l->arg, false); /* before the next connection can come up */
        pthread_mutex_lock(&l->lock);
        end_exchanges(l, &ended);
        redial_later(l);
    }
    pthread_mutex_unlock(&l->lock);
    tell(ended);
}

/* ---- sending ---- */
static void send_more(rc_connection *l)
{
    l->sending = true;
    l->wire->ops->send(l->wire, l->out, l->out_left);
}

static void advance(rc_connection *l, size_t sent)
{
    l->out += sent;
    l->out_left -= sent;
}

static void begin_message(rc_connection *l, rc_slot *s)
{
    unqueue(l, s);
    s->state = SENDING;
    l->sender = s;
    l->out = l->message = s->message;
    l->out_left = s->message_size;
    s->message = NULL;
}

static void end_message(rc_connection *l)
{
    rc_slot *s = l->sender;
    free(l->message);
    l->message = NULL;
    l->sender = NULL;
    if (s) {
        s->state = RECEIVING;
        s->until_ns = rp_after_ms(s->reply_timeout_ms);
        wake_for(l, s);
    }
}

static void send_queue(rc_connection *l)
{
    while (l->queue && l->state == UP) {
        begin_message(l, l->queue);
        advance(l, l->wire->ops->send_now(l->wire, l->out, l->out_left));
        if (l->out_left) { /* the kernel does not take the rest now */
            send_more(l);
            return;
        }
        end_message(l);
    }
}

static void receive_more(rc_connection *l);

static void connection_on_sent(void *arg, rc_connection_err err, size_t n)
{
    rc_connection *l = arg;
    pthread_mutex_lock(&l->lock);
    l->sending = false;
    if (err) {
        break_off(l, err);
    } else if (l->state != BROKEN) {
        advance(l, n);
        if (l->out_left) {
            send_more(l);
        } else if (l->message) {
            end_message(l);
            send_queue(l);
        } else {
            receive_more(l);
        }
    }
    wind_up(l);
}

/* ---- receiving ---- */
static void receive_more(rc_connection *l)
{
    rp_frame_reader *in = &l->in;
    l->receiving = true;
    l->wire->ops->receive(l->wire, in->to, in->missing, in->ahead, sizeof in->ahead);
}

/* Receive the next frame. If bytes were read ahead, that happens at once, but in another turn, because this thread's work may
 * take long. */
static void receive_frame(rc_connection *l)
{
    if (!l->in.ahead_left) {
        receive_more(l);
        return;
    }
    l->receiving = true;
    l->wire->ops->receive(l->wire, NULL, 0, NULL, 0);
}

static rc_slot *waits_for(const rc_connection *l, uint32_t id)
{
    rc_slot *s = l->slots;
    while (s && (s->id != id || (s->state != SENDING && s->state != RECEIVING)))
        s = s->next;
    return s;
}

static void put_id(uint8_t *to, uint32_t id)
{
    for (int i = 0; i < RP_ROUTE_LEAST; i++)
        to[i] = (uint8_t)(id >> (24 - 8 * i));
}

static uint32_t get_id(const uint8_t *from)
{
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

static void on_frame(rc_connection *l)
{
    uint8_t *frame = l->frame;
    size_t len = (size_t)l->in.size - RP_ROUTE_LEAST;
    rc_slot *s = waits_for(l, get_id(frame));
    l->frame = NULL;
    if (s) /* else the reply belongs to an exchange that was given up */
        s->state = REST;
    if (l->sender == s)
        l->sender = NULL;
    receive_frame(l); /* other replies need not wait for `done` */
    pthread_mutex_unlock(&l->lock);
    if (s)
        s->done(s->arg, RC_IO_OK, frame + RP_ROUTE_LEAST, len);
    free(frame);
}

static void on_greeted(rc_connection *l)
{
    l->told_up = true;
    l->receiving = true; /* so that the connection is not closed meanwhile */
    pthread_mutex_unlock(&l->lock);
    l->event(l->arg, true);
    pthread_mutex_lock(&l->lock);
    l->receiving = false;
    if (l->state == GREETING) {
        l->state = UP;
        l->redial_ms = REDIAL_MIN_MS;
        pthread_cond_broadcast(&l->changed);
        receive_frame(l);
        send_queue(l);
    }
    wind_up(l);
}

/* Parses the bytes so far. A frame that begins gets its memory, and its content is checked next. */
static rp_read next_event(rc_connection *l)
{
    rp_read e = rp_frame_next(&l->in);
    if (e != RP_READ_BEGUN)
        return e;
    l->frame = malloc(l->in.size);
    if (!l->frame)
        return RP_READ_FULL;
    rp_frame_into(&l->in, l->frame, l->in.size);
    return rp_frame_next(&l->in);
}

/* Call with the lock held; it is released. */
static void go_on(rc_connection *l)
{
    switch (next_event(l)) {
    case RP_READ_MORE:
        receive_more(l);
        break;
    case RP_READ_GREETED:
        on_greeted(l);
        return;
    case RP_READ_FRAME:
        on_frame(l);
        return;
    case RP_READ_BEGUN:
    case RP_READ_FULL: /* there is no memory for the frame */
        break_off(l, RC_LINK_NO_MEMORY);
        break;
    case RP_READ_NOT_OURS: /* the peer is not a daemon */
    case RP_READ_NO_HEAD:
    case RP_READ_SHORT:
    case RP_READ_LONG:
        break_off(l, RC_LINK_TIMEOUT);
    }
    wind_up(l);
}

static void connection_on_received(void *arg, rc_connection_err err, size_t n)
{
    rc_connection *l = arg;
    pthread_mutex_lock(&l->lock);
    l->receiving = false;
    if (err || !(n || l->in.ahead_left) || l->state == BROKEN) {
        break_off(l, err ? err : RC_LINK_REFUSED);
        wind_up(l);
        return;
    }
    if (n)
        rp_frame_got(&l->in, n);
    go_on(l);
}

/* ---- dialling ---- */

static void dial(rc_connection *l)
{
    l->state = DIALLING;
    l->error = l->wire->ops->dial(l->wire);
    if (l->error)
        redial_later(l);
}

static void connection_on_dialled(void *arg, rc_connection_err err)
{
    rc_connection *l = arg;
    pthread_mutex_lock(&l->lock);
    if (err) {
        l->error = err;
        redial_later(l);
    } else {
        l->state = GREETING;
        l->due_ns = rp_after_ms(GREETING_LIMIT_MS);
        l->out = rp_greeting_req;
        l->out_left = RP_GREETING;
        rp_frame_init(&l->in, rp_greeting_rep, l->ipc, MAX_FRAME);
        if (l->closing)
            break_off(l, RC_LINK_REFUSED);
        else
            send_more(l);
        wake_at(l, l->due_ns);
    }
    wind_up(l);
}

/* ---- time passes ---- */

static void look_at_link(rc_connection *l, uint64_t now)
{
    bool due = now >= l->due_ns;
    if (l->state == DOWN && due && !l->opening && !l->closing)
        dial(l);
    else if (l->state == GREETING && due)
        break_off(l, RC_LINK_TIMEOUT);
    else if (l->state == UP && l->wire->forgets && l->wire->ops->is_gone(l->wire))
        break_off(l, RC_LINK_REFUSED);
    if (l->state == GREETING || (l->state == DOWN && !l->opening))
        wake_at(l, l->due_ns);
}

static void look_at_slots(rc_connection *l, uint64_t now, rc_slot **ended)
{
    for (rc_slot *s = l->slots; s; s = s->next) {
        if (s->state == REST)
            continue;
        if (now >= s->until_ns)
            expire(l, s, ended);
        else
            wake_for(l, s);
    }
}

uint64_t rc_connection_stood_ns(rc_connection *l, bool until_now)
{
    uint64_t ns = atomic_load_explicit(&l->stood_ns, memory_order_relaxed);
    if (!until_now)
        return ns;
    pthread_mutex_lock(&l->lock);
    ns = atomic_load_explicit(&l->stood_ns, memory_order_relaxed) + stands_still(l, rp_now_ns());
    pthread_mutex_unlock(&l->lock);
    return ns;
}

static void connection_on_time(void *arg)
{
    rc_connection *l = arg;
    rc_slot *ended = NULL;
    uint64_t now = rp_now_ns();
    pthread_mutex_lock(&l->lock);
    const uint64_t stood_ns = stands_still(l, now);
    if (stood_ns)
        put_off(l, stood_ns);
    l->timer_ns = UINT64_MAX;
    look_at_link(l, now);
    look_at_slots(l, now, &ended);
    const uint64_t took_ns = rp_now_ns() - now;
    if (took_ns >= STOOD_STILL_MS * RP_NS_PER_MS) /* it was stopped in here */
        put_off(l, took_ns);
    pthread_mutex_unlock(&l->lock);
    tell(ended);
}

/* ---- help ---- */
static void connection_on_help(void *arg)
{
    rc_connection *l = arg;
    void (*help)(void *) = atomic_load(&l->help); /* gcc 12 would read l->help non-atomically for the call */
    help(l->arg);
}

void rc_connection_help(rc_connection *l, void (*help)(void *arg))
{
    atomic_store(&l->help, help);
    if (l->wire->ops->help)
        l->wire->ops->help(l->wire);
}

/* ---- link ---- */
static bool is_ipc(const char *url) { return strncmp(url, "ipc://", 6) == 0; }

static rc_connection_err make_wire(rc_connection *l, const char *url, const rp_pem *pem)
{
    static const rc_wire_events events = {connection_on_dialled, connection_on_sent, connection_on_received, connection_on_time,
                                          connection_on_help};
    return l->ipc ? rc_wire_unix(&l->wire, url + 6, &events, l) : rc_wire_nng(&l->wire, url, pem, &events, l);
}

/* One slice of a wait for the first connection. RC_LINK_OK: it may go on. */
static rc_connection_err await_first(rc_connection *l, uint64_t end_ns, rc_connection_give_up give_up)
{
    const uint64_t slice = rp_after_ms(FIRST_SLICE_MS);
    const struct timespec until = rp_timespec(slice < end_ns ? slice : end_ns);
    if (pthread_cond_timedwait(&l->changed, &l->lock, &until) == 0)
        return RC_LINK_OK;
    if (slice >= end_ns)
        return RC_LINK_TIMEOUT;
    pthread_mutex_unlock(&l->lock);
    const bool over = give_up(l->arg);
    pthread_mutex_lock(&l->lock);
    return over ? RC_LINK_INTERRUPTED : RC_LINK_OK;
}

static rc_connection_err first_connection(rc_connection *l, uint32_t timeout_ms, rc_connection_give_up give_up)
{
    const uint64_t end = rp_after_ms(timeout_ms);
    rc_connection_err why = RC_LINK_OK;
    pthread_mutex_lock(&l->lock);
    dial(l);
    while (!why && l->state != UP && l->state != DOWN)
        why = await_first(l, end, give_up);
    if (l->state == DOWN && why != RC_LINK_INTERRUPTED)
        why = l->error;
    else if (l->state == UP && why == RC_LINK_TIMEOUT)
        why = RC_LINK_OK;
    l->opening = false;
    pthread_mutex_unlock(&l->lock);
    return why;
}

static bool missing_socket(const char *url)
{
    return is_ipc(url) && access(url + 6, F_OK) && (errno == ENOENT || errno == ENOTDIR);
}

rc_connection_err rc_connection_open(rc_connection **out, const char *url, const rp_pem *pem, uint32_t timeout_ms,
                                     rc_connection_event event, rc_connection_give_up give_up, void *arg)
{
    if (missing_socket(url))
        return RC_LINK_REFUSED;
    rc_connection *l = calloc(1, sizeof *l);
    if (!l)
        return RC_LINK_NO_MEMORY;
    l->event = event;
    l->arg = arg;
    l->ipc = is_ipc(url);
    l->opening = true;
    l->redial_ms = REDIAL_MIN_MS;
    l->timer_ns = UINT64_MAX;
    pthread_mutex_init(&l->lock, NULL);
    rp_cond_init(&l->changed);
    rc_connection_err why = make_wire(l, url, pem);
    if (!why)
        why = first_connection(l, timeout_ms, give_up);
    if (why)
        rc_connection_close(l);
    else
        *out = l;
    return why;
}

void rc_connection_close(rc_connection *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->closing = true;
    break_off(l, RC_LINK_REFUSED);
    if (l->state == DIALLING)
        l->wire->ops->stop_dialling(l->wire);
    while (l->state != DOWN)
        pthread_cond_wait(&l->changed, &l->lock);
    pthread_mutex_unlock(&l->lock);
    if (l->wire)
        l->wire->ops->free(l->wire);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

/* ---- reading by a thread that waits ---- */
bool rc_connection_read_here(rc_connection *l, uint64_t until_ns, uint64_t watch_until_ns)
{
    return l->wire->ops->read_here && l->wire->ops->read_here(l->wire, until_ns, watch_until_ns);
}

void rc_connection_interrupt(rc_connection *l)
{
    if (l->wire->ops->interrupt)
        l->wire->ops->interrupt(l->wire);
}

/* ---- slot ---- */
rc_slot *rc_slot_new(rc_connection *l, rc_slot_done done, void *arg)
{
    rc_slot *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (rc_slot){.link = l, .done = done, .arg = arg};
    pthread_mutex_lock(&l->lock);
    s->next = l->slots;
    s->at = &l->slots;
    if (s->next)
        s->next->at = &s->next;
    l->slots = s;
    pthread_mutex_unlock(&l->lock);
    return s;
}

void rc_slot_free(rc_slot *s)
{
    rc_connection *l = s->link;
    pthread_mutex_lock(&l->lock);
    *s->at = s->next;
    if (s->next)
        s->next->at = s->at;
    pthread_mutex_unlock(&l->lock);
    free(s);
}

void rc_slot_arm(rc_slot *s)
{
    pthread_mutex_lock(&s->link->lock);
    s->cancelled = false;
    pthread_mutex_unlock(&s->link->lock);
}

/* A frame with head and data, still without its id; *size bytes. */
static uint8_t *make_frame(bool ipc, const void *head, size_t head_len, const void *data, size_t data_len, rc_fill fill,
                           size_t *size)
{
    size_t front = rp_frame_head_size(ipc), len = RP_ROUTE_LEAST + head_len + data_len;
    uint8_t *frame = malloc(front + len);
    if (!frame)
        return NULL;
    uint8_t *to = frame + front + RP_ROUTE_LEAST;
    rp_put_frame_head(frame, ipc, len);
    memcpy(to, head, head_len);
    if (fill)
        fill(data, to + head_len);
    else if (data_len)
        memcpy(to + head_len, data, data_len);
    *size = front + len;
    return frame;
}

static void enqueue(rc_connection *l, rc_slot *s)
{
    s->after = NULL;
    *(l->queue ? &l->queue_end->after : &l->queue) = s;
    l->queue_end = s;
    if (!l->sending)
        send_queue(l);
}

/* False: it was cancelled before. */
static bool begin(rc_slot *s, slot_state state, uint32_t ms)
{
    if (s->cancelled)
        return false;
    begin_to_wait(s->link);
    s->state = state;
    s->until_ns = s->link->begun_ns + ms * RP_NS_PER_MS;
    wake_for(s->link, s);
    return true;
}

void rc_slot_exchange(rc_slot *s, const void *head, size_t head_len, const void *data, size_t data_len, rc_fill fill,
                      uint32_t send_timeout_ms, uint32_t reply_timeout_ms)
{
    rc_connection *l = s->link;
    size_t size;
    uint8_t *frame = make_frame(l->ipc, head, head_len, data, data_len, fill, &size);
    pthread_mutex_lock(&l->lock);
    bool begun = frame && begin(s, QUEUED, send_timeout_ms);
    if (begun) {
        s->id = ++l->last_id | UINT32_C(1) << 31;
        put_id(frame + rp_frame_head_size(l->ipc), s->id);
        s->reply_timeout_ms = reply_timeout_ms;
        s->message = frame;
        s->message_size = size;
        enqueue(l, s);
    }
    pthread_mutex_unlock(&l->lock);
    if (begun)
        return;
    free(frame);
    s->done(s->arg, frame ? RC_IO_CANCELLED : RC_IO_NO_MEMORY, NULL, 0);
}

void rc_slot_pause(rc_slot *s, uint32_t ms)
{
    pthread_mutex_lock(&s->link->lock);
    bool begun = begin(s, PAUSING, ms);
    pthread_mutex_unlock(&s->link->lock);
    if (!begun)
        s->done(s->arg, RC_IO_CANCELLED, NULL, 0);
}

void rc_slot_cancel(rc_slot *s)
{
    pthread_mutex_lock(&s->link->lock);
    s->cancelled = true;
    if (s->state != REST) {
        s->until_ns = 0;
        wake_at(s->link, rp_now_ns());
    }
    pthread_mutex_unlock(&s->link->lock);
}
