/* Large data: how a job's data reach the daemon. Messages (inline) always work; the paths by fdpass are faster:
 *
 *   file    the daemon reads ranges of a file that was passed to it
 *   shared  the data lie where the daemon has them as well: in memory of reduce_alloc or on its device; nothing is copied
 *   stage   tiles are copied, by the threads that would copy them into messages, into parts of an arena of this client */
#ifndef RC_DATAPATH_H
#define RC_DATAPATH_H

#include "client/fdpass.h"
#include "client/tiling.h"

enum {
    RC_LEAST_TILE = 1 << 20,    /* bytes in a part of the stage; making a stage for larger tiles takes longer */
    RC_MOST_TILE = RP_MAX_DATA, /* a message for fewer bytes takes longer than they do (tests/bench/tuning/host.md) */
    RC_TILES = 128,             /* of a job, within these bounds */
    RC_LARGE_BYTES = 1 << 20    /* jobs below are one or two messages, which are faster than opening fdpass */
};

typedef enum { RC_INLINE, RC_STAGE, RC_SHARED, RC_FILE } rc_carrier;

typedef struct rc_stage {
    rc_arena arena;    /* bytes 0: none */
    int parts;         /* rc_large_under_way */
    size_t part_bytes; /* of each part */
    uint32_t busy;     /* bits of parts in use */
} rc_stage;

/* The paths that a job may use, and its data if they are not in memory. */
typedef struct rc_datapath {
    int fd;                   /* a file's data; -1: memory */
    const uint8_t *device;    /* data on the daemon's device: the handle of their allocation; NULL: elsewhere */
    bool there;               /* data that only the daemon has, resident or on its device; there is no other path */
    uint64_t offset;          /* byte where they begin in file or allocation */
    uint64_t handle, session; /* of the file, or of the arena or allocation in which the data lie; 0: none */
    uint64_t at;              /* bytes from the start of these to the data */
    const uint8_t *mask;      /* of data on the device: the handle of the allocation that has it; NULL: none, or behind them */
    uint64_t mask_handle, mask_offset;
    uint64_t keys, keys_offset; /* resident keys of resident data, and where they begin; 0: none */
    size_t stage;               /* bytes of a tile that is copied to the stage; 0: none is */
    bool lost;                  /* the daemon has lost the handles: use messages from here on */
} rc_datapath;

struct reduce_client;

/* Prepare for a job of `bytes` bytes at `data` or d->fd, by `path` (reduce_path; 0: the best one). `gathered`: its tiles are
 * collected from several places. May wait for the daemon; call without the mutex. REDUCE_E_ARGUMENT: `path` is not available;
 * or REDUCE_E_INTERRUPTED. Neither is reported. */
int rc_datapath_open(struct reduce_client *c, rc_datapath *d, const void *data, size_t bytes, bool gathered, int path);

/* Do the data lie in memory that the current daemon has mapped, so that they are not copied? Without the mutex. */
bool rc_is_shared(struct reduce_client *c, const void *data, size_t bytes);

/* Get memory for `bytes` bytes of results that the daemon writes; a->bytes stays 0 if there is none. May wait for the daemon;
 * call without the mutex. 0, or REDUCE_E_INTERRUPTED, not reported. */
int rc_results_open(struct reduce_client *c, uint64_t bytes, rc_arena *a);

/* The rest with the mutex held. */

void rc_results_close(struct reduce_client *c, rc_arena *a); /* nothing if it has none */

/* Choose the path of a tile of the job's own data; for RC_STAGE, *part is reserved. */
rc_carrier rc_datapath_choose(struct reduce_client *c, const rc_datapath *d, const rc_tile *t, int *part);
void rc_datapath_free_part(struct reduce_client *c, int part);
void rc_datapath_close(struct reduce_client *c, rc_datapath *d); /* the job has ended */

/* Its memory, and where that is in the stage; without the mutex, while it is taken. */
uint8_t *rc_datapath_part(const struct reduce_client *c, int part);
uint64_t rc_datapath_part_at(const struct reduce_client *c, int part);

/* Read the tile's elements from d->fd. False: `f` says why. Without the mutex. */
bool rc_datapath_read(const rc_datapath *d, const rc_tile *t, uint64_t item, uint8_t *to, rp_fault *f);

/* The client closes: free the memory of reduce_alloc and the stage. */
void rc_datapath_fini(struct reduce_client *c);

#endif
