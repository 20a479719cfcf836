/* Python's signal handlers run while a call of the main thread waits. The library has none of Python's functions by itself: a
 * program that is not Python's lacks them. */
#include <pthread.h>
#include <stddef.h>

#include "client/reduce.h"

/* Other threads handle no signals, and must not take the interpreter's lock here: while Python ends, that ends the thread. */
int reduce_python_signals(void *python)
{
    reduce_python *p = python;
    if ((uint64_t)pthread_self() != p->thread)
        return 0;
    if (p->exception[0])
        return 1;
    const int state = p->gil_ensure();
    if (p->check_signals())
        p->fetch(&p->exception[0], &p->exception[1], &p->exception[2]);
    p->gil_release(state);
    return p->exception[0] != NULL;
}
