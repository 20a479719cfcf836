/* tcp:// and tls+tcp:// by nng's streams. No operation is begun on a closed stream, for nng would not complete it. */
#include <nng/nng.h>
#include <nng/supplemental/tls/tls.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/wire.h"

typedef struct nng_wire {
    rc_wire wire; /* first: a wire is its nng_wire */
    char *url;
    nng_tls_config *tls;       /* NULL: none */
    nng_stream_dialer *dialer; /* of this attempt to connect, or the next one; NULL before the first */
    nng_stream *stream;
    nng_aio *dial, *tx, *rx, *timer;
    nng_aio *at_once;     /* sends without a callback */
    pthread_mutex_t lock; /* of the timer's */
    uint64_t ring_ns;     /* UINT64_MAX: never */
    bool ticking;
} nng_wire;

static nng_wire *of(rc_wire *w) { return (nng_wire *)w; }

static rc_connection_err link_err(const nng_wire *w, int nng_err)
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
        return w->tls ? RC_LINK_UNTRUSTED : RC_LINK_REFUSED;
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

/* ---- dialling ---- */

/* nng counts a dialler's users by an atomic. The last of them may be its reaper, with the stream of a connection that was
 * refused. ThreadSanitizer does not see the count: it is not to compare the lock that this takes with the reaper's end of
 * it. */
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

static int make_dialer(nng_wire *w)
{
    int err = w->dialer ? 0 : nng_stream_dialer_alloc(&w->dialer, w->url);
    return !err && w->tls ? nng_stream_dialer_set_ptr(w->dialer, NNG_OPT_TLS_CONFIG, w->tls) : err;
}

static rc_connection_err nng_wire_dial(rc_wire *wire)
{
    nng_wire *w = of(wire);
    int err = make_dialer(w);
    if (!err)
        nng_stream_dialer_dial(w->dialer, w->dial);
    return link_err(w, err);
}

static void nng_wire_on_dialled(void *arg)
{
    nng_wire *w = arg;
    int err = nng_aio_result(w->dial);
    if (!err) { /* before its stream, which is the order that ThreadSanitizer understands: nng counts users without a lock */
        free_dialer(w->dialer);
        w->dialer = NULL;
        w->stream = nng_aio_get_output(w->dial, 0);
    }
    w->wire.events->dialled(w->wire.arg, link_err(w, err));
}

static void nng_wire_stop_dialling(rc_wire *w) { nng_aio_cancel(of(w)->dial); }

/* ---- the stream ---- */

/* An operation without a callback ends in this thread; one with it wakes one of nng's. */
static size_t nng_wire_send_now(rc_wire *wire, const void *data, size_t n)
{
    nng_wire *w = of(wire);
    nng_iov v = {.iov_buf = (void *)data, .iov_len = n};
    nng_aio_set_iov(w->at_once, 1, &v);
    nng_stream_send(w->stream, w->at_once);
    nng_aio_cancel(w->at_once); /* unless it has been sent */
    nng_aio_wait(w->at_once);
    return nng_aio_result(w->at_once) ? 0 : nng_aio_count(w->at_once);
}

static void nng_wire_send_more(rc_wire *wire, const void *data, size_t n)
{
    nng_wire *w = of(wire);
    nng_iov v = {.iov_buf = (void *)data, .iov_len = n};
    nng_aio_set_iov(w->tx, 1, &v);
    nng_stream_send(w->stream, w->tx);
}

static void nng_wire_on_sent(void *arg)
{
    nng_wire *w = arg;
    w->wire.events->sent(w->wire.arg, link_err(w, nng_aio_result(w->tx)), nng_aio_count(w->tx));
}

static void nng_wire_receive(rc_wire *wire, void *to, size_t n, void *more, size_t more_n)
{
    nng_wire *w = of(wire);
    const nng_iov v[] = {{to, n}, {more, more_n}};
    if (n) {
        nng_aio_set_iov(w->rx, 2, v);
        nng_stream_recv(w->stream, w->rx);
    } else {
        nng_aio_begin(w->rx);
        nng_aio_finish(w->rx, 0);
    }
}

static void nng_wire_on_received(void *arg)
{
    nng_wire *w = arg;
    w->wire.events->received(w->wire.arg, link_err(w, nng_aio_result(w->rx)), nng_aio_count(w->rx));
}

static void nng_wire_hang_up(rc_wire *w) { nng_stream_close(of(w)->stream); }

static void nng_wire_drop(rc_wire *w)
{
    nng_stream_free(of(w)->stream);
    of(w)->stream = NULL;
}

/* nng's TLS (1.5.2) forgets that the daemon has gone if neither chain is inside it when the news come, so the kernel is
 * asked. */
static bool nng_wire_is_gone(rc_wire *wire)
{
    nng_wire *w = of(wire);
    nng_sockaddr a;
    return nng_stream_get_addr(w->stream, NNG_OPT_REMADDR, &a) != 0;
}

/* ---- the timer ---- */
static void nng_wire_ring(rc_wire *wire, uint64_t when)
{
    nng_wire *w = of(wire);
    pthread_mutex_lock(&w->lock);
    if (when < w->ring_ns) {
        uint64_t now = rp_now_ns(), ms = when > now ? (when - now + RP_NS_PER_MS - 1) / RP_NS_PER_MS : 0;
        w->ring_ns = when;
        if (w->ticking)
            nng_aio_cancel(w->timer); /* it rings early, and is asked for anew */
        else
            nng_sleep_aio(ms < INT32_MAX ? (nng_duration)ms : INT32_MAX, w->timer);
        w->ticking = true;
    }
    pthread_mutex_unlock(&w->lock);
}

static void nng_wire_on_time(void *arg)
{
    nng_wire *w = arg;
    pthread_mutex_lock(&w->lock);
    w->ring_ns = UINT64_MAX;
    w->ticking = false;
    pthread_mutex_unlock(&w->lock);
    w->wire.events->rang(w->wire.arg);
}

/* ---- making and freeing ---- */

static void nng_wire_free(rc_wire *wire)
{
    nng_wire *w = of(wire);
    nng_aio_free(w->dial); /* these wait for the tails of the callbacks */
    nng_aio_free(w->tx);
    nng_aio_free(w->at_once);
    nng_aio_free(w->rx);
    nng_aio_free(w->timer);
    free_dialer(w->dialer);
    if (w->tls)
        nng_tls_config_free(w->tls);
    pthread_mutex_destroy(&w->lock);
    free(w->url);
    free(w);
}

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

static rc_connection_err set_up_tls(nng_wire *w, const rp_pem *pem)
{
    char host[256];
    if (!host_of(w->url, host, sizeof host))
        return RC_LINK_BAD_URL;
    if (nng_tls_config_alloc(&w->tls, NNG_TLS_MODE_CLIENT))
        return RC_LINK_NO_MEMORY;
    bool wrong = nng_tls_config_auth_mode(w->tls, NNG_TLS_AUTH_MODE_REQUIRED) || nng_tls_config_server_name(w->tls, host) ||
                 !pem->ca || nng_tls_config_ca_chain(w->tls, pem->ca, NULL) || !pem->cert != !pem->key ||
                 (pem->cert && nng_tls_config_own_cert(w->tls, pem->cert, pem->key, NULL));
    return wrong ? RC_LINK_BAD_PEM : RC_LINK_OK;
}

static rc_connection_err set_up(nng_wire *w, const char *url, const rp_pem *pem)
{
    w->url = strdup(url);
    if (!w->url || nng_aio_alloc(&w->dial, nng_wire_on_dialled, w) || nng_aio_alloc(&w->tx, nng_wire_on_sent, w) ||
        nng_aio_alloc(&w->at_once, NULL, NULL) || nng_aio_alloc(&w->rx, nng_wire_on_received, w) ||
        nng_aio_alloc(&w->timer, nng_wire_on_time, w))
        return RC_LINK_NO_MEMORY;
    return is_tls(url) ? set_up_tls(w, pem) : RC_LINK_OK;
}

static const rc_wire_ops ops = {.dial = nng_wire_dial,
                                .stop_dialling = nng_wire_stop_dialling,
                                .send_now = nng_wire_send_now,
                                .send = nng_wire_send_more,
                                .receive = nng_wire_receive,
                                .hang_up = nng_wire_hang_up,
                                .drop = nng_wire_drop,
                                .is_gone = nng_wire_is_gone,
                                .ring = nng_wire_ring,
                                .free = nng_wire_free};

/* Its threads do not survive a fork, and it cannot start again in the child: remember who woke it first. */
static bool is_woken_by_parent(void)
{
    static _Atomic pid_t first;
    pid_t nobody = 0, me = getpid();
    return !atomic_compare_exchange_strong(&first, &nobody, me) && nobody != me;
}

rc_connection_err rc_wire_nng(rc_wire **wire, const char *url, const rp_pem *pem, const rc_wire_events *events, void *arg)
{
    if (is_woken_by_parent())
        return RC_LINK_FORKED;
    nng_wire *w = calloc(1, sizeof *w);
    if (!w)
        return RC_LINK_NO_MEMORY;
    w->wire = (rc_wire){.ops = &ops, .events = events, .arg = arg, .forgets = is_tls(url)};
    w->ring_ns = UINT64_MAX;
    pthread_mutex_init(&w->lock, NULL);
    rc_connection_err why = set_up(w, url, pem);
    if (why)
        nng_wire_free(&w->wire);
    else
        *wire = &w->wire;
    return why;
}
