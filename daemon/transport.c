#include "daemon/transport.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/supplemental/tls/tls.h>
#include <nng/transport/ipc/ipc.h>
#include <nng/transport/tcp/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/pem.h"

enum {
    MAX_LISTENERS = 8,
    SEND_LIMIT_MS = 10000, /* a peer that does not read for so long would hold a context from others */
    REQUEST_ID = 4         /* bytes of REQ/REP's own header, which nng counts as part of a message */
};

typedef enum { RECEIVING, WORKING, SENDING } step;

/* A context. `step` passes between nng's threads and the loop with the ownership of the link: the inbox's lock and nng's
 * own locks order the two. */
typedef struct {
    rd_request request; /* first: a request is its link */
    rd_transport *transport;
    nng_ctx ctx;
    nng_aio *aio;
    step step;
    nng_msg *message, *reply;
    atomic_uint *unsent;
} link_t;

struct rd_transport {
    rd_inbox *inbox;
    nng_socket socket;
    unsigned contexts;
    atomic_uint busy;
    nng_listener listeners[MAX_LISTENERS];
    unsigned listening;
    nng_tls_config *tls; /* NULL: none */
    atomic_bool refusing; /* new connections: closed at once */
    link_t *links;
    bool (*quick)(void *arg, rd_request *r);
    void *quick_arg;
};

static link_t *link_of(rd_request *r) { return (link_t *)r; }

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- nng's threads ---- */
static void receive(link_t *l)
{
    l->step = RECEIVING;
    nng_aio_set_timeout(l->aio, NNG_DURATION_INFINITE);
    nng_ctx_recv(l->ctx, l->aio);
}

static void on_received(link_t *l)
{
    l->message = nng_aio_get_msg(l->aio);
    nng_aio_set_msg(l->aio, NULL);
    rd_request *r = &l->request;
    r->pipe = (uint32_t)nng_pipe_id(nng_msg_get_pipe(l->message));
    r->bytes = nng_msg_body(l->message);
    r->len = nng_msg_len(l->message);
    r->received_ns = now_ns();
    l->step = WORKING;
    atomic_fetch_add_explicit(&l->transport->busy, 1, memory_order_relaxed);
    if (!l->transport->quick(l->transport->quick_arg, r))
        rd_request_pass(r);
}

static void on_sent(link_t *l, int err)
{
    if (err) { /* the pipe is gone, or the peer does not read: then it goes */
        nng_msg *m = nng_aio_get_msg(l->aio);
        nng_aio_set_msg(l->aio, NULL);
        nng_msg_free(m);
        if (err == NNG_ETIMEDOUT)
            rd_transport_close_pipe(l->request.pipe);
    }
    atomic_fetch_sub_explicit(&l->transport->busy, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(l->unsent, 1, memory_order_release); /* the session may be freed from here on */
    if (err != NNG_ECLOSED)
        receive(l);
}

static void on_event(void *arg)
{
    link_t *l = arg;
    int err = nng_aio_result(l->aio);
    if (l->step == SENDING)
        on_sent(l, err);
    else if (!err)
        on_received(l);
    else if (err != NNG_ECLOSED && err != NNG_ECANCELED)
        receive(l);
}

static void on_pipe(nng_pipe p, nng_pipe_ev ev, void *arg)
{
    rd_transport *t = arg;
    rd_event e = {.pipe = (uint32_t)nng_pipe_id(p)};
    if (ev == NNG_PIPE_EV_ADD_PRE) { /* comes before any message of the pipe */
        e.kind = RD_PIPE_OPENED;
        if (!rd_inbox_put(t->inbox, e) || atomic_load_explicit(&t->refusing, memory_order_relaxed))
            nng_pipe_close(p);
    } else if (ev == NNG_PIPE_EV_REM_POST) {
        e.kind = RD_PIPE_CLOSED;
        rd_inbox_put(t->inbox, e);
    }
}

/* ---- open and close ---- */
static bool failed(int err, const char *what, char *why, size_t cap)
{
    if (err)
        snprintf(why, cap, "%s: %s", what, nng_strerror(err));
    return err != 0;
}

static int open_links(rd_transport *t, unsigned contexts)
{
    int err = 0;
    for (; !err && t->contexts < contexts; t->contexts++) {
        link_t *l = &t->links[t->contexts];
        l->transport = t;
        l->request.context = t->contexts;
        err = nng_aio_alloc(&l->aio, on_event, l);
        if (!err && (err = nng_ctx_open(&l->ctx, t->socket)))
            nng_aio_free(l->aio);
        if (err)
            break;
    }
    return err;
}

rd_transport *rd_transport_open(rd_inbox *inbox, unsigned contexts, char *why, size_t cap)
{
    rd_transport *t = calloc(1, sizeof *t);
    link_t *links = calloc(contexts, sizeof *links);
    if (!t || !links || failed(nng_rep0_open(&t->socket), "nng", why, cap)) {
        free(t);
        free(links);
        return NULL;
    }
    t->links = links;
    t->inbox = inbox;
    int err = open_links(t, contexts);
    if (!err)
        err = nng_socket_set_size(t->socket, NNG_OPT_RECVMAXSZ, REQUEST_ID + RP_HEADER_SIZE + RP_MAX_BODY);
    if (!err)
        err = nng_pipe_notify(t->socket, NNG_PIPE_EV_ADD_PRE, on_pipe, t);
    if (!err)
        err = nng_pipe_notify(t->socket, NNG_PIPE_EV_REM_POST, on_pipe, t);
    if (!failed(err, "nng", why, cap))
        return t;
    rd_transport_close(t);
    return NULL;
}

/* tcp://host:0 took a port of the system's choice: tell it */
static void tell_bound(nng_listener l, const char *url, char *bound, size_t cap)
{
    size_t n = strlen(url);
    int port;
    snprintf(bound, cap, "%s", url);
    if (n > 2 && strcmp(url + n - 2, ":0") == 0 && nng_listener_get_int(l, NNG_OPT_TCP_BOUND_PORT, &port) == 0)
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

static int set_up_listener(const rd_transport *t, nng_listener l, const char *url, unsigned socket_mode)
{
    if (strncmp(url, "ipc:", 4) == 0)
        return nng_listener_set_int(l, NNG_OPT_IPC_PERMISSIONS, (int)socket_mode);
    return strncmp(url, "tls", 3) == 0 ? nng_listener_set_ptr(l, NNG_OPT_TLS_CONFIG, t->tls) : 0;
}

bool rd_transport_listen(rd_transport *t, const char *url, unsigned socket_mode, char *bound, size_t bound_cap, char *why,
                         size_t cap)
{
    nng_listener l;
    if (t->listening == MAX_LISTENERS) {
        snprintf(why, cap, "more than %d URLs", MAX_LISTENERS);
        return false;
    }
    if (failed(nng_listener_create(&l, t->socket, url), url, why, cap))
        return false;
    int err = set_up_listener(t, l, url, socket_mode);
    if (!err)
        err = nng_listener_start(l, 0);
    if (failed(err, url, why, cap)) {
        nng_listener_close(l);
        return false;
    }
    t->listeners[t->listening++] = l;
    tell_bound(l, url, bound, bound_cap);
    return true;
}

void rd_transport_start(rd_transport *t, bool (*quick)(void *arg, rd_request *r), void *arg)
{
    t->quick = quick;
    t->quick_arg = arg;
    for (unsigned i = 0; i < t->contexts; i++)
        receive(&t->links[i]);
}

/* The listeners stay open to the end: closing one takes its connections along, and with them the answers to come. */
void rd_transport_stop_listening(rd_transport *t) { atomic_store_explicit(&t->refusing, true, memory_order_relaxed); }

void rd_transport_close(rd_transport *t)
{
    if (!t)
        return;
    nng_close(t->socket); /* ends every aio with NNG_ECLOSED */
    for (unsigned i = 0; i < t->contexts; i++) {
        nng_aio_free(t->links[i].aio); /* waits for its callback */
        nng_msg_free(t->links[i].message);
        nng_msg_free(t->links[i].reply);
    }
    if (t->tls)
        nng_tls_config_free(t->tls);
    free(t->links);
    free(t);
}

unsigned rd_transport_busy(const rd_transport *t)
{
    return atomic_load_explicit(&((rd_transport *)t)->busy, memory_order_relaxed);
}

/* ---- pipes ---- */
static nng_pipe pipe_of(uint32_t id) { return (nng_pipe){.id = id}; }

static void name_network_peer(nng_pipe p, const char *scheme, char *text, size_t cap)
{
    nng_sockaddr a;
    char host[INET6_ADDRSTRLEN] = "?";
    if (nng_pipe_get_addr(p, NNG_OPT_REMADDR, &a) != 0)
        memset(&a, 0, sizeof a);
    bool v6 = a.s_family == NNG_AF_INET6;
    if (v6)
        inet_ntop(AF_INET6, a.s_in6.sa_addr, host, sizeof host);
    else
        inet_ntop(AF_INET, &a.s_in.sa_addr, host, sizeof host);
    snprintf(text, cap, v6 ? "%s [%s]:%u" : "%s %s:%u", scheme, host, ntohs(v6 ? a.s_in6.sa_port : a.s_in.sa_port));
}

bool rd_transport_peer(const rd_transport *t, uint32_t pipe, rd_peer *peer)
{
    nng_pipe p = pipe_of(pipe);
    int listener = nng_listener_id(nng_pipe_listener(p));
    *peer = (rd_peer){0};
    while (peer->listener < t->listening && nng_listener_id(t->listeners[peer->listener]) != listener)
        peer->listener++;
    if (peer->listener == t->listening)
        return false;
    peer->local = nng_pipe_get_uint64(p, NNG_OPT_IPC_PEER_UID, &peer->uid) == 0 &&
                  nng_pipe_get_uint64(p, NNG_OPT_IPC_PEER_GID, &peer->gid) == 0 &&
                  nng_pipe_get_uint64(p, NNG_OPT_IPC_PEER_PID, &peer->pid) == 0;
    if (peer->local) {
        snprintf(peer->text, sizeof peer->text, "pid %" PRIu64 " uid %" PRIu64, peer->pid, peer->uid);
        return true;
    }
    bool tls;
    bool is_tls = nng_pipe_get_bool(p, NNG_OPT_TLS_VERIFIED, &tls) == 0;
    name_network_peer(p, is_tls ? "tls" : "tcp", peer->text, sizeof peer->text);
    return true;
}

void rd_transport_close_pipe(uint32_t pipe) { nng_pipe_close(pipe_of(pipe)); }

/* ---- answers ---- */
uint8_t *rd_reply_alloc(rd_request *r, size_t body)
{
    link_t *l = link_of(r);
    nng_msg_free(l->reply);
    l->reply = NULL;
    if (nng_msg_alloc(&l->reply, RP_HEADER_SIZE + body) != 0)
        return NULL;
    return (uint8_t *)nng_msg_body(l->reply) + RP_HEADER_SIZE;
}

static void release_message(link_t *l)
{
    nng_msg_free(l->message);
    l->message = NULL;
    l->request.bytes = NULL;
}

void rd_reply_send(rd_request *r, const rp_header *h, atomic_uint *unsent)
{
    link_t *l = link_of(r);
    rp_put_header(nng_msg_body(l->reply), h);
    nng_msg_chop(l->reply, nng_msg_len(l->reply) - RP_HEADER_SIZE - h->body_len);
    release_message(l);
    l->unsent = unsent;
    atomic_fetch_add_explicit(unsent, 1, memory_order_relaxed);
    l->step = SENDING;
    nng_aio_set_msg(l->aio, l->reply);
    l->reply = NULL; /* nng's, or on_sent's, from here on */
    nng_aio_set_timeout(l->aio, SEND_LIMIT_MS);
    nng_ctx_send(l->ctx, l->aio);
}

void rd_request_pass(rd_request *r)
{
    rd_inbox_put(link_of(r)->transport->inbox, (rd_event){.kind = RD_REQUEST, .request = r});
}

void rd_request_forget(rd_request *r)
{
    link_t *l = link_of(r);
    nng_msg_free(l->reply);
    l->reply = NULL;
    release_message(l);
    atomic_fetch_sub_explicit(&l->transport->busy, 1, memory_order_relaxed);
    receive(l);
}

void rd_request_drop(rd_request *r)
{
    rd_transport_close_pipe(r->pipe);
    rd_request_forget(r);
}
