/* Handles: memory and files that a session uses for REDUCE_AT. An arena is a sealed memfd of the daemon's own, made for one
 * client and never given to another: the kernel zeroes it, so the daemon does not have to. A file is a descriptor that the
 * client opened and passed. A device allocation is the client's, mapped by the engine. By CUDA IPC handle the driver opens
 * whatever a process of the same user exported. So only this daemon's own user may pass handles: another user could name memory
 * that it does not own. A descriptor needs no such rule: only processes to which its owner gave it have one.
 *
 * Programs may free an allocation that the daemon still has open by handle. The driver then refuses to open another one that
 * overlaps its address. A handle does not say where its allocation is. So the daemon closes all that are open by handle and
 * tries again; clients pass those that they still need once more.
 *
 * Life: made by a worker -> in its session's list -> dropped (DROP, fdpass channel or session closed) -> unmapped and closed
 * by a worker once no request uses it. DROP gives an arena's memory back to the system. What the client writes later stays
 * charged until no process has it open or mapped. So do arenas of sessions that ended, whose data a program may still use.
 *
 * The loop owns all of it; a worker owns what it makes or closes. The wires' threads may look one up and use it for a request
 * (fastpath.h): the loop changes lists under holdings->lock and reads them without it, and uses are counted atomically. */
#ifndef RD_HANDLE_H
#define RD_HANDLE_H

#include <stdatomic.h>

#include "daemon/state/holdings.h"
#include "proto/codec.h"

typedef enum { RD_HANDLE_FILE, RD_HANDLE_ARENA, RD_HANDLE_DEVICE } rd_handle_kind;

struct rd_handle;
typedef void rd_handle_made(struct rd_handle *x);

typedef struct rd_handle {
    rd_work work; /* first: the work of making and closing it */
    rd_holdings *holdings;
    rd_user *user;
    rd_handle_kind kind;
    uint64_t id;                      /* random: an id of another session or of an earlier daemon finds nothing */
    int fd;                           /* arena: until it is sent; device: until it is mapped, -1 if by handle */
    int kept;                         /* arena: the read-only descriptor of the mapping; -1: none */
    bool by_handle;                   /* device */
    bool charged;                     /* it counts in its user's quota */
    bool given_back;                  /* arena: the client no longer needs its content */
    bool in_use;                      /* arena: closed here, but other processes still have it open or mapped */
    uint64_t size;                    /* bytes; file: at the time it was passed */
    uint8_t *base;                    /* arena: read-only */
    uint8_t *writable;                /* arena: once results go into it; else NULL */
    rk_engine *engine;                /* arena: pinned in it, or NULL; device: of `memory` */
    uint8_t device[RP_DEVICE_HANDLE]; /* its handle, */
    uint8_t uuid[RP_UUID];            /* and its GPU's UUID; all 0: not known */
    rk_memory *memory;                /* device */
    atomic_uint uses;                 /* references of requests under way and of the session's list */
    rp_fault fault;                   /* of making */
    rd_handle_made *made;
    void *maker;                   /* the channel that waits for it; NULL: gone */
    struct rd_handle *next;        /* in the session's list, or among those in use, or refused */
    struct rd_handle_list *list;   /* the session's */
    struct rd_handle *next_device; /* of holdings->devices */
} rd_handle;

typedef struct rd_handle_list {
    rd_handle *first;
    unsigned n;
} rd_handle_list;

/* Begin to make a handle, *x, for `user`; `made` gets it in the loop, with fault.code RP_OK or why it failed. The handle owns a
 * passed descriptor from here on, also on an error. Errors: QUOTA, TOO_LARGE, NO_MEMORY; device, by handle: AUTH. */
rp_err rd_handle_file(rd_holdings *h, rd_user *user, int fd, rd_handle_made *made, void *maker, rd_handle **x, rp_fault *f);
rp_err rd_handle_arena(rd_holdings *h, rd_user *user, uint64_t bytes, rd_handle_made *made, void *maker, rd_handle **x,
                       rp_fault *f);
rp_err rd_handle_device(rd_holdings *h, rd_user *user, const rp_side *p, rd_handle_made *made, void *maker, rd_handle **x,
                        rp_fault *f);
rp_err rd_handle_device_fd(rd_holdings *h, rd_user *user, int fd, uint64_t bytes, rd_handle_made *made, void *maker,
                           rd_handle **x, rp_fault *f);

/* Arenas that other processes still have stay charged to their user. About once a second: look which are gone. */
void rd_handles_watch(rd_holdings *h);

/* At the end of the daemon: free all. */
void rd_handles_forget(rd_holdings *h);

/* The devices are open, or will never be: continue with allocations that wait for them. */
void rd_handles_open_late(rd_holdings *h);

/* Let a reader close an unwanted descriptor, or a socket that may still hold some, because the close may hang. */
void rd_handle_reject(rd_holdings *h, rd_user *user, int fd);

void rd_handles_add(rd_handle_list *l, rd_handle *x); /* the list takes over the maker's reference */
rd_handle *rd_handles_find(const rd_handle_list *l, uint64_t id);
void rd_handles_drop(rd_handle_list *l, rd_handle *x);
void rd_handles_drop_all(rd_handle_list *l);

/* The bytes of an arena, to write results to. NULL: they cannot be mapped. The loop. */
uint8_t *rd_handle_writable(rd_handle *x);

/* A request takes or releases a reference; the last release closes the handle. Any thread. A thread that finds it in a list
 * keeps holdings->lock until it has a reference. */
static inline void rd_handle_hold(rd_handle *x) { atomic_fetch_add_explicit(&x->uses, 1, memory_order_relaxed); }
void rd_handle_release(rd_handle *x);

#endif
