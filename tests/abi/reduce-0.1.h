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
 * This header is the manual; reading order: errors, names, client, results, simple calls, reduce_run, resident data, streams,
 * jobs. What each reduction means, to the bit, stands in PROTOCOL.md ("Reductions").
 *
 * Return values. Functions returning int give REDUCE_OK (0) or a negative reduce_err; the few that give something else
 *   say so. What went wrong, in words, is reduce_errmsg() of the same thread.
 * Threads. A reduce_client may be used by any number of threads at once. A reduce_stream and a reduce_job belong to one
 *   thread at a time. Error texts belong to the thread whose call failed. A client of a daemon on this machine has two
 *   threads, some more while it copies large arrays; for the network there are nng's. They run the completion callbacks,
 *   with all signals blocked.
 * Fork. A client does not survive fork(): in the child every call on it returns REDUCE_E_FORKED. The child can open its own;
 *   over the network (tcp, tls) only if the parent had not opened such a one before.
 * Signals. No call is cut short by a signal; the library installs no handler.
 * Memory. Arrays that you pass stay yours, may have any alignment, are only read, and must stay untouched until the call
 *   returns (jobs: until the job is done). Nothing returned has to be freed except what a function named *_open,
 *   *_begin or *_submit made: by *_close, *_finish or *_abort, *_free.
 * Time. Durations are milliseconds (uint32_t, at most 2^31 - 1 but for reduce_wait) where they are asked for, nanoseconds
 *   (uint64_t) where they are told.
 *   Every call ends: see `timeout_ms` and `deadline_ms`.
 * Structs that begin with `size` come from their _INIT macro, so that later versions can add fields:
 *     reduce_spec s = REDUCE_SPEC_INIT;  s.op = REDUCE_MAX;  s.dtype = REDUCE_I32;
 *   A `size` that is not that of some version of the struct gives REDUCE_E_ARGUMENT.
 * NULL. A NULL where a pointer is needed gives REDUCE_E_ARGUMENT, never a crash; arrays of zero bytes may be NULL.
 *   *_close and *_free accept NULL and do nothing.
 *
 * Any call on a client may return, besides what it lists: REDUCE_E_ARGUMENT, REDUCE_E_FORKED, REDUCE_E_NO_MEMORY; and if
 * it talks to the daemon: REDUCE_E_NO_DAEMON, REDUCE_E_TIMEOUT, REDUCE_E_BUSY, REDUCE_E_QUOTA, REDUCE_E_AUTH,
 * REDUCE_E_VERSION, REDUCE_E_DEVICE_LOST, REDUCE_E_PROTOCOL, REDUCE_E_INTERNAL. These are called the common errors.
 */
#ifndef REDUCE_H
#define REDUCE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The version of this header; reduce_version() gives that of the library in use. Same major: compatible. */
#define REDUCE_VERSION_MAJOR 0
#define REDUCE_VERSION_MINOR 1
#define REDUCE_VERSION_PATCH 0
#define REDUCE_VERSION (REDUCE_VERSION_MAJOR * 10000 + REDUCE_VERSION_MINOR * 100 + REDUCE_VERSION_PATCH)
uint32_t reduce_version(void);

/* ---- errors ----------------------------------------------------------------------------------------------------- */

typedef enum reduce_err {
    REDUCE_OK = 0,
    /* from the daemon: minus the code of PROTOCOL.md */
    REDUCE_E_BAD_MESSAGE = -1, /* a field of the request is malformed */
    REDUCE_E_VERSION = -2,     /* daemon and library speak no common protocol version */
    REDUCE_E_TYPE = -3,        /* the element or reply type does not suit the operation */
    REDUCE_E_OP = -4,          /* unknown operation */
    REDUCE_E_SHAPE = -5,       /* lengths, rows or offsets do not fit together */
    REDUCE_E_EMPTY = -6,       /* no element to choose from (min, max, minmax, range, argmin, argmax) */
    REDUCE_E_OVERFLOW = -7,    /* the exact value does not fit the reply type; the fault carries it */
    REDUCE_E_NAN = -8,         /* a NaN was found and the policy is REDUCE_NAN_ERROR */
    REDUCE_E_TOO_LARGE = -9,   /* above a cap; the fault names it */
    REDUCE_E_QUOTA = -10,      /* this client's share of a resource is used up */
    REDUCE_E_BUSY = -11,       /* no capacity, also after the repeats that the time allowed */
    REDUCE_E_DEADLINE = -12,   /* not done within deadline_ms */
    REDUCE_E_CANCELLED = -13,  /* reduce_cancel or reduce_close came first; with REDUCE_NO_RETRY also the daemon's end */
    REDUCE_E_NO_SESSION = -14, /* the daemon forgot us; the library says hello again by itself */
    REDUCE_E_BAD_HANDLE = -15, /* the daemon does not know the stream, or has no data of the name */
    REDUCE_E_IO = -16,         /* reading the data failed */
    REDUCE_E_AUTH = -17,       /* not allowed */
    REDUCE_E_DEVICE_LOST = -18,/* the device failed, also after repeats */
    REDUCE_E_NO_MEMORY = -19,  /* out of memory, here or in the daemon */
    REDUCE_E_INTERNAL = -20,   /* a defect of the daemon */
    REDUCE_E_EXISTS = -21,     /* data of the name are there already */
    /* from the library */
    REDUCE_E_ARGUMENT = -101,    /* an argument is invalid (NULL, wrong `size`, wrong state) */
    REDUCE_E_NO_DAEMON = -102,   /* nobody listens, or the daemon went away and did not come back in time */
    REDUCE_E_TIMEOUT = -103,     /* no progress for timeout_ms */
    REDUCE_E_STREAM_LOST = -104, /* the daemon restarted during a stream: begin again with the first element */
    REDUCE_E_FORKED = -105,      /* used in a forked child */
    REDUCE_E_PROTOCOL = -106,    /* the reply is not one of this protocol */
    REDUCE_E_START = -107        /* the daemon could not be started */
} reduce_err;

/* The last failure in full. Meaningful after a call of this thread returned a negative value. */
typedef struct reduce_fault {
    uint32_t size;
    int32_t code;        /* reduce_err */
    uint64_t limit;      /* the cap that was passed, 0 if none */
    uint64_t index;      /* the result (row, segment, column) concerned; field "offsets": the first wrong offset;
                            REDUCE_NO_INDEX if none */
    uint64_t value_low;  /* REDUCE_E_OVERFLOW: the exact value, 128-bit two's complement; 2^127-1 stands for that or more */
    uint64_t value_high; /*   (prod, sumsq) */
    uint32_t retry_ms;   /* REDUCE_E_BUSY: the daemon's hint */
    char field[28];      /* which field or argument, "" if none */
    char text[164];      /* one line for people */
} reduce_fault;
#define REDUCE_FAULT_INIT {sizeof(reduce_fault), 0, 0, 0, 0, 0, 0, {0}, {0}}
#define REDUCE_NO_INDEX UINT64_MAX

/* One line about the last failure of this thread: "OVERFLOW: row 3: ..."; a column or segment is called row there, too. "" if
 * none. Valid until the thread's next libreduce call. */
const char *reduce_errmsg(void);

/* The same in fields. REDUCE_E_ARGUMENT if `f` is NULL or its size is wrong. */
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
    REDUCE_STATS = 24 /* a reduce_stats */
} reduce_op;

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
    REDUCE_F64 = 12
} reduce_dtype;

typedef enum reduce_nan {
    REDUCE_NAN_PROPAGATE = 0, /* any NaN makes the result NaN */
    REDUCE_NAN_OMIT = 1,      /* skip NaNs */
    REDUCE_NAN_ERROR = 2      /* any NaN is REDUCE_E_NAN */
} reduce_nan;

/* How data travel. AUTO takes the fastest that is possible: memory of reduce_alloc and files are read by the daemon where
 * they are; other large arrays are copied into memory shared with it; small ones, and all over tcp, go in messages. */
typedef enum reduce_path {
    REDUCE_PATH_AUTO = 0,
    REDUCE_PATH_INLINE = 1, /* in the request */
    REDUCE_PATH_STREAM = 2, /* reduce_stream_* */
    REDUCE_PATH_SHM = 3,    /* through memory shared with the daemon */
    REDUCE_PATH_FILE = 4,   /* the daemon read the file */
    REDUCE_PATH_RESIDENT = 5, /* not at all: reduce_named */
    REDUCE_PATH_DEVICE = 6   /* not at all: reduce_device */
} reduce_path;

/* Names as reducectl writes them: "sum", "f32", "omit", "cuda", "stream". "?" if unknown; static. */
const char *reduce_op_name(int op);
const char *reduce_op_help(int op);
const char *reduce_dtype_name(int dtype);
const char *reduce_nan_name(int nan);
const char *reduce_backend_name(int backend);
const char *reduce_path_name(int path);
const char *reduce_priority_name(int priority);

/* The code of a name, or 0 if there is none (reduce_nan_parse, reduce_priority_parse: -1). NULL is no name. */
int reduce_path_parse(const char *name);
int reduce_priority_parse(const char *name);
int reduce_op_parse(const char *name);
int reduce_dtype_parse(const char *name);
int reduce_nan_parse(const char *name);

/* Bytes of an element; 0 if unknown. */
size_t reduce_dtype_size(int dtype);

/* Bytes of a partial state of (op, dtype); 0 if unknown. */
size_t reduce_state_size(int op, int dtype);

/* ---- client ----------------------------------------------------------------------------------------------------- */

/* A connection to one daemon. It reconnects by itself and repeats requests that a restart of the daemon cut off
 * (reductions give the same answer again), within the times below. */
typedef struct reduce_client reduce_client;

enum {
    REDUCE_AUTOSTART = 1, /* if nobody listens, start a private daemon of this user in the background */
    REDUCE_WAIT = 2,      /* if nobody listens, keep trying for connect_timeout_ms instead of failing at once */
    REDUCE_NO_RETRY = 4   /* tell BUSY and lost connections instead of repeating */
};

/* How much a client gets when there is more to do than the device can: all clients of HIGH together four times as much as all
 * of NORMAL, and those of BACKGROUND a quarter of that. HIGH is for users whom the daemon's administrator allows it,
 * REDUCE_E_AUTH for the others; who was made BACKGROUND by him stays it (reduce_info.priority). */
typedef enum reduce_priority {
    REDUCE_PRIORITY_NORMAL = 0,
    REDUCE_PRIORITY_HIGH = 1,
    REDUCE_PRIORITY_BACKGROUND = 2
} reduce_priority;

typedef struct reduce_open_opts {
    uint32_t size;
    uint32_t flags;                /* REDUCE_AUTOSTART | REDUCE_WAIT | REDUCE_NO_RETRY */
    const char *name;              /* shown in the daemon's log and status, cut at 64 bytes; NULL: the program's name */
    uint32_t connect_timeout_ms;   /* reduce_open gives up after this (a daemon being started: plus 10 s) */
    uint32_t reconnect_timeout_ms; /* a daemon that went away is awaited this long */
    uint32_t timeout_ms;           /* a call fails if the daemon makes no progress on it for this long; a long stream
                                      may take hours. 0 means the default here and above */
    const char *daemon;            /* AUTOSTART: the program; NULL: "reduced" beside this executable, then in $PATH */
    uint32_t idle_exit_s;          /* AUTOSTART: the started daemon leaves after this long without clients */
    const char *tls_ca;            /* tls+tcp: PEM file of the CAs whose daemon is trusted; NULL: $REDUCED_TLS_CA */
    const char *tls_cert;          /* our certificate, which the daemon asks for; NULL: $REDUCED_TLS_CERT */
    const char *tls_key;           /* its key, without a passphrase; NULL: $REDUCED_TLS_KEY */
    int32_t priority;              /* reduce_priority of all that this client asks for */
    uint32_t reserved;             /* 0 */
} reduce_open_opts;
#define REDUCE_OPEN_OPTS_INIT {sizeof(reduce_open_opts), 0, NULL, 5000, 10000, 60000, NULL, 600, NULL, NULL, NULL, 0, 0}

/* Connect and say hello. `url`: "ipc:///path/of.sock", "tls+tcp://host:port" (the certificate of the daemon must name the
 * host, an address too, as a DNS name) or "tcp://host:port" (neither encrypted nor authenticated); NULL tries $REDUCED_URL
 * alone if that is set, else the user's socket ($XDG_RUNTIME_DIR/reduced.sock), then the system's
 * (/run/reduced/reduced.sock). `opts` may be NULL. On success *c is yours to reduce_close; on failure it is NULL.
 * Errors: the common ones; REDUCE_E_START (AUTOSTART: program missing or it did not come up). */
int reduce_open(reduce_client **c, const char *url, const reduce_open_opts *opts);

/* Cancel the jobs of the client, wait for their callbacks, disconnect, free. Calls of other threads and streams must have
 * ended; job handles stay valid until reduce_job_free. Not from a callback. In a forked child it does nothing. */
void reduce_close(reduce_client *c);

/* A round trip through the daemon; *ns (may be NULL) is how long it took. Errors: the common ones. */
int reduce_ping(reduce_client *c, uint64_t *ns);

/* The daemon this client is connected to, from memory. */
typedef struct reduce_info {
    uint32_t size;
    uint32_t wire_version; /* of the protocol */
    uint32_t max_data;     /* element bytes of one message */
    uint32_t chunk_bytes;  /* bytes of one chunk of a stream */
    uint32_t max_inflight; /* requests of one client under way at once; the library queues the others */
    uint32_t reconnects;   /* since reduce_open */
    uint32_t autostarted;  /* 1 if reduce_open started it */
    int32_t priority;      /* reduce_priority that the daemon gave */
    char url[256];
    char server[68];       /* "reduced 0.1.0" */
    char side[96];         /* why shared memory or a file could not be passed lately and messages served instead, or "" */
} reduce_info;
#define REDUCE_INFO_INIT {sizeof(reduce_info), 0, 0, 0, 0, 0, 0, 0, {0}, {0}, {0}}
int reduce_get_info(const reduce_client *c, reduce_info *info);

/* What the daemon tells about itself: keys such as "backend", "device", "requests.total" with a number or a text. Keys
 * may be added; show or skip what you do not know. */
enum { REDUCE_TOPIC_INFO = 1, REDUCE_TOPIC_STATUS = 2 };
enum { REDUCE_KIND_U64 = 1, REDUCE_KIND_F64 = 2, REDUCE_KIND_TEXT = 3 };
typedef struct reduce_entry {
    const char *key;
    int kind; /* which of the following holds */
    uint64_t u64;
    double f64;
    const char *text;
} reduce_entry;
/* Ask, then call each(arg, entry) for every entry in the daemon's order, in this thread; pointers are valid during that
 * call. A value other than 0 from `each` stops and is returned. Errors: the common ones. */
int reduce_query(reduce_client *c, int topic, int (*each)(void *arg, const reduce_entry *e), void *arg);

/* The daemon's counters as Prometheus text (PROTOCOL.md, "Metrics"): take(arg, text) is called once, in this thread; the
 * text is valid during that call. What `take` returns is returned. Errors: the common ones. */
int reduce_metrics(reduce_client *c, int (*take)(void *arg, const char *text), void *arg);

/* ---- results ---------------------------------------------------------------------------------------------------- */

/* A number of the class of the elements: f64 for floats, i64 for signed, u64 for unsigned elements. */
typedef union reduce_value {
    double f64;
    int64_t i64;
    uint64_t u64;
} reduce_value;

/* What REDUCE_STATS gives. Of no elements: argmin and argmax are REDUCE_NO_INDEX, min and max NaN or 0; sum 0, mean, var
 * and std NaN. */
typedef struct reduce_stats {
    uint64_t count;    /* elements that took part: without those masked out; policy omit: without NaNs */
    uint64_t nans;     /* NaNs among the elements, skipped ones included */
    uint64_t zeros;    /* elements equal to zero */
    uint64_t argmin;   /* index of the first smallest, of the first largest element */
    uint64_t argmax;
    reduce_value min;
    reduce_value max;
    reduce_value sum;  /* integers: the low word of 128-bit two's complement, so that it never overflows */
    uint64_t sum_high; /* its high word; 0 for floats */
    double mean;
    double var;        /* with the spec's ddof */
    double std;
} reduce_stats;

/* ---- reduce_run: any reduction ---------------------------------------------------------------------------------- */

enum {
    REDUCE_STATES_IN = 1,  /* the data holds partial states of (op, dtype) instead of elements */
    REDUCE_STATES_OUT = 2, /* give partial states instead of finished values */
    REDUCE_WRAP = 4,       /* prod of integers: modulo 2^64 instead of REDUCE_E_OVERFLOW */
    REDUCE_MASKED = 16,    /* streams: each piece comes with its mask, by reduce_stream_append_masked */
    REDUCE_COLUMNS = 64    /* the data are a matrix, row after row: one result for each column instead of each row */
};

/* What to reduce.
 *
 * Shape: without more, the data are one array and give one result. Or
 *   rows > 1         so many equal rows, a result for each (a matrix along its last axis);
 *   REDUCE_COLUMNS   a matrix of `rows` rows, a result for each column (along its first axis);
 *   offsets          segments of any lengths, also 0: segment i is elements offsets[i] up to, not including, offsets[i+1];
 *                    rows = how many segments. What lies before offsets[0] and behind offsets[rows] is not looked at.
 * The index that argmin, argmax and stats give is that within the row, column or segment, plus index_base.
 *
 * Partial states are exact: states of shards (same op, dtype and nan), computed anywhere in any order and merged by a run with
 * REDUCE_STATES_IN, finish to the same bits as one run over all elements. Data of a run with REDUCE_STATES_IN are rows of
 * equally many states, row i those of result i; no mask, offsets or columns go with them. With REDUCE_STATES_OUT as well they
 * merge into states again. States are plain bytes to keep or send; PROTOCOL.md ("Partial states") describes them. */
typedef struct reduce_spec {
    uint32_t size;
    int32_t op;              /* reduce_op */
    int32_t dtype;           /* reduce_dtype of the elements */
    int32_t out;             /* reduce_dtype of the values: 0 = the default. sum prod min max minmax range sumsq norm1
                                norminf: f64 (or f16 bf16 f32) of floats, i64 or u64 of integers (default by sign); mean var
                                std norm2: f64 (or f16 bf16 f32) of all; and or xor: i64 or u64; counts, indexes, any, all: u64;
                                stats: fixed */
    int32_t nan;             /* reduce_nan */
    uint32_t flags;          /* REDUCE_STATES_IN ... */
    uint32_t ddof;           /* var, std, stats: divide by the count less this */
    uint32_t deadline_ms;    /* the whole call must end within this, else REDUCE_E_DEADLINE; 0 = none */
    int32_t path;            /* reduce_path: another than AUTO is for tests and measurements, and REDUCE_E_ARGUMENT if it
                                cannot be had. Offsets and states go in messages all the same */
    uint32_t reserved;       /* 0 */
    uint64_t rows;           /* >= 1 */
    uint64_t index_base;     /* where this shard starts in the whole array */
    const void *initial;     /* one element of the dtype, or NULL: put in front of every row, segment or column, without an
                                index (argmin, argmax: REDUCE_NO_INDEX if it wins), counted and subject to `nan` like any
                                other. It goes in when a value is finished: not with REDUCE_STATES_OUT. Copied at once */
    const void *mask;        /* one byte for each element, or NULL: 0 leaves the element out; indexes stay */
    const uint64_t *offsets; /* rows + 1 of them, ascending, none above the number of elements; or NULL */
} reduce_spec;
#define REDUCE_SPEC_INIT \
    {sizeof(reduce_spec), REDUCE_SUM, REDUCE_F32, 0, REDUCE_NAN_PROPAGATE, 0, 0, 0, 0, 0, 1, 0, NULL, NULL, NULL}

typedef struct reduce_result {
    uint32_t size;
    int32_t dtype;       /* reduce_dtype of the values, 0 for states. stats: of min, max and sum (f64, i64 or u64) */
    int32_t backend;     /* who computed it: 1 CPU, 2 CUDA; reduce_backend_name */
    int32_t path;        /* reduce_path: how the data travelled; of several, the one with the lowest number */
    uint64_t cell_size;  /* bytes of a result: a value, two (minmax), a reduce_stats, or a state */
    uint64_t cells;      /* results: rows, segments or columns */
    uint64_t count;      /* elements (or states) given */
    uint64_t queue_ns;   /* in the daemon before the start, summed over messages */
    uint64_t copy_ns;    /* from a file and to the device, summed over chunks */
    uint64_t compute_ns; /* computing, summed over chunks: may exceed wall_ns when they overlap */
    uint64_t wall_ns;    /* from the start of the call to its end */
    uint64_t batch;      /* requests, of any clients, that shared a launch on the device with this one, itself included;
                            of several messages the most; 0: each had a launch of its own */
} reduce_result;
#define REDUCE_RESULT_INIT {sizeof(reduce_result), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* Bytes that `out` of reduce_run needs for `bytes` of data: results x the size of one. Only REDUCE_COLUMNS looks at
 * `bytes`. Errors: REDUCE_E_OP, _TYPE, _BAD_MESSAGE (nan, flags, ddof, initial), _SHAPE (rows = 0; bytes that are no matrix of
 * `rows` rows), _TOO_LARGE. */
int reduce_result_size(const reduce_spec *spec, size_t bytes, size_t *room);

/* Reduce `bytes` of data into `out`, which has room for `room` bytes: row after row, segment after segment or column after
 * column. Arrays of any size and shape: what does not fit one message is cut, several messages are under way at once,
 * memory stays bounded by the results and 4 % of the data, and the bits are the same. `result` may be NULL.
 * Errors: the common ones; those of reduce_result_size; REDUCE_E_ARGUMENT (room too small; REDUCE_MASKED); REDUCE_E_SHAPE
 * (bytes are no multiple of rows x element size; offsets: fault.index is the first that is wrong); REDUCE_E_EMPTY, _OVERFLOW,
 * _NAN (fault.index is the first result concerned); REDUCE_E_DEADLINE; REDUCE_E_BAD_MESSAGE (a malformed state). On an error
 * the contents of `out` are undefined. */
int reduce_run(reduce_client *c, const reduce_spec *spec, const void *data, size_t bytes, void *out, size_t room,
               reduce_result *result);

/* The same for `bytes` bytes of a regular file from byte `offset` on (where a .npy file's data begin, say): elements, also
 * rows of them, but no mask, offsets, columns or states. The daemon reads them itself, several pieces at a time, if it can
 * be given the descriptor, which must be open for reading; else the library reads them and sends them. The file is never
 * mapped, its position is neither used nor moved, and the descriptor must stay open until the call returns (jobs: until the
 * job is done). Errors: those of reduce_run; REDUCE_E_IO (no regular file: use a stream; it ends too early, or reading
 * fails); REDUCE_E_ARGUMENT (what is not possible). */
int reduce_file(reduce_client *c, const reduce_spec *spec, int fd, uint64_t offset, uint64_t bytes, void *out, size_t room,
                reduce_result *result);

/* ---- memory shared with the daemon ------------------------------------------------------------------------------ */

/* `bytes` of memory, all 0 and aligned to a page, that the daemon has mapped, too: arrays in it are reduced without being
 * copied. Where the daemon cannot share (tcp, a quota), it is memory like any other: reduce_info.side tells why. While
 * arrays in it are being reduced they may be read, but not written: elements that change give some result or other.
 * Errors: the common ones. */
int reduce_alloc(reduce_client *c, size_t bytes, void **memory);

/* Give it back; nothing may be under way with it. NULL is fine; reduce_close frees what is left. */
void reduce_free(reduce_client *c, void *memory);

/* ---- data on the GPU ------------------------------------------------------------------------------------------- */

/* reduce_run on `bytes` bytes of this process's memory on the daemon's GPU, which they do not leave: from byte `offset` of
 * the allocation that `handle` stands for, the 64 bytes that cudaIpcGetMemHandle gave of it. For memory of cudaMalloc (CuPy's
 * and PyTorch's pools included), not of cudaMallocAsync; for memory of cuMemCreate see reduce_device_import. `offset` counts
 * from the allocation's first byte (cuMemGetAddressRange tells it) and is a multiple of the element's size. No mask, no
 * offsets, no states; of columns at most what a reply holds (4 MiB).
 * Order: the daemon knows nothing of your streams. Finish what writes the data before the call (cudaStreamSynchronize),
 * and begin to overwrite them after it.
 * The daemon maps an allocation once, with the first call, and keeps it until reduce_device_close or reduce_close: call one of
 * them before you free the allocation. It takes handles of processes of its own user only, over ipc.
 * Errors: those of reduce_run; REDUCE_E_BAD_HANDLE (no such allocation on the daemon's GPU), REDUCE_E_SHAPE (beyond the
 * end of the allocation; `offset`), REDUCE_E_TYPE (field "device": the daemon computes on the CPU), REDUCE_E_AUTH (another
 * user's daemon), REDUCE_E_TOO_LARGE (columns). */
int reduce_device(reduce_client *c, const reduce_spec *spec, const void *handle, uint64_t offset, uint64_t bytes, void *out,
                  size_t room, reduce_result *result);

/* A handle for reduce_device of memory of cuMemCreate, `bytes` bytes as it was created: cuMemExportToShareableHandle gave the
 * descriptor `fd` of it, as CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR. 64 bytes go to `handle`; they mean something to this
 * client only, until reduce_device_close. The descriptor stays yours and may be closed at once. Here the daemon may be
 * another user's, and memory that you free stays until reduce_device_close.
 * Errors: the common ones; REDUCE_E_BAD_HANDLE (no such memory of the daemon's GPU, or not of that size; `descriptor`),
 * REDUCE_E_TYPE (field "device": the daemon computes on the CPU), REDUCE_E_QUOTA. */
int reduce_device_import(reduce_client *c, int fd, uint64_t bytes, void *handle);

/* Let go of an allocation; no reduce_device on it may be under way. Unknown ones do no harm. */
int reduce_device_close(reduce_client *c, const void *handle);

/* ---- resident data: put once, reduce often ----------------------------------------------------------------------- */

/* Arrays that stay with the daemon under a name, on its device if it has one, and are reduced there without travelling again.
 * They belong to the user: any program of the same user can reduce, replace and drop them, nobody else can or even sees them.
 * They stay until one of these drops them, until their time to live is over, or until the daemon ends. Over ipc only. A name
 * has 1 to 64 letters, digits, '_', '.' and '-' and begins with neither of the last two. */

enum { REDUCE_REPLACE = 1 }; /* reduce_put: in place of data that have the name, in one moment, once the new ones are there */

typedef struct reduce_put_opts {
    uint32_t size;
    uint32_t flags;       /* REDUCE_REPLACE */
    uint32_t ttl_ms;      /* to live; 0 = until dropped. At most 2^31 - 1 */
    uint32_t deadline_ms; /* the put must end within this, else REDUCE_E_DEADLINE; 0 = none */
    int32_t path;         /* reduce_path: as in reduce_spec */
    uint32_t reserved;    /* 0 */
} reduce_put_opts;
#define REDUCE_PUT_OPTS_INIT {sizeof(reduce_put_opts), 0, 0, 0, 0, 0}

/* Put `bytes` bytes of elements of `dtype` (reduce_dtype) there, at least one. `opts` may be NULL. They travel as they do for
 * reduce_run; a put that fails, or whose program dies, leaves nothing. If the daemon restarts meanwhile, it begins again.
 * Errors: the common ones; REDUCE_E_EXISTS (the name is taken, without REDUCE_REPLACE), REDUCE_E_QUOTA (bytes or arrays of the
 * user or of all; what will be replaced counts), REDUCE_E_TOO_LARGE (more than a user may have; name; ttl_ms),
 * REDUCE_E_BAD_MESSAGE (name), REDUCE_E_TYPE, REDUCE_E_SHAPE (no bytes, or part of an element), REDUCE_E_DEADLINE. */
int reduce_put(reduce_client *c, const char *name, int dtype, const void *data, size_t bytes, const reduce_put_opts *opts);

/* The same with bytes of a file: fd, offset and further errors as for reduce_file. */
int reduce_put_file(reduce_client *c, const char *name, int dtype, int fd, uint64_t offset, uint64_t bytes,
                    const reduce_put_opts *opts);

#define REDUCE_REST UINT64_MAX

/* reduce_run on `bytes` bytes (REDUCE_REST: all) from byte `offset` of resident data; spec.dtype is theirs and `offset` a
 * multiple of its size. No mask, no offsets, no states; of columns at most what a reply holds (4 MiB). Errors: those of
 * reduce_run; REDUCE_E_BAD_HANDLE (no data of this name), REDUCE_E_TYPE (they are of another type), REDUCE_E_SHAPE,
 * REDUCE_E_TOO_LARGE (columns). */
int reduce_named(reduce_client *c, const reduce_spec *spec, const char *name, uint64_t offset, uint64_t bytes, void *out,
                 size_t room, reduce_result *result);

typedef struct reduce_resident {
    uint32_t size;
    int32_t dtype;    /* reduce_dtype */
    uint64_t bytes;
    uint64_t age_ms;  /* since they were put */
    uint64_t left_ms; /* to live; UINT64_MAX = until dropped */
    uint32_t uses;    /* reductions of them under way */
    char name[68];
} reduce_resident;
#define REDUCE_RESIDENT_INIT {sizeof(reduce_resident), 0, 0, 0, 0, 0, {0}}

/* Call each(arg, r) for all of the user's, in no order, in this thread. A value other than 0 from `each` stops and is
 * returned. Errors: the common ones. */
int reduce_list(reduce_client *c, int (*each)(void *arg, const reduce_resident *r), void *arg);

/* *r of one name; r->size must be set. Errors: the common ones; REDUCE_E_BAD_HANDLE (there are none of this name). */
int reduce_find(reduce_client *c, const char *name, reduce_resident *r);

/* Drop them. Reductions under way with them end as if nothing had happened; then the memory is free. Errors: the common ones;
 * REDUCE_E_BAD_HANDLE (there are none of this name). */
int reduce_drop(reduce_client *c, const char *name);

/* ---- streams: data that comes in pieces ------------------------------------------------------------------------- */

/* One reduction fed bit by bit, for pipes and data larger than memory. rows must be 1 and the elements in order;
 * REDUCE_STATES_IN, REDUCE_COLUMNS, `mask` and `offsets` are not possible: merge states with reduce_run, and give masks with
 * the pieces (REDUCE_MASKED). The library buffers a few chunks. A stream cannot survive a restart of the daemon, since the
 * library does not keep what was sent: REDUCE_E_STREAM_LOST. After an error every further call on the stream but
 * reduce_stream_abort returns the same error. deadline_ms counts from the begin. */
typedef struct reduce_stream reduce_stream;

/* Errors: the common ones; those of reduce_result_size; REDUCE_E_SHAPE (rows is not 1); REDUCE_E_ARGUMENT (what is not possible
 * in a stream). On success *s must go to _finish or _abort. */
int reduce_stream_begin(reduce_client *c, const reduce_spec *spec, reduce_stream **s);

/* Copy `bytes` more. A piece may end inside an element; the whole may not. Blocks while all chunks are under way.
 * Errors: the common ones; REDUCE_E_STREAM_LOST, _DEADLINE, _TOO_LARGE; REDUCE_E_ARGUMENT (with REDUCE_MASKED). */
int reduce_stream_append(reduce_stream *s, const void *data, size_t bytes);

/* With REDUCE_MASKED: `n` elements more, and a byte of mask for each. Errors as for _append; REDUCE_E_ARGUMENT (without). */
int reduce_stream_append_masked(reduce_stream *s, const void *elements, const void *mask, size_t n);

/* _append without a copy: *room bytes of free memory (at least 1) at *space to read into, then say how many were filled.
 * Errors as for _append; REDUCE_E_ARGUMENT (more bytes than room). */
int reduce_stream_space(reduce_stream *s, void **space, size_t *room);
int reduce_stream_commit(reduce_stream *s, size_t bytes);

/* End the stream, wait for the value and free `s`, also on an error. `out`, `room` and `result` as for reduce_run.
 * Errors: the common ones; those of _append; REDUCE_E_SHAPE (the last element is cut), _EMPTY, _OVERFLOW, _NAN. */
int reduce_stream_finish(reduce_stream *s, void *out, size_t room, reduce_result *result);

/* Drop the stream and free `s`. NULL is fine. */
void reduce_stream_abort(reduce_stream *s);

/* ---- jobs: reduce_run in the background ------------------------------------------------------------------------- */

typedef struct reduce_job reduce_job;

enum { REDUCE_PENDING = 1 }; /* from reduce_poll and reduce_wait: not done yet */

/* Called once when a job is done, cancelled ones included, on one of the library's threads (or inside reduce_close): be
 * quick, do not block; of libreduce call only reduce_poll, reduce_submit, reduce_cancel, reduce_job_free and what needs no
 * client. `err` is what reduce_poll returns. */
typedef void (*reduce_done)(void *arg, reduce_job *job, int err);

/* Start what reduce_run does and return at once. `data`, `out` and the spec's mask and offsets must stay until the job is
 * done; the spec itself need not. `done` may be NULL.
 * The callback may run before reduce_submit returns; *job is set by then. Any number of jobs; the library bounds what is
 * under way. Errors are those of reduce_run that need no daemon; the others are the job's. */
int reduce_submit(reduce_client *c, const reduce_spec *spec, const void *data, size_t bytes, void *out, size_t room,
                  reduce_done done, void *arg, reduce_job **job);

/* The same for reduce_file. */
int reduce_submit_file(reduce_client *c, const reduce_spec *spec, int fd, uint64_t offset, uint64_t bytes, void *out,
                       size_t room, reduce_done done, void *arg, reduce_job **job);

/* REDUCE_PENDING, or the job's end: what reduce_run would have returned, with `result` (may be NULL) and, on an error, this
 * thread's reduce_errmsg set. Never blocks; may be asked again. */
int reduce_poll(reduce_job *job, reduce_result *result);

/* The same, waiting for at most `wait_ms` (UINT32_MAX: until it is done, which the client's timeouts bound). Not from a
 * callback. */
int reduce_wait(reduce_job *job, uint32_t wait_ms, reduce_result *result);

/* Bytes of data acknowledged by the daemon so far, and in all. From any thread. */
int reduce_job_progress(const reduce_job *job, uint64_t *done, uint64_t *total);

/* Ask the job to end soon with REDUCE_E_CANCELLED; nothing if it is done. Wait for the end before reusing its memory. What
 * the daemon has not begun is dropped there, too. */
void reduce_cancel(reduce_job *job);

/* Cancel, wait for the end unless called from the job's own callback, free. NULL is fine. */
void reduce_job_free(reduce_job *job);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
