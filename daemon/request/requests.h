/* The requests under way, and the services of the layers below that handlers need. Handlers get this instead of the server. */
#ifndef RD_REQUESTS_H
#define RD_REQUESTS_H

#include <uv.h>

#include "daemon/base/config.h"
#include "daemon/net/fdpass.h"
#include "daemon/net/transport.h"
#include "daemon/request/fastpath.h"
#include "daemon/request/request.h"
#include "daemon/state/price.h"
#include "daemon/state/session.h"
#include "daemon/telemetry/metrics.h"
#include "daemon/telemetry/trace.h"

typedef enum { RD_HEALTH_UNKNOWN, RD_HEALTH_OK, RD_HEALTH_SLOW, RD_HEALTH_WRONG } rd_health_state;

typedef struct rd_requests {
    /* services */
    const rd_config *config;
    rk_engine *engine;
    rd_users *users;
    rd_sessions *sessions;
    rd_holdings *holdings;
    rd_transport *transport;
    rd_fdpass *fdpass;
    rd_stats *stats;
    rd_metrics *metrics;
    rd_trace *trace;         /* NULL: none */
    rd_device_meter *meter;  /* NULL: none */
    void (*wake)(void *arg); /* asks for a turn of the loop; any thread */
    void *wake_arg;
    /* state of the daemon, set by the root */
    char why[160]; /* which backend was taken and why */
    struct {
        char label[RK_UUID + 24]; /* for texts: "device 0 (GPU-...)"; "" for a single CPU engine */
        bool lost;                /* the device is lost, and that is logged */
    } devices[RK_MAX_DEVICES];
    char urls[RD_MAX_LISTEN][RD_MAX_URL]; /* in service, with the ports that were taken */
    unsigned n_urls;
    rd_health_state health;
    bool serving;            /* new work is taken */
    uint32_t drain_retry_ms; /* BUSY's hint while the daemon drains */
    bool halted;             /* the engine is stopped: every request gets CANCELLED */
    /* this layer's own */
    rd_request *waiting; /* requests that wait for the engine */
    rd_sched sched;
    rd_price price;      /* of tasks, learnt from those that the engine finished */
    unsigned jobs;       /* in the engine */
    unsigned parked;     /* reads that wait for a buffer of their user's */
    atomic_bool crowded; /* the loop has tasks in the engine or queued for it: none may overtake them */
    bool device_suspect; /* a task came back as DEVICE_LOST: ask the engine */
    uv_timer_t deadline_timer, help_timer;
    rd_buffers buffers;
    rd_fastpath fastpath;
    uint64_t streams_opened; /* and the last stream's id */
    uint64_t next_drop_log_ns;
} rd_requests;

/* Handlers: RP_OK if the request is answered or waits; RD_LATER; an error with `f` filled if it is to be refused. */
typedef rp_err rd_handler(rd_requests *q, rd_request *r, rp_fault *f);

#endif
