/* The counters as Prometheus text (PROTOCOL.md, "Metrics"): one renderer for QUERY and for http. And, for http, the status as
 * JSON.
 *
 * The loop makes the text; others copy the last one under the lock. However often clients ask, making it takes the
 * loop no more than a twentieth of its time. */
#ifndef RD_METRICS_H
#define RD_METRICS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/login.h"
#include "daemon/net/cert_dates.h"
#include "daemon/state/users.h"
#include "daemon/telemetry/device_meter.h"
#include "daemon/telemetry/gauges.h"
#include "daemon/telemetry/processes_json.h"
#include "daemon/telemetry/trace.h"
#include "kernels/kernels.h"

enum { RD_STATUS_BYTES = 32768 }; /* room for the entries of info and status: most have 40 bytes, none more than 300 */

/* All that is rendered, at one moment. */
typedef struct rd_measures {
    rd_gauges gauges;
    rk_stats engine;
    rd_device_reading device; /* of all GPUs */
    unsigned gpus;            /* devices that have lines of their own: GPUs, and CPU engines if there are several */
    rk_stats gpu[RK_MAX_DEVICES];
    rd_device_reading reading[RK_MAX_DEVICES]; /* of gpu[i] */
    const rd_stats *stats;
    const rd_users *users;
    rd_trace *trace; /* NULL: none */
    rd_cert_ends certs;
} rd_measures;

/* The best rate so far is what others are compared with. */
typedef struct rd_rates {
    uint64_t at_ns, bytes, device_bytes[RP_MAX_GPUS]; /* when they were taken last, and the bytes of data then */
    double best, device_best[RP_MAX_GPUS];            /* bytes a second, the most so far: of all, and of each device */
} rd_rates;

/* What users of this machine are called, by their places in rd_stats. */
typedef struct rd_logins {
    bool shown;     /* to readers of the JSON */
    unsigned known; /* places */
    char name[RD_MAX_USERS][RD_LOGIN];
} rd_logins;

typedef struct rd_metrics {
    pthread_mutex_t lock; /* of text and len */
    char *text;           /* NULL before the first */
    size_t len;
    size_t totals; /* of these, before what single users did */
    char *json;    /* NULL: not made so far, or not asked for */
    size_t json_len;
    rd_process *processes; /* NULL: none, or not asked for */
    size_t n_processes;
    void (*measure)(void *arg, rd_measures *out);
    size_t (*entries)(void *arg, const rd_measures *m, uint8_t *out, size_t cap); /* NULL: no JSON is made */
    rd_process *(*list)(void *arg, size_t *n);                                    /* NULL: processes are shown to nobody */
    void *arg;
    rd_rates rates;
    rd_logins logins;
    uint64_t made_ns, cost_ns; /* the loop's: when it was made, and how long that took */
} rd_metrics;

/* `measure`: in the loop, by rd_metrics_refresh. */
bool rd_metrics_init(rd_metrics *m, void (*measure)(void *arg, rd_measures *out), void *arg);
void rd_metrics_fini(rd_metrics *m);

/* The loop: make the text anew unless it is young. False: no memory, and none was ever made. */
bool rd_metrics_refresh(rd_metrics *m);

/* Make JSON, too, from now on: `entries` writes the status as QUERY answers it. `list` (NULL: not wanted) makes an array of the
 * processes: only this machine's users read it, who may know each other's names. */
void rd_metrics_want_json(rd_metrics *m, size_t (*entries)(void *arg, const rd_measures *m, uint8_t *out, size_t cap),
                          rd_process *(*list)(void *arg, size_t *n));

/* Any thread: a copy, to be freed; NULL: no memory, or before the first text. */
char *rd_metrics_copy(void *metrics, size_t *len);
char *rd_metrics_copy_json(void *metrics, size_t *len);

/* ... of the processes that the user may see; NULL: the user is not known */
char *rd_metrics_copy_processes(void *metrics, const uint64_t *uid, size_t *len);

#endif
