/* Locks that wait without the kernel for a moment. */
#ifndef RK_SPIN_H
#define RK_SPIN_H

#include <pthread.h>

/* Of a mutex that is held for some 50 ns: spinning a little is cheaper than two system calls. */
static inline void rk_spin_lock_init(pthread_mutex_t *lock)
{
    pthread_mutexattr_t spin;
    pthread_mutexattr_init(&spin);
    pthread_mutexattr_settype(&spin, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(lock, &spin);
    pthread_mutexattr_destroy(&spin);
}

#endif
