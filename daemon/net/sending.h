/* The replies of a connection, queued and sent; and back-pressure: a connection with too many of them is not read. */
#ifndef RD_SENDING_H
#define RD_SENDING_H

#include "daemon/net/connection.h"

/* Queue a reply behind the others; it is freed when it is sent, or here if the connection ends. `answered` is how many messages
 * are answered with it. */
void rd_send(rd_connection *c, rd_reply_buffer *r, unsigned answered);

/* The wire's event `sent`. */
void rd_sending_sent(void *connection, bool ok, size_t n);

/* The first reply in the queue. */
void rd_send_greeting(rd_connection *c);

/* May the connection be read now? RD_PAUSED: too many replies wait, and sending resumes it later. */
rd_step rd_sending_look(rd_connection *c);

/* True: it is paused until all its messages are answered. */
bool rd_sending_pauses(rd_connection *c);

#endif
