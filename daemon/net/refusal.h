/* Bad frames are answered with a typed error where the place for it is known, in a connection's last reply, after those to the
 * messages before. */
#ifndef RD_REFUSAL_H
#define RD_REFUSAL_H

#include "daemon/net/connection.h"

/* The frame that was read, with what c->check says of it and its fault; it is dropped. RD_GO_ON: the connection continues. */
rd_step rd_refuse_frame(rd_connection *c, const rp_fault *f);

/* c->refusal waits: is it its turn? */
rd_step rd_refusal_send(rd_connection *c);

#endif
