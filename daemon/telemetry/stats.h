/* Counters of the daemon's life.
 *
 * What every answered request adds is a tally. The threads of the fast path, which answer small reductions, share a tally under
 * a lock. The loop joins it to its own when it needs the sum, and counts the rest alone. */
#ifndef RD_STATS_H
#define RD_STATS_H

#include <pthread.h>

#include "daemon/base/user_name.h"
#include "daemon/telemetry/histogram.h"
#include "proto/limits.h"
#include "proto/tagged.h"

/* Places in tables by code: above the highest of types.def, and 0 for codes that are unknown. */
#define RD_ONE(...) +1
enum {
    RD_MSGS = 32,
    RD_OPS = RP_OP_END,
    RD_DTYPES = 1 RP_DTYPES(RD_ONE),
    RD_PATHS = 1 RP_PATHS(RD_ONE),
    RD_ERRS = 0 RP_ERRORS(RD_ONE) /* RP_OK is 0 */
};
#undef RD_ONE

/* Users with counters of their own. The first two places are for those without: users that came when all were taken (a
 * tool that makes up users must not grow the daemon), and peers whose user is not known (tcp). */
enum { RD_USER_OTHER, RD_USER_UNKNOWN, RD_FIRST_USER, RD_MAX_USERS = 64 };

/* The times of a request: receipt until the engine took it up; moving its data; computing; receipt to reply. */
typedef enum { RD_QUEUE, RD_COPY, RD_KERNEL, RD_TOTAL, RD_STAGES } rd_stage;
extern const char *const rd_stage_names[RD_STAGES];

/* The name of a code for metrics and page: "unknown" if it is 0. */
static inline const char *rd_known_name(int code, const char *(*name)(int)) { return code ? name(code) : "unknown"; }

/* What is reported of an answered request: to the counters here and to the trace. */
typedef struct rd_record {
    uint8_t msg; /* as it came: maybe no code */
    rp_err err;
    unsigned user;     /* from rd_stats_user */
    const char *name;  /* of a user from a certificate, the text of that place; NULL: another user */
    uint64_t pid, id;  /* of the client's process, 0: not known; of the request */
    unsigned exchange; /* its number: an exchange has one request at a time */
    size_t body_bytes;
    rp_claim claim;
    uint64_t received_ns;             /* CLOCK_MONOTONIC */
    bool worked;                      /* the engine works for requests like this one; if not, the rest is 0 */
    uint8_t op, dtype, path, backend; /* as far as known, else 0 */
    bool piece;                       /* of a reduction that comes in several requests: its answer is not a value */
    int device;                       /* of the engine, that worked; -1: several, or none */
    const char *device_label;         /* "device 0 (GPU-...)"; "": the only CPU; NULL: several, or none */
    const char *route;                /* how a CUDA device launched it (kernels.h); NULL: it did not. Never freed */
    uint64_t data_bytes;
    uint64_t start_ns;            /* the engine took it up; 0: it did not */
    uint64_t stage_ns[RD_STAGES]; /* the total always, the others if the engine took it up */
} rd_record;

typedef struct rd_use {
    uint64_t requests, pieces, errors, bytes, engine_ns; /* bytes: of data; engine_ns: copying and computing */
    rp_claim claim;                                      /* what clients say: not checked */
} rd_use;

/* A request that succeeded and took long */
enum { RD_SLOW = 16, RD_SLOW_MS = 100 };
typedef struct rd_slow {
    uint8_t op, dtype, path;
    uint64_t bytes, end_ns, stage_ns[RD_STAGES]; /* end_ns: CLOCK_MONOTONIC, of its answer */
} rd_slow;

typedef struct rd_tally {
    uint64_t requests; /* answered */
    uint64_t by_msg[RD_MSGS];
    uint64_t bytes_in;    /* bodies received */
    uint64_t errors;      /* error replies */
    rd_histogram latency; /* receipt to reply of all requests, ns */
    /* of the requests that the engine works for, those that succeeded */
    uint64_t by_op[RD_OPS]; /* accepted: REDUCE, REDUCE_AT, BEGIN */
    uint64_t done[RD_OPS][RD_DTYPES][RD_PATHS];
    uint64_t pieces[RD_OPS][RD_DTYPES][RD_PATHS]; /* of `done` */
    uint64_t data_bytes[RD_OPS][RD_DTYPES][RD_PATHS];
    uint64_t device_bytes[RP_MAX_GPUS]; /* of these, by the engine's device that had them; not of memory on several */
    rd_histogram stage[RD_STAGES];
    rd_use use[RD_MAX_USERS];
    rd_slow slow[RD_SLOW]; /* the last ones, the n-th in place n % RD_SLOW */
    uint64_t slow_n;       /* ever */
} rd_tally;

typedef struct rd_shared_tally {
    pthread_mutex_t lock;
    rd_tally tally;
} rd_shared_tally;

typedef struct rd_stats {
    uint64_t started_ns;
    uint64_t sessions; /* ever */
    uint64_t dropped;  /* connections closed for a bad frame or because there was too little memory */
    rd_tally tally;
    uint64_t by_err[RD_ERRS];
    uint64_t failed[RD_OPS][RD_DTYPES][RD_PATHS][RD_ERRS];
    char user[RD_MAX_USERS][RD_USER_TEXT]; /* the place's: never changes once it is taken */
    unsigned users;                        /* of the places from RD_FIRST_USER on, taken */
    rd_shared_tally shared;                /* of the fast path since the last rd_stats_collect */
} rd_stats;

/* The place of a user's counters, by its text (users.h); theirs to the end. NULL: not known. */
unsigned rd_stats_user(rd_stats *s, const char *text);

/* Whose fault an error is: of the data or the file, of the request, of nobody (later there is room), of the daemon, or of the
 * machine. */
typedef enum { RD_FAULT_DATA, RD_FAULT_REQUEST, RD_FAULT_LOAD, RD_FAULT_DAEMON, RD_FAULT_MACHINE, RD_FAULTS } rd_whose_fault;
extern const char *const rd_fault_names[RD_FAULTS];
uint64_t rd_stats_faults(const rd_stats *s, rd_whose_fault fault);

void rd_tally_add(rd_tally *t, const rd_record *a);
void rd_tally_join(rd_tally *t, const rd_tally *from); /* add all counters of `from` */
uint64_t rd_tally_path_bytes(const rd_tally *t, int path);
rp_claim rd_tally_claim(const rd_tally *t); /* of all users */

/* An answer of any kind leaves: what rd_tally_add counts, and errors by kind. */
void rd_stats_answered(rd_stats *s, const rd_record *a);

/* Any thread: a reduction was accepted and answered. */
void rd_shared_tally_add(rd_shared_tally *t, const rd_record *a);

bool rd_stats_init(rd_stats *s, uint64_t now_ns); /* all zero before */
void rd_stats_fini(rd_stats *s);

/* The loop: move what the fast path counted into s->tally. */
void rd_stats_collect(rd_stats *s);

/* A reduction of this (checked) op was accepted: REDUCE, REDUCE_AT or BEGIN. */
static inline void rd_tally_op(rd_tally *t, int op) { t->by_op[op]++; }

#endif
