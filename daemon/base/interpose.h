/* Whether descriptors come in by the daemon's sockets. To close one that a client chose may hang: a file system in user space,
 * a tcp socket that lingers. The kernel closes those that a reader has no room for in the reader's thread, and those in a
 * socket that is closed unread in the thread that closes it. nng reads without room, in one thread for all connections.
 *
 * So the connections that the daemon accepts take none, and their peers are told EPERM. Linux before 6.16 cannot do that, and
 * lets them. */
#ifndef RD_INTERPOSE_H
#define RD_INTERPOSE_H

/* This connection takes them after all. */
void rd_let_descriptors(int fd);

#endif
