/* Which task goes next. A pure data structure: no I/O, no clock, no memory of its own.
 *
 *     queue  ->  class  ->  user  ->  session  ->  its items, oldest first
 *
 * Classes of a queue, users of a class and sessions of a user take turns by surplus round robin (a deficit round robin that
 * does not know what comes next): each turn adds a quantum to the credit, each item that goes takes its price off, and a taker
 * with none left waits for the next turn. The price of an item is what the engine is expected to work for it; at its end its
 * takers pay or get back the difference to the time that it took. So those that have work get equal shares of the engine's
 * time, whatever they ask for, however they cut it and however many items they queue. A taker with nothing queued saves
 * nothing, but owes what the last item took too much.
 *
 * Queues do not compete: each has a window, the cost and the price that may be under way at one time, so a queue can neither
 * starve nor flood another one. A window is as much as keeps the engine busy; everything else waits here, where it can be
 * overtaken by others, run out of time, and be taken back. */
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
    RD_TASK_COST = 4096,                  /* of a task as such, in bytes: that many are reduced in the time it takes */
    RD_SMALL_COST = 65536 + RD_TASK_COST, /* data and results that a GPU reduces in little more than a launch */
    RD_WINDOW_NS = 2000000                /* work of the engine ahead of what comes next: several times what launches take */
};

/* One that takes turns with others. All zero to begin with. */
typedef struct rd_taker {
    struct rd_taker *parent;      /* NULL: a queue's */
    struct rd_taker *next, *prev; /* the ring of those with work; NULL: it has none */
    struct rd_taker *turn;        /* of those below, whose turn it is; NULL: none has work */
    struct rd_item *first, **end; /* a session's items */
    int64_t credit, quantum;      /* ns of the engine; in the queue READ bytes */
} rd_taker;

typedef struct rd_item {
    rd_taker *taker; /* in whose queue it is; NULL: in none */
    rd_taker *payer; /* the taker that queued it */
    struct rd_item *next, **link;
    uint64_t cost;  /* bytes: of the queue's window */
    uint64_t price; /* of the payer's credit, in its unit */
    rd_queue_kind queue;
    bool running; /* taken by rd_sched_next, and not ended */
} rd_item;

typedef struct rd_sched {
    struct rd_queue {
        rd_taker all, class[RP_PRIORITY_COUNT];
        uint64_t window, running; /* bytes of cost */
        uint64_t price_window, running_price;
        unsigned queued;
    } queue[RD_QUEUES];
} rd_sched;

/* What users and sessions keep here. All zero to begin with. */
typedef struct rd_sched_user {
    rd_taker taker[RD_QUEUES][RP_PRIORITY_COUNT];
} rd_sched_user;

typedef struct rd_sched_session {
    rd_taker taker[RD_QUEUES];
} rd_sched_session;

/* Windows in bytes of cost. That of READ is what the caller has buffers for. */
void rd_sched_init(rd_sched *s, uint64_t small_window, uint64_t large_window);

/* Other windows, when the number of devices has changed. They work side by side; `large_window` is that of all together. */
void rd_sched_windows(rd_sched *s, uint64_t small_window, uint64_t large_window, unsigned devices);

/* The session is one of this user, in this class (rp_priority). Its queues are empty. */
void rd_sched_join(rd_sched *s, rd_sched_session *x, rd_sched_user *user, int priority);

void rd_sched_put(rd_sched *s, rd_sched_session *x, rd_item *i, rd_queue_kind queue, uint64_t cost, uint64_t price);

/* Take off the next item: it runs now. NULL: nothing waits, or the window is full. An item may go beyond the window. */
rd_item *rd_sched_next(rd_sched *s, rd_queue_kind queue);

/* A running item is done; `spent` is what it should have cost, in the unit of its price. Nothing if it is not running. */
void rd_sched_end(rd_sched *s, rd_item *i, uint64_t spent);

/* Take an item back. False: it is not queued. */
bool rd_sched_remove(rd_sched *s, rd_item *i);

#endif
