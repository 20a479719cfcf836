/* The daemon: one loop thread that owns everything below, sessions and engine included. DESIGN.md says who may touch what. */
#ifndef RD_SERVER_H
#define RD_SERVER_H

#include <uv.h>

#include "daemon/base/config.h"
#include "daemon/base/waker.h"
#include "daemon/net/connection.h"
#include "daemon/net/fdpass.h"
#include "daemon/net/inbox.h"
#include "daemon/net/metrics_http.h"
#include "daemon/request/fastpath.h"
#include "daemon/state/session.h"
#include "daemon/telemetry/metrics.h"
#include "daemon/telemetry/stats.h"
#include "daemon/telemetry/trace.h"

enum { RD_EXIT_OK = 0, RD_EXIT_START = 1, RD_EXIT_USAGE = 2, RD_EXIT_DEVICE = 70 };

typedef enum {
    RD_STARTING, /* the first probe is under way, nobody is served */
    RD_SERVING,
    RD_DRAINING, /* no new work; what is under way is finished */
    RD_LEAVING   /* all is answered; the replies are on their way out */
} rd_phase;

typedef enum { RD_HEALTH_UNKNOWN, RD_HEALTH_OK, RD_HEALTH_SLOW, RD_HEALTH_WRONG } rd_health;

typedef struct rd_server {
    rd_config config;
    int argc; /* the command line: SIGHUP reads file and flags again */
    char **argv;
    rd_phase phase;
    int exit_code;

    rk_engine *engine;
    bool halted;    /* it is stopped: whatever comes is CANCELLED */
    char why[160];  /* which backend was taken and why */
    unsigned jobs;  /* in the engine */
    rd_sched sched; /* of what is not yet */
    rd_job probe;
    bool probing;
    rd_health health;

    rd_inbox inbox;
    rd_transport *transport;
    rd_gate gates[RD_MAX_LISTEN];         /* of the URLs in config.listen */
    char urls[RD_MAX_LISTEN][RD_MAX_URL]; /* in service, with the ports that were taken */
    unsigned serving;
    int locks[RD_MAX_LISTEN];
    unsigned locked;

    rd_sessions sessions;
    pthread_mutex_t handles; /* of lists of shares and of resident data, against nng's threads (handle.h) */
    rd_fastpath fastpath;
    rd_users users;
    rd_workers workers;
    rd_fdpass fdpass;
    rd_buffers buffers;
    uint64_t residents_until_ns; /* no resident data expire before */
    uint64_t streams_opened;     /* and the last stream's id */
    rd_request *waiting;         /* requests that wait for the engine */
    rd_stats stats;
    rd_metrics metrics;
    rd_http *http;                  /* NULL: not served */
    rd_trace *trace;                /* NULL: none */
    uint64_t ticked_at, trimmed_at; /* stats.requests at the last tick, at the last malloc_trim */
    uint64_t idle_since_ns;         /* when a session was last seen */
    uint64_t next_drop_log_ns;
    uint64_t leave_by_ns;
    size_t told_sessions; /* systemd knows of so many */
    bool device_suspect;  /* a task came back as DEVICE_LOST: ask the engine */
    bool device_lost;

    uv_loop_t loop;
    rd_waker waker;
    uv_timer_t tick, probe_timer, deadline_timer, leave_timer;
    uv_signal_t term, intr, hup;
} rd_server;

uint64_t rd_now_ns(void); /* CLOCK_MONOTONIC */

/* One turn of the loop: finished tasks, then what nng's threads put into the inbox. */
void rd_turn(rd_server *s);

/* Start a health check, if the last one is back. */
void rd_probe(rd_server *s);

uint64_t rd_resident_bytes(void); /* of the process */

/* What the chores' threads have done. */
void rd_take_work(rd_server *s);

#endif
