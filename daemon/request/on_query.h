/* QUERY: what this daemon is (info), what it is doing (status), and its counters (metrics). The keys are stable: people's
 * scripts read them. */
#ifndef RD_ON_QUERY_H
#define RD_ON_QUERY_H

#include "daemon/request/requests.h"

/* What status and metrics render; `requests` is the rd_requests. For rd_metrics_init. */
void rd_measure(void *requests, rd_measures *m);

#endif
