/* A bad frame gets a typed error if its route is known. That is the connection's last reply, after those to earlier
 * messages. */
#ifndef RD_REFUSAL_H
#define RD_REFUSAL_H

#include "daemon/net/connection.h"

/* Refuse the frame that was read, with the fault that c->check found, and drop it. RD_GO_ON: the connection continues. */
rd_step rd_refuse_frame(rd_connection *c, const rp_fault *f);

/* Sends the waiting c->refusal if all earlier messages are answered. */
rd_step rd_refusal_send(rd_connection *c);

#endif
