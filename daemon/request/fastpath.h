/* Reductions that are answered without a turn of the loop, many at once: small ones, and those whose data the engine has.
 *
 * * A sum of some KiB takes a microsecond; handing it to the loop and back takes ten times that, and all replies would go
 * out through one thread. So the CPU engine computes a REDUCE that is small, well formed and of a known session in the
 * thread that received it, which answers at once. A REDUCE_AT of any size of resident data or of memory on the device goes
 * from there to the engine, and a thread of the engine answers it. It must find the engine at rest (RK_ALONE), and no request
 * waiting for its turn. Everything else, every error included, is left to the loop, which owns sessions and says what is wrong.
 * So is a request that comes back from the engine without a result, or too late.
 *
 * * What these threads touch: the session table (under its lock), a session that is held, its handles and its user's
 * resident data (under holdings->lock; what is found is held), rd_workers_add, the engine's rk_submit without RK_QUEUED,
 * and the shared tally of stats (under its lock). The gate keeps all of it alive for the threads of the
 * network: rd_fastpath_close waits for those inside. Tasks that the engine still has then are counted in `under_way`. Draining
 * waits for them. At the end rk_stop makes the engine return the rest, and rd_fastpath_wait waits until they are answered. */
#ifndef RD_FASTPATH_H
#define RD_FASTPATH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "daemon/net/exchange.h"

struct rd_request;
struct rd_requests;

typedef struct rd_fastpath {
    pthread_rwlock_t gate; /* read-locked inside; written to open and close */
    atomic_bool open;
    struct rd_requests *requests; /* of this, what is said above */
    size_t max_bytes;             /* of elements in a message, and of cells: larger requests are not looked at */
    atomic_uint under_way;        /* tasks handed to the engine from here */
    pthread_mutex_t lock;         /* of their list */
    struct rd_request *handed_in;
    atomic_uint max_taken, max_unsent; /* requests of a session with more of them here, or more unsent replies, are left to the
                                          loop */
} rd_fastpath;

bool rd_fastpath_init(rd_fastpath *p);
void rd_fastpath_fini(rd_fastpath *p);

/* From now on requests are taken. */
void rd_fastpath_open(rd_fastpath *p, struct rd_requests *q, size_t max_bytes);
void rd_fastpath_reopen(rd_fastpath *p); /* after rd_fastpath_close */
void rd_fastpath_close(rd_fastpath *p);  /* take no more requests, and wait for threads inside; may be repeated */

/* Tasks of the fast path that the engine has. Once the path is closed, the loop is woken when the last of them is back. */
unsigned rd_fastpath_under_way(const rd_fastpath *p);

/* After rk_stop: wait until all of them are answered. */
void rd_fastpath_wait(const rd_fastpath *p);

/* Call `each` for the requests of these tasks, which do not change meanwhile. */
void rd_fastpath_each(rd_fastpath *p, void (*each)(void *arg, const struct rd_request *r), void *arg);

/* For each session; before rd_fastpath_open and later. */
void rd_fastpath_limit(rd_fastpath *p, unsigned max_taken, unsigned max_unsent);

/* The network's threads: take the message and answer it now or later, or return false and leave it as it was. */
bool rd_fastpath_answer(void *fastpath, rd_exchange *e);

#endif
