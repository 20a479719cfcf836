/* Listening sockets passed by a socket unit: which of them serves which URL. They stay open while no daemon runs, so clients
 * wait instead of failing. */
#ifndef RD_ACTIVATION_H
#define RD_ACTIVATION_H

#include "daemon/base/config.h"
#include "daemon/base/passed.h"

typedef struct rd_activated {
    int messages[RD_MAX_LISTEN], fdpass[RD_MAX_LISTEN]; /* of the URLs in config->listen; -1: none was passed, so the daemon
                                                           binds its own */
    int metrics;                                        /* of metrics-url */
} rd_activated;

void rd_activation_none(rd_activated *a);

/* Take the sockets of `p`. Each must be one that a URL asks for, and an ipc URL has both of its sockets or none. False: `why`
 * says what does not fit. */
bool rd_activation_take(rd_activated *a, rd_passed *p, const rd_config *c, char *why, size_t cap);

void rd_activation_close(rd_activated *a); /* closes the sockets that are still unused; taken ones are -1 */

#endif
