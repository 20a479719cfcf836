#include "daemon/health.h"

#include "daemon/base/log.h"
#include "daemon/base/notify.h"
#include "daemon/request/executor.h"

static void health_done(rd_requests *q, rd_job *job)
{
    rd_server *s = (rd_server *)((char *)q - offsetof(rd_server, requests));
    bool right = rk_probe_ok(&job->task);
    s->health.under_way = false;
    if (!right)
        rd_log(RD_LOG_ERROR, "the health check gave a wrong answer %s", job->task.fault.text);
    else if (q->health == RD_HEALTH_SLOW || q->health == RD_HEALTH_WRONG)
        rd_log(RD_LOG_INFO, "the health check is right again");
    q->health = right ? RD_HEALTH_OK : RD_HEALTH_WRONG;
    if (right)
        rd_notify_watchdog();
    if (s->phase == RD_STARTING)
        s->health.first(s, right);
}

void rd_health_check(rd_server *s)
{
    rd_requests *q = &s->requests;
    if (s->health.under_way) {
        if (q->health != RD_HEALTH_SLOW)
            rd_log(RD_LOG_WARN, "the health check is not back in time");
        q->health = RD_HEALTH_SLOW;
        return;
    }
    s->health.under_way = true;
    s->health.job.done = health_done;
    rk_probe(q->engine, 0, &s->health.job.task);
    rd_submit(q, &s->health.job);
}
