/* Reductions in this process instead of the daemon: arrays in its memory for which a round trip would take longer. */
#ifndef RC_LOCAL_H
#define RC_LOCAL_H

#include "client/client.h"
#include "client/job.h"

/* May the client do so at all? Its option, or $REDUCE_LOCAL. 0, or the error. */
int rc_local_option(const reduce_open_opts *o, bool *local, rp_fault *f);

/* The engine of this session's daemon, asked for once in a session. False: its GPUs are opening, or it is gone. Call without
 * the mutex. */
bool rc_engine_of(reduce_client *c, rc_engine *engine);

/* Why the daemon must do this request; NULL: reduce it here. It may query the daemon's engine, once in a session. Call without
 * the mutex. */
const char *rc_local_refusal(reduce_client *c, const rc_ask *a);

/* Reduce a request that rc_local_refusal accepted. 0, or the reported error. */
int rc_local_run(reduce_client *c, const rc_ask *a, reduce_result *result);

#endif
