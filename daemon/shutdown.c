#include "daemon/shutdown.h"

#include <signal.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/notify.h"
#include "daemon/health.h"
#include "daemon/opening.h"
#include "daemon/request/dispatch.h"
#include "daemon/request/executor.h"
#include "daemon/request/read_queue.h"
#include "daemon/request/reply.h"
#include "daemon/state/resident.h"
#include "proto/clock.h"

enum {
    LEAVE_POLL_MS = 2,
    LEAVE_LIMIT_MS = 1000, /* for replies that peers do not take */
    FLUSH_MS = 50,         /* for bytes that a wire holds back */
    LOST_WAIT_MS = 1000,   /* how long a lost device may take to return its tasks */
    CLOSE_LIMIT_S = 5,
};

/* ---- leaving ---- */

/* A client's file may hang its reader: the process exits without that thread. */
static volatile sig_atomic_t late_exit_code;

static void shutdown_close_limit(int number)
{
    (void)number;
    _exit(late_exit_code);
}

static void limit_the_end(int exit_code)
{
    late_exit_code = exit_code;
    signal(SIGALRM, shutdown_close_limit);
    alarm(CLOSE_LIMIT_S);
}

static void shutdown_flushed(uv_timer_t *t) { uv_stop(t->loop); }

static void shutdown_poll(uv_timer_t *t)
{
    rd_server *s = t->data;
    if (rd_transport_is_quiet(s->transport) || rp_now_ns() >= s->leave_by_ns)
        uv_timer_start(t, shutdown_flushed, rd_transport_holds_back(s->transport) ? FLUSH_MS : 0, 0);
}

static void keep_rates(rd_server *s)
{
    rk_stats k;
    rk_get_stats(s->requests.engine, &k);
    if (!rd_lock_keep_rates(s->locks[0], (rd_kept_rates){k.device_rate, k.cpu_rate}))
        rd_log(RD_LOG_WARN, "the rates of the engine cannot be kept beside the socket");
}

void rd_leave(rd_server *s, int exit_code)
{
    if (s->phase == RD_LEAVING)
        return;
    if (s->locked && s->requests.engine)
        keep_rates(s);
    s->phase = RD_LEAVING;
    s->exit_code = exit_code;
    s->leave_by_ns = rp_after_ms(LEAVE_LIMIT_MS);
    rd_transport_stop_listening(s->transport);
    uv_timer_start(&s->leave_timer, shutdown_poll, 0, LEAVE_POLL_MS);
}

static void take_no_more(rd_server *s)
{
    s->phase = RD_DRAINING;
    s->requests.serving = false;
    rd_fastpath_close(&s->requests.fastpath);
    rd_dispatch_held(&s->requests); /* they are handled as if they came now */
    rd_transport_stop_listening(s->transport);
    rd_fdpass_pause(&s->fdpass);
}

static bool drained(const rd_server *s)
{
    return !s->requests.waiting && s->requests.jobs == s->health.under_way && rd_sessions_streams(&s->sessions) == 0 &&
           rd_fastpath_under_way(&s->requests.fastpath) == 0;
}

/* Afterwards no thread of the engine or of the workers touches a request. Long ranges end with the parts being read. */
static void end_work(rd_server *s, rp_fault *f)
{
    rd_requests *q = &s->requests;
    q->halted = true;
    rd_halted(q, f);
    rd_stop_reading(q, f);
    rk_stop(q->engine);
    rd_fastpath_wait(&q->fastpath);
    rd_workers_close(&s->workers); /* waits for reads of files; after the engine and the fast path, which add work */
    rd_workers_finish(&s->workers);
}

/* Waiting requests are refused here. rd_dispatch refuses those still in the inbox, which include those that the fast path left
 * to the loop. */
static void shutdown_drain_limit(uv_timer_t *t)
{
    rd_server *s = t->data;
    rd_requests *q = &s->requests;
    rp_fault f;
    rd_log(RD_LOG_WARN, "not drained within %llu s: the rest is cancelled", (unsigned long long)s->config.drain);
    limit_the_end(RD_EXIT_OK);
    end_work(s, &f);
    while (q->waiting)
        rd_refuse(q, q->waiting, &f);
    rd_leave(s, RD_EXIT_OK);
}

void rd_drain(rd_server *s, const char *reason)
{
    if (s->phase >= RD_DRAINING)
        return;
    rd_log(RD_LOG_INFO, "%s: finishing what is under way", reason);
    take_no_more(s);
    rd_notify_stopping(); /* from now on no new work is taken */
    if (drained(s))
        rd_leave(s, RD_EXIT_OK);
    else
        uv_timer_start(&s->leave_timer, shutdown_drain_limit, s->config.drain * 1000, 0);
}

static void shutdown_lost_limit(uv_timer_t *t)
{
    (void)t;
    _exit(RD_EXIT_DEVICE); /* a supervisor starts a fresh process; closing the engine could hang */
}

/* The device failed for good. Its tasks come back as DEVICE_LOST, which clients repeat, and the daemon ends at once. */
static void lost(rd_server *s)
{
    rd_log(RD_LOG_ERROR, "the device is lost: exiting with code %d", RD_EXIT_DEVICE);
    rd_notify_stopping();
    s->device_lost = true;
    take_no_more(s);
    uv_timer_start(&s->leave_timer, shutdown_lost_limit, LOST_WAIT_MS, 0);
}

void rd_shutdown_turn(rd_server *s)
{
    rd_requests *q = &s->requests;
    rk_stats k;
    if (q->halted)
        return;
    if (rd_health_watch(s))
        rd_health_tell(s);
    if (q->device_suspect && !s->device_lost) {
        q->device_suspect = false;
        rk_get_stats(q->engine, &k);
        if (k.lost)
            lost(s);
    }
    if (s->device_lost && q->jobs == 0 && rd_fastpath_under_way(&s->requests.fastpath) == 0)
        rd_leave(s, RD_EXIT_DEVICE);
    else if (s->phase == RD_DRAINING && !s->device_lost && drained(s))
        rd_leave(s, RD_EXIT_OK);
}

/* ---- closing ---- */
static void shutdown_close_handle(uv_handle_t *h, void *arg)
{
    (void)arg;
    if (!uv_is_closing(h))
        uv_close(h, NULL);
}

void rd_server_close(rd_server *s)
{
    limit_the_end(s->exit_code);
    if (s->device_lost) { /* its close may hang, and the process ends anyway */
        rd_trace_close(s->trace);
        _exit(RD_EXIT_DEVICE);
    }
    const bool opened = rd_opening_end(s);
    rp_fault f;
    rd_http_close(s->http);
    end_work(s, &f);
    rd_handles_open_late(&s->holdings);
    rd_fdpass_close(&s->fdpass);
    rd_residents_close(&s->holdings);
    rd_buffers_fini(&s->requests.buffers);
    if (s->inbox.ring)
        rd_inbox_close(&s->inbox);
    if (opened)
        rk_close(s->requests.engine);
    rd_device_meter_close(s->meter);
    rd_trace_close(s->trace);
    rd_transport_close(s->transport);
    rd_sessions_fini(&s->sessions);
    if (s->inbox.ring) {
        rd_fastpath_fini(&s->requests.fastpath);
        pthread_mutex_destroy(&s->holdings.lock);
        rd_metrics_fini(&s->metrics);
        rd_inbox_fini(&s->inbox);
    }
    uv_walk(&s->loop, shutdown_close_handle, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    uv_loop_close(&s->loop);
    rd_handles_forget(&s->holdings); /* no channel is left */
    if (!opened) {                   /* the driver may take long, or hang: do not wait for it */
        rd_log(RD_LOG_INFO, "left while the devices were opening");
        _exit(s->exit_code);
    }
    rd_waker_close(&s->waker);
    rd_signals_close(&s->signals);
    for (uint64_t i = 0; i < s->config.listens; i++)
        rd_gate_fini(&s->gates[i]);
    while (s->locked)
        close(s->locks[--s->locked]);
    rd_activation_close(&s->activated);
    rd_passed_close(&s->passed);
}
