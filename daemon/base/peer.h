/* Who is at the other end of a connection. */
#ifndef RD_PEER_H
#define RD_PEER_H

#include <stdbool.h>
#include <stdint.h>

enum { RD_PEER_TEXT = 80 };

typedef struct rd_peer {
    char text[RD_PEER_TEXT]; /* "pid 12 uid 1000", "tls 10.0.0.1:5000" or "tcp 10.0.0.1:5000" */
    unsigned listener;       /* which URL it came to, in the order of rd_transport_listen */
    bool local;              /* on ipc, of a user that the kernel told: so are the rest */
    uint64_t pid, uid, gid;  /* else 0 */
} rd_peer;

/* Is it one user? False: it stands for all users that this process's user namespace leaves out. They have nothing that belongs
 * to a user, for each of them would have the others', too. */
bool rd_uid_is_known(uint64_t uid);

#endif
