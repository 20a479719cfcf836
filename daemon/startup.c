#include "daemon/startup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/host.h"
#include "daemon/base/lock.h"
#include "daemon/base/log.h"
#include "daemon/base/notify.h"
#include "daemon/base/paths.h"
#include "daemon/base/sandbox.h"
#include "daemon/events.h"
#include "daemon/health.h"
#include "daemon/opening.h"
#include "daemon/reload.h"
#include "daemon/request/dispatch.h"
#include "daemon/request/executor.h"
#include "daemon/request/on_handle.h"
#include "daemon/request/on_query.h"
#include "daemon/shutdown.h"
#include "daemon/state/resident.h"
#include "daemon/tls.h"
#include "proto/clock.h"

enum {
    RESTART_MS = 200, /* about how long a restart takes */
    TAKEOVER_MS = 5   /* with passed sockets clients can connect at any time, and the next daemon answers once it has started */
};

static void startup_engine_log(void *arg, rk_log_level level, const char *text)
{
    static const rd_log_level of[] = {
        [RK_LOG_DEBUG] = RD_LOG_DEBUG, [RK_LOG_INFO] = RD_LOG_INFO, [RK_LOG_WARN] = RD_LOG_WARN, [RK_LOG_ERROR] = RD_LOG_ERROR};
    (void)arg;
    rd_log(of[level], "%s", text);
}

static rk_options engine_options(rd_server *s)
{
    const bool hybrid = s->config.backend == RD_BACKEND_HYBRID;
    if (hybrid)
        rd_log(RD_LOG_INFO, "backend = hybrid: auto, which uses both");
    const rd_kept_rates before = s->locked ? rd_lock_rates(s->locks[0]) : (rd_kept_rates){0, 0};
    return (rk_options){.backend = hybrid ? 0 : (int)s->config.backend,
                        .devices = s->config.devices,
                        .threads = (int)s->config.threads,
                        .small_bytes = s->config.small_bytes,
                        .slots = (int)s->config.slots,
                        .device_bytes = s->config.max_device_memory << 20,
                        .resident_bytes = s->config.resident << 20,
                        .device_rate = (double)before.device * 1e-9,
                        .cpu_rate = (double)before.cpu * 1e-9,
                        .wake = rd_waker_ring,
                        .wake_arg = &s->waker,
                        .log = startup_engine_log};
}

static bool open_engine(rd_server *s, const rk_options *o)
{
    rd_requests *q = &s->requests;
    rp_err err = rk_open(&q->engine, o, q->why, sizeof q->why);
    if (err) {
        rd_log(RD_LOG_ERROR, "no engine: %s (%s)", q->why, rp_err_name((int)err));
        return false;
    }
    rd_log(RD_LOG_INFO, "%s%s", q->why, o->early ? "; the devices are opening" : "");
    s->holdings.engine = q->engine;
    rd_executor_open(q);
    rd_opening_know(s);
    return true;
}

/* Folders that may be written to from now on. The daemon itself writes beside the sockets and the trace. The rest are for the
 * device: its nodes, and the CUDA driver's cache of compiled kernels and pipes of MPS. */
static void enter_sandbox(rd_server *s, bool every_thread)
{
    enum { OTHERS = 6 };
    const rd_config *c = &s->config;
    const char *folders[RD_MAX_LISTEN + OTHERS], *home = getenv("HOME"), *cache = getenv("CUDA_CACHE_PATH");
    char beside[RD_MAX_LISTEN + 1][RD_MAX_FILE], kernels[RD_MAX_FILE], told[RD_SANDBOX_TEXT];
    bool cuda = c->backend != RP_BACKEND_CPU;
    size_t n = 0;
    if (c->no_sandbox) {
        rd_log(RD_LOG_INFO, "sandbox: none, as configured");
        return;
    }
    for (uint64_t i = 0; i < c->listens; i++)
        folders[n++] = rd_folder_of(rd_ipc_path(c->listen[i]), beside[i]);
    folders[n++] = rd_folder_of(c->trace, beside[RD_MAX_LISTEN]);
    snprintf(kernels, sizeof kernels, "%.160s/.nv", home ? home : "");
    folders[n++] = cuda && home ? kernels : "";
    folders[n++] = cuda && cache ? cache : "";
    folders[n++] = cuda ? "/tmp" : "";
    folders[n++] = "/dev";
    folders[n++] = "/proc/self";
    rd_sandbox_enter(folders, n, every_thread, told);
    rd_log(RD_LOG_INFO, "sandbox: %s", told);
}

/* The sandbox comes before the threads that read what peers send, and after the one that opens devices. */
static bool open_engine_sandboxed(rd_server *s)
{
    rk_options o = engine_options(s);
    o.early = rd_opening_begin(s, &o);
    if (o.early)
        enter_sandbox(s, false);
    if (!open_engine(s, &o))
        return false;
    if (!o.early)
        enter_sandbox(s, true);
    rd_opening_go(s);
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
        bool passed = s->activated.messages[i] >= 0;
        if (rd_prepare_directory(path, why, sizeof why))
            result = (passed ? rd_lock_passed : rd_lock_socket)(path, &s->locks[s->locked], why, sizeof why);
        if (result != RD_LOCK_OK) {
            bool fine = result == RD_LOCK_HELD && autostarted; /* two clients have each started a daemon; one is enough */
            rd_log(fine ? RD_LOG_INFO : RD_LOG_ERROR, "%s", why);
            *exit_code = fine ? RD_EXIT_OK : RD_EXIT_START;
            return false;
        }
        s->locked++;
    }
    return true;
}

static bool open_transport(rd_server *s)
{
    unsigned exchanges = (unsigned)s->config.contexts;
    if (pthread_mutex_init(&s->holdings.lock, NULL) == 0 && rd_inbox_init(&s->inbox, exchanges, rd_waker_ring, &s->waker) &&
        rd_sessions_init(&s->sessions, &s->users, s->config.max_sessions) && rd_fastpath_init(&s->requests.fastpath) &&
        rd_metrics_init(&s->metrics, rd_measure, &s->requests) &&
        (s->requests.transport = s->transport = rd_transport_open(&s->inbox, exchanges, sizeof(rd_request), &s->workers)))
        return true;
    rd_log(RD_LOG_ERROR, "no memory");
    return false;
}

static bool open_tls(rd_server *s)
{
    char why[RD_MAX_WHY];
    bool open = rd_tls_open(&s->config, s->transport, why);
    if (why[0])
        rd_log(open ? RD_LOG_WARN : RD_LOG_ERROR, "%s%s", open ? "" : "no tls: ", why);
    return open;
}

/* The page cache could not hold a larger file, and reading it would evict most of the cache. */
static uint64_t direct_bytes(const rd_server *s) { return s->config.direct ? s->config.direct << 20 : rd_host_memory() / 2; }

static bool open_workers(rd_server *s)
{
    unsigned n = rd_opening_readers(s);
    rd_users_configure(&s->users, &s->config);
    s->holdings.files_from = (rd_files_from)s->config.files_from;
    if (!rd_buffers_init(&s->requests.buffers, &s->holdings, 2 * n, direct_bytes(s)))
        rd_log(RD_LOG_ERROR, "no memory");
    else if (!rd_workers_open(&s->workers, n, rd_half_the_cores(), rd_waker_ring, &s->waker))
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
    s->requests.trace = s->trace = rd_trace_open(s->config.trace, s->stats.started_ns, s->config.trace_size << 20, why,
                                                 sizeof why);
    if (!s->trace)
        rd_log(RD_LOG_ERROR, "no trace: %s", why);
    return s->trace != NULL;
}

/* ---- what the daemon before left ---- */

static void serve(rd_server *s);

/* Called when the first health check and every restored array are done. */
static void startup_one_back(void *server)
{
    rd_server *s = server;
    if (--s->restoring == 0 && s->phase == RD_STARTING)
        serve(s);
}

static void restore_residents(rd_server *s)
{
    s->restoring = 1; /* the health check */
    s->restore_ns = rp_now_ns();
    for (int i = 0; i < s->passed.n; i++)
        if (s->passed.fds[i] >= 0) {
            s->restoring++;
            rd_resident_restore(&s->holdings, rd_passed_take(&s->passed, i), s->passed.names[i], startup_one_back, s);
        }
}

static void log_restored(const rd_server *s)
{
    const rd_charges *c = &s->users.charges;
    if (s->holdings.stored)
        rd_log(RD_LOG_INFO, "%llu resident arrays of %llu bytes are back, checked in %llu ms",
               (unsigned long long)rd_held(c, RD_HELD_RESIDENTS), (unsigned long long)rd_held(c, RD_HELD_RESIDENT_BYTES),
               (unsigned long long)(rp_now_ns() - s->restore_ns) / RP_NS_PER_MS);
}

static bool take_passed(rd_server *s)
{
    char why[RD_MAX_WHY + RD_MAX_URL];
    if (rd_passed_get(&s->passed, why, sizeof why) &&
        rd_activation_take(&s->activated, &s->passed, &s->config, why, sizeof why))
        return true;
    rd_log(RD_LOG_ERROR, "%s", why);
    return false;
}

/* The socket belongs to the transport now. */
static int take_activated(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

/* An ipc socket, already bound with no mode for others, and its fdpass socket. Passed ones have the modes of their unit. */
static bool open_ipc(rd_server *s, uint64_t i, const char *path, bool passed, char *why, size_t cap)
{
    const rd_config *c = &s->config;
    if (!passed && !rd_hand_socket(path, (unsigned)c->socket_mode, &c->socket_group)) {
        snprintf(why, cap, "%s: its mode and group cannot be set: %s%s", path, strerror(errno),
                 errno == ENOENT ? " (is /proc mounted?)" : "");
        return false;
    }
    if (!rd_fdpass_listen(&s->fdpass, path, take_activated(&s->activated.fdpass[i]), c, &s->gates[i], why, cap))
        rd_log(RD_LOG_WARN, "no fdpass socket, so no shared memory and no passed files: %s", why);
    return true;
}

static bool listen_to(rd_server *s, uint64_t i, char *why, size_t cap)
{
    rd_requests *q = &s->requests;
    const char *url = s->config.listen[i], *path = rd_ipc_path(url);
    int passed = take_activated(&s->activated.messages[i]);
    s->bound[i] = path && passed < 0;
    if (!rd_gate_open_url(s, i)) {
        snprintf(why, cap, "%s: no memory", url);
        return false;
    }
    if (!rd_transport_listen(s->transport, url, passed, q->urls[q->n_urls], RD_MAX_URL, why, cap) ||
        (path && !open_ipc(s, i, path, passed >= 0, why, cap)))
        return false;
    rd_log(RD_LOG_INFO, "serving %s%s", q->urls[q->n_urls++], passed >= 0 ? " (socket of the service manager)" : "");
    if (rd_is_plain_tcp(url) || (rd_is_tls(url) && s->config.tls_clients))
        rd_log(RD_LOG_WARN, "%s has no authentication%s: anyone who can connect may use the device", url,
               rd_is_tls(url) ? "" : " and no encryption");
    return true;
}

static bool listen_all(rd_server *s)
{
    char why[RD_MAX_WHY];
    s->requests.drain_retry_ms = s->activated.messages[0] >= 0 ? TAKEOVER_MS : RESTART_MS;
    for (uint64_t i = 0; i < s->config.listens; i++)
        if (!listen_to(s, i, why, sizeof why)) {
            rd_log(RD_LOG_ERROR, "cannot listen on %s", why);
            return false;
        }
    return true;
}

static void fill_pages(rd_http_page pages[RD_SERVED])
{
    pages[0] = (rd_http_page){"/metrics", "text/plain; version=0.0.4; charset=utf-8", .text = rd_metrics_copy};
    pages[1] = (rd_http_page){"/status.json", "application/json", .text = rd_metrics_copy_json};
    pages[2] = (rd_http_page){"/processes.json", "application/json", .own = rd_metrics_copy_processes};
    for (int i = 0; i < RD_PAGE_FILES; i++)
        pages[3 + i] = (rd_http_page){rd_page_files[i].path,           rd_page_files[i].type,
                                      .bytes = rd_page_files[i].bytes, .size = rd_page_files[i].size,
                                      .small = rd_page_files[i].small, .small_size = rd_page_files[i].small_size};
}

static bool serve_metrics(rd_server *s)
{
    bool loopback = false;
    char bound[RD_MAX_URL + 16], why[RD_MAX_WHY];
    if (!s->config.metrics_url[0])
        return true;
    rd_is_http(s->config.metrics_url, &loopback);
    rd_metrics_want_json(&s->metrics, rd_status_entries, loopback ? rd_processes : NULL);
    rd_metrics_refresh(&s->metrics);
    fill_pages(s->pages);
    s->http = rd_http_open(s->config.metrics_url, take_activated(&s->activated.metrics), s->pages, RD_SERVED, &s->metrics,
                           bound, sizeof bound, why, sizeof why);
    if (s->http)
        rd_log(RD_LOG_INFO, "metrics on %s", bound);
    else
        rd_log(RD_LOG_ERROR, "cannot serve metrics on %s", why);
    return s->http != NULL;
}

/* Messages up to this size go to the fast path: also those about data that the engine has, whatever small-bytes is. */
static size_t fast_bytes(const rd_config *c)
{
    enum { LEAST = 16 << 10 };
    return c->small_bytes > LEAST ? c->small_bytes : LEAST;
}

/* The first health check is back: serve, or leave if its answer was wrong. */
static void startup_checked(rd_server *s, bool right)
{
    if (right)
        startup_one_back(s);
    else
        rd_leave(s, RD_EXIT_DEVICE);
}

static void serve(rd_server *s)
{
    rd_requests *q = &s->requests;
    log_restored(s);
    if (!listen_all(s) || !serve_metrics(s)) {
        rd_leave(s, RD_EXIT_START);
        return;
    }
    s->phase = RD_SERVING;
    q->serving = true;
    s->idle_since_ns = rp_now_ns();
    rd_fastpath_limit(&q->fastpath, (unsigned)s->config.max_inflight, rd_unread_limit(&s->config));
    rd_fastpath_open(&q->fastpath, q, fast_bytes(&s->config));
    rd_transport_start(s->transport, rd_fastpath_answer, &q->fastpath);
    rd_events_start(s);
    rd_health_tell(s);
    rd_notify_ready();
    rd_log(RD_LOG_INFO, "ready%s", rk_opening(q->engine) ? "; the devices are opening" : "");
}

/* Connect the layers with each other. */
static void introduce(rd_server *s)
{
    rd_activation_none(&s->activated);
    s->holdings.users = &s->users;
    s->holdings.workers = &s->workers;
    s->holdings.residents_until_ns = UINT64_MAX;
    s->fdpass.loop = &s->loop;
    s->fdpass.holdings = &s->holdings;
    s->fdpass.packet = rd_on_packet;
    s->fdpass.gone = rd_on_channel_gone;
    s->fdpass.arg = &s->requests;
    s->requests.config = &s->config;
    s->requests.users = &s->users;
    s->requests.sessions = &s->sessions;
    s->requests.holdings = &s->holdings;
    s->requests.fdpass = &s->fdpass;
    s->requests.stats = &s->stats;
    s->requests.metrics = &s->metrics;
    s->requests.wake = rd_waker_ring;
    s->requests.wake_arg = &s->waker;
    s->health.first = startup_checked;
}

bool rd_server_open(rd_server *s, const rd_command *command, int *exit_code)
{
    *exit_code = RD_EXIT_START;
    umask(0077); /* sockets get their mode after bind: until then it must not be wider */
    introduce(s);
    bool passed = take_passed(s); /* first: if one is closed, the next that is opened here would have its number */
    if (!rd_events_open(s) || !passed || !lock_sockets(s, command->autostarted, exit_code) || !open_engine_sandboxed(s))
        return false;
    if (!open_transport(s) || !open_tls(s) || !open_workers(s) || !open_trace(s))
        return false;
    restore_residents(s);
    return true;
}
