/* Reductions of this process's memory without the daemon. */
#ifndef RC_ALONE_H
#define RC_ALONE_H

#include "client/job.h"

/* The end of the request's deadline; 0: it has none. */
uint64_t rc_until_of(const rc_ask *a);

/* Reduce a request by a->threads threads. 0, or the reported error. */
int rc_run_here(const rc_ask *a, reduce_result *result);

/* Its result is there: what is known of it. Returns 0. */
int rc_give_here(const rc_ask *a, reduce_result *result);

/* reduce_run without a client. */
int rc_run_alone(const reduce_spec *spec, const void *data, size_t bytes, void *out, size_t room);

#endif
