#include "kernels/cpu/threads/room.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>

/* ---- threads ---- */

bool rk_start_thread(void *(*run)(void *), void *arg, bool detached, unsigned long *thread)
{
    pthread_attr_t attr;
    sigset_t all, old;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, detached ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE);
    pthread_attr_setstacksize(&attr, RK_ROOM_THREAD);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const bool started = pthread_create(thread, &attr, run, arg) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return started;
}

/* ---- room ---- */

/* The stack that a thread began with; 0 if that is not known. */
static _Thread_local struct {
    bool known;
    uintptr_t low, high;
} stack;

static void find_stack(void)
{
    pthread_attr_t attr;
    void *low;
    size_t size;
    stack.known = true;
    if (pthread_getattr_np(pthread_self(), &attr))
        return;
    if (!pthread_attr_getstack(&attr, &low, &size)) {
        stack.low = (uintptr_t)low;
        stack.high = stack.low + size;
    }
    pthread_attr_destroy(&attr);
}

/* A coroutine's frames are elsewhere. */
static bool has_room(size_t bytes)
{
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (!stack.known)
        find_stack();
    return here < stack.high && here > stack.low && here - stack.low > bytes;
}

typedef struct call {
    void (*work)(void *);
    void *arg;
} call;

static void *room_run(void *arg)
{
    const call *e = arg;
    e->work(e->arg);
    return NULL;
}

bool rk_with_room(size_t bytes, void (*work)(void *), void *arg)
{
    call e = {work, arg};
    pthread_t thread;
    if (has_room(bytes)) {
        work(arg);
        return true;
    }
    if (!rk_start_thread(room_run, &e, false, &thread))
        return false;
    pthread_join(thread, NULL);
    return true;
}
