/* What the sockets that the daemon accepts have from the one that listens, whatever library made it.
 *
 * No descriptors. To close one that a client chose may hang: a file system in user space, a tcp socket that lingers. The kernel
 * closes those that a reader has no room for in the reader's thread, and those in a socket that is closed unread in the thread
 * that closes it; the threads that read connections have no room, and others wait for them. So accepted connections take none,
 * and their peers get EPERM. Linux before 6.16 cannot do that, and transmits them.
 *
 * How often a tcp peer that says nothing is asked whether it is still there (wire_nng.c wants that): one that has lost its
 * network holds a connection otherwise, until the daemon has something to say. */
#ifndef RD_INTERPOSE_H
#define RD_INTERPOSE_H

/* This connection takes them after all. */
void rd_let_descriptors(int fd);

#endif
