#include "daemon/net/transport.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/config.h"
#include "daemon/base/paths.h"
#include "daemon/net/connection.h"
#include "daemon/net/exchange_pool.h"
#include "daemon/net/receiving.h"
#include "daemon/net/sending.h"
#include "daemon/net/wire.h"

struct rd_transport {
    rd_connections connections;
    rd_exchange_pool *pool;
    rd_listener *listeners[RD_MAX_LISTEN];
    unsigned listening;
    const rd_workers *workers;
    rd_unix_threads *unix_threads; /* NULL: none */
    rd_nng_tls *tls;               /* NULL: none */
    atomic_bool refusing;          /* new connections are closed at once */
};

/* ---- open ---- */
rd_transport *rd_transport_open(rd_inbox *inbox, unsigned exchanges, size_t exchange_size, const rd_workers *workers)
{
    rd_transport *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->pool = rd_exchange_pool_new(&t->connections, exchanges, exchange_size);
    if (!t->pool) {
        free(t);
        return NULL;
    }
    t->workers = workers;
    rd_connections_init(&t->connections, inbox, t->pool);
    return t;
}

bool rd_transport_tls(rd_transport *t, const rp_pem_files *files, bool any, char *why, size_t cap)
{
    t->tls = rd_nng_tls_open(files, any, why, cap);
    return t->tls != NULL;
}

bool rd_transport_tls_renew(rd_transport *t, const rp_pem_files *files, unsigned *changed, char *why, size_t cap)
{
    if (!rd_nng_tls_renew(t->tls, files, changed, why, cap))
        return false;
    if (*changed & (RD_TLS_NEW_CA | RD_TLS_NEW_CRL))
        rd_connections_distrust(&t->connections);
    return true;
}

rd_cert_ends rd_transport_tls_ends(const rd_transport *t) { return t->tls ? rd_nng_tls_ends(t->tls) : (rd_cert_ends){0}; }

bool rd_transport_tls_check(const rp_pem_files *files, bool any, char *why, size_t cap)
{
    rd_nng_tls *tls = rd_nng_tls_open(files, any, why, cap);
    rd_nng_tls_close(tls);
    return tls != NULL;
}

/* ---- listen ---- */
static void transport_opened(void *arg, rd_wire *w)
{
    rd_transport *t = arg;
    bool refuses = atomic_load_explicit(&t->refusing, memory_order_relaxed);
    rd_connection *c = refuses ? NULL : rd_connection_new(&t->connections, w);
    if (c)
        rd_receiving_begin(c);
    else
        w->ops->free(w);
}

static rd_listener *listen_to(rd_transport *t, const char *url, int passed, char *bound, size_t bound_cap, char *why,
                              size_t cap)
{
    static const rd_wire_events events = {transport_opened, rd_receiving_received, rd_sending_sent};
    const char *path = rd_ipc_path(url);
    snprintf(bound, bound_cap, "%s", url);
    if (!path)
        return rd_nng_listen(url, t->tls, &events, t, bound, bound_cap, why, cap);
    if (!t->unix_threads)
        t->unix_threads = rd_unix_open(t->workers);
    if (t->unix_threads)
        return rd_unix_listen(t->unix_threads, path, passed, &events, t, why, cap);
    snprintf(why, cap, "%s: no threads to serve it", url);
    return NULL;
}

bool rd_transport_listen(rd_transport *t, const char *url, int passed, char *bound, size_t bound_cap, char *why, size_t cap)
{
    if (t->listening == RD_MAX_LISTEN) {
        snprintf(why, cap, "more than %d URLs", RD_MAX_LISTEN);
        return false;
    }
    rd_listener *l = listen_to(t, url, passed, bound, bound_cap, why, cap);
    if (!l)
        return false;
    l->number = t->listening;
    t->listeners[t->listening++] = l;
    return true;
}

int rd_transport_bind_again(rd_transport *t, unsigned number)
{
    rd_listener *l = t->listeners[number];
    return l->ops->again ? l->ops->again(l) : 0;
}

void rd_transport_start(rd_transport *t, bool (*fastpath)(void *arg, rd_exchange *e), void *arg)
{
    rd_exchange_pool_start(t->pool, fastpath, arg);
    for (unsigned i = 0; i < t->listening; i++)
        t->listeners[i]->ops->start(t->listeners[i]);
}

/* The listeners stay open to the end: a missing ipc socket looks like no daemon at all, so a client would start another. */
void rd_transport_stop_listening(rd_transport *t)
{
    for (unsigned i = 0; i < t->listening; i++)
        if (t->listeners[i]->ops->pause)
            t->listeners[i]->ops->pause(t->listeners[i]);
    atomic_store_explicit(&t->refusing, true, memory_order_relaxed);
}

/* ---- close ---- */
void rd_transport_close(rd_transport *t)
{
    if (!t)
        return;
    for (unsigned i = 0; i < t->listening; i++)
        t->listeners[i]->ops->close(t->listeners[i]);
    rd_connections_hang_up(&t->connections);
    rd_exchange_pool_release(t->pool);
    rd_connections_wait(&t->connections);
    rd_unix_close(t->unix_threads);
    rd_nng_tls_close(t->tls);
    rd_connections_destroy(&t->connections);
    rd_exchange_pool_free(t->pool);
    free(t);
}

/* ---- what is under way ---- */
void rd_transport_tick(rd_transport *t) { rd_connections_tick(&t->connections); }

unsigned rd_transport_busy(const rd_transport *t) { return rd_exchange_pool_busy(t->pool); }

bool rd_transport_is_quiet(const rd_transport *t)
{
    return rd_transport_busy(t) == 0 &&
           atomic_load_explicit(&((rd_transport *)t)->connections.unsent, memory_order_relaxed) == 0;
}

bool rd_transport_holds_back(const rd_transport *t) { return t->tls != NULL; }

/* ---- connections by their ids ---- */
bool rd_transport_peer(rd_transport *t, uint32_t connection, rd_peer *peer)
{
    rd_connection *c = rd_connection_find(&t->connections, connection);
    if (!c)
        return false;
    bool known = c->wire->ops->peer(c->wire, peer);
    peer->listener = c->wire->listener;
    peer->no_room = c->wire->no_room;
    rd_connection_let_go(c);
    return known;
}

void rd_transport_hang_up(rd_transport *t, uint32_t connection)
{
    rd_connection *c = rd_connection_find(&t->connections, connection);
    if (!c)
        return;
    rd_connection_hang_up(c);
    rd_connection_let_go(c);
}

uint64_t rd_transport_frame_bytes(rd_transport *t, uint64_t uid)
{
    pthread_mutex_lock(&t->connections.lock);
    uint64_t bytes = rd_origin_frame_bytes(&t->connections.origins, (rd_origin){.local = true, .key = uid});
    pthread_mutex_unlock(&t->connections.lock);
    return bytes;
}
