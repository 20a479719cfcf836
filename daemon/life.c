#include "daemon/life.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/lock.h"
#include "daemon/base/log.h"
#include "daemon/base/notify.h"
#include "daemon/base/paths.h"
#include "daemon/request/dispatch.h"
#include "daemon/request/executor.h"
#include "daemon/state/resident.h"

enum {
    TICK_MS = 1000,
    LEAVE_POLL_MS = 2,
    LEAVE_LIMIT_MS = 1000, /* for replies that peers do not take */
    FLUSH_MS = 50,         /* nng does not tell when its TLS has given the kernel the last bytes of a reply */
    LOST_WAIT_MS = 1000,   /* what a lost device gets to give its tasks back */
    CLOSE_LIMIT_S = 5,
};

/* ---- leaving ---- */

/* A client's file may hang whoever reads it: the process ends without. */
static volatile sig_atomic_t late_exit_code;

static void on_close_limit(int number)
{
    (void)number;
    _exit(late_exit_code);
}

static void limit_the_end(int exit_code)
{
    late_exit_code = exit_code;
    signal(SIGALRM, on_close_limit);
    alarm(CLOSE_LIMIT_S);
}

static void on_flushed(uv_timer_t *t) { uv_stop(t->loop); }

static void on_leave_poll(uv_timer_t *t)
{
    rd_server *s = t->data;
    if (rd_transport_is_quiet(s->transport) || rd_now_ns() >= s->leave_by_ns)
        uv_timer_start(t, on_flushed, FLUSH_MS, 0);
}

/* All is answered; let the replies go out. */
static void leave(rd_server *s, int exit_code)
{
    if (s->phase == RD_LEAVING)
        return;
    s->phase = RD_LEAVING;
    s->exit_code = exit_code;
    s->leave_by_ns = rd_now_ns() + (uint64_t)LEAVE_LIMIT_MS * 1000000;
    rd_transport_stop_listening(s->transport);
    uv_timer_start(&s->leave_timer, on_leave_poll, 0, LEAVE_POLL_MS);
}

static bool drained(const rd_server *s)
{
    return !s->waiting && s->jobs == (unsigned)s->probing && rd_sessions_streams(&s->sessions) == 0 &&
           rd_fastpath_under_way(&s->fastpath) == 0;
}

/* What waits is refused here, and by rd_dispatch what is in the inbox yet: what the quick way left to the loop, too. */
static void on_drain_limit(uv_timer_t *t)
{
    rd_server *s = t->data;
    rp_fault f;
    rd_log(RD_LOG_WARN, "not drained within %llu s: the rest is cancelled", (unsigned long long)s->config.drain);
    limit_the_end(RD_EXIT_OK);
    rk_stop(s->engine);            /* afterwards nothing points into the requests */
    rd_workers_close(&s->workers); /* waits for files that are being read; after the engine, whose threads add chores */
    rd_take_work(s);
    s->halted = true;
    rd_halted(s, &f);
    while (s->waiting)
        rd_refuse(s, s->waiting, &f);
    leave(s, RD_EXIT_OK);
}

static void drain(rd_server *s, const char *reason)
{
    if (s->phase >= RD_DRAINING)
        return;
    rd_log(RD_LOG_INFO, "%s: finishing what is under way", reason);
    s->phase = RD_DRAINING;
    rd_fastpath_close(&s->fastpath);
    rd_transport_stop_listening(s->transport);
    rd_notify_stopping(); /* now no new work is taken */
    if (drained(s))
        leave(s, RD_EXIT_OK);
    else
        uv_timer_start(&s->leave_timer, on_drain_limit, s->config.drain * 1000, 0);
}

static void on_lost_limit(uv_timer_t *t)
{
    (void)t;
    _exit(RD_EXIT_DEVICE); /* a supervisor starts a fresh process; closing the engine could hang */
}

/* The device failed for good: its tasks come back as DEVICE_LOST, which clients repeat. Then out, at once. */
static void lost(rd_server *s)
{
    rd_log(RD_LOG_ERROR, "the device is lost: leaving with exit code %d", RD_EXIT_DEVICE);
    rd_notify_stopping();
    s->device_lost = true;
    s->phase = RD_DRAINING;
    rd_fastpath_close(&s->fastpath);
    rd_transport_stop_listening(s->transport);
    uv_timer_start(&s->leave_timer, on_lost_limit, LOST_WAIT_MS, 0);
}

void rd_life_turn(rd_server *s)
{
    rk_stats k;
    if (s->halted)
        return;
    if (s->device_suspect && !s->device_lost) {
        s->device_suspect = false;
        rk_get_stats(s->engine, &k);
        if (k.lost)
            lost(s);
    }
    if (s->device_lost && s->jobs == 0 && rd_fastpath_under_way(&s->fastpath) == 0)
        leave(s, RD_EXIT_DEVICE);
    else if (s->phase == RD_DRAINING && !s->device_lost && drained(s))
        leave(s, RD_EXIT_OK);
}

/* ---- timers and signals ---- */
static void on_bell(void *server) { rd_turn(server); }

static void start_probe_timer(rd_server *s);

static void on_probe_timer(uv_timer_t *t)
{
    rd_server *s = t->data;
    if (!s->halted)
        rd_probe(s);
    start_probe_timer(s); /* the period may have changed */
}

static void start_probe_timer(rd_server *s)
{
    unsigned watchdog = rd_notify_watchdog_period();
    uint64_t period = watchdog && watchdog < s->config.probe ? watchdog : s->config.probe;
    uv_timer_start(&s->probe_timer, on_probe_timer, period * 1000, 0);
}

/* Freed message buffers stay in malloc's arenas, which makes the next ones cheap; once nothing came for a tick they go
 * back to the system. */
static void trim_when_idle(rd_server *s)
{
    rd_fastpath_collect(&s->fastpath, &s->stats.tally);
    if (s->stats.tally.requests == s->ticked_at && s->stats.tally.requests != s->trimmed_at) {
        malloc_trim(0);
        rd_buffers_trim(s);
        if (s->engine)
            rk_trim(s->engine);
        s->trimmed_at = s->stats.tally.requests;
    }
    s->ticked_at = s->stats.tally.requests;
}

static void on_tick(uv_timer_t *t)
{
    rd_server *s = t->data;
    uint64_t now = rd_now_ns();
    rd_residents_expire(s, now);
    rd_transport_tick(s->transport);
    rd_fdpass_tick(s);
    rd_turn(s); /* reaps sessions whose last reply was still on its way; and should a ring ever be lost, bounds the wait */
    trim_when_idle(s);
    if (s->http)
        rd_metrics_refresh(s);
    if (s->sessions.greeted != s->told_sessions) {
        char text[64];
        s->told_sessions = s->sessions.greeted;
        snprintf(text, sizeof text, "%zu sessions, %llu requests so far", s->told_sessions,
                 (unsigned long long)s->stats.tally.requests);
        rd_notify_status(text);
    }
    if (s->sessions.greeted || s->users.residents) /* who left data here counts on them */
        s->idle_since_ns = now;
    else if (s->config.idle_exit && s->phase == RD_SERVING && now - s->idle_since_ns >= s->config.idle_exit * 1000000000)
        drain(s, "idle");
}

static void reload(rd_server *s)
{
    rd_config fresh;
    rd_command command;
    char why[RD_MAX_WHY];
    rd_notify_reloading();
    if (!rd_config_load(&fresh, &command, s->argc, s->argv, why)) {
        rd_log(RD_LOG_ERROR, "%s; the old settings stay", why);
    } else {
        unsigned stuck = rd_config_reload(&s->config, &fresh, why, sizeof why);
        rd_users_configure(&s->users, &s->config);
        rd_log_set_level((rd_log_level)s->config.log_level);
        rd_log(RD_LOG_INFO, "config read again");
        if (stuck)
            rd_log(RD_LOG_WARN, "changed, but needs a restart: %s", why);
        rd_fastpath_limit(&s->fastpath, (unsigned)s->config.max_inflight, rd_unread_limit(s));
        start_probe_timer(s);
    }
    rd_notify_ready();
}

static void on_signal(uv_signal_t *h, int number)
{
    rd_server *s = h->data;
    if (number == SIGHUP && s->phase == RD_SERVING)
        reload(s);
    else if (number == SIGHUP)
        return;
    else if (s->phase >= RD_DRAINING)
        _exit(RD_EXIT_START); /* told twice: now */
    else
        drain(s, number == SIGTERM ? "SIGTERM" : "SIGINT");
}

/* ---- starting ---- */
static void engine_log(void *arg, rk_log_level level, const char *text)
{
    static const rd_log_level of[] = {
        [RK_LOG_DEBUG] = RD_LOG_DEBUG, [RK_LOG_INFO] = RD_LOG_INFO, [RK_LOG_WARN] = RD_LOG_WARN, [RK_LOG_ERROR] = RD_LOG_ERROR};
    (void)arg;
    rd_log(of[level], "%s", text);
}

static bool open_loop(rd_server *s)
{
    uv_timer_t *timers[] = {&s->tick, &s->probe_timer, &s->deadline_timer, &s->leave_timer};
    uv_signal_t *signals[] = {&s->term, &s->intr, &s->hup};
    const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    uv_loop_init(&s->loop);
    for (size_t i = 0; i < sizeof timers / sizeof timers[0]; i++) {
        uv_timer_init(&s->loop, timers[i]);
        timers[i]->data = s;
    }
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        uv_signal_init(&s->loop, signals[i]);
        signals[i]->data = s;
        uv_signal_start(signals[i], on_signal, numbers[i]);
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a trace that may not grow is no reason to die */
    if (rd_waker_open(&s->waker, &s->loop, on_bell, s))
        return true;
    rd_log(RD_LOG_ERROR, "no eventfd for the loop");
    return false;
}

static void set_resident_caps(rd_server *s)
{
    rk_stats k;
    rk_get_stats(s->engine, &k);
    s->users.resident_cap = k.resident_cap;
    s->users.resident_user_cap = s->config.resident_user ? s->config.resident_user << 20 : k.resident_cap / 2;
}

static bool open_engine(rd_server *s)
{
    rk_options o = {.backend = (int)s->config.backend,
                    .device = (int)s->config.device,
                    .threads = (int)s->config.threads,
                    .small_bytes = s->config.small_bytes,
                    .batch_bytes = s->config.batch_bytes,
                    .slots = (int)s->config.slots,
                    .device_bytes = s->config.max_device_memory << 20,
                    .resident_bytes = s->config.resident << 20,
                    .wake = rd_waker_ring,
                    .wake_arg = &s->waker,
                    .log = engine_log};
    rp_err err = rk_open(&s->engine, &o, s->why, sizeof s->why);
    if (err) {
        rd_log(RD_LOG_ERROR, "no engine: %s (%s)", s->why, rp_err_name((int)err));
        return false;
    }
    rd_log(RD_LOG_INFO, "%s", s->why);
    set_resident_caps(s);
    rd_executor_open(s);
    return true;
}

/* One lock for each ipc socket. */
static bool lock_sockets(rd_server *s, bool autostarted, int *exit_code)
{
    char why[RD_MAX_WHY];
    for (uint64_t i = 0; i < s->config.listens; i++) {
        const char *path = rd_ipc_path(s->config.listen[i]);
        if (!path)
            continue;
        rd_lock_result result = RD_LOCK_FAILED;
        if (rd_prepare_directory(path, why, sizeof why))
            result = rd_lock_socket(path, &s->locks[s->locked], why, sizeof why);
        if (result != RD_LOCK_OK) {
            bool fine = result == RD_LOCK_HELD && autostarted; /* two clients started one each: one is enough */
            rd_log(fine ? RD_LOG_INFO : RD_LOG_ERROR, "%s", why);
            *exit_code = fine ? RD_EXIT_OK : RD_EXIT_START;
            return false;
        }
        s->locked++;
    }
    return true;
}

/* Each connection is a descriptor. */
static void raise_descriptors(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

static bool open_transport(rd_server *s)
{
    unsigned exchanges = (unsigned)s->config.contexts;
    if (pthread_mutex_init(&s->handles, NULL) == 0 && rd_inbox_init(&s->inbox, exchanges, rd_waker_ring, &s->waker) &&
        rd_sessions_init(&s->sessions, &s->users, s->config.max_sessions) && rd_fastpath_init(&s->fastpath) &&
        rd_metrics_init(&s->metrics) && (s->transport = rd_transport_open(&s->inbox, exchanges, sizeof(rd_request))))
        return true;
    rd_log(RD_LOG_ERROR, "no memory");
    return false;
}

static bool wants_tls(const rd_config *c)
{
    for (uint64_t i = 0; i < c->listens; i++)
        if (rd_is_tls(c->listen[i]))
            return true;
    return false;
}

/* A key that anybody may read is none. */
static bool private_key(const char *path, char *why, size_t cap)
{
    struct stat st;
    if (stat(path, &st) != 0)
        snprintf(why, cap, "%.120s: %s", path, strerror(errno));
    else if (st.st_mode & 07)
        snprintf(why, cap, "%.120s: others than owner and group have access to the key (mode %03o)", path, st.st_mode & 0777);
    else
        return true;
    return false;
}

static bool open_tls(rd_server *s)
{
    const rd_config *c = &s->config;
    char why[RD_MAX_WHY];
    if (!wants_tls(c) || (private_key(c->tls_key, why, sizeof why) &&
                          rd_transport_tls(s->transport, c->tls_cert, c->tls_key, c->tls_ca, c->tls_clients, why, sizeof why)))
        return true;
    rd_log(RD_LOG_ERROR, "no tls: %s", why);
    return false;
}

/* Half of a machine's cores fill its memory bus; the others are for those with small requests. */
static unsigned readers(const rd_server *s)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (s->config.readers)
        return (unsigned)s->config.readers;
    return cores < 8 ? 4 : cores > 32 ? 16 : (unsigned)cores / 2;
}

/* The page cache could not keep a larger file, and would lose most of what it has. */
static uint64_t direct_bytes(const rd_server *s)
{
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return s->config.direct ? s->config.direct << 20 : memory / 2;
}

static bool open_chores(rd_server *s)
{
    unsigned n = readers(s);
    rd_users_configure(&s->users, &s->config);
    if (!rd_buffers_init(&s->buffers, &s->users, 2 * n, direct_bytes(s)))
        rd_log(RD_LOG_ERROR, "no memory");
    else if (!rd_workers_open(&s->workers, n, rd_waker_ring, &s->waker))
        rd_log(RD_LOG_ERROR, "no threads to read files");
    else
        return true;
    return false;
}

static bool open_trace(rd_server *s)
{
    char why[RD_MAX_PATH + RD_MAX_WHY];
    if (!s->config.trace[0])
        return true;
    s->trace = rd_trace_open(s->config.trace, s->stats.started_ns, s->config.trace_size << 20, why, sizeof why);
    if (!s->trace)
        rd_log(RD_LOG_ERROR, "no trace: %s", why);
    return s->trace != NULL;
}

bool rd_life_open(rd_server *s, const rd_command *command, int *exit_code)
{
    *exit_code = RD_EXIT_START;
    umask(0077); /* sockets get their mode after they are bound: no moment with a wider one */
    raise_descriptors();
    return open_loop(s) && lock_sockets(s, command->autostarted, exit_code) && open_transport(s) && open_tls(s) &&
           open_chores(s) && open_trace(s) && open_engine(s);
}

/* An ipc socket, already bound with no mode for others, and its side channel. */
static bool open_ipc(rd_server *s, uint64_t i, const char *path, char *why, size_t cap)
{
    const rd_config *c = &s->config;
    const rd_allow *own = &c->allow[i + 1];
    if (!rd_gate_init(&s->gates[i], own->users.n || own->groups.n ? own : &c->allow[0])) {
        snprintf(why, cap, "%s: no memory", path);
        return false;
    }
    if (!rd_hand_socket(path, (unsigned)c->socket_mode, &c->socket_group)) {
        snprintf(why, cap, "%s: socket-group: %s", path, strerror(errno));
        return false;
    }
    if (!rd_fdpass_listen(s, path, &s->gates[i], why, cap))
        rd_log(RD_LOG_WARN, "no side channel, so no shared memory and passed files: %s", why);
    return true;
}

static bool listen_to(rd_server *s, uint64_t i, char *why, size_t cap)
{
    const char *url = s->config.listen[i], *path = rd_ipc_path(url);
    if (!rd_transport_listen(s->transport, url, s->urls[s->serving], RD_MAX_URL, why, cap) ||
        (path && !open_ipc(s, i, path, why, cap)))
        return false;
    rd_log(RD_LOG_INFO, "serving %s", s->urls[s->serving++]);
    if (rd_is_plain_tcp(url) || (rd_is_tls(url) && s->config.tls_clients))
        rd_log(RD_LOG_WARN, "%s has no authentication%s: whoever reaches the port may use the device", url,
               rd_is_tls(url) ? "" : " and no encryption");
    return true;
}

static bool listen_all(rd_server *s)
{
    char why[RD_MAX_WHY];
    for (uint64_t i = 0; i < s->config.listens; i++)
        if (!listen_to(s, i, why, sizeof why)) {
            rd_log(RD_LOG_ERROR, "cannot listen on %s", why);
            return false;
        }
    return true;
}

static bool serve_metrics(rd_server *s)
{
    char bound[RD_MAX_URL + 16], why[RD_MAX_WHY];
    if (!s->config.metrics_url[0])
        return true;
    rd_metrics_refresh(s);
    s->http = rd_http_open(s->config.metrics_url, rd_metrics_copy, &s->metrics, bound, sizeof bound, why, sizeof why);
    if (s->http)
        rd_log(RD_LOG_INFO, "metrics on %s", bound);
    else
        rd_log(RD_LOG_ERROR, "cannot serve metrics on %s", why);
    return s->http != NULL;
}

/* What may be answered without the loop. */
static size_t quick_bytes(const rd_config *c) { return c->small_bytes > c->batch_bytes ? c->small_bytes : c->batch_bytes; }

void rd_life_probed(rd_server *s, bool right)
{
    if (!right || !listen_all(s) || !serve_metrics(s)) {
        leave(s, right ? RD_EXIT_START : RD_EXIT_DEVICE);
        return;
    }
    s->phase = RD_SERVING;
    s->idle_since_ns = rd_now_ns();
    rd_fastpath_limit(&s->fastpath, (unsigned)s->config.max_inflight, rd_unread_limit(s));
    rd_fastpath_open(&s->fastpath, s, quick_bytes(&s->config));
    rd_transport_start(s->transport, rd_fastpath_answer, &s->fastpath);
    uv_timer_start(&s->tick, on_tick, TICK_MS, TICK_MS);
    start_probe_timer(s);
    rd_notify_ready();
    rd_log(RD_LOG_INFO, "ready");
}

/* ---- closing ---- */
static void close_handle(uv_handle_t *h, void *arg)
{
    (void)arg;
    if (!uv_is_closing(h))
        uv_close(h, NULL);
}

void rd_life_close(rd_server *s)
{
    limit_the_end(s->exit_code);
    if (s->device_lost) { /* its close may hang, and the process ends anyway */
        rd_trace_close(s->trace);
        _exit(RD_EXIT_DEVICE);
    }
    rd_http_close(s->http);
    rk_stop(s->engine); /* until here its threads answer requests, and add chores */
    rd_workers_close(&s->workers);
    rd_take_work(s);
    rd_fdpass_close(s);
    rd_residents_close(s);
    rd_buffers_fini(s);
    if (s->inbox.ring)
        rd_inbox_close(&s->inbox);
    rk_close(s->engine);
    rd_trace_close(s->trace);
    rd_transport_close(s->transport);
    rd_sessions_fini(&s->sessions);
    if (s->inbox.ring) {
        rd_fastpath_fini(&s->fastpath);
        pthread_mutex_destroy(&s->handles);
        rd_metrics_fini(&s->metrics);
        rd_inbox_fini(&s->inbox);
    }
    uv_walk(&s->loop, close_handle, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    uv_loop_close(&s->loop);
    rd_waker_close(&s->waker);
    for (uint64_t i = 0; i < s->config.listens; i++)
        rd_gate_fini(&s->gates[i]);
    while (s->locked)
        close(s->locks[--s->locked]);
}
