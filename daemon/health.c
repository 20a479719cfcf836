#include "daemon/health.h"

#include <stdio.h>

#include "daemon/base/log.h"
#include "daemon/base/notify.h"
#include "daemon/request/executor.h"

/* Devices in service. */
static unsigned live(const rd_server *s)
{
    unsigned n = 0;
    for (unsigned i = 0; i < rk_devices(s->requests.engine); i++)
        n += !rk_device_lost(s->requests.engine, i);
    return n;
}

/* The device's answer was wrong. If other devices are in service, it gets no more work. */
static void go_on_without(rd_server *s, unsigned device)
{
    const rp_fault *f = &s->health.probe[device].job.task.fault;
    rd_log(RD_LOG_ERROR, "the health check gave a wrong answer%s%s %s", s->requests.devices[device].label[0] ? " on " : "",
           s->requests.devices[device].label, f->code ? f->text : "");
    if (live(s) > 1)
        rk_retire(s->requests.engine, device);
}

/* Called when every probe has come back. */
static void conclude(rd_server *s)
{
    rd_requests *q = &s->requests;
    bool right = false;
    for (unsigned i = 0; i < rk_devices(q->engine); i++)
        right |= s->health.probe[i].right && !rk_device_lost(q->engine, i);
    if (right && (q->health == RD_HEALTH_SLOW || q->health == RD_HEALTH_WRONG))
        rd_log(RD_LOG_INFO, "the health check is right again");
    q->health = right ? RD_HEALTH_OK : RD_HEALTH_WRONG;
    if (right)
        rd_notify_watchdog();
    if (s->phase == RD_STARTING)
        s->health.first(s, right);
}

static void health_done(rd_requests *q, rd_job *job)
{
    rd_server *s = (rd_server *)((char *)q - offsetof(rd_server, requests));
    struct rd_probe *p = (struct rd_probe *)job;
    const unsigned device = (unsigned)(p - s->health.probe);
    p->right = rk_probe_ok(&job->task);
    p->under_way = false;
    if (!p->right && (!rk_device_lost(q->engine, device) || rk_devices(q->engine) == 1))
        go_on_without(s, device);
    if (--s->health.under_way == 0)
        conclude(s);
}

void rd_health_check(rd_server *s)
{
    rd_requests *q = &s->requests;
    const unsigned n = rk_devices(q->engine);
    if (s->health.under_way) {
        if (q->health != RD_HEALTH_SLOW)
            rd_log(RD_LOG_WARN, "the health check is not back in time");
        q->health = RD_HEALTH_SLOW;
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        struct rd_probe *p = &s->health.probe[i];
        p->under_way = n == 1 || !rk_device_lost(q->engine, i);
        s->health.under_way += p->under_way;
        p->job.done = health_done;
    }
    for (unsigned i = 0; i < n; i++) {
        struct rd_probe *p = &s->health.probe[i];
        if (!p->under_way)
            continue;
        rk_probe(q->engine, i, &p->job.task);
        rd_submit(q, &p->job);
    }
}

static void health_note(const rd_server *s, char *out, size_t cap)
{
    out[0] = 0;
    if (s->health.lost)
        snprintf(out, cap, "; degraded: %u of %u devices lost", s->health.lost, rk_devices(s->requests.engine));
    else if (rk_opening(s->requests.engine))
        snprintf(out, cap, "; the devices are opening");
}

void rd_health_tell(rd_server *s)
{
    char text[sizeof s->requests.why + 128], note[64];
    health_note(s, note, sizeof note);
    s->notified_sessions = s->sessions.greeted;
    snprintf(text, sizeof text, "%s; %zu sessions, %llu requests so far%s", s->requests.why, s->notified_sessions,
             (unsigned long long)s->stats.tally.requests, note);
    rd_notify_status(text);
}

bool rd_health_watch(rd_server *s)
{
    rk_engine *e = s->requests.engine;
    const unsigned n = rk_devices(e), lost = n - live(s);
    if (n == 1 || lost == s->health.lost)
        return false;
    s->health.lost = lost;
    for (unsigned i = 0; i < n; i++)
        if (rk_device_lost(e, i) && !s->requests.devices[i].lost) {
            s->requests.devices[i].lost = true;
            rd_log(RD_LOG_ERROR, "%s is lost: its data are gone, its work goes to the others", s->requests.devices[i].label);
        }
    return lost < n;
}
