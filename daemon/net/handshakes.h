/* Turns at TLS handshakes. Each costs the daemon milliseconds of a processor before it knows who asks. So a handshake begins
 * when its address, and all addresses together, have time left; else its connection waits, the oldest first. What it took is
 * charged to the address. */
#ifndef RD_HANDSHAKES_H
#define RD_HANDSHAKES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { RD_HANDSHAKE_BUCKETS = 256 }; /* of addresses; which ones share one is different in each process */

/* A connection's. */
typedef struct rd_handshake {
    uint64_t key; /* its address */
    bool waits;
    struct rd_handshake *next;
} rd_handshake;

typedef struct rd_handshakes {
    pthread_mutex_t lock; /* of everything below */
    uint64_t seed;
    uint64_t paid_ns[RD_HANDSHAKE_BUCKETS], all_paid_ns; /* a handshake may begin from then on */
    rd_handshake *waiting;                               /* the oldest first */
} rd_handshakes;

void rd_handshakes_init(rd_handshakes *h, uint64_t seed);
void rd_handshakes_fini(rd_handshakes *h);

/* May it begin? Else it waits until rd_handshakes_next returns it. */
bool rd_handshakes_ask(rd_handshakes *h, rd_handshake *x, uint64_t now_ns);

/* The oldest one that may begin now; it does not wait any more. NULL: none may. */
rd_handshake *rd_handshakes_next(rd_handshakes *h, uint64_t now_ns);

bool rd_handshakes_wait(rd_handshakes *h); /* some do */

/* It is not to begin: false if it does not wait, or not any more. */
bool rd_handshakes_leave(rd_handshakes *h, rd_handshake *x);

/* It is over, and took so much time of a processor. */
void rd_handshakes_end(rd_handshakes *h, const rd_handshake *x, uint64_t spent_ns);

#endif
