/* Handles: memory and files that a session uses for REDUCE_AT. An arena is a sealed memfd of the daemon's own, made for one
 * client and never given to another: the kernel zeroes it, so the daemon does not have to. A file is a descriptor that the
 * client opened and passed. A device allocation is the client's, mapped by the engine. By handle, the driver lets a process
 * open what any other of its user exported, so only this daemon's own user may ask for it: for others it could open what is not
 * theirs. A descriptor is only with processes that its owner gave it to.
 *
 * Programs free allocations whose handles they hold. While the daemon has such a one open, the driver refuses those that
 * overlap its place. A handle does not say where its allocation is. So the daemon then closes all that are open by handle, and
 * tries again: the clients pass those that they still need once more.
 *
 * Life: made by a worker -> in its session's list -> dropped (DROP, fdpass channel or session closed) -> unmapped and closed
 * by a worker once no request uses it. DROP gives an arena's memory back to the system. What the client writes later, and
 * arenas of sessions that ended, whose data a program may still use, stay charged until no process has them open or mapped.
 *
 * The loop owns all of it; a worker owns what it makes or closes. The wires' threads may look one up and use it for a request
 * (fastpath.h): the loop changes lists under holdings->lock and reads them without, and uses are counted atomically. */
#ifndef RD_HANDLE_H
#define RD_HANDLE_H

#include <stdatomic.h>

#include "daemon/state/holdings.h"
#include "proto/codec.h"

typedef enum { RD_HANDLE_FILE, RD_HANDLE_ARENA, RD_HANDLE_DEVICE } rd_handle_kind;

struct rd_handle;
typedef void rd_handle_made(struct rd_handle *x);

typedef struct rd_handle {
    rd_work work; /* first: making and closing it */
    rd_holdings *holdings;
    rd_user *user;
    rd_handle_kind kind;
    uint64_t id;                      /* random: an id of another session or of an earlier daemon finds nothing */
    int fd;                           /* arenas: until it is sent; device: until it is open, -1: by handle */
    int kept;                         /* arenas: open for reading, for the mapping; -1: none */
    bool by_handle;                   /* device */
    bool charged;                     /* its user's quota has it */
    bool given_back;                  /* arenas: the client is done with what is in it */
    bool in_use;                      /* arenas: after the daemon's end of it others still have it open or mapped */
    uint64_t size;                    /* bytes; file: when it was passed */
    uint8_t *base;                    /* arena: read-only */
    rk_engine *engine;                /* arena: pinned in it, or NULL; device: of `memory` */
    uint8_t device[RP_DEVICE_HANDLE]; /* its handle, */
    uint8_t uuid[RP_UUID];            /* and the GPU that it is on; all 0: not known */
    rk_memory *memory;                /* device */
    atomic_uint uses;                 /* requests under way, and the session's list */
    rp_fault fault;                   /* of making */
    rd_handle_made *made;
    void *maker;                   /* the channel that waits for it; NULL: gone */
    struct rd_handle *next;        /* in the session's list, or of those that are in use, or refused */
    struct rd_handle_list *list;   /* the session's */
    struct rd_handle *next_device; /* of holdings->devices */
} rd_handle;

typedef struct rd_handle_list {
    rd_handle *first;
    unsigned n;
} rd_handle_list;

/* Begin to make one, *x, for `user`; `made` gets it in the loop: fault.code RP_OK, or why not. A descriptor is the
 * handle's from here on, also on an error. Errors: QUOTA, TOO_LARGE, NO_MEMORY; device, by handle: AUTH. */
rp_err rd_handle_file(rd_holdings *h, rd_user *user, int fd, rd_handle_made *made, void *maker, rd_handle **x, rp_fault *f);
rp_err rd_handle_arena(rd_holdings *h, rd_user *user, uint64_t bytes, rd_handle_made *made, void *maker, rd_handle **x,
                       rp_fault *f);
rp_err rd_handle_device(rd_holdings *h, rd_user *user, const rp_side *p, rd_handle_made *made, void *maker, rd_handle **x,
                        rp_fault *f);
rp_err rd_handle_device_fd(rd_holdings *h, rd_user *user, int fd, uint64_t bytes, rd_handle_made *made, void *maker,
                           rd_handle **x, rp_fault *f);

/* Arenas that others still have are charged to their user until they are gone: about once a second, look. */
void rd_handles_watch(rd_holdings *h);

/* At the end of the daemon: forget them. */
void rd_handles_forget(rd_holdings *h);

/* The devices are open, or never will be: go on with allocations that wait for them. */
void rd_handles_open_late(rd_holdings *h);

/* Close a descriptor that is not wanted, or a socket in which some may be left: by a reader, for it may hang. */
void rd_handle_reject(rd_holdings *h, rd_user *user, int fd);

void rd_handles_add(rd_handle_list *l, rd_handle *x); /* the maker's use becomes the list's */
rd_handle *rd_handles_find(const rd_handle_list *l, uint64_t id);
void rd_handles_drop(rd_handle_list *l, rd_handle *x);
void rd_handles_drop_all(rd_handle_list *l);

/* A request uses it, or no longer does; the last one closes it. Any thread: one that finds it in a list has holdings->lock
 * until it holds it. */
static inline void rd_handle_hold(rd_handle *x) { atomic_fetch_add_explicit(&x->uses, 1, memory_order_relaxed); }
void rd_handle_release(rd_handle *x);

#endif
