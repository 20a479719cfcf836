/* Properties of operations from proto/types.def, for options and help. */
#ifndef CTL_OP_TABLE_H
#define CTL_OP_TABLE_H

#include <stdbool.h>

#include "proto/types.def"

/* The operations with a ddof, as a text: " var std ..." */
#define CTL_DDOF_NAME_NONE(name)
#define CTL_DDOF_NAME_DDOF(name) " " name
#define CTL_DDOF_NAME_QUANTILES(name)
#define CTL_DDOF_NAME_RANK(name)
#define CTL_DDOF_NAME_EDGES(name)
#define CTL_DDOF_NAME_WEIGHTS(name)
#define CTL_DDOF_NAME(NAME, name, code, help, value, narrow, wide, integer, finish, nothing, takes) CTL_DDOF_NAME_##takes(name)
#define CTL_DDOF_OPS RP_OPS(CTL_DDOF_NAME)

/* Those whose value is a float, whatever the elements are: " mean norm2 ..." */
#define CTL_REAL_NAME_SAME(name)
#define CTL_REAL_NAME_END(name)
#define CTL_REAL_NAME_REAL(name) " " name
#define CTL_REAL_NAME_NUMBER(name)
#define CTL_REAL_NAME_BITS(name)
#define CTL_REAL_NAME_SUMMARY(name)
#define CTL_REAL_NAME(NAME, name, code, help, value, narrow, wide, integer, finish, nothing, takes) CTL_REAL_NAME_##value(name)
#define CTL_REAL_OPS RP_OPS(CTL_REAL_NAME)

/* Above the highest code of an operation; some codes may be missing. */
#define X(NAME, name, code, ...) CTL_OP_##NAME = code,
enum { RP_OPS(X) CTL_OP_END };
#undef X

static inline bool ctl_has_ddof(int op)
{
#define X(NAME, name, code, help, value, narrow, wide, integer, finish, nothing, takes) \
    [code] = sizeof("" CTL_DDOF_NAME_##takes("x")) > 1,
    static const bool has[] = {RP_OPS(X)};
#undef X
    return op > 0 && op < (int)sizeof has && has[op];
}

#endif
