/* What the simple calls of reduce.h call: reduce_run with the defaults of the element type. */
#include <stdlib.h>
#include <string.h>

#include "client/error.h"

/* The bytes of n elements. 0, or the error. */
static int size_of(const reduce_spec *s, size_t n, const void *out, size_t *bytes)
{
    if (!out)
        return rc_error(REDUCE_E_ARGUMENT, "out", "the pointer for the value is NULL");
    if (__builtin_mul_overflow(n, rp_dtype_size(s->dtype), bytes))
        return rc_error(REDUCE_E_TOO_LARGE, "n", "%zu elements are more than memory holds", n);
    return 0;
}

static int run(reduce_client *c, const reduce_spec *s, const void *data, size_t n, void *out)
{
    reduce_stats value; /* the largest result */
    reduce_result result = REDUCE_RESULT_INIT;
    size_t bytes = 0;
    int err = size_of(s, n, out, &bytes);
    if (!err)
        err = reduce_run(c, s, data, bytes, &value, sizeof value, &result);
    if (!err)
        memcpy(out, &value, result.cell_size);
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

int reduce_simple_cov(reduce_client *c, int dtype, uint32_t ddof, const void *x, const void *y, size_t n, double *out)
{
    reduce_spec s = REDUCE_SPEC_INIT;
    s.op = REDUCE_COV;
    s.dtype = dtype;
    s.ddof = ddof;
    s.weights = n ? y : &s; /* of no elements none is read */
    return run(c, &s, x, n, out);
}

int reduce_simple_quantile(reduce_client *c, int dtype, double q, const void *data, size_t n, double *out)
{
    reduce_spec s = REDUCE_SPEC_INIT;
    s.op = REDUCE_QUANTILE;
    s.dtype = dtype;
    s.q = &q;
    s.quantiles = 1;
    return run(c, &s, data, n, out);
}

int reduce_simple_ranks(reduce_client *c, int op, int dtype, int64_t k, const void *data, size_t n, void *out,
                        uint64_t *indexes)
{
    reduce_spec s = REDUCE_SPEC_INIT;
    size_t bytes = 0, size = 0;
    s.op = op;
    s.dtype = dtype;
    s.k = k;
    int err = size_of(&s, n, out, &bytes);
    if (!err)
        err = reduce_result_size(&s, bytes, &size);
    if (err)
        return err;
    const size_t values = rp_is_top(op) ? size / 2 : size; /* of 8 bytes, as the indexes */
    uint8_t *cell = malloc(size);
    if (!cell)
        return rc_error(REDUCE_E_NO_MEMORY, "k", "no memory for %zu bytes of results", size);
    err = reduce_run(c, &s, data, bytes, cell, size, NULL);
    if (!err)
        memcpy(out, cell, values);
    if (!err && indexes && values < size)
        memcpy(indexes, cell + values, size - values);
    free(cell);
    return err;
}

int reduce_simple_histogram(reduce_client *c, int dtype, const double *edges, size_t n_edges, const void *data, size_t n,
                            uint64_t *counts)
{
    reduce_spec s = REDUCE_SPEC_INIT;
    size_t bytes = 0, size = 0;
    s.op = REDUCE_HISTOGRAM;
    s.dtype = dtype;
    s.edges = edges;
    s.n_edges = n_edges;
    int err = size_of(&s, n, counts, &bytes);
    if (!err)
        err = reduce_result_size(&s, bytes, &size);
    return err ? err : reduce_run(c, &s, data, bytes, counts, size, NULL);
}
