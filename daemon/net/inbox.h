/* What the wires' threads report to the loop: a ring under a mutex beside a wake-up. The wake-up may coalesce; the ring counts.
 *
 * Events of one connection come in the order opened, messages, closed. But a message that was passed on later than others
 * (rd_exchange_pass) may still come after `closed`. */
#ifndef RD_INBOX_H
#define RD_INBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { RD_CONNECTION_OPENED, RD_CONNECTION_CLOSED, RD_MESSAGE } rd_event_kind;

typedef struct rd_event {
    rd_event_kind kind;
    uint32_t connection;          /* RD_CONNECTION_* */
    bool misbehaved;              /* RD_CONNECTION_CLOSED: for a bad frame */
    struct rd_exchange *exchange; /* RD_MESSAGE */
} rd_event;

typedef struct rd_inbox {
    pthread_mutex_t lock;
    rd_event *ring;
    size_t cap, first, used;
    size_t owed; /* room kept for events that cannot be refused: one per exchange, one per open connection */
    bool awake;  /* the loop was woken or is at work, and will take again: it needs no wake-up */
    bool closed;
    void (*wake)(void *arg);
    void *wake_arg;
} rd_inbox;

/* `exchanges`: how many RD_MESSAGE events can be in the inbox at one time. False: no memory. */
bool rd_inbox_init(rd_inbox *b, size_t exchanges, void (*wake)(void *arg), void *wake_arg);
void rd_inbox_fini(rd_inbox *b);

/* Any thread. RD_CONNECTION_OPENED can fail (no memory, inbox closed): the connection must be refused then. The others fail
 * only for a refused connection or a closed inbox, where they do not matter. */
bool rd_inbox_put(rd_inbox *b, rd_event e);

/* The loop: up to `cap` events, oldest first. After an empty answer, and only then, the next event wakes the loop. */
size_t rd_inbox_take(rd_inbox *b, rd_event *out, size_t cap);

/* The loop is leaving: later events are dropped. A wake-up may still be under way until the wires' threads are stopped. */
void rd_inbox_close(rd_inbox *b);

#endif
