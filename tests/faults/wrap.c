#include "tests/faults/faults.h"

#include <errno.h>
#include <fcntl.h>
#include <nng/nng.h>
#include <nng/supplemental/tls/engine.h>
#include <nng/supplemental/tls/tls.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "kernels/kernels.h"
#include "tests/faults/calls.def"

static t_faults own, *page;
static pthread_once_t once = PTHREAD_ONCE_INIT;

void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t from);

static void find_page(void)
{
    const char *path = getenv("REDUCED_FAULTS");
    page = &own;
    if (!path)
        return;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *shared = __real_mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED)
        abort();
    close(fd);
    page = shared;
}

t_faults *t_faults_page(void)
{
    pthread_once(&once, find_page);
    return page;
}

bool t_fails(const char *name)
{
    t_faults *p = t_faults_page();
    uint64_t call = atomic_fetch_add(&p->calls, 1) + 1;
    if (p->always[0] && strcmp(p->always, name) == 0)
        return true;
    if (call != atomic_load(&p->fail_at))
        return false;
    snprintf(p->name, sizeof p->name, "%s", name);
    atomic_store(&p->fired, 1);
    return true;
}

#define WRAP(type, name, parameters, arguments, failure, error)                                               \
    type __real_##name parameters __attribute__((weak)); /* a program without it has no calls of it either */ \
    type __wrap_##name parameters;                                                                            \
    type __wrap_##name parameters                                                                             \
    {                                                                                                         \
        if (!t_fails(#name))                                                                                  \
            return __real_##name arguments;                                                                   \
        errno = error;                                                                                        \
        return failure;                                                                                       \
    }

T_CALLS(WRAP)
