#include "daemon/request/held.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/net/limits.h"
#include "daemon/request/entries.h"

enum { MOST_USERS = 64 }; /* rows of other users: a status is read by people */

static void put_limit(rp_writer *w, const char *group, const char *key, uint64_t held, const char *limits, uint64_t cap)
{
    if (held || cap)
        rd_put_u64_of(w, group, key, held);
    if (cap)
        rd_put_u64_of(w, limits, key, cap);
}

/* Charges that other modules keep: threads (the workers) and unfinished frames (the transport). */
static void put_own(rd_requests *q, const rd_user *user, rp_writer *w)
{
    rd_workers *threads = q->holdings->workers;
    for (unsigned k = 0; k < RD_CHARGE_KINDS; k++)
        put_limit(w, "held", rd_charge_key(k), rd_held(&user->charges, k), "limit", q->users->cap[k]);
    put_limit(w, "held", "threads", rd_workers_running(threads, &user->running), "limit", threads->per_user);
    put_limit(w, "held", "frame_bytes", rd_transport_frame_bytes(q->transport, user->uid), "limit", RD_MAX_ORIGIN_FRAMES);
}

static void put_user(rd_requests *q, const rd_user *user, rp_writer *w)
{
    char group[32];
    bool named = rd_user_is_named(user);
    if (named) {
        snprintf(group, sizeof group, "user.tls%" PRIu64, user->uid - RD_FIRST_NAMED + 1);
        rd_put_text_of(w, group, "name", user->text); /* it may be longer than a key */
    } else {
        snprintf(group, sizeof group, "user.%.20s", user->text); /* a number, or "tcp" */
    }
    for (unsigned k = 0; k < RD_CHARGE_KINDS; k++)
        put_limit(w, group, rd_charge_key(k), rd_held(&user->charges, k), "", 0);
    put_limit(w, group, "threads", rd_workers_running(q->holdings->workers, &user->running), "", 0);
}

void rd_put_held(rd_requests *q, const rd_session *x, rp_writer *w)
{
    unsigned rows = 0;
    put_own(q, x->owner, w);
    if (!rd_session_is_admin(x))
        return;
    for (unsigned k = 0; k < RD_CHARGE_KINDS; k++)
        put_limit(w, "all", rd_charge_key(k), rd_held(&q->users->charges, k), "all_limit", q->users->cap_all[k]);
    for (const rd_user *user = q->users->first; user && rows < MOST_USERS; user = user->next)
        if (user != x->owner) {
            put_user(q, user, w);
            rows++;
        }
}
