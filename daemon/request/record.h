/* Reports an answered request to the counters (stats.h) and to the trace (trace.h). */
#ifndef RD_RECORD_H
#define RD_RECORD_H

#include "daemon/request/request.h"
#include "daemon/telemetry/stats.h"

struct rd_session;

/* `now_ns`: when the answer leaves. Any thread that has the request and holds the session. */
rd_record rd_record_of(const rd_request *r, const struct rd_session *x, rp_err err, uint64_t now_ns);

#endif
