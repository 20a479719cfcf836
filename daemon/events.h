/* Events that no client causes: timers, signals, the wake-up of the loop. */
#ifndef RD_EVENTS_H
#define RD_EVENTS_H

#include "daemon/server.h"

/* The loop, its wake-up and signals. False: the reason is logged. */
bool rd_events_open(rd_server *s);

/* Tick, and check the health now and then. */
void rd_events_start(rd_server *s);

#endif
