/* The packets of a channel that passes descriptors: ATTACH to a session, and handles: files, arenas, device memory. */
#ifndef RD_ON_HANDLE_H
#define RD_ON_HANDLE_H

#include "daemon/request/requests.h"

/* The hooks of rd_fdpass; `requests` is the rd_requests. */
void rd_on_packet(void *requests, rd_channel *c, const rp_side *p, int fd);
void rd_on_channel_gone(void *requests, rd_channel *c);

#endif
