/* The fixed number of exchanges (exchange.h), and the connections that wait for one. */
#ifndef RD_EXCHANGE_POOL_H
#define RD_EXCHANGE_POOL_H

#include "daemon/net/connection.h"
#include "daemon/net/exchange.h"

/* See rd_transport_open. NULL: no memory. */
rd_exchange_pool *rd_exchange_pool_new(rd_connections *all, unsigned exchanges, size_t exchange_size);

/* Set before the first message comes: see rd_transport_start. */
void rd_exchange_pool_start(rd_exchange_pool *pool, bool (*fastpath)(void *arg, rd_exchange *e), void *arg);

unsigned rd_exchange_pool_busy(const rd_exchange_pool *pool);

/* The whole frame of `c` is a request (c->check): it goes to the fast path, else to the loop, with a free exchange.
 * If there is none, `c` waits for one, oldest first. */
rd_step rd_exchange_pool_take(rd_exchange_pool *pool, rd_connection *c);

/* `c` no longer waits. Call with the lock of `all` held. */
void rd_exchange_pool_forget(rd_exchange_pool *pool, const rd_connection *c);

/* Frees all; unanswered requests are lost. Nothing may be received any more. */
void rd_exchange_pool_release(rd_exchange_pool *pool);
void rd_exchange_pool_free(rd_exchange_pool *pool);

#endif
