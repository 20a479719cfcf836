/* Arrays that grow as their elements come. */
#ifndef CTL_GROW_H
#define CTL_GROW_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Room for `n` more elements of `size` bytes behind `used` ones. `array` is where the pointer of an array of *room is. */
static inline bool ctl_grow(void *array, size_t *room, size_t used, size_t n, size_t size)
{
    const size_t wanted = 2 * *room + n + 16;
    void *at;
    if (*room - used >= n)
        return true;
    memcpy(&at, array, sizeof at); /* a pointer of any type */
    if (!(at = realloc(at, wanted * size)))
        return false;
    memcpy(array, &at, sizeof at);
    *room = wanted;
    return true;
}

#endif
