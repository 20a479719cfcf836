/* Options that accepted sockets inherit from the listening one, whichever library made it.
 *
 * They accept no descriptors, because closing a descriptor that a client chose may hang: it may be a file in user space or a
 * tcp socket that lingers. The kernel closes descriptors that a reader left no room for, in the reader's thread. Those in a
 * socket that is closed unread are closed in the thread that closes it. The threads that read connections leave no room, and
 * many clients wait for them. So peers of accepted connections get EPERM. Linux before 6.16 has no such option and transmits
 * descriptors.
 *
 * They also probe silent tcp peers (keep-alive, for wire_nng.c). Otherwise a peer that lost its network would hold its
 * connection until the daemon next sends something. */
#ifndef RD_INTERPOSE_H
#define RD_INTERPOSE_H

/* Lets this connection accept descriptors. */
void rd_let_descriptors(int fd);

#endif
