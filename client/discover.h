/* Which daemon: where it may listen. */
#ifndef RC_DISCOVER_H
#define RC_DISCOVER_H

#include <stdbool.h>

#include "proto/types.h"

enum { RC_MAX_URL = 256, RC_MAX_CANDIDATES = 2 };

typedef struct rc_urls {
    bool own;   /* the first one is where this user may have a daemon started */
    bool named; /* the caller or $REDUCED_URL gave it: no other place is tried, and no daemon is started there */
    int n;
    char url[RC_MAX_CANDIDATES][RC_MAX_URL];
} rc_urls;

/* Where a daemon may listen, in the order of trying. */
int rc_discover(rc_urls *u, const char *given, rp_fault *f);

#endif
