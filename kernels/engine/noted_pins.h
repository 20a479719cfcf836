/* Inside kernels/: memory to page-lock once there are devices (rk_pin while they are opening). Any thread. */
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

/* Note memory. False: notes are closed, so pin it. If true, *noted says whether there was room for the note. */
bool rk_noted_pins_add(rk_noted_pins *n, const void *base, size_t bytes, bool *noted);

/* Remove a note. True: the memory was noted and never pinned. */
bool rk_noted_pins_remove(rk_noted_pins *n, const void *base);

/* Close the notes, and pin the noted memory. What cannot be pinned stays noted. */
void rk_noted_pins_end(rk_noted_pins *n, bool (*pin)(const rk_engine *e, const void *base, size_t bytes), const rk_engine *e);

#endif
