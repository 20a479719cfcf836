/* What the simple calls of reduce.h call: reduce_run with the defaults of the element type. */
#include <string.h>

#include "client/error.h"

static int run(reduce_client *c, const reduce_spec *s, const void *data, size_t n, void *out)
{
    reduce_stats value; /* the largest result */
    size_t bytes, size;
    if (!out)
        return rc_error(REDUCE_E_ARGUMENT, "out", "the pointer for the value is NULL");
    if (__builtin_mul_overflow(n, rp_dtype_size(s->dtype), &bytes))
        return rc_error(REDUCE_E_TOO_LARGE, "n", "%zu elements are more than memory holds", n);
    int err = reduce_result_size(s, bytes, &size);
    if (!err)
        err = reduce_run(c, s, data, bytes, &value, size, NULL);
    if (!err)
        memcpy(out, &value, size);
    return err;
}

int reduce_simple(reduce_client *c, int op, int dtype, uint32_t ddof, const void *data, size_t n, void *out)
{
    reduce_spec s = REDUCE_SPEC_INIT;
    s.op = op;
    s.dtype = dtype;
    s.ddof = ddof;
    return run(c, &s, data, n, out);
}

int reduce_simple_pairs(reduce_client *c, int op, int dtype, const void *data, const void *weights, size_t n, void *out)
{
    reduce_spec s = REDUCE_SPEC_INIT;
    s.op = op;
    s.dtype = dtype;
    s.weights = n ? weights : &s; /* of no elements none is read */
    return run(c, &s, data, n, out);
}
