#include "daemon/state/users.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

static uint64_t or (uint64_t given, uint64_t otherwise) { return given ? given : otherwise; }

/* The caps of one user leave room for others: an eighth of the sessions, a quarter of the contexts, half of the
 * arenas. */
void rd_users_configure(rd_users *u, const rd_config *c)
{
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    u->session_cap = or (c->max_user_sessions, c->max_sessions - c->max_sessions / 8);
    u->inflight_cap = or (c->max_user_inflight, c->contexts - c->contexts / 4);
    u->held_cap = or (c->max_user_held << 20, UINT64_MAX);
    u->arena_cap = or (c->arena << 20, memory / 4);
    u->arena_user_cap = or (c->arena_user << 20, u->arena_cap / 2);
}

rd_user *rd_user_find(const rd_users *u, uint64_t uid)
{
    rd_user *x = u->first;
    while (x && x->uid != uid)
        x = x->next;
    return x;
}

rd_user *rd_user_get(rd_users *u, uint64_t uid)
{
    rd_user *x = rd_user_find(u, uid);
    if (!x && (x = calloc(1, sizeof *x))) {
        x->uid = uid;
        x->next = u->first;
        u->first = x;
    }
    if (x)
        x->refs++;
    return x;
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

rp_err rd_user_take_file(rd_users *u, rd_user *user, rp_fault *f)
{
    if (user->files >= RP_MAX_USER_FILES)
        return rp_fail(f, RP_QUOTA, "files", RP_MAX_USER_FILES, "this user has passed %u files", user->files);
    if (u->files >= RP_MAX_FILES)
        return rp_fail(f, RP_QUOTA, "files", RP_MAX_FILES, "all users have passed %u files", u->files);
    user->files++;
    u->files++;
    return RP_OK;
}

rp_err rd_user_take_device(rd_users *u, rd_user *user, rp_fault *f)
{
    if (user->devices >= RP_MAX_USER_DEVICES)
        return rp_fail(f, RP_QUOTA, "devices", RP_MAX_USER_DEVICES, "this user has %u allocations on the device open",
                       user->devices);
    if (u->devices >= RP_MAX_DEVICES)
        return rp_fail(f, RP_QUOTA, "devices", RP_MAX_DEVICES, "all users have %u allocations on the device open", u->devices);
    user->devices++;
    u->devices++;
    return RP_OK;
}

rp_err rd_user_take_arena(rd_users *u, rd_user *user, uint64_t bytes, rp_fault *f)
{
    if (bytes == 0 || bytes > u->arena_user_cap)
        return rp_fail(f, RP_TOO_LARGE, "bytes", u->arena_user_cap, "an arena of %" PRIu64 " bytes", bytes);
    if (bytes > u->arena_user_cap - user->arena_bytes)
        return rp_fail(f, RP_QUOTA, "arena", u->arena_user_cap, "this user's arenas have %" PRIu64 " bytes", user->arena_bytes);
    if (bytes > u->arena_cap - u->arena_bytes)
        return rp_fail(f, RP_QUOTA, "arena", u->arena_cap, "all arenas have %" PRIu64 " bytes", u->arena_bytes);
    user->arena_bytes += bytes;
    u->arena_bytes += bytes;
    return RP_OK;
}

rp_err rd_user_take_resident(rd_users *u, rd_user *user, uint64_t bytes, rp_fault *f)
{
    if (bytes > u->resident_user_cap)
        return rp_fail(f, RP_TOO_LARGE, "bytes", u->resident_user_cap, "an array of %" PRIu64 " bytes", bytes);
    if (user->residents >= RP_MAX_USER_RESIDENTS)
        return rp_fail(f, RP_QUOTA, "residents", RP_MAX_USER_RESIDENTS, "this user has %u resident arrays", user->residents);
    if (u->residents >= RP_MAX_RESIDENTS)
        return rp_fail(f, RP_QUOTA, "residents", RP_MAX_RESIDENTS, "all users have %u resident arrays", u->residents);
    if (bytes > u->resident_user_cap - user->resident_bytes)
        return rp_fail(f, RP_QUOTA, "resident", u->resident_user_cap, "this user's resident arrays have %" PRIu64 " bytes",
                       user->resident_bytes);
    if (bytes > u->resident_cap - u->resident_bytes)
        return rp_fail(f, RP_QUOTA, "resident", u->resident_cap, "all resident arrays have %" PRIu64 " bytes",
                       u->resident_bytes);
    user->residents++;
    u->residents++;
    user->resident_bytes += bytes;
    u->resident_bytes += bytes;
    return RP_OK;
}

void rd_user_give_file(rd_users *u, rd_user *user)
{
    user->files--;
    u->files--;
}

void rd_user_give_device(rd_users *u, rd_user *user)
{
    user->devices--;
    u->devices--;
}

void rd_user_give_arena(rd_users *u, rd_user *user, uint64_t bytes)
{
    user->arena_bytes -= bytes;
    u->arena_bytes -= bytes;
}

void rd_user_give_resident(rd_users *u, rd_user *user, uint64_t bytes)
{
    user->residents--;
    u->residents--;
    user->resident_bytes -= bytes;
    u->resident_bytes -= bytes;
}
