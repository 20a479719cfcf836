/* reducectl: the command line on top of libreduce's public calls.
 *
 *   main.c            wiring and exit codes          options.c       the command line
 *   options_check.c   which options go together      op_table.h      names and traits of the operations
 *   help.c            what --help and topics say     help_rows.c     their texts
 *   help_topic.c      help about one word
 *   suggest.c         what a mistyped word might have meant (pure)
 *   input.c           files and pipes as elements    resident.c      put, ls, drop, @NAME
 *   output.c          result and error lines         progress.c      the bar on a terminal
 *   spool.c           pipes that are read again      keep_pipe.c     what a pipe brings, in memory
 *   open_path.c       files, or what is kept of pipes
 *   interrupt.c       Ctrl-C                         find_device.c   a GPU by its UUID
 *   query.c           ping, info, metrics            status_text.c   status by section
 *   ladder.c          runs reducectl-ladder          column_list.c   FILE:#1,#3-#5
 *   formats/          files that hold arrays         hdf5/           the program reducectl-hdf5
 *   reduce/           the reductions of a command: which elements belong to which result, and how they are sent
 *   text/             numbers as text, both ways (pure, but for read_text.c)
 *   top/              reducectl top */
#ifndef CTL_H
#define CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "client/reduce.h"

/* Exit codes of the command */
enum { CTL_OK = 0, CTL_FAILED = 1, CTL_USAGE = 2, CTL_NO_DAEMON = 3, CTL_INTERRUPTED = 130 };

enum { CTL_WHY = 256 }; /* bytes of an error line */

/* Elements of one input, and results: the protocol's cap. Their bytes, with a mask's, fit 64 bits. */
#define CTL_MAX_COUNT (UINT64_C(1) << 60)

/* ---- options.c ---- */

typedef enum {
    CTL_REDUCE,
    CTL_PING,
    CTL_INFO,
    CTL_STATUS,
    CTL_METRICS,
    CTL_TOP,
    CTL_PUT,
    CTL_LS,
    CTL_DROP,
    CTL_HELP,
    CTL_VERSION
} ctl_command;
typedef enum { CTL_DECIMAL, CTL_HEX, CTL_JSON, CTL_RAW } ctl_format;

enum { CTL_MAX_OPS = 24, CTL_MAX_DIMS = 64 };

typedef struct ctl_sink ctl_sink;

/* What the user says about tables as text. 0, NULL: nothing. */
typedef struct ctl_dialect {
    char delimiter, decimal, quote, comment;
    bool unquoted; /* --quote none */
    int header;    /* 1: there is one, -1: there is none */
    uint64_t skip_lines;
    const char *missing; /* words, with commas between */
} ctl_dialect;

typedef struct ctl_options {
    ctl_command command;
    int ops[CTL_MAX_OPS], n_ops;          /* several operations at once; n_ops 0: spec.op alone */
    double ops_q[CTL_MAX_OPS];            /* of p99 and its like, which are REDUCE_QUANTILE */
    double q[REDUCE_MAX_QUANTILES];       /* spec.q */
    bool ranked;                          /* --k was given */
    bool quantiles;                       /* of stats, too: CTL_QUARTILES behind each cell */
    const char *edges;                    /* of a histogram; NULL: not given */
    uint64_t bins;                        /* ... of equal width from the least to the largest element; 0: not given */
    uint64_t spool;                       /* most bytes that are read into memory; 0: half of it */
    ctl_sink *sink;                       /* where the values go; NULL: to standard output */
    reduce_spec spec;                     /* op, dtype (0: not given), out, nan, ddof, rows, flags, index_base, deadline */
    bool by_rows;                         /* --rows was given */
    bool based;                           /* --index-base was given */
    int axes[CTL_MAX_DIMS], n_axes;       /* to reduce; below 0: counted from the last one */
    const char *initial, *mask, *offsets; /* NULL: not given */
    const char *weights;                  /* also the second file of dot; NULL: not given */
    const char *by;                       /* columns whose texts are the groups; NULL: not given */
    uint64_t top;                         /* print at most this many groups; 0: all */
    ctl_format format;
    bool watch;        /* status again and again */
    bool progress;     /* also if standard error is not a terminal */
    bool swapped;      /* --dtype says that raw elements are big-endian */
    bool json_strings; /* integers beyond 2^53 as strings */
    bool explain;      /* how long the ways would take, instead of the value */
    bool text, total, merge, verbose, no_autostart, once, replace, spread, requests;
    bool no_unpack, no_scale, verify;
    ctl_dialect dialect;
    bool members;           /* one file gives several results, each with its name: set while it is reduced, not by an option */
    uint32_t ttl_ms;        /* 0: not given */
    uint32_t wait_ms;       /* for a daemon that is not there, 0: not given */
    uint64_t shard, shards; /* --shard; shards 0: not given */
    const char *joined;     /* --joined; NULL: not given */
    const char *device;     /* --device as a UUID; NULL: as a number, in spec, or not given */
    const char *url;        /* NULL: the usual places */
    int priority;           /* reduce_priority */
    const char *tls_ca, *tls_cert, *tls_key; /* NULL: the environment's */
    char **files;                            /* "-" is stdin; put, drop: names first */
    int n_files;
} ctl_options;

/* False: `why` says what is wrong. The strings stay argv's. */
bool ctl_parse(ctl_options *o, int argc, char **argv, char why[CTL_WHY]);

/* The code of an operation. 0: `why`, with what might have been meant. */
int ctl_parse_op(const char *word, char why[CTL_WHY]);

/* "p99.9" is the quantile 0.999; false: the word is something else. */
bool ctl_is_percentile(const char *word, double *q);

/* ---- options_check.c ---- */

/* Do the options suit the command and each other? False: `why` has the first conflict. */
bool ctl_check_options(const ctl_options *o, char why[CTL_WHY]);
/* Is standard input named at most once? Each of two readers would get only a part of it. False: `why`. */
bool ctl_check_stdin(const ctl_options *o, char why[CTL_WHY]);

/* Each column of lists such as FILE:#1,#3-#5,=name becomes a file of its own. False: `why`. (column_list.c) */
bool ctl_list_columns(ctl_options *o, char why[CTL_WHY]);

/* Is something said about tables as text? (formats/csv_column.c) */
bool ctl_has_dialect(const ctl_dialect *d);

/* Does one pass of stats give the same values as the several operations? */
bool ctl_is_one_pass(const ctl_options *o);

/* Does the result contain places (indexes)? */
bool ctl_needs_indexes(const ctl_options *o);

/* ---- help.c ---- */
void ctl_help(FILE *out);
/* The rest, a topic of help_rows.h at a time. */
void ctl_help_about(FILE *out, const char *topic);

/* ---- help_topic.c ---- */
/* About one operation, command, topic or option. False: `why` says that there is none of the name. */
bool ctl_help_topic(FILE *out, const char *word, char why[CTL_WHY]);

/* ---- formats/npy.c ---- */

enum { CTL_NPY_PREFIX = 12, CTL_NPY_MAX_HEADER = 1 << 20 };

typedef struct ctl_npy {
    char descr[32]; /* as the file says, "<f4" */
    int dtype;      /* reduce_dtype */
    bool fortran;   /* stored with the first index running fastest */
    bool swapped;   /* big-endian */
    int dims;
    uint64_t shape[CTL_MAX_DIMS];
    uint64_t count; /* elements */
} ctl_npy;

bool ctl_npy_is(const uint8_t *prefix, size_t len); /* by its magic */

/* Bytes from the start of the file to the data, from the first CTL_NPY_PREFIX bytes (v1 needs 10). 0: `why`. */
size_t ctl_npy_data_offset(const uint8_t *prefix, size_t len, char why[CTL_WHY]);

/* Read the whole header, bytes [0, data offset). `dtype` is the user's statement about types that numpy lacks (bf16 as V2), or
 * 0. 0, or a reduce_err: REDUCE_E_TYPE for types that cannot be reduced, REDUCE_E_BAD_MESSAGE for malformed headers. */
int ctl_npy_parse(const uint8_t *header, size_t len, int dtype, ctl_npy *npy, char why[CTL_WHY]);

/* ---- text/parse_text.c ---- */

enum { CTL_MAX_TOKEN = 1024 };

/* Numbers separated by white space, fed in pieces of any size. Zero-initialise, and set dtype if it is not f64. */
typedef struct ctl_text {
    int dtype;                     /* reduce_dtype of the elements to be made; 0: f64 */
    char token[CTL_MAX_TOKEN + 1]; /* the one that the last piece began */
    size_t len;
    uint64_t line;         /* lines ended so far */
    bool no_negative_zero; /* -0 is not an integer */
    bool exact;            /* an integer that a float would round is an error */
} ctl_text;

/* Turn `n` bytes into at most n/2 + 1 elements at `out`: integers exactly, floats rounded once from the text. Returns how
 * many, or -1 with the line and the token in `why`. */
long ctl_text_feed(ctl_text *t, const char *bytes, size_t n, void *out, char why[CTL_WHY]);
/* The input has ended: 0 or 1 element, or -1. */
long ctl_text_end(ctl_text *t, void *out, char why[CTL_WHY]);
/* The kinds of a text's tokens. Zero-initialise. */
typedef struct ctl_text_kind {
    bool some;     /* there is a token */
    bool real;     /* one is not an integer (-0 and NaNs count as such): the others need not be looked at */
    bool negative; /* an integer is below 0, */
    bool above;    /* above the largest i64 but not above the largest u64, */
    bool wide;     /* beyond both */
} ctl_text_kind;

/* Examine the tokens of [bytes, bytes + n). Unless this is the `last` piece, the token at its end may continue. Returns how
 * many bytes are done; the others belong to the next piece. */
size_t ctl_text_look(ctl_text_kind *k, const char *bytes, size_t n, bool last);
/* i64 or u64 if all tokens are integers of that type, else f64, also for an empty text; 0: integers need more than 64 bits. */
int ctl_text_dtype(const ctl_text_kind *k);

/* ---- text/half.c ---- */

/* The 16-bit float types, REDUCE_F16 and REDUCE_BF16. Bits are those of a magnitude, without the sign. */
unsigned ctl_half_infinity(int dtype);
/* The value. The first pattern past the largest finite number counts as the next power of two: where rounding to infinity
 * begins. */
double ctl_half_value(int dtype, unsigned bits);
/* The nearest number to y >= 0, ties to even; the infinity's bits if that is it. */
unsigned ctl_half_round(int dtype, double y);

/* ---- text/shown.c: what others chose, for a terminal. Characters that do more than to be shown become '?' ---- */

/* The first `cap` - 1 bytes, for a message. */
void ctl_clean(char *out, size_t cap, const char *text);
/* All of it, then blanks up to column `width`. */
void ctl_put_text(FILE *f, const char *text, int width);

/* ---- text/parse_scalar.c ---- */

static inline bool ctl_is_signed(int dtype)
{
    return dtype == REDUCE_I8 || dtype == REDUCE_I16 || dtype == REDUCE_I32 || dtype == REDUCE_I64;
}
static inline bool ctl_is_float(int dtype) { return dtype >= REDUCE_F16 && dtype <= REDUCE_F64; }

/* One number as an element of `dtype`: its bits, zero-extended. Integers exactly, in decimal or with 0x; floats rounded once
 * from the text. False: `why` says that it is not a number, or out of range. */
bool ctl_parse_scalar(const char *text, int dtype, uint64_t *bits, char why[CTL_WHY]);
/* A sign, then decimal digits or 0x and hexadecimal ones. False: something else. *fits: in 64 bits. */
bool ctl_parse_magnitude(const char *text, bool *negative, uint64_t *magnitude, bool *fits);

/* ---- formats/fortran_order.c ---- */

/* Copy an array of `dims` dimensions, to C order; `stride` has the distance of neighbours along each, in elements. */
void ctl_permute(uint8_t *to, const uint8_t *from, size_t element, int dims, const uint64_t *shape, const uint64_t *stride);
/* The same of one stored with the first index running fastest. */
void ctl_c_order(uint8_t *to, const uint8_t *from, size_t element, int dims, const uint64_t *shape);

/* ---- text/print.c ---- */

enum { CTL_MAX_NUMBER = 64, CTL_STATS = 11, CTL_QUARTILES = 3, CTL_MAX_VALUES = REDUCE_MAX_QUANTILES };

/* One value of a result; JSON writes what is not a number ("nan", "none") as string or null. */
typedef struct ctl_value {
    const char *name; /* in results of several */
    char text[CTL_MAX_NUMBER];
} ctl_value;

/* The values of a cell of `op`, of `size` bytes, whose reply type is `dtype`: one; two of minmax; those of stats, perhaps with
 * quartiles behind; one for each quantile. Returns how many. */
int ctl_values(ctl_value out[CTL_MAX_VALUES], int op, int dtype, const void *cell, size_t size, bool hex);
int ctl_count_values(int op, int dtype, size_t size);
const char *ctl_value_name(int op, int i); /* NULL: it has none */
/* The i-th of them without a 0 byte; returns the end. */
char *ctl_put_value(char out[CTL_MAX_NUMBER], int i, int op, int dtype, const void *cell, bool hex);

/* The shortest decimal that reads back to the same bits, or with `hex` C's %a (integers stay decimal). Returns out. */
char *ctl_number(char out[CTL_MAX_NUMBER], int dtype, const void *cell, bool hex);
/* A 128-bit two's complement integer in decimal. */
char *ctl_int128(char out[CTL_MAX_NUMBER], uint64_t low, uint64_t high);
/* A file's name or a text as a JSON string, quotes included. */
void ctl_json_string(FILE *out, const char *s);

/* ---- text/read_text.c ---- */

/* Elements of a file or pipe of text. */
typedef struct ctl_reader ctl_reader;
typedef struct ctl_pull ctl_pull;

/* *dtype 0: it is determined by reading ahead, and set, unless integers need more than 64 bits. For a long stream that cannot
 * be rewound only the beginning decides, and also for others if `brief`. If the rest of such a one has another type, reading
 * fails and ctl_reader_mistaken is true. With `exact` an integer that a float would round is an error. `from` becomes
 * the reader's in any case. NULL: *err and `why` say why. */
ctl_reader *ctl_reader_open(ctl_pull *from, bool brief, bool exact, int *dtype, int *err, char why[CTL_WHY]);
bool ctl_reader_mistaken(const ctl_reader *r);
void ctl_reader_free(ctl_reader *r);
/* Up to `room` bytes of elements, one at least; 0: the end; -1 with *err and `why`. */
long ctl_reader_read(ctl_reader *r, void *space, size_t room, int *err, char why[CTL_WHY]);
/* Reads bytes of the text instead, for integers that no element holds. Returns how many; 0: the end; -1 as before. */
long ctl_reader_bytes(ctl_reader *r, const char **bytes, int *err, char why[CTL_WHY]);
/* Back to its start. False: it cannot. */
bool ctl_reader_rewind(ctl_reader *r);
/* A common type for `n` readers whose types were determined; 0: integers beyond 64 bits. */
void ctl_reader_agree(ctl_reader *const *r, int n, int *dtype);

/* ---- input.c ---- */

enum { CTL_HEAD = 1024 }; /* bytes that say what a file is */

struct ctl_array;

struct ctl_groups;

/* Missing values of a column that are not among its elements, and the groups of these. */
typedef struct ctl_holes {
    bool placed;  /* their places are wanted, */
    uint64_t *at; /* [next, n) of `room`: indexes, ascending, of those whose turn has not come */
    size_t next, n, room;
    uint64_t count;            /* of all so far */
    struct ctl_groups *groups; /* NULL: none are wanted */
} ctl_holes;

/* How to interpret an input. */
typedef struct ctl_source {
    const char *name;  /* of a file, or "-"; "FILE:MEMBER" */
    int dtype;         /* 0: not said */
    int raw_dtype;     /* the type of raw bytes then; 0: it must be given */
    bool swapped;      /* raw elements are big-endian */
    bool text;         /* numbers as text, */
    bool wide;         /* whose integers may go beyond 64 bits: then the input's dtype is 0, */
    bool brief;        /* and it is reduced again if the first elements did not show its type */
    bool floats;       /* a column without a type is one of floats */
    bool omit, places; /* missing values of a column are left out, and noted with their places */
    bool no_unpack, no_scale, verify;
    const ctl_dialect *dialect;    /* of tables as text, or NULL */
    struct ctl_groups *groups;     /* those of a column's elements, or NULL */
    const struct ctl_array *array; /* the member, if it is known already, else NULL */
    const ctl_options *spool;      /* how a container that a pipe brings is kept; NULL: it is refused */
} ctl_source;

typedef struct ctl_input {
    const char *name; /* for messages */
    bool beside;      /* they are about more than this input: those of reading begin with its name */
    int fd;
    const char *resident; /* the name, if the input is resident data; else NULL */
    int dtype;
    const char *kind; /* ".npy", for messages */
    bool npy, text;   /* npy: the shape is known, also of members of containers */
    bool checked;     /* its bytes have a checksum that reading verifies */
    bool column;      /* of a table as text, */
    ctl_holes holes;  /* and what it misses */
    bool regular;     /* can be read again from the start */
    bool fortran;     /* with the first index running fastest */
    bool swapped;     /* big-endian: bytes are swapped as they are read */
    int dims;         /* if `npy` */
    uint64_t shape[CTL_MAX_DIMS];
    bool sized;             /* `bytes` is known */
    uint64_t bytes;         /* of elements, in all */
    uint64_t done;          /* given out so far */
    uint64_t start;         /* file offset of the elements */
    ctl_pull *keep;         /* a byte for each element, 0 if its attributes say that it is missing; NULL: none is */
    ctl_pull *pull;         /* the bytes come out of a decoder; NULL: out of the file as they are */
    uint8_t head[CTL_HEAD]; /* read ahead to see what it is */
    size_t head_len, head_at;
    bool ended;         /* not a regular file, and it has said that it is over */
    ctl_reader *reader; /* text, */
    bool guessed;       /* its type was determined; 0 if integers need more than 64 bits */
    int err;            /* why ctl_read gave -1: REDUCE_E_IO, or REDUCE_E_TYPE for text that is not a number */
} ctl_input;

/* The member's name in "FILE:MEMBER"; NULL: `name` is a file, or does not exist. */
const char *ctl_member_of(const char *name);
/* The file's name in front of the member, or the whole name. malloc'ed; NULL: no memory. */
char *ctl_path_of(const char *name, const char *member);
struct stat;
/* Is its file a pipe, a socket or a terminal, which can be read only once? *st describes the file. */
bool ctl_is_pipe(const char *name, struct stat *st);
/* Is it standard input? If that is a pipe, it has other names, too, such as /dev/stdin. NULL is not. */
bool ctl_is_stdin(const char *name);
/* Open it and see what it holds. 0, or a reduce_err with `why`. ctl_close afterwards in any case. */
int ctl_open(ctl_input *in, const ctl_source *source, char why[CTL_WHY]);
void ctl_close(ctl_input *in);
/* Up to `room` (>= 8) bytes of elements; 0 at the end, -1 with `why` if reading fails or the data are not what they say. */
long ctl_read(ctl_input *in, void *space, size_t room, char why[CTL_WHY]);
/* The same until `room` bytes are there or the input ends. */
long ctl_read_full(ctl_input *in, void *space, size_t room, char why[CTL_WHY]);
/* Everything that is left: malloc'ed *data. 0, or a reduce_err with `why`. */
int ctl_read_all(ctl_input *in, uint8_t **data, size_t *bytes, char why[CTL_WHY]);
/* Back to the first element. False: it cannot. */
bool ctl_rewind(ctl_input *in);
/* Are its elements stored plainly in a regular file, from `start` on? Then the daemon can read them. */
bool ctl_in_file(const ctl_input *in);
/* Is the order of its elements not that of their indexes (Fortran order of several dimensions)? */
bool ctl_shuffled(const ctl_input *in);

/* ---- reduce/shard.c ---- */

/* --shard TEXT. False: `why`. */
bool ctl_parse_shard(ctl_options *o, const char *text, char why[CTL_WHY]);
/* Set what --shard and --joined imply, and check that the options are consistent. */
void ctl_apply_shard(ctl_options *o);
/* Narrow the n open inputs of one type to the shard; inputs without a part of it are closed. *first: its first index. 0, or a
 * reduce_err with `why`. */
int ctl_cut_shard(const ctl_options *o, ctl_input *in, int *n, uint64_t *first, char why[CTL_WHY]);

/* ---- reduce/shape.c ---- */

typedef enum { CTL_WHOLE, CTL_LINES, CTL_COLUMNS } ctl_layout;

/* The axes of an array in the order in which they lie in memory, the last one running fastest; those that are reduced together
 * are one. */
typedef struct ctl_axes {
    int n;
    uint64_t len[CTL_MAX_DIMS];
    bool reduced[CTL_MAX_DIMS];
    uint64_t place[CTL_MAX_DIMS]; /* reduced axes: how many elements of a result, in C order, one step is */
    bool turned;                  /* the kept axes are in the reverse order of the results */
} ctl_axes;

/* Which elements of the input, in the order in which they lie there, belong to which result. */
typedef struct ctl_shape {
    ctl_layout layout;
    const char *unit;    /* a result is one "row", "column", "segment" or, of more axes, "result"; NULL: there is only one */
    uint64_t lines, len; /* results, and elements of each (segments: not used) */
    const uint64_t *offsets; /* segments: lines + 1, checked; else NULL */
    ctl_axes axes;           /* columns */
} ctl_shape;

/* 0, or a reduce_err with `why`. `offsets`: n of them, or NULL. */
int ctl_find_shape(ctl_shape *s, const ctl_input *in, const ctl_options *o, const uint64_t *offsets, uint64_t n,
                   char why[CTL_WHY]);

/* Read a file of offsets: malloc'ed *offsets, *n of them. 0, or a reduce_err with `why`. */
int ctl_read_offsets(const char *name, uint64_t **offsets, uint64_t *n, char why[CTL_WHY]);

/* ---- keep_pipe.c ---- */

uint64_t ctl_spool_limit(const ctl_options *o); /* bytes */

/* All of `from`, which is closed then, goes to a file in memory: *fd, the caller's also if this fails. *all: bytes so far, of
 * all pipes. 0, or a reduce_err with `why`. */
int ctl_keep_pipe(const char *name, ctl_pull *from, uint64_t *all, const ctl_options *o, int *fd, char why[CTL_WHY]);

/* ---- spool.c ---- */

/* Keep in memory what those pipes bring that the command opens more than once, up to the limit. Returns the exit code of an
 * error, printed. */
int ctl_keep_pipes(const ctl_options *o);

/* ---- open_path.c ---- */

/* A pipe of the command, under all of its names */
typedef struct ctl_pipe {
    struct ctl_pipe *next;
    dev_t dev;
    ino_t ino;
    const char *name; /* the first one */
    uint64_t openings;
    int fd; /* a file in memory with all that it brought; -1: it is not kept */
} ctl_pipe;

ctl_pipe *ctl_pipes(void); /* the first one */
/* The pipe that *st describes; a new one gets the name. NULL: no memory. */
ctl_pipe *ctl_pipe_of(const struct stat *st, const char *name);
/* A descriptor to read the file, the kept pipe from its start, or for "-" standard input itself. -1: errno. */
int ctl_open_path(const char *path);

/* ---- progress.c ---- */

typedef struct ctl_progress {
    bool on, shown;
    bool lines;                              /* a line now and then instead of a bar */
    char name[41];                           /* what a terminal can show of it */
    uint64_t start_ns, last_ns, done, total; /* total 0: unknown */
} ctl_progress;

/* On a terminal a bar is shown if `allowed`; elsewhere lines are written if `asked` (--progress). */
void ctl_progress_start(ctl_progress *p, const char *name, uint64_t total, bool allowed, bool asked);
void ctl_progress_add(ctl_progress *p, uint64_t bytes);
void ctl_progress_end(ctl_progress *p); /* wipes the bar */

/* ---- interrupt.c ---- */

/* From now on Ctrl-C does not end the process; ctl_interrupted reports it. */
void ctl_take_interrupts(void);
bool ctl_interrupted(void);

/* --deadline of the file that is begun, in milliseconds; 0: it has none. The last one no longer counts. */
void ctl_start_deadline(uint32_t ms);
/* What is left of it for a request, in milliseconds: at least 1; 0 if there is none. */
uint32_t ctl_time_left(void);
/* read(2), which an interruption and the deadline end. -1: an error, with *err and `why`. */
long ctl_read_some(int fd, void *space, size_t room, int *err, char why[CTL_WHY]);

/* Wait for the job, which an interruption cancels, with the bar `p` or NULL, and free it. Returns as reduce_wait. */
int ctl_wait(reduce_job *job, ctl_progress *p, reduce_result *r);

/* reduce_run that an interruption cancels. */
int ctl_run(reduce_client *c, const reduce_spec *spec, const void *data, size_t bytes, void *cells, size_t room,
            reduce_result *r);

/* ---- text/print_lines.c ---- */

/* Results as lines of text. */
typedef struct ctl_lines {
    int op, dtype; /* of the reply */
    bool hex;
    const char *unit; /* with a name for each value: what a line before them counts, the first result being `first`; or NULL */
    uint64_t first;
    const uint8_t *cells; /* `n` of `size` bytes each */
    uint64_t n;
    size_t size;
} ctl_lines;

/* Write them to standard output, a block at a time; many are turned into text by several threads. */
void ctl_print_lines(const ctl_lines *l);

/* How many threads are worth having, `most` at most: one for each processor that may be used. */
int ctl_threads(int most);

/* ---- output.c ---- */

/* A value in JSON: numbers and truth values are that; NaN and the infinities, which it lacks, are strings; nothing is null. */
void ctl_json_value(const ctl_options *o, const char *text);

/* What results or an error refer to. */
/* What was expected of the way that was taken. */
typedef struct ctl_expected {
    const char *way; /* as of reduce_way; NULL: there was no choice */
    uint64_t ns;
} ctl_expected;

typedef struct ctl_where {
    const char *name;        /* of the input */
    const char *unit;        /* as in ctl_shape */
    uint64_t first;          /* number of the first result */
    const uint64_t *offsets; /* of its segment and those after it, or NULL: all have equally many elements */
    ctl_expected expected;
    const double *edges; /* of a histogram, and their number */
    uint64_t n_edges;
} ctl_where;

/* A receiver of the values of results. */
struct ctl_sink {
    void (*take)(ctl_sink *s, const ctl_options *o, const ctl_where *w, const reduce_result *r, const void *cells);
    /* Called instead for a value that overflowed its reply type, or that does not exist. */
    void (*take_exact)(ctl_sink *s, const ctl_where *w, const char *value);
    /* Called once for each operation, if the pass of all of them found integers that stats does not take. */
    void (*take_column)(ctl_sink *s, const ctl_where *w, int k, const char *value);
};

/* The results of a run. */
void ctl_print_cells(const ctl_options *o, const ctl_where *w, const reduce_result *r, const void *cells);
/* ---- text/print_ordered.c ---- */

/* Has a result of the operation a line for each of its values? */
bool ctl_is_listed(int op);

typedef struct ctl_listed {
    const ctl_options *o;
    const char *name; /* behind each line; NULL: none */
    int dtype;        /* of the values */
    uint64_t size;    /* of a cell */
    uint64_t k;
    const double *edges; /* of a histogram, else NULL */
    uint64_t n_edges;
} ctl_listed;

void ctl_print_listed(const ctl_listed *l, const ctl_where *w, const uint8_t *cells, uint64_t n);
/* The value of a cell, and what belongs to it. */
void ctl_json_listed(const ctl_listed *l, const uint8_t *cell);

/* ---- options.c ---- */

/* Numbers with commas between, into `edges` (NULL: they are counted). Returns how many; 0: `why`. */
uint64_t ctl_parse_edges(double *edges, const char *list, char why[CTL_WHY]);

/* ---- output.c ---- */

/* Print the exact value of a reduction that overflowed its reply type as a result, if all its digits are known. */
bool ctl_print_exact(const ctl_options *o, const ctl_where *w);
/* A value that was found here, of `count` numbers. */
void ctl_print_text(const ctl_options *o, const ctl_where *w, const char *value, const char *type, uint64_t count);
/* The details of -v. */
void ctl_print_details(const ctl_input *in, const reduce_result *r, const ctl_expected *e);
/* Print an error: of this thread's last libreduce call, whose results began with w->first, or (err, why) if `why` is not NULL.
 * Returns the exit code. */
int ctl_print_error(const ctl_options *o, const ctl_where *w, int err, const char *why);

/* ---- what a command reduces ---- */

typedef struct ctl_work {
    reduce_client *c;
    const ctl_options *o;
    const char *name; /* of the input, or "total" */
    ctl_input *in;    /* n_in of them, one type, taken as one array */
    int n_in;
    ctl_input *mask;    /* bytes, one for each element, or NULL */
    ctl_input *weights; /* of an operation that has them, else NULL */
    reduce_spec spec;   /* for this type, without shape */
    uint64_t initial;   /* what spec.initial points to */
    bool mistaken;      /* the guessed type of a text was wrong: nothing is printed */
    ctl_progress progress;
    ctl_expected expected;
} ctl_work;

/* ---- explain.c ---- */

/* Print the ways that the input could take, instead of reducing it. Returns an exit code. */
int ctl_explain(ctl_work *w);
/* Set w->expected, if it is to be printed. */
void ctl_expect(ctl_work *w);

/* ---- own_mask.c ---- */

/* Do attributes of an input say which elements are missing? Then a mask of all inputs, which is w->mask from now on, as long
 * as they are open. 0, or a reduce_err with `why`. */
bool ctl_has_own_mask(const ctl_work *w);
int ctl_own_mask(ctl_work *w, ctl_input *mask, char why[CTL_WHY]);
/* Is nothing missing in what is beside the elements? 0, or a reduce_err with `why`, which says what is. */
int ctl_all_there(const ctl_input *in, const char *what, char why[CTL_WHY]);

/* ---- by.c ---- */

/* The reductions of a table's column by the texts of others (--by), in this process. Returns the exit code. */
int ctl_reduce_by(const ctl_options *o);

/* ---- feed.c: how its elements get to the daemon ---- */

/* Indexes that have no element: *index moves on over those that come next; the first one of the input was `first`. Returns how
 * many elements follow, `n` at most. */
size_t ctl_pass_holes(ctl_holes *h, uint64_t first, uint64_t *index, size_t n);

/* Read exactly n elements, and their mask, if there is one, to `mask`. 0, or a reduce_err with `why`. */
int ctl_take(ctl_work *w, void *elements, uint8_t *mask, uint64_t n, char why[CTL_WHY]);

/* Add the parts of a result that sum up: times, elements, results. */
void ctl_add_result(reduce_result *sum, const reduce_result *r);

/* Stream n elements (UINT64_MAX: all). 0, or a reduce_err; `why` is set if the input caused it, else empty. */
int ctl_stream(ctl_work *w, const reduce_spec *spec, uint64_t n, void *cell, size_t room, reduce_result *r, char why[CTL_WHY]);

/* Are the elements made of text? Sending them costs more than adding them to a state, which the daemon gets instead. Returns
 * as ctl_stream. With a path or a deadline in the options they are streamed. */
bool ctl_is_added_here(const ctl_work *w);
int ctl_add_here(ctl_work *w, void *cell, size_t room, reduce_result *r, char why[CTL_WHY]);

/* Can the daemon read the input as a passed file, or does it already have the data? Then let it reduce `bytes` bytes, `at`
 * bytes after the first element. Returns as reduce_file. */
bool ctl_is_direct(const ctl_work *w);
int ctl_direct(ctl_work *w, const reduce_spec *spec, uint64_t at, uint64_t bytes, void *cells, size_t room, reduce_result *r);

/* ---- reduce.c, and reduce_*.c for one input each ---- */

/* Commands return the exit code; results and errors are printed then. */
int ctl_reduce(reduce_client *c, const ctl_options *o);
/* One array: a file, or the member `array` of it, which `name` names, too. */
int ctl_reduce_array(reduce_client *c, const ctl_options *o, const char *name, const struct ctl_array *array);
int ctl_reduce_whole(ctl_work *w);
int ctl_reduce_rows(ctl_work *w, const ctl_shape *s);
int ctl_reduce_axes(ctl_work *w, const ctl_shape *s);
int ctl_reduce_wide(ctl_work *w);
static inline bool ctl_is_ranked(int op) { return op >= REDUCE_MEDIAN && op <= REDUCE_HISTOGRAM; } /* order statistics */
static inline bool ctl_is_paired(int op) { return op >= REDUCE_DOT && op <= REDUCE_CORR; }         /* with weights */

/* Of two arrays alike: 'dot X Y' */
static inline bool ctl_takes_two(int op) { return op == REDUCE_DOT || op == REDUCE_COV || op == REDUCE_CORR; }

/* Does it need all elements in memory? */
static inline bool ctl_needs_all(int op) { return ctl_is_ranked(op) || ctl_is_paired(op); }
int ctl_reduce_at_once(ctl_work *w, const ctl_shape *s);
int ctl_merge(reduce_client *c, const ctl_options *o);

/* ---- reduce/tensors.c ---- */

struct ctl_directory;
/* Can `o` be answered by a table of the statistics of all arrays of a file? */
bool ctl_is_table(const ctl_options *o);
int ctl_reduce_tensors(reduce_client *c, const ctl_options *o, const char *name, const struct ctl_directory *d);

/* ---- resident.c ---- */
bool ctl_is_resident(const char *name); /* "@NAME" */

/* Resident data as an input. `dtype` is the type that the user states, or 0. 0, or a reduce_err; the reason is in `why`, or if
 * that is empty, this thread's last error. */
int ctl_open_resident(reduce_client *c, ctl_input *in, const char *name, int dtype, char why[CTL_WHY]);

int ctl_put(reduce_client *c, const ctl_options *o);
int ctl_ls(reduce_client *c, const ctl_options *o);
int ctl_drop(reduce_client *c, const ctl_options *o);

/* ---- find_device.c ---- */
/* A UUID, or the first letters of one? */
bool ctl_is_device_name(const char *text);
/* Set o->spec.device to the daemon's number of the GPU that o->device names. Returns the exit code of an error, printed. */
int ctl_find_device(reduce_client *c, ctl_options *o);

/* ---- query.c ---- */
int ctl_query(reduce_client *c, const ctl_options *o);

/* ---- status_text.c ---- */
int ctl_status(reduce_client *c, const ctl_options *o);
/* `show` each second until it fails or the user interrupts. */
int ctl_watch(reduce_client *c, const ctl_options *o, int (*show)(reduce_client *c, const ctl_options *o));

/* ---- ladder.c ---- */
/* `reducectl ladder ...`: becomes the program reducectl-ladder. It returns only if that fails, with the exit code. */
int ctl_ladder(int argc, char **argv);

#endif
