/* reducectl: the command line on top of libreduce's public calls.
 *
 *   main.c     wiring and exit codes         options.c  the command line      help.c   what --help says
 *   npy.c      .npy headers (pure)           text.c     numbers as text (pure)
 *   input.c    files and pipes as elements   reduce.c   one reduction of an input
 *   print.c    values as text (pure)         output.c   result and error lines
 *   show.c     ping, info, status            progress.c the bar on a terminal */
#ifndef CTL_H
#define CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/reduce.h"

/* Exit codes of the command */
enum { CTL_OK = 0, CTL_FAILED = 1, CTL_USAGE = 2, CTL_NO_DAEMON = 3 };

enum { CTL_WHY = 256 }; /* bytes of an error line */

/* ---- options.c ---- */

typedef enum { CTL_REDUCE, CTL_PING, CTL_INFO, CTL_STATUS, CTL_HELP, CTL_VERSION } ctl_command;
typedef enum { CTL_DECIMAL, CTL_HEX, CTL_JSON, CTL_RAW } ctl_format;

typedef struct ctl_options {
    ctl_command command;
    reduce_spec spec;   /* op, dtype (0: not given), out, nan, rows, deadline */
    bool by_rows;       /* --rows was given */
    ctl_format format;
    bool text, total, verbose, no_autostart;
    const char *url;    /* NULL: the usual places */
    char **files;       /* "-" is stdin */
    int n_files;
} ctl_options;

/* False: `why` says what is wrong. The strings stay argv's. */
bool ctl_parse(ctl_options *o, int argc, char **argv, char why[CTL_WHY]);

/* ---- help.c ---- */
void ctl_help(FILE *out);

/* ---- npy.c ---- */

enum { CTL_NPY_PREFIX = 12, CTL_NPY_MAX_HEADER = 1 << 20 };

typedef struct ctl_npy {
    char descr[32];      /* as the file says, "<f4" */
    int dtype;           /* reduce_dtype */
    bool fortran;        /* stored column by column */
    int dims;
    uint64_t count;      /* elements */
} ctl_npy;

bool ctl_npy_is(const uint8_t *prefix, size_t len); /* by its magic */

/* Bytes from the start of the file to the data, from the first CTL_NPY_PREFIX bytes (v1 needs 10). 0: `why`. */
size_t ctl_npy_data_offset(const uint8_t *prefix, size_t len, char why[CTL_WHY]);

/* Read the whole header, bytes [0, data offset). `dtype` is what the user says of types that numpy lacks (bf16 as V2), or
 * 0. 0, or a reduce_err: REDUCE_E_TYPE for types that cannot be reduced, REDUCE_E_BAD_MESSAGE for malformed headers. */
int ctl_npy_parse(const uint8_t *header, size_t len, int dtype, ctl_npy *npy, char why[CTL_WHY]);

/* ---- text.c ---- */

enum { CTL_MAX_TOKEN = 1024 };

/* Numbers separated by white space, fed in pieces of any size. Zero-initialise. */
typedef struct ctl_text {
    char token[CTL_MAX_TOKEN + 1]; /* the one that the last piece began */
    size_t len;
    uint64_t line; /* lines ended so far */
} ctl_text;

/* Turn `n` bytes into at most n/2 + 1 numbers at `out`; returns how many, or -1 with the line and the token in `why`. */
long ctl_text_feed(ctl_text *t, const char *bytes, size_t n, double *out, char why[CTL_WHY]);
/* The input is over: 0 or 1 number, or -1. */
long ctl_text_end(ctl_text *t, double *out, char why[CTL_WHY]);

/* ---- print.c ---- */

enum { CTL_MAX_NUMBER = 48 };

/* The shortest decimal that reads back to the same bits, or with `hex` C's %a (integers stay decimal). Returns out. */
char *ctl_number(char out[CTL_MAX_NUMBER], int dtype, const void *cell, bool hex);
/* A 128-bit two's complement integer in decimal. */
char *ctl_int128(char out[CTL_MAX_NUMBER], uint64_t low, uint64_t high);
/* A file's name or a text as a JSON string, quotes included. */
void ctl_json_string(FILE *out, const char *s);

/* ---- input.c ---- */

typedef struct ctl_input {
    const char *name; /* for messages */
    int fd;
    int dtype;
    bool npy, text, defaulted; /* defaulted: raw bytes taken for f32 because nobody said */
    bool regular;     /* can be read again from the start */
    bool shuffled;    /* Fortran order of two or more dimensions: the order of elements is not that of indexes */
    bool sized;       /* `bytes` is known */
    uint64_t bytes;   /* of elements, in all */
    uint64_t done;    /* given out so far */
    uint64_t start;   /* file offset of the elements */
    uint8_t head[CTL_NPY_PREFIX]; /* read ahead to see what it is */
    size_t head_len, head_at;
    ctl_text parser;
    double *numbers;  /* text: parsed and not yet given out */
    size_t n_numbers, numbers_at;
    bool ended;
    int err;          /* why ctl_read gave -1: REDUCE_E_IO, or REDUCE_E_TYPE for text that is no number */
} ctl_input;

/* Open a file or "-" and see what it holds. 0, or a reduce_err with `why`. ctl_close afterwards in any case. */
int ctl_open(ctl_input *in, const char *name, const ctl_options *o, char why[CTL_WHY]);
void ctl_close(ctl_input *in);
/* Up to `room` (>= 8) bytes of elements; 0 at the end, -1 with `why` if reading fails or the data are not what they say. */
long ctl_read(ctl_input *in, void *space, size_t room, char why[CTL_WHY]);
/* Back to the first element. False: it cannot. */
bool ctl_rewind(ctl_input *in);

/* ---- progress.c ---- */

typedef struct ctl_progress {
    bool on, shown;
    const char *name;
    uint64_t start_ns, last_ns, done, total; /* total 0: unknown */
} ctl_progress;

void ctl_progress_start(ctl_progress *p, const char *name, uint64_t total, bool allowed);
void ctl_progress_add(ctl_progress *p, uint64_t bytes);
void ctl_progress_end(ctl_progress *p); /* wipes the bar */
uint64_t ctl_now_ns(void);

/* ---- output.c ---- */

/* The values of a result; `first_row` is that of cells[0] if there are rows. */
void ctl_print_values(const ctl_options *o, const char *name, const reduce_result *r, const void *cells, uint64_t first_row);
/* What -v tells about it. */
void ctl_print_details(const ctl_input *in, const reduce_result *r);
/* An error of this thread's last libreduce call, whose rows began with `first_row`, or (err, why) of our own if `why` is not
 * NULL. Returns the exit code. */
int ctl_print_error(const ctl_options *o, const char *name, int err, const char *why, uint64_t first_row);

/* ---- reduce.c, show.c: commands; they return the exit code ---- */
int ctl_reduce(reduce_client *c, const ctl_options *o);
int ctl_show(reduce_client *c, const ctl_options *o);

#endif
