#include "daemon/net/connection.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/net/limits.h"
#include "daemon/net/wire.h"
#include "proto/frame.h"

enum {
    MAX_LISTENERS = 8,
    MAX_FRAME = RP_ROUTE_LEAST + RP_HEADER_SIZE + RP_MAX_BODY,
    MESSAGE_AT = 4, /* frames are read to here: route, header and spec, then the elements of REDUCE lie on 16 bytes */
    FRONT = 48,     /* kept free before a reply's header for head and route; the cells lie on 8 bytes */
    ORIGINS = 64,   /* buckets */
    LONG_START = RP_ROUTE + RP_HEADER_SIZE /* of a frame that is too long: what names its request */
};
_Static_assert(FRONT >= RP_FRAME_HEAD + RP_ROUTE && (FRONT + RP_HEADER_SIZE) % 8 == 0, "FRONT");

static const uint64_t NS_PER_MS = 1000000;

typedef struct connection connection;

typedef struct reply {
    struct reply *next;
    uint8_t *at; /* what the kernel has not taken begins here, and has so many bytes */
    size_t left;
    rd_account *account; /* NULL: nobody's */
    size_t charged, queued;
    bool last;                   /* the connection ends after it */
    _Alignas(8) uint8_t bytes[]; /* FRONT bytes of room, then header and body */
} reply;

/* At any time it is free, or `working`: a message that the fast path, then the loop, owns. */
typedef struct link {
    rd_transport *transport;
    connection *from; /* counted; NULL: free */
    bool working;
    bool last;      /* its reply is to be its connection's last one */
    uint8_t *frame; /* the message's, as it was received */
    uint8_t route[RP_ROUTE];
    size_t route_size;
    reply *reply;
    struct link *next;                          /* of the free ones */
    _Alignas(max_align_t) rd_exchange exchange; /* last: the room of the layer that answers follows */
} link_t;

/* Peers that count together until they say who they are: a user, or a network address. */
typedef struct origin {
    rd_origin id;
    unsigned connections, strangers;
    uint64_t frame_bytes; /* of unfinished frames */
    struct origin *next;
} origin;

/* Why a connection is not read. Whoever sets it back to READING goes on with it, by a turn of the wire's. */
typedef enum {
    READING,
    FOR_EXCHANGE, /* among the `waiting`, with a whole frame */
    FOR_ROOM,     /* among the `starving`, with a part of a frame */
    FOR_REPLIES,  /* until some of its replies are out, or messages answered */
    FOR_ANSWERS   /* until all its messages are answered */
} pause_t;

/* Two chains of events, each of which has at most one operation with the wire: receiving, and sending. The receiving chain ends
 * with the wire's last event, and nowhere else: a connection that is to end is hung up. */
struct connection {
    rd_transport *transport;
    connection *next, **at; /* the transport's list: the newest first */
    origin *origin;
    uint32_t id;
    rd_wire *wire;
    atomic_uint holders;  /* the receiving chain, the sending one while it runs, and each link that works; the last one frees */
    atomic_bool ending;   /* what comes is thrown away, and after its replies it ends */
    pthread_mutex_t lock; /* of what follows, down to receiving */
    bool closed;
    bool announced; /* RD_CONNECTION_OPENED was told */
    bool stranger;  /* has not said HELLO; also with the transport's lock */
    pause_t paused;
    unsigned under_way;            /* messages not answered */
    uint64_t greet_by_ns;          /* then, while not announced */
    uint64_t send_by_ns;           /* all replies that wait are to be out; of an ending one without any: when it ends */
    uint64_t frame_by_ns;          /* the frame is to be whole; UINT64_MAX: none has begun */
    reply *replies, **replies_end; /* the first one is on its way */
    unsigned n_replies;
    size_t queued_bytes; /* of these, as they were queued */
    bool sending;
    /* receiving */
    rp_frame_reader in;
    uint8_t *frame;
    size_t room;    /* in `frame`, behind MESSAGE_AT */
    size_t charged; /* to the origin */
    bool long_frame;
    bool timed, sized; /* its deadline is set, and includes what its bytes take */
    uint64_t received_ns;
    connection *waits; /* the next one that waits or starves */
};

struct rd_transport {
    rd_inbox *inbox;
    rd_listener *listeners[MAX_LISTENERS];
    unsigned listening;
    rd_unix_threads *unix_threads; /* NULL: none */
    rd_nng_tls *tls;               /* NULL: none */
    atomic_bool refusing;          /* new connections: closed at once */
    bool (*fastpath)(void *arg, rd_exchange *e);
    void *fastpath_arg;
    unsigned exchanges;
    size_t link_size; /* with the room that the layer above asked for */
    uint8_t *links;
    atomic_uint busy, unsent; /* exchanges, and replies */
    pthread_mutex_t lock;     /* of everything below; taken before a connection's */
    pthread_cond_t less;      /* receivers or connections became fewer */
    link_t *idle;
    connection *waiting, *starving; /* oldest first */
    connection *connections;
    origin *origins[ORIGINS];
    unsigned strangers[2];   /* of the network, and local ones */
    uint64_t stranger_bytes; /* of their unfinished frames */
    unsigned receivers;      /* connections whose receiving chain has not ended */
    unsigned alive;          /* all, until their memory is free */
    uint32_t last_id;
    bool closing;
};

static link_t *link_of(rd_exchange *e) { return (link_t *)((char *)e - offsetof(link_t, exchange)); }

static link_t *link_at(const rd_transport *t, unsigned i) { return (link_t *)(t->links + i * t->link_size); }

static uint64_t after_ms(uint64_t ms) { return rd_now_ns() + ms * NS_PER_MS; }

/* What so many bytes may take of a slow link. */
static uint64_t transfer_ns(uint64_t bytes) { return bytes * 1000 / RD_LEAST_RATE * NS_PER_MS; }

static bool is_ending(const connection *c) { return atomic_load_explicit(&((connection *)c)->ending, memory_order_relaxed); }

static void append(connection **list, connection *c)
{
    while (*list)
        list = &(*list)->waits;
    c->waits = NULL;
    *list = c;
}

static void take_out(connection **list, const connection *c)
{
    while (*list && *list != c)
        list = &(*list)->waits;
    if (*list)
        *list = c->waits;
}

/* ---- origins, with the transport's lock ---- */
static origin **origin_at(rd_transport *t, rd_origin id)
{
    origin **at = &t->origins[(id.key ^ id.key >> 32 ^ id.local) % ORIGINS];
    while (*at && ((*at)->id.key != id.key || (*at)->id.local != id.local))
        at = &(*at)->next;
    return at;
}

/* NULL: no memory. */
static origin *hold_origin(rd_transport *t, rd_origin id)
{
    origin **at = origin_at(t, id);
    if (!*at && (*at = calloc(1, sizeof **at)))
        (*at)->id = id;
    if (*at)
        (*at)->connections++;
    return *at;
}

static void drop_origin(rd_transport *t, origin *o)
{
    if (--o->connections)
        return;
    *origin_at(t, o->id) = o->next;
    free(o);
}

static void end_strangeness(connection *c)
{
    if (!c->stranger)
        return;
    c->stranger = false;
    c->origin->strangers--;
    c->transport->strangers[c->origin->id.local]--;
    c->transport->stranger_bytes -= c->charged;
}

/* ---- the end of a connection ---- */
static void free_replies(rd_transport *t, reply *r)
{
    while (r) {
        reply *next = r->next;
        atomic_fetch_sub_explicit(&t->unsent, 1, memory_order_relaxed);
        if (r->account)
            rd_account_release(r->account, r->charged); /* the session may be freed from here on */
        free(r);
        r = next;
    }
}

static void let_go(connection *c)
{
    rd_transport *t = c->transport;
    if (atomic_fetch_sub_explicit(&c->holders, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_lock(&t->lock);
    *c->at = c->next;
    if (c->next)
        c->next->at = c->at;
    end_strangeness(c);
    drop_origin(t, c->origin);
    pthread_mutex_unlock(&t->lock);
    free_replies(t, c->replies);
    c->wire->ops->free(c->wire);
    pthread_mutex_lock(&t->lock);
    t->alive--;
    pthread_cond_signal(&t->less);
    pthread_mutex_unlock(&t->lock); /* the transport may be freed from here on */
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* True: the caller goes on with it. */
static bool claim(connection *c)
{
    pthread_mutex_lock(&c->lock);
    bool mine = c->paused != READING;
    c->paused = READING;
    if (mine && c->frame_by_ns != UINT64_MAX)
        c->frame_by_ns = after_ms(RD_TRANSFER_LIMIT_MS) + transfer_ns(c->in.size);
    pthread_mutex_unlock(&c->lock);
    return mine;
}

static void go_on_in_another_turn(connection *c) { c->wire->ops->receive(c->wire, NULL, 0, NULL, 0); }

static void resume(connection *c)
{
    if (claim(c))
        go_on_in_another_turn(c);
}

/* What is under way ends with an error, and both chains with it. */
static void hang_up(connection *c)
{
    pthread_mutex_lock(&c->lock);
    bool first = !c->closed;
    c->closed = true;
    pthread_mutex_unlock(&c->lock);
    if (first)
        c->wire->ops->hang_up(c->wire);
    resume(c);
}

/* Bytes that an unfinished frame no longer holds: frames that starve may begin. With the transport's lock. */
static void feed_starving(rd_transport *t);

static void drop_charge(connection *c)
{
    rd_transport *t = c->transport;
    if (!c->charged)
        return;
    pthread_mutex_lock(&t->lock);
    c->origin->frame_bytes -= c->charged;
    if (c->stranger)
        t->stranger_bytes -= c->charged;
    c->charged = 0;
    feed_starving(t);
    pthread_mutex_unlock(&t->lock);
}

static void drop_frame(connection *c)
{
    free(c->frame);
    c->frame = NULL;
    c->room = 0;
    drop_charge(c);
}

static void end_receiving(connection *c)
{
    rd_transport *t = c->transport;
    hang_up(c);
    pthread_mutex_lock(&t->lock);
    take_out(&t->waiting, c);
    take_out(&t->starving, c);
    pthread_mutex_unlock(&t->lock);
    drop_frame(c);
    if (c->announced)
        rd_inbox_put(t->inbox, (rd_event){.kind = RD_CONNECTION_CLOSED, .connection = c->id});
    pthread_mutex_lock(&t->lock);
    t->receivers--;
    pthread_cond_signal(&t->less);
    pthread_mutex_unlock(&t->lock);
    let_go(c);
}

/* ---- sending, with the connection's lock ---- */

/* As many replies as the kernel takes now. Those that are out are added to *done. False: the stream is broken. */
static bool send_replies(connection *c, reply **done)
{
    const rd_wire_ops *ops = c->wire->ops;
    while (c->replies && !c->closed) {
        reply *r = c->replies;
        size_t n = ops->send(c->wire, r->at, r->left);
        r->at += n;
        r->left -= n;
        if (r->left) {
            c->sending = ops->send_rest(c->wire, r->at, r->left);
            if (c->sending)
                atomic_fetch_add_explicit(&c->holders, 1, memory_order_relaxed);
            return c->sending;
        }
        c->replies = r->next;
        if (!c->replies)
            c->replies_end = &c->replies;
        c->n_replies--;
        c->queued_bytes -= r->queued;
        r->next = *done;
        *done = r;
    }
    if (is_ending(c) && !c->replies && !c->closed) {
        ops->end_sending(c->wire);
        c->send_by_ns = after_ms(RD_LINGER_MS);
    }
    return !c->closed;
}

/* The backlog has one deadline: what begins it sets it, and each reply adds what a slow link takes for its bytes. */
static void queue_reply(connection *c, reply *r)
{
    uint64_t ns = transfer_ns(r->left);
    c->send_by_ns = c->replies ? c->send_by_ns + ns : after_ms(RD_TRANSFER_LIMIT_MS) + ns;
    r->next = NULL;
    *c->replies_end = r;
    c->replies_end = &r->next;
    c->n_replies++;
    r->queued = r->left;
    c->queued_bytes += r->queued;
    if (r->last)
        atomic_store_explicit(&c->ending, true, memory_order_relaxed);
}

static bool is_crowded(const connection *c)
{
    unsigned part = c->paused == FOR_REPLIES ? 2 : 1;
    return (c->n_replies > RD_MAX_QUEUED / part && c->queued_bytes > RD_MAX_QUEUED_BYTES / part) ||
           c->under_way >= RD_MAX_UNDER_WAY / part;
}

static bool is_roomy(const connection *c)
{
    return (c->paused == FOR_REPLIES && !is_crowded(c)) || (c->paused == FOR_ANSWERS && c->under_way == 0);
}

/* With the lock, which is given up: after a change of what is sent. `done` has left; `whole` is false if the peer is gone. */
static void settle(connection *c, bool whole, reply *done)
{
    bool roomy = is_roomy(c);
    pthread_mutex_unlock(&c->lock);
    free_replies(c->transport, done);
    if (!whole)
        hang_up(c);
    else if (roomy)
        resume(c);
}

/* ---- sending ---- */

/* Behind those that are on their way; NULL: only a message less is under way. */
static void send_reply(connection *c, reply *r, unsigned answered)
{
    reply *done = NULL;
    bool whole = true;
    pthread_mutex_lock(&c->lock);
    c->under_way -= answered;
    if (r && !c->closed && !is_ending(c)) {
        queue_reply(c, r);
        if (!c->sending)
            whole = send_replies(c, &done);
    } else if (r) {
        r->next = NULL;
        done = r;
    }
    settle(c, whole, done);
}

static void on_sent(void *user, bool ok, size_t n)
{
    connection *c = user;
    reply *done = NULL;
    pthread_mutex_lock(&c->lock);
    c->sending = false;
    c->replies->at += n;
    c->replies->left -= n;
    bool whole = ok && send_replies(c, &done);
    settle(c, whole, done);
    let_go(c);
}

/* NULL: no memory. */
static reply *make_reply(rd_transport *t, size_t size)
{
    reply *r = malloc(sizeof *r + FRONT + size);
    if (r) {
        *r = (reply){0};
        atomic_fetch_add_explicit(&t->unsent, 1, memory_order_relaxed);
    }
    return r;
}

static void drop_reply(rd_transport *t, reply *r)
{
    if (r)
        r->next = NULL;
    free_replies(t, r);
}

/* Head and route go in front of the message of so many bytes. */
static void frame_reply(reply *r, bool ipc, const uint8_t *route, size_t route_size, size_t message)
{
    size_t head = rp_frame_head_size(ipc);
    r->at = r->bytes + FRONT - route_size - head;
    rp_put_frame_head(r->at, ipc, route_size + message);
    memcpy(r->at + head, route, route_size);
    r->left = head + route_size + message;
}

static void greet(connection *c)
{
    reply *r = make_reply(c->transport, 0);
    if (!r) {
        hang_up(c);
        return;
    }
    r->at = r->bytes;
    r->left = RP_GREETING;
    memcpy(r->at, rp_greeting_rep, RP_GREETING);
    send_reply(c, r, 0);
}

/* ---- receiving ---- */

/* What is to happen next with a connection that is read. */
typedef enum {
    GO_ON,
    READ_MORE,
    PAUSED, /* somebody else goes on with it, maybe already */
    HANG_UP
} step_t;

/* With a reason to wait for. */
static step_t pause_for(connection *c, pause_t reason)
{
    pthread_mutex_lock(&c->lock);
    bool open = !c->closed;
    if (open)
        c->paused = reason;
    pthread_mutex_unlock(&c->lock);
    return open ? PAUSED : HANG_UP;
}

/* A request goes its way. From here on it may be answered at any moment. */
static void hand_over(connection *c, link_t *l, bool quickly)
{
    rd_transport *t = c->transport;
    rd_exchange *e = &l->exchange;
    drop_charge(c); /* the layer above counts it from here on */
    atomic_fetch_add_explicit(&c->holders, 1, memory_order_relaxed);
    l->from = c;
    l->working = true;
    l->last = false;
    l->frame = c->frame;
    c->frame = NULL;
    c->room = 0;
    rp_get_route(l->frame + MESSAGE_AT, c->in.size, &l->route_size);
    memcpy(l->route, l->frame + MESSAGE_AT, l->route_size);
    e->connection = c->id;
    e->bytes = l->frame + MESSAGE_AT + l->route_size;
    e->len = c->in.size - l->route_size;
    e->received_ns = c->received_ns;
    atomic_fetch_add_explicit(&t->busy, 1, memory_order_relaxed);
    if (!quickly || !t->fastpath(t->fastpath_arg, e))
        rd_exchange_pass(e);
}

/* A free link. NULL: there is none, and `c` waits for one, or is closed. The time is taken under the lock: so the link's last
 * request has ended before, and the two do not overlap in the trace. */
static link_t *take_link(connection *c, step_t *otherwise)
{
    rd_transport *t = c->transport;
    pthread_mutex_lock(&t->lock);
    c->received_ns = rd_now_ns();
    link_t *l = t->idle;
    if (l) {
        t->idle = l->next;
    } else {
        *otherwise = pause_for(c, FOR_EXCHANGE);
        if (*otherwise == PAUSED)
            append(&t->waiting, c);
    }
    pthread_mutex_unlock(&t->lock);
    return l;
}

/* The link is free. It goes to the connection that waits longest. */
static void give_back(rd_transport *t, link_t *l)
{
    connection *c;
    bool mine = false;
    do {
        pthread_mutex_lock(&t->lock);
        c = t->waiting;
        if (c) {
            t->waiting = c->waits;
            atomic_fetch_add_explicit(&c->holders, 1, memory_order_relaxed);
        } else {
            l->next = t->idle;
            t->idle = l;
        }
        pthread_mutex_unlock(&t->lock);
        mine = c && claim(c); /* else it is being hung up */
        if (mine) {
            hand_over(c, l, false); /* not the fast path: this may be the loop, or a long line of connections that wait */
            go_on_in_another_turn(c);
        }
        if (c)
            let_go(c);
    } while (c && !mine);
}

static void release(link_t *l)
{
    rd_transport *t = l->transport;
    connection *from = l->from;
    free(l->frame);
    drop_reply(t, l->reply);
    l->frame = NULL;
    l->reply = NULL;
    l->from = NULL;
    l->working = false;
    atomic_fetch_sub_explicit(&t->busy, 1, memory_order_relaxed);
    give_back(t, l);
    let_go(from);
}

/* Is it to be read now? */
static step_t look(connection *c)
{
    step_t step = GO_ON;
    pthread_mutex_lock(&c->lock);
    if (c->closed) {
        step = HANG_UP;
    } else if (is_ending(c)) {
        step = READ_MORE;
    } else if (is_crowded(c)) {
        c->paused = FOR_REPLIES;
        step = PAUSED;
    }
    pthread_mutex_unlock(&c->lock);
    return step;
}

/* The frame is whole; and a message, perhaps. */
static void end_time(connection *c, bool message)
{
    pthread_mutex_lock(&c->lock);
    c->under_way += message;
    c->frame_by_ns = UINT64_MAX;
    c->timed = false;
    pthread_mutex_unlock(&c->lock);
}

static step_t on_frame(connection *c)
{
    size_t size;
    step_t otherwise = GO_ON;
    rp_route_state route = rp_get_route(c->frame + MESSAGE_AT, c->in.size, &size);
    if (route == RP_ROUTE_BROKEN)
        return HANG_UP;
    if (route == RP_ROUTE_TOO_LONG)
        drop_frame(c);
    end_time(c, route == RP_ROUTE_FINE);
    if (route == RP_ROUTE_TOO_LONG)
        return GO_ON;
    link_t *l = take_link(c, &otherwise);
    if (l)
        hand_over(c, l, true);
    return l ? look(c) : otherwise;
}

/* ---- memory of a frame ---- */

/* With the transport's lock. */
static bool charge(connection *c)
{
    rd_transport *t = c->transport;
    uint64_t size = c->in.size;
    if (c->origin->frame_bytes + size > RD_MAX_ORIGIN_FRAMES ||
        (c->stranger && t->stranger_bytes + size > RD_MAX_STRANGER_FRAMES))
        return false;
    c->origin->frame_bytes += size;
    if (c->stranger)
        t->stranger_bytes += size;
    c->charged = size;
    return true;
}

static void feed_starving(rd_transport *t)
{
    for (connection **at = &t->starving, *c; (c = *at);) {
        if (!charge(c)) {
            at = &c->waits;
            continue;
        }
        *at = c->waits;
        resume(c);
    }
}

/* All of a large frame is charged before its memory grows, so that what has begun can end. */
static step_t charge_or_starve(connection *c)
{
    rd_transport *t = c->transport;
    step_t step = GO_ON;
    pthread_mutex_lock(&t->lock);
    if (!c->charged && !charge(c)) {
        step = pause_for(c, FOR_ROOM);
        if (step == PAUSED)
            append(&t->starving, c);
    }
    pthread_mutex_unlock(&t->lock);
    return step;
}

/* Room for more of a frame: with its bytes, for a head alone is no reason for much. */
static step_t grow(connection *c)
{
    size_t size = c->in.size, room = c->room ? c->room * RD_FRAME_GROWTH : RD_FRAME_FIRST;
    step_t step = c->room && !c->charged ? charge_or_starve(c) : GO_ON;
    if (step != GO_ON)
        return step;
    room = room < size ? room : size;
    uint8_t *frame = realloc(c->frame, MESSAGE_AT + room);
    if (!frame)
        return HANG_UP;
    c->frame = frame;
    rp_frame_into(&c->in, frame + MESSAGE_AT + c->room, room - c->room);
    c->room = room;
    return GO_ON;
}

/* ---- a frame that is too long ---- */
static step_t begin_long(connection *c)
{
    c->frame = malloc(LONG_START);
    if (!c->frame)
        return HANG_UP;
    c->long_frame = true;
    rp_frame_into(&c->in, c->frame, LONG_START);
    return GO_ON;
}

/* NULL: no memory, or nobody knows which request it would be. */
static reply *refusal_of_long(connection *c)
{
    rp_header h;
    rp_fault f = {.index = RP_NO_INDEX};
    size_t route;
    if (rp_get_route(c->frame, LONG_START, &route) != RP_ROUTE_FINE ||
        (rp_get_header(c->frame + route, RP_HEADER_SIZE, &h, &f) && strcmp(f.field, "body_len") != 0) || h.reply)
        return NULL;
    reply *r = make_reply(c->transport, RP_HEADER_SIZE + RP_ERROR_SIZE + RP_MAX_FIELD + RP_MAX_TEXT);
    if (!r)
        return NULL;
    rp_fail(&f, RP_TOO_LARGE, "body_len", RP_MAX_BODY, "a message has at most %u bytes behind its header", RP_MAX_BODY);
    h.body_len = rp_put_fault(r->bytes + FRONT + RP_HEADER_SIZE, &f);
    h.reply = true;
    h.status = RP_TOO_LARGE;
    h.time_ms = 0;
    rp_put_header(r->bytes + FRONT, &h);
    frame_reply(r, c->wire->ipc, c->frame, route, RP_HEADER_SIZE + h.body_len);
    r->last = true;
    return r;
}

static bool waits_for_answers(connection *c)
{
    pthread_mutex_lock(&c->lock);
    bool waits = c->under_way && !c->closed;
    if (waits)
        c->paused = FOR_ANSWERS;
    pthread_mutex_unlock(&c->lock);
    return waits;
}

/* Behind the replies to what came before, the last one; and nothing is read any more. */
static step_t refuse_long(connection *c)
{
    if (waits_for_answers(c))
        return PAUSED;
    reply *r = refusal_of_long(c);
    if (!r)
        return HANG_UP;
    send_reply(c, r, 0);
    return look(c);
}

/* ---- the receiving chain ---- */
static step_t on_greeted(connection *c)
{
    pthread_mutex_lock(&c->lock);
    c->announced = !c->closed;
    pthread_mutex_unlock(&c->lock);
    if (!c->announced)
        return HANG_UP;
    return rd_inbox_put(c->transport->inbox, (rd_event){.kind = RD_CONNECTION_OPENED, .connection = c->id}) ? GO_ON : HANG_UP;
}

/* A part of a frame is there, and time passes until the rest comes: for its bytes, too, once their number is known. */
static void begin_time(connection *c)
{
    bool sized = c->in.at == RP_AT_FRAME;
    if (c->timed && (c->sized || !sized))
        return;
    pthread_mutex_lock(&c->lock);
    c->frame_by_ns = (c->timed ? c->frame_by_ns : after_ms(RD_TRANSFER_LIMIT_MS)) + (sized ? transfer_ns(c->in.size) : 0);
    pthread_mutex_unlock(&c->lock);
    c->timed = true;
    c->sized = sized;
}

static step_t take_step(connection *c)
{
    switch (rp_frame_next(&c->in)) {
    case RP_READ_MORE:
        if (c->announced && rp_frame_is_inside(&c->in))
            begin_time(c);
        return READ_MORE;
    case RP_READ_GREETED:
        return on_greeted(c);
    case RP_READ_BEGUN:
        return grow(c);
    case RP_READ_FULL:
        return c->long_frame ? refuse_long(c) : grow(c);
    case RP_READ_FRAME:
        return on_frame(c);
    case RP_READ_LONG:
        return begin_long(c);
    case RP_READ_STRANGER:
    case RP_READ_NO_HEAD:
    case RP_READ_SHORT:
        break;
    }
    return HANG_UP;
}

/* Of an ending connection what comes is thrown away, so that the peer can send it, read the last reply and hang up. */
static void receive_more(connection *c)
{
    rp_frame_reader *in = &c->in;
    if (is_ending(c))
        c->wire->ops->receive(c->wire, in->ahead, sizeof in->ahead, NULL, 0);
    else
        c->wire->ops->receive(c->wire, in->to, in->missing, in->ahead, sizeof in->ahead);
}

/* Until more bytes are needed, or somebody else goes on. */
static void go_on(connection *c)
{
    step_t step = look(c);
    while (step == GO_ON)
        step = take_step(c);
    if (step == READ_MORE)
        receive_more(c);
    if (step == HANG_UP) {
        hang_up(c);
        go_on_in_another_turn(c); /* which ends it */
    }
}

static void on_received(void *user, bool ok, size_t n)
{
    connection *c = user;
    if (!ok) {
        end_receiving(c);
        return;
    }
    if (n && !is_ending(c))
        rp_frame_got(&c->in, n);
    go_on(c);
}

/* ---- a connection begins ---- */

static bool is_open(connection *c)
{
    pthread_mutex_lock(&c->lock);
    bool open = !c->closed;
    pthread_mutex_unlock(&c->lock);
    return open;
}

/* The oldest stranger of an origin, or of all local or network peers if it is NULL. */
static connection *oldest_stranger(rd_transport *t, const origin *o, bool local)
{
    connection *oldest = NULL;
    for (connection *c = t->connections; c; c = c->next)
        if (c->stranger && is_open(c) && (o ? c->origin == o : c->origin->id.local == local))
            oldest = c;
    return oldest;
}

/* One more stranger, and the oldest goes if there are too many. With the transport's lock. */
static void bound_strangers(rd_transport *t, const origin *o)
{
    bool local = o->id.local;
    connection *c = NULL;
    if (o->strangers > RD_MAX_ORIGIN_STRANGERS)
        c = oldest_stranger(t, o, local);
    else if (t->strangers[local] > RD_MAX_STRANGERS)
        c = oldest_stranger(t, NULL, local);
    if (c)
        hang_up(c);
}

static bool enlist(rd_transport *t, connection *c)
{
    pthread_mutex_lock(&t->lock);
    c->origin = t->closing ? NULL : hold_origin(t, c->wire->origin);
    if (c->origin) {
        c->id = ++t->last_id;
        c->stranger = true;
        c->origin->strangers++;
        t->strangers[c->origin->id.local]++;
        bound_strangers(t, c->origin);
        c->next = t->connections;
        c->at = &t->connections;
        if (c->next)
            c->next->at = &c->next;
        t->connections = c;
        t->receivers++;
        t->alive++;
    }
    pthread_mutex_unlock(&t->lock);
    return c->origin != NULL;
}

static connection *make_connection(rd_transport *t, rd_wire *w)
{
    connection *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->transport = t;
    c->wire = w;
    c->replies_end = &c->replies;
    c->frame_by_ns = c->send_by_ns = UINT64_MAX;
    c->greet_by_ns = after_ms(RD_GREETING_LIMIT_MS);
    atomic_init(&c->holders, 1);
    pthread_mutex_init(&c->lock, NULL);
    rp_frame_init(&c->in, rp_greeting_req, w->ipc, MAX_FRAME);
    return c;
}

static void on_opened(void *arg, rd_wire *w)
{
    rd_transport *t = arg;
    connection *c = atomic_load_explicit(&t->refusing, memory_order_relaxed) ? NULL : make_connection(t, w);
    w->user = c;
    if (!c || !enlist(t, c)) {
        if (c)
            pthread_mutex_destroy(&c->lock);
        free(c);
        w->ops->free(w);
        return;
    }
    greet(c);
    go_on(c);
}

/* ---- open and close ---- */
static size_t aligned(size_t n) { return (n + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t); }

rd_transport *rd_transport_open(rd_inbox *inbox, unsigned exchanges, size_t exchange_size)
{
    rd_transport *t = calloc(1, sizeof *t);
    size_t size = aligned(offsetof(link_t, exchange) + exchange_size);
    uint8_t *links = calloc(exchanges, size);
    if (!t || !links) {
        free(t);
        free(links);
        return NULL;
    }
    t->inbox = inbox;
    t->links = links;
    t->link_size = size;
    t->exchanges = exchanges;
    for (unsigned i = exchanges; i-- > 0;) {
        link_t *l = link_at(t, i);
        l->transport = t;
        l->exchange.number = i;
        l->next = t->idle;
        t->idle = l;
    }
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->less, NULL);
    return t;
}

bool rd_transport_tls(rd_transport *t, const char *cert, const char *key, const char *ca, bool any, char *why, size_t cap)
{
    t->tls = rd_nng_tls_open(cert, key, ca, any, why, cap);
    return t->tls != NULL;
}

static rd_listener *listen_to(rd_transport *t, const char *url, char *bound, size_t bound_cap, char *why, size_t cap)
{
    static const rd_wire_events events = {on_opened, on_received, on_sent};
    snprintf(bound, bound_cap, "%s", url);
    if (strncmp(url, "ipc://", 6) != 0)
        return rd_nng_listen(url, t->tls, &events, t, bound, bound_cap, why, cap);
    if (!t->unix_threads)
        t->unix_threads = rd_unix_open();
    if (t->unix_threads)
        return rd_unix_listen(t->unix_threads, url + 6, &events, t, why, cap);
    snprintf(why, cap, "%s: no threads to serve it", url);
    return NULL;
}

bool rd_transport_listen(rd_transport *t, const char *url, char *bound, size_t bound_cap, char *why, size_t cap)
{
    if (t->listening == MAX_LISTENERS) {
        snprintf(why, cap, "more than %d URLs", MAX_LISTENERS);
        return false;
    }
    rd_listener *l = listen_to(t, url, bound, bound_cap, why, cap);
    if (!l)
        return false;
    l->number = t->listening;
    t->listeners[t->listening++] = l;
    return true;
}

void rd_transport_start(rd_transport *t, bool (*fastpath)(void *arg, rd_exchange *e), void *arg)
{
    t->fastpath = fastpath;
    t->fastpath_arg = arg;
    for (unsigned i = 0; i < t->listening; i++)
        t->listeners[i]->ops->start(t->listeners[i]);
}

/* The listeners stay open to the end: an ipc socket that is gone looks like no daemon at all, which would start another. */
void rd_transport_stop_listening(rd_transport *t) { atomic_store_explicit(&t->refusing, true, memory_order_relaxed); }

/* ---- peers that are silent, slow or gone ---- */
static bool is_late(connection *c, uint64_t now)
{
    pthread_mutex_lock(&c->lock);
    bool late = now >= (c->announced ? UINT64_MAX : c->greet_by_ns) || (c->paused == READING && now >= c->frame_by_ns) ||
                ((c->replies || is_ending(c)) && now >= c->send_by_ns);
    pthread_mutex_unlock(&c->lock);
    return late;
}

static bool is_gone(const connection *c) { return c->wire->ops->is_gone && c->wire->ops->is_gone(c->wire); }

void rd_transport_tick(rd_transport *t)
{
    uint64_t now = rd_now_ns();
    pthread_mutex_lock(&t->lock);
    for (connection *c = t->connections; c; c = c->next)
        if (is_late(c, now) || is_gone(c))
            hang_up(c);
    pthread_mutex_unlock(&t->lock);
}

/* ---- the end of all ---- */

/* Every receiving chain ends, and with it the requests that could still come. */
static void end_receivers(rd_transport *t)
{
    pthread_mutex_lock(&t->lock);
    t->closing = true;
    for (connection *c = t->connections; c; c = c->next)
        hang_up(c);
    while (t->receivers)
        pthread_cond_wait(&t->less, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

void rd_transport_close(rd_transport *t)
{
    if (!t)
        return;
    for (unsigned i = 0; i < t->listening; i++)
        t->listeners[i]->ops->close(t->listeners[i]);
    end_receivers(t);
    for (unsigned i = 0; i < t->exchanges; i++)
        if (link_at(t, i)->working)
            release(link_at(t, i));
    pthread_mutex_lock(&t->lock);
    while (t->alive) /* sending ends with an error */
        pthread_cond_wait(&t->less, &t->lock);
    pthread_mutex_unlock(&t->lock);
    rd_unix_close(t->unix_threads);
    rd_nng_tls_close(t->tls);
    pthread_cond_destroy(&t->less);
    pthread_mutex_destroy(&t->lock);
    free(t->links);
    free(t);
}

unsigned rd_transport_busy(const rd_transport *t)
{
    return atomic_load_explicit(&((rd_transport *)t)->busy, memory_order_relaxed);
}

bool rd_transport_is_quiet(const rd_transport *t)
{
    return rd_transport_busy(t) == 0 && atomic_load_explicit(&((rd_transport *)t)->unsent, memory_order_relaxed) == 0;
}

/* ---- connections by their ids ---- */

/* NULL: it is gone. The newest is asked for most. */
static connection *hold(rd_transport *t, uint32_t id)
{
    pthread_mutex_lock(&t->lock);
    connection *c = t->connections;
    while (c && c->id != id)
        c = c->next;
    unsigned n = c ? atomic_load_explicit(&c->holders, memory_order_relaxed) : 0;
    while (n && !atomic_compare_exchange_weak_explicit(&c->holders, &n, n + 1, memory_order_relaxed, memory_order_relaxed))
        ;
    pthread_mutex_unlock(&t->lock);
    return n ? c : NULL;
}

bool rd_transport_peer(rd_transport *t, uint32_t connection_id, rd_peer *peer)
{
    connection *c = hold(t, connection_id);
    if (!c)
        return false;
    bool known = c->wire->ops->peer(c->wire, peer);
    peer->listener = c->wire->listener;
    let_go(c);
    return known;
}

void rd_transport_hang_up(rd_transport *t, uint32_t connection_id)
{
    connection *c = hold(t, connection_id);
    if (!c)
        return;
    hang_up(c);
    let_go(c);
}

/* ---- exchanges ---- */
uint8_t *rd_exchange_reply(rd_exchange *e, size_t body)
{
    link_t *l = link_of(e);
    drop_reply(l->transport, l->reply);
    l->reply = make_reply(l->transport, RP_HEADER_SIZE + body);
    return l->reply ? l->reply->bytes + FRONT + RP_HEADER_SIZE : NULL;
}

void rd_exchange_admit(rd_exchange *e)
{
    connection *c = link_of(e)->from;
    pthread_mutex_lock(&c->transport->lock);
    end_strangeness(c);
    pthread_mutex_unlock(&c->transport->lock);
}

void rd_exchange_last(rd_exchange *e) { link_of(e)->last = true; }

void rd_exchange_send(rd_exchange *e, const rp_header *h, rd_account *account)
{
    link_t *l = link_of(e);
    reply *r = l->reply;
    rp_put_header(r->bytes + FRONT, h);
    frame_reply(r, l->from->wire->ipc, l->route, l->route_size, RP_HEADER_SIZE + h->body_len);
    r->account = account;
    r->charged = rd_exchange_size(h);
    r->last = l->last;
    l->reply = NULL;
    e->bytes = NULL;
    send_reply(l->from, r, 1);
    release(l);
}

void rd_exchange_pass(rd_exchange *e)
{
    rd_inbox_put(link_of(e)->transport->inbox, (rd_event){.kind = RD_MESSAGE, .exchange = e});
}

void rd_exchange_forget(rd_exchange *e)
{
    send_reply(link_of(e)->from, NULL, 1);
    release(link_of(e));
}

void rd_exchange_drop(rd_exchange *e)
{
    hang_up(link_of(e)->from);
    rd_exchange_forget(e);
}
