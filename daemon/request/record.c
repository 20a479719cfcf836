#include "daemon/request/record.h"

#include "daemon/request/requests.h"

/* Do requests of this type use the engine? */
static bool is_work(uint8_t msg)
{
    return msg == RP_MSG_REDUCE || msg == RP_MSG_REDUCE_AT || msg == RP_MSG_APPEND || msg == RP_MSG_FINISH;
}

rd_record rd_record_of(const rd_request *r, const rd_session *x, rp_err err, uint64_t now_ns)
{
    const rk_task *t = &r->job.task;
    rd_record a = {.msg = r->exchange.header.type,
                   .err = err,
                   .user = x->user,
                   .name = x->peer.name[0] ? x->user_text : NULL,
                   .pid = x->peer.pid,
                   .id = r->exchange.header.id,
                   .exchange = r->exchange.number,
                   .body_bytes = r->body_len,
                   .claim = r->claim,
                   .received_ns = r->exchange.received_ns,
                   .worked = is_work(r->exchange.header.type),
                   .stage_ns[RD_TOTAL] = now_ns - r->exchange.received_ns};
    if (!a.worked)
        return a;
    a.op = t->spec.op;
    a.dtype = t->spec.dtype;
    a.path = (uint8_t)r->path;
    a.backend = t->backend;
    a.piece = a.msg == RP_MSG_APPEND || (t->spec.flags & RP_STATES_OUT);
    a.route = t->route;
    a.data_bytes = a.msg == RP_MSG_FINISH ? 0 : t->bytes; /* the data that FINISH merges were counted when they came */
    const bool numbered = !r->spread && t->device < rk_devices(r->all->engine); /* not the CPU beside devices */
    a.device = numbered ? t->device : -1;
    a.start_ns = t->start_ns;
    if (t->start_ns) {
        a.device_label = numbered ? r->all->devices[t->device].label : NULL;
        a.stage_ns[RD_QUEUE] = rd_queued_ns(r);
        a.stage_ns[RD_COPY] = t->copy_ns;
        a.stage_ns[RD_KERNEL] = t->compute_ns;
    }
    return a;
}
