/* Peers that were not let in, or could not be: a counter for each reason, and now and then a line in the log. Any thread. */
#ifndef RD_TURNED_AWAY_H
#define RD_TURNED_AWAY_H

#include <stdint.h>

/* X(NAME, label of the metric) */
#define RD_AWAY_REASONS(X)        \
    X(USER, "user")               \
    X(NAME, "name")               \
    X(CERTIFICATE, "certificate") \
    X(HANDSHAKE, "handshake")     \
    X(CONNECTIONS, "connections") \
    X(DESCRIPTORS, "descriptors") \
    X(MEMORY, "memory")

typedef enum {
#define X(NAME, label) RD_AWAY_##NAME,
    RD_AWAY_REASONS(X)
#undef X
        RD_AWAY_N
} rd_away;

/* `peer`: as the log calls it. Each reason has at most one line in ten seconds, with the number of the others. */
void rd_turn_away(rd_away reason, const char *peer, const char *why);

uint64_t rd_turned_away(rd_away reason);
const char *rd_away_label(rd_away reason);

#endif
