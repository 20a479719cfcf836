/* The daemon's own unix sockets, while it serves: what was removed from their folder comes back. */
#ifndef RD_KEEP_SOCKETS_H
#define RD_KEEP_SOCKETS_H

#include "daemon/server.h"

/* About once a second. Sockets of the service manager are its own affair. */
void rd_keep_sockets(rd_server *s);

#endif
