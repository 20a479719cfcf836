/* The columns of the planes of an input: its elements are matrices, one after the other. */
#ifndef CTL_PLANES_H
#define CTL_PLANES_H

#include "client/ctl/ctl.h"

typedef struct ctl_planes {
    ctl_work *w;
    reduce_spec spec;               /* without shape */
    uint64_t planes, rows, columns; /* of each plane */
    uint8_t *cells;                 /* a result for each column, plane after plane */
    size_t cell;                    /* bytes of one */
    reduce_result sum;
} ctl_planes;

/* Read all elements and reduce them. 0, or a reduce_err with `why` or, if that is empty, as this thread's last error. */
int ctl_planes_run(ctl_planes *p, char why[CTL_WHY]);

#endif
