/* What a call asks for, from its arguments. */
#ifndef RC_ASK_H
#define RC_ASK_H

#include "client/job.h"

/* Are the pointers there that have to be? 0, or the error, in `f`. */
int rc_check_pointers(const rc_input *in, size_t bytes, const void *out, size_t room, rp_fault *f);

/* Set up what the arguments say but where the results go. 0, or the error, in `f`. */
int rc_ask_for(rc_ask *a, const reduce_spec *given, const rc_input *in, size_t bytes, size_t room, rp_fault *f);

#endif
