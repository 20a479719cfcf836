/* Preloaded to the ranks of MPICH: a rank that waits lets another one run. Otherwise ranks beyond the cores spin until the
 * kernel takes the core from them. It counts on UCX, and changes nothing where MPICH has another library below. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

unsigned ucp_worker_progress(void *worker);
unsigned ucp_worker_progress(void *worker)
{
    unsigned (*next)(void *);
    *(void **)&next = dlsym(RTLD_NEXT, "ucp_worker_progress");
    const unsigned n = next(worker);
    if (!n)
        sched_yield();
    return n;
}
