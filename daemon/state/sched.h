/* Which task goes next. A pure data structure: no I/O, no clock, no memory of its own.
 *
 *     queue  ->  class  ->  user  ->  session  ->  its items, oldest first
 *
 * Classes of a queue, users of a class and sessions of a user take turns by surplus round robin (a deficit round robin that
 * does not know what comes next): each turn adds a quantum to the credit, each item that goes takes its price off, and a taker
 * without credit waits for the next turn. The price of an item is its expected time in the engine; at its end its takers pay or
 * get back the difference to the real time. So takers with work get equal shares of the engine's time, whatever the operations,
 * their sizes and the number of queued items. A taker with nothing queued saves no credit, but keeps the debt of its last item.
 *
 * Queues do not compete: each has a window, the cost and the price that may be under way at one time. So a queue can neither
 * starve nor flood another one. A window is just large enough to keep the engine busy. Everything else waits here, where other
 * items can pass it, its deadline can pass, and it can be taken back. */
#ifndef RD_SCHED_H
#define RD_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/types.h"

typedef enum {
    RD_QUEUE_SMALL, /* tasks of the engine up to RD_SMALL_COST */
    RD_QUEUE_LARGE, /* the others */
    RD_QUEUE_READ,  /* ranges of files that wait for a buffer */
    RD_QUEUES
} rd_queue_kind;

enum {
    RD_TASK_COST = 4096, /* bytes: the constant cost of a task, as many as are reduced in that time */
    RD_SMALL_COST = RP_SMALL_BYTES + RD_TASK_COST,
    RD_WINDOW_NS = 2000000 /* work of the engine ahead of what comes next: several times what launches take */
};

/* A participant in a round: a class, a user or a session. Initialise with zeros. */
typedef struct rd_taker {
    struct rd_taker *parent;      /* NULL: a queue's */
    struct rd_taker *next, *prev; /* the ring of takers with work; NULL: this one has none */
    struct rd_taker *turn;        /* the taker below whose turn it is; NULL: none has work */
    struct rd_item *first, **end; /* a session's items */
    int64_t credit, quantum;      /* ns of the engine; in the queue READ bytes */
} rd_taker;

typedef struct rd_item {
    rd_taker *taker; /* the taker in whose queue it is; NULL: it is in no queue */
    rd_taker *payer; /* the taker that queued it */
    struct rd_item *next, **link;
    uint64_t cost;  /* bytes that it takes of the queue's window */
    uint64_t price; /* what it takes of the payer's credit, in the credit's unit */
    rd_queue_kind queue;
    bool running; /* between rd_sched_next and its end */
} rd_item;

typedef struct rd_sched {
    struct rd_queue {
        rd_taker all, class[RP_PRIORITY_COUNT];
        uint64_t window, running; /* bytes of cost */
        uint64_t price_window, running_price;
        unsigned queued;
    } queue[RD_QUEUES];
} rd_sched;

/* The scheduler's part of a user or session. Initialise with zeros. */
typedef struct rd_sched_user {
    rd_taker taker[RD_QUEUES][RP_PRIORITY_COUNT];
} rd_sched_user;

typedef struct rd_sched_session {
    rd_taker taker[RD_QUEUES];
} rd_sched_session;

/* Windows in bytes of cost. That of READ is what the caller has buffers for. */
void rd_sched_init(rd_sched *s, uint64_t small_window, uint64_t large_window);

/* Set new windows, when the number of devices has changed. Devices work in parallel; `large_window` is for all together. */
void rd_sched_windows(rd_sched *s, uint64_t small_window, uint64_t large_window, unsigned devices);

/* Put the session below this user, in this class (rp_priority). Its queues are empty. */
void rd_sched_join(rd_sched *s, rd_sched_session *x, rd_sched_user *user, int priority);

void rd_sched_put(rd_sched *s, rd_sched_session *x, rd_item *i, rd_queue_kind queue, uint64_t cost, uint64_t price);

/* Take the next item, which runs from now on. NULL: nothing waits, or the window is full. An item may exceed the window's
 * rest. */
rd_item *rd_sched_next(rd_sched *s, rd_queue_kind queue);

/* A running item has ended; `spent` is its real cost, in the unit of its price. Does nothing if it is not running. */
void rd_sched_end(rd_sched *s, rd_item *i, uint64_t spent);

/* Take an item back. False: it is not queued. */
bool rd_sched_remove(rd_sched *s, rd_item *i);

#endif
