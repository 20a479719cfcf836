#include "client/transport.h"

#include <errno.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <nng/supplemental/tls/tls.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/codec.h"

enum { REDIAL_MIN_MS = 10, REDIAL_MAX_MS = 200, STALL_MS = 500 };

struct rc_link {
    nng_socket sock;
    rc_link_event event;
    void *arg;
    char *url;
    nng_tls_config *tls; /* NULL: none */
    nng_aio *limit;      /* of the first dialling */
    atomic_bool late;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    bool up;
    nng_dialer dialer;
    uint64_t stalled_ns; /* when the connection went away, or the dialer was last replaced */
};

enum slot_state { REST, SENDING, RECEIVING, PAUSING };

/* `lock` orders rc_slot_cancel with the steps of the exchange: a cancel either finds the nng operation started, or is seen
 * before it starts. It is never held while `done` runs. */
struct rc_slot {
    nng_ctx ctx;
    nng_aio *aio;
    rc_slot_done done;
    void *arg;
    pthread_mutex_t lock; /* guards the rest */
    enum slot_state state;
    bool cancelled;
    nng_duration reply_timeout_ms;
    uint64_t send_until_ns;
    rc_link *link;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- link ---- */

static void pipe_event(nng_pipe pipe, nng_pipe_ev ev, void *arg)
{
    (void)pipe;
    rc_link *l = arg;
    bool up = ev == NNG_PIPE_EV_ADD_POST;
    pthread_mutex_lock(&l->lock);
    l->up = up;
    l->stalled_ns = now_ns();
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    l->event(l->arg, up);
}

static struct timespec after_ms(uint32_t ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

static bool wait_up(rc_link *l, uint32_t ms)
{
    struct timespec end = after_ms(ms);
    pthread_mutex_lock(&l->lock);
    while (!l->up && pthread_cond_timedwait(&l->changed, &l->lock, &end) == 0)
        ;
    bool up = l->up;
    pthread_mutex_unlock(&l->lock);
    return up;
}

static bool is_ipc(const char *url) { return strncmp(url, "ipc://", 6) == 0; }

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

static int set_up_socket(rc_link *l)
{
    int err;
    /* The library repeats requests itself; nng must not. */
    if ((err = nng_socket_set_ms(l->sock, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE)) ||
        (err = nng_socket_set_size(l->sock, NNG_OPT_RECVMAXSZ, RP_HEADER_SIZE + RP_MAX_BODY + 4)) ||
        (err = nng_socket_set_ms(l->sock, NNG_OPT_RECONNMINT, REDIAL_MIN_MS)) ||
        (err = nng_socket_set_ms(l->sock, NNG_OPT_RECONNMAXT, REDIAL_MAX_MS)) ||
        (err = nng_pipe_notify(l->sock, NNG_PIPE_EV_ADD_POST, pipe_event, l)))
        return err;
    return nng_pipe_notify(l->sock, NNG_PIPE_EV_REM_POST, pipe_event, l);
}

/* ---- TLS ---- */

static bool is_tls(const char *url) { return strncmp(url, "tls+tcp://", 10) == 0; }

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
    if (!is_tls(l->url))
        return RC_LINK_OK;
    if (!host_of(l->url, host, sizeof host))
        return RC_LINK_BAD_URL;
    if (nng_tls_config_alloc(&l->tls, NNG_TLS_MODE_CLIENT))
        return RC_LINK_NO_MEMORY;
    bool wrong = nng_tls_config_auth_mode(l->tls, NNG_TLS_AUTH_MODE_REQUIRED) || nng_tls_config_server_name(l->tls, host) ||
                 !pem->ca || nng_tls_config_ca_chain(l->tls, pem->ca, NULL) || !pem->cert != !pem->key ||
                 (pem->cert && nng_tls_config_own_cert(l->tls, pem->cert, pem->key, NULL));
    return wrong ? RC_LINK_BAD_PEM : RC_LINK_OK;
}

/* ---- dialling ---- */

static int make_dialer(const rc_link *l, nng_dialer *d)
{
    int err = nng_dialer_create(d, l->sock, l->url);
    if (err || !l->tls)
        return err;
    err = nng_dialer_set_ptr(*d, NNG_OPT_TLS_CONFIG, l->tls);
    if (err)
        nng_dialer_close(*d);
    return err;
}

static void on_dial_limit(void *arg)
{
    rc_link *l = arg;
    if (nng_aio_result(l->limit))
        return; /* cancelled: it was done in time */
    atomic_store(&l->late, true);
    nng_dialer_close(l->dialer);
}

/* nng tells why dialling failed only to a caller that waits, for as long as it takes; so a timer closes the dialer. No
 * probing with a bare connection: nng 1.5.2 stops accepting when a peer leaves before it has said its protocol. */
static rc_link_err dial(rc_link *l, uint32_t timeout_ms)
{
    int err = make_dialer(l, &l->dialer);
    if (!err)
        err = nng_aio_alloc(&l->limit, on_dial_limit, l);
    if (err)
        return link_err(l, err);
    nng_sleep_aio((nng_duration)timeout_ms, l->limit);
    err = nng_dialer_start(l->dialer, 0);
    nng_aio_stop(l->limit);
    nng_aio_free(l->limit);
    if (atomic_load(&l->late))
        return RC_LINK_TIMEOUT;
    return err ? link_err(l, err) : wait_up(l, timeout_ms) ? RC_LINK_OK : RC_LINK_TIMEOUT;
}

/* A daemon that dies during the handshake makes the dialer of nng 1.5.2 give up for good: the EPIPE of its half of the
 * handshake reads as "closed" (nanomsg/nng issue 1518, seen from the other side). So one that has not brought the
 * connection back for a while is replaced. */
static void replace_stalled_dialer(rc_link *l)
{
    pthread_mutex_lock(&l->lock);
    bool stalled = !l->up && now_ns() >= l->stalled_ns + STALL_MS * UINT64_C(1000000);
    nng_dialer old = l->dialer;
    if (stalled)
        l->stalled_ns = now_ns(); /* from here on it is this thread's task for STALL_MS */
    pthread_mutex_unlock(&l->lock);
    nng_dialer fresh;
    if (!stalled || make_dialer(l, &fresh))
        return;
    nng_dialer_close(old);
    pthread_mutex_lock(&l->lock);
    l->dialer = fresh;
    pthread_mutex_unlock(&l->lock);
    nng_dialer_start(fresh, NNG_FLAG_NONBLOCK);
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
    l->url = strdup(url);
    if (!l->url || nng_req0_open(&l->sock)) {
        free(l->url);
        free(l);
        return RC_LINK_NO_MEMORY;
    }
    l->event = event;
    l->arg = arg;
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&l->changed, &attr);
    pthread_condattr_destroy(&attr);
    int err = set_up_socket(l);
    rc_link_err why = err ? link_err(l, err) : set_up_tls(l, pem);
    if (!why)
        why = dial(l, timeout_ms);
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
    nng_close(l->sock);
    if (l->tls)
        nng_tls_config_free(l->tls);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l->url);
    free(l);
}

/* ---- slot ---- */

static rc_io io_of(int err, enum slot_state was)
{
    if (err == NNG_ENOMEM)
        return RC_IO_NO_MEMORY;
    if (err == NNG_ECANCELED)
        return RC_IO_CANCELLED;
    if (was == SENDING)
        return RC_IO_UNSENT;
    return err == NNG_ETIMEDOUT ? RC_IO_TIMEOUT : RC_IO_LOST;
}

/* Send the aio's message, for a slice of the time that is left. With the slot's lock. */
static void send_on(rc_slot *s)
{
    uint64_t now = now_ns(), left_ms = s->send_until_ns > now ? (s->send_until_ns - now) / 1000000 + 1 : 1;
    s->state = SENDING;
    nng_aio_set_timeout(s->aio, (nng_duration)(left_ms < STALL_MS ? left_ms : STALL_MS));
    nng_ctx_send(s->ctx, s->aio);
}

/* A slice without a connection, or with a daemon that does not read, and time is left. */
static bool sends_on(const rc_slot *s, int err)
{
    return s->state == SENDING && err == NNG_ETIMEDOUT && !s->cancelled && now_ns() < s->send_until_ns;
}

/* Runs on nng's threads when a step of the slot ended. */
static void step_done(void *arg)
{
    rc_slot *s = arg;
    int err = nng_aio_result(s->aio);
    if (err == NNG_ETIMEDOUT)
        replace_stalled_dialer(s->link);
    pthread_mutex_lock(&s->lock);
    if (sends_on(s, err)) { /* the aio still has the message */
        send_on(s);
        pthread_mutex_unlock(&s->lock);
        return;
    }
    enum slot_state was = s->state;
    if (was == SENDING && err)
        nng_msg_free(nng_aio_get_msg(s->aio));
    if (was == SENDING && !err && !s->cancelled) {
        s->state = RECEIVING;
        nng_aio_set_timeout(s->aio, s->reply_timeout_ms);
        nng_ctx_recv(s->ctx, s->aio);
        pthread_mutex_unlock(&s->lock);
        return;
    }
    s->state = REST;
    bool cancelled = s->cancelled;
    pthread_mutex_unlock(&s->lock);
    if (err == 0 && was == RECEIVING) {
        nng_msg *m = nng_aio_get_msg(s->aio);
        s->done(s->arg, RC_IO_OK, nng_msg_body(m), nng_msg_len(m));
        nng_msg_free(m);
    } else if (err == 0) {
        s->done(s->arg, cancelled ? RC_IO_CANCELLED : RC_IO_PAUSED, NULL, 0);
    } else {
        s->done(s->arg, io_of(err, was), NULL, 0);
    }
}

rc_slot *rc_slot_new(rc_link *l, rc_slot_done done, void *arg)
{
    rc_slot *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->link = l;
    s->done = done;
    s->arg = arg;
    if (nng_ctx_open(&s->ctx, l->sock)) {
        free(s);
        return NULL;
    }
    if (nng_aio_alloc(&s->aio, step_done, s)) {
        nng_ctx_close(s->ctx);
        free(s);
        return NULL;
    }
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

void rc_slot_free(rc_slot *s)
{
    nng_aio_stop(s->aio);
    nng_ctx_close(s->ctx);
    nng_aio_free(s->aio);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void rc_slot_arm(rc_slot *s)
{
    pthread_mutex_lock(&s->lock);
    s->cancelled = false;
    pthread_mutex_unlock(&s->lock);
}

static nng_msg *message(const void *head, size_t head_len, const void *data, size_t data_len, rc_fill fill)
{
    nng_msg *m;
    if (nng_msg_alloc(&m, head_len + data_len))
        return NULL;
    uint8_t *body = nng_msg_body(m);
    memcpy(body, head, head_len);
    if (fill)
        fill(data, body + head_len);
    else if (data_len)
        memcpy(body + head_len, data, data_len);
    return m;
}

void rc_slot_exchange(rc_slot *s, const void *head, size_t head_len, const void *data, size_t data_len, rc_fill fill,
                      uint32_t send_timeout_ms, uint32_t reply_timeout_ms)
{
    nng_msg *m = message(head, head_len, data, data_len, fill);
    pthread_mutex_lock(&s->lock);
    bool cancelled = s->cancelled;
    if (m && !cancelled) {
        s->reply_timeout_ms = (nng_duration)reply_timeout_ms;
        s->send_until_ns = now_ns() + send_timeout_ms * UINT64_C(1000000);
        nng_aio_set_msg(s->aio, m);
        send_on(s);
    }
    pthread_mutex_unlock(&s->lock);
    if (m && !cancelled)
        return;
    nng_msg_free(m);
    s->done(s->arg, m ? RC_IO_CANCELLED : RC_IO_NO_MEMORY, NULL, 0);
}

void rc_slot_pause(rc_slot *s, uint32_t ms)
{
    pthread_mutex_lock(&s->lock);
    bool cancelled = s->cancelled;
    if (!cancelled) {
        s->state = PAUSING;
        nng_sleep_aio((nng_duration)ms, s->aio);
    }
    pthread_mutex_unlock(&s->lock);
    if (cancelled)
        s->done(s->arg, RC_IO_CANCELLED, NULL, 0);
}

void rc_slot_cancel(rc_slot *s)
{
    pthread_mutex_lock(&s->lock);
    s->cancelled = true;
    if (s->state != REST)
        nng_aio_cancel(s->aio);
    pthread_mutex_unlock(&s->lock);
}
