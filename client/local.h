/* What this process reduces itself, instead of the daemon: arrays in its memory whose way to the daemon would take longer. */
#ifndef RC_LOCAL_H
#define RC_LOCAL_H

#include "client/client.h"
#include "client/job.h"

/* May the client do so at all? Its option, or $REDUCE_LOCAL. 0, or the error. */
int rc_local_option(const reduce_open_opts *o, bool *local, rp_fault *f);

/* Why the daemon is to have this request; NULL: it is reduced here. It may ask the daemon, once in a session, what its engine
 * is. Without the mutex. */
const char *rc_local_refusal(reduce_client *c, const rc_ask *a);

/* Reduce what was not refused. 0, or the reported error. */
int rc_local_run(reduce_client *c, const rc_ask *a, reduce_result *result);

#endif
