/* Moves resident data that were restored while the devices were opening to the devices. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/state/resident.h"

/* A copy that will replace `from`, of which it holds a reference. */
typedef struct move {
    rd_resident resident; /* first */
    rd_resident *from;
} move;

static void resident_move_run(rd_work *w)
{
    move *m = (move *)w;
    rd_resident *x = &m->resident;
    if (rd_resident_memory(x, false) == RP_OK)
        rk_memory_write(x->memory, m->from->kept.base, &x->fault);
}

static void replace(rd_resident *from, rd_resident *x)
{
    rd_resident **at = &from->user->resident;
    while (*at != from)
        at = &(*at)->next;
    pthread_mutex_lock(&x->holdings->lock);
    x->next = from->next;
    *at = x;
    pthread_mutex_unlock(&x->holdings->lock);
    x->stored = from->stored;
    x->copied = true;
    x->holdings->copied += x->bytes;
    from->stored = false;
    from->dropped = true;
    rd_resident_release(from); /* the list's reference */
}

static void resident_move_done(rd_work *w)
{
    move *m = (move *)w;
    rd_resident *x = &m->resident, *from = m->from;
    if (x->fault.code)
        rd_log(RD_LOG_WARN, "'%s' of uid %" PRIu64 " stays in the host's memory: %s", x->name, x->user->uid, x->fault.text);
    if (x->fault.code || from->dropped)
        rd_resident_release(x);
    else
        replace(from, x);
    rd_resident_release(from);
}

/* Describes the same data, still without memory. NULL: no memory. */
static move *copy_of(rd_resident *from)
{
    move *m = calloc(1, sizeof *m);
    rd_resident *x = &m->resident;
    if (!m)
        return NULL;
    *m = (move){.resident = {.holdings = from->holdings,
                             .id = from->id,
                             .dtype = from->dtype,
                             .ttl_ms = from->ttl_ms,
                             .bytes = from->bytes,
                             .place = from->place,
                             .shape = from->shape,
                             .fault = {.index = RP_NO_INDEX},
                             .since_ns = from->since_ns,
                             .until_ns = from->until_ns,
                             .kept = RD_KEPT_NONE,
                             .sealed = true},
                .from = from};
    memcpy(x->name, from->name, sizeof x->name);
    atomic_init(&x->refs, 1);
    return m;
}

void rd_resident_move(rd_resident *from)
{
    rd_holdings *h = from->holdings;
    rd_user *user = from->user;
    move *m = rk_memory_place(from->memory) == RK_PLACE_ANY ? copy_of(from) : NULL;
    if (!m)
        return;
    rd_resident *x = &m->resident;
    x->user = rd_user_get(h->users, user->uid); /* found: the user exists */
    rd_charge_anyway(h->users, user, RD_HELD_RESIDENTS, 1);
    rd_charge_anyway(h->users, user, RD_HELD_RESIDENT_BYTES, x->bytes);
    rd_resident_hold(from);
    x->work = (rd_work){.run = resident_move_run, .done = resident_move_done, .running = &user->running, .busy = &user->busy};
    rd_workers_add(h->workers, &x->work);
}

void rd_residents_move(rd_holdings *h)
{
    for (rd_user *user = h->users->first; user; user = user->next)
        for (rd_resident *x = user->resident; x; x = x->next)
            rd_resident_move(x);
}
