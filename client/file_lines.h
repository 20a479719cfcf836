/* Order statistics of a file, of which a part is in memory at a time: rows, segments or columns, or blocks of a long one, which
 * is read again in each pass. */
#ifndef RC_FILE_LINES_H
#define RC_FILE_LINES_H

#include "client/job.h"

/* Can the file of this request be read so? Else all of it has to be in memory. */
bool rc_file_has_lines(const rc_ask *a);

/* Reduce it. 0, or the fault, whose index is a line's. */
int rc_run_file_lines(const rc_ask *a, uint64_t until_ns, rp_fault *f);

#endif
