/* Fdpass at the client: descriptors to the daemon and back (PROTOCOL.md, "Descriptor passing"). If anything here fails, data
 * travel in messages instead. */
#ifndef RC_FDPASS_H
#define RC_FDPASS_H

#include <pthread.h>

#include "proto/codec.h"

enum { RC_FDPASS_WHY = 96 };

/* `lock` lets one exchange at a time through and is taken before the client's mutex; the fields change under both. While an
 * exchange waits, the program is asked (rc_is_interrupted): what it calls finds the lock taken by this thread, and does
 * without. */
typedef struct rc_fdpass {
    pthread_mutex_t lock;
    int fd;                  /* -1: there is none */
    uint64_t session;        /* the session that it was opened for, also if that failed */
    unsigned owed;           /* replies to exchanges that were interrupted, still to come */
    char why[RC_FDPASS_WHY]; /* why something failed lately, "" if nothing did */
} rc_fdpass;

/* The daemon's memory that both map, or, with handle 0, plain memory. */
typedef struct rc_arena {
    uint8_t *base;
    size_t bytes;
    uint64_t handle, session;
    struct rc_arena *next;
} rc_arena;

/* An allocation on the device. */
typedef struct rc_device {
    uint8_t device[RP_DEVICE_HANDLE]; /* its handle: CUDA's, or, with fd >= 0, made up here */
    uint8_t uuid[RP_UUID];            /* of the GPU that it is on; all 0: not known */
    int fd;
    uint64_t bytes;           /* of fd */
    uint64_t handle, session; /* the daemon's, which has opened it; 0: none */
    struct rc_device *next;
} rc_device;

struct reduce_client;

void rc_fdpass_init(rc_fdpass *s);
void rc_fdpass_fini(rc_fdpass *s);

/* Call without the client's mutex; these wait for the daemon, but not for long. 0; REDUCE_E_INTERRUPTED; or another error: not
 * available, s->why has the reason. Nothing is reported. */
int rc_fdpass_file(struct reduce_client *c, int fd, uint64_t *handle, uint64_t *session);
int rc_fdpass_arena(struct reduce_client *c, size_t bytes, rc_arena *a);
int rc_fdpass_device(struct reduce_client *c, rc_device *d, rp_fault *f); /* sets its handle and session, or `f` */

/* With the mutex held: drop a handle; never waits. */
void rc_fdpass_drop(struct reduce_client *c, uint64_t session, uint64_t handle);

#endif
