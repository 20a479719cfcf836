/* How the daemon starts, ticks, rereads its config, drains and leaves. */
#ifndef RD_LIFE_H
#define RD_LIFE_H

#include "daemon/server.h"

/* Engine, locks, loop and transport. False: the reason is logged, *exit_code says how to leave. */
bool rd_life_open(rd_server *s, const rd_command *command, int *exit_code);
void rd_life_close(rd_server *s);

/* The first probe is back: serve, or leave if it was wrong. */
void rd_life_probed(rd_server *s, bool right);

/* At the end of each turn: is the device lost, is the drain done? */
void rd_life_turn(rd_server *s);

#endif
