/* sendmsg for everything in the daemon: libraries call it by name, and the program's own comes first. It mends two things.
 *
 * A repair of nng 1.5.2 (Debian 12), nanomsg/nng issue 1518: a peer that hangs up before the daemon has sent its half of
 * the handshake makes sendmsg fail with EPIPE; nng turns that into "closed", takes it for the end of the listener, and
 * never accepts anybody again. One killed client would lock out all later ones. ECONNRESET, which says the same, is
 * handled well. Newer versions of nng do not need this, and it does them no harm.
 *
 * And no message may block: nng's and libuv's sockets never do, but sd_notify's does once its reader has fallen ten
 * messages behind, and the loop with it. A status line is then lost instead. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    ssize_t n = syscall(SYS_sendmsg, fd, message, flags | MSG_DONTWAIT);
    if (n < 0 && errno == EPIPE)
        errno = ECONNRESET;
    return n;
}
