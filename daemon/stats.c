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
