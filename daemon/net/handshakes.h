/* Turns at TLS handshakes. Each costs the daemon milliseconds of processor time before the peer is identified. So a handshake
 * begins only when its address, and all addresses together, have time left. Otherwise its connection waits, the oldest first.
 * The time that it took is charged to the address. */
#ifndef RD_HANDSHAKES_H
#define RD_HANDSHAKES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { RD_HANDSHAKE_BUCKETS = 256 }; /* buckets of addresses; a random key decides which addresses share one */

/* A connection's. */
typedef struct rd_handshake {
    uint64_t key; /* its address */
    bool waits;
    struct rd_handshake *next;
} rd_handshake;

typedef struct rd_handshakes {
    pthread_mutex_t lock; /* of everything below */
    uint64_t seed;
    uint64_t paid_ns[RD_HANDSHAKE_BUCKETS], all_paid_ns; /* CLOCK_MONOTONIC: from then on a handshake may begin */
    rd_handshake *waiting;                               /* the oldest first */
} rd_handshakes;

void rd_handshakes_init(rd_handshakes *h, uint64_t seed);
void rd_handshakes_fini(rd_handshakes *h);

/* May it begin? Else it waits until rd_handshakes_next returns it. */
bool rd_handshakes_ask(rd_handshakes *h, rd_handshake *x, uint64_t now_ns);

/* Removes and returns the oldest waiting one that may begin now. NULL: none may. */
rd_handshake *rd_handshakes_next(rd_handshakes *h, uint64_t now_ns);

bool rd_handshakes_wait(rd_handshakes *h); /* does any handshake wait? */

/* Withdraw a waiting handshake. False: it does not wait (any more). */
bool rd_handshakes_leave(rd_handshakes *h, rd_handshake *x);

/* The handshake is over and took `spent_ns` of processor time. */
void rd_handshakes_end(rd_handshakes *h, const rd_handshake *x, uint64_t spent_ns);

#endif
