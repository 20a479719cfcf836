/* Inside the library: what the calls on states share. */
#ifndef RC_STATE_H
#define RC_STATE_H

#include <stddef.h>

/* Is there a state of (op, dtype), and room for it at `state`? 0, or the reported error. */
int rc_state_room(const void *state, size_t size, int op, int dtype);

#endif
