/* Jobs: one reduction of an array, of any size and shape. And the bytes of reduce_put, which are cut and travel in the same
 * way. submit.c makes them and waits for them, job.c lets them go. */
#ifndef RC_JOB_H
#define RC_JOB_H

#include <pthread.h>

#include "client/client.h"
#include "client/quantiles.h"
#include "client/tiling.h"
#include "client/under_way.h"
#include "client/ways.h"

/* The data of a job: memory; with fd >= 0 bytes of a file; with `device` bytes of an allocation there; with `kept` resident
 * data of this handle. */
typedef struct rc_input {
    const void *data;
    int fd;
    uint64_t offset; /* of the first byte, but in memory */
    const void *device;
    const void *mask; /* of elements on a device: the allocation that has it; NULL: none, or behind the elements */
    uint64_t mask_offset;
    uint64_t kept;
    uint64_t keys; /* of resident data by key: the handle of resident keys; 0: they are in memory */
    uint64_t keys_offset;
} rc_input;

/* A request of the user, checked. */
typedef struct rc_ask {
    rc_input in;
    size_t bytes;
    void *out;
    reduce_spec spec;     /* in this version */
    rc_level whole;       /* what to do, not cut */
    reduce_result result; /* fields that are known before */
    uint64_t start_ns;
    int threads;  /* for a reduction in this process */
    bool weighed; /* the way was chosen by its expected time, of `work` */
    rc_work work;
    uint8_t q[RP_MAX_QUANTILES * RC_DECIMAL_BYTES]; /* whole.spec.q */
} rc_ask;

/* The handle that STORE gave, with its session. */
typedef struct rc_target {
    uint64_t handle, session;
} rc_target;

/* A call for one tile. */
typedef struct rc_tile_call {
    rc_call call;
    reduce_job *job;
    bool used;
    rc_tile tile;
    rc_carrier carrier;
    bool tagged; /* its message has parts beside a claim */
    rp_claim claim;
    bool apart;    /* rows of a file that do not follow one another */
    int part;      /* RC_STAGE: of the stage, for the tile's data */
    rp_fault read; /* code 0 unless the tile's data could not be read from the file */
} rc_tile_call;

struct reduce_job {
    reduce_client *c;
    reduce_done callback;
    void *arg;
    pthread_cond_t changed; /* it has ended, or settled */
    rc_ending ending;

    rc_sizes sizes;
    rc_level whole; /* what to do, not cut */
    uint8_t *out;   /* its cells */
    rc_target to;   /* handle 0: none; else the elements are not reduced but written there */

    /* its progress */
    uint64_t first, next_line; /* the lines of the current run: [first, next_line) */
    rc_level level;
    uint8_t *states;  /* that this level makes, or NULL: it makes cells */
    uint8_t *merging; /* states that it merges, or NULL: its elements are the caller's */
    unsigned under_way;
    rc_datapath path;
    rc_arena results; /* where the daemon puts more results than a reply has; bytes 0: into its replies */
    uint64_t strided; /* bytes of a tile of columns of a file that the daemon reads; 0: as of other tiles */
    bool anew;        /* a tile cannot go as it is cut */
    rc_tile_call calls[RC_MOST_UNDER_WAY];

    uint64_t start_ns, deadline_ns;
    uint64_t watch_until_ns; /* until then a waiting thread polls instead of sleeping */
    uint64_t bytes_done, bytes_total;
    uint8_t q[RP_MAX_QUANTILES * RC_DECIMAL_BYTES]; /* whole.spec.q */
    uint8_t words[16];                              /* of other parameters */
    reduce_result result;
    rp_fault fault; /* code 0: no error so far */
    bool cancelled;
    bool ended;                         /* result and fault are final: poll and wait give them */
    bool settled;                       /* and the callback has returned: the job may be freed */
    bool queues;                        /* its end is for reduce_ended_next */
    reduce_job **at_ended, *next_ended; /* its place in the client's queue of these; NULL: it is not there */
    bool in_callback;
    bool free_after; /* reduce_job_free came from the callback */
    pthread_t callback_thread;
};

/* NULL: no memory. Its data are `in`; the caller fills in `whole`, and opens `path` for data that travel. */
reduce_job *rc_job_new(reduce_client *c, const rc_input *in);
void rc_job_free(reduce_job *j);

/* Bytes of data in a message that has the parameters of an order statistic, too. */
uint64_t rc_ranked_most(const reduce_client *c, const rp_spec *s);

/* The same in one that has weights or keys. */
uint64_t rc_beside_most(const reduce_client *c);

/* With the mutex held. */
void rc_job_start(reduce_job *j);
void rc_job_cancel(reduce_job *j); /* what is under way */

/* ---- ended.c, with the mutex held ---- */

void rc_ended_add(reduce_client *c, reduce_job *j);
void rc_ended_remove(reduce_client *c, reduce_job *j); /* if it is there */
void rc_ended_close(reduce_client *c);                 /* the mutex not held: no job ends any more */

#endif
