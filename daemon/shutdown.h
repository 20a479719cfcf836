/* How the daemon drains and leaves. */
#ifndef RD_SHUTDOWN_H
#define RD_SHUTDOWN_H

#include "daemon/server.h"

/* Take no new work, finish what is under way, then leave. Again: nothing. */
void rd_drain(rd_server *s, const char *reason);

/* Every request is answered: let the replies go out, then end the loop. */
void rd_leave(rd_server *s, int exit_code);

/* At the end of each turn: act if the device is lost or the drain is done. */
void rd_shutdown_turn(rd_server *s);

/* After the loop, or after a start that failed: close everything. */
void rd_server_close(rd_server *s);

#endif
