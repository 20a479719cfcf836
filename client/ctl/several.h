/* Several operations at once: their values as aligned columns, a line for each file, row, column or segment. */
#ifndef CTL_SEVERAL_H
#define CTL_SEVERAL_H

#include "client/ctl/ctl.h"

/* reducectl OP,OP,...: in one pass if stats gives them all, else in one pass each. Returns the exit code. */
int ctl_reduce_several(reduce_client *c, const ctl_options *o);

#endif
