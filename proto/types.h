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

#define RP_WIRE_VERSION 2 /* the highest protocol version that this code speaks, */
#define RP_OLDEST_VERSION 1
#define RP_PLANES_VERSION 2 /* and the first one that has planes */

/* May a message have this version? */
static inline bool rp_version_known(int version) { return version >= RP_OLDEST_VERSION && version <= RP_WIRE_VERSION; }
/* A reply has the version of its request; this code's own where it does not speak that. */
static inline uint8_t rp_reply_version(int asked) { return rp_version_known(asked) ? (uint8_t)asked : RP_WIRE_VERSION; }

#define X(NAME, name, code, ...) RP_OP_##NAME = code,
typedef enum { RP_OPS(X) RP_OP_END } rp_op; /* codes ascend, and some may be missing */
#undef X
#define X(NAME, name, code, bytes, cls) RP_##NAME = code,
typedef enum { RP_DTYPES(X) } rp_dtype;
#undef X
#define X(...) +1
enum { RP_NO_DTYPE = 0, RP_DTYPE_COUNT = 0 RP_DTYPES(X) }; /* codes are 1 .. RP_DTYPE_COUNT */
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
#define X(NAME, name, code) RP_PRIORITY_##NAME = code,
typedef enum { RP_PRIORITIES(X) RP_PRIORITY_COUNT } rp_priority;
#undef X
#define X(NAME, name, code) RP_SIDE_##NAME = code,
typedef enum { RP_SIDES(X) } rp_side_kind;
#undef X
#define X(NAME, name, code) RP_TAG_##NAME = code,
typedef enum { RP_TAGS(X) RP_TAG_END } rp_tag;
#undef X
#define X(NAME, name, code) RP_ROLE_##NAME = code,
typedef enum { RP_ROLES(X) RP_ROLE_END } rp_role;
#undef X
#define X(NAME, name, code) RP_EXTENT_##NAME = code,
typedef enum { RP_EXTENTS(X) RP_EXTENT_END } rp_extent;
#undef X
#define X(NAME, name, code) RP_WHERE_##NAME = code,
typedef enum { RP_WHERES(X) RP_WHERE_END } rp_where;
#undef X
#define X(NAME, name, code, bytes) RP_FORM_##NAME = code,
typedef enum { RP_FORMS(X) RP_FORM_END } rp_form;
#undef X
#define X(NAME, name, code, form, most) RP_PARAMETER_##NAME = code,
typedef enum { RP_PARAMETERS(X) RP_PARAMETER_END } rp_parameter_code;
#undef X
#define X(NAME, name, code, ...) RP_METHOD_##NAME = code,
typedef enum { RP_METHODS(X) RP_METHOD_END } rp_method;
#undef X

/* A set of parameters has a bit for each of their codes. `ddof`, which is not a part, is bit 0. */
#define X(NAME, name, code, form, most) RP_TAKE_##NAME = 1 << code,
enum { RP_TAKE_DDOF = 1, RP_PARAMETERS(X) RP_TAKE_END = 1 << RP_PARAMETER_END };
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
const char *rp_priority_name(int priority);
const char *rp_role_name(int role);
const char *rp_form_name(int form);
const char *rp_parameter_name(int parameter);
const char *rp_method_name(int method);

/* Parse a name; 0 (no such op or dtype) or -1 (no such policy or priority) when unknown. */
int rp_op_parse(const char *name);
int rp_dtype_parse(const char *name);
int rp_nan_parse(const char *name);
int rp_priority_parse(const char *name);
int rp_path_parse(const char *name);   /* 0: unknown */
int rp_method_parse(const char *name); /* -1: unknown */

size_t rp_dtype_size(int dtype); /* bytes of an element, 0 if unknown */
rp_class rp_dtype_class(int dtype);

/* A typed error as it travels: what is wrong, in which field, against which limit. */
typedef struct rp_fault {
    rp_err code;
    uint64_t limit;    /* the cap that was passed, 0 if none */
    uint64_t index;    /* row, segment or element concerned, RP_NO_INDEX if none */
    uint64_t value[2]; /* OVERFLOW: the exact value, 128-bit two's complement, low word first */
    uint32_t retry_ms; /* BUSY: wait this long before repeating */
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
    uint32_t flags;      /* below */
    uint32_t ddof;       /* of operations that have one: the divisor of var is count - ddof; else 0 */
    uint16_t device;     /* 1 + number of the daemon's device that is to do it; 0: any */
    uint32_t tagged_len; /* bytes of tagged parts that follow the fixed part of the message */
    uint64_t rows;       /* >= 1: each plane is cut into this many equal rows; row i of all planes together gives result i. With
                            RP_OFFSETS: segments; with RP_KEYS: groups */
    uint64_t row_len;    /* elements (or states, with RP_STATES_IN) in each row; with RP_OFFSETS and RP_KEYS: in all */
    uint64_t planes;     /* matrices, one behind the other; 0 counts as 1. 0 with RP_STATES_IN, RP_OFFSETS and RP_KEYS */
    uint64_t index_base; /* added to element indexes: where this shard starts in the whole array */
    uint64_t initial;    /* with RP_INITIAL: bits of an element of type `dtype`; else 0 */
    /* parameters of order statistics, which travel in parts (rp_tagged_take) */
    int64_t k;            /* kth: the rank; largest, smallest: how many */
    uint8_t method;       /* quantile: rp_method */
    uint8_t quantiles;    /* quantile: how many, at most RP_MAX_QUANTILES; each gives a value of the cell */
    const uint8_t *q;     /* ... as decimals of the wire, in the memory of the message */
    uint32_t n_edges;     /* histogram */
    const uint8_t *edges; /* ... as doubles, likewise */
    /* RP_WEIGHTS: the second operand, which a part describes, too */
    uint8_t weights;        /* rp_dtype of its elements */
    uint8_t weights_extent; /* rp_extent: how many it has, and which of the elements each belongs to */
    bool weights_apart;     /* they do not follow the elements and the mask */
    bool zero_drops;        /* a weight of 0 leaves out its element, even an infinity or a NaN */
    uint8_t keys;           /* RP_KEYS: rp_dtype of the keys, an integer type */
} rp_spec;

enum {
    RP_STATES_IN = 1,  /* the data holds partial states, not elements */
    RP_STATES_OUT = 2, /* the reply holds one partial state per result, not a finished value */
    RP_WRAP = 4,       /* prod of integers: modulo 2^64 instead of OVERFLOW */
    RP_INITIAL = 8,    /* one more element, without an index, is put in front of every row */
    RP_MASK = 16,      /* there is a byte for each element, behind them or elsewhere; 0 leaves the element out */
    RP_OFFSETS = 32,   /* rows + 1 ascending u64 before the elements or elsewhere: segment i is [offset i, offset i+1) */
    RP_COLUMNS = 64,   /* reduce the columns of the rows x row_len matrix, or of each plane: row_len results */
    RP_WEIGHTS = 128,  /* there is a second operand: behind the elements and the mask, or elsewhere */
    RP_KEYS = 256, /* there is a key for each element, behind them and the mask or elsewhere: result i is of those with key i */
    RP_DROP_OUTSIDE = 512, /* with RP_KEYS: an element whose key is not one of 0 to rows - 1 is left out, instead of an error */
    RP_SPEC_FLAGS = 1023
};

/* Check op, types, policy, flags and shape; replace `out` 0 by the default. Pure. Errors: OP, TYPE, BAD_MESSAGE
 * (nan, flags, ddof, initial, planes), SHAPE (rows 0), TOO_LARGE (count, reply). */
rp_err rp_spec_check(rp_spec *s, rp_fault *f);
/* The same for results that do not go into the reply: there may be RP_MAX_COUNT bytes of them. */
rp_err rp_spec_check_large(rp_spec *s, rp_fault *f);

/* Does the operation take these parameters, and no others that it must have? Sets of RP_TAKE. Errors: BAD_MESSAGE, with the
 * parameter's name. */
rp_err rp_takes_check(int op, uint32_t given, rp_fault *f);
/* The same for an operation of this name that may and must have some. */
rp_err rp_takes_compare(const char *op, uint32_t given, uint32_t may, uint32_t must, rp_fault *f);

/* Quantile i of a spec: digits x 10^exponent. */
typedef struct rp_decimal {
    int64_t digits, exponent;
} rp_decimal;
rp_decimal rp_spec_quantile(const rp_spec *s, unsigned i);
/* Edge i. */
double rp_spec_edge(const rp_spec *s, uint32_t i);

/* Do `bytes` bytes of data fit a checked spec, if the companions of the flags `apart` are elsewhere? Offsets are not looked at.
 * Overflow-safe. Errors: SHAPE. */
rp_err rp_spec_match(const rp_spec *s, uint32_t apart, uint64_t bytes, rp_fault *f);

/* Where elements are, and the arrays beside them, by role; absent ones are NULL. Any alignment. */
typedef struct rp_parts {
    const uint8_t *elements; /* or states */
    const uint8_t *mask;     /* one byte per element */
    const uint8_t *offsets;  /* (rows + 1) x u64 */
    const uint8_t *weights;  /* of the type and the extent that the spec says */
    const uint8_t *keys;     /* of the type that the spec says */
} rp_parts;

/* Where the place of a companion is kept. */
static inline const uint8_t **rp_place_of(rp_parts *p, rp_role role)
{
    return role == RP_ROLE_MASK      ? &p->mask
           : role == RP_ROLE_OFFSETS ? &p->offsets
           : role == RP_ROLE_KEYS    ? &p->keys
                                     : &p->weights;
}

/* The parts of the data of a matching spec, one behind the other without gaps, except for the companions that `beside` (may be
 * NULL) has. */
rp_parts rp_spec_parts(const rp_spec *s, const void *data, const rp_parts *beside);

/* Bytes of a companion of a matching spec. */
uint64_t rp_role_bytes(const rp_spec *s, rp_role role);

/* Offsets ascending and within row_len elements? Errors: SHAPE (offsets; index = the first wrong one). */
rp_err rp_offsets_check(const rp_spec *s, const uint8_t *offsets, rp_fault *f);

/* Matrices of a spec: 1 unless it has more. */
static inline uint64_t rp_planes(const rp_spec *s) { return s->planes ? s->planes : 1; }

/* Results of a checked spec: rows, segments or columns, these of each plane. */
uint64_t rp_results(const rp_spec *s);
/* Elements (states) of a matching spec. */
uint64_t rp_elements(const rp_spec *s);

/* Bytes of an element, or state, of the data of a checked spec. */
size_t rp_item_size(const rp_spec *s);

/* Bytes of one reply cell of a checked spec: a state; 12 words for stats; two values for minmax, one for each quantile; k
 * values and k indexes; a count for each bin and three more; else one value. */
size_t rp_cell_size(const rp_spec *s);
/* Where the indexes of largest and smallest begin in their cell. */
size_t rp_indexes_at(const rp_spec *s);

/* Counts of a histogram behind those of its bins. */
enum { RP_BELOW, RP_ABOVE, RP_NANS_APART, RP_APART };

/* A cell of `stats`: 64-bit words. MIN, MAX: f64, i64 or u64 by the class of the elements; SUM: f64 and 0, or 128-bit
 * two's complement; MEAN, VAR, STD: f64. Of no elements: ARGMIN and ARGMAX are RP_NO_INDEX; MIN and MAX are NaN or 0. */
enum {
    RP_STATS_COUNT,
    RP_STATS_NANS,
    RP_STATS_ZEROS,
    RP_STATS_ARGMIN,
    RP_STATS_ARGMAX,
    RP_STATS_MIN,
    RP_STATS_MAX,
    RP_STATS_SUM,
    RP_STATS_SUM_HIGH,
    RP_STATS_MEAN,
    RP_STATS_VAR,
    RP_STATS_STD,
    RP_STATS_WORDS
};
#define RP_MAX_CELL_WORDS RP_STATS_WORDS /* of a finished value */

#define X(NAME, code, ...) RP_STATE_##NAME = code,
typedef enum { RP_LAYOUTS(X) } rp_layout;
#undef X
#define X(...) +1
enum { RP_LAYOUT_COUNT = 0 RP_LAYOUTS(X) }; /* codes are 0 .. RP_LAYOUT_COUNT - 1 */
#undef X

/* What stands for a layout in operations that have none: order statistics. */
enum { RP_STATE_NONE = RP_LAYOUT_COUNT };
bool rp_is_ranked(int op);
/* Is it largest or smallest? */
static inline bool rp_is_top(int op) { return op == RP_OP_LARGEST || op == RP_OP_SMALLEST; }

/* Does each result need all elements at once, so that the task is not cut into lines: ranks, and keys? */
static inline bool rp_needs_all(const rp_spec *s) { return s->flags & RP_KEYS || rp_is_ranked(s->op); }

/* Does the operation need a second operand (RP_WEIGHTS)? */
bool rp_is_paired(int op);
/* Is it cov or corr? */
static inline bool rp_is_comoments(int op) { return op == RP_OP_COV || op == RP_OP_CORR; }

/* May elements of this type have weights of that one? */
static inline bool rp_weights_suit(int dtype, int weights)
{
    return weights == dtype || (weights == RP_F64 && dtype == RP_F32);
}

/* May keys be of this type? */
static inline bool rp_keys_suit(int dtype) { return dtype >= RP_I8 && dtype <= RP_U64; }

/* The type and layout of the states of a spec. f32 elements with f64 weights have states of f64. */
int rp_spec_state_dtype(const rp_spec *s);
int rp_spec_layout(const rp_spec *s);

/* Does the method give an element itself, so that integers stay integers? */
bool rp_method_picks(int method);

/* The layout of the states of (op, dtype), and the bytes of one; the spec need not be checked. */
int rp_state_layout(int op, int dtype);
size_t rp_state_size(int layout); /* 0 if unknown */
#define RP_MAX_LIMBS 269u         /* CORR64 */
#define RP_MAX_STATE (16u + 8u * RP_MAX_LIMBS)
#define RP_PLAIN_LIMBS 107u /* STATS64: the most of layouts but those of cov and corr */
#define RP_PLAIN_STATE (16u + 8u * RP_PLAIN_LIMBS)

/* The reply to REDUCE and FINISH, before its cells. */
typedef struct rp_result {
    uint8_t dtype;      /* of the cells' values; 0 = states */
    uint8_t backend;    /* rp_backend that computed it */
    uint8_t path;       /* rp_path that served it */
    uint32_t cell_size; /* bytes */
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
