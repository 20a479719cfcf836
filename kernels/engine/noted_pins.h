/* Inside kernels/: memory that is to be page-locked as soon as there are devices (rk_pin while they are opened). Any thread. */
#ifndef RK_NOTED_PINS_H
#define RK_NOTED_PINS_H

#include <pthread.h>

#include "kernels/kernels.h"

typedef struct rk_noted_pins {
    pthread_mutex_t lock;
    struct rk_noted_pin *first;
    bool noting;
} rk_noted_pins;

void rk_noted_pins_init(rk_noted_pins *n, bool noting);
void rk_noted_pins_fini(rk_noted_pins *n);

/* False: nothing is noted any more, so pin it. *noted: else there was memory to note it. */
bool rk_noted_pins_add(rk_noted_pins *n, const void *base, size_t bytes, bool *noted);

/* It is to be unpinned. True: it was noted and never pinned. */
bool rk_noted_pins_remove(rk_noted_pins *n, const void *base);

/* Note nothing more, and pin what was noted. What cannot be pinned stays noted. */
void rk_noted_pins_end(rk_noted_pins *n, bool (*pin)(const rk_engine *e, const void *base, size_t bytes), const rk_engine *e);

#endif
