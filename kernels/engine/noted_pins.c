#include "kernels/engine/noted_pins.h"

#include <stdlib.h>

typedef struct rk_noted_pin {
    const void *base;
    size_t bytes;
    struct rk_noted_pin *next;
} rk_noted_pin;

void rk_noted_pins_init(rk_noted_pins *n, bool noting)
{
    *n = (rk_noted_pins){.noting = noting};
    pthread_mutex_init(&n->lock, NULL);
}

static void take_out(rk_noted_pin **at)
{
    rk_noted_pin *x = *at;
    *at = x->next;
    free(x);
}

void rk_noted_pins_fini(rk_noted_pins *n)
{
    while (n->first)
        take_out(&n->first);
    pthread_mutex_destroy(&n->lock);
}

/* Call with the lock held. */
static bool note(rk_noted_pins *n, const void *base, size_t bytes)
{
    rk_noted_pin *x = malloc(sizeof *x);
    if (!x)
        return false;
    *x = (rk_noted_pin){base, bytes, n->first};
    n->first = x;
    return true;
}

bool rk_noted_pins_add(rk_noted_pins *n, const void *base, size_t bytes, bool *noted)
{
    pthread_mutex_lock(&n->lock);
    const bool noting = n->noting;
    *noted = noting && note(n, base, bytes);
    pthread_mutex_unlock(&n->lock);
    return noting;
}

bool rk_noted_pins_remove(rk_noted_pins *n, const void *base)
{
    pthread_mutex_lock(&n->lock);
    rk_noted_pin **at = &n->first;
    while (*at && (*at)->base != base)
        at = &(*at)->next;
    const bool noted = *at != NULL;
    if (noted)
        take_out(at);
    pthread_mutex_unlock(&n->lock);
    return noted;
}

void rk_noted_pins_end(rk_noted_pins *n, bool (*pin)(const rk_engine *e, const void *base, size_t bytes), const rk_engine *e)
{
    pthread_mutex_lock(&n->lock); /* so that noted memory is not unmapped meanwhile */
    for (rk_noted_pin **at = &n->first; *at;)
        if (pin(e, (*at)->base, (*at)->bytes))
            take_out(at);
        else
            at = &(*at)->next;
    n->noting = false;
    pthread_mutex_unlock(&n->lock);
}
