/* Several operations at once: their values as aligned columns, a line for each file, row, column or segment. */
#ifndef CTL_SEVERAL_H
#define CTL_SEVERAL_H

#include "client/ctl/ctl.h"

enum { CTL_MAX_LIST = 256 /* bytes of "sum,mean,..." */ };

/* reducectl OP,OP,...: in one pass if stats gives them all, else in one pass each. Returns the exit code. */
int ctl_reduce_several(reduce_client *c, const ctl_options *o);

/* What a pass over a file found: into the table instead of to standard output. */
void ctl_table_take(ctl_table *t, const ctl_options *o, const ctl_where *w, const reduce_result *r, const void *cells);
void ctl_table_take_exact(ctl_table *t, const ctl_where *w, const char *value);

bool ctl_is_one_pass(const ctl_options *o);

/* "sum,mean": codes to `ops`, how many; minmax is min and max. 0: `why`. */
int ctl_parse_ops(int ops[CTL_MAX_OPS], const char *list, char why[CTL_WHY]);

#endif
