/* The ladder: every reduction kernel of the course notes that this project started from, each correct for any n, side by
 * side with the product's own chain and with CUB. The program is reducectl-ladder, which `reducectl ladder` runs.
 *
 *   rungs.def   the list of rungs, bottom first     published.c  the notes' figures
 *   cpu_*.h     the pages of the CPU rungs           cpu.c        runs them
 *   *.cu        the pages of the GPU rungs, one idea each; ladder.cuh is what they share
 *   gpu.cu      one timed run of a GPU rung with each way to finish; no_gpu.c stands in for it in a build without CUDA
 *   measure.c   input, repeats, medians, the check   options.c    the command line
 *   table.c     the table and the chart              records.c    rows as JSON and CSV, and back
 *   plot.c      the picture, by gnuplot              main.c       wiring and exit codes
 *
 * One process, one thread, one device. */
#ifndef RK_LADDER_H
#define RK_LADDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Exit codes of the program, as reducectl's */
enum { LADDER_OK = 0, LADDER_FAILED = 1, LADDER_USAGE = 2 };

enum { LADDER_WHY = 256, LADDER_NAME = 32 }; /* bytes of an error line; of a rung's name */

typedef enum { LADDER_I32, LADDER_F32, LADDER_DTYPES } ladder_dtype; /* four bytes each */

/* What becomes of the partial results that the blocks of a kernel leave */
typedef enum {
    LADDER_RELAUNCH, /* the same kernel on the partials, again, until one value is left */
    LADDER_ATOMIC,   /* each block adds its partial to one accumulator */
    LADDER_HOST,     /* the partials are copied to the host and added there */
    LADDER_FINISHES
} ladder_finish;

extern const char *const ladder_dtype_names[LADDER_DTYPES];
extern const char *const ladder_finish_names[LADDER_FINISHES];

/* ---- rungs.c ---- */

typedef enum {
    LADDER_CPU,    /* a loop on the host */
    LADDER_BLOCKS, /* a kernel that leaves one partial a block: runs with every way to finish */
    LADDER_WHOLE   /* gives the value by itself */
} ladder_kind;

typedef struct ladder_rung {
    int id; /* place in rungs.def */
    ladder_kind kind;
    const char *name;
    unsigned per_thread; /* elements that a thread takes, so the grid is n / (block * per_thread); 0: no say in the grid */
    bool in_place;       /* uses its input as scratch space */
    bool power_of_two;   /* block sizes must be */
    const char *what;
} ladder_rung;

enum { LADDER_RUNGS_MAX = 64, LADDER_BLOCK_MIN = 32, LADDER_BLOCK_MAX = 1024 }; /* blocks are whole warps */

extern const ladder_rung ladder_rungs[];
extern const int ladder_rung_count;

/* ---- published.c ---- */

typedef struct ladder_figure {
    double ms;
    const char *machine;
} ladder_figure;

/* What the notes say about this rung at this size, or NULL. */
const ladder_figure *ladder_published(const char *rung, ladder_dtype dtype, uint64_t n);
extern const char ladder_published_legend[];

/* ---- one run: cpu.c, gpu.cu ---- */

typedef struct ladder_run {
    double value, ms;
    uint64_t grid, passes; /* of the first pass; 0: not ours to know */
} ladder_run;

/* Add n elements at `work`, which may be spent on it. */
void ladder_cpu_run(const ladder_rung *rung, ladder_dtype dtype, void *work, size_t n, ladder_run *out);

typedef struct ladder_gpu ladder_gpu;

typedef struct ladder_card {
    char name[96];
    double peak_gbs; /* memory clock x bus width; 0: the driver does not say */
} ladder_card;

/* Open device `number`; NULL: `why`. The caller's to close; NULL is fine there. */
ladder_gpu *ladder_gpu_open(int number, ladder_card *card, char why[LADDER_WHY]);
void ladder_gpu_close(ladder_gpu *g);
/* Make `data` the input of the runs that follow. False: `why`. */
bool ladder_gpu_load(ladder_gpu *g, ladder_dtype dtype, const void *data, size_t n, char why[LADDER_WHY]);
/* One timed run on a cold L2, from the first launch to the value: in device memory, or with LADDER_HOST on the host. */
bool ladder_gpu_run(ladder_gpu *g, const ladder_rung *rung, unsigned block, ladder_finish finish, ladder_run *out,
                    char why[LADDER_WHY]);

/* ---- options.c ---- */

enum { LADDER_LIST = 32 };

typedef struct ladder_options {
    uint64_t n[LADDER_LIST];
    unsigned block[LADDER_LIST];
    ladder_dtype dtype[LADDER_LIST];
    ladder_finish finish[LADDER_LIST];
    int n_count, block_count, dtype_count, finish_count;
    bool rung[LADDER_RUNGS_MAX]; /* by id */
    int repeat;                  /* 0: by itself */
    int device;                  /* -1: the first one, if there is one */
    bool check, json, csv, list, help, version;
    const char *plot, *from; /* files, or NULL */
    const char *explain;     /* a rung whose page is to be printed, or NULL */
} ladder_options;

/* False: `why` says what is wrong. The strings stay argv's. */
bool ladder_parse(ladder_options *o, int argc, char **argv, char why[LADDER_WHY]);
void ladder_help(FILE *out);

/* ---- measure.c ---- */

typedef enum { LADDER_RIGHT, LADDER_WRONG, LADDER_BROKEN, LADDER_NOT_RUN, LADDER_VERDICTS } ladder_verdict;

/* A line of the table: self-contained, so that rows can be kept in files and shown elsewhere. Unknown numbers are NaN. */
typedef struct ladder_row {
    char date[16], version[16], gpu[96], cpu[96];
    double peak_gbs;
    char rung[LADDER_NAME], dtype[8], finish[16];
    uint64_t n, block;
    uint64_t verdict;      /* ladder_verdict */
    char note[LADDER_WHY]; /* why it broke or was not run */
    double value, exact;
    uint64_t grid, passes, runs;
    double ms, ms_min, ms_max;    /* median and extremes of the runs */
    double gbs, share;            /* 4 n / time; of peak_gbs */
    double over_cpu, over_before; /* speed-up over cpu-recursive-interleaved, over the rung before */
    double published_ms;
    char published_on[48];
} ladder_row;

typedef struct ladder_rows {
    ladder_row *row;
    size_t count, room;
} ladder_rows;

/* A new row at the end, zeroed; NULL: no memory. */
ladder_row *ladder_rows_add(ladder_rows *rows);
/* Run what the options ask for. False: `why`; rows that are wrong or broken are no such failure. */
bool ladder_measure(const ladder_options *o, ladder_rows *rows, char why[LADDER_WHY]);
bool ladder_all_right(const ladder_rows *rows);

/* ---- table.c ---- */
void ladder_print_table(FILE *out, const ladder_rows *rows);
void ladder_print_check(FILE *out, const ladder_rows *rows);
/* "2^26", "2^20-1", "1000" */
char *ladder_size_text(char out[24], uint64_t n);

/* ---- records.c ---- */
void ladder_print_json(FILE *out, const ladder_rows *rows); /* an object a line */
void ladder_print_csv(FILE *out, const ladder_rows *rows);
/* Append the rows of a file that ladder_print_json wrote. False: `why`. */
bool ladder_read_json(const char *path, ladder_rows *rows, char why[LADDER_WHY]);

/* ---- pages.c, made of the pages by the Makefile ---- */
typedef struct ladder_page {
    const char *name, *text; /* the file's, without suffix */
} ladder_page;
extern const ladder_page ladder_pages[]; /* the last has no name */

/* ---- plot.c ---- */
/* gnuplot's words for the kind of file, by its suffix: .svg, .png, .pdf. NULL: another one. */
const char *ladder_plot_terminal(const char *path);
bool ladder_plot(const char *path, const ladder_rows *rows, char why[LADDER_WHY]);

#ifdef __cplusplus
}
#endif
#endif
