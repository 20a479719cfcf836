/* The daemon as a whole: one loop thread that owns everything below, sessions and engine included. Only the files beside this
 * one include it. DESIGN.md says which thread may touch what. */
#ifndef RD_SERVER_H
#define RD_SERVER_H

#include <semaphore.h>
#include <stdatomic.h>
#include <uv.h>

#include "daemon/base/config.h"
#include "daemon/base/signals.h"
#include "daemon/base/waker.h"
#include "daemon/net/activation.h"
#include "daemon/net/inbox.h"
#include "daemon/net/metrics_http.h"
#include "daemon/request/requests.h"
#include "daemon/telemetry/page.h"

enum { RD_EXIT_OK = 0, RD_EXIT_START = 1, RD_EXIT_USAGE = 2, RD_EXIT_DEVICE = 70 };

typedef enum {
    RD_STARTING, /* the first health check is under way, no client is served */
    RD_SERVING,
    RD_DRAINING, /* no new work; what is under way is finished */
    RD_LEAVING   /* all is answered; the replies are on their way out */
} rd_phase;

struct rd_server;

typedef struct rd_health {
    struct rd_probe {
        rd_job job; /* first */
        bool under_way;
        bool right;          /* the last answer */
    } probe[RK_MAX_DEVICES]; /* of each device */
    unsigned under_way;
    unsigned lost;                                  /* devices that were lost when the loop last looked */
    void (*first)(struct rd_server *s, bool right); /* called after the first check; `right`: a device answered right */
} rd_health;

/* State of opening.c. */
typedef struct rd_opening {
    bool begun, posted; /* begun: its thread runs; posted: the engine is open */
    atomic_bool done;   /* the thread has nothing left to do */
    pthread_t thread;
    sem_t go;
    uint64_t since_ns;
} rd_opening;

enum { RD_SERVED = 3 + RD_PAGE_FILES }; /* pages over http: the metrics, their JSON, the processes, and the files of the page */

typedef struct rd_server {
    rd_config config;
    int argc; /* the command line, because SIGHUP reads file and flags again */
    char **argv;
    rd_phase phase;
    int exit_code;
    rd_health health;
    bool device_lost;
    rd_opening opening;
    unsigned restoring; /* kept data still being restored, plus one for the first health check */
    uint64_t restore_ns;
    /* state */
    rd_users users;
    rd_sessions sessions;
    rd_holdings holdings;
    rd_workers workers;
    /* net */
    rd_inbox inbox;
    rd_transport *transport;
    rd_fdpass fdpass;
    rd_gate gates[RD_MAX_LISTEN]; /* of the URLs in config.listen */
    rd_passed passed;             /* what the service manager passed, until it is taken */
    rd_activated activated;
    int locks[RD_MAX_LISTEN];
    unsigned locked;
    bool bound[RD_MAX_LISTEN]; /* by this daemon: keep_sockets.c looks after these */
    bool lost[RD_MAX_LISTEN];  /* and could not bind them again, as the log says */
    /* telemetry */
    rd_stats stats;
    rd_metrics metrics;
    rd_http *http; /* NULL: not served */
    rd_http_page pages[RD_SERVED];
    rd_trace *trace;        /* NULL: none */
    rd_device_meter *meter; /* NULL: none */

    rd_requests requests;

    uint64_t ticked_at, trimmed_at; /* number of answered requests at the last tick, and at the last malloc_trim */
    uint64_t idle_since_ns;         /* when a session was last seen */
    uint64_t leave_by_ns;
    size_t notified_sessions; /* the number that systemd knows */
    uv_loop_t loop;
    rd_waker waker;
    rd_signals signals;
    uv_timer_t tick, health_timer, leave_timer;
} rd_server;

#endif
