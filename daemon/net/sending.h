/* The replies of a connection, queued and sent; and back-pressure: a connection with too many of them is not read. */
#ifndef RD_SENDING_H
#define RD_SENDING_H

#include "daemon/net/connection.h"

/* After those that are on their way; it is freed when it is out, or here if the connection ends. NULL: nothing is sent.
 * `answered` messages fewer are under way. */
void rd_send(rd_connection *c, rd_reply_buffer *r, unsigned answered);

/* The wire's event. */
void rd_sending_sent(void *connection, bool ok, size_t n);

/* The first reply of all. */
void rd_send_greeting(rd_connection *c);

/* Is it to be read now? RD_PAUSED: too much waits, and sending resumes it. */
rd_step rd_sending_look(rd_connection *c);

/* True: it is paused until all its messages are answered. */
bool rd_sending_pauses(rd_connection *c);

#endif
