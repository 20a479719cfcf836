/* Users, as the kernel reports them or certificates name them: what each holds (charges.def) and may hold. The loop owns all of
 * it except `running` and `busy`; the wires' threads read the list of resident data (resident.h). */
#ifndef RD_USERS_H
#define RD_USERS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/account.h"
#include "daemon/base/config.h"
#include "daemon/base/peer.h"
#include "daemon/state/charges.def"
#include "daemon/state/sched.h"
#include "proto/types.h"

#define RD_NETWORK UINT64_MAX /* the user of all peers without a user: on tcp, or unmapped */

/* The first number of a user with a name from a certificate, above every uid. A name gets the next one when it comes and keeps
 * it as long as it holds anything; no number is used twice. So there are never more names than sessions, connections and
 * resident arrays, which have their caps. None is kept over a restart, which ends all that a user holds. */
#define RD_FIRST_NAMED (UINT64_C(1) << 32)

/* The rows of charges.def. */
typedef enum {
#define X(NAME, key, field, what) RD_HELD_##NAME,
    RD_CHARGES(X)
#undef X
        RD_CHARGE_KINDS
} rd_charge_kind;

/* What one user, or all together, hold of each kind. The loop changes it, any thread reads it. Unread replies are in a separate
 * account, which any thread changes. */
typedef struct rd_charges {
    atomic_uint_least64_t held[RD_CHARGE_KINDS];
    rd_account unsent;
} rd_charges;

typedef struct rd_user {
    uint64_t uid;            /* or RD_FIRST_NAMED and above, or RD_NETWORK */
    char text[RD_USER_TEXT]; /* for lists: "1000", "tls:NAME" or "tcp" */
    unsigned refs;           /* sessions, channels, handles and resident data */
    rd_charges charges;
    rd_sched_user queues;
    unsigned running;             /* its works in threads now; under the workers' lock */
    unsigned busy;                /* those of them that make or copy memory */
    struct rd_resident *resident; /* its list of resident data (resident.h) */
    struct rd_request *parked;    /* reads that wait for one of this user's buffers, oldest first (executor.c) */
    struct rd_user *next;
} rd_user;

typedef struct rd_users {
    rd_user *first;
    uint64_t names;                                          /* number of names so far */
    rd_charges charges;                                      /* of all */
    uint64_t cap[RD_CHARGE_KINDS], cap_all[RD_CHARGE_KINDS]; /* of one user and of all; 0: none */
} rd_users;

/* The caps, from the settings. */
void rd_users_configure(rd_users *u, const rd_config *c);

rd_user *rd_user_get(rd_users *u, uint64_t uid);           /* NULL: no memory */
rd_user *rd_user_get_named(rd_users *u, const char *name); /* the same */
rd_user *rd_user_find(const rd_users *u, uint64_t uid);    /* NULL: holds nothing */
void rd_user_put(rd_users *u, rd_user *user);

/* Does the user's name come from a certificate? */
static inline bool rd_user_is_named(const rd_user *user) { return user->uid >= RD_FIRST_NAMED && user->uid != RD_NETWORK; }

const char *rd_user_name(const rd_user *user); /* in its certificate; "": it has none */

/* Is there another user whose name differs only in case? */
bool rd_user_looks_alike(const rd_users *u, const char *name);

/* May the user, and all together, hold `n` more of a kind? Errors: QUOTA; TOO_LARGE if `n` alone exceeds the cap. */
rp_err rd_may_hold(const rd_users *u, const rd_user *user, rd_charge_kind kind, uint64_t n, rp_fault *f);

/* Charge them, if so. */
rp_err rd_charge(rd_users *u, rd_user *user, rd_charge_kind kind, uint64_t n, rp_fault *f);

/* Charge without a check: it was allowed before, or cannot be refused. */
void rd_charge_anyway(rd_users *u, rd_user *user, rd_charge_kind kind, uint64_t n);
void rd_discharge(rd_users *u, rd_user *user, rd_charge_kind kind, uint64_t n);

uint64_t rd_held(const rd_charges *c, rd_charge_kind kind);
const char *rd_charge_key(rd_charge_kind kind);

#endif
