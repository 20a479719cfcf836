/* How the daemon starts. */
#ifndef RD_STARTUP_H
#define RD_STARTUP_H

#include "daemon/server.h"

/* Engine, locks, loop and transport. It serves once the first health check is right. False: the reason is logged, *exit_code
 * says how to leave; rd_server_close in any case. */
bool rd_server_open(rd_server *s, const rd_command *command, int *exit_code);

#endif
