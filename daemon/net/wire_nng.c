/* tcp:// and tls+tcp:// by nng's streams. Only this file and tls_engine.c of the daemon use nng. No operation is begun on a
 * closed stream, because nng would never complete it. */
#include <arpa/inet.h>
#include <nng/nng.h>
#include <nng/supplemental/tls/tls.h>
#include <nng/transport/tcp/tcp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "daemon/base/paths.h"
#include "daemon/base/turned_away.h"
#include "daemon/net/cert_dates.h"
#include "daemon/net/handshakes.h"
#include "daemon/net/limits.h"
#include "daemon/net/tls_engine.h"
#include "daemon/net/wire.h"
#include "proto/clock.h"
#include "proto/pem.h"

typedef struct nng_accepter nng_accepter;

struct rd_nng_tls {
    bool any;   /* clients need no certificate */
    rp_pem pem; /* in use, without the key */
    rd_cert_ends ends;
    nng_accepter *accepters;  /* all that listen with it */
    pthread_mutex_t turn;     /* of config and generation, while an accepter takes them */
    nng_tls_config *config;   /* of the next connection */
    atomic_uint generation;   /* of the files: counts how often they were renewed */
    pthread_mutex_t trusting; /* of trust */
    rd_tls_trust *trust;      /* the CAs and lists of this generation; NULL: no certificate is asked for */
    rd_handshakes handshakes;
    nng_aio *look; /* the timer for waiting handshakes */
    pthread_mutex_t lock;
    bool looks; /* the timer runs */
};

struct nng_accepter {
    rd_listener listener; /* first: a listener is its nng_accepter */
    nng_stream_listener *stream;
    nng_aio *aio;
    rd_nng_tls *tls; /* NULL: plain tcp */
    nng_accepter *next;
    unsigned generation; /* of the files that the next connection gets */
    bool resting;
    atomic_bool closing;
};

enum { ADDRESS = INET6_ADDRSTRLEN + 8 }; /* with brackets and a port */

typedef struct nng_wire {
    rd_wire wire; /* first: a wire is its nng_wire */
    nng_stream *stream;
    rd_nng_tls *tls;            /* NULL: plain tcp */
    nng_aio *rx, *tx, *at_once; /* the last one without a callback */
    pthread_mutex_t lock;
    bool closed;
    bool shaken;                 /* TLS: the handshake is over. Bytes sent earlier wait for it and cannot be withdrawn */
    bool asked, charged;         /* TLS: it asked for its turn at the handshake; its time is charged */
    atomic_uint generation;      /* TLS: of the files that its peer's certificate was found right by */
    bool waits, sends, receives; /* it waits for that turn; what begins then */
    rd_handshake handshake;
    char address[ADDRESS]; /* TLS: of the peer, for the log */
} nng_wire;

static nng_wire *of(rd_wire *w) { return (nng_wire *)w; }

/* ---- turns at handshakes ---- */
static nng_wire *wire_of(rd_handshake *x) { return (nng_wire *)((char *)x - offsetof(nng_wire, handshake)); }

static void start_looking(rd_nng_tls *tls)
{
    pthread_mutex_lock(&tls->lock);
    bool starts = !tls->looks;
    tls->looks = true;
    pthread_mutex_unlock(&tls->lock);
    if (starts)
        nng_sleep_aio(RD_HANDSHAKE_LOOK_MS, tls->look);
}

/* Call with the lock held. The first operation asks for the turn. */
static bool has_turn(nng_wire *w)
{
    if (w->tls && !w->asked) {
        w->asked = true;
        w->waits = !rd_handshakes_ask(&w->tls->handshakes, &w->handshake, rp_now_ns());
        if (w->waits)
            start_looking(w->tls);
    }
    return !w->waits;
}

/* Operations that waited end with an error. Receiving is last: its event may free the wire. */
static void end_operations(nng_wire *w, bool sends, bool receives)
{
    if (sends) {
        nng_aio_begin(w->tx);
        nng_aio_finish(w->tx, NNG_ECLOSED);
    }
    if (receives) {
        nng_aio_begin(w->rx);
        nng_aio_finish(w->rx, NNG_ECLOSED);
    }
}

/* Its turn has come: begin the operations that waited for it. */
static void begin_operations(nng_wire *w)
{
    pthread_mutex_lock(&w->lock);
    bool closed = w->closed, sends = w->sends, receives = w->receives;
    w->waits = w->sends = w->receives = false;
    if (sends && !closed)
        nng_stream_send(w->stream, w->tx);
    if (receives && !closed)
        nng_stream_recv(w->stream, w->rx);
    pthread_mutex_unlock(&w->lock);
    if (closed)
        end_operations(w, sends, receives);
}

static void nng_wire_on_look(void *arg)
{
    rd_nng_tls *tls = arg;
    rd_handshake *x;
    while ((x = rd_handshakes_next(&tls->handshakes, rp_now_ns())))
        begin_operations(wire_of(x));
    pthread_mutex_lock(&tls->lock);
    tls->looks = false;
    pthread_mutex_unlock(&tls->lock);
    if (rd_handshakes_wait(&tls->handshakes))
        start_looking(tls);
}

/* An operation has ended, so the handshake is over: charge it, once. */
static void charge_handshake(nng_wire *w)
{
    pthread_mutex_lock(&w->lock);
    bool ended = w->asked && !w->charged;
    w->charged |= ended;
    const bool closed = w->closed; /* by the daemon, which has its reasons */
    pthread_mutex_unlock(&w->lock);
    if (!ended)
        return;
    rd_handshakes_end(&w->tls->handshakes, &w->handshake, rd_tls_engine_spent(w->stream));
    rd_away reason;
    const char *why = rd_tls_engine_failure(w->stream, &reason);
    if (why && !closed)
        rd_turn_away(reason, w->address, why);
}

/* ---- the stream ---- */

/* An operation without a callback ends in this thread; a callback would need a wake-up of one of nng's threads. */
static size_t nng_wire_send(rd_wire *wire, const void *data, size_t n)
{
    nng_wire *w = of(wire);
    nng_iov v = {.iov_buf = (void *)data, .iov_len = n};
    pthread_mutex_lock(&w->lock);
    bool open = !w->closed && w->shaken;
    if (open) {
        nng_aio_set_iov(w->at_once, 1, &v);
        nng_stream_send(w->stream, w->at_once);
    }
    pthread_mutex_unlock(&w->lock);
    if (!open)
        return 0;
    nng_aio_cancel(w->at_once); /* has no effect if the bytes were sent */
    nng_aio_wait(w->at_once);
    return nng_aio_result(w->at_once) ? 0 : nng_aio_count(w->at_once);
}

static bool nng_wire_send_rest(rd_wire *wire, const void *data, size_t n)
{
    nng_wire *w = of(wire);
    nng_iov v = {.iov_buf = (void *)data, .iov_len = n};
    pthread_mutex_lock(&w->lock);
    bool open = !w->closed;
    if (open) {
        nng_aio_set_iov(w->tx, 1, &v);
        w->sends = !has_turn(w);
        if (!w->sends)
            nng_stream_send(w->stream, w->tx);
    }
    pthread_mutex_unlock(&w->lock);
    return open;
}

/* ---- trust ---- */

/* Files may be renewed at any time: only the generation that was asked is noted. */
static bool ask_trust(nng_wire *w)
{
    rd_nng_tls *tls = w->tls;
    pthread_mutex_lock(&tls->trusting);
    const unsigned generation = atomic_load(&tls->generation);
    const rd_trust trust = tls->trust ? rd_tls_engine_trusts(w->stream, tls->trust) : RD_TRUSTED;
    pthread_mutex_unlock(&tls->trusting);
    if (trust == RD_TRUSTED)
        atomic_store(&w->generation, generation);
    return trust != RD_NOT_TRUSTED;
}

/* A handshake may have begun with the files before. */
static bool still_trusted(nng_wire *w)
{
    return !w->tls || atomic_load(&w->generation) == atomic_load(&w->tls->generation) || ask_trust(w);
}

static bool nng_wire_is_trusted(rd_wire *w) { return still_trusted(of(w)); }

static void nng_wire_on_sent(void *arg)
{
    nng_wire *w = arg;
    bool ok = nng_aio_result(w->tx) == 0;
    charge_handshake(w);
    pthread_mutex_lock(&w->lock);
    w->shaken |= ok;
    pthread_mutex_unlock(&w->lock);
    w->wire.events->sent(w->wire.user, ok, ok ? nng_aio_count(w->tx) : 0);
}

static void nng_wire_receive(rd_wire *wire, void *to, size_t n, void *more, size_t more_n)
{
    nng_wire *w = of(wire);
    const nng_iov v[] = {{to, n}, {more, more_n}};
    pthread_mutex_lock(&w->lock);
    bool open = !w->closed && n;
    if (open) {
        nng_aio_set_iov(w->rx, more_n ? 2 : 1, v);
        w->receives = !has_turn(w);
        if (!w->receives)
            nng_stream_recv(w->stream, w->rx);
    }
    pthread_mutex_unlock(&w->lock);
    if (open)
        return;
    nng_aio_begin(w->rx);
    nng_aio_finish(w->rx, 0);
}

static void nng_wire_on_received(void *arg)
{
    nng_wire *w = arg;
    charge_handshake(w);
    pthread_mutex_lock(&w->lock);
    bool ok = nng_aio_result(w->rx) == 0 && !w->closed;
    pthread_mutex_unlock(&w->lock);
    ok = ok && still_trusted(w);
    w->wire.events->received(w->wire.user, ok, ok ? nng_aio_count(w->rx) : 0);
}

static void nng_wire_hang_up(rd_wire *wire)
{
    nng_wire *w = of(wire);
    pthread_mutex_lock(&w->lock);
    bool first = !w->closed;
    w->closed = true;
    bool left = w->waits && rd_handshakes_leave(&w->tls->handshakes, &w->handshake);
    bool sends = left && w->sends, receives = left && w->receives;
    w->waits = w->waits && !left;
    w->charged |= left; /* it was charged nothing */
    pthread_mutex_unlock(&w->lock);
    if (first)
        nng_stream_close(w->stream);
    end_operations(w, sends, receives);
}

static void nng_wire_end_sending(rd_wire *w) { (void)w; }

static bool address_of(nng_wire *w, nng_sockaddr *a) { return nng_stream_get_addr(w->stream, NNG_OPT_REMADDR, a) == 0; }

/* nng's TLS (1.5.2) misses that the peer hung up if neither chain has an operation at that moment, so the kernel is asked. */
static bool nng_wire_is_gone(rd_wire *w)
{
    nng_sockaddr a;
    return of(w)->tls && !address_of(of(w), &a);
}

static void put_address(nng_wire *w, char out[ADDRESS])
{
    nng_sockaddr a;
    char host[INET6_ADDRSTRLEN] = "?";
    if (!address_of(w, &a))
        memset(&a, 0, sizeof a);
    bool v6 = a.s_family == NNG_AF_INET6;
    if (v6)
        inet_ntop(AF_INET6, a.s_in6.sa_addr, host, sizeof host);
    else
        inet_ntop(AF_INET, &a.s_in.sa_addr, host, sizeof host);
    snprintf(out, ADDRESS, v6 ? "[%s]:%u" : "%s:%u", host, ntohs(v6 ? a.s_in6.sa_port : a.s_in.sa_port));
}

static bool nng_wire_peer(rd_wire *wire, rd_peer *peer)
{
    nng_wire *w = of(wire);
    char address[ADDRESS];
    *peer = (rd_peer){0};
    put_address(w, address);
    if (w->tls)
        rd_tls_engine_peer(w->stream, peer);
    snprintf(peer->text, sizeof peer->text, "%s%s%s %s", w->tls ? "tls" : "tcp", peer->name[0] ? " " : "", peer->name, address);
    return true;
}

static void nng_wire_free(rd_wire *wire)
{
    nng_wire *w = of(wire);
    nng_stream_close(w->stream);
    nng_stream_free(w->stream);
    nng_aio_reap(w->rx); /* a thread of nng frees them: this may be a callback of one of them */
    nng_aio_reap(w->tx);
    nng_aio_reap(w->at_once);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static const rd_wire_ops ops = {.send = nng_wire_send,
                                .send_rest = nng_wire_send_rest,
                                .receive = nng_wire_receive,
                                .end_sending = nng_wire_end_sending,
                                .hang_up = nng_wire_hang_up,
                                .peer = nng_wire_peer,
                                .is_trusted = nng_wire_is_trusted,
                                .is_gone = nng_wire_is_gone,
                                .free = nng_wire_free};

/* ---- accepting ---- */

/* Peers of one IPv4 address, or of one IPv6 network with a prefix of 64 bits, which a single host usually owns. */
static uint64_t key_of(nng_wire *w)
{
    nng_sockaddr a;
    uint64_t key = 0;
    if (!address_of(w, &a))
        return 0;
    if (a.s_family == NNG_AF_INET6)
        memcpy(&key, a.s_in6.sa_addr, sizeof key);
    else
        key = a.s_in.sa_addr;
    return key;
}

static nng_wire *make_wire(const nng_accepter *l, nng_stream *stream)
{
    nng_wire *w = calloc(1, sizeof *w);
    if (!w || nng_aio_alloc(&w->rx, nng_wire_on_received, w) != 0 || nng_aio_alloc(&w->tx, nng_wire_on_sent, w) != 0 ||
        nng_aio_alloc(&w->at_once, NULL, NULL) != 0) {
        if (w) {
            nng_aio_free(w->tx);
            nng_aio_free(w->rx);
        }
        free(w);
        nng_stream_close(stream);
        nng_stream_free(stream);
        return NULL;
    }
    w->stream = stream;
    w->tls = l->tls;
    w->shaken = !l->tls;
    w->wire = (rd_wire){
        .ops = &ops, .events = l->listener.events, .listener = l->listener.number, .origin = {false, key_of(w)}};
    w->handshake.key = w->wire.origin.key;
    atomic_init(&w->generation, l->generation);
    put_address(w, w->address);
    pthread_mutex_init(&w->lock, NULL);
    return w;
}

/* Waits for the next peer, with the files of today. rd_nng_tls_renew interrupts what waits with older ones. */
static void accept_next(nng_accepter *l)
{
    rd_nng_tls *tls = l->tls;
    if (tls)
        pthread_mutex_lock(&tls->turn);
    if (tls && l->generation != atomic_load(&tls->generation)) {
        nng_stream_listener_set_ptr(l->stream, NNG_OPT_TLS_CONFIG, tls->config);
        l->generation = atomic_load(&tls->generation);
    }
    nng_stream_listener_accept(l->stream, l->aio);
    if (tls)
        pthread_mutex_unlock(&tls->turn);
}

static void nng_wire_on_accepted(void *arg)
{
    nng_accepter *l = arg;
    int err = nng_aio_result(l->aio);
    if (atomic_load(&l->closing) || err == NNG_ECLOSED)
        return;
    const bool interrupted = err == NNG_ECANCELED;
    if (err && !interrupted && !l->resting)
        rd_turn_away(err == NNG_ENOFILES ? RD_AWAY_DESCRIPTORS : RD_AWAY_MEMORY, "network", nng_strerror(err));
    nng_wire *w = err || l->resting ? NULL : make_wire(l, nng_aio_get_output(l->aio, 0));
    if (w)
        l->listener.events->opened(l->listener.arg, &w->wire);
    l->resting = err != 0 && !interrupted;
    if (l->resting)
        nng_sleep_aio(RD_ACCEPT_REST_MS, l->aio);
    else
        accept_next(l);
}

/* ---- listening ---- */
static bool failed(int err, const char *what, char *why, size_t cap)
{
    if (err)
        snprintf(why, cap, "%s: %s", what, nng_strerror(err));
    return err != 0;
}

static const char *file_problem(int err)
{
    switch (err) {
    case RD_TLS_BAD_CERT:
        return "tls-cert: a certificate cannot be read, or there is none; PEM is expected";
    case RD_TLS_BAD_KEY:
        return "tls-key: it is not a private key; PEM without a passphrase is expected";
    case RD_TLS_OTHER_KEY:
        return "tls-key is not the key of the first certificate in tls-cert";
    case RD_TLS_BAD_CA:
        return "tls-ca: a certificate cannot be read, or there is none; PEM is expected";
    case RD_TLS_BAD_CRL:
        return "tls-crl: a revocation list cannot be read, or there is none; PEM is expected";
    default:
        return NULL;
    }
}

static bool set_up_tls(nng_tls_config **config, const rp_pem *p, bool any, char *why, size_t cap)
{
    int err = nng_tls_config_alloc(config, NNG_TLS_MODE_SERVER);
    if (!err)
        err = nng_tls_config_own_cert(*config, p->cert, p->key, NULL);
    if (!err && p->ca)
        err = nng_tls_config_ca_chain(*config, p->ca, p->crl);
    if (!err)
        err = nng_tls_config_auth_mode(*config, any ? NNG_TLS_AUTH_MODE_NONE : NNG_TLS_AUTH_MODE_REQUIRED);
    const char *problem = file_problem(err);
    if (!problem)
        return !failed(err, "tls", why, cap);
    snprintf(why, cap, "%s", problem);
    return false;
}

static rd_nng_tls *new_tls(bool any)
{
    rd_nng_tls *tls = calloc(1, sizeof *tls);
    uint64_t seed;
    if (!tls || getrandom(&seed, sizeof seed, 0) != sizeof seed || nng_aio_alloc(&tls->look, nng_wire_on_look, tls) != 0) {
        free(tls);
        return NULL;
    }
    tls->any = any;
    rd_handshakes_init(&tls->handshakes, seed);
    pthread_mutex_init(&tls->lock, NULL);
    pthread_mutex_init(&tls->turn, NULL);
    pthread_mutex_init(&tls->trusting, NULL);
    return tls;
}

/* What the files make: all or nothing. */
typedef struct loaded {
    rp_pem pem;
    rd_cert_ends ends;
    nng_tls_config *config;
    rd_tls_trust *trust;
} loaded;

static void unload(loaded *x)
{
    rp_pem_wipe(&x->pem);
    if (x->config)
        nng_tls_config_free(x->config);
    rd_tls_trust_free(x->trust);
}

static bool load(loaded *x, const rp_pem_files *files, bool any, char *why, size_t cap)
{
    *x = (loaded){.config = NULL};
    const bool read = rp_pem_read(&x->pem, files, why, cap) && set_up_tls(&x->config, &x->pem, any, why, cap);
    rp_pem_wipe_key(&x->pem);
    const bool asks = read && !any;
    if (asks)
        x->trust = rd_tls_trust_new(x->pem.ca, x->pem.crl);
    if (read && !failed(asks && !x->trust ? NNG_ENOMEM : 0, "tls", why, cap)) {
        x->ends = rd_cert_dates(&x->pem, time(NULL), why, cap);
        return true;
    }
    unload(x);
    return false;
}

static void swap_in(rd_nng_tls *tls, loaded *x)
{
    const loaded old = {tls->pem, tls->ends, tls->config, tls->trust};
    pthread_mutex_lock(&tls->turn);
    pthread_mutex_lock(&tls->trusting);
    tls->pem = x->pem;
    tls->ends = x->ends;
    tls->config = x->config;
    tls->trust = x->trust;
    atomic_fetch_add(&tls->generation, 1);
    pthread_mutex_unlock(&tls->trusting);
    pthread_mutex_unlock(&tls->turn);
    *x = old;
}

rd_nng_tls *rd_nng_tls_open(const rp_pem_files *files, bool any, char *why, size_t cap)
{
    loaded x;
    rd_nng_tls *tls = new_tls(any);
    if (!failed(rd_tls_engine_register(), "nng's interface for TLS", why, cap) &&
        !failed(tls ? 0 : NNG_ENOMEM, "tls", why, cap) && load(&x, files, any, why, cap)) {
        swap_in(tls, &x);
        return tls;
    }
    rd_nng_tls_close(tls);
    return NULL;
}

static bool differ(const char *a, const char *b) { return !a != !b || (a && strcmp(a, b) != 0); }

bool rd_nng_tls_renew(rd_nng_tls *tls, const rp_pem_files *files, unsigned *changed, char *why, size_t cap)
{
    loaded x;
    if (!load(&x, files, tls->any, why, cap))
        return false;
    *changed = (differ(x.pem.cert, tls->pem.cert) ? RD_TLS_NEW_CERT : 0) | (differ(x.pem.ca, tls->pem.ca) ? RD_TLS_NEW_CA : 0) |
               (differ(x.pem.crl, tls->pem.crl) ? RD_TLS_NEW_CRL : 0);
    if (*changed) {
        swap_in(tls, &x);
        for (const nng_accepter *l = tls->accepters; l; l = l->next)
            nng_aio_cancel(l->aio);
    }
    unload(&x);
    return true;
}

rd_cert_ends rd_nng_tls_ends(const rd_nng_tls *tls) { return tls->ends; }

void rd_nng_tls_close(rd_nng_tls *tls)
{
    if (!tls)
        return;
    nng_aio_free(tls->look); /* waits for its callback; no stream is left */
    unload(&(loaded){tls->pem, tls->ends, tls->config, tls->trust});
    rd_handshakes_fini(&tls->handshakes);
    pthread_mutex_destroy(&tls->lock);
    pthread_mutex_destroy(&tls->turn);
    pthread_mutex_destroy(&tls->trusting);
    free(tls);
}

/* For tcp://host:0 the system chose the port. */
static void tell_bound(nng_stream_listener *listener, const char *url, char *bound, size_t cap)
{
    size_t n = strlen(url);
    int port;
    if (n > 2 && strcmp(url + n - 2, ":0") == 0 && nng_stream_listener_get_int(listener, NNG_OPT_TCP_BOUND_PORT, &port) == 0)
        snprintf(bound, cap, "%.*s:%d", (int)(n - 2), url, port);
}

static void nng_start(rd_listener *listener) { accept_next((nng_accepter *)listener); }

/* Of the list of its tls, which it may not be in. */
static void leave_tls(nng_accepter *l)
{
    nng_accepter **at = l->tls ? &l->tls->accepters : NULL;
    while (at && *at && *at != l)
        at = &(*at)->next;
    if (at && *at)
        *at = l->next;
}

static void nng_close_listener(rd_listener *listener)
{
    nng_accepter *l = (nng_accepter *)listener;
    atomic_store(&l->closing, true);
    leave_tls(l);
    if (l->stream)
        nng_stream_listener_close(l->stream);
    nng_aio_free(l->aio); /* waits for its callback */
    nng_stream_listener_free(l->stream);
    free(l);
}

static const rd_listener_ops listener_ops = {.start = nng_start, .close = nng_close_listener};

static int set_up(nng_accepter *l, const char *url, rd_nng_tls *tls)
{
    bool secure = rd_is_tls(url);
    l->tls = secure ? tls : NULL;
    int err = nng_aio_alloc(&l->aio, nng_wire_on_accepted, l);
    if (!err)
        err = nng_stream_listener_alloc(&l->stream, url);
    if (!err && secure)
        err = tls ? nng_stream_listener_set_ptr(l->stream, NNG_OPT_TLS_CONFIG, tls->config) : NNG_EINVAL;
    if (!err) /* interpose.h sets the intervals */
        err = nng_stream_listener_set_bool(l->stream, NNG_OPT_TCP_KEEPALIVE, true);
    if (!err)
        err = nng_stream_listener_listen(l->stream);
    if (!err && l->tls) {
        l->generation = atomic_load(&l->tls->generation);
        l->next = l->tls->accepters;
        l->tls->accepters = l;
    }
    return err;
}

rd_listener *rd_nng_listen(const char *url, rd_nng_tls *tls, const rd_wire_events *events, void *arg, char *bound,
                           size_t bound_cap, char *why, size_t cap)
{
    nng_accepter *l = calloc(1, sizeof *l);
    if (l)
        l->listener = (rd_listener){.ops = &listener_ops, .events = events, .arg = arg};
    if (failed(l ? set_up(l, url, tls) : NNG_ENOMEM, url, why, cap)) {
        if (l)
            nng_close_listener(&l->listener);
        return NULL;
    }
    tell_bound(l->stream, url, bound, bound_cap);
    return &l->listener;
}
