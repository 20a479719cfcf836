/* QUERY: what this daemon is (info), what it is doing (status), and its counters (metrics). The keys are stable, because
 * scripts read them. */
#ifndef RD_ON_QUERY_H
#define RD_ON_QUERY_H

#include "daemon/request/requests.h"

/* Measures what status and metrics render; `requests` is the rd_requests. For rd_metrics_init. */
void rd_measure(void *requests, rd_measures *m);

/* Writes the entries of status in the form of a reply and returns their bytes. For rd_metrics_want_json. */
size_t rd_status_entries(void *requests, const rd_measures *m, uint8_t *out, size_t cap);
rd_process *rd_processes(void *requests, size_t *n); /* as rd_session_list_processes */

#endif
