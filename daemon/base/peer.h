/* Who is at the other end of a connection. */
#ifndef RD_PEER_H
#define RD_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/user_name.h"

enum { RD_PEER_TEXT = 80 + RD_USER_NAME };

typedef struct rd_peer {
    char text[RD_PEER_TEXT];     /* "pid 12 uid 1000", "tls NAME 10.0.0.1:5000" or "tcp 10.0.0.1:5000" */
    unsigned listener;           /* which URL it came to, in the order of rd_transport_listen */
    bool local;                  /* on ipc: the kernel reported pid, uid and gid */
    uint64_t pid, uid, gid;      /* 0 if not local; the uid of a certificate's name is the number that users.h gives it */
    char name[RD_USER_NAME + 1]; /* on tls: the user in its certificate; "": no certificate was asked for */
    uint64_t no_room;            /* descriptors that the daemon may have, if they are used up; 0: there is room */
    const char *refused;         /* why its certificate names no user; NULL: it does, or there is none */
} rd_peer;

/* Does the peer name a user with quotas of its own? All other peers of the network count as one user together. */
static inline bool rd_peer_is_user(const rd_peer *p) { return p->local || p->name[0]; }

/* Does the uid stand for a single user? False: it stands for all users that this process's user namespace leaves unmapped.
 * These own nothing, because each of them could use what the others own. */
bool rd_uid_is_known(uint64_t uid);

/* Root and the daemon's own user may see and do more than others. */
bool rd_uid_is_admin(uint64_t uid);

#endif
