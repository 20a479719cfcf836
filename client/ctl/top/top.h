/* reducectl top: what the daemon does now, from differences of its metrics.
 *
 *   metrics.c     the metrics' text as numbers (pure)      top_rates.c   two of them as rates and rows (pure)
 *   top_layout.c  these as lines of text (pure)            top_json.c    or as an object of JSON
 *   top_ncurses.c lines on a terminal, by ncurses; top_none.c stands in for it where there is none
 *   top.c         the command */
#ifndef CTL_TOP_H
#define CTL_TOP_H

#include "client/ctl/ctl.h"

/* ---- metrics.c ---- */

typedef struct ctl_sample {
    const char *name, *labels; /* `op="sum",path="file"`; "" without */
    double value;
} ctl_sample;

/* One text of metrics, its samples in the order of name and labels. */
typedef struct ctl_metrics {
    char *text; /* that the samples point into */
    ctl_sample *sample;
    size_t n;
} ctl_metrics;

/* False: no memory, or it is not a text of the daemon; then *m is empty. */
bool ctl_metrics_read(ctl_metrics *m, const char *text);
void ctl_metrics_free(ctl_metrics *m);

/* All samples of a name; *n of them. */
const ctl_sample *ctl_metrics_family(const ctl_metrics *m, const char *name, size_t *n);
/* One of them; 0 if there is none. */
double ctl_metrics_value(const ctl_metrics *m, const char *name, const char *labels);

/* The value of a label, cut to `cap`; "" if there is none. Returns out. */
char *ctl_label(char *out, size_t cap, const char *labels, const char *key);

/* ---- what is compared, and how it is shown ---- */

enum { TOP_USER = 72 }; /* a user as the daemon names it: "1000", "tls:NAME", "tcp" */

/* A session of the daemon, as topic 5 of QUERY describes it. */
typedef struct ctl_process {
    char key[32], uid[TOP_USER], pid[64], name[68]; /* over the network uid is "tls:NAME" or "-", and pid has the address */
    double requests, pieces, errors, bytes, engine_s;
} ctl_process;

/* False: the text is not one of those. */
bool ctl_process_read(ctl_process *p, const char *key, const char *text);

/* The daemon at one moment */
typedef struct ctl_moment {
    ctl_metrics metrics;
    ctl_process *process;
    size_t n_processes;
} ctl_moment;

typedef enum { CTL_BY_REQUESTS, CTL_BY_DATA, CTL_BY_ENGINE, CTL_BY_TOTAL, CTL_BY_NAME } ctl_sort;

/* Of the last seconds, the latest last */
enum { CTL_HISTORY = 60 };
typedef struct ctl_history {
    double requests[CTL_HISTORY], bytes[CTL_HISTORY]; /* each second */
    unsigned n;
} ctl_history;

typedef struct ctl_view {
    const ctl_moment *then, *now;
    ctl_sort sort;
    bool names;                 /* the daemon is on this machine, so users have names here */
    bool help;                  /* with the keys */
    const ctl_history *history; /* NULL: none */
} ctl_view;

void ctl_history_add(ctl_history *h, const ctl_view *v);

/* ---- top_layout.c ---- */

typedef void ctl_put_line(void *arg, bool heading, const char *line);

/* What happened between two moments of a daemon, and what there is now, in at most `rows` lines of `columns`. Lines other than
 * the tables' rows are always there; of the tables the first rows that fit. */
void ctl_frame(const ctl_view *v, int rows, int columns, ctl_put_line *put, void *arg);

/* ---- top_json.c ---- */
void ctl_frame_json(const ctl_view *v, FILE *out);

/* ---- top_ncurses.c ---- */

typedef enum { CTL_TIMEOUT, CTL_RESIZED, CTL_RESORTED, CTL_HELP_KEY, CTL_QUIT } ctl_event;

bool ctl_screen_open(char why[CTL_WHY]); /* false: there is no screen */
void ctl_screen_close(void);
void ctl_screen_show(const ctl_view *v);
ctl_event ctl_screen_wait(int ms, ctl_sort *sort); /* unknown keys are ignored */

/* ---- top.c ---- */
int ctl_top(reduce_client *c, const ctl_options *o);

#endif
