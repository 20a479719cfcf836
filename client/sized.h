/* Structs that begin with `size`, of programs built against another version of reduce.h.
 *
 * A later version adds fields at the end only. So a smaller struct is one of an earlier version: the fields that it lacks
 * count as 0. A larger one is of a later version: what this library does not know must be 0 in what it is given, and becomes 0
 * in what it fills. `first` bytes, RC_UP_TO the last field of the first version, are the least. */
#ifndef RC_SIZED_H
#define RC_SIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/reduce.h"
#include "proto/types.h"

#define RC_UP_TO(type, field) (offsetof(type, field) + sizeof((type){0}.field))

#define RC_RESULT_FIRST RC_UP_TO(reduce_result, reserved)

enum { RC_MAX_SIZED = 4096 }; /* bytes of any version: what claims more was never initialised */

/* Copy the struct `given` to `to`, `size` bytes as this library knows it. 0, or REDUCE_E_ARGUMENT with `field` in `f`. The size
 * of every version is a multiple of `align`, that of the first one. Another one would end inside a pointer. */
int rc_take_sized(void *to, size_t size, size_t align, const void *given, size_t first, const char *field, rp_fault *f);

/* May rc_give_sized fill the struct `out`? 0, or REDUCE_E_ARGUMENT with `field` in `f` (may be NULL). */
int rc_check_sized(const void *out, size_t first, const char *field, rp_fault *f);

/* Fill `out` from `from`, `size` bytes as this library knows it: no more than out->size bytes, and not `size` itself. */
void rc_give_sized(void *out, const void *from, size_t size);

#endif
