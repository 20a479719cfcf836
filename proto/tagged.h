/* Tagged parts of requests (PROTOCOL.md, "Tagged parts"), as bytes and as structs. Pure, as codec.h. */
#ifndef RP_TAGGED_H
#define RP_TAGGED_H

#include "proto/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RP_PART_SIZE 8u      /* of a tagged part: what precedes its body */
#define RP_COMPANION_SIZE 8u /* + its place, if it has a handle */
#define RP_COMPANION_MAX 24u
#define RP_RESULT_AT_SIZE 24u
#define RP_STRIDE_SIZE 8u
#define RP_CLAIM_SIZE 16u

/* An array beside the elements. */
typedef struct rp_companion {
    uint8_t where;           /* rp_where; 0: there is no part for it */
    uint8_t dtype;           /* rp_dtype of its elements */
    uint8_t extent;          /* rp_extent */
    uint64_t handle, offset; /* RP_WHERE_HANDLE: its first byte */
} rp_companion;

/* A parameter of an operation. */
typedef struct rp_parameter {
    uint8_t form; /* rp_form; 0: it is not given */
    uint32_t n;   /* values, at least one */
    const uint8_t *values;
} rp_parameter;

/* REDUCE_AT: where the data are, instead of the data. */
typedef struct rp_at {
    uint64_t handle; /* of a file, an arena or an allocation of the session, or of resident data */
    uint64_t offset; /* bytes */
    uint64_t length; /* bytes */
    uint64_t stride; /* columns of a file: bytes from the start of a row to that of the next; 0: rows follow one another */
} rp_at;

/* What a client says it reduced in its own process since the last such part. */
typedef struct rp_claim {
    uint64_t requests; /* 0: nothing */
    uint64_t bytes;
} rp_claim;

/* The tagged parts of REDUCE, BEGIN or REDUCE_AT. */
typedef struct rp_tagged {
    rp_companion companion[RP_ROLE_END];      /* by rp_role */
    rp_parameter parameter[RP_PARAMETER_END]; /* by rp_parameter_code */
    bool apart;                               /* the cells do not go into the reply but here: */
    rp_at result;
    uint64_t stride; /* 0: none */
    rp_claim claim;
} rp_tagged;

/* Bytes of the parts, and the parts as bytes. */
uint32_t rp_tagged_size(const rp_tagged *t);
size_t rp_put_tagged(uint8_t *out, const rp_tagged *t);
/* Decode `tagged_len` bytes of parts, of the `len` bytes that follow the fixed part of the body. Layout only. */
rp_err rp_get_tagged(const uint8_t *parts, size_t len, uint32_t tagged_len, rp_tagged *t, rp_fault *f);

/* The parameters, in their fields of the spec: before rp_spec_check, since types and cells depend on them. The quantiles stay
 * where the parts are. */
void rp_tagged_take(rp_spec *s, const rp_tagged *t);

/* Do the parts suit a checked spec? `at`: of REDUCE_AT. Errors: BAD_MESSAGE, TYPE, SHAPE. */
rp_err rp_tagged_check(const rp_spec *s, const rp_tagged *t, bool at, rp_fault *f);
/* Of the parameters of a spec: k of largest and smallest, edges. Errors: BAD_MESSAGE, TOO_LARGE. */
rp_err rp_order_check(const rp_spec *s, rp_fault *f);
/* The flags of companions that are not with the elements. */
uint32_t rp_tagged_flags(const rp_tagged *t);
/* Find the companions, of a matching spec, that are in `bytes` bytes of the message: exactly these. Errors: SHAPE. */
rp_err rp_tagged_data(const rp_spec *s, const rp_tagged *t, const uint8_t *data, size_t bytes, rp_parts *beside, rp_fault *f);

/* A value of a parameter. */
typedef struct rp_value {
    uint64_t u64;
    int64_t i64; /* of a decimal: its digits */
    double f64;
    int64_t exponent; /* of a decimal: i64 x 10^exponent */
} rp_value;
rp_value rp_parameter_value(const rp_parameter *p, uint32_t i);
size_t rp_put_value(uint8_t *out, int form, const rp_value *v);

#ifdef __cplusplus
}
#endif
#endif
