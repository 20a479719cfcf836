#include "daemon/net/inbox.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/brief_lock.h"

bool rd_inbox_init(rd_inbox *b, size_t exchanges, void (*wake)(void *arg), void *wake_arg)
{
    *b = (rd_inbox){.cap = 2 * exchanges + 64, .owed = exchanges, .wake = wake, .wake_arg = wake_arg};
    b->ring = malloc(b->cap * sizeof *b->ring);
    return rd_brief_lock_init(&b->lock) && b->ring;
}

void rd_inbox_fini(rd_inbox *b)
{
    pthread_mutex_destroy(&b->lock);
    free(b->ring);
}

/* Room for `need` events; the ring is straightened on the way. */
static bool grow(rd_inbox *b, size_t need)
{
    if (need <= b->cap)
        return true;
    size_t cap = 2 * need, head = b->cap - b->first;
    rd_event *ring = malloc(cap * sizeof *ring);
    if (!ring)
        return false;
    if (head > b->used)
        head = b->used;
    memcpy(ring, b->ring + b->first, head * sizeof *ring);
    memcpy(ring + head, b->ring, (b->used - head) * sizeof *ring);
    free(b->ring);
    b->ring = ring;
    b->cap = cap;
    b->first = 0;
    return true;
}

static bool put_locked(rd_inbox *b, rd_event e)
{
    if (b->closed)
        return false;
    /* An opening connection brings two events, and the second one, its closing, must find room. Events in the ring were owed
     * before or have a closing to come, so used + owed bounds everything. */
    if (e.kind == RD_CONNECTION_OPENED) {
        bool room = grow(b, b->used + b->owed + 2);
        b->owed++; /* its closing is reported even if it is refused */
        if (!room)
            return false;
    } else if (e.kind == RD_CONNECTION_CLOSED) {
        b->owed--;
    }
    if (b->used == b->cap)
        return false;
    size_t at = b->first + b->used++;
    b->ring[at < b->cap ? at : at - b->cap] = e;
    return true;
}

bool rd_inbox_put(rd_inbox *b, rd_event e)
{
    pthread_mutex_lock(&b->lock);
    bool ok = put_locked(b, e), wake = ok && !b->awake;
    b->awake |= ok;
    pthread_mutex_unlock(&b->lock);
    if (wake) /* outside the lock: otherwise the loop would wake up and wait for it */
        b->wake(b->wake_arg);
    return ok;
}

size_t rd_inbox_take(rd_inbox *b, rd_event *out, size_t cap)
{
    pthread_mutex_lock(&b->lock);
    size_t n = 0;
    for (; n < cap && b->used; n++) {
        out[n] = b->ring[b->first];
        b->first = b->first + 1 == b->cap ? 0 : b->first + 1;
        b->used--;
    }
    b->awake = n > 0;
    pthread_mutex_unlock(&b->lock);
    return n;
}

void rd_inbox_close(rd_inbox *b)
{
    pthread_mutex_lock(&b->lock);
    b->closed = true;
    pthread_mutex_unlock(&b->lock);
}
