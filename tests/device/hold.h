/* Waiting for a test, which holds something up by a file and goes on by removing it. */
#ifndef TESTS_DEVICE_HOLD_H
#define TESTS_DEVICE_HOLD_H

#include <stdlib.h>
#include <unistd.h>

/* Waits until the file $name is gone. Without $name it returns at once. */
static inline void t_hold(const char *name)
{
    const char *file = getenv(name);
    while (file && access(file, F_OK) == 0)
        usleep(500); /* poll interval */
}

#endif
