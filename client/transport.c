#include "client/transport.h"

#include <errno.h>
#include <nng/nng.h>
#include <nng/supplemental/tls/tls.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/codec.h"
#include "proto/frame.h"

enum {
    REDIAL_MIN_MS = 10,
    REDIAL_MAX_MS = 200,
    GREETING_LIMIT_MS = 10000,
    LOOK_MS = 1000, /* how often a TLS connection is looked at */
    MAX_FRAME = RP_ROUTE_LEAST + RP_HEADER_SIZE + RP_MAX_BODY
};

static const uint64_t NS_PER_MS = 1000000;

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

/* One stream at a time, with two chains of callbacks, each of which has at most one operation with nng: sending and
 * receiving. None is begun on a closed stream, for nng would not complete it. All times are kept by one timer. */
struct rc_link {
    rc_link_event event;
    void *arg;
    char *url;
    bool ipc;
    nng_tls_config *tls; /* NULL: none */
    nng_stream_dialer *dialer; /* of this attempt to connect, or the next one; NULL: not made yet */
    nng_aio *dial, *tx, *rx, *timer;
    nng_aio *at_once; /* sends without a callback */

    pthread_mutex_t lock; /* guards the rest, and the slots; never held while event or `done` runs */
    pthread_cond_t changed;
    link_state state;
    bool opening; /* a failure is rc_link_open's to tell, and no reason to try again */
    bool closing;
    bool told_up;
    int error; /* nng's: of the last attempt */
    uint64_t due_ns;
    uint32_t redial_ms;
    nng_stream *stream;
    rc_slot *slots; /* all */
    uint32_t last_id;
    uint64_t timer_ns; /* when it rings; UINT64_MAX: never */
    bool ticking;
    /* sending */
    bool sending;
    const uint8_t *out;
    size_t out_left;
    uint8_t *message;   /* on its way, and owned; NULL: the greeting is */
    rc_slot *sender;    /* whose it is; NULL: nobody waits for it any more */
    rc_slot *queue, *queue_end;
    /* receiving */
    bool receiving;
    rp_intake in;
    void (*received)(rc_link *l); /* what to do once `in` has what it wants: enters with the lock, leaves without */
    uint8_t head[RP_FRAME_HEAD];
    uint8_t *frame;
    size_t frame_size;
};

struct rc_slot {
    rc_link *link;
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

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t after_ms(uint64_t ms) { return now_ns() + ms * NS_PER_MS; }

/* ---- the timer ---- */
static void start_timer(rc_link *l)
{
    uint64_t now = now_ns(), ms = l->timer_ns > now ? (l->timer_ns - now + NS_PER_MS - 1) / NS_PER_MS : 0;
    l->ticking = true;
    nng_sleep_aio(ms < INT32_MAX ? (nng_duration)ms : INT32_MAX, l->timer);
}

/* It rings at `when` or earlier. */
static void wake_at(rc_link *l, uint64_t when)
{
    if (l->closing || when >= l->timer_ns)
        return;
    l->timer_ns = when;
    if (l->ticking)
        nng_aio_cancel(l->timer); /* its callback starts it anew */
    else
        start_timer(l);
}

/* For what the slot waits for, and to look at its connection meanwhile. */
static void wake_for(rc_link *l, const rc_slot *s)
{
    uint64_t look = l->tls ? after_ms(LOOK_MS) : UINT64_MAX;
    wake_at(l, s->until_ns < look ? s->until_ns : look);
}

/* ---- slots end ---- */
static void end_slot(rc_slot **ended, rc_slot *s, rc_io end)
{
    s->state = REST;
    s->end = end;
    s->after = *ended;
    *ended = s;
}

/* Without the lock. A slot may be used again, or freed, as soon as its `done` runs. */
static void tell(rc_slot *ended)
{
    while (ended) {
        rc_slot *s = ended;
        ended = s->after;
        s->done(s->arg, s->end, NULL, 0);
    }
}

static void unqueue(rc_link *l, rc_slot *s)
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

/* Its time is up, or it was cancelled. What is on its way goes on without it: half a message would cost the connection. */
static void expire(rc_link *l, rc_slot *s, rc_slot **ended)
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
static void redial_later(rc_link *l)
{
    l->state = DOWN;
    l->due_ns = after_ms(l->redial_ms);
    l->redial_ms = 2 * l->redial_ms < REDIAL_MAX_MS ? 2 * l->redial_ms : REDIAL_MAX_MS;
    if (!l->opening && !l->closing)
        wake_at(l, l->due_ns);
    pthread_cond_broadcast(&l->changed);
}

static void break_off(rc_link *l, int err)
{
    if (l->state != UP && l->state != GREETING)
        return;
    l->error = err;
    l->state = BROKEN;
    nng_stream_close(l->stream);
}

static void end_exchanges(rc_link *l, rc_slot **ended)
{
    l->sender = NULL;
    for (rc_slot *s = l->slots; s; s = s->next)
        if (s->state == SENDING || s->state == RECEIVING)
            end_slot(ended, s, RC_IO_LOST);
}

/* A chain has ended; the last one of a broken connection takes it down. Enters with the lock, leaves without. */
static void wind_up(rc_link *l)
{
    rc_slot *ended = NULL;
    if (l->state == BROKEN && !l->sending && !l->receiving) {
        nng_stream_free(l->stream);
        free(l->message);
        free(l->frame);
        l->stream = NULL;
        l->message = l->frame = NULL;
        bool was_up = l->told_up;
        l->told_up = false;
        pthread_mutex_unlock(&l->lock);
        if (was_up)
            l->event(l->arg, false); /* before anything can bring the next connection up */
        pthread_mutex_lock(&l->lock);
        end_exchanges(l, &ended);
        redial_later(l);
    }
    pthread_mutex_unlock(&l->lock);
    tell(ended);
}

/* ---- sending ---- */
static void send_more(rc_link *l)
{
    nng_iov v = {.iov_buf = (void *)l->out, .iov_len = l->out_left};
    l->sending = true;
    nng_aio_set_iov(l->tx, 1, &v);
    nng_stream_send(l->stream, l->tx);
}

/* An operation without a callback ends in this thread; one with it wakes one of nng's. What the kernel does not take now is
 * left to send_more. True: nothing is. */
static bool send_at_once(rc_link *l)
{
    nng_iov v = {.iov_buf = (void *)l->out, .iov_len = l->out_left};
    nng_aio_set_iov(l->at_once, 1, &v);
    nng_stream_send(l->stream, l->at_once);
    nng_aio_cancel(l->at_once); /* unless it has been sent */
    nng_aio_wait(l->at_once);
    size_t n = nng_aio_result(l->at_once) ? 0 : nng_aio_count(l->at_once);
    l->out += n;
    l->out_left -= n;
    return l->out_left == 0;
}

static void begin_message(rc_link *l, rc_slot *s)
{
    unqueue(l, s);
    s->state = SENDING;
    l->sender = s;
    l->out = l->message = s->message;
    l->out_left = s->message_size;
    s->message = NULL;
}

static void end_message(rc_link *l)
{
    rc_slot *s = l->sender;
    free(l->message);
    l->message = NULL;
    l->sender = NULL;
    if (s) {
        s->state = RECEIVING;
        s->until_ns = after_ms(s->reply_timeout_ms);
        wake_for(l, s);
    }
}

static void send_queue(rc_link *l)
{
    while (l->queue && l->state == UP) {
        begin_message(l, l->queue);
        if (!send_at_once(l)) {
            send_more(l);
            return;
        }
        end_message(l);
    }
}

static void receive_greeting(rc_link *l);

static void on_sent(void *arg)
{
    rc_link *l = arg;
    int err = nng_aio_result(l->tx);
    pthread_mutex_lock(&l->lock);
    l->sending = false;
    if (err) {
        break_off(l, err);
    } else if (l->state != BROKEN) {
        size_t n = nng_aio_count(l->tx);
        l->out += n;
        l->out_left -= n;
        if (l->out_left) {
            send_more(l);
        } else if (l->message) {
            end_message(l);
            send_queue(l);
        } else {
            receive_greeting(l);
        }
    }
    wind_up(l);
}

/* ---- receiving ---- */

/* Callback when there is more: at once if something was read ahead, yet by another turn of a thread. */
static void receive_more(rc_link *l)
{
    rp_intake *in = &l->in;
    const nng_iov v[] = {{in->to, in->missing}, {in->ahead, sizeof in->ahead}};
    l->receiving = true;
    if (in->ahead_left) {
        nng_aio_begin(l->rx);
        nng_aio_finish(l->rx, 0);
    } else {
        nng_aio_set_iov(l->rx, 2, v);
        nng_stream_recv(l->stream, l->rx);
    }
}

/* Enters with the lock, leaves without. */
static void go_on(rc_link *l)
{
    if (rp_intake_take(&l->in)) {
        l->received(l);
        return;
    }
    receive_more(l);
    wind_up(l);
}

static void on_received(void *arg)
{
    rc_link *l = arg;
    int err = nng_aio_result(l->rx);
    size_t n = nng_aio_count(l->rx);
    pthread_mutex_lock(&l->lock);
    l->receiving = false;
    if (err || !(n || l->in.ahead_left) || l->state == BROKEN) {
        break_off(l, err ? err : NNG_ECONNSHUT);
        wind_up(l);
        return;
    }
    if (n)
        rp_intake_got(&l->in, n);
    go_on(l);
}

static void want(rc_link *l, void *to, size_t size, void (*received)(rc_link *l))
{
    rp_intake_want(&l->in, to, size);
    l->received = received;
}

static void on_head(rc_link *l);

static void receive_frame(rc_link *l)
{
    want(l, l->head, rp_frame_head_size(l->ipc), on_head);
    receive_more(l); /* in another turn */
}

static rc_slot *waits_for(const rc_link *l, uint32_t id)
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

static void on_frame(rc_link *l)
{
    uint8_t *frame = l->frame;
    size_t len = l->frame_size - RP_ROUTE_LEAST;
    rc_slot *s = waits_for(l, get_id(frame));
    l->frame = NULL;
    if (s) /* else: of an exchange that was given up */
        s->state = REST;
    if (l->sender == s)
        l->sender = NULL;
    receive_frame(l); /* others need not wait for `done` */
    pthread_mutex_unlock(&l->lock);
    if (s)
        s->done(s->arg, RC_IO_OK, frame + RP_ROUTE_LEAST, len);
    free(frame);
}

static void on_head(rc_link *l)
{
    uint64_t size;
    bool right = rp_get_frame_head(l->head, l->ipc, &size) && size >= RP_ROUTE_LEAST && size <= MAX_FRAME;
    l->frame = right ? malloc(size) : NULL;
    if (l->frame) {
        l->frame_size = size;
        want(l, l->frame, size, on_frame);
        go_on(l);
    } else {
        break_off(l, right ? NNG_ENOMEM : NNG_EPROTO);
        wind_up(l);
    }
}

static void on_greeting(rc_link *l)
{
    if (memcmp(l->head, rp_greeting_rep, RP_GREETING) != 0) {
        break_off(l, NNG_EPROTO);
        wind_up(l);
        return;
    }
    l->told_up = true;
    l->receiving = true; /* nobody takes the connection down meanwhile */
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

static void receive_greeting(rc_link *l)
{
    want(l, l->head, RP_GREETING, on_greeting);
    receive_more(l);
}

/* ---- dialling ---- */

/* nng counts a dialler's users by an atomic, and the last of them may be its reaper, with the stream of a connection that
 * was refused. ThreadSanitizer does not see the count: it is not to compare the lock that this takes with the reaper's end
 * of it. */
static void free_dialer(nng_stream_dialer *d)
{
#ifdef __SANITIZE_THREAD__
    void AnnotateIgnoreReadsBegin(const char *file, int line);
    void AnnotateIgnoreReadsEnd(const char *file, int line);
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
#endif
    nng_stream_dialer_free(d);
#ifdef __SANITIZE_THREAD__
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
}
static int make_dialer(rc_link *l)
{
    int err = l->dialer ? 0 : nng_stream_dialer_alloc(&l->dialer, l->url);
    return !err && l->tls ? nng_stream_dialer_set_ptr(l->dialer, NNG_OPT_TLS_CONFIG, l->tls) : err;
}

static void dial(rc_link *l)
{
    l->error = make_dialer(l);
    l->state = DIALLING;
    if (l->error)
        redial_later(l);
    else
        nng_stream_dialer_dial(l->dialer, l->dial);
}

static void on_dialled(void *arg)
{
    rc_link *l = arg;
    int err = nng_aio_result(l->dial);
    if (!err) { /* before its stream, which is the order that ThreadSanitizer understands: nng counts users without a lock */
        free_dialer(l->dialer);
        l->dialer = NULL;
    }
    pthread_mutex_lock(&l->lock);
    if (err) {
        l->error = err;
        redial_later(l);
    } else {
        l->stream = nng_aio_get_output(l->dial, 0);
        l->state = GREETING;
        l->due_ns = after_ms(GREETING_LIMIT_MS);
        l->out = rp_greeting_req;
        l->out_left = RP_GREETING;
        l->in.ahead_left = 0;
        if (l->closing)
            break_off(l, NNG_ECLOSED);
        else
            send_more(l);
        wake_at(l, l->due_ns);
    }
    wind_up(l);
}

/* ---- time passes ---- */

/* nng's TLS (1.5.2) forgets that the daemon has gone if neither chain is inside it when the news come, so the kernel is
 * asked. */
static bool is_gone(const rc_link *l)
{
    nng_sockaddr a;
    return l->tls && l->state == UP && nng_stream_get_addr(l->stream, NNG_OPT_REMADDR, &a) != 0;
}

static void look_at_link(rc_link *l, uint64_t now)
{
    bool due = now >= l->due_ns;
    if (l->state == DOWN && due && !l->opening && !l->closing)
        dial(l);
    else if (l->state == GREETING && due)
        break_off(l, NNG_ETIMEDOUT);
    else if (is_gone(l))
        break_off(l, NNG_ECONNSHUT);
    if (l->state == GREETING || (l->state == DOWN && !l->opening))
        wake_at(l, l->due_ns);
}

static void look_at_slots(rc_link *l, uint64_t now, rc_slot **ended)
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

static void on_time(void *arg)
{
    rc_link *l = arg;
    rc_slot *ended = NULL;
    uint64_t now = now_ns();
    pthread_mutex_lock(&l->lock);
    l->timer_ns = UINT64_MAX;
    look_at_link(l, now);
    look_at_slots(l, now, &ended);
    l->ticking = false;
    if (l->timer_ns != UINT64_MAX && !l->closing)
        start_timer(l);
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    tell(ended);
}

/* ---- link ---- */
static bool is_ipc(const char *url) { return strncmp(url, "ipc://", 6) == 0; }

static bool is_tls(const char *url) { return strncmp(url, "tls+tcp://", 10) == 0; }

static rc_link_err link_err(const rc_link *l, int nng_err)
{
    switch (nng_err) {
    case 0:
        return RC_LINK_OK;
    case NNG_ECONNREFUSED:
    case NNG_ENOENT:
    case NNG_EUNREACHABLE:
    case NNG_ECONNRESET:
    case NNG_ECLOSED:
        return RC_LINK_REFUSED;
    case NNG_EPERM:
        return RC_LINK_DENIED;
    case NNG_ECRYPTO:
    case NNG_EPEERAUTH:
        return RC_LINK_UNTRUSTED;
    case NNG_ECONNSHUT: /* what is left of a handshake that the daemon ended */
        return l->tls ? RC_LINK_UNTRUSTED : RC_LINK_REFUSED;
    case NNG_ENOMEM:
        return RC_LINK_NO_MEMORY;
    case NNG_EADDRINVAL:
    case NNG_EINVAL:
    case NNG_ENOTSUP:
        return RC_LINK_BAD_URL;
    default:
        return RC_LINK_TIMEOUT;
    }
}

/* The host of tls+tcp://HOST:PORT or tls+tcp://[HOST]:PORT, which the daemon's certificate must name. nng itself does not
 * look at the name if it is an address. */
static bool host_of(const char *url, char *host, size_t cap)
{
    const char *from = url + 10, *port = strrchr(from, ':');
    size_t n = port ? (size_t)(port - from) : 0;
    if (n > 2 && from[0] == '[' && from[n - 1] == ']') {
        from++;
        n -= 2;
    }
    return n > 0 && (size_t)snprintf(host, cap, "%.*s", (int)n, from) < cap;
}

static rc_link_err set_up_tls(rc_link *l, const rp_pem *pem)
{
    char host[256];
    if (!host_of(l->url, host, sizeof host))
        return RC_LINK_BAD_URL;
    if (nng_tls_config_alloc(&l->tls, NNG_TLS_MODE_CLIENT))
        return RC_LINK_NO_MEMORY;
    bool wrong = nng_tls_config_auth_mode(l->tls, NNG_TLS_AUTH_MODE_REQUIRED) || nng_tls_config_server_name(l->tls, host) ||
                 !pem->ca || nng_tls_config_ca_chain(l->tls, pem->ca, NULL) || !pem->cert != !pem->key ||
                 (pem->cert && nng_tls_config_own_cert(l->tls, pem->cert, pem->key, NULL));
    return wrong ? RC_LINK_BAD_PEM : RC_LINK_OK;
}

static rc_link_err set_up(rc_link *l, const char *url, const rp_pem *pem)
{
    l->url = strdup(url);
    if (!l->url || nng_aio_alloc(&l->dial, on_dialled, l) || nng_aio_alloc(&l->tx, on_sent, l) ||
        nng_aio_alloc(&l->at_once, NULL, NULL) || nng_aio_alloc(&l->rx, on_received, l) ||
        nng_aio_alloc(&l->timer, on_time, l))
        return RC_LINK_NO_MEMORY;
    return is_tls(url) ? set_up_tls(l, pem) : RC_LINK_OK;
}

static rc_link_err first_connection(rc_link *l, uint32_t timeout_ms)
{
    uint64_t until = after_ms(timeout_ms);
    struct timespec end = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
    pthread_mutex_lock(&l->lock);
    dial(l);
    while (l->state != UP && l->state != DOWN && pthread_cond_timedwait(&l->changed, &l->lock, &end) == 0)
        ;
    rc_link_err why = l->state == UP ? RC_LINK_OK : l->state == DOWN ? link_err(l, l->error) : RC_LINK_TIMEOUT;
    l->opening = false;
    pthread_mutex_unlock(&l->lock);
    return why;
}

static bool missing_socket(const char *url)
{
    return is_ipc(url) && access(url + 6, F_OK) && (errno == ENOENT || errno == ENOTDIR);
}

rc_link_err rc_link_open(rc_link **out, const char *url, const rp_pem *pem, uint32_t timeout_ms, rc_link_event event, void *arg)
{
    if (missing_socket(url))
        return RC_LINK_REFUSED;
    rc_link *l = calloc(1, sizeof *l);
    if (!l)
        return RC_LINK_NO_MEMORY;
    l->event = event;
    l->arg = arg;
    l->ipc = is_ipc(url);
    l->opening = true;
    l->redial_ms = REDIAL_MIN_MS;
    l->timer_ns = UINT64_MAX;
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&l->changed, &attr);
    pthread_condattr_destroy(&attr);
    rc_link_err why = set_up(l, url, pem);
    if (!why)
        why = first_connection(l, timeout_ms);
    if (why)
        rc_link_close(l);
    else
        *out = l;
    return why;
}

void rc_link_close(rc_link *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->closing = true;
    break_off(l, NNG_ECLOSED);
    if (l->state == DIALLING)
        nng_aio_cancel(l->dial);
    if (l->ticking)
        nng_aio_cancel(l->timer);
    while (l->state != DOWN || l->ticking)
        pthread_cond_wait(&l->changed, &l->lock);
    pthread_mutex_unlock(&l->lock);
    nng_aio_free(l->dial); /* these wait for the tails of the callbacks */
    nng_aio_free(l->tx);
    nng_aio_free(l->at_once);
    nng_aio_free(l->rx);
    nng_aio_free(l->timer);
    free_dialer(l->dialer);
    if (l->tls)
        nng_tls_config_free(l->tls);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l->url);
    free(l);
}

/* ---- slot ---- */
rc_slot *rc_slot_new(rc_link *l, rc_slot_done done, void *arg)
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
    rc_link *l = s->link;
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

/* A frame with head and data, but for its id; *size bytes. */
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

static void enqueue(rc_link *l, rc_slot *s)
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
    s->state = state;
    s->until_ns = after_ms(ms);
    wake_for(s->link, s);
    return true;
}

void rc_slot_exchange(rc_slot *s, const void *head, size_t head_len, const void *data, size_t data_len, rc_fill fill,
                      uint32_t send_timeout_ms, uint32_t reply_timeout_ms)
{
    rc_link *l = s->link;
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
        wake_at(s->link, 0);
    }
    pthread_mutex_unlock(&s->link->lock);
}
