/* Replaces sendmsg() for the whole daemon: libraries call it by name, and the linker finds the program's own first. No send may
 * block. nng's and libuv's sockets never do, but sd_notify's blocks once its reader is ten messages late, and would block the
 * loop. Here the status line is lost instead. */
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    return syscall(SYS_sendmsg, fd, message, flags | MSG_DONTWAIT);
}
