#include "daemon/state/resident.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/base/log.h"
#include "daemon/base/notify.h"
#include "proto/clock.h"

/* ---- workers ---- */
rp_err rd_resident_memory(rd_resident *x, bool lend)
{
    rd_holdings *h = x->holdings;
    const int place = x->place == RP_PLACE_ANY      ? RK_PLACE_ANY
                      : x->place == RP_PLACE_SPREAD ? RK_PLACE_SPREAD
                                                    : x->place - RP_PLACE_DEVICE;
    if (lend)
        return rk_memory_lend(h->engine, place, x->kept.base, x->bytes, &x->memory, &x->fault);
    return rk_memory_new(h->engine, place, x->bytes, &x->memory, &x->fault);
}

static void resident_make(rd_work *c)
{
    rd_resident *x = (rd_resident *)c;
    const bool in_place = x->holdings->keep == RD_KEEP_IN_PLACE;
    if (in_place && !rd_kept_make(&x->kept, x->bytes))
        rp_fail(&x->fault, RP_NO_MEMORY, "memory", 0, "no memory of %" PRIu64 " bytes", x->bytes);
    else
        rd_resident_memory(x, in_place);
}

static void resident_free(rd_work *c)
{
    rd_resident *x = (rd_resident *)c;
    rk_memory_close(x->holdings->engine, x->memory);
    rd_kept_free(&x->kept);
}

static rp_err take(rd_users *users, rd_user *user, uint64_t bytes, rp_fault *f)
{
    if (bytes > users->cap[RD_HELD_RESIDENT_BYTES])
        return rp_fail(f, RP_TOO_LARGE, "bytes", users->cap[RD_HELD_RESIDENT_BYTES], "an array of %" PRIu64 " bytes", bytes);
    rp_err err = rd_charge(users, user, RD_HELD_RESIDENTS, 1, f);
    if (!err && (err = rd_charge(users, user, RD_HELD_RESIDENT_BYTES, bytes, f)))
        rd_discharge(users, user, RD_HELD_RESIDENTS, 1);
    return err;
}

static void give(rd_users *users, rd_user *user, uint64_t bytes)
{
    rd_discharge(users, user, RD_HELD_RESIDENT_BYTES, bytes);
    rd_discharge(users, user, RD_HELD_RESIDENTS, 1);
}

static void resident_freed(rd_work *c)
{
    rd_resident *x = (rd_resident *)c;
    rd_users *users = x->holdings->users;
    if (x->copied)
        x->holdings->copied -= x->bytes;
    give(users, x->user, x->bytes);
    rd_user_put(users, x->user);
    free(x);
}

void rd_resident_release(rd_resident *x)
{
    if (atomic_fetch_sub_explicit(&x->refs, 1, memory_order_acq_rel) != 1)
        return;
    x->work.run = resident_free;
    x->work.done = resident_freed;
    rd_workers_add(x->holdings->workers, &x->work);
}

/* ---- lists ---- */
static rd_resident *first_of(const rd_users *u, uint64_t uid)
{
    const rd_user *user = rd_user_find(u, uid);
    return user ? user->resident : NULL;
}

rd_resident *rd_resident_by_id(const rd_user *user, uint64_t id, uint64_t now_ns)
{
    rd_resident *x = user->resident;
    while (x && (x->session || x->id != id || x->until_ns <= now_ns))
        x = x->next;
    return x;
}

rd_resident *rd_resident_by_name(const rd_users *u, uint64_t uid, const char *name, size_t len)
{
    rd_resident *x = first_of(u, uid);
    while (x && (x->session || strlen(x->name) != len || memcmp(x->name, name, len) != 0))
        x = x->next;
    return x;
}

rd_resident *rd_resident_written(const rd_users *u, uint64_t uid, const struct rd_session *session, uint64_t id)
{
    rd_resident *x = first_of(u, uid);
    while (x && (x->session != session || x->id != id || x->maker))
        x = x->next;
    return x;
}

/* ---- the service manager's store ---- */
typedef struct rd_unstored {
    char name[RD_STORE_NAME];
    struct rd_unstored *next;
} rd_unstored;

void rd_resident_store_name(char out[RD_STORE_NAME], uint64_t id) { snprintf(out, RD_STORE_NAME, "resident-%016" PRIx64, id); }

/* Must be repeated: a descriptor left in the store comes back with the next daemon. */
void rd_unstore(rd_holdings *h, const char *name)
{
    rd_unstored *u = rd_notify_unstore(name) ? NULL : calloc(1, sizeof *u);
    if (!u)
        return;
    snprintf(u->name, sizeof u->name, "%s", name);
    u->next = h->unstored;
    h->unstored = u;
}

static void unstore_again(rd_holdings *h)
{
    while (h->unstored && rd_notify_unstore(h->unstored->name)) {
        rd_unstored *u = h->unstored;
        h->unstored = u->next;
        free(u);
    }
}

static void forget(rd_resident *x)
{
    char name[RD_STORE_NAME];
    if (!x->stored || x->holdings->leaving)
        return;
    x->stored = false;
    x->holdings->stored--;
    rd_resident_store_name(name, x->id);
    rd_unstore(x->holdings, name);
}

static void store(rd_resident *x)
{
    rd_holdings *h = x->holdings;
    char name[RD_STORE_NAME];
    if (!x->sealed || x->stored || h->stored >= h->store_room)
        return;
    rd_resident_store_name(name, x->id);
    if (!rd_notify_store(name, x->kept.fd))
        return; /* rd_residents_store repeats it */
    x->stored = true;
    h->stored++;
    rd_kept_close_fd(&x->kept);
    if (h->keep == RD_KEEP_COPY)
        rd_kept_free(&x->kept);
}

void rd_residents_store(rd_holdings *h)
{
    unstore_again(h);
    if (h->keep == RD_KEEP_NONE)
        return;
    for (rd_user *user = h->users->first; user; user = user->next)
        for (rd_resident *x = user->resident; x; x = x->next)
            if (!x->session)
                store(x);
}

void rd_resident_drop(rd_resident *x)
{
    if (x->dropped)
        return;
    forget(x);
    rd_resident **at = &x->user->resident;
    while (*at != x)
        at = &(*at)->next;
    pthread_mutex_lock(&x->holdings->lock);
    *at = x->next;
    pthread_mutex_unlock(&x->holdings->lock);
    x->dropped = true;
    rd_resident_release(x);
}

/* ---- from STORE to COMMIT ---- */
static rp_err taken(const char *name, size_t len, rp_fault *f)
{
    return rp_fail(f, RP_EXISTS, "name", 0, "there are resident data named '%.*s'", (int)len, name);
}

static rd_resident *new_resident(rd_holdings *h, rd_user *user, struct rd_session *session, const rp_store *ask)
{
    rd_resident *x = calloc(1, sizeof *x);
    if (!x || getrandom(&x->id, sizeof x->id, 0) != sizeof x->id) {
        free(x);
        return NULL;
    }
    x->id |= x->id == 0;
    memcpy(x->name, ask->name, ask->name_len);
    x->holdings = h;
    x->user = user;
    x->dtype = ask->dtype;
    x->replace = ask->replace;
    x->ttl_ms = ask->ttl_ms;
    x->bytes = ask->bytes;
    x->place = ask->place;
    x->shape = ask->shape;
    x->session = session;
    x->fault.index = RP_NO_INDEX;
    x->kept = RD_KEPT_NONE;
    atomic_init(&x->refs, 2); /* references of the list and of the maker */
    x->next = user->resident;
    pthread_mutex_lock(&h->lock);
    user->resident = x;
    pthread_mutex_unlock(&h->lock);
    return x;
}

rp_err rd_resident_begin(rd_holdings *h, uint64_t uid, struct rd_session *session, const rp_store *ask,
                         void (*made)(rd_work *x), void *maker, rp_fault *f)
{
    if (!ask->replace && rd_resident_by_name(h->users, uid, ask->name, ask->name_len))
        return taken(ask->name, ask->name_len, f);
    rd_user *user = rd_user_get(h->users, uid);
    if (!user)
        return rp_fail(f, RP_NO_MEMORY, "memory", 0, "no memory for a user");
    rp_err err = take(h->users, user, ask->bytes, f);
    rd_resident *x = err ? NULL : new_resident(h, user, session, ask);
    if (!err && !x) {
        give(h->users, user, ask->bytes);
        err = rp_fail(f, RP_NO_MEMORY, "memory", 0, "no memory for resident data");
    }
    if (err) {
        rd_user_put(h->users, user);
        return err;
    }
    x->work = (rd_work){.run = resident_make, .done = made, .running = &user->running, .busy = &user->busy};
    x->maker = maker;
    rd_workers_add(h->workers, &x->work);
    return RP_OK;
}

rp_err rd_resident_claim(rd_resident *x, uint64_t offset, uint64_t bytes, rp_fault *f)
{
    if (offset > x->bytes || bytes > x->bytes - offset)
        return rp_fail(f, RP_SHAPE, "offset", x->bytes, "bytes %" PRIu64 " + %" PRIu64 " go beyond the end", offset, bytes);
    rp_err err = rd_extents_claim(&x->extents, offset, offset + bytes, "byte", f);
    if (!err)
        x->writes++;
    return err;
}

void rd_resident_settle(rd_resident *x, uint64_t offset, uint64_t bytes, bool lost)
{
    x->writes--;
    if (lost && !rd_extents_remove(&x->extents, offset, offset + bytes))
        rd_resident_drop(x); /* it is unknown which bytes arrived */
}

static rp_err check_whole(const rd_resident *x, rp_fault *f)
{
    uint64_t first = RP_NO_INDEX;
    if (rd_extents_cover(&x->extents, x->bytes, &first) && !x->writes)
        return RP_OK;
    rp_fail(f, RP_SHAPE, "bytes", x->bytes, first == RP_NO_INDEX ? "a write is still under way" : "byte %" PRIu64 " is missing",
            first);
    f->index = first;
    return RP_SHAPE;
}

/* ---- sealing ---- */
bool rd_resident_may_seal(rd_resident *x, rp_fault *f)
{
    rd_holdings *h = x->holdings;
    if (h->keep == RD_KEEP_NONE || x->sealed || h->stored >= h->store_room)
        return false;
    if (rd_user_is_named(x->user)) /* the number of a named user ends with this daemon */
        return false;
    if (h->keep == RD_KEEP_COPY && x->bytes > h->copied_cap - h->copied) {
        rd_log(RD_LOG_WARN, "'%s' of uid %" PRIu64 " is not kept: copies may have %" PRIu64 " bytes", x->name, x->user->uid,
               h->copied_cap);
        return false;
    }
    return check_whole(x, f) == RP_OK;
}

static rd_kept_record record_of(const rd_resident *x)
{
    return (rd_kept_record){.uid = x->user->uid,
                            .id = x->id,
                            .since_ns = x->since_ns,
                            .until_ns = x->until_ns,
                            .store = {.dtype = x->dtype,
                                      .ttl_ms = x->ttl_ms,
                                      .bytes = x->bytes,
                                      .name_len = (uint16_t)strlen(x->name),
                                      .name = x->name,
                                      .shape = x->shape}};
}

static bool copy_to_host(rd_resident *x)
{
    rp_fault f;
    return rd_kept_make(&x->kept, x->bytes) && rk_memory_read(x->memory, x->kept.base, &f) == RP_OK;
}

static void resident_seal(rd_work *c)
{
    rd_resident *x = (rd_resident *)c;
    rd_kept_record r = record_of(x);
    if (!x->copied || copy_to_host(x))
        x->sealed = rd_kept_seal(&x->kept, &r);
}

static uint64_t end_of(const rd_resident *x) { return x->ttl_ms ? x->since_ns + x->ttl_ms * RP_NS_PER_MS : UINT64_MAX; }

void rd_resident_seal(rd_resident *x, uint64_t now_ns, void (*sealed)(rd_work *x), void *maker)
{
    rd_holdings *h = x->holdings;
    x->since_ns = now_ns;
    x->until_ns = end_of(x);
    x->copied = h->keep == RD_KEEP_COPY;
    if (x->copied)
        h->copied += x->bytes;
    x->maker = maker;
    rd_resident_hold(x);
    x->work = (rd_work){.run = resident_seal, .done = sealed, .running = &x->user->running, .busy = &x->user->busy};
    rd_workers_add(h->workers, &x->work);
}

rp_err rd_resident_commit(rd_resident *x, uint64_t now_ns, rp_fault *f)
{
    rd_holdings *h = x->holdings;
    rd_resident *old = rd_resident_by_name(h->users, x->user->uid, x->name, strlen(x->name));
    rp_err err = check_whole(x, f);
    if (err)
        return err;
    if (old && !x->replace)
        return taken(x->name, strlen(x->name), f);
    if (!x->sealed)
        x->since_ns = now_ns;
    pthread_mutex_lock(&h->lock);
    x->until_ns = end_of(x);
    x->session = NULL;
    pthread_mutex_unlock(&h->lock);
    if (x->until_ns < h->residents_until_ns)
        h->residents_until_ns = x->until_ns;
    store(x); /* before the old one is withdrawn: a crash in between leaves both, and the newer one counts */
    if (old)
        rd_resident_drop(old);
    return RP_OK;
}

/* ---- what is over ---- */

/* Drop a user's data that have expired by `now_ns`. Returns when the next ones expire. */
static uint64_t expire(const rd_user *user, uint64_t now_ns)
{
    uint64_t first = UINT64_MAX;
    for (rd_resident *x = user->resident, *next; x; x = next) {
        next = x->next; /* the user may be freed with its last array */
        if (x->session)
            continue;
        if (x->until_ns <= now_ns)
            rd_resident_drop(x);
        else if (x->until_ns < first)
            first = x->until_ns;
    }
    return first;
}

void rd_residents_expire(rd_holdings *h, uint64_t now_ns)
{
    if (now_ns < h->residents_until_ns)
        return;
    h->residents_until_ns = UINT64_MAX;
    for (rd_user *user = h->users->first, *next; user; user = next) {
        next = user->next;
        uint64_t first = expire(user, now_ns);
        if (first < h->residents_until_ns)
            h->residents_until_ns = first;
    }
}

void rd_residents_leave(rd_holdings *h, uint64_t uid, const struct rd_session *session)
{
    for (rd_resident *x = first_of(h->users, uid), *next; x; x = next) {
        next = x->next;
        if (x->session == session)
            rd_resident_drop(x);
    }
}

void rd_residents_close(rd_holdings *h)
{
    rd_residents_store(h);
    h->leaving = true;
    for (rd_user *user = h->users->first, *after; user; user = after) {
        after = user->next;
        for (rd_resident *x = user->resident, *next; x; x = next) {
            next = x->next;
            rd_resident_drop(x);
        }
    }
    while (h->unstored) {
        rd_unstored *u = h->unstored;
        h->unstored = u->next;
        free(u);
    }
}
