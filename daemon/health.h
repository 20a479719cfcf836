/* Health checks: a real reduction, now and then, whose answer is known. */
#ifndef RD_HEALTH_H
#define RD_HEALTH_H

#include "daemon/server.h"

/* Start a health check, if the last one is back. */
void rd_health_check(rd_server *s);

#endif
