/* How the daemon starts. */
#ifndef RD_STARTUP_H
#define RD_STARTUP_H

#include "daemon/server.h"

/* Start engine, locks, loop and transport. The daemon serves once the first health check is right. False: the reason is logged,
 * and *exit_code is the exit status. Call rd_server_close in any case. */
bool rd_server_open(rd_server *s, const rd_command *command, int *exit_code);

#endif
