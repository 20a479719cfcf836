/* Whose is the other end of a tcp connection within this machine? The kernel knows (sock_diag(7)). */
#ifndef RD_LOOPBACK_USER_H
#define RD_LOOPBACK_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* The user whose process made the socket at the other end of `fd`. False: the peer is on another machine or its socket is
 * closed, or the kernel does not say. */
bool rd_loopback_user(int fd, uint64_t *uid);

/* ---- its two pure parts ---- */
struct inet_diag_sockid;

/* The kernel's name for the socket at `peer` whose other end is `own`. False: they are not two loopback addresses of one
 * family. */
bool rd_loopback_name(const struct sockaddr_storage *peer, const struct sockaddr_storage *own, struct inet_diag_sockid *id);

/* The user of the socket `id` by the kernel's answer. False: it has none, or the answer is not about an open connection of that
 * name. A socket whose process is gone would be root's: the kernel gives it neither user nor inode. */
bool rd_loopback_owner(const void *answer, size_t n, const struct inet_diag_sockid *id, uint64_t *uid);

#endif
