/* Order statistics of arrays that no message can have: they need all elements of a line at once, and a daemon takes a few MiB.
 * And reductions by key of such arrays, if the states of their groups would be more than the elements of a message. This
 * process reduces them itself, whether or not the client wants that of other requests. */
#ifndef RC_ONLY_HERE_H
#define RC_ONLY_HERE_H

#include "client/job.h"

/* Is it such a request? Not of data that the daemon has. Call without the mutex. */
bool rc_is_only_here(reduce_client *c, const rc_ask *a);

/* Reduce it, with as many threads as this process has cores. A file is read into memory, lines or pieces
 * of it one after the other. 0, or the reported error. */
int rc_run_only_here(rc_ask *a, reduce_result *result);

#endif
