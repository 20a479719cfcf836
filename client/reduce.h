/* libreduce: exact reductions by the `reduced` daemon, from C and C++.
 *
 *     #include <reduce.h>                              cc prog.c $(pkg-config --cflags --libs libreduce)
 *
 *     reduce_client *c;
 *     if (reduce_open(&c, NULL, NULL))                 the daemon of $REDUCED_URL, of this user or of the system
 *         die(reduce_errmsg());
 *     double sum;
 *     if (reduce_sum_f32(c, data, n, &sum))            the exact sum, rounded once
 *         die(reduce_errmsg());
 *     reduce_close(c);
 *
 * This header is the manual. Reading order: errors, names, client, results, simple calls, reduce_run, states, resident data,
 * streams, jobs. PROTOCOL.md ("Reductions") defines each reduction to the bit.
 *
 * Return values. Functions that return int return REDUCE_OK (0) or a negative reduce_err, unless their comment states
 *   otherwise. reduce_errmsg(), called by the same thread, describes the failure.
 * Threads. Any number of threads may use a reduce_client at once. A reduce_stream and a reduce_job belong to one thread at a
 *   time. Error texts belong to the thread whose call failed. A client of a daemon on this machine has two threads, and more
 *   while it copies large arrays; for the network there are nng's threads. They run the completion callbacks, with all signals
 *   blocked.
 * Fork. A client does not survive fork(): in the child every call on it returns REDUCE_E_FORKED. The child can open its own.
 *   Over the network (tcp, tls) this works only if the parent has not opened one before.
 * Signals. Signals do not interrupt calls, and the library installs no handler. A program that wants Ctrl-C to end a call says
 *   so by `interrupted` of reduce_open_opts.
 * Memory. Arrays that you pass stay yours. They may have any alignment, are only read, and must not change until the call
 *   returns (jobs: until the job is done). Only objects of functions named *_open, *_begin or *_submit must be freed: with
 *   *_close, with *_finish or *_abort, with *_free.
 * Time. Durations that you pass are milliseconds (uint32_t, at most 2^31 - 1 except in reduce_wait); reported ones are
 *   nanoseconds (uint64_t). Every call ends: see `timeout_ms` and `deadline_ms`.
 * Structs that begin with `size` come from their _INIT macro, so that later versions can add fields:
 *     reduce_spec s = REDUCE_SPEC_INIT;  s.op = REDUCE_MAX;  s.dtype = REDUCE_I32;
 *   The library accepts the size of every version (see Versions); any other size is REDUCE_E_ARGUMENT.
 * NULL. A NULL where a pointer is needed is REDUCE_E_ARGUMENT, never a crash. Arrays of zero bytes may be NULL.
 *   *_close and *_free accept NULL and do nothing.
 *
 * Any call on a client may return, besides what it lists: REDUCE_E_ARGUMENT, REDUCE_E_FORKED, REDUCE_E_NO_MEMORY; and if
 * it talks to the daemon: REDUCE_E_NO_DAEMON, REDUCE_E_TIMEOUT, REDUCE_E_BUSY, REDUCE_E_QUOTA, REDUCE_E_AUTH,
 * REDUCE_E_VERSION, REDUCE_E_DEVICE_LOST, REDUCE_E_PROTOCOL, REDUCE_E_INTERNAL. These are called the common errors.
 *
 * Versions. A program runs with its own version of the library and with every later one of the same soname (libreduce.so.0).
 *   A patch version changes nothing here.
 *   A minor version may add functions, error codes, names, flags and other constants, and fields at the end of structs that
 *     begin with `size`. It may turn a function into an inline one: the library then keeps the old symbol for old programs.
 *     In a struct of an older program the missing fields count as 0, and the library writes no more than its size.
 *     In a struct of a newer program the fields that the library does not know must be 0, else the call returns
 *     REDUCE_E_ARGUMENT. In a struct that the library fills, they become 0.
 *     reduce_stats and reduce_value do not change. The library creates each reduce_entry and reduce_resident for callbacks, so
 *     it may be longer than a program knows. Programs must accept unknown errors, keys and names.
 *   Only a new soname may remove or change a function, a field, the value of a constant or what a call means.
 */
#ifndef REDUCE_H
#define REDUCE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)
#pragma push_macro("f64") /* a program may have macros of these names, which are members here */
#pragma push_macro("i64")
#pragma push_macro("u64")
#undef f64
#undef i64
#undef u64

/* The version of this header; reduce_version() gives that of the library in use. */
#define REDUCE_VERSION_MAJOR 0
#define REDUCE_VERSION_MINOR 2
#define REDUCE_VERSION_PATCH 0
#define REDUCE_VERSION (REDUCE_VERSION_MAJOR * 10000 + REDUCE_VERSION_MINOR * 100 + REDUCE_VERSION_PATCH)
uint32_t reduce_version(void);

/* ---- errors ----------------------------------------------------------------------------------------------------- */

typedef enum reduce_err {
    REDUCE_OK = 0,
    /* from the daemon: minus the code of PROTOCOL.md */
    REDUCE_E_BAD_MESSAGE = -1,  /* a field of the request is malformed */
    REDUCE_E_VERSION = -2,      /* daemon and library speak no common protocol version */
    REDUCE_E_TYPE = -3,         /* the operation is not possible for the element or reply type */
    REDUCE_E_OP = -4,           /* unknown operation */
    REDUCE_E_SHAPE = -5,        /* lengths, rows or offsets do not fit together */
    REDUCE_E_EMPTY = -6,        /* no element to choose from (min, max, minmax, range, argmin, argmax) */
    REDUCE_E_OVERFLOW = -7,     /* the exact value does not fit the reply type; the fault has it */
    REDUCE_E_NAN = -8,          /* a NaN was found and the policy is REDUCE_NAN_ERROR */
    REDUCE_E_TOO_LARGE = -9,    /* above a cap; the fault names it */
    REDUCE_E_QUOTA = -10,       /* this client's share of a resource is used up */
    REDUCE_E_BUSY = -11,        /* no capacity, also after the repeats that the time allowed */
    REDUCE_E_DEADLINE = -12,    /* not done within deadline_ms */
    REDUCE_E_CANCELLED = -13,   /* reduce_cancel or reduce_close came first; with REDUCE_NO_RETRY also when the daemon ends */
    REDUCE_E_NO_SESSION = -14,  /* the daemon does not know the session; the library says hello again by itself */
    REDUCE_E_BAD_HANDLE = -15,  /* the daemon does not know the stream, or has no data of this name */
    REDUCE_E_IO = -16,          /* reading the data failed */
    REDUCE_E_AUTH = -17,        /* not allowed */
    REDUCE_E_DEVICE_LOST = -18, /* the device failed, also after repeats */
    REDUCE_E_NO_MEMORY = -19,   /* out of memory, here or in the daemon */
    REDUCE_E_INTERNAL = -20,    /* a defect of the daemon */
    REDUCE_E_EXISTS = -21,      /* data of this name exist already */
    /* from the library */
    REDUCE_E_ARGUMENT = -101,    /* an argument is invalid (NULL, wrong `size`, wrong state) */
    REDUCE_E_NO_DAEMON = -102,   /* no daemon listens, or it went away and did not come back in time */
    REDUCE_E_TIMEOUT = -103,     /* no progress for timeout_ms */
    REDUCE_E_STREAM_LOST = -104, /* the daemon restarted during a stream: begin again with the first element */
    REDUCE_E_FORKED = -105,      /* used in a forked child */
    REDUCE_E_PROTOCOL = -106,    /* the reply is not one of this protocol */
    REDUCE_E_START = -107,       /* the daemon could not be started */
    REDUCE_E_INTERRUPTED = -108  /* the program wanted the call to end (reduce_open_opts.interrupted) */
} reduce_err;

/* The last failure in full. Valid after a call of this thread returned a negative value. */
typedef struct reduce_fault {
    uint32_t size;
    int32_t code;        /* reduce_err */
    uint64_t limit;      /* the cap that was exceeded, 0 if none */
    uint64_t index;      /* the result (row, segment, column, group) concerned; field "offsets": the first wrong offset; field
                            "keys": the first element whose key is not a group; REDUCE_NO_INDEX if none */
    uint64_t value_low;  /* REDUCE_E_OVERFLOW: the exact value, 128-bit two's complement; 2^127-1: not known, a product of */
    uint64_t value_high; /*   2^64 or more by magnitude, or a sum of squares of 2^127 or more */
    uint32_t retry_ms;   /* REDUCE_E_BUSY: the daemon's hint */
    char field[28];      /* which field or argument, "" if none */
    char text[164];      /* one line for people */
} reduce_fault;
#define REDUCE_FAULT_INIT                                  \
    {                                                      \
        sizeof(reduce_fault), 0, 0, 0, 0, 0, 0, {0}, { 0 } \
    }
#define REDUCE_NO_INDEX UINT64_MAX

/* One line about the last failure of this thread: "OVERFLOW: row 3: ...; the exact value is ..."; columns and segments are
 * called rows too. "" if none. Valid until the thread's next libreduce call. */
const char *reduce_errmsg(void);

/* The same as fields. REDUCE_E_ARGUMENT if `f` is NULL or its size is wrong. */
int reduce_last_fault(reduce_fault *f);

const char *reduce_errname(int err);  /* "OVERFLOW"; "?" if unknown. Static */
const char *reduce_strerror(int err); /* a sentence. Static */

/* ---- names ------------------------------------------------------------------------------------------------------ */

typedef enum reduce_op {
    REDUCE_SUM = 1,
    REDUCE_MIN = 2,
    REDUCE_MAX = 3,
    REDUCE_ARGMIN = 4,
    REDUCE_ARGMAX = 5,
    REDUCE_COUNT_NONZERO = 6,
    REDUCE_PROD = 7,
    REDUCE_MINMAX = 8, /* two values: the smallest, the largest */
    REDUCE_RANGE = 9,
    REDUCE_MEAN = 10,
    REDUCE_SUMSQ = 11,
    REDUCE_NORM1 = 12,
    REDUCE_NORM2 = 13,
    REDUCE_NORMINF = 14,
    REDUCE_VAR = 15,
    REDUCE_STD = 16,
    REDUCE_ANY = 17, /* 1 or 0 */
    REDUCE_ALL = 18,
    REDUCE_COUNT = 19,
    REDUCE_COUNT_NAN = 20,
    REDUCE_AND = 21,
    REDUCE_OR = 22,
    REDUCE_XOR = 23,
    REDUCE_STATS = 24, /* a reduce_stats */
    REDUCE_RMS = 25,   /* root of the mean of squares */
    REDUCE_SEM = 26,   /* standard error of the mean */
    /* order statistics, which need all elements at once: no partial states, no streams */
    REDUCE_MEDIAN = 27,
    REDUCE_QUANTILE = 28,  /* a value for each of `q` */
    REDUCE_KTH = 29,       /* the element of rank `k` */
    REDUCE_LARGEST = 30,   /* `k` values, the largest first, and from the next multiple of 8 bytes on their indexes */
    REDUCE_SMALLEST = 31,  /* the same, the smallest first */
    REDUCE_HISTOGRAM = 32, /* counts between `edges`, then the elements below them, above them, and NaNs */
    /* of two arrays: the data and the spec's `weights` */
    REDUCE_DOT = 33,   /* the sum of their products */
    REDUCE_WSUM = 34,  /* the same of elements and weights, which may leave out weights of 0 */
    REDUCE_WMEAN = 35, /* the weighted sum over the sum of the weights */
    REDUCE_COV = 36,   /* the covariance, with `ddof` */
    REDUCE_CORR = 37   /* the correlation, from -1 to 1 */
} reduce_op;

/* How a quantile lies between elements: NumPy's methods. PROTOCOL.md ("Quantiles") has the formulas. */
typedef enum reduce_method {
    REDUCE_LINEAR = 0,
    REDUCE_INVERTED_CDF = 1,
    REDUCE_AVERAGED_INVERTED_CDF = 2,
    REDUCE_CLOSEST_OBSERVATION = 3,
    REDUCE_INTERPOLATED_INVERTED_CDF = 4,
    REDUCE_HAZEN = 5,
    REDUCE_WEIBULL = 6,
    REDUCE_MEDIAN_UNBIASED = 7,
    REDUCE_NORMAL_UNBIASED = 8,
    REDUCE_LOWER = 9,
    REDUCE_HIGHER = 10,
    REDUCE_MIDPOINT = 11,
    REDUCE_NEAREST = 12
} reduce_method;

typedef enum reduce_dtype {
    REDUCE_I8 = 1,
    REDUCE_U8 = 2,
    REDUCE_I16 = 3,
    REDUCE_U16 = 4,
    REDUCE_I32 = 5,
    REDUCE_U32 = 6,
    REDUCE_I64 = 7,
    REDUCE_U64 = 8,
    REDUCE_F16 = 9,   /* IEEE 754 binary16 */
    REDUCE_BF16 = 10, /* the upper half of an f32 */
    REDUCE_F32 = 11,
    REDUCE_F64 = 12,
    REDUCE_BOOL = 13 /* a byte: 1 if it is not 0 */
} reduce_dtype;

typedef enum reduce_nan {
    REDUCE_NAN_PROPAGATE = 0, /* any NaN makes the result NaN */
    REDUCE_NAN_OMIT = 1,      /* skip NaNs */
    REDUCE_NAN_ERROR = 2      /* any NaN is REDUCE_E_NAN */
} reduce_nan;

/* How data travel. AUTO is the fastest possible path. The daemon reads memory of reduce_alloc and files in place. Other large
 * arrays are copied into memory shared with it. Small arrays, and all arrays over tcp, travel in messages. */
typedef enum reduce_path {
    REDUCE_PATH_AUTO = 0,
    REDUCE_PATH_INLINE = 1,   /* in the request */
    REDUCE_PATH_STREAM = 2,   /* reduce_stream_* */
    REDUCE_PATH_SHM = 3,      /* through memory shared with the daemon */
    REDUCE_PATH_FILE = 4,     /* the daemon read the file */
    REDUCE_PATH_RESIDENT = 5, /* not at all: reduce_named */
    REDUCE_PATH_DEVICE = 6,   /* not at all: reduce_device */
    REDUCE_PATH_LOCAL = 7     /* not at all: this process reduced them (reduce_open_opts.local) */
} reduce_path;

/* Names as reducectl writes them: "sum", "f32", "omit", "cuda", "stream". "?" if unknown; static. */
const char *reduce_op_name(int op);
const char *reduce_op_help(int op);
const char *reduce_dtype_name(int dtype);
const char *reduce_nan_name(int nan);
const char *reduce_backend_name(int backend);
const char *reduce_path_name(int path);
const char *reduce_priority_name(int priority);
const char *reduce_method_name(int method);

/* The code of a name, or 0 if there is none (reduce_nan_parse, reduce_priority_parse, reduce_method_parse: -1). NULL is not a
 * name. */
int reduce_path_parse(const char *name);
int reduce_priority_parse(const char *name);
int reduce_method_parse(const char *name);
int reduce_op_parse(const char *name);
int reduce_dtype_parse(const char *name);
int reduce_nan_parse(const char *name);

/* Bytes of an element; 0 if unknown. */
size_t reduce_dtype_size(int dtype);

/* ---- client ----------------------------------------------------------------------------------------------------- */

/* A connection to one daemon. It reconnects by itself and repeats requests that a restart of the daemon interrupted, within the
 * times below. A repeated reduction gives the same answer. */
typedef struct reduce_client reduce_client;

enum {
    REDUCE_AUTOSTART = 1, /* if no daemon listens, start a private daemon of this user in the background, also when it is gone
                             later. Not at a URL that was given, by `url` or $REDUCED_URL: that is REDUCE_E_NO_DAEMON */
    REDUCE_WAIT = 2,      /* if no daemon listens, keep trying for connect_timeout_ms instead of failing at once */
    REDUCE_NO_RETRY = 4,  /* report BUSY and lost connections instead of repeating the request */
    REDUCE_LAZY = 8       /* reduce_open only looks at its arguments. The first call that needs the daemon connects, and has the
                             errors of reduce_open. Arrays that this process may reduce (reduce_local) need none: where no
                             daemon listens, none is started for them */
};

/* The share of a client when the device is busy. All HIGH clients together get four times as much as all NORMAL ones, and all
 * BACKGROUND ones a quarter of NORMAL. HIGH needs permission in the daemon's configuration; other users get REDUCE_E_AUTH. The
 * configuration may put a user into BACKGROUND whatever it asks for (reduce_info.priority). */
typedef enum reduce_priority {
    REDUCE_PRIORITY_NORMAL = 0,
    REDUCE_PRIORITY_HIGH = 1,
    REDUCE_PRIORITY_BACKGROUND = 2
} reduce_priority;

/* Which requests stay in this process? With YES reduce_run and the simple calls reduce arrays of memory themselves. They do so
 * where that is expected to take less time than the way through the daemon.
 *   Small arrays, up to 64 KiB with their mask and offsets: always.
 *   Larger ones, but not of states: always if the daemon is on this machine and has no GPU, or its GPUs are opening.
 *     Beside a GPU or over a network the expected times decide. Built-in rates are the start, and what requests of the same
 *     kind took corrects them. Threads: at most one for each core that this process may use, and as many as a daemon without
 *     a GPU has. They end with the call.
 * Values, bits and errors are the same. The daemon's counters, trace and quotas do not see these requests. reduce_open needs a
 * daemon, but with REDUCE_LAZY; after that these arrays do not. The rest goes to the daemon: files, streams, jobs, resident
 * data, data on devices; large arrays of states; requests with a deadline, a device or a `path` other than REDUCE_PATH_LOCAL;
 * all of clients of another priority than NORMAL. The daemon's options `local` and `backend` may forbid it for large arrays.
 * reduce_result.path says which way it was, reduce_is_local and reduce_explain say it in advance. A call needs 32 KiB of stack:
 * if the loops need more than a thread has left, one that begins and ends with the call runs them. */
typedef enum reduce_local {
    REDUCE_LOCAL_DEFAULT = 0, /* as $REDUCE_LOCAL says, `yes` or `no`; YES without it */
    REDUCE_LOCAL_NO = 1,      /* the daemon gets every request */
    REDUCE_LOCAL_YES = 2
} reduce_local;

/* Is the call to end? A call on the client that has waited for 50 ms asks interrupted(arg), and again every 50 ms, from its own
 * thread. A value other than 0 ends it soon with REDUCE_E_INTERRUPTED, as reduce_cancel would: its memory is free for other
 * use, the daemon drops what it has not begun, and an answer that still comes is dropped. A stream can only be aborted then. A
 * put leaves nothing, unless the daemon had just completed it. reduce_wait ends, but its job goes on.
 * All calls that can fail ask, reduce_open too; but not while they reduce an array in this process. Calls without a result
 * (*_close, *_abort, *_free) end within seconds without asking. The function may be called by several threads at once. It may
 * block, and may call the library, but not close the client. */
typedef int (*reduce_interrupted)(void *arg);

typedef struct reduce_open_opts {
    uint32_t size;
    uint32_t flags;                /* REDUCE_AUTOSTART | REDUCE_WAIT | REDUCE_NO_RETRY | REDUCE_LAZY */
    const char *name;              /* shown in the daemon's log and status, cut at 64 bytes; NULL: the program's name */
    uint32_t connect_timeout_ms;   /* reduce_open gives up after this (a daemon being started: plus 10 s) */
    uint32_t reconnect_timeout_ms; /* wait this long for a daemon that went away */
    uint32_t timeout_ms;           /* a call fails if the daemon makes no progress on it for this long; a long stream
                                      may take hours. Here and above: 0 is the default, and no time counts in which this
                                      process was stopped */
    const char *daemon;            /* AUTOSTART: the program; NULL: "reduced" beside this executable, if root or the user alone
                                      can have put it there; then in $PATH */
    uint32_t idle_exit_s;          /* AUTOSTART: the started daemon exits after this long without clients. 600, the default,
                                      leaves it to `idle-exit` of the user's configuration, if that is set */
    const char *tls_ca;            /* tls+tcp: PEM file of the CAs of trusted daemons; NULL: $REDUCED_TLS_CA */
    const char *tls_cert;          /* the client's certificate, which the daemon asks for; NULL: $REDUCED_TLS_CERT */
    const char *tls_key;           /* its key, without a passphrase; NULL: $REDUCED_TLS_KEY */
    int32_t priority;              /* reduce_priority of all requests of this client */
    uint32_t local;                /* reduce_local: may this process reduce arrays itself? */
    /* is a call to end? NULL: none is */
    reduce_interrupted interrupted;
    void *interrupted_arg;
} reduce_open_opts;
#define REDUCE_OPEN_OPTS_INIT                                                                                \
    {                                                                                                        \
        sizeof(reduce_open_opts), 0, NULL, 5000, 10000, 60000, NULL, 600, NULL, NULL, NULL, 0, 0, NULL, NULL \
    }

/* Connect and say hello. `url` is "ipc:///path/of.sock", "tls+tcp://host:port" or "tcp://host:port". With tls the daemon's
 * certificate must name the host as a DNS name, even an address; plain tcp is neither encrypted nor authenticated. NULL uses
 * only $REDUCED_URL if that is set. Else it tries the user's socket ($XDG_RUNTIME_DIR/reduced.sock), then the system's
 * (/run/reduced/reduced.sock). `opts` may be NULL. On success *c is yours to reduce_close; on failure it is NULL.
 * Errors: the common ones; REDUCE_E_START (AUTOSTART: the program is missing or did not start in time). */
int reduce_open(reduce_client **c, const char *url, const reduce_open_opts *opts);

/* Cancel the jobs of the client, wait for their callbacks, disconnect, free. Calls of other threads and streams must have
 * ended; job handles stay valid until reduce_job_free. Not from a callback. In a forked child it does nothing. */
void reduce_close(reduce_client *c);

/* A round trip through the daemon; *ns (may be NULL) is its duration. Errors: the common ones. */
int reduce_ping(reduce_client *c, uint64_t *ns);

/* The daemon of this client, from memory: without a request. */
typedef struct reduce_info {
    uint32_t size;
    uint32_t wire_version; /* of the protocol */
    uint32_t max_data;     /* element bytes of one message */
    uint32_t chunk_bytes;  /* bytes of one chunk of a stream */
    uint32_t max_inflight; /* requests of one client that may be under way at once; the library queues further ones */
    uint32_t reconnects;   /* since reduce_open */
    uint32_t autostarted;  /* 1 if reduce_open started it */
    int32_t priority;      /* reduce_priority that the daemon granted */
    char url[256];
    char server[68]; /* "reduced 0.2.0" */
    char side[96];   /* why messages were used the last time instead of shared memory or a passed file; or "" */
} reduce_info;
#define REDUCE_INFO_INIT                                          \
    {                                                             \
        sizeof(reduce_info), 0, 0, 0, 0, 0, 0, 0, {0}, {0}, { 0 } \
    }
int reduce_get_info(const reduce_client *c, reduce_info *info);

/* What the daemon reports about itself: keys such as "backend", "device", "requests.total" with a number or a text. Later
 * versions may add keys; show or skip unknown ones. */
enum {
    REDUCE_TOPIC_INFO = 1,
    REDUCE_TOPIC_STATUS = 2,
    REDUCE_TOPIC_REQUESTS = 4, /* the requests under way */
    REDUCE_TOPIC_SESSIONS = 5  /* the sessions: their users, and what they have asked for so far */
};
enum { REDUCE_KIND_U64 = 1, REDUCE_KIND_F64 = 2, REDUCE_KIND_TEXT = 3 };
typedef struct reduce_entry {
    const char *key;
    int kind; /* which of the following is valid */
    uint64_t u64;
    double f64;
    const char *text;
} reduce_entry;
/* Ask, then call each(arg, entry) for every entry in the daemon's order, in this thread; pointers are valid during that
 * call. A value other than 0 from `each` stops the calls and is returned. Errors: the common ones. */
int reduce_query(reduce_client *c, int topic, int (*each)(void *arg, const reduce_entry *e), void *arg);

/* The daemon's counters as Prometheus text (PROTOCOL.md, "Metrics"): take(arg, text) is called once, in this thread; the
 * text is valid during that call. The value of `take` is returned. Errors: the common ones. */
int reduce_metrics(reduce_client *c, int (*take)(void *arg, const char *text), void *arg);

/* ---- results ---------------------------------------------------------------------------------------------------- */

/* A number of the class of the elements: f64 for floats, i64 for signed, u64 for unsigned elements. */
typedef union reduce_value {
    double f64;
    int64_t i64;
    uint64_t u64;
} reduce_value;

/* The result of REDUCE_STATS. Without elements, argmin and argmax are REDUCE_NO_INDEX, min and max NaN or 0, sum 0, and mean,
 * var and std NaN. */
typedef struct reduce_stats {
    uint64_t count;  /* elements that were reduced: without masked ones; policy omit: without NaNs */
    uint64_t nans;   /* NaNs among the elements, including skipped ones */
    uint64_t zeros;  /* elements equal to zero */
    uint64_t argmin; /* index of the first smallest element, of the first largest */
    uint64_t argmax;
    reduce_value min;
    reduce_value max;
    reduce_value sum;  /* integers: the low word of 128-bit two's complement, so that it never overflows */
    uint64_t sum_high; /* its high word; 0 for floats */
    double mean;
    double var; /* with the spec's ddof */
    double std;
} reduce_stats;

/* ---- simple calls ----------------------------------------------------------------------------------------------- */

/* reduce_sum_f32(c, data, n, &out) and similar calls, for every op and element type: they reduce a whole array of n elements to
 * one value, and NaNs propagate. f16 and bf16 elements are passed as their bits.
 *   sum prod min max range sumsq norm1 norminf   double for floats, int64_t for signed, uint64_t for unsigned elements
 *   mean norm2 rms var std sem                   double; var and std divide by n - ddof, sem is the root of var / n
 *   argmin argmax                                index of the first such element
 *   count_nonzero count_nan any all              a number; any and all 1 or 0
 *   minmax                                       two values: out[0] the smallest, out[1] the largest element
 *   and or xor                                   integers only
 *   stats                                        everything in one pass
 *   median                                       double
 *   quantile kth                                 one value, of a q from 0 to 1 or a rank k: double, or as min
 *   largest smallest                             k values as min, and their k indexes; places without an element have
 *                                                REDUCE_NO_INDEX, and NaN or 0
 *   histogram                                    n_edges - 1 counts, then those below and above the edges, and of NaNs
 * Errors: the common ones; REDUCE_E_OVERFLOW (an integer result that needs more than 64 bits); REDUCE_E_EMPTY (n = 0 for
 * min, max, minmax, range, argmin, argmax; without elements a sum is 0, a product 1, a mean and rms NaN). On an error *out
 * does not change. They are inline functions that call reduce_simple, which other languages can call too. Its `out` has
 * room for the result above, and REDUCE_E_OP and REDUCE_E_TYPE are further errors. */
int reduce_simple(reduce_client *c, int op, int dtype, uint32_t ddof, const void *data, size_t n, void *out);
int reduce_simple_quantile(reduce_client *c, int dtype, double q, const void *data, size_t n, double *out);
/* kth, largest, smallest; `indexes` may be NULL. */
int reduce_simple_ranks(reduce_client *c, int op, int dtype, int64_t k, const void *data, size_t n, void *out,
                        uint64_t *indexes);
int reduce_simple_histogram(reduce_client *c, int dtype, const double *edges, size_t n_edges, const void *data, size_t n,
                            uint64_t *counts);

/* reduce_dot_f64(c, x, y, n, &out) and similar calls, for two arrays of n elements each of one type. The second one has the
 * weights of wsum and wmean.
 *   dot wsum   the sum of the products: double for floats, int64_t for signed, uint64_t for unsigned elements
 *   wmean corr double
 *   cov        double; the call has `ddof` behind n, as that of var, and is reduce_simple_cov
 * Errors: as above. Without elements a sum is 0, the others are NaN. */
int reduce_simple_pairs(reduce_client *c, int op, int dtype, const void *data, const void *weights, size_t n, void *out);
int reduce_simple_cov(reduce_client *c, int dtype, uint32_t ddof, const void *x, const void *y, size_t n, double *out);

/* Each is reduce_simple with the types checked. Macros of a program, such as f32 or norm2, do no harm. */
#define REDUCE_INLINE(call, op, dtype, element, value)                                  \
    static inline int call(reduce_client *c, const element *data, size_t n, value *out) \
    {                                                                                   \
        return reduce_simple(c, op, dtype, 0, data, n, out);                            \
    }
#define REDUCE_INLINE_DDOF(call, op, dtype, element, value)                                            \
    static inline int call(reduce_client *c, const element *data, size_t n, uint32_t ddof, value *out) \
    {                                                                                                  \
        return reduce_simple(c, op, dtype, ddof, data, n, out);                                        \
    }
#define REDUCE_INLINE_TOP(call, op, dtype, element, value)                                                            \
    static inline int call(reduce_client *c, const element *data, size_t n, int64_t k, value *out, uint64_t *indexes) \
    {                                                                                                                 \
        return reduce_simple_ranks(c, op, dtype, k, data, n, out, indexes);                                           \
    }
#define REDUCE_INLINE_QUANTILE(call, dtype, element)                                               \
    static inline int call(reduce_client *c, const element *data, size_t n, double q, double *out) \
    {                                                                                              \
        return reduce_simple_quantile(c, dtype, q, data, n, out);                                  \
    }
#define REDUCE_INLINE_KTH(call, dtype, element, value)                                             \
    static inline int call(reduce_client *c, const element *data, size_t n, int64_t k, value *out) \
    {                                                                                              \
        return reduce_simple_ranks(c, REDUCE_KTH, dtype, k, data, n, out, NULL);                   \
    }
#define REDUCE_INLINE_HISTOGRAM(call, dtype, element)                                                            \
    static inline int call(reduce_client *c, const element *data, size_t n, const double *edges, size_t n_edges, \
                           uint64_t *counts)                                                                     \
    {                                                                                                            \
        return reduce_simple_histogram(c, dtype, edges, n_edges, data, n, counts);                               \
    }
#define REDUCE_INLINE_PAIRS(call, op, dtype, element, value)                                                    \
    static inline int call(reduce_client *c, const element *data, const element *weights, size_t n, value *out) \
    {                                                                                                           \
        return reduce_simple_pairs(c, op, dtype, data, weights, n, out);                                        \
    }
#define REDUCE_INLINE_COV(call, dtype, element)                                                                        \
    static inline int call(reduce_client *c, const element *x, const element *y, size_t n, uint32_t ddof, double *out) \
    {                                                                                                                  \
        return reduce_simple_cov(c, dtype, ddof, x, y, n, out);                                                        \
    }
#define REDUCE_SIMPLE(suffix, DTYPE, element, value)                                                      \
    REDUCE_INLINE_QUANTILE(reduce_quantile_##suffix, REDUCE_##DTYPE, element)                             \
    REDUCE_INLINE_KTH(reduce_kth_##suffix, REDUCE_##DTYPE, element, value)                                \
    REDUCE_INLINE_HISTOGRAM(reduce_histogram_##suffix, REDUCE_##DTYPE, element)                           \
    REDUCE_INLINE_TOP(reduce_largest_##suffix, REDUCE_LARGEST, REDUCE_##DTYPE, element, value)            \
    REDUCE_INLINE_TOP(reduce_smallest_##suffix, REDUCE_SMALLEST, REDUCE_##DTYPE, element, value)          \
    REDUCE_INLINE(reduce_median_##suffix, REDUCE_MEDIAN, REDUCE_##DTYPE, element, double)                 \
    REDUCE_INLINE(reduce_sum_##suffix, REDUCE_SUM, REDUCE_##DTYPE, element, value)                        \
    REDUCE_INLINE(reduce_prod_##suffix, REDUCE_PROD, REDUCE_##DTYPE, element, value)                      \
    REDUCE_INLINE(reduce_min_##suffix, REDUCE_MIN, REDUCE_##DTYPE, element, value)                        \
    REDUCE_INLINE(reduce_max_##suffix, REDUCE_MAX, REDUCE_##DTYPE, element, value)                        \
    REDUCE_INLINE(reduce_minmax_##suffix, REDUCE_MINMAX, REDUCE_##DTYPE, element, value)                  \
    REDUCE_INLINE(reduce_range_##suffix, REDUCE_RANGE, REDUCE_##DTYPE, element, value)                    \
    REDUCE_INLINE(reduce_sumsq_##suffix, REDUCE_SUMSQ, REDUCE_##DTYPE, element, value)                    \
    REDUCE_INLINE(reduce_norm1_##suffix, REDUCE_NORM1, REDUCE_##DTYPE, element, value)                    \
    REDUCE_INLINE(reduce_norminf_##suffix, REDUCE_NORMINF, REDUCE_##DTYPE, element, value)                \
    REDUCE_INLINE(reduce_norm2_##suffix, REDUCE_NORM2, REDUCE_##DTYPE, element, double)                   \
    REDUCE_INLINE(reduce_mean_##suffix, REDUCE_MEAN, REDUCE_##DTYPE, element, double)                     \
    REDUCE_INLINE(reduce_rms_##suffix, REDUCE_RMS, REDUCE_##DTYPE, element, double)                       \
    REDUCE_INLINE(reduce_argmin_##suffix, REDUCE_ARGMIN, REDUCE_##DTYPE, element, uint64_t)               \
    REDUCE_INLINE(reduce_argmax_##suffix, REDUCE_ARGMAX, REDUCE_##DTYPE, element, uint64_t)               \
    REDUCE_INLINE(reduce_count_nonzero_##suffix, REDUCE_COUNT_NONZERO, REDUCE_##DTYPE, element, uint64_t) \
    REDUCE_INLINE(reduce_count_nan_##suffix, REDUCE_COUNT_NAN, REDUCE_##DTYPE, element, uint64_t)         \
    REDUCE_INLINE(reduce_any_##suffix, REDUCE_ANY, REDUCE_##DTYPE, element, uint64_t)                     \
    REDUCE_INLINE(reduce_all_##suffix, REDUCE_ALL, REDUCE_##DTYPE, element, uint64_t)                     \
    REDUCE_INLINE_DDOF(reduce_var_##suffix, REDUCE_VAR, REDUCE_##DTYPE, element, double)                  \
    REDUCE_INLINE_DDOF(reduce_std_##suffix, REDUCE_STD, REDUCE_##DTYPE, element, double)                  \
    REDUCE_INLINE_DDOF(reduce_sem_##suffix, REDUCE_SEM, REDUCE_##DTYPE, element, double)                  \
    REDUCE_INLINE_DDOF(reduce_stats_##suffix, REDUCE_STATS, REDUCE_##DTYPE, element, reduce_stats)        \
    REDUCE_INLINE_PAIRS(reduce_dot_##suffix, REDUCE_DOT, REDUCE_##DTYPE, element, value)                  \
    REDUCE_INLINE_PAIRS(reduce_wsum_##suffix, REDUCE_WSUM, REDUCE_##DTYPE, element, value)                \
    REDUCE_INLINE_PAIRS(reduce_wmean_##suffix, REDUCE_WMEAN, REDUCE_##DTYPE, element, double)             \
    REDUCE_INLINE_PAIRS(reduce_corr_##suffix, REDUCE_CORR, REDUCE_##DTYPE, element, double)               \
    REDUCE_INLINE_COV(reduce_cov_##suffix, REDUCE_##DTYPE, element)
#define REDUCE_BITS(suffix, DTYPE, element, value)                                 \
    REDUCE_INLINE(reduce_and_##suffix, REDUCE_AND, REDUCE_##DTYPE, element, value) \
    REDUCE_INLINE(reduce_or_##suffix, REDUCE_OR, REDUCE_##DTYPE, element, value)   \
    REDUCE_INLINE(reduce_xor_##suffix, REDUCE_XOR, REDUCE_##DTYPE, element, value)
REDUCE_SIMPLE(i8, I8, int8_t, int64_t)
REDUCE_SIMPLE(u8, U8, uint8_t, uint64_t)
REDUCE_SIMPLE(i16, I16, int16_t, int64_t)
REDUCE_SIMPLE(u16, U16, uint16_t, uint64_t)
REDUCE_SIMPLE(i32, I32, int32_t, int64_t)
REDUCE_SIMPLE(u32, U32, uint32_t, uint64_t)
REDUCE_SIMPLE(i64, I64, int64_t, int64_t)
REDUCE_SIMPLE(u64, U64, uint64_t, uint64_t)
REDUCE_SIMPLE(f16, F16, uint16_t, double)
REDUCE_SIMPLE(bf16, BF16, uint16_t, double)
REDUCE_SIMPLE(f32, F32, float, double)
REDUCE_SIMPLE(f64, F64, double, double)
REDUCE_BITS(i8, I8, int8_t, int64_t)
REDUCE_BITS(u8, U8, uint8_t, uint64_t)
REDUCE_BITS(i16, I16, int16_t, int64_t)
REDUCE_BITS(u16, U16, uint16_t, uint64_t)
REDUCE_BITS(i32, I32, int32_t, int64_t)
REDUCE_BITS(u32, U32, uint32_t, uint64_t)
REDUCE_BITS(i64, I64, int64_t, int64_t)
REDUCE_BITS(u64, U64, uint64_t, uint64_t)
#undef REDUCE_INLINE
#undef REDUCE_INLINE_DDOF
#undef REDUCE_INLINE_TOP
#undef REDUCE_INLINE_QUANTILE
#undef REDUCE_INLINE_KTH
#undef REDUCE_INLINE_HISTOGRAM
#undef REDUCE_INLINE_PAIRS
#undef REDUCE_SIMPLE
#undef REDUCE_BITS

/* ---- reduce_run: any reduction ---------------------------------------------------------------------------------- */

enum {
    REDUCE_STATES_IN = 1,  /* the data are partial states of (op, dtype) instead of elements */
    REDUCE_STATES_OUT = 2, /* the results are partial states instead of finished values */
    REDUCE_WRAP = 4,       /* prod of integers: modulo 2^64 instead of REDUCE_E_OVERFLOW */
    REDUCE_MASKED = 16,    /* streams: each piece has a mask; use reduce_stream_append_masked. reduce_device: a mask, one
                              byte for each element, follows the elements, and `bytes` counts both */
    REDUCE_COLUMNS = 64,   /* the data are a matrix, row after row: one result for each column instead of each row; or
                              `planes` of them, one behind the other */
    REDUCE_DROP_ZERO_WEIGHTS = 256, /* wsum, wmean: a weight of 0 leaves out its element, even an infinity or a NaN */
    REDUCE_DROP_OUTSIDE = 512 /* by key: an element whose key is not a group is left out; else the first one is an error */
};

/* How many weights there are, and which of the elements each belongs to. */
typedef enum reduce_extent {
    REDUCE_EACH_ELEMENT = 1, /* one for each element */
    REDUCE_EACH_COLUMN = 2,  /* a row of them, which is that of all rows, also of all planes */
    REDUCE_EACH_ROW = 3      /* one for each row, the same in all planes */
} reduce_extent;

/* What to reduce.
 *
 * Shape: by default the data are one array and give one result. Other shapes are
 *   rows > 1         this many equal rows, one result for each (a matrix along its last axis); or `planes` such matrices:
 *                    result i is that of row i of all of them together. So the axes on both sides of an axis of an array in C
 *                    order are reduced: planes = the product of the lengths before it, rows = its own length;
 *   REDUCE_COLUMNS   a matrix of `rows` rows, one result for each column (along its first axis), or `planes` such matrices:
 *                    results plane after plane. So any axis of an array in C order is reduced: planes = the product of the
 *                    lengths before it, rows = its own length, and the columns are those after it;
 *   offsets          segments of any lengths, including 0: segment i is elements offsets[i] up to, not including, offsets[i+1];
 *                    rows = number of segments. The library ignores elements before offsets[0] and from offsets[rows] on;
 *   keys_dtype       groups: each element has a key, and group i has the elements of key i, in any order; rows = number of
 *                    groups. A group without elements has the value of no elements. Not order statistics, nor operations of two
 *                    arrays. A masked element may have any key.
 * The index that argmin, argmax and stats give is that within the row, column or segment, plus index_base; by key it is that
 * within the whole array.
 *
 * By key. The states of all groups, and 32 bytes for each, may have at most 1 GiB: 3.3 million groups of sums of f64, 11
 * million of sums of f32. Arrays of memory and files go to the daemon if they fit a message of 4 MiB, or if the states fit 256
 * KiB. This process reduces the others: the states of each message would be more than its data. Resident data have their keys
 * beside them (keys_name). For elements that come in pieces there are streams and reduce_accumulators.
 *
 * Partial states are exact. States of shards (same op, dtype and nan) may be computed anywhere and in any order. Merged by a
 * run with REDUCE_STATES_IN, they finish to the same bits as one run over all elements. Data of such a run are rows with the
 * same number of states; row i has those of result i. It takes no mask, offsets or columns. With REDUCE_STATES_OUT too they
 * merge into states again. States are plain bytes to keep or send; PROTOCOL.md ("Partial states") describes them. */
typedef struct reduce_spec {
    uint32_t size;
    int32_t op;              /* reduce_op */
    int32_t dtype;           /* reduce_dtype of the elements */
    int32_t out;             /* reduce_dtype of the values: 0 = the default. sum prod min max minmax range sumsq norm1
                                norminf dot wsum: f64 (or f16 bf16 f32) of floats, i64 or u64 of integers (default by sign),
                                of min and max also `dtype`, unless it is bool;
                                mean var std sem norm2 rms wmean cov corr median quantile: f64 (or f16 bf16 f32) of all; kth
                                and quantile by methods that pick an element (lower, higher, nearest, inverted_cdf,
                                closest_observation): as sum; and or xor: i64 or u64; largest smallest: their values as sum;
                                counts, indexes, any, all: u64;
                                stats: fixed */
    int32_t nan;             /* reduce_nan */
    uint32_t flags;          /* REDUCE_STATES_IN ... */
    uint32_t ddof;           /* var, std, sem, stats: divide var by the count minus this */
    uint32_t deadline_ms;    /* the whole call must end within this, else REDUCE_E_DEADLINE; 0 = none */
    int32_t path;            /* reduce_path: other values than AUTO are for tests and measurements, and REDUCE_E_ARGUMENT
                                if not possible. Offsets and states travel in messages in any case */
    uint32_t device;         /* 1 + number of the daemon's device that is to do it; 0 = any. Data that lie on a device are
                                reduced there. A daemon of 0.1 has none to choose: REDUCE_E_VERSION */
    uint64_t rows;           /* >= 1 */
    uint64_t index_base;     /* index of this shard's first element in the whole array */
    const void *initial;     /* one element of the dtype, or NULL: it precedes every row, segment or column, without an
                                index (argmin, argmax: REDUCE_NO_INDEX if it wins), counted and subject to `nan` like any
                                other. It is added when a value is finished: not with REDUCE_STATES_OUT. Copied at once */
    const void *mask;        /* one byte for each element, or NULL: 0 skips the element; indexes still count it */
    const uint64_t *offsets; /* rows + 1 of them, ascending, none above the number of elements; or NULL */
    uint64_t planes;         /* matrices; 0 counts as 1. With offsets and REDUCE_STATES_IN 0 or 1 */
    const double *q;         /* quantile: `quantiles` of them, from 0 to 1, each the shortest decimal that gives the double: 0.1
                                is 1/10. Copied at once */
    int64_t k;               /* kth: the rank, from 0; -1 is the last one. largest, smallest: how many, 1 to REDUCE_MAX_TOP */
    uint32_t quantiles;      /* 1 to REDUCE_MAX_QUANTILES */
    int32_t method;          /* quantile: reduce_method */
    const double *edges;     /* histogram: `n_edges` of them, ascending; bin i has the elements from edges[i] up to, not
                                including, edges[i + 1], but the last one both. Not copied */
    uint64_t n_edges;        /* 2 to REDUCE_MAX_EDGES */
    const void *weights; /* dot, wsum, wmean, cov, corr: the second array, in memory; any alignment. Else NULL, as in streams */
    int32_t weights_dtype;  /* reduce_dtype: that of the elements (or 0); or f64 with elements of f32, which makes the states
                                those of f64, also in the spec that merges or finishes them */
    int32_t weights_extent; /* reduce_extent; 0: REDUCE_EACH_ELEMENT, which alone is possible with offsets */
    const void *keys;       /* by key: the group of each element, from 0 to rows - 1, in memory; any alignment. Else NULL, as in
                               streams */
    const char *keys_name; /* reduce_named by key: the keys are resident data of this name, from byte keys_offset on; or NULL */
    uint64_t keys_offset;  /* a multiple of the size of a key */
    int32_t keys_dtype;    /* reduce_dtype of the keys, an integer type; 0: the reduction is not by key */
    int32_t keys_reserved; /* 0 */
} reduce_spec;
enum { REDUCE_MAX_QUANTILES = 64, REDUCE_MAX_TOP = 262144, REDUCE_MAX_EDGES = 65536 };
#define REDUCE_SPEC_INIT                                                                                                      \
    {                                                                                                                         \
        sizeof(reduce_spec), REDUCE_SUM, REDUCE_F32, 0, REDUCE_NAN_PROPAGATE, 0, 0, 0, 0, 0, 1, 0, NULL, NULL, NULL, 0, NULL, \
            0, 0, 0, NULL, 0, NULL, 0, 0, NULL, NULL, 0, 0, 0                                                                 \
    }

typedef struct reduce_result {
    uint32_t size;
    int32_t dtype;       /* reduce_dtype of the values, 0 for states. stats: of min, max and sum (f64, i64 or u64) */
    int32_t backend;     /* 1 CPU, 2 CUDA; reduce_backend_name */
    int32_t path;        /* reduce_path: how the data travelled; of several, the one with the lowest number */
    uint64_t cell_size;  /* bytes of a result: a value, two (minmax), one for each quantile, k values and k indexes, counts,
                            a reduce_stats, or a state */
    uint64_t cells;      /* results: rows, segments or columns */
    uint64_t count;      /* elements (or states) received */
    uint64_t queue_ns;   /* in the daemon before the start, summed over messages */
    uint64_t copy_ns;    /* from a file and to the device, summed over chunks */
    uint64_t compute_ns; /* computing, summed over chunks: may exceed wall_ns when they overlap */
    uint64_t wall_ns;    /* from the start of the call to its end */
    uint64_t reserved;   /* 0 */
} reduce_result;
#define REDUCE_RESULT_INIT                                     \
    {                                                          \
        sizeof(reduce_result), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/* Bytes that `out` of reduce_run needs for `bytes` of data: results x the size of one. Only REDUCE_COLUMNS uses
 * `bytes`. Errors: REDUCE_E_OP, _TYPE, _BAD_MESSAGE (nan, flags, ddof, initial, planes), _SHAPE (rows = 0; bytes that are not
 * `planes` matrices of `rows` rows), _TOO_LARGE. */
int reduce_result_size(const reduce_spec *spec, size_t bytes, size_t *room);

/* Reduce `bytes` of data into `out`, which has room for `room` bytes: row after row, segment after segment or column after
 * column. Arrays may have any size and shape. An array that does not fit one message is cut, and several messages are under way
 * at once; the bits are the same. Memory is bounded by the results and 4 % of the data. `result` may be NULL.
 * Errors: the common ones; those of reduce_result_size; REDUCE_E_ARGUMENT (room too small; REDUCE_MASKED); REDUCE_E_SHAPE
 * (bytes are not a multiple of rows x element size; offsets: fault.index is the first wrong one); REDUCE_E_EMPTY, _OVERFLOW,
 * _NAN (fault.index is the first result concerned); REDUCE_E_SHAPE (field "keys": a key is not a group; fault.index is the
 * first such element); REDUCE_E_TOO_LARGE (rows: the states of the groups); REDUCE_E_DEADLINE; REDUCE_E_BAD_MESSAGE (a
 * malformed state); REDUCE_E_BAD_HANDLE, _DEVICE_LOST (field "device": the daemon has none of this number, or it has failed);
 * REDUCE_E_VERSION (fields "planes", "device": a daemon of 0.1 has none). On an error the contents of `out` are undefined. */
int reduce_run(reduce_client *c, const reduce_spec *spec, const void *data, size_t bytes, void *out, size_t room,
               reduce_result *result);

/* Would reduce_run of `bytes` bytes of memory reduce them in this process? 1, or 0: the daemon would. For large arrays it asks
 * the daemon, once in a session. They may go another way later, by what requests took. Errors: the common ones; those of
 * reduce_run about the spec. */
int reduce_is_local(reduce_client *c, const reduce_spec *spec, size_t bytes);

/* A way that a reduction could take: "process" is this one; "cpu", "gpu" and "shared" are what the daemon may do it with. */
typedef struct reduce_way {
    uint32_t size;
    uint32_t taken;       /* 1: reduce_run or reduce_file would go this way now */
    uint64_t expected_ns; /* by built-in rates, what the daemon measured, and what requests of this client took */
    const char *name;
    const char *why; /* it is not possible; NULL: it is */
} reduce_way;

/* Call each(arg, way) for the ways of `bytes` bytes of memory (fd -1) or of a file. A value other than 0 ends it and is
 * returned. It connects if a daemon listens, and starts none. Errors: those of reduce_is_local. */
int reduce_explain(reduce_client *c, const reduce_spec *spec, int fd, uint64_t bytes,
                   int (*each)(void *arg, const reduce_way *way), void *arg);

/* reduce_run on `bytes` bytes of a regular file from byte `offset` on (for example where the data of a .npy file begin):
 * elements in rows, columns or planes, or by key, but no mask, offsets or states. Weights and keys are in memory, and the
 * library then reads the file and sends both. The descriptor must be open for reading. If it can be passed to the daemon, the
 * daemon reads the file itself, several pieces at a time; else the library reads and sends them. The library also reads data
 * that are not in one piece, such as some columns of a large matrix. The file is never mapped, and its position is neither used
 * nor moved. The descriptor must stay open until the call returns (jobs: until the job is done).
 * Errors: those of reduce_run; REDUCE_E_IO (not a regular file: use a stream; the file ends too early, or reading fails);
 * REDUCE_E_ARGUMENT (a mask, offsets or states). */
int reduce_file(reduce_client *c, const reduce_spec *spec, int fd, uint64_t offset, uint64_t bytes, void *out, size_t room,
                reduce_result *result);

/* ---- partial states: here, without a daemon --------------------------------------------------------------------- */

/* What a reduction keeps of its elements, as bytes: the states of REDUCE_STATES_IN and REDUCE_STATES_OUT, made, merged and
 * finished in this process. They are exact, so it does not matter where and in which order elements were added and states
 * merged: equal elements give equal bytes. The places of argmin, argmax and stats are those that the elements were added with,
 * and stay as they are in a merge: a part begins at its first element's index in the whole array (reduce_state_add_at,
 * reduce_state_merge_at, reduce_spec.index_base). These calls need no client, allocate nothing and do no I/O. They may run in
 * any number of threads on different states. A state may have any alignment. On an error it does not change. Ops of one kind
 * share it: sum, mean | sumsq, norm2, rms | var, std, sem | minmax, range | count, count_nonzero, any, all | dot, wsum.
 *
 *     unsigned char s[REDUCE_MAX_STATE];
 *     reduce_state_init(s, sizeof s, REDUCE_SUM, REDUCE_F64);
 *     reduce_state_add(s, sizeof s, data, n);          or reduce_run with REDUCE_STATES_OUT, for large arrays
 *     reduce_state_merge(s, sizeof s, other, bytes);
 *     reduce_spec spec = REDUCE_SPEC_INIT;  spec.dtype = REDUCE_F64;
 *     reduce_state_finish(s, sizeof s, &spec, &sum, sizeof sum);
 *
 * reduce_state_add needs 192 KiB of stack, the others 32. There is no smaller library for them: a static program that makes
 * only these calls takes from libreduce.a nothing that allocates, locks or does I/O.
 *
 * Calls that take a state check it as a daemon would: REDUCE_E_BAD_MESSAGE if no elements can give it, or if the `size` bytes
 * at the pointer are too few for it. There may be more of them: a buffer of REDUCE_LARGEST_STATE bytes has room for any state,
 * one of REDUCE_MAX_STATE bytes for those of all operations but cov and corr. */

enum {
    REDUCE_MAX_STATE = 872,      /* bytes of the longest state of this version, but for cov and corr */
    REDUCE_MAX_WORDS = 211,      /* words of the longest vector of this version, but for cov and corr */
    REDUCE_LARGEST_STATE = 2168, /* of all operations */
    REDUCE_LARGEST_WORDS = 547
};

/* Bytes of a state of (op, dtype); 0 if unknown. */
size_t reduce_state_size(int op, int dtype);

/* Write the state of an empty array to the `size` bytes at `state`. Errors: REDUCE_E_OP, _TYPE, _ARGUMENT (too few bytes),
 * _BAD_MESSAGE (an operation without states). */
int reduce_state_init(void *state, size_t size, int op, int dtype);

/* Are these `size` bytes, all of them, a state of (op, dtype)? Errors: REDUCE_E_OP, _TYPE, _BAD_MESSAGE. */
int reduce_state_check(const void *state, size_t size, int op, int dtype);

/* Add `count` elements of the state's type, on the calling thread. NaNs propagate, and indexes continue after the elements of
 * the state. A call takes up to 1 us, an element 0.3 to 2 ns (of a product of floats 11) beside its way from memory. Errors:
 * REDUCE_E_BAD_MESSAGE, _TOO_LARGE (more than 2^60 elements). */
int reduce_state_add(void *state, size_t size, const void *data, size_t count);

/* The same with a NaN policy (reduce_nan) and the index, in the whole array, of the first element. */
int reduce_state_add_at(void *state, size_t size, const void *data, size_t count, int nan, uint64_t index);

/* Add `count` pairs to a state of dot, wsum, wmean, cov or corr: elements and weights of its type. `dtype` is that of the
 * elements, which may be f32 in a state of f64. `flags`: 0 or, of wsum and wmean, REDUCE_DROP_ZERO_WEIGHTS. Errors: those of
 * reduce_state_add; REDUCE_E_TYPE. */
int reduce_state_add_pairs(void *state, size_t size, const void *data, int dtype, const void *weights, size_t count, int nan,
                           uint32_t flags);

/* Count `count` missing values: elements that are known to be there, but have no value. They are NaNs under REDUCE_NAN_OMIT.
 * For integers, too, stats and count_nan count them; other states of integers do not change. Errors: those of
 * reduce_state_add. */
int reduce_state_add_missing(void *state, size_t size, uint64_t count);

/* Add the elements of `from` to those of `into`. Both must have the same kind and element type. Errors: REDUCE_E_BAD_MESSAGE,
 * _TOO_LARGE (more than 2^60 elements). */
int reduce_state_merge(void *into, size_t size, const void *from, size_t from_size);

/* The same for a part of the whole array whose elements were counted from 0: `index` is that of its first element, by which the
 * places of argmin, argmax and stats move. reduce_state_merge keeps the places that the states have. Errors: as for
 * reduce_state_merge; REDUCE_E_TOO_LARGE (field "index": above 2^60). */
int reduce_state_merge_at(void *into, size_t size, const void *from, size_t from_size, uint64_t index);

/* The value that reduce_run gives for these elements. `result` has `room` bytes, at least those that reduce_result_size states.
 * The spec has op, dtype, out, nan, ddof, initial, REDUCE_WRAP; rows is 1. Errors: those of reduce_run that need no daemon;
 * REDUCE_E_BAD_MESSAGE (not a state of op and dtype), _ARGUMENT (a spec with a shape, too little room). */
int reduce_state_finish(const void *state, size_t size, const reduce_spec *spec, void *result, size_t room);

/* The values of the states that lie one after the other in `bytes` bytes, one after the other. Errors: those of
 * reduce_state_finish; reduce_last_fault has the index of the state that has no value, and those before it are written. */
int reduce_states_finish(const void *states, size_t bytes, const reduce_spec *spec, void *results, size_t room);

/* States as vectors of int64, for engines that can add integers but call no function of ours: MPI_SUM on MPI_INT64_T, NCCL,
 * torch.distributed, a column of a table. Convert the state of each rank, add the vectors element by element, in any order and
 * tree, and convert the sum: it gives the merged state. At most 2^31 - 1 vectors can be added. PROTOCOL.md ("Words") describes
 * them. words[0] is the number of vectors that were added.
 *   reduce_state_words  sum mean sumsq norm1 norm2 var std sem rms dot wsum wmean cov corr, prod of floats, the counts, any
 *                       all, and or xor: words that are added; 0 for others
 *   reduce_state_keys   min max minmax range norminf: the first REDUCE_KEYS_ADDED words are added, the one or two after them
 *                       joined by maximum (MPI_MAX); 0 for others
 * argmin, argmax, stats and prod of integers have neither; merge their states (reduce_mpi.h has an MPI_Op). */
enum { REDUCE_KEYS_ADDED = 9 };
size_t reduce_state_words(int op, int dtype);
size_t reduce_state_keys(int op, int dtype);

/* Write the n words of a state. Errors: REDUCE_E_BAD_MESSAGE, _SHAPE (n is not reduce_state_words or _keys), _OP (neither). */
int reduce_state_to_words(const void *state, size_t size, int64_t *words, size_t n);

/* The state, of `size` bytes, that the n words of one or more states together stand for. Errors: REDUCE_E_OP, _TYPE, _ARGUMENT,
 * _SHAPE; REDUCE_E_BAD_MESSAGE (field "tag": words of another operation, element type or version were added; other fields: the
 * words are not such sums; "count": more than 2^60 elements). */
int reduce_state_from_words(void *state, size_t size, int op, int dtype, const int64_t *words, size_t n);

/* ---- accumulators: one reduction for each group, here ----------------------------------------------------------- */

/* Many states at once, to which elements are added in any order of groups: group sums, weighted counts, scatter-add. They are
 * as exact as states, so neither the order nor the number of batches matters. They need no client and no daemon. An addition
 * to sums of floats is some integer additions in a window of 128 bits. It takes 32 bytes a group (64 if the operation needs
 * squares), and once elements of very different sizes have been added to a group, also those of its state (f64: 288; squares
 * 824). Other operations take the bytes of their state. One thread at a time uses them. Several threads of the library add a
 * batch of 2^18 elements or more. They may take 8 MiB for it, which they give back.
 *
 *     reduce_accumulators *a;
 *     reduce_accumulators_new(REDUCE_SUM, REDUCE_F64, 0, groups, &a);
 *     reduce_batch b = REDUCE_BATCH_INIT;
 *     b.key_dtype = REDUCE_I32;  b.keys = keys;  b.values = values;  b.count = n;
 *     reduce_accumulators_add(a, &b);                                          in any number of batches
 *     reduce_spec spec = REDUCE_SPEC_INIT;  spec.dtype = REDUCE_F64;
 *     reduce_accumulators_finish(a, &spec, 0, groups, sums, sizeof sums);
 *     reduce_accumulators_free(a);                                                                                   */
typedef struct reduce_accumulators reduce_accumulators;

enum { REDUCE_DROP_NEGATIVE = 1024 }; /* as REDUCE_DROP_OUTSIDE, of keys below 0 alone */

typedef struct reduce_batch {
    uint32_t size;
    int32_t key_dtype;   /* of the keys: an integer type */
    const void *keys;    /* the group of each element, from 0 on; NULL: all are of group 0. Any alignment, as the values */
    const void *values;  /* elements of the accumulators' type */
    const uint8_t *mask; /* a byte for each element, 0 leaves it out; NULL: none */
    uint64_t count;      /* of the elements */
    uint64_t index;      /* place of the first one, for argmin, argmax and stats */
    uint32_t flags;      /* REDUCE_DROP_OUTSIDE, REDUCE_DROP_NEGATIVE */
    uint32_t reserved;   /* 0 */
} reduce_batch;
#define REDUCE_BATCH_INIT                                     \
    {                                                         \
        sizeof(reduce_batch), 0, NULL, NULL, NULL, 0, 0, 0, 0 \
    }

/* Accumulators of (op, dtype) for the groups 0 to groups - 1, without elements. `nan` is a reduce_nan. On success *a is yours
 * to free. Errors: REDUCE_E_OP, _TYPE, _BAD_MESSAGE (nan; an operation without accumulators), _TOO_LARGE (more than 2^32
 * groups), _NO_MEMORY, _ARGUMENT. */
int reduce_accumulators_new(int op, int dtype, int nan, size_t groups, reduce_accumulators **a);

/* The number of groups; make it larger. Errors: REDUCE_E_TOO_LARGE, _NO_MEMORY, _ARGUMENT (fewer groups). */
size_t reduce_accumulators_groups(const reduce_accumulators *a);
int reduce_accumulators_grow(reduce_accumulators *a, size_t groups);

/* Add a batch. Errors: REDUCE_E_TYPE (field "keys": not of integers), _SHAPE (field "keys": a key is not a group; its place in
 * the batch is reduce_last_fault's index, and nothing was added), _TOO_LARGE (more than 2^60 elements or places), _ARGUMENT,
 * _NO_MEMORY (for the element of reduce_last_fault's index; some of the others were added). */
int reduce_accumulators_add(reduce_accumulators *a, const reduce_batch *batch);

/* Add the groups of `from`, which stays as it is, to the same groups of `into`, which must have that many. Both must have the
 * same kind of operation and element type. Errors: REDUCE_E_BAD_MESSAGE, _SHAPE (more groups), _TOO_LARGE (more than 2^60
 * elements), _NO_MEMORY. */
int reduce_accumulators_merge(reduce_accumulators *into, const reduce_accumulators *from);

/* The state of one group, and the merge of a state into one. Errors: those of reduce_state_init and reduce_state_merge;
 * REDUCE_E_SHAPE (no such group), _NO_MEMORY. */
int reduce_accumulators_state(const reduce_accumulators *a, size_t group, void *state, size_t size);
int reduce_accumulators_merge_state(reduce_accumulators *a, size_t group, const void *state, size_t size);

/* The values of the groups from `first` on, `count` of them, one after the other. A group without elements has the value of no
 * elements. Errors: those of reduce_state_finish; reduce_last_fault has the group that has no value, and those before it are
 * written; REDUCE_E_SHAPE (no such groups). */
int reduce_accumulators_finish(const reduce_accumulators *a, const reduce_spec *spec, size_t first, size_t count, void *results,
                               size_t room);

/* NULL is allowed. */
void reduce_accumulators_free(reduce_accumulators *a);

/* ---- selection: order statistics of parts ------------------------------------------------------------------------ */

/* median, quantile or kth of one array whose parts lie anywhere, in passes over all of them. Each pass counts the elements of
 * each part by digits; the counts of all parts are added, wherever that is, and say what the next pass counts:
 *
 *     reduce_selection *s;
 *     reduce_selection_new(&s, &spec);
 *     do {
 *         reduce_selection_count(s, part, mask, bytes);          for each part that is here
 *         uint64_t *counts = reduce_selection_counts(s, &n);     n words, to be added to those of other processes, in place
 *     } while (reduce_selection_next(s) == 1);
 *     reduce_selection_finish(s, &value, sizeof value);
 *
 * Elements of 8 bits take one pass, of 16 two, of 32 three, of 64 six; with more than four quantiles perhaps more.
 * Every process comes to the same bits. reduce_mpi_quantile does this over MPI. No client is needed. A selection is for one
 * thread. */
typedef struct reduce_selection reduce_selection;

/* A spec without shape, mask and states. Errors: those of reduce_run about the spec; REDUCE_E_OP (another operation);
 * REDUCE_E_SHAPE (rows, planes, columns or offsets); REDUCE_E_ARGUMENT (a mask); REDUCE_E_NO_MEMORY. */
int reduce_selection_new(reduce_selection **s, const reduce_spec *spec);
void reduce_selection_free(reduce_selection *s); /* may be NULL */

/* Count the elements of a part; `mask` has a byte for each, or is NULL. Errors: REDUCE_E_SHAPE (bytes), REDUCE_E_ARGUMENT. */
int reduce_selection_count(reduce_selection *s, const void *data, const void *mask, size_t bytes);

/* The counts of this pass so far, which the caller may replace by the sums of all processes. They live until the next call.
 * NULL: a pointer is NULL. */
uint64_t *reduce_selection_counts(reduce_selection *s, size_t *n);

/* The counts are complete. 1: another pass is needed; 0: none. Errors: REDUCE_E_NO_MEMORY. */
int reduce_selection_next(reduce_selection *s);

/* The value, or the values of several quantiles. Errors: those of reduce_run about the elements; REDUCE_E_ARGUMENT (passes are
 * missing; room). */
int reduce_selection_finish(reduce_selection *s, void *out, size_t room);

/* ---- collectives: one reduction of many processes --------------------------------------------------------------- */

/* Each process (rank) has a part of the elements, and all call reduce_collective. Every rank gets the same value: the one that
 * reduce_run gives for all elements together, to the bit, for any number of ranks and any distribution. reduce_mpi.h and
 * reduce_mpi.f90 wrap it for MPI. */

/* A block of a larger array in memory, as of a field with halos: of each dimension the elements start, start + stride and so
 * on, `count` of them. Mask and weights have the shape of the array, too. Indexes count the block's elements in the order of
 * memory. The calling thread reduces them. Errors: REDUCE_E_SHAPE (the bytes are not those of the array, or the block goes
 * beyond it), _ARGUMENT (anything but one row of memory). */
typedef struct reduce_block {
    uint32_t size;
    uint32_t dims;          /* 1 to REDUCE_MAX_DIMS; the arrays have one number for each */
    const uint64_t *shape;  /* of the whole array */
    const uint64_t *start;  /* from 0; NULL: 0 */
    const uint64_t *count;  /* 0: none */
    const uint64_t *stride; /* at least 1; NULL: 1 */
    uint32_t first_nearest; /* 0: elements of the last dimension are neighbours, as in C; 1: of the first, as in Fortran */
    uint32_t reserved;      /* 0 */
} reduce_block;
#define REDUCE_BLOCK_INIT                                     \
    {                                                         \
        sizeof(reduce_block), 0, NULL, NULL, NULL, NULL, 0, 0 \
    }

/* One reduction, with this rank's part: memory, a file or device memory. The spec is equal at every rank, except for
 * index_base, mask, keys and their type, path and deadline_ms, REDUCE_STATES_IN, REDUCE_MASKED (of device memory), and with
 * REDUCE_COLUMNS rows. By key every rank has all groups. With REDUCE_STATES_OUT `out` gets the states. */
typedef struct reduce_item {
    uint32_t size;
    int32_t fd;                /* a file, as for reduce_file; -1: none */
    const reduce_spec *spec;   /* for offsets and for states as for reduce_run */
    const void *data;          /* memory; it may be `out` */
    const void *device;        /* a handle, as for reduce_device; or NULL */
    uint64_t offset;           /* of a file or device memory */
    uint64_t bytes;            /* of this rank's elements */
    void *out;                 /* the results; NULL: this rank does not want them */
    size_t room;               /* bytes at `out` */
    const reduce_block *block; /* of the array at `data`; NULL: all of it */
} reduce_item;
#define REDUCE_ITEM_INIT                                               \
    {                                                                  \
        sizeof(reduce_item), -1, NULL, NULL, NULL, 0, 0, NULL, 0, NULL \
    }

/* Join the `bytes` bytes at `buffer` of all ranks by reduce_states_merge, which must get all of them at once; then every rank
 * has the result. Return 0, or another value if that failed. It is MPI_Allreduce, or an equivalent. */
typedef int (*reduce_exchange)(void *arg, void *buffer, size_t bytes);

/* Merge the data at `from` into `into`: states that lie one after the other, `bytes` in all, or messages of reduce_collective.
 * It is commutative and associative. If they are not states of the same kinds, `into` becomes bytes that every later call
 * refuses. */
void reduce_states_merge(void *into, const void *from, size_t bytes);

enum { REDUCE_MESSAGE = 2048 }; /* bytes of the first exchange, in every version */

/* Reduce n items together: one exchange of REDUCE_MESSAGE bytes, and a second one if their states do not fit it. They are
 * packed: some 50 sums or 30 weighted means of f64 fit if the elements differ by ten decades, and six or two in the worst case.
 * Every rank calls it with the same items in the same order. Memory of at most 64 KiB is reduced here, by the calling thread;
 * more goes through the client. That may be NULL if all data are memory, which this process then reduces.
 * `rank` is for error texts. An error of one rank is returned by all: errmsg names the lowest such rank, of several items the
 * one concerned, and of several rows the row. With REDUCE_NAN_ERROR it names the index of the first NaN in memory.
 * Errors: those of reduce_run, reduce_file, reduce_device and reduce_state_finish; REDUCE_E_BAD_MESSAGE (field "spec": the
 * specs of two ranks differ, which errmsg names; field "exchange": what the exchange left is not the join of all messages),
 * REDUCE_E_VERSION (another version of libreduce at some rank), REDUCE_E_IO (the exchange failed). */
int reduce_collective(reduce_client *c, const reduce_item *items, size_t n, uint32_t rank, reduce_exchange exchange, void *arg);

/* Share errors of other steps that all ranks do: each calls it with the error that its last call of this library returned, or
 * with 0. Every rank gets 0, or the error of the lowest rank that has one, which errmsg names. */
int reduce_collective_error(int err, uint32_t rank, reduce_exchange exchange, void *arg);

/* Make `err` this thread's last error, with a text of yours: for a step that no call of this library does. Returns `err`. */
int reduce_error(int err, const char *field, const char *text);

/* reduce_collective in steps, for exchanges that go on while the program computes. It begins, and reads specs, data, masks and
 * weights; `out` must live until the end. Then the buffer is exchanged: reduce_joint_next says whether again. Errors of this
 * rank go with the exchange, but REDUCE_E_NO_MEMORY for `joint` itself: share that one by reduce_collective_error.
 *     for (more = 1; more == 1; more = reduce_joint_next(joint, failed))
 *         failed = exchange(arg, reduce_joint_buffer(joint, &bytes), bytes);
 */
typedef struct reduce_joint reduce_joint;
int reduce_joint_begin(reduce_joint **joint, reduce_client *c, const reduce_item *items, size_t n, uint32_t rank);

/* What is to be exchanged: REDUCE_MESSAGE bytes the first time. It stays where it is until reduce_joint_next. */
void *reduce_joint_buffer(reduce_joint *joint, size_t *bytes);

/* The exchange has ended; `failed` is not 0 if it failed. 1: exchange the buffer again. Else all is over, the results are
 * written, and `joint` is freed: 0, or an error, as reduce_collective. */
int reduce_joint_next(reduce_joint *joint, int failed);

/* ---- memory shared with the daemon ------------------------------------------------------------------------------ */

/* Allocate `bytes` of memory, all 0 and aligned to a page, that the daemon maps too: arrays in it are reduced without a copy.
 * If the daemon cannot share it (tcp, a quota), it is ordinary memory; reduce_info.side has the reason. While arrays in it are
 * reduced they may be read but not written: elements that change give an arbitrary result.
 * Errors: the common ones. */
int reduce_alloc(reduce_client *c, size_t bytes, void **memory);

/* Free it; no reduction of it may be under way. NULL is allowed; reduce_close frees the rest. */
void reduce_free(reduce_client *c, void *memory);

/* ---- data on the GPU ------------------------------------------------------------------------------------------- */

/* reduce_run on `bytes` bytes of this process's memory on the daemon's GPU, in place. They begin at byte `offset` of the
 * allocation that `handle` names: the 64 bytes of cudaIpcGetMemHandle. This is for memory of cudaMalloc (including the pools of
 * CuPy and PyTorch), not of cudaMallocAsync; for memory of cuMemCreate see reduce_device_import. `offset` counts from the
 * allocation's first byte (see cuMemGetAddressRange) and is a multiple of the element's size. A mask is on the device, too:
 * behind the elements (REDUCE_MASKED), or elsewhere (reduce_device_masked). `mask`, offsets, keys and states are not possible;
 * columns of a plane, and results of data with a mask behind them, only as far as a reply holds them (4 MiB).
 * Order: the daemon does not know your CUDA streams. Finish all writes to the data before the call (cudaStreamSynchronize),
 * and overwrite them only after it.
 * The daemon maps an allocation once, with the first call, and keeps it until reduce_device_close or reduce_close: call one of
 * them before you free the allocation. It accepts handles only over ipc and from processes of its own user.
 * Errors: those of reduce_run; REDUCE_E_BAD_HANDLE (no such allocation on the daemon's GPU), REDUCE_E_SHAPE (beyond the
 * end of the allocation; `offset`), REDUCE_E_TYPE (field "device": the daemon computes on the CPU), REDUCE_E_AUTH (another
 * user's daemon), REDUCE_E_TOO_LARGE (columns, mask), REDUCE_E_VERSION (field "mask": a daemon of 0.1). */
int reduce_device(reduce_client *c, const reduce_spec *spec, const void *handle, uint64_t offset, uint64_t bytes, void *out,
                  size_t room, reduce_result *result);

/* reduce_device with a mask that lies anywhere on the same GPU: one byte for each element, 0 skips it. It begins at byte
 * `mask_offset` of the allocation that `mask_handle` names, which may be that of the elements. `bytes` counts the elements
 * alone, and flags do not have REDUCE_MASKED. The number of results is not limited.
 * Errors: those of reduce_device, except that TOO_LARGE is for columns only; REDUCE_E_BAD_HANDLE (field "mask": on another
 * GPU), REDUCE_E_SHAPE (beyond the end of the mask's allocation), REDUCE_E_VERSION (field "mask": a daemon of 0.1). */
int reduce_device_masked(reduce_client *c, const reduce_spec *spec, const void *handle, uint64_t offset, uint64_t bytes,
                         const void *mask_handle, uint64_t mask_offset, void *out, size_t room, reduce_result *result);

/* Make a handle for reduce_device from memory of cuMemCreate, created with `bytes` bytes. `fd` is its descriptor, from
 * cuMemExportToShareableHandle with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR. `handle` receives 64 bytes, which are valid for
 * this client only, until reduce_device_close. The descriptor stays yours and may be closed at once. The daemon may belong to
 * another user, and memory that you free stays until reduce_device_close.
 * Errors: the common ones; REDUCE_E_BAD_HANDLE (no such memory of the daemon's GPU, or not of that size; `descriptor`),
 * REDUCE_E_TYPE (field "device": the daemon computes on the CPU), REDUCE_E_QUOTA. */
int reduce_device_import(reduce_client *c, int fd, uint64_t bytes, void *handle);

/* The daemon's GPUs. It may see other ones than this process, in another order: a GPU is known by its UUID, which is in
 * cudaDeviceProp.uuid (cudaGetDeviceProperties), and as text in `nvidia-smi -L`. */
typedef struct reduce_gpu {
    uint32_t size;
    uint32_t device;  /* for reduce_spec.device. REDUCE_PLACE_DEVICE + device - 1 for reduce_put_opts.place */
    int32_t ordinal;  /* CUDA's number of it in the daemon */
    uint32_t lost;    /* 1: it has failed; the daemon continues with the others */
    uint8_t uuid[16]; /* all 0: an engine of the CPU */
    char name[48];    /* the UUID as text, "GPU-2c7b8d4e-..." */
} reduce_gpu;

/* Ask, then call each(arg, gpu) for every GPU in the order of their numbers, in this thread; the struct is valid during that
 * call. A value other than 0 from `each` stops the calls and is returned. It waits for a daemon that is still opening its GPUs.
 * It calls nothing for a daemon that computes on the CPU, or for one of 0.1. Errors: the common ones. */
int reduce_gpus(reduce_client *c, int (*each)(void *arg, const reduce_gpu *gpu), void *arg);

/* State that the memory behind `handle` (of cudaIpcGetMemHandle) is on the GPU with this UUID of 16 bytes. Call it before the
 * first reduce_device on that memory; without it the daemon tries each of its GPUs. With it, the error for memory on a GPU that
 * the daemon does not have says so: REDUCE_E_BAD_HANDLE, field "device", with the GPUs that it has. It holds until
 * reduce_device_close. Errors: the common ones. */
int reduce_device_uuid(reduce_client *c, const void *handle, const void *uuid);

/* Release an allocation; no reduce_device on it may be under way. An unknown one has no effect. */
int reduce_device_close(reduce_client *c, const void *handle);

/* ---- resident data: put once, reduce often ----------------------------------------------------------------------- */

/* Arrays that stay with the daemon under a name, in its device's memory if it has a device, and are reduced there. They belong
 * to the user: any program of the same user can reduce, replace and drop them; other users cannot see them. They stay until a
 * program drops them, until their time to live is over, or until the daemon ends. Those of local users outlive the restarts
 * of a daemon that systemd runs. Over the network they need tls, with a certificate whose name is the user. A name has 1 to
 * 64 letters, digits, '_', '.' and '-', and does not begin with one of the last two. */

enum { REDUCE_REPLACE = 1 }; /* reduce_put: replace the data of that name, atomically, when the new ones are complete */

/* The shape of an array may be stored with it. It is kept for the programs that reduce it: see reduce_find and
 * reduce_spec.planes. A daemon of 0.1 keeps none. */
enum { REDUCE_MAX_DIMS = 16 };
enum { REDUCE_ORDER_C = 0, REDUCE_ORDER_F = 1 }; /* in memory the last index runs fastest, or the first one */

/* Where resident data are to be, and are: in equal parts on all devices of the daemon, or on the one of this number. Data that
 * fit on no device are spread in any case. A daemon of 0.1 has one device: REDUCE_E_VERSION. */
enum { REDUCE_PLACE_ANY = 0, REDUCE_PLACE_SPREAD = 1, REDUCE_PLACE_DEVICE = 2 /* + number */ };

typedef struct reduce_put_opts {
    uint32_t size;
    uint32_t flags;        /* REDUCE_REPLACE */
    uint32_t ttl_ms;       /* time to live; 0 = until dropped. At most 2^31 - 1 */
    uint32_t deadline_ms;  /* the put must end within this, else REDUCE_E_DEADLINE; 0 = none */
    int32_t path;          /* reduce_path: as in reduce_spec */
    uint32_t place;        /* REDUCE_PLACE_...: on which of the daemon's devices; 0 = where most memory is free */
    uint32_t dims;         /* of the array's shape, at most REDUCE_MAX_DIMS; 0: no shape is given */
    uint32_t order;        /* REDUCE_ORDER_C, REDUCE_ORDER_F */
    const uint64_t *shape; /* `dims` lengths, whose product is the number of elements */
} reduce_put_opts;
#define REDUCE_PUT_OPTS_INIT                               \
    {                                                      \
        sizeof(reduce_put_opts), 0, 0, 0, 0, 0, 0, 0, NULL \
    }

/* Store `bytes` bytes of elements of `dtype` (reduce_dtype), at least one, under `name`. `opts` may be NULL. They travel as for
 * reduce_run. A put that fails, or whose program dies, leaves nothing. If the daemon restarts during a put, it begins again.
 * Errors: the common ones; REDUCE_E_EXISTS (the name is taken, without REDUCE_REPLACE), REDUCE_E_QUOTA (bytes or arrays of the
 * user or of all; data to be replaced count too), REDUCE_E_TOO_LARGE (above the cap of a user; name; ttl_ms),
 * REDUCE_E_BAD_MESSAGE (name), REDUCE_E_TYPE, REDUCE_E_SHAPE (no bytes, or part of an element; field "shape": another number of
 * elements), REDUCE_E_DEADLINE; REDUCE_E_ARGUMENT (dims, order, place); REDUCE_E_BAD_HANDLE, _DEVICE_LOST (device). */
int reduce_put(reduce_client *c, const char *name, int dtype, const void *data, size_t bytes, const reduce_put_opts *opts);

/* The same with bytes of a file: fd, offset and further errors as for reduce_file. */
int reduce_put_file(reduce_client *c, const char *name, int dtype, int fd, uint64_t offset, uint64_t bytes,
                    const reduce_put_opts *opts);

#define REDUCE_REST UINT64_MAX

/* reduce_run on `bytes` bytes (REDUCE_REST: all) from byte `offset` of resident data; spec.dtype is their type and `offset` a
 * multiple of its size. Masks, weights, offsets and states are not possible. By key, `keys` are in memory, or `keys_name` says
 * which resident data they are; on a GPU they must be resident on it, too, and the operation sum, mean, count, min or max.
 * Results of columns, of groups, or of rows of several planes, may have more than 4 MiB. That needs a daemon on this machine,
 * and but for groups one without a GPU. Errors: those of reduce_run; REDUCE_E_BAD_HANDLE (no data of this name), REDUCE_E_TYPE
 * (they are of another type), REDUCE_E_SHAPE, REDUCE_E_TOO_LARGE (columns, rows; field "keys": keys in memory above 4 MiB with
 * more groups than states in 256 KiB). */
int reduce_named(reduce_client *c, const reduce_spec *spec, const char *name, uint64_t offset, uint64_t bytes, void *out,
                 size_t room, reduce_result *result);

typedef struct reduce_resident {
    uint32_t size;
    int32_t dtype; /* reduce_dtype */
    uint64_t bytes;
    uint64_t age_ms;  /* since the put */
    uint64_t left_ms; /* time left to live; UINT64_MAX = until dropped */
    uint32_t uses;    /* reductions of them under way */
    char name[68];
    uint32_t dims;      /* of their shape; 0: none was given */
    uint32_t order;     /* REDUCE_ORDER_C, REDUCE_ORDER_F */
    uint64_t shape[16]; /* `dims` lengths */
    uint64_t place;     /* REDUCE_PLACE_...; REDUCE_PLACE_ANY: the daemon has one device */
} reduce_resident;
#define REDUCE_RESIDENT_INIT                                      \
    {                                                             \
        sizeof(reduce_resident), 0, 0, 0, 0, 0, {0}, 0, 0, {0}, 0 \
    }

/* Call each(arg, r) for all arrays of the user, in any order, in this thread. A value other than 0 from `each` stops the calls
 * and is returned. Errors: the common ones. */
int reduce_list(reduce_client *c, int (*each)(void *arg, const reduce_resident *r), void *arg);

/* *r of one name; r->size must be set. Errors: the common ones; REDUCE_E_BAD_HANDLE (no data of this name). */
int reduce_find(reduce_client *c, const char *name, reduce_resident *r);

/* Drop the data of a name. Reductions of them that are under way are finished before the memory is freed. Errors: the common
 * ones; REDUCE_E_BAD_HANDLE (no data of this name). */
int reduce_drop(reduce_client *c, const char *name);

/* ---- streams: data that arrive in pieces ------------------------------------------------------------------------ */

/* One reduction of data that are passed in pieces, for pipes and data larger than memory. rows must be 1, but by key the number
 * of groups, whose states have at most 256 KiB. Elements are passed in order. REDUCE_STATES_IN, REDUCE_COLUMNS, `mask`,
 * `weights`, `keys` and `offsets` are not possible: merge states with reduce_run, and pass masks (REDUCE_MASKED), weights and
 * keys with the pieces. weights_dtype may say the type of weights; keys_dtype says that of the keys. The library
 * buffers a few chunks. It does not keep sent data, so a stream ends with REDUCE_E_STREAM_LOST if the daemon restarts. After
 * an error every further call on the stream except reduce_stream_abort returns the same error. Only a piece that is refused
 * with REDUCE_E_ARGUMENT leaves the stream as it was. deadline_ms counts from the begin. */
typedef struct reduce_stream reduce_stream;

/* Errors: the common ones; those of reduce_result_size; REDUCE_E_SHAPE (rows is not 1); REDUCE_E_TOO_LARGE (rows: groups; use
 * reduce_accumulators); REDUCE_E_ARGUMENT (a spec that is not possible in a stream). On success pass *s to _finish or _abort in
 * the end. */
int reduce_stream_begin(reduce_client *c, const reduce_spec *spec, reduce_stream **s);

/* Append a copy of `bytes` bytes. A piece may end inside an element, the whole stream may not. Blocks while all chunks are
 * under way. Errors: the common ones; REDUCE_E_STREAM_LOST, _DEADLINE, _TOO_LARGE; REDUCE_E_ARGUMENT (with REDUCE_MASKED). */
int reduce_stream_append(reduce_stream *s, const void *data, size_t bytes);

/* With REDUCE_MASKED: append `n` elements, with one byte of mask for each. Errors as for _append; REDUCE_E_ARGUMENT (without
 * REDUCE_MASKED). */
int reduce_stream_append_masked(reduce_stream *s, const void *elements, const void *mask, size_t n);

/* Of dot, wsum, wmean, cov, corr: append `n` elements with their weights, and with REDUCE_MASKED a byte of mask for each; else
 * `mask` is NULL. Errors as for _append; REDUCE_E_ARGUMENT (another operation; a mask that is missing, or not expected). */
int reduce_stream_append_pairs(reduce_stream *s, const void *elements, const void *weights, const void *mask, size_t n);

/* By key (a spec with keys_dtype, and rows = groups): append `n` elements with their keys, and with REDUCE_MASKED a byte of
 * mask for each; else `mask` is NULL. Errors as for _append; REDUCE_E_SHAPE (field "keys": a key is not a group; fault.index is
 * the element in the stream; of this piece or an earlier one); REDUCE_E_ARGUMENT (a stream without keys; a mask that is
 * missing, or not expected). */
int reduce_stream_append_keyed(reduce_stream *s, const void *elements, const void *keys, const void *mask, size_t n);

/* Append without a copy: _space gives *room bytes of free memory (at least 1) at *space. Fill them, then commit how many you
 * did, in one or more calls. An _append ends the room. Errors as for _append; REDUCE_E_ARGUMENT (more bytes than room). */
int reduce_stream_space(reduce_stream *s, void **space, size_t *room);
int reduce_stream_commit(reduce_stream *s, size_t bytes);

/* End the stream, wait for the value and free `s`, also on an error. `out`, `room` and `result` as for reduce_run.
 * Errors: the common ones; those of _append; REDUCE_E_SHAPE (the last element is cut), _EMPTY, _OVERFLOW, _NAN. */
int reduce_stream_finish(reduce_stream *s, void *out, size_t room, reduce_result *result);

/* Drop the stream and free `s`. NULL is allowed. */
void reduce_stream_abort(reduce_stream *s);

/* ---- jobs: reduce_run in the background ------------------------------------------------------------------------- */

typedef struct reduce_job reduce_job;

enum { REDUCE_PENDING = 1 }; /* from reduce_poll and reduce_wait: the job is not done */

/* Called once when a job is done, also when it was cancelled, on one of the library's threads (or inside reduce_close). It must
 * be quick and must not block. Of libreduce it may call only reduce_poll, reduce_submit, reduce_cancel, reduce_job_free and
 * functions that need no client. `err` is the value of reduce_poll. Other threads may see that the job is done while the
 * callback still runs: `arg` must live until reduce_job_free or reduce_close has returned, which wait for it. */
typedef void (*reduce_done)(void *arg, reduce_job *job, int err);

/* Start a reduce_run and return at once. `data`, `out` and the spec's mask and offsets must stay until the job is done; the
 * spec itself need not. `done` may be NULL. The callback may run before reduce_submit returns; *job is set by then. There may
 * be any number of jobs; the library bounds the requests under way. Errors are those of reduce_run that need no daemon; the job
 * reports the others. */
int reduce_submit(reduce_client *c, const reduce_spec *spec, const void *data, size_t bytes, void *out, size_t room,
                  reduce_done done, void *arg, reduce_job **job);

/* The same for reduce_file. */
int reduce_submit_file(reduce_client *c, const reduce_spec *spec, int fd, uint64_t offset, uint64_t bytes, void *out,
                       size_t room, reduce_done done, void *arg, reduce_job **job);

/* REDUCE_PENDING, or the job's end: the value that reduce_run would have returned. Then `result` (may be NULL) is set and, on
 * an error, this thread's reduce_errmsg. Never blocks; may be called again. */
int reduce_poll(reduce_job *job, reduce_result *result);

/* The same, after waiting for at most `wait_ms` (UINT32_MAX: until it is done, which the client's timeouts bound). Not from a
 * callback. */
int reduce_wait(reduce_job *job, uint32_t wait_ms, reduce_result *result);

/* Event loops: *fd is a descriptor of the client that is readable (POLLIN, EPOLLIN, also with EPOLLET) while some job has ended
 * that reduce_ended_next has not given. Call it before the first reduce_submit: jobs that were submitted before it, or with a
 * callback, are not among these. Do not read the descriptor. reduce_close closes it.
 *     reduce_ended_fd(c, &fd);  add fd to the loop;  reduce_submit(c, ..., NULL, arg, &job);  and when fd is readable:
 *     while (reduce_ended_next(c, &job, &arg) == 0) {  err = reduce_poll(job, &result);  ...  reduce_job_free(job);  }
 * Errors: the common ones (REDUCE_E_NO_MEMORY: the process has no descriptor left). */
int reduce_ended_fd(reduce_client *c, int *fd);

/* The job that ended first of those, and its `arg` (may be NULL); REDUCE_PENDING and NULL: there is none. Never blocks. A job
 * that is freed is not given any more. Errors: the common ones. */
int reduce_ended_next(reduce_client *c, reduce_job **job, void **arg);

/* Bytes of data that the daemon has acknowledged, and their total. From any thread. */
int reduce_job_progress(const reduce_job *job, uint64_t *done, uint64_t *total);

/* Ask the job to end soon with REDUCE_E_CANCELLED; no effect if it is done. Wait for the end before you reuse its memory. The
 * daemon drops the parts that it has not begun. */
void reduce_cancel(reduce_job *job);

/* Cancel, wait for the end unless called from the job's own callback, and free. NULL is allowed. */
void reduce_job_free(reduce_job *job);

/* ---- python: its signals during a call -------------------------------------------------------------------------- */

/* What reduce_python_signals works with: functions of Python's C API, by their names there. */
typedef struct reduce_python {
    uint64_t thread;                                     /* pthread_self() of the main thread, which alone handles signals */
    int (*gil_ensure)(void);                             /* PyGILState_Ensure */
    void (*gil_release)(int state);                      /* PyGILState_Release */
    int (*check_signals)(void);                          /* PyErr_CheckSignals */
    void (*fetch)(void **type, void **value, void **at); /* PyErr_Fetch */
    void *exception[3];                                  /* for PyErr_Restore; all NULL: none was raised */
} reduce_python;

/* The `interrupted` of a program in Python, for calls made without the interpreter's lock. `python` is a reduce_python.
 * On the main thread it lets Python handle its signals, and keeps the exception that a handler raises, such as
 * KeyboardInterrupt. It says 1 until the program, which looks after every call that failed, has taken the exception. */
int reduce_python_signals(void *python);

#pragma pop_macro("f64")
#pragma pop_macro("i64")
#pragma pop_macro("u64")
#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
