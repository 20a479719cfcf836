/* In a program that includes it, or loads it as a library (tests/test_wire.py), the process may use 32 cores: where there
 * are few, no thread of the daemon stays awake for what may come. */
#ifndef TESTS_UNIT_MANY_CORES_H
#define TESTS_UNIT_MANY_CORES_H

#include <sched.h>

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    (void)pid;
    CPU_ZERO_S(bytes, set);
    for (int i = 0; i < 32; i++)
        CPU_SET_S(i, bytes, set);
    return 0;
}

#endif
