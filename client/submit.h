/* Run a job on bytes of any input: for reduce_run and kin, reduce_named and reduce_put. */
#ifndef RC_SUBMIT_H
#define RC_SUBMIT_H

#include "client/job.h"

/* Can `bytes` bytes of in->fd be read? 0, or the error, reported. */
int rc_check_file(const rc_input *in, uint64_t bytes);

/* Wait until the bytes are written there. 0, or the error, reported. */
int rc_run_write(reduce_client *c, const rc_target *to, const rc_input *in, uint64_t bytes, int path, uint64_t deadline_ns);

/* reduce_run on bytes of any input. */
int rc_run(reduce_client *c, const reduce_spec *spec, const rc_input *in, size_t bytes, void *out, size_t room,
           reduce_result *result);

#endif
