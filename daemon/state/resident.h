/* Resident data: arrays that stay in the engine's memory under a name, for reductions without a copy (PROTOCOL.md,
 * "Resident data"). Each is in the list of its user, and is looked up in that list alone, so other users' data cannot be found.
 *
 * Life: begun (STORE; a work makes the memory) -> written, bound to the session -> committed, found by name and id ->
 * dropped (DROP, replaced, expired; before COMMIT: ABORT, session closed) -> freed by a work once no request uses it. The
 * loop owns all of it; a work owns the memory that it makes, seals or frees. The wires' threads may look one up and use it, as
 * with handles (handle.h). */
#ifndef RD_RESIDENT_H
#define RD_RESIDENT_H

#include <stdatomic.h>

#include "daemon/state/extents.h"
#include "daemon/state/holdings.h"
#include "daemon/state/kept.h"
#include "proto/codec.h"

struct rd_session;

typedef struct rd_resident {
    rd_work work; /* first: a worker makes and frees its memory */
    rd_holdings *holdings;
    rd_user *user; /* the owner */
    uint64_t id;   /* random, as those of handles */
    char name[RP_MAX_NAME + 1];
    uint8_t dtype;
    bool replace;
    uint32_t ttl_ms; /* 0: no end */
    uint64_t bytes;
    uint8_t place; /* the `place` of STORE */
    rp_shape shape;
    rk_memory *memory;
    rp_fault fault;              /* why making it failed */
    atomic_uint refs;            /* the list, and requests under way */
    bool dropped;                /* it is no longer in the list */
    struct rd_session *session;  /* the session that writes it; NULL: committed */
    void *maker;                 /* the STORE that waits for the memory */
    rd_extents extents;          /* bytes that have come */
    unsigned writes;             /* pieces of them that are being copied */
    uint64_t since_ns, until_ns; /* committed, CLOCK_MONOTONIC; UINT64_MAX: no end */
    rd_kept kept;                /* the memory that outlives the daemon */
    bool sealed;                 /* it is complete and may be stored */
    bool stored;                 /* the service manager has it */
    bool copied;                 /* counted in holdings->copied */
    struct rd_resident *next;    /* in the user's list */
} rd_resident;

/* Begin an array for a session of `uid`. `made` gets it in the loop with a reference, when its memory is allocated or x->fault
 * says why not. Errors: EXISTS, TOO_LARGE, QUOTA, NO_MEMORY. */
rp_err rd_resident_begin(rd_holdings *h, uint64_t uid, struct rd_session *session, const rp_store *ask,
                         void (*made)(rd_work *x), void *maker, rp_fault *f);

/* Look up an array of this user; NULL: there is none. */
rd_resident *rd_resident_by_id(const rd_user *user, uint64_t id, uint64_t now_ns); /* committed, not expired by `now_ns` */

/* The same; expired ones are dropped before (rd_residents_expire). */
rd_resident *rd_resident_by_name(const rd_users *u, uint64_t uid, const char *name, size_t len); /* committed */
rd_resident *rd_resident_written(const rd_users *u, uint64_t uid, const struct rd_session *session, uint64_t id); /* not */

/* Bytes [offset, offset + bytes) come now. Errors: SHAPE, QUOTA. */
rp_err rd_resident_claim(rd_resident *x, uint64_t offset, uint64_t bytes, rp_fault *f);

/* These bytes are in the memory; with `lost`, they could not be stored. */
void rd_resident_settle(rd_resident *x, uint64_t offset, uint64_t bytes, bool lost);

/* Must it be sealed before COMMIT, so that it outlives the daemon? Then all bytes must have come; the fault says which are
 * missing. */
bool rd_resident_may_seal(rd_resident *x, rp_fault *f);

/* Let a worker seal it; `sealed` gets it in the loop, with a reference. If sealing failed, it is not kept. */
void rd_resident_seal(rd_resident *x, uint64_t now_ns, void (*sealed)(rd_work *x), void *maker);

/* All bytes have come: give it its name, and pass sealed memory to the service manager. Errors: SHAPE, EXISTS. */
rp_err rd_resident_commit(rd_resident *x, uint64_t now_ns, rp_fault *f);

void rd_resident_drop(rd_resident *x); /* may be repeated */

/* Any thread. One that finds it in a list keeps holdings->lock until it has a reference. */
static inline void rd_resident_hold(rd_resident *x) { atomic_fetch_add_explicit(&x->refs, 1, memory_order_relaxed); }
void rd_resident_release(rd_resident *x);

/* About once a second: repeat messages that the service manager's queue had no room for. */
void rd_residents_store(rd_holdings *h);

/* Drop resident data: those that have expired; those that an ending session of `uid` was writing; all. */
void rd_residents_expire(rd_holdings *h, uint64_t now_ns);
void rd_residents_leave(rd_holdings *h, uint64_t uid, const struct rd_session *session);
void rd_residents_close(rd_holdings *h); /* kept data stay kept */

/* ---- of the daemon before (resident_restore.c) ---- */

/* Check a descriptor that the service manager kept under `name`, and restore its resident data, or log why not. `done` follows
 * in the loop. */
void rd_resident_restore(rd_holdings *h, int fd, const char *name, void (*done)(void *arg), void *arg);

/* ---- to the devices, when they are open (resident_move.c) ---- */

/* Move data from the host's memory to the devices. Meanwhile requests read either copy. */
void rd_resident_move(rd_resident *x); /* does nothing if the data are not in the host's memory */
void rd_residents_move(rd_holdings *h);

/* ---- for resident_restore.c ---- */
enum { RD_STORE_NAME = 32 };
void rd_resident_store_name(char out[RD_STORE_NAME], uint64_t id);
void rd_unstore(rd_holdings *h, const char *name);
rp_err rd_resident_memory(rd_resident *x, bool lend); /* a worker: allocates the engine's memory, or the kept one; errors in
                                                         x->fault */

#endif
