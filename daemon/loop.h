/* A turn of the loop: finished work and tasks, then what the network put into the inbox. */
#ifndef RD_LOOP_H
#define RD_LOOP_H

#include "daemon/server.h"

void rd_turn(rd_server *s);

/* The gates have changed: end the connections that they no longer let in. Returns how many. */
size_t rd_evict(rd_server *s);

#endif
