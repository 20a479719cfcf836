/* BEGIN, APPEND, FINISH and ABORT: streams. */
#include <inttypes.h>
#include <stdlib.h>

#include "daemon/request/dispatch.h"
#include "daemon/request/executor.h"
#include "daemon/request/on_resident.h"
#include "daemon/request/reply.h"

/* Weights of a stream come with its chunks, as its mask does: one for each element. */
static rp_err check_weights(const rp_spec *spec, rp_fault *f)
{
    if (rp_is_paired(spec->op) && !(spec->flags & RP_WEIGHTS))
        return rp_fail(f, RP_BAD_MESSAGE, "weights", 0, "%s needs a second operand", rp_op_name(spec->op));
    if (spec->flags & RP_WEIGHTS && spec->weights_extent != RP_EXTENT_ELEMENTS)
        return rp_fail(f, RP_SHAPE, "weights", RP_EXTENT_ELEMENTS, "a stream has a weight for each element");
    return RP_OK;
}

/* A stream's mask comes with its chunks, and its result is one cell, or one for each group. */
static rp_err begin_parts(rd_request *r, rp_spec *spec, rp_fault *f)
{
    const size_t left = r->body_len - RP_SPEC_SIZE;
    rp_tagged t;
    rp_err err = rp_get_tagged(r->body + RP_SPEC_SIZE, left, spec->tagged_len, &t, f);
    if (err)
        return err;
    r->claim = t.claim;
    rp_tagged_take(spec, &t);
    err = rd_check_spec(r, spec, false, f);
    if (!err)
        err = rp_tagged_check(spec, &t, false, f);
    if (!err && rp_is_ranked(spec->op))
        err = rp_fail(f, RP_BAD_MESSAGE, "op", 0,
                      "%s needs all elements at once: not in a stream, but with REDUCE or REDUCE_AT", rp_op_name(spec->op));
    for (int role = 1; !err && role < RP_ROLE_END; role++)
        if (t.companion[role].where && t.companion[role].where != RP_WHERE_DATA)
            err = rp_fail(f, RP_BAD_MESSAGE, rp_role_name(role), 0, "the %s of a stream comes with its chunks",
                          rp_role_name(role));
    if (!err)
        err = check_weights(spec, f);
    if (!err && t.apart)
        err = rp_fail(f, RP_BAD_MESSAGE, "result", 0, "the result of a stream is in the reply");
    return err;
}

static rp_err begin_spec(rd_request *r, rp_spec *spec, rp_fault *f)
{
    rp_err err = rp_get_spec(r->body, r->body_len, spec, f);
    if (!err && r->body_len > RP_SPEC_SIZE + (size_t)spec->tagged_len)
        err = rp_fail(f, RP_BAD_MESSAGE, "begin", RP_SPEC_SIZE + spec->tagged_len, "begin has %zu bytes instead of %zu",
                      r->body_len, RP_SPEC_SIZE + (size_t)spec->tagged_len);
    if (!err)
        err = begin_parts(r, spec, f);
    if (err)
        return err;
    if (spec->flags & (RP_STATES_IN | RP_OFFSETS | RP_COLUMNS))
        return rp_fail(f, RP_BAD_MESSAGE, "flags", 0, "a stream takes the elements of one row, or of groups");
    const uint64_t most = RP_MAX_STREAM_GROUPS_BYTES / rp_state_size(rp_spec_layout(spec));
    if (spec->flags & RP_KEYS && spec->rows > most)
        return rp_fail(f, RP_TOO_LARGE, "rows", most, "the states of %" PRIu64 " groups of a stream are over %u bytes",
                       spec->rows, RP_MAX_STREAM_GROUPS_BYTES);
    if (spec->rows != 1 && !(spec->flags & RP_KEYS))
        return rp_fail(f, RP_SHAPE, "rows", 1, "a stream has one row");
    if (spec->planes > 1)
        return rp_fail(f, RP_SHAPE, "planes", 1, "a stream has one row in one run");
    if (spec->row_len != 0)
        return rp_fail(f, RP_SHAPE, "row_len", 0, "FINISH states the length of a stream: row_len must be 0");
    return RP_OK;
}

rp_err rd_on_begin(rd_requests *q, rd_request *r, rp_fault *f)
{
    rp_spec spec;
    rd_stream_list *list = &r->session->streams;
    rp_err err = begin_spec(r, &spec, f);
    if (err)
        return err;
    if (list->open >= q->config->max_streams)
        return rp_fail(f, RP_QUOTA, "streams", q->config->max_streams, "this session has %u open streams", list->open);
    err = rd_may_hold(q->users, r->session->owner, RD_HELD_STREAM_BYTES, sizeof(rd_stream), f);
    if (err)
        return err;
    rd_stream *x = rd_stream_open(list, ++q->streams_opened, &spec);
    if (!x)
        return rp_fail(f, RP_NO_MEMORY, "stream", 0, "no memory for a stream");
    rd_tally_op(&q->stats->tally, spec.op);
    return rd_answer_u64(q, r, x->id, f);
}

static rp_err find_stream(const rd_request *r, uint64_t id, rd_stream **x, rp_fault *f)
{
    *x = rd_stream_find(&r->session->streams, id);
    return *x ? RP_OK : rp_fail(f, RP_BAD_HANDLE, "stream", 0, "no open stream %" PRIu64 " in this session", id);
}

static rp_err check_count(const rd_stream *x, uint64_t count, rp_fault *f)
{
    uint64_t first;
    if (rd_extents_cover(&x->extents, count, &first))
        return RP_OK;
    rp_fail(f, RP_SHAPE, "count", count,
            first < count ? "element %" PRIu64 " of %" PRIu64 " is missing" : "element %" PRIu64 " came, but count is %" PRIu64,
            first, count);
    f->index = first;
    return RP_SHAPE;
}

static void on_finish_done(rd_requests *q, rd_job *job);

/* All chunks of a FINISH are back, though some may have failed: merge their states. */
static void merge(rd_requests *q, rd_stream *x)
{
    rd_request *r = x->finish;
    rp_fault f = x->fault;
    x->finish = NULL;
    if (f.code || check_count(x, r->count, &f)) {
        rd_refuse(q, r, &f);
        rd_streams_sweep(x->list);
        return;
    }
    x->jobs++;
    rd_stream_merge(x, &r->job.task, r->reply + RP_RESULT_SIZE);
    r->job.done = on_finish_done;
    rd_schedule(q, r);
}

/* A job of the stream is back. The stream may be gone afterwards. */
static void settle(rd_requests *q, rd_stream *x)
{
    x->jobs--;
    if (x->jobs == 0 && x->finish)
        merge(q, x);
    else if (x->jobs == 0)
        rd_streams_sweep(x->list);
}

static void on_finish_done(rd_requests *q, rd_job *job)
{
    rd_request *r = job->request;
    rd_stream *x = r->stream;
    if (job->task.fault.code) {
        if (!rd_stream_is_keyed(x))
            job->task.fault.index = RP_NO_INDEX; /* there is only one row, so its number is left out */
        rd_refuse(q, r, &job->task.fault);
    } else {
        rd_answer_result(q, r, &x->spec, r->count);
    }
    settle(q, x);
}

/* FINISH was taken back while it waited for its chunks. Their jobs are still under way, and the last one frees the stream. */
static void on_finish_taken_back(rd_requests *q, rd_job *job)
{
    job->request->stream->finish = NULL;
    rd_refuse(q, job->request, &job->task.fault);
}

static void on_fold_done(rd_requests *q, rd_job *job)
{
    rd_stream *x = (rd_stream *)job;
    rd_stream_folded(x);
    settle(q, x);
}

static void keep(rd_requests *q, rd_stream *x, const rk_task *t)
{
    rd_stream_keep(x, t->cells);
    x->copy_ns += t->copy_ns;
    x->compute_ns += t->compute_ns;
    if (rd_stream_fold(x)) {
        x->jobs++;
        x->fold.done = on_fold_done;
        rd_submit(q, &x->fold);
    }
}

static void on_append_done(rd_requests *q, rd_job *job)
{
    rd_request *r = job->request;
    rd_stream *x = r->stream;
    rp_fault f = job->task.fault;
    bool wanted = !x->ended || x->finish, taken_back = f.code == RP_DEADLINE || f.code == RP_CANCELLED;
    if (f.code && !taken_back) {
        rd_stream_fail(x, &f);
    } else if (!wanted) {
        rp_fail(&f, RP_CANCELLED, "stream", 0, "the stream ended before this chunk was done");
    } else if (taken_back) {
        rd_stream_unclaim(x, r->offset, r->count);
    } else {
        keep(q, x, &job->task);
        rd_answer_u64(q, r, x->extents.total, &f);
    }
    if (f.code)
        rd_refuse(q, r, &f);
    settle(q, x);
}

static void release_states(rd_request *r)
{
    const size_t bytes = rp_results(&r->job.task.spec) * rp_state_size(rp_spec_layout(&r->job.task.spec));
    rd_discharge(r->all->users, r->session->owner, RD_HELD_STREAM_BYTES, bytes);
    free(r->states);
    r->states = NULL;
    r->release = NULL;
}

/* Memory for the states of all groups. */
static rp_err take_room(rd_requests *q, rd_request *r, const rd_stream *x, rp_fault *f)
{
    r->states = malloc(x->state_size);
    if (!r->states)
        return rd_no_memory(f);
    rd_charge_anyway(q->users, r->session->owner, RD_HELD_STREAM_BYTES, x->state_size);
    r->release = release_states;
    return RP_OK;
}

rp_err rd_on_append(rd_requests *q, rd_request *r, rp_fault *f)
{
    rp_append a;
    rd_stream *x = NULL;
    r->path = RP_PATH_STREAM;
    rp_err err = rp_get_append(r->body, r->body_len, &a, f);
    if (!err)
        err = find_stream(r, a.stream, &x, f);
    if (err)
        return err;
    r->job.task.spec = x->spec;
    if (x->fault.code) {
        *f = x->fault;
        return f->code;
    }
    err = rd_may_hold(q->users, r->session->owner, RD_HELD_STREAM_BYTES, x->state_size, f);
    if (!err && rd_stream_is_keyed(x))
        err = take_room(q, r, x, f);
    if (!err)
        err = rd_stream_claim(x, a.offset, a.data_len, &r->count, f);
    if (err)
        return err;
    r->offset = a.offset;
    r->stream = x;
    r->job.done = on_append_done;
    r->job.task = (rk_task){.spec = rd_stream_chunk(x, r->count),
                            .data = a.data,
                            .bytes = a.data_len,
                            .cells = r->states ? r->states : r->state,
                            .base = a.offset};
    x->jobs++;
    rd_wait(q, r);
    rd_schedule(q, r);
    return RP_OK;
}

rp_err rd_on_finish(rd_requests *q, rd_request *r, rp_fault *f)
{
    rp_finish x;
    rd_stream *stream = NULL;
    r->path = RP_PATH_STREAM;
    rp_err err = rp_get_finish(r->body, r->body_len, &x, f);
    if (!err)
        err = find_stream(r, x.stream, &stream, f);
    if (err)
        return err;
    r->job.task.spec = stream->spec;
    rd_stream_end(stream->list, stream); /* FINISH ends its stream even if it fails */
    if (stream->fault.code)
        *f = stream->fault;
    else if (check_count(stream, x.count, f) == RP_OK)
        rd_make_room(r, &stream->spec, f);
    if (f->code) {
        rd_streams_sweep(stream->list);
        return f->code;
    }
    r->stream = stream;
    r->count = x.count;
    stream->finish = r;
    r->job.done = on_finish_taken_back;
    rd_wait(q, r);
    if (stream->jobs == 0)
        merge(q, stream);
    else
        rd_watch_deadline(q, r);
    return RP_OK;
}

rp_err rd_on_abort(rd_requests *q, rd_request *r, rp_fault *f)
{
    uint64_t id;
    rd_stream *x = NULL;
    rp_err err = rp_get_u64(r->body, r->body_len, &id, "stream", f);
    if (!err && !rd_resident_abort(r, id))
        err = find_stream(r, id, &x, f);
    if (err)
        return err;
    if (x) {
        rd_stream_end(x->list, x);
        rd_streams_sweep(x->list);
    }
    return rd_answer_empty(q, r, f);
}
