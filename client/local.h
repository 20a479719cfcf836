/* Reductions in this process instead of the daemon: arrays in its memory for which a round trip would take longer. */
#ifndef RC_LOCAL_H
#define RC_LOCAL_H

#include "client/client.h"
#include "client/job.h"

/* May the client do so at all? Its option, or $REDUCE_LOCAL. 0, or the error. */
int rc_local_option(const reduce_open_opts *o, bool *local, rp_fault *f);

/* The engine of this session's daemon, asked for once in a session; all 0 while its GPUs are opening, or it is gone. Call
 * without the mutex. 0, or REDUCE_E_INTERRUPTED, reported: the program ends the call. */
int rc_engine_of(reduce_client *c, rc_engine *engine);

/* *why the daemon must do this request; NULL: reduce it here, with a->threads. It may query the daemon's engine, once in a
 * session. Call without the mutex. 0, or REDUCE_E_INTERRUPTED, reported. */
int rc_local_refusal(reduce_client *c, rc_ask *a, const char **why);

/* Reduce a request that rc_local_refusal accepted. 0, or the reported error. */
int rc_local_run(const rc_ask *a, reduce_result *result);

#endif
