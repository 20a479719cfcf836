/* The receiving chain of a connection: from its first byte to its end, frame by frame. */
#ifndef RD_RECEIVING_H
#define RD_RECEIVING_H

#include "daemon/net/connection.h"

/* Begins the chain, for a new peer. */
void rd_receiving_begin(rd_connection *c);

/* The wire's event `received`. */
void rd_receiving_received(void *connection, bool ok, size_t n);

#endif
