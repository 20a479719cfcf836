/* A mutex that is held for some 100 ns at most: spinning a little is cheaper than the two system calls of sleeping. */
#ifndef RD_BRIEF_LOCK_H
#define RD_BRIEF_LOCK_H

#include <pthread.h>
#include <stdbool.h>

static inline bool rd_brief_lock_init(pthread_mutex_t *lock)
{
    pthread_mutexattr_t spin;
    pthread_mutexattr_init(&spin);
    pthread_mutexattr_settype(&spin, PTHREAD_MUTEX_ADAPTIVE_NP);
    const bool ok = pthread_mutex_init(lock, &spin) == 0;
    pthread_mutexattr_destroy(&spin);
    return ok;
}

#endif
