#include "daemon/base/peer.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

/* A user namespace may leave users unmapped: the kernel reports them all by this number. UINT64_MAX: all users are mapped. */
static uint64_t overflow_uid;

/* The n-th number in a file; 0: there is none. */
static uint64_t number_in(const char *path, unsigned n)
{
    unsigned long long number = 0;
    FILE *f = fopen(path, "re");
    for (; f && n; n--)
        if (fscanf(f, "%llu", &number) != 1)
            number = 0;
    if (f)
        fclose(f);
    return number;
}

static void find_overflow_uid(void)
{
    /* columns: first uid inside, first uid outside, count */
    bool all_mapped = number_in("/proc/self/uid_map", 3) == UINT32_MAX;
    uint64_t uid = number_in("/proc/sys/kernel/overflowuid", 1);
    overflow_uid = all_mapped ? UINT64_MAX : uid ? uid : 65534;
}

bool rd_uid_is_known(uint64_t uid)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_overflow_uid);
    return uid != overflow_uid;
}

bool rd_uid_is_admin(uint64_t uid) { return uid == 0 || uid == geteuid(); }
