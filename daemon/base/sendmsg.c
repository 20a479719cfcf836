/* sendmsg for everything in the daemon: libraries call it by name, and the program's own comes first. No message may block:
 * nng's and libuv's sockets never do, but sd_notify's does once its reader is ten messages late, and the loop
 * with it. A status line is then lost instead. */
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    return syscall(SYS_sendmsg, fd, message, flags | MSG_DONTWAIT);
}
