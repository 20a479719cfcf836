#include "daemon/stats.h"

#define X(NAME, name, code) _Static_assert(code < RD_MSG_SLOTS, "RD_MSG_SLOTS");
RP_MSGS(X)
#undef X
#define X(NAME, name, code, help) _Static_assert(code < RD_OP_SLOTS, "RD_OP_SLOTS");
RP_OPS(X)
#undef X
#define X(NAME, code, help) _Static_assert(code < RD_ERR_SLOTS, "RD_ERR_SLOTS");
RP_ERRORS(X)
#undef X

void rd_stats_answered(rd_stats *s, int msg, int err, uint64_t latency_ns, uint64_t bytes)
{
    s->requests++;
    s->bytes_in += bytes;
    if (msg < RD_MSG_SLOTS)
        s->by_msg[msg]++;
    if (err != RP_OK) {
        s->errors++;
        s->by_err[err < RD_ERR_SLOTS ? err : RP_INTERNAL]++;
    }
    rd_histogram_add(&s->latency, latency_ns);
}

void rd_stats_join(rd_stats *s, const rd_stats *from)
{
    s->sessions += from->sessions;
    s->requests += from->requests;
    s->errors += from->errors;
    s->dropped += from->dropped;
    s->bytes_in += from->bytes_in;
    for (int i = 0; i < RD_MSG_SLOTS; i++)
        s->by_msg[i] += from->by_msg[i];
    for (int i = 0; i < RD_OP_SLOTS; i++)
        s->by_op[i] += from->by_op[i];
    for (int i = 0; i < RD_ERR_SLOTS; i++)
        s->by_err[i] += from->by_err[i];
    rd_histogram_join(&s->latency, &from->latency);
}
