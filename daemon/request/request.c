#include "daemon/request/request.h"

#include "daemon/request/requests.h"

#include <inttypes.h>

#include "daemon/state/stream.h"
#include "proto/clock.h"

void rd_request_begin(rd_request *r, struct rd_requests *all)
{
    r->all = all;
    r->job.task = (rk_task){0};
    r->job.request = r;
    r->release = NULL;
    r->path = 0;
    r->stream = NULL;
    r->states = NULL;
    r->handle = NULL;
    r->beside = NULL;
    r->results = NULL;
    r->claim = (rp_claim){0};
    r->scratch = 0;
    r->resident = NULL;
    r->spread = false;
    r->held = false;
    r->read.wanted = false;
    r->read.buffer = NULL;
    r->link = NULL;
}

/* ---- time ---- */
uint64_t rd_queued_ns(const rd_request *r)
{
    uint64_t start = r->job.task.start_ns;
    return start > r->exchange.received_ns ? start - r->exchange.received_ns : 0;
}

uint64_t rd_deadline_of(const rd_request *r)
{
    return r->exchange.header.time_ms ? r->exchange.received_ns + r->exchange.header.time_ms * RP_NS_PER_MS : 0;
}

bool rd_late(const rd_request *r, rp_fault *f)
{
    if (!r->deadline_ns || rp_now_ns() < r->deadline_ns)
        return false;
    rp_fail(f, RP_DEADLINE, "time_ms", r->exchange.header.time_ms, "not done within %" PRIu32 " ms",
            r->exchange.header.time_ms);
    return true;
}

bool rd_abandoned(const rd_request *r, rp_fault *f)
{
    if (r->session->dead)
        rp_fail(f, RP_CANCELLED, "session", 0, "the session has ended");
    return r->session->dead || rd_late(r, f);
}

/* ---- results ---- */
rp_err rd_no_memory(rp_fault *f) { return rp_fail(f, RP_NO_MEMORY, "reply", 0, "no memory for the reply"); }

rp_err rd_make_room(rd_request *r, const rp_spec *spec, rp_fault *f)
{
    r->reply = rd_exchange_reply(&r->exchange, RP_RESULT_SIZE + (r->results ? 0 : rp_results(spec) * rp_cell_size(spec)));
    return r->reply ? RP_OK : rd_no_memory(f);
}

/* The times of a FINISH include those of its stream's chunks. */
rp_result rd_result_of(const rd_request *r, const rp_spec *spec, uint64_t count)
{
    const rk_task *t = &r->job.task;
    return (rp_result){.dtype = spec->flags & RP_STATES_OUT ? 0 : spec->out,
                       .backend = t->backend,
                       .path = r->path,
                       .cell_size = (uint32_t)rp_cell_size(spec),
                       .cells = rp_results(spec),
                       .count = count,
                       .queue_ns = rd_queued_ns(r),
                       .copy_ns = t->copy_ns + (r->stream ? r->stream->copy_ns : 0),
                       .compute_ns = t->compute_ns + (r->stream ? r->stream->compute_ns : 0)};
}

/* ---- specs ---- */
static rp_err check_device(const rd_request *r, const rp_spec *spec, rp_fault *f)
{
    const rk_engine *e = r->all->engine;
    char names[RP_MAX_TEXT];
    if (!spec->device)
        return RP_OK;
    if (rk_opening(e))
        return RD_LATER;
    rk_device_names(e, names, sizeof names);
    if (spec->device > rk_devices(e))
        return rp_fail(f, RP_BAD_HANDLE, "device", rk_devices(e), "no device %u; there %s %s", spec->device - 1u,
                       rk_devices(e) == 1 ? "is" : "are", names);
    if (rk_device_lost(e, spec->device - 1u))
        return rp_fail(f, RP_DEVICE_LOST, "device", 0, "device %u has failed; of %s", spec->device - 1u, names);
    return RP_OK;
}

rp_err rd_check_spec(const rd_request *r, rp_spec *spec, bool large, rp_fault *f)
{
    const rp_err err = large ? rp_spec_check_large(spec, f) : rp_spec_check(spec, f);
    return err ? err : check_device(r, spec, f);
}

/* ---- REDUCE ---- */

rp_err rd_read_task(rd_request *r, rp_fault *f)
{
    rk_task *t = &r->job.task;
    r->path = RP_PATH_INLINE;
    *t = (rk_task){0};
    rp_err err = rp_get_spec(r->body, r->body_len, &t->spec, f);
    if (!err)
        err = rd_check_spec(r, &t->spec, false, f);
    if (!err)
        err = rp_takes_check(t->spec.op, 0, f);
    if (err)
        return err;
    t->data = r->body + RP_SPEC_SIZE;
    t->bytes = r->body_len - RP_SPEC_SIZE;
    err = rp_spec_match(&t->spec, 0, t->bytes, f);
    if (!err && (t->spec.flags & RP_OFFSETS))
        err = rp_offsets_check(&t->spec, rp_spec_parts(&t->spec, t->data, NULL).offsets, f);
    return err;
}
