#include "daemon/net/transport.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <nng/nng.h>
#include <nng/supplemental/tls/tls.h>
#include <nng/transport/ipc/ipc.h>
#include <nng/transport/tcp/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/frame.h"
#include "proto/pem.h"

enum {
    MAX_LISTENERS = 8,
    GREETING_LIMIT_MS = 10000, /* for a peer to say that it speaks SP */
    SEND_LIMIT_MS = 10000,     /* a peer that does not take a reply for so long would hold links from others */
    ACCEPT_REST_MS = 100,      /* when accepting failed: descriptors and memory come back */
    MAX_FRAME = RP_ROUTE_LEAST + RP_HEADER_SIZE + RP_MAX_BODY,
    MESSAGE_AT = 4, /* frames are read to here: route, header and spec, then the elements of REDUCE lie on 16 bytes */
    FRONT = 48      /* kept free before a reply's header for head and route; the cells lie on 8 bytes */
};
_Static_assert(FRONT >= RP_FRAME_HEAD + RP_ROUTE && (FRONT + RP_HEADER_SIZE) % 8 == 0, "FRONT");

typedef struct connection connection;

/* At any time it is free, or `working`: a message that the fast path, then the loop, owns, or waits in its connection's
 * `replies`. */
typedef struct link {
    rd_transport *transport;
    connection *from; /* counted; NULL: free */
    bool working;
    uint8_t *frame; /* the message's, as it was received */
    uint8_t route[RP_ROUTE];
    size_t route_size;
    uint8_t *reply;    /* FRONT bytes of room, then header and body */
    size_t reply_size; /* header and body */
    uint64_t send_by_ns;
    atomic_uint *unsent;
    struct link *next;                          /* of the free ones, or of the replies */
    _Alignas(max_align_t) rd_exchange exchange; /* last: the room of the layer that answers follows */
} link_t;

/* Two chains of callbacks, each of which has at most one operation with nng: receiving (greetings first, then frames, one
 * after the other) and sending (the replies in their order). A chain begins no operation on a closed stream: nng would
 * not complete it. */
struct connection {
    rd_transport *transport;
    connection *next, **at; /* the transport's list */
    uint32_t id;
    unsigned listener;
    bool ipc;
    atomic_uint holders; /* the receiving chain, and each link that is not free; the last one out frees */
    nng_stream *stream;
    pthread_mutex_t lock; /* of what follows, down to receiving */
    bool closed;
    bool announced; /* RD_CONNECTION_OPENED was told */
    uint64_t greet_by_ns;
    /* sending */
    nng_aio *tx, *at_once; /* with the callback, and without any */
    const uint8_t *out;
    size_t out_left;
    link_t *replies, *last_reply; /* the first one is on its way */
    /* receiving */
    nng_aio *rx;
    rp_intake in;
    void (*received)(connection *c); /* what to do once `in` has what it wants */
    uint8_t head[RP_FRAME_HEAD];
    uint8_t *frame;
    size_t frame_size;
    uint64_t received_ns;
    connection *waits; /* the next one that waits for an exchange */
};

typedef struct listener {
    rd_transport *transport;
    nng_stream_listener *door;
    nng_aio *aio;
    const char *scheme; /* "ipc", "tcp", "tls" */
    bool resting;
} listener_t;

struct rd_transport {
    rd_inbox *inbox;
    listener_t listeners[MAX_LISTENERS];
    unsigned listening;
    nng_tls_config *tls;  /* NULL: none */
    atomic_bool refusing; /* new connections: closed at once */
    bool (*fastpath)(void *arg, rd_exchange *e);
    void *fastpath_arg;
    unsigned exchanges;
    size_t link_size; /* with the room that the layer above asked for */
    uint8_t *links;
    atomic_uint busy;
    pthread_mutex_t lock; /* of everything below; taken before a connection's */
    pthread_cond_t less;  /* receivers or connections became fewer */
    link_t *idle;
    connection *waiting, *last_waiting; /* have a frame, but no link */
    connection *connections;
    unsigned receivers; /* connections whose receiving chain has not ended */
    uint32_t last_id;
    bool closing;
};

static link_t *link_of(rd_exchange *e) { return (link_t *)((char *)e - offsetof(link_t, exchange)); }

static link_t *link_at(const rd_transport *t, unsigned i) { return (link_t *)(t->links + i * t->link_size); }

static bool is_scheme(const listener_t *l, const char *scheme) { return strcmp(l->scheme, scheme) == 0; }

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the end of a connection ---- */
static void let_go(connection *c)
{
    rd_transport *t = c->transport;
    if (atomic_fetch_sub_explicit(&c->holders, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_lock(&t->lock);
    *c->at = c->next;
    if (c->next)
        c->next->at = c->at;
    pthread_cond_signal(&t->less);
    pthread_mutex_unlock(&t->lock); /* the transport may be freed from here on */
    nng_stream_free(c->stream);
    nng_aio_reap(c->rx); /* by a thread of nng's: this may be the callback of one of them */
    nng_aio_reap(c->tx);
    nng_aio_reap(c->at_once);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* What is under way ends with an error, and both chains with it. */
static void hang_up(connection *c)
{
    pthread_mutex_lock(&c->lock);
    bool first = !c->closed;
    c->closed = true;
    pthread_mutex_unlock(&c->lock);
    if (first)
        nng_stream_close(c->stream);
}

static void end_receiving(connection *c)
{
    rd_transport *t = c->transport;
    hang_up(c);
    free(c->frame);
    c->frame = NULL;
    if (c->announced)
        rd_inbox_put(t->inbox, (rd_event){.kind = RD_CONNECTION_CLOSED, .connection = c->id});
    pthread_mutex_lock(&t->lock);
    t->receivers--;
    pthread_cond_signal(&t->less);
    pthread_mutex_unlock(&t->lock);
    let_go(c);
}

/* ---- receiving ---- */

/* Callback when there is more: at once if something was read ahead, yet by another turn of a thread. */
static void receive_more(connection *c)
{
    rp_intake *in = &c->in;
    const nng_iov v[] = {{in->to, in->missing}, {in->ahead, sizeof in->ahead}};
    pthread_mutex_lock(&c->lock);
    bool open = !c->closed;
    if (open && in->ahead_left) {
        nng_aio_begin(c->rx);
        nng_aio_finish(c->rx, 0);
    } else if (open) {
        nng_aio_set_iov(c->rx, 2, v);
        nng_stream_recv(c->stream, c->rx);
    }
    pthread_mutex_unlock(&c->lock);
    if (!open)
        end_receiving(c);
}

static void go_on(connection *c)
{
    if (rp_intake_take(&c->in))
        c->received(c);
    else
        receive_more(c);
}

static void on_received(void *arg)
{
    connection *c = arg;
    size_t n = nng_aio_count(c->rx);
    if (nng_aio_result(c->rx) != 0 || !(n || c->in.ahead_left)) {
        end_receiving(c);
        return;
    }
    if (n)
        rp_intake_got(&c->in, n);
    go_on(c);
}

static void want(connection *c, void *to, size_t size, void (*received)(connection *c))
{
    rp_intake_want(&c->in, to, size);
    c->received = received;
}

static void on_head(connection *c);

static void receive_frame(connection *c)
{
    want(c, c->head, rp_frame_head_size(c->ipc), on_head);
    receive_more(c); /* in another turn */
}

/* A request goes its way. From here on it may be answered at any moment. */
static void hand_over(connection *c, link_t *l, bool quickly)
{
    rd_transport *t = c->transport;
    rd_exchange *e = &l->exchange;
    atomic_fetch_add_explicit(&c->holders, 1, memory_order_relaxed);
    l->from = c;
    l->working = true;
    l->frame = c->frame;
    c->frame = NULL;
    rp_get_route(l->frame + MESSAGE_AT, c->frame_size, &l->route_size);
    memcpy(l->route, l->frame + MESSAGE_AT, l->route_size);
    e->connection = c->id;
    e->bytes = l->frame + MESSAGE_AT + l->route_size;
    e->len = c->frame_size - l->route_size;
    e->received_ns = c->received_ns;
    atomic_fetch_add_explicit(&t->busy, 1, memory_order_relaxed);
    if (!quickly || !t->fastpath(t->fastpath_arg, e))
        rd_exchange_pass(e);
}

/* A free link. NULL: there is none, and `c` waits for one, or all is ending (*over). The time is taken under the lock: so the
 * link's last request has ended before, and the two do not overlap in the trace. */
static link_t *take_link(connection *c, bool *over)
{
    rd_transport *t = c->transport;
    pthread_mutex_lock(&t->lock);
    c->received_ns = now_ns();
    link_t *l = t->idle;
    *over = t->closing;
    if (*over) {
        l = NULL;
    } else if (l) {
        t->idle = l->next;
    } else {
        *(t->waiting ? &t->last_waiting->waits : &t->waiting) = c;
        t->last_waiting = c;
        c->waits = NULL;
    }
    pthread_mutex_unlock(&t->lock);
    return l;
}

static void on_frame(connection *c)
{
    size_t size;
    bool over;
    rp_route_state route = rp_get_route(c->frame + MESSAGE_AT, c->frame_size, &size);
    if (route == RP_ROUTE_BROKEN) {
        end_receiving(c);
        return;
    }
    if (route == RP_ROUTE_FINE) {
        link_t *l = take_link(c, &over);
        if (over)
            end_receiving(c);
        if (!l)
            return;
        hand_over(c, l, true);
    }
    free(c->frame);
    c->frame = NULL;
    receive_frame(c);
}

static void on_head(connection *c)
{
    uint64_t size;
    bool right = rp_get_frame_head(c->head, c->ipc, &size) && size >= RP_ROUTE_LEAST && size <= MAX_FRAME;
    if (right)
        c->frame = malloc(MESSAGE_AT + size);
    if (!c->frame) {
        end_receiving(c);
        return;
    }
    c->frame_size = size;
    want(c, c->frame + MESSAGE_AT, size, on_frame);
    go_on(c);
}

static void on_greeting(connection *c)
{
    bool fits = memcmp(c->head, rp_greeting_req, RP_GREETING) == 0;
    pthread_mutex_lock(&c->lock);
    c->announced = fits;
    pthread_mutex_unlock(&c->lock);
    if (fits && rd_inbox_put(c->transport->inbox, (rd_event){.kind = RD_CONNECTION_OPENED, .connection = c->id}))
        receive_frame(c);
    else
        end_receiving(c);
}

/* ---- sending ---- */
static void send_more(connection *c)
{
    nng_iov v = {.iov_buf = (void *)c->out, .iov_len = c->out_left};
    nng_aio_set_iov(c->tx, 1, &v);
    nng_stream_send(c->stream, c->tx);
}

/* An operation without a callback ends in this thread; one with it wakes one of nng's. What the kernel does not take now is
 * left to send_more. True: nothing is. */
static bool send_at_once(connection *c)
{
    nng_iov v = {.iov_buf = (void *)c->out, .iov_len = c->out_left};
    nng_aio_set_iov(c->at_once, 1, &v);
    nng_stream_send(c->stream, c->at_once);
    nng_aio_cancel(c->at_once); /* unless it has been sent */
    nng_aio_wait(c->at_once);
    size_t n = nng_aio_result(c->at_once) ? 0 : nng_aio_count(c->at_once);
    c->out += n;
    c->out_left -= n;
    return c->out_left == 0;
}

/* Its time begins with its turn: a peer that takes what is before it is slow, not deaf. */
static void begin_reply(connection *c, link_t *l)
{
    l->send_by_ns = now_ns() + (uint64_t)SEND_LIMIT_MS * 1000000;
    size_t head = rp_frame_head_size(c->ipc);
    uint8_t *frame = l->reply + FRONT - l->route_size - head;
    rp_put_frame_head(frame, c->ipc, l->route_size + l->reply_size);
    memcpy(frame + head, l->route, l->route_size);
    c->out = frame;
    c->out_left = head + l->route_size + l->reply_size;
}

static bool reply_at_once(connection *c, link_t *l)
{
    begin_reply(c, l);
    return send_at_once(c);
}

/* Behind those that are on their way; of the first one, what is left is. */
static void queue_reply(connection *c, link_t *l)
{
    bool first = !c->replies;
    *(first ? &c->replies : &c->last_reply->next) = l;
    c->last_reply = l;
    if (first)
        send_more(c);
}

/* The link gets free: for the connection that waits longest, else for whoever comes. */
static void release(link_t *l)
{
    rd_transport *t = l->transport;
    connection *from = l->from;
    free(l->frame);
    free(l->reply);
    l->frame = l->reply = NULL;
    l->from = NULL;
    l->working = false;
    atomic_fetch_sub_explicit(&t->busy, 1, memory_order_relaxed);
    pthread_mutex_lock(&t->lock);
    connection *c = t->waiting;
    if (c) {
        t->waiting = c->waits;
    } else {
        l->next = t->idle;
        t->idle = l;
    }
    pthread_mutex_unlock(&t->lock);
    let_go(from);
    if (c) {
        hand_over(c, l, false); /* not the quick way: this may be the loop, or a long line of connections that wait */
        receive_frame(c);
    }
}

static void end_sending(link_t *l)
{
    atomic_fetch_sub_explicit(l->unsent, 1, memory_order_release); /* the session may be freed from here on */
    release(l);
}

static void end_sending_all(link_t *l)
{
    while (l) {
        link_t *next = l->next;
        end_sending(l);
        l = next;
    }
}

/* The first reply, or a part of it, is with the kernel, or never will be. */
static void on_reply_sent(connection *c, bool failed)
{
    size_t n = failed ? 0 : nng_aio_count(c->tx);
    link_t *done = NULL;
    pthread_mutex_lock(&c->lock);
    c->out += n;
    c->out_left -= n;
    if (failed || c->closed) {
        failed = true;
        done = c->replies;
        c->replies = NULL;
    } else if (c->out_left) {
        send_more(c);
    } else {
        done = c->replies;
        c->replies = done->next;
        done->next = NULL;
        if (c->replies) {
            begin_reply(c, c->replies);
            send_more(c);
        }
    }
    pthread_mutex_unlock(&c->lock);
    if (failed)
        hang_up(c);
    end_sending_all(done);
}

static void receive_greeting(connection *c)
{
    want(c, c->head, RP_GREETING, on_greeting);
    receive_more(c);
}

static void on_greeting_sent(connection *c, bool failed)
{
    size_t n = failed ? 0 : nng_aio_count(c->tx);
    c->out += n;
    c->out_left -= n;
    pthread_mutex_lock(&c->lock);
    failed |= c->closed;
    bool more = !failed && c->out_left;
    if (more)
        send_more(c);
    pthread_mutex_unlock(&c->lock);
    if (failed)
        end_receiving(c);
    else if (!more)
        receive_greeting(c);
}

static void on_sent(void *arg)
{
    connection *c = arg;
    bool failed = nng_aio_result(c->tx) != 0;
    if (c->replies)
        on_reply_sent(c, failed);
    else
        on_greeting_sent(c, failed);
}

/* ---- a connection begins ---- */
static connection *make_connection(listener_t *l, nng_stream *stream)
{
    connection *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    if (nng_aio_alloc(&c->rx, on_received, c) != 0 || nng_aio_alloc(&c->tx, on_sent, c) != 0 ||
        nng_aio_alloc(&c->at_once, NULL, NULL) != 0) {
        nng_aio_free(c->tx);
        nng_aio_free(c->rx);
        free(c);
        return NULL;
    }
    c->transport = l->transport;
    c->listener = (unsigned)(l - l->transport->listeners);
    c->ipc = is_scheme(l, "ipc");
    c->stream = stream;
    c->out = rp_greeting_rep;
    c->out_left = RP_GREETING;
    atomic_init(&c->holders, 1);
    pthread_mutex_init(&c->lock, NULL);
    c->greet_by_ns = now_ns() + (uint64_t)GREETING_LIMIT_MS * 1000000;
    return c;
}

static void enlist(rd_transport *t, connection *c)
{
    pthread_mutex_lock(&t->lock);
    c->id = ++t->last_id;
    c->next = t->connections;
    c->at = &t->connections;
    if (c->next)
        c->next->at = &c->next;
    t->connections = c;
    t->receivers++;
    pthread_mutex_unlock(&t->lock);
}

static void welcome(listener_t *l, nng_stream *stream)
{
    rd_transport *t = l->transport;
    connection *c = atomic_load_explicit(&t->refusing, memory_order_relaxed) ? NULL : make_connection(l, stream);
    if (!c) {
        nng_stream_close(stream);
        nng_stream_free(stream);
        return;
    }
    enlist(t, c);
    pthread_mutex_lock(&c->lock);
    send_more(c);
    pthread_mutex_unlock(&c->lock);
}

static void on_accepted(void *arg)
{
    listener_t *l = arg;
    int err = nng_aio_result(l->aio);
    if (err == NNG_ECLOSED || err == NNG_ECANCELED)
        return;
    if (!err && !l->resting)
        welcome(l, nng_aio_get_output(l->aio, 0));
    l->resting = err != 0;
    if (l->resting)
        nng_sleep_aio(ACCEPT_REST_MS, l->aio);
    else
        nng_stream_listener_accept(l->door, l->aio);
}

/* ---- open and close ---- */
static bool failed(int err, const char *what, char *why, size_t cap)
{
    if (err)
        snprintf(why, cap, "%s: %s", what, nng_strerror(err));
    return err != 0;
}

static size_t aligned(size_t n) { return (n + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t); }

rd_transport *rd_transport_open(rd_inbox *inbox, unsigned exchanges, size_t exchange_size)
{
    size_t link_size = aligned(offsetof(link_t, exchange) + exchange_size);
    rd_transport *t = calloc(1, sizeof *t);
    uint8_t *links = calloc(exchanges, link_size);
    if (!t || !links) {
        free(t);
        free(links);
        return NULL;
    }
    t->inbox = inbox;
    t->links = links;
    t->link_size = link_size;
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

/* tcp://host:0 took a port of the system's choice: tell it */
static void tell_bound(nng_stream_listener *door, const char *url, char *bound, size_t cap)
{
    size_t n = strlen(url);
    int port;
    snprintf(bound, cap, "%s", url);
    if (n > 2 && strcmp(url + n - 2, ":0") == 0 && nng_stream_listener_get_int(door, NNG_OPT_TCP_BOUND_PORT, &port) == 0)
        snprintf(bound, cap, "%.*s:%d", (int)(n - 2), url, port);
}

static int set_up_tls(rd_transport *t, const rp_pem *p, bool any)
{
    int err = nng_tls_config_alloc(&t->tls, NNG_TLS_MODE_SERVER);
    if (!err)
        err = nng_tls_config_own_cert(t->tls, p->cert, p->key, NULL);
    if (!err && p->ca)
        err = nng_tls_config_ca_chain(t->tls, p->ca, NULL);
    if (!err)
        err = nng_tls_config_auth_mode(t->tls, any ? NNG_TLS_AUTH_MODE_NONE : NNG_TLS_AUTH_MODE_REQUIRED);
    return err;
}

bool rd_transport_tls(rd_transport *t, const char *cert, const char *key, const char *ca, bool any, char *why, size_t cap)
{
    rp_pem p;
    bool right = rp_pem_read(&p, cert, key, ca, why, cap) &&
                 !failed(set_up_tls(t, &p, any), "tls-cert, tls-key or tls-ca", why, cap);
    rp_pem_wipe(&p);
    return right;
}

static const char *scheme_of(const char *url)
{
    return strncmp(url, "ipc:", 4) == 0 ? "ipc" : strncmp(url, "tls", 3) == 0 ? "tls" : "tcp";
}

static int set_up_listener(const rd_transport *t, const listener_t *l, unsigned socket_mode)
{
    if (is_scheme(l, "ipc"))
        return nng_stream_listener_set_int(l->door, NNG_OPT_IPC_PERMISSIONS, (int)socket_mode);
    return is_scheme(l, "tls") ? nng_stream_listener_set_ptr(l->door, NNG_OPT_TLS_CONFIG, t->tls) : 0;
}

static void close_listener(listener_t *l)
{
    if (l->door)
        nng_stream_listener_close(l->door);
    nng_aio_free(l->aio); /* waits for its callback */
    nng_stream_listener_free(l->door);
}

bool rd_transport_listen(rd_transport *t, const char *url, unsigned socket_mode, char *bound, size_t bound_cap, char *why,
                         size_t cap)
{
    if (t->listening == MAX_LISTENERS) {
        snprintf(why, cap, "more than %d URLs", MAX_LISTENERS);
        return false;
    }
    listener_t *l = &t->listeners[t->listening];
    *l = (listener_t){.transport = t, .scheme = scheme_of(url)};
    int err = nng_aio_alloc(&l->aio, on_accepted, l);
    if (!err)
        err = nng_stream_listener_alloc(&l->door, url);
    if (!err)
        err = set_up_listener(t, l, socket_mode);
    if (!err)
        err = nng_stream_listener_listen(l->door);
    if (failed(err, url, why, cap)) {
        close_listener(l);
        return false;
    }
    t->listening++;
    tell_bound(l->door, url, bound, bound_cap);
    return true;
}

void rd_transport_start(rd_transport *t, bool (*fastpath)(void *arg, rd_exchange *e), void *arg)
{
    t->fastpath = fastpath;
    t->fastpath_arg = arg;
    for (unsigned i = 0; i < t->listening; i++)
        nng_stream_listener_accept(t->listeners[i].door, t->listeners[i].aio);
}

/* The listeners stay open to the end: an ipc socket that is gone looks like no daemon at all, which would start another. */
void rd_transport_stop_listening(rd_transport *t) { atomic_store_explicit(&t->refusing, true, memory_order_relaxed); }

/* ---- peers that are silent, slow or gone ---- */
static bool is_late(connection *c, uint64_t now)
{
    pthread_mutex_lock(&c->lock);
    bool late = now >= (c->replies ? c->replies->send_by_ns : c->announced ? UINT64_MAX : c->greet_by_ns);
    pthread_mutex_unlock(&c->lock);
    return late;
}

/* nng's TLS (1.5.2) forgets that the peer has hung up if neither chain is inside it when the news come, so the kernel is
 * asked. */
static bool is_gone(const connection *c)
{
    nng_sockaddr a;
    return is_scheme(&c->transport->listeners[c->listener], "tls") && nng_stream_get_addr(c->stream, NNG_OPT_REMADDR, &a) != 0;
}

void rd_transport_tick(rd_transport *t)
{
    uint64_t now = now_ns();
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
    connection *c = t->waiting;
    t->waiting = NULL;
    pthread_mutex_unlock(&t->lock);
    while (c) {
        connection *next = c->waits;
        end_receiving(c);
        c = next;
    }
    pthread_mutex_lock(&t->lock);
    while (t->receivers)
        pthread_cond_wait(&t->less, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

void rd_transport_close(rd_transport *t)
{
    if (!t)
        return;
    for (unsigned i = 0; i < t->listening; i++)
        close_listener(&t->listeners[i]);
    end_receivers(t);
    for (unsigned i = 0; i < t->exchanges; i++)
        if (link_at(t, i)->working)
            release(link_at(t, i));
    pthread_mutex_lock(&t->lock);
    while (t->connections) /* replies end with an error */
        pthread_cond_wait(&t->less, &t->lock);
    pthread_mutex_unlock(&t->lock);
    if (t->tls)
        nng_tls_config_free(t->tls);
    pthread_cond_destroy(&t->less);
    pthread_mutex_destroy(&t->lock);
    free(t->links);
    free(t);
}

unsigned rd_transport_busy(const rd_transport *t)
{
    return atomic_load_explicit(&((rd_transport *)t)->busy, memory_order_relaxed);
}

/* ---- connections ---- */

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

static void name_network_peer(nng_stream *s, const char *scheme, char *text, size_t cap)
{
    nng_sockaddr a;
    char host[INET6_ADDRSTRLEN] = "?";
    if (nng_stream_get_addr(s, NNG_OPT_REMADDR, &a) != 0)
        memset(&a, 0, sizeof a);
    bool v6 = a.s_family == NNG_AF_INET6;
    if (v6)
        inet_ntop(AF_INET6, a.s_in6.sa_addr, host, sizeof host);
    else
        inet_ntop(AF_INET, &a.s_in.sa_addr, host, sizeof host);
    snprintf(text, cap, v6 ? "%s [%s]:%u" : "%s %s:%u", scheme, host, ntohs(v6 ? a.s_in6.sa_port : a.s_in.sa_port));
}

bool rd_transport_peer(rd_transport *t, uint32_t id, rd_peer *peer)
{
    connection *c = hold(t, id);
    if (!c)
        return false;
    nng_stream *s = c->stream;
    *peer = (rd_peer){.listener = c->listener};
    peer->local = nng_stream_get_uint64(s, NNG_OPT_IPC_PEER_UID, &peer->uid) == 0 &&
                  nng_stream_get_uint64(s, NNG_OPT_IPC_PEER_GID, &peer->gid) == 0 &&
                  nng_stream_get_uint64(s, NNG_OPT_IPC_PEER_PID, &peer->pid) == 0;
    if (peer->local)
        snprintf(peer->text, sizeof peer->text, "pid %" PRIu64 " uid %" PRIu64, peer->pid, peer->uid);
    else
        name_network_peer(s, t->listeners[c->listener].scheme, peer->text, sizeof peer->text);
    let_go(c);
    return true;
}

void rd_transport_hang_up(rd_transport *t, uint32_t id)
{
    connection *c = hold(t, id);
    if (!c)
        return;
    hang_up(c);
    let_go(c);
}

/* ---- answers ---- */
uint8_t *rd_exchange_reply(rd_exchange *e, size_t body)
{
    link_t *l = link_of(e);
    free(l->reply);
    l->reply = malloc(FRONT + RP_HEADER_SIZE + body);
    return l->reply ? l->reply + FRONT + RP_HEADER_SIZE : NULL;
}

void rd_exchange_send(rd_exchange *e, const rp_header *h, atomic_uint *unsent)
{
    link_t *l = link_of(e);
    connection *c = l->from;
    rp_put_header(l->reply + FRONT, h);
    l->reply_size = RP_HEADER_SIZE + h->body_len;
    free(l->frame);
    l->frame = NULL;
    e->bytes = NULL;
    l->working = false;
    l->next = NULL;
    l->unsent = unsent;
    pthread_mutex_lock(&c->lock);
    bool over = c->closed || (!c->replies && reply_at_once(c, l));
    if (!over)
        queue_reply(c, l);
    pthread_mutex_unlock(&c->lock);
    if (over)
        end_sending(l);
}

void rd_exchange_pass(rd_exchange *e)
{
    rd_inbox_put(link_of(e)->transport->inbox, (rd_event){.kind = RD_MESSAGE, .exchange = e});
}

void rd_exchange_forget(rd_exchange *e) { release(link_of(e)); }

void rd_exchange_drop(rd_exchange *e)
{
    hang_up(link_of(e)->from);
    rd_exchange_forget(e);
}
