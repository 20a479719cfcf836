"""Made by generate.py from client/reduce.h and proto/types.def. Do not edit."""
from __future__ import annotations

from ctypes import Structure, Union, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_uint8, c_void_p
from typing import Any, NamedTuple

VERSION_MAJOR = 0
VERSION_MINOR = 2
VERSION_PATCH = 0
NO_INDEX = 2**64 - 1
REST = 2**64 - 1
OK = 0
E_BAD_MESSAGE = -1
E_VERSION = -2
E_TYPE = -3
E_OP = -4
E_SHAPE = -5
E_EMPTY = -6
E_OVERFLOW = -7
E_NAN = -8
E_TOO_LARGE = -9
E_QUOTA = -10
E_BUSY = -11
E_DEADLINE = -12
E_CANCELLED = -13
E_NO_SESSION = -14
E_BAD_HANDLE = -15
E_IO = -16
E_AUTH = -17
E_DEVICE_LOST = -18
E_NO_MEMORY = -19
E_INTERNAL = -20
E_EXISTS = -21
E_ARGUMENT = -101
E_NO_DAEMON = -102
E_TIMEOUT = -103
E_STREAM_LOST = -104
E_FORKED = -105
E_PROTOCOL = -106
E_START = -107
E_INTERRUPTED = -108
SUM = 1
MIN = 2
MAX = 3
ARGMIN = 4
ARGMAX = 5
COUNT_NONZERO = 6
PROD = 7
MINMAX = 8
RANGE = 9
MEAN = 10
SUMSQ = 11
NORM1 = 12
NORM2 = 13
NORMINF = 14
VAR = 15
STD = 16
ANY = 17
ALL = 18
COUNT = 19
COUNT_NAN = 20
AND = 21
OR = 22
XOR = 23
STATS = 24
RMS = 25
SEM = 26
MEDIAN = 27
QUANTILE = 28
KTH = 29
LARGEST = 30
SMALLEST = 31
HISTOGRAM = 32
DOT = 33
WSUM = 34
WMEAN = 35
COV = 36
CORR = 37
LINEAR = 0
INVERTED_CDF = 1
AVERAGED_INVERTED_CDF = 2
CLOSEST_OBSERVATION = 3
INTERPOLATED_INVERTED_CDF = 4
HAZEN = 5
WEIBULL = 6
MEDIAN_UNBIASED = 7
NORMAL_UNBIASED = 8
LOWER = 9
HIGHER = 10
MIDPOINT = 11
NEAREST = 12
I8 = 1
U8 = 2
I16 = 3
U16 = 4
I32 = 5
U32 = 6
I64 = 7
U64 = 8
F16 = 9
BF16 = 10
F32 = 11
F64 = 12
BOOL = 13
NAN_PROPAGATE = 0
NAN_OMIT = 1
NAN_ERROR = 2
PATH_AUTO = 0
PATH_INLINE = 1
PATH_STREAM = 2
PATH_SHM = 3
PATH_FILE = 4
PATH_RESIDENT = 5
PATH_DEVICE = 6
PATH_LOCAL = 7
AUTOSTART = 1
WAIT = 2
NO_RETRY = 4
LAZY = 8
PRIORITY_NORMAL = 0
PRIORITY_HIGH = 1
PRIORITY_BACKGROUND = 2
LOCAL_DEFAULT = 0
LOCAL_NO = 1
LOCAL_YES = 2
TOPIC_INFO = 1
TOPIC_STATUS = 2
TOPIC_REQUESTS = 4
TOPIC_SESSIONS = 5
KIND_U64 = 1
KIND_F64 = 2
KIND_TEXT = 3
STATES_IN = 1
STATES_OUT = 2
WRAP = 4
MASKED = 16
COLUMNS = 64
DROP_ZERO_WEIGHTS = 256
DROP_OUTSIDE = 512
EACH_ELEMENT = 1
EACH_COLUMN = 2
EACH_ROW = 3
MAX_QUANTILES = 64
MAX_TOP = 262144
MAX_EDGES = 65536
MAX_STATE = 872
MAX_WORDS = 211
LARGEST_STATE = 2168
LARGEST_WORDS = 547
KEYS_ADDED = 9
DROP_NEGATIVE = 1024
MESSAGE = 2048
REPLACE = 1
MAX_DIMS = 16
ORDER_C = 0
ORDER_F = 1
PLACE_ANY = 0
PLACE_SPREAD = 1
PLACE_DEVICE = 2
PENDING = 1
ERRORS = {
    -1: "BAD_MESSAGE", -2: "VERSION", -3: "TYPE", -4: "OP", -5: "SHAPE", -6: "EMPTY", -7: "OVERFLOW", -8: "NAN", -9: "TOO_LARGE", -10: "QUOTA", -11: "BUSY",
    -12: "DEADLINE", -13: "CANCELLED", -14: "NO_SESSION", -15: "BAD_HANDLE", -16: "IO", -17: "AUTH", -18: "DEVICE_LOST", -19: "NO_MEMORY", -20: "INTERNAL",
    -21: "EXISTS", -101: "ARGUMENT", -102: "NO_DAEMON", -103: "TIMEOUT", -104: "STREAM_LOST", -105: "FORKED", -106: "PROTOCOL", -107: "START", -108:
    "INTERRUPTED",
}


class Fault(Structure):  # reduce_fault
    _fields_ = [
        ("size", c_uint32), ("code", c_int32), ("limit", c_uint64), ("index", c_uint64), ("value_low", c_uint64), ("value_high", c_uint64), ("retry_ms",
        c_uint32), ("field", c_char * 28), ("text", c_char * 164),
    ]


class OpenOpts(Structure):  # reduce_open_opts
    _fields_ = [
        ("size", c_uint32), ("flags", c_uint32), ("name", c_char_p), ("connect_timeout_ms", c_uint32), ("reconnect_timeout_ms", c_uint32), ("timeout_ms",
        c_uint32), ("daemon", c_char_p), ("idle_exit_s", c_uint32), ("tls_ca", c_char_p), ("tls_cert", c_char_p), ("tls_key", c_char_p), ("priority",
        c_int32), ("local", c_uint32), ("interrupted", c_void_p), ("interrupted_arg", c_void_p),
    ]


class Info(Structure):  # reduce_info
    _fields_ = [
        ("size", c_uint32), ("wire_version", c_uint32), ("max_data", c_uint32), ("chunk_bytes", c_uint32), ("max_inflight", c_uint32), ("reconnects",
        c_uint32), ("autostarted", c_uint32), ("priority", c_int32), ("url", c_char * 256), ("server", c_char * 68), ("side", c_char * 96),
    ]


class Entry(Structure):  # reduce_entry
    _fields_ = [
        ("key", c_char_p), ("kind", c_int), ("u64", c_uint64), ("f64", c_double), ("text", c_char_p),
    ]


class Value(Union):  # reduce_value
    _fields_ = [
        ("f64", c_double), ("i64", c_int64), ("u64", c_uint64),
    ]


class Stats(Structure):  # reduce_stats
    _fields_ = [
        ("count", c_uint64), ("nans", c_uint64), ("zeros", c_uint64), ("argmin", c_uint64), ("argmax", c_uint64), ("min", Value), ("max", Value), ("sum",
        Value), ("sum_high", c_uint64), ("mean", c_double), ("var", c_double), ("std", c_double),
    ]


class Spec(Structure):  # reduce_spec
    _fields_ = [
        ("size", c_uint32), ("op", c_int32), ("dtype", c_int32), ("out", c_int32), ("nan", c_int32), ("flags", c_uint32), ("ddof", c_uint32),
        ("deadline_ms", c_uint32), ("path", c_int32), ("device", c_uint32), ("rows", c_uint64), ("index_base", c_uint64), ("initial", c_void_p), ("mask",
        c_void_p), ("offsets", c_void_p), ("planes", c_uint64), ("q", c_void_p), ("k", c_int64), ("quantiles", c_uint32), ("method", c_int32), ("edges",
        c_void_p), ("n_edges", c_uint64), ("weights", c_void_p), ("weights_dtype", c_int32), ("weights_extent", c_int32), ("keys", c_void_p), ("keys_name",
        c_char_p), ("keys_offset", c_uint64), ("keys_dtype", c_int32), ("keys_reserved", c_int32),
    ]


class Result(Structure):  # reduce_result
    _fields_ = [
        ("size", c_uint32), ("dtype", c_int32), ("backend", c_int32), ("path", c_int32), ("cell_size", c_uint64), ("cells", c_uint64), ("count", c_uint64),
        ("queue_ns", c_uint64), ("copy_ns", c_uint64), ("compute_ns", c_uint64), ("wall_ns", c_uint64), ("batch", c_uint64),
    ]


class Way(Structure):  # reduce_way
    _fields_ = [
        ("size", c_uint32), ("taken", c_uint32), ("expected_ns", c_uint64), ("name", c_char_p), ("why", c_char_p),
    ]


class Batch(Structure):  # reduce_batch
    _fields_ = [
        ("size", c_uint32), ("key_dtype", c_int32), ("keys", c_void_p), ("values", c_void_p), ("mask", c_void_p), ("count", c_uint64), ("index", c_uint64),
        ("flags", c_uint32), ("reserved", c_uint32),
    ]


class Block(Structure):  # reduce_block
    _fields_ = [
        ("size", c_uint32), ("dims", c_uint32), ("shape", c_void_p), ("start", c_void_p), ("count", c_void_p), ("stride", c_void_p), ("first_nearest",
        c_uint32), ("reserved", c_uint32),
    ]


class Item(Structure):  # reduce_item
    _fields_ = [
        ("size", c_uint32), ("fd", c_int32), ("spec", c_void_p), ("data", c_void_p), ("device", c_void_p), ("offset", c_uint64), ("bytes", c_uint64),
        ("out", c_void_p), ("room", c_size_t), ("block", c_void_p),
    ]


class Gpu(Structure):  # reduce_gpu
    _fields_ = [
        ("size", c_uint32), ("device", c_uint32), ("ordinal", c_int32), ("lost", c_uint32), ("uuid", c_uint8 * 16), ("name", c_char * 48),
    ]


class PutOpts(Structure):  # reduce_put_opts
    _fields_ = [
        ("size", c_uint32), ("flags", c_uint32), ("ttl_ms", c_uint32), ("deadline_ms", c_uint32), ("path", c_int32), ("place", c_uint32), ("dims",
        c_uint32), ("order", c_uint32), ("shape", c_void_p),
    ]


class Resident(Structure):  # reduce_resident
    _fields_ = [
        ("size", c_uint32), ("dtype", c_int32), ("bytes", c_uint64), ("age_ms", c_uint64), ("left_ms", c_uint64), ("uses", c_uint32), ("name", c_char * 68),
        ("dims", c_uint32), ("order", c_uint32), ("shape", c_uint64 * 16), ("place", c_uint64),
    ]


class Python(Structure):  # reduce_python
    _fields_ = [
        ("thread", c_uint64), ("gil_ensure", c_void_p), ("gil_release", c_void_p), ("check_signals", c_void_p), ("fetch", c_void_p), ("exception", c_void_p
        * 3),
    ]


STRUCTS: dict[str, Any] = {
    "reduce_fault": Fault, "reduce_open_opts": OpenOpts, "reduce_info": Info, "reduce_entry": Entry, "reduce_value": Value, "reduce_stats": Stats,
    "reduce_spec": Spec, "reduce_result": Result, "reduce_way": Way, "reduce_batch": Batch, "reduce_block": Block, "reduce_item": Item, "reduce_gpu": Gpu,
    "reduce_put_opts": PutOpts, "reduce_resident": Resident, "reduce_python": Python,
}


class Op(NamedTuple):
    code: int
    value: str
    empty: bool
    ddof: bool


OPS = {
    "sum": Op(1, "SAME", False, False), "min": Op(2, "SAME", True, False), "max": Op(3, "SAME", True, False), "argmin": Op(4, "NUMBER", True, False),
    "argmax": Op(5, "NUMBER", True, False), "count_nonzero": Op(6, "NUMBER", False, False), "prod": Op(7, "SAME", False, False), "minmax": Op(8, "SAME",
    True, False), "range": Op(9, "SAME", True, False), "mean": Op(10, "REAL", False, False), "sumsq": Op(11, "SAME", False, False), "norm1": Op(12, "SAME",
    False, False), "norm2": Op(13, "REAL", False, False), "norminf": Op(14, "SAME", False, False), "var": Op(15, "REAL", False, True), "std": Op(16, "REAL",
    False, True), "any": Op(17, "NUMBER", False, False), "all": Op(18, "NUMBER", False, False), "count": Op(19, "NUMBER", False, False), "count_nan": Op(20,
    "NUMBER", False, False), "and": Op(21, "BITS", False, False), "or": Op(22, "BITS", False, False), "xor": Op(23, "BITS", False, False), "stats": Op(24,
    "SUMMARY", False, True), "rms": Op(25, "REAL", False, False), "sem": Op(26, "REAL", False, True), "median": Op(27, "REAL", False, False), "quantile":
    Op(28, "REAL", False, False), "kth": Op(29, "SAME", False, False), "largest": Op(30, "SAME", False, False), "smallest": Op(31, "SAME", False, False),
    "histogram": Op(32, "NUMBER", False, False), "dot": Op(33, "SAME", False, False), "wsum": Op(34, "SAME", False, False), "wmean": Op(35, "REAL", False,
    False), "cov": Op(36, "REAL", False, True), "corr": Op(37, "REAL", False, False),
}
DTYPES = {"i8": 1, "u8": 2, "i16": 3, "u16": 4, "i32": 5, "u32": 6, "i64": 7, "u64": 8, "f16": 9, "bf16": 10, "f32": 11, "f64": 12, "bool": 13}
CALLS: dict[str, tuple[Any, list[Any]]] = {
    "reduce_version": (c_uint32, []),
    "reduce_errmsg": (c_char_p, []),
    "reduce_last_fault": (c_int, [c_void_p]),
    "reduce_errname": (c_char_p, [c_int]),
    "reduce_strerror": (c_char_p, [c_int]),
    "reduce_op_name": (c_char_p, [c_int]),
    "reduce_op_help": (c_char_p, [c_int]),
    "reduce_dtype_name": (c_char_p, [c_int]),
    "reduce_nan_name": (c_char_p, [c_int]),
    "reduce_backend_name": (c_char_p, [c_int]),
    "reduce_path_name": (c_char_p, [c_int]),
    "reduce_priority_name": (c_char_p, [c_int]),
    "reduce_method_name": (c_char_p, [c_int]),
    "reduce_path_parse": (c_int, [c_char_p]),
    "reduce_priority_parse": (c_int, [c_char_p]),
    "reduce_method_parse": (c_int, [c_char_p]),
    "reduce_op_parse": (c_int, [c_char_p]),
    "reduce_dtype_parse": (c_int, [c_char_p]),
    "reduce_nan_parse": (c_int, [c_char_p]),
    "reduce_dtype_size": (c_size_t, [c_int]),
    "reduce_open": (c_int, [c_void_p, c_char_p, c_void_p]),
    "reduce_close": (None, [c_void_p]),
    "reduce_ping": (c_int, [c_void_p, c_void_p]),
    "reduce_get_info": (c_int, [c_void_p, c_void_p]),
    "reduce_query": (c_int, [c_void_p, c_int, c_void_p, c_void_p]),
    "reduce_metrics": (c_int, [c_void_p, c_void_p, c_void_p]),
    "reduce_simple": (c_int, [c_void_p, c_int, c_int, c_uint32, c_void_p, c_size_t, c_void_p]),
    "reduce_simple_quantile": (c_int, [c_void_p, c_int, c_double, c_void_p, c_size_t, c_void_p]),
    "reduce_simple_ranks": (c_int, [c_void_p, c_int, c_int, c_int64, c_void_p, c_size_t, c_void_p, c_void_p]),
    "reduce_simple_histogram": (c_int, [c_void_p, c_int, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p]),
    "reduce_simple_pairs": (c_int, [c_void_p, c_int, c_int, c_void_p, c_void_p, c_size_t, c_void_p]),
    "reduce_simple_cov": (c_int, [c_void_p, c_int, c_uint32, c_void_p, c_void_p, c_size_t, c_void_p]),
    "reduce_result_size": (c_int, [c_void_p, c_size_t, c_void_p]),
    "reduce_run": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p]),
    "reduce_is_local": (c_int, [c_void_p, c_void_p, c_size_t]),
    "reduce_explain": (c_int, [c_void_p, c_void_p, c_int, c_uint64, c_void_p, c_void_p]),
    "reduce_file": (c_int, [c_void_p, c_void_p, c_int, c_uint64, c_uint64, c_void_p, c_size_t, c_void_p]),
    "reduce_state_size": (c_size_t, [c_int, c_int]),
    "reduce_state_init": (c_int, [c_void_p, c_size_t, c_int, c_int]),
    "reduce_state_check": (c_int, [c_void_p, c_size_t, c_int, c_int]),
    "reduce_state_add": (c_int, [c_void_p, c_size_t, c_void_p, c_size_t]),
    "reduce_state_add_at": (c_int, [c_void_p, c_size_t, c_void_p, c_size_t, c_int, c_uint64]),
    "reduce_state_add_pairs": (c_int, [c_void_p, c_size_t, c_void_p, c_int, c_void_p, c_size_t, c_int, c_uint32]),
    "reduce_state_add_missing": (c_int, [c_void_p, c_size_t, c_uint64]),
    "reduce_state_merge": (c_int, [c_void_p, c_size_t, c_void_p, c_size_t]),
    "reduce_state_merge_at": (c_int, [c_void_p, c_size_t, c_void_p, c_size_t, c_uint64]),
    "reduce_state_finish": (c_int, [c_void_p, c_size_t, c_void_p, c_void_p, c_size_t]),
    "reduce_states_finish": (c_int, [c_void_p, c_size_t, c_void_p, c_void_p, c_size_t]),
    "reduce_state_words": (c_size_t, [c_int, c_int]),
    "reduce_state_keys": (c_size_t, [c_int, c_int]),
    "reduce_state_to_words": (c_int, [c_void_p, c_size_t, c_void_p, c_size_t]),
    "reduce_state_from_words": (c_int, [c_void_p, c_size_t, c_int, c_int, c_void_p, c_size_t]),
    "reduce_accumulators_new": (c_int, [c_int, c_int, c_int, c_size_t, c_void_p]),
    "reduce_accumulators_groups": (c_size_t, [c_void_p]),
    "reduce_accumulators_grow": (c_int, [c_void_p, c_size_t]),
    "reduce_accumulators_add": (c_int, [c_void_p, c_void_p]),
    "reduce_accumulators_merge": (c_int, [c_void_p, c_void_p]),
    "reduce_accumulators_state": (c_int, [c_void_p, c_size_t, c_void_p, c_size_t]),
    "reduce_accumulators_merge_state": (c_int, [c_void_p, c_size_t, c_void_p, c_size_t]),
    "reduce_accumulators_finish": (c_int, [c_void_p, c_void_p, c_size_t, c_size_t, c_void_p, c_size_t]),
    "reduce_accumulators_free": (None, [c_void_p]),
    "reduce_selection_new": (c_int, [c_void_p, c_void_p]),
    "reduce_selection_free": (None, [c_void_p]),
    "reduce_selection_count": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t]),
    "reduce_selection_counts": (c_void_p, [c_void_p, c_void_p]),
    "reduce_selection_next": (c_int, [c_void_p]),
    "reduce_selection_finish": (c_int, [c_void_p, c_void_p, c_size_t]),
    "reduce_states_merge": (None, [c_void_p, c_void_p, c_size_t]),
    "reduce_collective": (c_int, [c_void_p, c_void_p, c_size_t, c_uint32, c_void_p, c_void_p]),
    "reduce_collective_error": (c_int, [c_int, c_uint32, c_void_p, c_void_p]),
    "reduce_error": (c_int, [c_int, c_char_p, c_char_p]),
    "reduce_joint_begin": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_uint32]),
    "reduce_joint_buffer": (None, [c_void_p, c_void_p]),
    "reduce_joint_next": (c_int, [c_void_p, c_int]),
    "reduce_alloc": (c_int, [c_void_p, c_size_t, c_void_p]),
    "reduce_free": (None, [c_void_p, c_void_p]),
    "reduce_device": (c_int, [c_void_p, c_void_p, c_void_p, c_uint64, c_uint64, c_void_p, c_size_t, c_void_p]),
    "reduce_device_masked": (c_int, [c_void_p, c_void_p, c_void_p, c_uint64, c_uint64, c_void_p, c_uint64, c_void_p, c_size_t, c_void_p]),
    "reduce_device_import": (c_int, [c_void_p, c_int, c_uint64, c_void_p]),
    "reduce_gpus": (c_int, [c_void_p, c_void_p, c_void_p]),
    "reduce_device_uuid": (c_int, [c_void_p, c_void_p, c_void_p]),
    "reduce_device_close": (c_int, [c_void_p, c_void_p]),
    "reduce_put": (c_int, [c_void_p, c_char_p, c_int, c_void_p, c_size_t, c_void_p]),
    "reduce_put_file": (c_int, [c_void_p, c_char_p, c_int, c_int, c_uint64, c_uint64, c_void_p]),
    "reduce_named": (c_int, [c_void_p, c_void_p, c_char_p, c_uint64, c_uint64, c_void_p, c_size_t, c_void_p]),
    "reduce_list": (c_int, [c_void_p, c_void_p, c_void_p]),
    "reduce_find": (c_int, [c_void_p, c_char_p, c_void_p]),
    "reduce_drop": (c_int, [c_void_p, c_char_p]),
    "reduce_stream_begin": (c_int, [c_void_p, c_void_p, c_void_p]),
    "reduce_stream_append": (c_int, [c_void_p, c_void_p, c_size_t]),
    "reduce_stream_append_masked": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t]),
    "reduce_stream_append_pairs": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_size_t]),
    "reduce_stream_append_keyed": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_size_t]),
    "reduce_stream_space": (c_int, [c_void_p, c_void_p, c_void_p]),
    "reduce_stream_commit": (c_int, [c_void_p, c_size_t]),
    "reduce_stream_finish": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p]),
    "reduce_stream_abort": (None, [c_void_p]),
    "reduce_submit": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p, c_void_p, c_void_p]),
    "reduce_submit_file": (c_int, [c_void_p, c_void_p, c_int, c_uint64, c_uint64, c_void_p, c_size_t, c_void_p, c_void_p, c_void_p]),
    "reduce_poll": (c_int, [c_void_p, c_void_p]),
    "reduce_wait": (c_int, [c_void_p, c_uint32, c_void_p]),
    "reduce_ended_fd": (c_int, [c_void_p, c_void_p]),
    "reduce_ended_next": (c_int, [c_void_p, c_void_p, c_void_p]),
    "reduce_job_progress": (c_int, [c_void_p, c_void_p, c_void_p]),
    "reduce_cancel": (None, [c_void_p]),
    "reduce_job_free": (None, [c_void_p]),
    "reduce_python_signals": (c_int, [c_void_p]),
}
