#include "daemon/events.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/notify.h"
#include "daemon/base/sandbox.h"
#include "daemon/health.h"
#include "daemon/keep_sockets.h"
#include "daemon/loop.h"
#include "daemon/reload.h"
#include "daemon/request/dispatch.h"
#include "daemon/request/dump.h"
#include "daemon/shutdown.h"
#include "daemon/state/resident.h"
#include "proto/clock.h"

enum { TICK_MS = 1000 };

static void events_rung(void *server) { rd_turn(server); }

static void start_health_timer(rd_server *s);

static void events_health_timer(uv_timer_t *t)
{
    rd_server *s = t->data;
    if (!s->requests.halted)
        rd_health_check(s);
    rd_health_tell(s);
    start_health_timer(s); /* the period may have changed */
}

static uint64_t health_period_ms(const rd_server *s)
{
    unsigned watchdog = rd_notify_watchdog_period();
    return (watchdog && watchdog < s->config.probe ? watchdog : s->config.probe) * 1000;
}

static void start_health_timer(rd_server *s) { uv_timer_start(&s->health_timer, events_health_timer, health_period_ms(s), 0); }

/* After a reload. A check that is due sooner than the period stays due then, so repeated reloads cannot postpone it for
 * ever. */
static void hasten_health_timer(rd_server *s)
{
    if (uv_timer_get_due_in(&s->health_timer) > health_period_ms(s))
        start_health_timer(s);
}

/* Freed message buffers stay in malloc's arenas, which makes the next ones cheap. After a tick without requests they go back to
 * the system. */
static void trim_when_idle(rd_server *s)
{
    rd_stats_collect(&s->stats);
    if (s->stats.tally.requests == s->ticked_at && s->stats.tally.requests != s->trimmed_at) {
        malloc_trim(0);
        rd_buffers_trim(&s->requests.buffers);
        rk_trim(s->requests.engine);
        s->trimmed_at = s->stats.tally.requests;
    }
    s->ticked_at = s->stats.tally.requests;
}

static void events_tick(uv_timer_t *t)
{
    rd_server *s = t->data;
    uint64_t now = rp_now_ns();
    rd_residents_expire(&s->holdings, now);
    rd_transport_tick(s->transport);
    rd_fdpass_tick(&s->fdpass);
    if (s->phase == RD_SERVING)
        rd_keep_sockets(s);
    rd_workers_watch(&s->workers, now);
    rd_handles_watch(&s->holdings);
    rd_residents_store(&s->holdings);
    rd_turn(s); /* frees sessions whose last reply was still being sent; and bounds the wait should a wake-up ever be lost */
    trim_when_idle(s);
    if (s->http)
        rd_metrics_refresh(&s->metrics);
    if (s->sessions.greeted != s->notified_sessions)
        rd_health_tell(s);
    /* a user that stored data here relies on them */
    if (s->sessions.greeted || rd_held(&s->users.charges, RD_HELD_RESIDENTS))
        s->idle_since_ns = now;
    else if (s->config.idle_exit && s->phase == RD_SERVING && now - s->idle_since_ns >= s->config.idle_exit * RP_NS_PER_S)
        rd_drain(s, "idle");
}

static void reload(rd_server *s)
{
    rd_reload(s);
    hasten_health_timer(s);
}

static void events_signal(void *server, int number)
{
    rd_server *s = server;
    if (number == SIGUSR1)
        rd_dump_log(&s->requests);
    else if (number == SIGHUP && s->phase == RD_SERVING)
        reload(s);
    else if (number == SIGHUP)
        return;
    else if (s->phase >= RD_DRAINING)
        _exit(RD_EXIT_START); /* a second signal ends the process at once */
    else
        rd_drain(s, number == SIGTERM ? "SIGTERM" : "SIGINT");
}

static int events_make_loop(void *loop) { return uv_loop_init(loop); }

bool rd_events_open(rd_server *s)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, 0};
    uv_timer_t *timers[] = {&s->tick, &s->health_timer, &s->leave_timer};
    if (s->config.no_sandbox ? events_make_loop(&s->loop) : rd_sandbox_without_rings(events_make_loop, &s->loop)) {
        rd_log(RD_LOG_ERROR, "no descriptors for the loop");
        _exit(RD_EXIT_START); /* nothing is open that must be closed */
    }
    for (size_t i = 0; i < sizeof timers / sizeof timers[0]; i++) {
        uv_timer_init(&s->loop, timers[i]);
        timers[i]->data = s;
    }
    uv_timer_t *theirs[] = {&s->requests.deadline_timer, &s->requests.help_timer};
    for (size_t i = 0; i < sizeof theirs / sizeof theirs[0]; i++) {
        uv_timer_init(&s->loop, theirs[i]);
        theirs[i]->data = &s->requests;
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a trace that may not grow must not end the process */
    if (rd_signals_open(&s->signals, &s->loop, numbers, events_signal, s) && rd_waker_open(&s->waker, &s->loop, events_rung, s))
        return true;
    rd_log(RD_LOG_ERROR, "no descriptors for the loop");
    return false;
}

void rd_events_start(rd_server *s)
{
    uv_timer_start(&s->tick, events_tick, TICK_MS, TICK_MS);
    start_health_timer(s);
}
