/* Inside kernels/: a clock that runs while at least one task is at work. Any thread. */
#ifndef RK_UTILISATION_H
#define RK_UTILISATION_H

#include <pthread.h>
#include <stdint.h>

typedef struct rk_busy {
    pthread_mutex_t lock;
    unsigned n;
    uint64_t total_ns, since_ns; /* busy time until the last idle moment; start of the current busy time */
    struct rk_busy *all;         /* runs while this one does, and others; NULL: none */
} rk_busy;

void rk_busy_init(rk_busy *b);
void rk_busy_fini(rk_busy *b);
void rk_busy_begin(rk_busy *b);
void rk_busy_end(rk_busy *b); /* once for each rk_busy_begin */
uint64_t rk_busy_ns(rk_busy *b);

#endif
