#include "daemon/request/reply.h"

#include "daemon/base/log.h"
#include "daemon/request/record.h"
#include "daemon/request/session_list.h"
#include "proto/clock.h"

static const uint64_t DROP_LOG_NS = RP_NS_PER_S; /* at most one line a second about peers that misbehave */

/* ---- requests come and go ---- */
void rd_request_enter(rd_request *r)
{
    rd_session *x = r->session;
    x->inflight++;
    rd_charge_anyway(r->all->users, x->owner, RD_HELD_REQUESTS, 1);
    x->message_bytes += r->exchange.len;
    rd_charge_anyway(r->all->users, x->owner, RD_HELD_MESSAGE_BYTES, r->exchange.len);
}

void rd_wait(rd_requests *q, rd_request *r) { rd_request_link(r, &q->waiting); }

/* The request leaves the loop's accounts. */
static void leave(rd_requests *q, rd_request *r)
{
    rd_session *x = r->session;
    rd_request_unlink(r);
    rd_sched_remove(&q->sched, &r->job.item);
    rd_request_release(r);
    x->inflight--;
    rd_discharge(q->users, x->owner, RD_HELD_REQUESTS, 1);
    x->message_bytes -= r->exchange.len;
    rd_discharge(q->users, x->owner, RD_HELD_MESSAGE_BYTES, r->exchange.len);
    rd_discharge(q->users, x->owner, RD_HELD_SCRATCH_BYTES, r->scratch);
}

/* ---- the builder ---- */
static rd_record record(rd_requests *q, const rd_request *r, rp_err status)
{
    rd_record a = rd_record_of(r, r->session, status, rp_now_ns());
    rd_trace_put(q->trace, &a);
    return a;
}

/* The request must not be touched afterwards. The caller has charged `unsent`, which keeps its session. */
static void send_reply(rd_request *r, rd_session *x, uint64_t session, rp_err status, uint32_t time_ms, size_t body_len)
{
    rp_header h = {.version = rp_reply_version(r->exchange.header.version),
                   .type = r->exchange.header.type,
                   .reply = true,
                   .status = status,
                   .time_ms = time_ms,
                   .session = session,
                   .id = r->exchange.header.id,
                   .body_len = body_len};
    rd_exchange_send(&r->exchange, &h, &x->unsent);
}

static void reply(rd_requests *q, rd_request *r, rp_err status, uint32_t time_ms, size_t body_len)
{
    rd_session *x = r->session;
    rd_record a = record(q, r, status);
    leave(q, r);
    rd_stats_answered(q->stats, &a);
    rd_session_count(x, &a);
    rd_account_charge(&x->unsent, RP_HEADER_SIZE + body_len);
    if (x->barred)
        rd_exchange_last(&r->exchange);
    send_reply(r, x, x->id, status, time_ms, body_len);
}

static size_t put_result(rd_request *r, const rp_spec *spec, uint64_t count)
{
    rp_result x = rd_result_of(r, spec, count);
    rp_put_result(r->reply, &x);
    return RP_RESULT_SIZE + (r->results ? 0 : x.cells * x.cell_size);
}

/* The session is released before the reply is sent. Otherwise the client could send its next request before the call returns,
 * and the loop would still count this one. */
void rd_answer_fast(rd_requests *q, rd_request *r)
{
    rd_session *x = r->session;
    size_t body_len = put_result(r, &r->job.task.spec, rp_elements(&r->job.task.spec));
    rd_record a = record(q, r, RP_OK);
    rd_request_release(r);
    rd_shared_tally_add(&q->stats->shared, &a);
    rd_session_count(x, &a);
    rd_account_charge(&x->unsent, RP_HEADER_SIZE + body_len); /* keeps the session from here on */
    rd_session_release(x);
    send_reply(r, x, r->exchange.header.session, RP_OK, 0, body_len);
}

/* ---- answers ---- */
void rd_answer(rd_requests *q, rd_request *r, size_t body_len) { reply(q, r, RP_OK, 0, body_len); }

rp_err rd_answer_u64(rd_requests *q, rd_request *r, uint64_t v, rp_fault *f)
{
    uint8_t *body = rd_exchange_reply(&r->exchange, RP_STREAM_SIZE);
    if (!body)
        return rd_no_memory(f);
    rd_answer(q, r, rp_put_u64(body, v));
    return RP_OK;
}

rp_err rd_answer_empty(rd_requests *q, rd_request *r, rp_fault *f)
{
    if (!rd_exchange_reply(&r->exchange, 0))
        return rd_no_memory(f);
    rd_answer(q, r, 0);
    return RP_OK;
}

void rd_answer_result(rd_requests *q, rd_request *r, const rp_spec *spec, uint64_t count)
{
    rd_answer(q, r, put_result(r, spec, count));
}

void rd_answer_job(rd_requests *q, rd_job *job)
{
    if (job->task.fault.code)
        rd_refuse(q, job->request, &job->task.fault);
    else
        rd_answer_result(q, job->request, &job->task.spec, rp_elements(&job->task.spec));
}

void rd_note_disconnected(rd_requests *q, const rd_session *x, const char *reason)
{
    uint64_t now = rp_now_ns();
    q->stats->dropped++;
    if (now >= q->next_drop_log_ns) {
        q->next_drop_log_ns = now + DROP_LOG_NS;
        rd_log(RD_LOG_INFO, "%s: disconnected: %s", x->peer.text, reason);
    }
}

void rd_refuse(rd_requests *q, rd_request *r, const rp_fault *fault)
{
    rp_fault told = *fault, *f = &told;
    if (f->code == RP_DEVICE_LOST)
        f->limit = rk_devices_left(q->engine); /* devices that are left; with none the client repeats the request */
    uint8_t *body = rd_exchange_reply(&r->exchange, RP_ERROR_SIZE + RP_MAX_FIELD + RP_MAX_TEXT);
    if (!body) {
        rd_note_disconnected(q, r->session, "no memory for a reply");
        leave(q, r);
        rd_exchange_drop(&r->exchange);
        return;
    }
    rd_log(RD_LOG_DEBUG, "%s: %s refused: %s %s: %s", r->session->peer.text, rp_msg_name(r->exchange.header.type),
           rp_err_name((int)f->code), f->field, f->text);
    reply(q, r, f->code, f->code == RP_BUSY ? f->retry_ms : 0, rp_put_fault(body, f));
}
