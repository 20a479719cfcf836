/* Several operations at once: their values as aligned columns, a line for each file, row, column or segment. */
#ifndef CTL_SEVERAL_H
#define CTL_SEVERAL_H

#include "client/ctl/ctl.h"

/* reducectl OP,OP,...: in a single pass if stats has all values, else in one pass for each operation. Returns the exit code. */
int ctl_reduce_several(reduce_client *c, const ctl_options *o);

#endif
