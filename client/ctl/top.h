/* reducectl top: what the daemon does now, from differences of its metrics.
 *
 *   metrics.c  the metrics' text as numbers (pure)     top_layout.c   two of them as lines of text (pure)
 *   top_ncurses.c   lines on a terminal, by ncurses; top_none.c stands in for it where there is none
 *   top.c      the command */
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

/* False: no memory, or it is none of our texts; then *m is empty. */
bool ctl_metrics_read(ctl_metrics *m, const char *text);
void ctl_metrics_free(ctl_metrics *m);

/* All samples of a name; *n of them. */
const ctl_sample *ctl_metrics_family(const ctl_metrics *m, const char *name, size_t *n);
/* One of them; 0 if there is none. */
double ctl_metrics_value(const ctl_metrics *m, const char *name, const char *labels);

/* The value of a label, cut to `cap`; "" if there is none. Returns out. */
char *ctl_label(char *out, size_t cap, const char *labels, const char *key);

/* ---- top_layout.c ---- */

typedef void ctl_put_line(void *arg, bool heading, const char *line);

/* What happened between two texts of a daemon, and what there is now, in at most `rows` lines (but at least the 10 without
 * the tables' rows). */
void ctl_frame(const ctl_metrics *then, const ctl_metrics *now, int rows, ctl_put_line *put, void *arg);

/* ---- top_ncurses.c ---- */

typedef enum { CTL_TIMEOUT, CTL_RESIZED, CTL_QUIT } ctl_event;

bool ctl_screen_open(char why[CTL_WHY]); /* false: there is no screen */
void ctl_screen_close(void);
void ctl_screen_show(const ctl_metrics *then, const ctl_metrics *now);
ctl_event ctl_screen_wait(int ms); /* keys without a meaning are passed over */

/* ---- top.c ---- */
int ctl_top(reduce_client *c, const ctl_options *o);

#endif
