/* Health checks: a real reduction, now and then, whose answer is known. */
#ifndef RD_HEALTH_H
#define RD_HEALTH_H

#include "daemon/server.h"

/* Start a health check of every device, if the last ones are back. */
void rd_health_check(rd_server *s);

/* Has a device been lost since the last look, while others are left? Then the log says so. */
bool rd_health_watch(rd_server *s);

/* Tell systemd about the backend and why it is this one, sessions, requests and lost devices. */
void rd_health_tell(rd_server *s);

#endif
