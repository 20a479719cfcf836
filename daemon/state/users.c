#include "daemon/state/users.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/host.h"
#include "daemon/state/limits.h"

static uint64_t given_or(uint64_t given, uint64_t otherwise) { return given ? given : otherwise; }

/* The caps of one user leave room for others: an eighth of the sessions, a quarter of the contexts, half of the
 * arenas. */
void rd_users_configure(rd_users *u, const rd_config *c)
{
    u->cap[RD_HELD_SESSIONS] = given_or(c->max_user_sessions, c->max_sessions - c->max_sessions / 8);
    u->cap[RD_HELD_REQUESTS] = given_or(c->max_user_inflight, c->contexts - c->contexts / 4);
    u->cap[RD_HELD_MESSAGE_BYTES] = c->max_user_held << 20;
    u->cap[RD_HELD_REPLY_BYTES] = RD_MAX_USER_UNREAD;
    u->cap[RD_HELD_STREAM_BYTES] = RD_MAX_USER_STREAM_BYTES;
    u->cap[RD_HELD_SCRATCH_BYTES] = RD_MAX_USER_SCRATCH;
    u->cap[RD_HELD_FILES] = RP_MAX_USER_FILES;
    u->cap[RD_HELD_ARENAS] = RP_MAX_USER_ARENAS;
    u->cap[RD_HELD_DEVICES] = RP_MAX_USER_DEVICES;
    u->cap[RD_HELD_RESIDENTS] = RP_MAX_USER_RESIDENTS;
    u->cap[RD_HELD_CLOSING] = RP_MAX_USER_CLOSING;
    u->cap_all[RD_HELD_SESSIONS] = c->max_sessions;
    u->cap_all[RD_HELD_REQUESTS] = c->contexts;
    u->cap_all[RD_HELD_FILES] = RP_MAX_FILES;
    u->cap_all[RD_HELD_ARENAS] = RP_MAX_ARENAS;
    u->cap_all[RD_HELD_DEVICES] = RP_MAX_DEVICES;
    u->cap_all[RD_HELD_RESIDENTS] = RP_MAX_RESIDENTS;
    u->cap_all[RD_HELD_ARENA_BYTES] = given_or(c->arena << 20, rd_host_memory() / 4);
    u->cap[RD_HELD_ARENA_BYTES] = given_or(c->arena_user << 20, u->cap_all[RD_HELD_ARENA_BYTES] / 2);
}

rd_user *rd_user_find(const rd_users *u, uint64_t uid)
{
    rd_user *x = u->first;
    while (x && x->uid != uid)
        x = x->next;
    return x;
}

/* A new user. NULL: no memory. */
static rd_user *add_user(rd_users *u, uint64_t uid)
{
    rd_user *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->uid = uid;
    snprintf(x->text, sizeof x->text, uid == RD_NETWORK ? "tcp" : "%" PRIu64, uid);
    x->charges.unsent.of = &u->charges.unsent;
    x->next = u->first;
    u->first = x;
    return x;
}

static rd_user *hold(rd_user *x)
{
    if (x)
        x->refs++;
    return x;
}

rd_user *rd_user_get(rd_users *u, uint64_t uid)
{
    rd_user *x = rd_user_find(u, uid);
    return hold(x ? x : add_user(u, uid));
}

/* ---- names from certificates ---- */
static const char PREFIX[] = "tls:";
enum { PREFIX_LEN = sizeof PREFIX - 1 };

const char *rd_user_name(const rd_user *x) { return rd_user_is_named(x) ? x->text + PREFIX_LEN : ""; }

rd_user *rd_user_get_named(rd_users *u, const char *name)
{
    rd_user *x = u->first;
    while (x && strcmp(rd_user_name(x), name) != 0)
        x = x->next;
    if (!x && (x = add_user(u, RD_FIRST_NAMED + u->names))) {
        u->names++;
        snprintf(x->text, sizeof x->text, "%s%.*s", PREFIX, RD_USER_NAME, name);
    }
    return hold(x);
}

bool rd_user_looks_alike(const rd_users *u, const char *name)
{
    for (const rd_user *x = u->first; x; x = x->next)
        if (strcmp(rd_user_name(x), name) != 0 && rd_user_names_look_alike(rd_user_name(x), name))
            return true;
    return false;
}

void rd_user_put(rd_users *u, rd_user *user)
{
    if (--user->refs)
        return;
    rd_user **at = &u->first;
    while (*at != user)
        at = &(*at)->next;
    *at = user->next;
    free(user);
}

/* ---- charges ---- */
static const struct {
    const char *key, *field, *what;
} table[] = {
#define X(NAME, key, field, what) {key, field, what},
    RD_CHARGES(X)
#undef X
};

const char *rd_charge_key(rd_charge_kind kind) { return table[kind].key; }

uint64_t rd_held(const rd_charges *c, rd_charge_kind kind)
{
    if (kind == RD_HELD_REPLIES)
        return rd_account_things(&c->unsent);
    if (kind == RD_HELD_REPLY_BYTES)
        return rd_account_bytes(&c->unsent);
    return atomic_load_explicit((atomic_uint_least64_t *)&c->held[kind], memory_order_relaxed);
}

static void add(rd_charges *c, rd_charge_kind kind, uint64_t n)
{
    atomic_fetch_add_explicit(&c->held[kind], n, memory_order_relaxed);
}

void rd_charge_anyway(rd_users *u, rd_user *user, rd_charge_kind kind, uint64_t n)
{
    add(&user->charges, kind, n);
    add(&u->charges, kind, n);
}

void rd_discharge(rd_users *u, rd_user *user, rd_charge_kind kind, uint64_t n) { rd_charge_anyway(u, user, kind, 0 - n); }

/* Would `n` more exceed the cap? The cap may have been lowered below what is held. */
static bool is_above(const rd_charges *c, rd_charge_kind kind, uint64_t n, uint64_t cap)
{
    uint64_t held = rd_held(c, kind);
    return cap && (held > cap || n > cap - held);
}

rp_err rd_may_hold(const rd_users *u, const rd_user *user, rd_charge_kind kind, uint64_t n, rp_fault *f)
{
    uint64_t cap = u->cap[kind], all = u->cap_all[kind];
    if (cap && n > cap)
        return rp_fail(f, RP_TOO_LARGE, "bytes", cap, "%" PRIu64 " %s", n, table[kind].what);
    if (is_above(&user->charges, kind, n, cap))
        return rp_fail(f, RP_QUOTA, table[kind].field, cap, "this user has %" PRIu64 " %s", rd_held(&user->charges, kind),
                       table[kind].what);
    if (is_above(&u->charges, kind, n, all))
        return rp_fail(f, RP_QUOTA, table[kind].field, all, "all users have %" PRIu64 " %s", rd_held(&u->charges, kind),
                       table[kind].what);
    return RP_OK;
}

rp_err rd_charge(rd_users *u, rd_user *user, rd_charge_kind kind, uint64_t n, rp_fault *f)
{
    rp_err err = rd_may_hold(u, user, kind, n, f);
    if (!err)
        rd_charge_anyway(u, user, kind, n);
    return err;
}
