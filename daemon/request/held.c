#include "daemon/request/held.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/net/limits.h"

enum { MOST_USERS = 64 }; /* rows of other users: a status is read by people */

static void put(rp_writer *w, const char *group, const char *key, uint64_t v)
{
    char text[RP_MAX_KEY + 1];
    snprintf(text, sizeof text, "%s.%s", group, key);
    rp_entry e = {.kind = RP_KIND_U64, .key = text, .key_len = (uint8_t)strlen(text), .u64 = v};
    rp_put_entry(w, &e);
}

static void put_limit(rp_writer *w, const char *group, const char *key, uint64_t held, const char *limits, uint64_t cap)
{
    if (held || cap)
        put(w, group, key, held);
    if (cap)
        put(w, limits, key, cap);
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

/* A name may have more bytes than a key: "user.tls1.name" has it, and the rest of the group is "user.tls1". */
static void put_name(const rd_user *user, const char *group, rp_writer *w)
{
    char key[RP_MAX_KEY + 1];
    snprintf(key, sizeof key, "%s.name", group);
    rp_entry e = {.kind = RP_KIND_TEXT, .key = key, .key_len = (uint8_t)strlen(key), .text = user->text};
    e.text_len = (uint16_t)strlen(user->text);
    rp_put_entry(w, &e);
}

static void put_user(rd_requests *q, const rd_user *user, rp_writer *w)
{
    char group[32];
    bool named = rd_user_is_named(user);
    if (named) {
        snprintf(group, sizeof group, "user.tls%" PRIu64, user->uid - RD_FIRST_NAMED + 1);
        put_name(user, group, w);
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
