/* listen for everything in the daemon: libraries call it by name, and the program's own comes first (as with sendmsg.c). */
#include "daemon/base/interpose.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS /* Linux 6.16; accepted sockets have it from the one that listens */
#define SO_PASSRIGHTS 83
#endif

/* Of unix sockets. Others have no such option, nor have older kernels: nothing, then. */
static void pass_rights(int fd, int value) { setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &value, sizeof value); }

void rd_let_descriptors(int fd) { pass_rights(fd, 1); }

__attribute__((visibility("default"))) int listen(int fd, int backlog)
{
    pass_rights(fd, 0);
    return (int)syscall(SYS_listen, fd, backlog);
}
