/* Which users may use a socket. On ipc the users and groups of the config are compared with what the kernel reports about a
 * peer. On tls its user names are compared with the name in a peer's certificate.
 *
 * The kernel reports a peer's user and primary group. Further groups are looked up the other way round: users that the group
 * database lists as members when the daemon starts are admitted. */
#ifndef RD_ACCESS_H
#define RD_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/user_name.h"

#define RD_MAX_IDS 32 /* in one list of the config; a site with more users can make a group of them */

typedef struct rd_ids {
    uint32_t id[RD_MAX_IDS];
    uint32_t n;
} rd_ids;

typedef struct rd_names {
    char name[RD_MAX_IDS][RD_USER_NAME + 1];
    uint32_t n;
} rd_names;

typedef struct rd_allow {
    rd_ids users, groups; /* both empty: every user that the socket's mode admits */
    rd_names names;       /* empty: every name in a certificate that tls-ca signed */
} rd_allow;

bool rd_ids_have(const rd_ids *ids, uint32_t id);

typedef enum { RD_USER_ID, RD_GROUP_ID } rd_id_kind;

/* Add a user or a group by name or number. NULL, or what is wrong. */
const char *rd_ids_add(rd_ids *ids, rd_id_kind kind, const char *value);

/* Add a name. NULL, or what is wrong. */
const char *rd_names_add(rd_names *names, const char *name);
bool rd_names_have(const rd_names *names, const char *name);

/* The rule of one socket, ready to ask. */
typedef struct rd_gate {
    rd_allow allow;
    uint32_t *members; /* users of the allowed groups */
    size_t n_members;
} rd_gate;

bool rd_gate_init(rd_gate *g, const rd_allow *allow); /* looks up the groups' members; false: out of memory */
void rd_gate_fini(rd_gate *g);
bool rd_gate_open(const rd_gate *g); /* true for every user if there are no lists */
bool rd_gate_lets(const rd_gate *g, uint32_t uid, uint32_t gid);
bool rd_gate_lets_name(const rd_gate *g, const char *name);

#endif
