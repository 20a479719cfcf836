/* What the daemon is and does as one object of JSON, for the page that a browser shows (page/). It holds what the metrics hold,
 * and not more of any user. */
#ifndef RD_STATUS_JSON_H
#define RD_STATUS_JSON_H

#include <stddef.h>

#include "daemon/telemetry/metrics.h"

/* `entries`: the status as QUERY answers it. NULL: no memory. Free it. */
char *rd_status_json(const rd_measures *m, const void *entries, size_t n, const rd_rates *rates, const rd_logins *logins,
                     size_t *len);

#endif
