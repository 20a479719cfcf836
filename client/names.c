/* Names and sizes: the tables of proto under public names, proved equal at compile time. */
#include <string.h>

#include "client/client.h"

#define SAME(a, b) _Static_assert((int)(a) == (int)(b), "reduce.h disagrees with types.def: " #a);
#define X(NAME, name, code, ...) SAME(REDUCE_##NAME, code)
RP_OPS(X)
#undef X
#define X(NAME, name, code, bytes, cls) SAME(REDUCE_##NAME, code)
RP_DTYPES(X)
#undef X
#define X(NAME, name, code, help) SAME(REDUCE_NAN_##NAME, code)
RP_NANS(X)
#undef X
#define X(NAME, name, code) SAME(REDUCE_PRIORITY_##NAME, code)
RP_PRIORITIES(X)
#undef X
#define X(NAME, name, code) SAME(REDUCE_PATH_##NAME, code)
RP_PATHS(X)
#undef X
#define X(NAME, name, code, ...) SAME(REDUCE_##NAME, code)
RP_METHODS(X)
#undef X
SAME(REDUCE_MAX_QUANTILES, RP_MAX_QUANTILES)
SAME(REDUCE_STATES_IN, RP_STATES_IN)
SAME(REDUCE_STATES_OUT, RP_STATES_OUT)
SAME(REDUCE_WRAP, RP_WRAP)
SAME(REDUCE_MASKED, RP_MASK)
SAME(REDUCE_COLUMNS, RP_COLUMNS)
SAME(REDUCE_TOPIC_INFO, RP_TOPIC_INFO)
SAME(REDUCE_TOPIC_STATUS, RP_TOPIC_STATUS)
SAME(REDUCE_TOPIC_REQUESTS, RP_TOPIC_REQUESTS)
SAME(REDUCE_TOPIC_SESSIONS, RP_TOPIC_SESSIONS)
SAME(REDUCE_KIND_U64, RP_KIND_U64)
SAME(REDUCE_KIND_F64, RP_KIND_F64)
SAME(REDUCE_KIND_TEXT, RP_KIND_TEXT)
#define WORD(field, NAME) SAME(offsetof(reduce_stats, field), 8 * RP_STATS_##NAME)
WORD(count, COUNT)
WORD(nans, NANS)
WORD(zeros, ZEROS)
WORD(argmin, ARGMIN)
WORD(argmax, ARGMAX)
WORD(min, MIN)
WORD(max, MAX)
WORD(sum, SUM)
WORD(sum_high, SUM_HIGH)
WORD(mean, MEAN)
WORD(var, VAR)
WORD(std, STD)
SAME(sizeof(reduce_stats), 8 * RP_STATS_WORDS)
_Static_assert(REDUCE_NO_INDEX == RP_NO_INDEX, "index");
SAME(REDUCE_MAX_DIMS, RP_MAX_DIMS)
SAME(REDUCE_ORDER_C, RP_ORDER_C)
SAME(REDUCE_ORDER_F, RP_ORDER_F)
_Static_assert(sizeof((reduce_fault){0}.field) >= RP_MAX_FIELD + 1, "field");
_Static_assert(sizeof((reduce_fault){0}.text) >= RP_MAX_TEXT + 1, "text");
_Static_assert(sizeof((reduce_info){0}.server) >= RP_MAX_NAME + 1, "server");
_Static_assert(sizeof((reduce_info){0}.side) == RC_FDPASS_WHY, "side");
_Static_assert(sizeof((reduce_info){0}.url) == RC_MAX_URL, "url");

uint32_t reduce_version(void) { return REDUCE_VERSION; }

const char *reduce_op_name(int op) { return rp_op_name(op); }
const char *reduce_op_help(int op) { return rp_op_help(op); }
const char *reduce_dtype_name(int dtype) { return rp_dtype_name(dtype); }
const char *reduce_nan_name(int nan) { return rp_nan_name(nan); }
const char *reduce_backend_name(int backend) { return rp_backend_name(backend); }
/* A path that is in no message. */
static const char local[] = "local";
const char *reduce_path_name(int path) { return path == REDUCE_PATH_LOCAL ? local : rp_path_name(path); }
const char *reduce_priority_name(int priority) { return rp_priority_name(priority); }
const char *reduce_method_name(int method) { return rp_method_name(method); }

int reduce_op_parse(const char *name) { return rp_op_parse(name); }
int reduce_dtype_parse(const char *name) { return rp_dtype_parse(name); }
int reduce_priority_parse(const char *name) { return rp_priority_parse(name); }
int reduce_path_parse(const char *name) { return name && !strcmp(name, local) ? REDUCE_PATH_LOCAL : rp_path_parse(name); }
int reduce_method_parse(const char *name) { return rp_method_parse(name); }
int reduce_nan_parse(const char *name) { return rp_nan_parse(name); }

size_t reduce_dtype_size(int dtype) { return rp_dtype_size(dtype); }
