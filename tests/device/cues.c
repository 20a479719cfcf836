/* The devices of a daemon on tests/faults/cudart.c: as many as $DEVICES_OF_MEMORY says. As soon as there is a file
 * $LOSE_DEVICE, followed by a device's number, its context breaks as under a kernel that traps. With $LOSE_HOST, page-locked
 * memory fails everywhere from then on; with $LOSE_ALL, every context breaks. While there is a file $HOLD_OPEN, CUDA does not
 * initialise: its first call waits; while there is one $HOLD_LOOK, nobody learns whether a context is whole. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/device/hold.h"
#include "tests/faults/cudart.h"

enum { POLL_US = 500, LATENCY_NS = 300000 /* so that a device has work under way when it breaks */ };

static void break_contexts(int device)
{
    for (int i = 0; i < t_cuda_devices; i++)
        if (i == device || getenv("LOSE_ALL"))
            t_cuda_break(i);
}

static void *cues_watch(void *arg)
{
    const char *file = arg;
    for (int i = 0;; i = (i + 1) % t_cuda_devices) {
        char path[256];
        snprintf(path, sizeof path, "%s%d", file, i);
        if (access(path, F_OK) == 0) {
            break_contexts(i);
            return NULL;
        }
        usleep(POLL_US); /* poll interval */
    }
}

static void cues_init(void) { t_hold("HOLD_OPEN"); }
static void cues_look(void) { t_hold("HOLD_LOOK"); }

__attribute__((constructor)) static void cues_start(void)
{
    const char *count = getenv("DEVICES_OF_MEMORY");
    char *file = getenv("LOSE_DEVICE");
    pthread_t thread;
    t_cuda_devices = count ? atoi(count) : 1;
    t_cuda_host_breaks = getenv("LOSE_HOST") != NULL;
    t_cuda_latency_ns = LATENCY_NS;
    t_cuda_init = cues_init;
    t_cuda_look = cues_look;
    sigset_t all, before; /* signals are for the daemon's own threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (file && pthread_create(&thread, NULL, cues_watch, file) == 0)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
