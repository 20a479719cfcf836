/* Inside kernels/: a clock that runs while at least one thing is at work, however many there are. Any thread. */
#ifndef RK_UTILISATION_H
#define RK_UTILISATION_H

#include <pthread.h>
#include <stdint.h>

typedef struct rk_busy {
    pthread_mutex_t lock;
    unsigned n;
    uint64_t total_ns, since_ns; /* up to the last moment without; since when there is one */
} rk_busy;

void rk_busy_init(rk_busy *b);
void rk_busy_fini(rk_busy *b);
void rk_busy_begin(rk_busy *b);
void rk_busy_end(rk_busy *b); /* of one that began */
uint64_t rk_busy_ns(rk_busy *b);

#endif
