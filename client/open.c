/* Open and close a client. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/autostart.h"
#include "client/client.h"
#include "client/device.h"
#include "client/discover.h"
#include "client/error.h"
#include "client/job.h"
#include "client/local.h"
#include "client/process.h"
#include "client/sized.h"
#include "proto/clock.h"

enum {
    SEEK_MS = 1000,        /* a daemon that listens later is found this late; to look costs 20 us */
    AUTOSTART_MS = 10000,  /* a daemon being started gets this long to listen */
    LINGER_MS = 2000,      /* reduce_close waits this long for what is on its way (call.c says why) */
    OTHER_STARTS_MS = 5000 /* from a daemon's lock to its listening: a CUDA context takes up to half a second */
};

/* ---- closing ---- */

/* Calls end; exchanges get some ms to, then are cut. */
static void rest(reduce_client *c, uint32_t linger_ms)
{
    rc_enter(c);
    c->closing = true;
    if (c->greeting)
        rc_call_cancel(c, &c->hello);
    while (c->queue)
        rc_call_cancel(c, c->queue);
    for (unsigned i = 0; i < c->n_places; i++)
        if (c->places[i].call)
            rc_call_cancel(c, c->places[i].call);
    uint64_t end = rp_deadline_after(linger_ms);
    while ((c->busy || c->jobs) && rc_cond_wait(&c->changed, c, end))
        ;
    for (unsigned i = 0; i < c->n_places; i++)
        rc_slot_cancel(c->places[i].exchange);
    if (c->hello_place.exchange)
        rc_slot_cancel(c->hello_place.exchange);
    while (c->busy || c->jobs)
        rc_cond_wait(&c->changed, c, 0);
    rc_leave(c);
}

/* Cancel all calls, wait until everything rests, and cut the connection. */
static void disconnect(reduce_client *c, uint32_t linger_ms)
{
    rest(c, linger_ms);
    for (unsigned i = 0; i < c->n_places; i++)
        rc_slot_free(c->places[i].exchange);
    if (c->hello_place.exchange)
        rc_slot_free(c->hello_place.exchange);
    rc_connection_close(c->connection);
    c->connection = NULL;
    c->hello_place.exchange = NULL;
    c->n_places = 0;
}

void reduce_close(reduce_client *c)
{
    if (!c || c->pid != rc_process())
        return;
    disconnect(c, LINGER_MS);
    rc_ended_close(c);
    rc_datapath_fini(c);
    rc_devices_fini(c);
    rc_unref(c);
}

/* ---- options ---- */

static int take_opts(reduce_open_opts *o, const reduce_open_opts *given, rp_fault *f)
{
    *o = (reduce_open_opts)REDUCE_OPEN_OPTS_INIT;
    if (!given)
        return 0;
    reduce_open_opts defaults = *o;
    int err = rc_take_sized(o, sizeof *o, _Alignof(reduce_open_opts), given, RC_UP_TO(reduce_open_opts, local), "opts", f);
    if (err)
        return err;
    if (o->flags & ~(uint32_t)(REDUCE_AUTOSTART | REDUCE_WAIT | REDUCE_NO_RETRY | REDUCE_LAZY))
        return rc_fail(f, REDUCE_E_ARGUMENT, "flags", "unknown flags in 0x%x", o->flags);
    if (!o->connect_timeout_ms)
        o->connect_timeout_ms = defaults.connect_timeout_ms;
    if (!o->reconnect_timeout_ms)
        o->reconnect_timeout_ms = defaults.reconnect_timeout_ms;
    if (!o->timeout_ms)
        o->timeout_ms = defaults.timeout_ms;
    if (o->connect_timeout_ms > RP_MAX_DEADLINE_MS || o->reconnect_timeout_ms > RP_MAX_DEADLINE_MS ||
        o->timeout_ms > RP_MAX_DEADLINE_MS)
        return rc_fail(f, REDUCE_E_ARGUMENT, "timeout_ms", "the timeout is above %u ms", RP_MAX_DEADLINE_MS);
    if (o->priority < 0 || o->priority >= RP_PRIORITY_COUNT)
        return rc_fail(f, REDUCE_E_ARGUMENT, "priority", "unknown priority %d", o->priority);
    return 0;
}

static void take_tls(reduce_open_opts *o)
{
    if (!o->tls_ca)
        o->tls_ca = getenv("REDUCED_TLS_CA");
    if (!o->tls_cert)
        o->tls_cert = getenv("REDUCED_TLS_CERT");
    if (!o->tls_key)
        o->tls_key = getenv("REDUCED_TLS_KEY");
}

/* ---- connecting ---- */

static int greet(reduce_client *c, uint32_t ms, rp_fault *f)
{
    rc_enter(c);
    c->hello_place.exchange = rc_slot_new(c->connection, rc_call_on_exchange, &c->hello_place);
    int err = 0;
    if (!c->hello_place.exchange) {
        err = rc_fail(f, REDUCE_E_NO_MEMORY, "", "no memory for a connection");
    } else {
        rc_say_hello(c, ms);
        uint64_t ask = rc_ask_at(c);
        while (!err && (c->greeting || c->busy)) {
            rc_cond_wait(&c->changed, c, ask);
            if (rc_interrupted(c, &ask))
                err = rc_fail_interrupted(f);
        }
        if (!err && c->welcome.session == 0) {
            *f = c->hello.fault;
            err = -(int)f->code;
        }
    }
    rc_leave(c);
    return err;
}

/* Is it host:port of a network? Then a name that is not known is what is wrong with it. */
static bool names_host(const char *url)
{
    const char *host = strncmp(url, "ipc:", 4) ? strstr(url, "://") : NULL, *colon = host ? strrchr(host + 3, ':') : NULL;
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    return colon && colon > host + 3 && digits && digits < 6 && !colon[1 + digits] &&
           strtoul(colon + 1, NULL, 10) <= UINT16_MAX;
}

static int connection_fault(rc_connection_err why, const char *url, uint32_t ms, rp_fault *f)
{
    switch (why) {
    case RC_LINK_OK:
        return 0;
    case RC_LINK_REFUSED:
        return rc_fail(f, REDUCE_E_NO_DAEMON, "url", "no daemon listens on %.120s", url);
    case RC_LINK_DENIED:
        return rc_fail(f, REDUCE_E_AUTH, "url", "no permission to connect to %.90s: it is for its owner or its group", url);
    case RC_LINK_FORKED:
        return rc_fail(f, REDUCE_E_FORKED, "url", "the parent process opened a client over the network before the fork");
    case RC_LINK_UNTRUSTED:
        return rc_fail(f, REDUCE_E_AUTH, "tls",
                       "no trust between %.70s and this client: a certificate is missing or not accepted", url);
    case RC_LINK_BAD_PEM:
        return rc_fail(
            f, REDUCE_E_ARGUMENT, "tls",
            "tls_ca ($REDUCED_TLS_CA) is needed, tls_cert and tls_key both or none: one is missing or has no usable PEM");
    case RC_LINK_INTERRUPTED:
        return rc_fail_interrupted(f);
    case RC_LINK_TIMEOUT:
        return rc_fail(f, REDUCE_E_NO_DAEMON, "url", "%.100s does not answer within %" PRIu32 " ms", url, ms);
    case RC_LINK_BAD_URL:
        if (names_host(url))
            return rc_fail(f, REDUCE_E_NO_DAEMON, "url", "the host of %.120s is unknown", url);
        return rc_fail(f, REDUCE_E_ARGUMENT, "url", "'%.100s' is not a valid address", url);
    case RC_LINK_NO_MEMORY:
        break;
    }
    return rc_fail(f, REDUCE_E_NO_MEMORY, "", "no memory, or no further open file (ulimit -n), for a connection");
}

static bool open_gives_up(void *client)
{
    const reduce_open_opts *o = &((const reduce_client *)client)->opts;
    return o->interrupted && o->interrupted(o->interrupted_arg);
}

/* Only tls+tcp:// reads the files, each time anew: certificates are replaced before they expire. */
static int open_connection(reduce_client *c, const char *url, uint32_t ms, rp_fault *f)
{
    const reduce_open_opts *o = &c->opts;
    rp_pem pem = {NULL, NULL, NULL, NULL};
    char why[160];
    bool tls = strncmp(url, "tls+", 4) == 0;
    int err;
    const rp_pem_files files = {.cert = o->tls_cert, .key = o->tls_key, .ca = o->tls_ca};
    if (tls && !rp_pem_read(&pem, &files, why, sizeof why))
        err = rc_fail(f, REDUCE_E_ARGUMENT, "tls", "%s", why);
    else
        err = connection_fault(rc_connection_open(&c->connection, url, &pem, ms, rc_call_on_connection, open_gives_up, c), url,
                               ms, f);
    rp_pem_wipe(&pem);
    return err;
}

static int try_url(reduce_client *c, const char *url, uint32_t ms, rp_fault *f)
{
    int err = open_connection(c, url, ms, f);
    if (err)
        return err;
    err = greet(c, ms, f);
    if (err) {
        disconnect(c, err == REDUCE_E_INTERRUPTED ? 1 : LINGER_MS);
        c->closing = false;
        return err;
    }
    rc_enter(c);
    memcpy(c->url, url, strlen(url) + 1);
    rc_leave(c);
    return 0;
}

static uint32_t ms_left(uint64_t end)
{
    uint64_t now = rp_now_ns();
    return end > now ? (uint32_t)((end - now + RP_NS_PER_MS - 1) / RP_NS_PER_MS) : 1;
}

/* Try all places once. Of several failures, report the one of a place where something is. */
static int try_all(reduce_client *c, const rc_urls *u, uint64_t end, rp_fault *f)
{
    int err = REDUCE_E_NO_DAEMON;
    for (int i = 0; i < u->n && err == REDUCE_E_NO_DAEMON; i++)
        err = try_url(c, u->url[i], ms_left(end), f);
    if (err == REDUCE_E_NO_DAEMON && u->n > 1)
        rc_fail(f, err, "url", "no daemon listens on %.70s or %.70s", u->url[0], u->url[1]);
    return err;
}

static void pause_ms(unsigned ms)
{
    struct timespec t = rp_timespec(ms * RP_NS_PER_MS);
    while (nanosleep(&t, &t) && errno == EINTR)
        ;
}

/* `how` it failed. A place without room for a log has none for a socket, most often. */
static int start_failed(const rc_child *child, const char *how, rp_fault *f)
{
    if (child->log[0])
        return rc_fail(f, REDUCE_E_START, "daemon", "the daemon %s; see %.100s", how, child->log);
    return rc_fail(f, REDUCE_E_START, "daemon", "the daemon %s; no log beside its socket: %s", how, strerror(child->no_log));
}

/* Try again and again until `end`. A started daemon that is gone ends it sooner: either another starter's was first, which
 * has its lock and will soon listen, or it cannot run here. */
static int keep_trying(reduce_client *c, const rc_urls *u, uint64_t end, const rc_child *child, rp_fault *f)
{
    bool gone = false;
    uint64_t ask = rc_ask_at(c);
    for (unsigned ms = 2;; ms = ms < 100 ? ms * 2 : 100) {
        if (!gone && child && rc_child_gone(child->pidfd)) {
            gone = true;
            uint64_t soon = rp_now_ns() + OTHER_STARTS_MS * RP_NS_PER_MS;
            end = soon < end ? soon : end;
        }
        int err = try_all(c, u, end, f);
        if (err != REDUCE_E_NO_DAEMON)
            return err;
        if (gone && rp_now_ns() >= end)
            return start_failed(child, "exited at once", f);
        if (rp_now_ns() >= end && child)
            return start_failed(child, "did not listen in time", f);
        if (rp_now_ns() >= end)
            return err;
        pause_ms(ms);
        if (rc_is_interrupted(c, &ask))
            return rc_fail_interrupted(f);
    }
}

static int start_and_connect(reduce_client *c, rc_urls *u, rp_fault *f)
{
    rc_child child;
    if (!u->own)
        return rc_fail(f, REDUCE_E_START, "XDG_RUNTIME_DIR",
                       "no directory for a daemon of this user: $XDG_RUNTIME_DIR is too long, or it and "
                       "/tmp/reduced-UID are not this user's alone");
    int err = rc_start_daemon(u->url[0], &c->opts, &child, f);
    if (err)
        return err;
    u->n = 1;
    err = keep_trying(c, u, rp_deadline_after(AUTOSTART_MS), &child, f);
    if (child.pidfd >= 0)
        close(child.pidfd);
    rc_enter(c);
    c->autostarted = err == 0;
    rc_leave(c);
    return err;
}

/* After a later loss of the daemon the client may start another one at its place (call.c). */
static void allow_restart(reduce_client *c, const rc_urls *u)
{
    rc_enter(c); /* the connection may be lost at any time */
    c->may_start = (c->opts.flags & REDUCE_AUTOSTART) && u->own && !strcmp(c->url, u->url[0]);
    rc_leave(c);
}

/* What is known of the daemon stays in front: its host may be unknown, or it may not have answered in time. */
static void tell_why_none_starts(rp_fault *f)
{
    const rp_fault known = *f;
    rc_fail(f, REDUCE_E_NO_DAEMON, "url", "%.105s; none is started at an address that was given", known.text);
}

static int connect_client(reduce_client *c, uint32_t flags, rp_fault *f)
{
    rc_urls u;
    int err = rc_discover(&u, c->given, f);
    if (err)
        return err;
    uint64_t end = rp_deadline_after(c->opts.connect_timeout_ms);
    err = try_all(c, &u, end, f);
    /* A system daemon that is not for this user is not a reason against a private one. */
    bool nobody = err == REDUCE_E_NO_DAEMON || (err == REDUCE_E_AUTH && u.n > 1);
    if (nobody && (flags & REDUCE_AUTOSTART) && !u.named)
        err = start_and_connect(c, &u, f);
    else if (err == REDUCE_E_NO_DAEMON && (flags & REDUCE_WAIT))
        err = keep_trying(c, &u, end, NULL, f);
    else if (err == REDUCE_E_NO_DAEMON && (flags & REDUCE_AUTOSTART))
        tell_why_none_starts(f);
    if (err)
        return err;
    allow_restart(c, &u);
    atomic_store(&c->connected, true);
    return 0;
}

/* Other threads do not wait for it: they do without. */
static void seek(reduce_client *c)
{
    rp_fault f = {0};
    if (pthread_mutex_trylock(&c->opening))
        return;
    const uint64_t now = rp_now_ns();
    if (!atomic_load(&c->connected) && (!c->sought_ns || now - c->sought_ns >= SEEK_MS * RP_NS_PER_MS)) {
        connect_client(c, 0, &f);
        c->sought_ns = now;
    }
    pthread_mutex_unlock(&c->opening);
}

static int open_lazily(reduce_client *c, bool needed)
{
    rp_fault f = {0};
    int err = 0;
    if (atomic_load(&c->connected))
        return 0;
    if (!needed) {
        seek(c);
        return 0;
    }
    pthread_mutex_lock(&c->opening);
    if (!atomic_load(&c->connected))
        err = connect_client(c, c->opts.flags, &f);
    pthread_mutex_unlock(&c->opening);
    return err ? rc_report(&f) : 0;
}

/* ---- public ---- */

/* Where the daemon may be. A lazy client finds out here what is wrong with the address. */
static int place(reduce_client *c, rp_fault *f)
{
    rc_urls u;
    const int err = rc_discover(&u, c->given, f);
    c->distant = !err && strncmp(u.url[0], "ipc://", 6) != 0;
    return err;
}

static const rc_doors doors = {reduce_run, reduce_file, reduce_device};

int reduce_open(reduce_client **out, const char *url, const reduce_open_opts *opts)
{
    rp_fault f = {0};
    reduce_open_opts o;
    if (!out)
        return rc_error(REDUCE_E_ARGUMENT, "c", "the pointer for the client is NULL");
    *out = NULL;
    bool local;
    if (take_opts(&o, opts, &f) || rc_local_option(&o, &local, &f))
        return rc_report(&f);
    take_tls(&o);
    reduce_client *c = rc_client_new(url, &o);
    if (!c)
        return rc_error(REDUCE_E_NO_MEMORY, "", "no memory for a client");
    c->local = local;
    c->connect = open_lazily;
    c->doors = &doors;
    if (place(c, &f) || (!(o.flags & REDUCE_LAZY) && connect_client(c, o.flags, &f))) {
        rc_unref(c);
        return rc_report(&f);
    }
    *out = c;
    return 0;
}
