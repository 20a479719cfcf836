/* Replaces listen() for the whole daemon: libraries call it by name, and the linker finds the program's own first (as with
 * sendmsg.c). */
#include "daemon/base/interpose.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS /* Linux 6.16; accepted sockets inherit it from the listening one */
#define SO_PASSRIGHTS 83
#endif

/* A peer that vanishes without closing is noticed after IDLE + PROBES * INTERVAL seconds: two minutes. */
enum { IDLE = 60, INTERVAL = 15, PROBES = 4 };

/* A failing option is ignored: the kernel is older, or the socket is of another family. */
static void set(int fd, int level, int name, int value) { setsockopt(fd, level, name, &value, sizeof value); }

void rd_let_descriptors(int fd) { set(fd, SOL_SOCKET, SO_PASSRIGHTS, 1); }

__attribute__((visibility("default"))) int listen(int fd, int backlog)
{
    set(fd, SOL_SOCKET, SO_PASSRIGHTS, 0);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, IDLE);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, INTERVAL);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
    return (int)syscall(SYS_listen, fd, backlog);
}
