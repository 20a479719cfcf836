/* Users, as the kernel reports them for connections: what they hold (files, arenas, resident data) and how much each may.
 * The loop owns all of it but `running`; the wires' threads read the list of resident data (resident.h). */
#ifndef RD_USERS_H
#define RD_USERS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/account.h"
#include "daemon/base/config.h"
#include "daemon/state/sched.h"
#include "proto/types.h"

#define RD_NETWORK UINT64_MAX /* the user of all peers whose user the kernel does not name: on tcp, unmapped */

typedef struct rd_user {
    uint64_t uid;
    unsigned refs;                    /* sessions, channels, handles and resident data */
    uint64_t connections, sessions;   /* open connections; those that said HELLO */
    uint64_t inflight, message_bytes; /* requests not answered, and of their messages */
    rd_account unsent;                /* replies that the kernel has not taken */
    rd_sched_user queues;
    unsigned running; /* works that run in a thread now; under the lock of the workers */
    unsigned files, devices;
    unsigned closing; /* descriptors that wait for a reader to close them */
    uint64_t arena_bytes;
    unsigned residents;
    uint64_t resident_bytes;
    struct rd_resident *resident; /* the list of them (resident.h) */
    struct rd_user *next;
} rd_user;

typedef struct rd_users {
    rd_user *first;
    unsigned files, devices;
    uint64_t arena_bytes;
    uint64_t arena_cap, arena_user_cap; /* bytes */
    unsigned residents;
    uint64_t resident_bytes;
    uint64_t resident_cap, resident_user_cap;     /* bytes */
    uint64_t session_cap, inflight_cap, held_cap; /* of one user */
} rd_users;

/* The caps, from the settings. */
void rd_users_configure(rd_users *u, const rd_config *c);

rd_user *rd_user_get(rd_users *u, uint64_t uid);        /* NULL: no memory */
rd_user *rd_user_find(const rd_users *u, uint64_t uid); /* NULL: holds nothing */
void rd_user_put(rd_users *u, rd_user *user);

/* Room for one file, for an allocation on the device, for an arena, or for resident data? Errors: QUOTA; TOO_LARGE for what can
 * never be. */
rp_err rd_user_take_file(rd_users *u, rd_user *user, rp_fault *f);
rp_err rd_user_take_device(rd_users *u, rd_user *user, rp_fault *f);
rp_err rd_user_take_arena(rd_users *u, rd_user *user, uint64_t bytes, rp_fault *f);
rp_err rd_user_take_resident(rd_users *u, rd_user *user, uint64_t bytes, rp_fault *f);
void rd_user_give_file(rd_users *u, rd_user *user);
void rd_user_give_device(rd_users *u, rd_user *user);
void rd_user_give_arena(rd_users *u, rd_user *user, uint64_t bytes);
void rd_user_give_resident(rd_users *u, rd_user *user, uint64_t bytes);

#endif
