/* The last fault of each thread. */
#ifndef RC_ERROR_H
#define RC_ERROR_H

#include <stdbool.h>

#include "client/reduce.h"
#include "proto/types.h"

/* Fill a fault with a code of the library (or -rp_err) and return the code. */
int rc_fail(rp_fault *f, int err, const char *field, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The daemon counts rows, segments and columns within its message. Removes the number from the text ("row 3: ..."); the index
 * stays. */
void rc_drop_row(rp_fault *f);

/* Say of which element the key is not a group, by the index of the fault. */
void rc_name_element(rp_fault *f);

/* rp_clean in place: a daemon's text may be shown on a terminal. */
void rc_clean_text(char *text);
/* The same for a text of several lines: line feeds stay. */
void rc_clean_lines(char *text);

/* Make `f` this thread's last fault; returns its code as a negative reduce_err. */
int rc_report(const rp_fault *f);
/* The same of a request that has one result if it is `whole`: reduce_errmsg names no row then. */
int rc_report_of(const rp_fault *f, bool whole);

/* The last fault, of code `err`, is one of a part of the call: name it in front of the text, "item 3: ...". Returns `err`. */
int rc_within(const char *part, uint64_t number, int err);

/* rc_fail and rc_report in one. */
int rc_error(int err, const char *field, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
