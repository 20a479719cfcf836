/* Restores resident data of the previous daemon from descriptors that the service manager kept (kept.h). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/peer.h"
#include "daemon/state/resident.h"
#include "proto/clock.h"

typedef struct restored {
    rd_resident resident; /* first */
    rd_kept_record record;
    bool in_place;    /* the engine reads the memory that was kept, or does so until its devices are open */
    unsigned running; /* the counter of works of this array alone, so no user waits for another one's data */
    int fd;
    char *name; /* the name in the service manager's store */
    const char *why;
    void (*done)(void *arg);
    void *arg;
} restored;

static const char *check_name(const restored *r)
{
    char name[RD_STORE_NAME];
    rd_resident_store_name(name, r->record.id);
    return strcmp(name, r->name) == 0 ? NULL : "its record is one of other data";
}

static void fill(rd_resident *x, const rd_kept_record *r)
{
    const rp_store *s = &r->store;
    memcpy(x->name, s->name, s->name_len);
    x->id = r->id;
    x->dtype = s->dtype;
    x->ttl_ms = s->ttl_ms;
    x->bytes = s->bytes;
    x->shape = s->shape;
    x->since_ns = r->since_ns;
    x->until_ns = r->until_ns;
}

/* Puts the data into the engine's memory. A device gets a copy; the service manager keeps the host's. */
static const char *load(rd_resident *x, bool in_place)
{
    if (rd_resident_memory(x, in_place))
        return "there is no memory for it";
    if (in_place)
        return NULL;
    rp_err err = rk_memory_write(x->memory, x->kept.base, &x->fault);
    rd_kept_free(&x->kept);
    return err ? "it cannot be copied to the device" : NULL;
}

static void restore_run(rd_work *w)
{
    restored *r = (restored *)w;
    rd_resident *x = &r->resident;
    r->why = rd_kept_take(&x->kept, r->fd, &r->record);
    if (!r->why)
        r->why = check_name(r);
    if (!r->why && (r->record.uid > UINT32_MAX || !rd_uid_is_known((uint32_t)r->record.uid)))
        r->why = "its owner is not a user";
    if (r->why)
        return;
    fill(x, &r->record);
    r->why = load(x, r->in_place);
    rd_kept_close_fd(&x->kept);
}

static void log_drop(const char *name, const char *why) { rd_log(RD_LOG_WARN, "kept data '%.40s' are dropped: %s", name, why); }

static const char NEWER[] = "newer data have its name";

static void drop_older(rd_resident *x)
{
    char name[RD_STORE_NAME];
    rd_resident_store_name(name, x->id);
    log_drop(name, NEWER);
    rd_resident_drop(x);
}

/* A daemon that ended between the two messages of a replacement left both arrays. */
static const char *settle(rd_resident *x, uint64_t uid, uint64_t now_ns)
{
    rd_resident *other = rd_resident_by_name(x->holdings->users, uid, x->name, strlen(x->name));
    if (x->until_ns <= now_ns)
        return "its time is over";
    if (other && other->since_ns >= x->since_ns)
        return NEWER;
    if (other)
        drop_older(other);
    return NULL;
}

/* Quotas may have been lowered: existing data stay, and are charged. */
static const char *list(rd_resident *x, uint64_t uid, bool in_place)
{
    rd_holdings *h = x->holdings;
    x->user = rd_user_get(h->users, uid);
    if (!x->user)
        return "there is no memory for it";
    rd_charge_anyway(h->users, x->user, RD_HELD_RESIDENTS, 1);
    rd_charge_anyway(h->users, x->user, RD_HELD_RESIDENT_BYTES, x->bytes);
    x->copied = h->keep == RD_KEEP_COPY && !in_place;
    h->copied += x->copied ? x->bytes : 0;
    if (x->until_ns < h->residents_until_ns)
        h->residents_until_ns = x->until_ns;
    pthread_mutex_lock(&h->lock);
    x->next = x->user->resident;
    x->user->resident = x;
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

static void drop(restored *r)
{
    rd_holdings *h = r->resident.holdings;
    log_drop(r->name, r->why);
    rk_memory_close(h->engine, r->resident.memory);
    rd_kept_free(&r->resident.kept);
    h->stored--;
    rd_unstore(h, r->name);
}

static void restore_done(rd_work *w)
{
    restored *r = (restored *)w;
    rd_resident *x = &r->resident;
    void (*done)(void *arg) = r->done;
    void *arg = r->arg;
    if (!r->why)
        r->why = settle(x, r->record.uid, rp_now_ns());
    if (!r->why)
        r->why = list(x, r->record.uid, r->in_place);
    if (r->why)
        drop(r);
    else if (!rk_opening(x->holdings->engine))
        rd_resident_move(x);
    free(r->name);
    if (r->why)
        free(r);
    done(arg);
}

void rd_resident_restore(rd_holdings *h, int fd, const char *name, void (*done)(void *arg), void *arg)
{
    restored *r = calloc(1, sizeof *r);
    char *copy = r ? strdup(name) : NULL;
    h->stored++;
    if (!copy) {
        rd_log(RD_LOG_WARN, "kept data '%.40s' wait for the next start: no memory", name);
        close(fd);
        free(r);
        done(arg);
        return;
    }
    *r = (restored){.fd = fd, .name = copy, .done = done, .arg = arg};
    r->in_place = h->keep == RD_KEEP_IN_PLACE || rk_opening(h->engine);
    r->resident = (rd_resident){
        .holdings = h, .fault = {.index = RP_NO_INDEX}, .kept = RD_KEPT_NONE, .sealed = true, .stored = true};
    atomic_init(&r->resident.refs, 1);
    r->resident.work = (rd_work){.run = restore_run, .done = restore_done, .running = &r->running};
    rd_workers_add(h->workers, &r->resident.work);
}
