/* What a call of reduce_cuda.h asks for, checked. */
#ifndef RC_CUDA_CHECKED_H
#define RC_CUDA_CHECKED_H

#include "client/quantiles.h"
#include "client/reduce_cuda.h"
#include "proto/types.h"

typedef struct rc_cuda_checked {
    rp_spec spec;                            /* of the whole array */
    const uint8_t *mask, *offsets, *weights; /* NULL: none */
    int failure; /* of a result that cannot be made: there is one kind for each spec; 0: none fails */
    uint8_t q[RP_MAX_QUANTILES * RC_DECIMAL_BYTES]; /* spec.q */
} rc_cuda_checked;

/* 0, or the reported error. */
int rc_cuda_check(const reduce_spec *given, uint64_t count, rc_cuda_checked *a);

/* The same of a list of `arrays` arrays that have `count` elements together: a->spec has no row_len. */
int rc_cuda_check_list(const reduce_spec *given, uint64_t arrays, uint64_t count, rc_cuda_checked *a);

/* ... of a reduction by key: a->spec has a row for each group. */
int rc_cuda_check_keyed(const reduce_spec *given, const reduce_cuda_keys *keys, uint64_t count, rc_cuda_checked *a);

#endif
