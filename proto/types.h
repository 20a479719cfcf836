/* Names, sizes and plain structs shared by every part: expansions of types.def. No I/O, no allocation. */
#ifndef RP_TYPES_H
#define RP_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"
#include "proto/types.def"

#ifdef __cplusplus
extern "C" {
#endif

#define RP_WIRE_VERSION 1 /* the protocol version this code speaks */

#define X(NAME, name, code, help) RP_OP_##NAME = code,
typedef enum { RP_OPS(X) } rp_op;
#undef X
#define X(NAME, name, code, bytes, cls) RP_##NAME = code,
typedef enum { RP_DTYPES(X) } rp_dtype;
#undef X
#define X(NAME, name, code, help) RP_NAN_##NAME = code,
typedef enum { RP_NANS(X) } rp_nan;
#undef X
#define X(NAME, name, code) RP_MSG_##NAME = code,
typedef enum { RP_MSGS(X) } rp_msg;
#undef X
#define X(NAME, code, help) RP_##NAME = code,
typedef enum { RP_ERRORS(X) } rp_err;
#undef X
#define X(NAME, name, code) RP_BACKEND_##NAME = code,
typedef enum { RP_BACKENDS(X) } rp_backend;
#undef X
#define X(NAME, name, code) RP_PATH_##NAME = code,
typedef enum { RP_PATHS(X) } rp_path;
#undef X

typedef enum { RP_CLASS_NONE, RP_CLASS_SIGNED, RP_CLASS_UNSIGNED, RP_CLASS_FLOAT } rp_class;

/* Names. Unknown codes give "?"; never NULL. Static storage. */
const char *rp_op_name(int op);
const char *rp_op_help(int op);
const char *rp_dtype_name(int dtype);
const char *rp_nan_name(int nan);
const char *rp_msg_name(int msg);
const char *rp_err_name(int err);
const char *rp_err_help(int err);
const char *rp_backend_name(int backend);
const char *rp_path_name(int path);

/* Parse a name; 0 (no such op or dtype) or -1 (no such policy) when unknown. */
int rp_op_parse(const char *name);
int rp_dtype_parse(const char *name);
int rp_nan_parse(const char *name);

size_t rp_dtype_size(int dtype); /* bytes of an element, 0 if unknown */
rp_class rp_dtype_class(int dtype);

/* A typed error as it travels: what is wrong, in which field, against which limit. */
typedef struct rp_fault {
    rp_err code;
    uint64_t limit;      /* the cap that was passed, 0 if none */
    uint64_t index;      /* row, segment or element concerned, RP_NO_INDEX if none */
    uint64_t value[2];   /* OVERFLOW: the exact value, 128-bit two's complement, low word first */
    uint32_t retry_ms;   /* BUSY: wait this long before repeating */
    char field[RP_MAX_FIELD + 1];
    char text[RP_MAX_TEXT + 1];
} rp_fault;

#define RP_NO_INDEX UINT64_MAX

/* Fill a fault (printf-like text, cut at RP_MAX_TEXT) and return its code, so that `return rp_fail(...)` works.
 * `f` may be NULL. */
rp_err rp_fail(rp_fault *f, rp_err code, const char *field, uint64_t limit, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* What to reduce: the 64-byte block of PROTOCOL.md, decoded. */
typedef struct rp_spec {
    uint8_t op;          /* rp_op */
    uint8_t dtype;       /* rp_dtype of the elements */
    uint8_t out;         /* rp_dtype of the reply; 0 = default, resolved by rp_spec_check */
    uint8_t nan;         /* rp_nan */
    uint32_t flags;      /* RP_STATES_IN | RP_STATES_OUT */
    uint64_t rows;       /* results wanted, >= 1; the data is cut into this many equal rows */
    uint64_t row_len;    /* elements (or states, with RP_STATES_IN) in each row */
    uint64_t index_base; /* added to element indexes: where this shard starts in the whole array */
} rp_spec;

enum {
    RP_STATES_IN = 1,  /* the data holds partial states, not elements */
    RP_STATES_OUT = 2, /* the reply holds one partial state per row, not a finished value */
    RP_SPEC_FLAGS = 3
};

/* Check op, types, policy, flags and shape; replace `out` 0 by the default. Pure. Errors: OP, TYPE, BAD_MESSAGE
 * (nan, flags), SHAPE (rows 0), TOO_LARGE (count, reply). */
rp_err rp_spec_check(rp_spec *s, rp_fault *f);

/* Bytes of the data that a checked spec describes; SHAPE in `f` if `bytes` differs. Overflow-safe. */
rp_err rp_spec_match(const rp_spec *s, uint64_t bytes, rp_fault *f);

/* Bytes of one reply cell of a checked spec: a state, or an element of type `out`. */
size_t rp_cell_size(const rp_spec *s);

/* Layouts of a partial state (PROTOCOL.md, "Partial states"). */
typedef enum {
    RP_STATE_SUM32 = 0, /* f16 bf16 f32 sums: 6 limbs */
    RP_STATE_SUM64 = 2, /* f64 sums: 34 limbs */
    RP_STATE_INT = 4,   /* integer sums: 128 bits */
    RP_STATE_MIN = 5,
    RP_STATE_MAX = 6,
    RP_STATE_ARGMIN = 7,
    RP_STATE_ARGMAX = 8,
    RP_STATE_COUNT = 9
} rp_layout;

/* The layout of the states of (op, dtype), and the bytes of one; the spec need not be checked. */
int rp_state_layout(int op, int dtype);
size_t rp_state_size(int layout); /* 0 if unknown */
#define RP_MAX_STATE 288u

/* The reply to REDUCE and FINISH, before its cells. */
typedef struct rp_result {
    uint8_t dtype;       /* of the cells; 0 = states */
    uint8_t backend;     /* rp_backend that computed it */
    uint8_t path;        /* rp_path that served it */
    uint32_t cell_size;  /* bytes */
    uint64_t cells;
    uint64_t count;      /* elements given to the reduction */
    uint64_t queue_ns;   /* from arrival to start */
    uint64_t copy_ns;    /* to the device, summed over chunks */
    uint64_t compute_ns; /* summed over chunks */
} rp_result;

#ifdef __cplusplus
}
#endif
#endif
