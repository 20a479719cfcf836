/* Frames that the daemon cannot read as messages are answered with a typed error where one can be: in a connection's last
 * reply, after those to the messages before. */
#ifndef RD_REFUSAL_H
#define RD_REFUSAL_H

#include "daemon/net/connection.h"

/* A frame that is too long: its first bytes, which name its request, are read; then it is refused. */
rd_step rd_refusal_begin_long(rd_connection *c);
rd_step rd_refusal_of_long(rd_connection *c);

#endif
