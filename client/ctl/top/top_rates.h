/* Two moments of a daemon as rates, quantiles and the rows of tables. */
#ifndef CTL_TOP_RATES_H
#define CTL_TOP_RATES_H

#include "client/ctl/top/top.h"

enum { TOP_NAME = 24 };

typedef struct top_frame {
    const ctl_view *view;
    const ctl_metrics *then, *now;
    double seconds; /* between them, by the daemon's clock */
} top_frame;

top_frame top_frame_of(const ctl_view *v);

double top_value(const top_frame *f, const char *name, const char *labels);
double top_rate(const top_frame *f, const char *name, const char *labels);
double top_total_rate(const top_frame *f, const char *name); /* of all samples of a family */

/* Seconds that the share q of the requests stayed below, as if times were spread evenly within a bucket. */
double top_quantile(const top_frame *f, const char *stage, double q);

/* A line of a table. The numbers are per second, but for `total`: requests ever. A request whose answer is not a value is a
 * piece of one, and does not count. */
typedef struct top_row {
    char first[TOP_USER], second[64], third[TOP_USER]; /* op, type, path; uid; name, pid, uid */
    char user[TOP_USER];
    double engine, bytes, rate, errors, total; /* engine: seconds */
} top_row;

typedef struct top_rows {
    top_row *row; /* the first by view->sort first */
    size_t n;
} top_rows;

/* *rows is empty without memory. Free with top_rows_free. */
top_rows top_read_ops(const top_frame *f);
top_rows top_read_users(const top_frame *f);
top_rows top_read_processes(const top_frame *f);
void top_rows_free(top_rows *r);

#endif
