/* Preloaded into a daemon (LD_PRELOAD): breaks the context of one device as a faulty kernel does, which no call gets over.
 *
 * As soon as there is a file $BREAK_DEVICE, followed by a device's number, a kernel traps in the primary context of that
 * device, which is the daemon's own. The driver comes by name: this needs neither CUDA's headers nor its compiler. The
 * daemon runs with --sandbox no. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_DEVICES = 16, POLL_US = 1000 };

static const char program[] = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry broken()\n{\n    trap;\n}\n";

static void *symbol(const char *name)
{
    static void *driver;
    if (!driver)
        driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = driver ? dlsym(driver, name) : NULL;
    if (!found)
        fprintf(stderr, "break: no %s\n", name);
    return found;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void break_device(int number)
{
    int (*get)(int *, int), (*retain)(void **, int), (*current)(void *), (*load)(void **, const void *);
    int (*function)(void **, void *, const char *), (*synchronize)(void);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
    void *context = NULL, *module = NULL, *kernel = NULL;
    int device = 0;
    *(void **)&get = symbol("cuDeviceGet");
    *(void **)&retain = symbol("cuDevicePrimaryCtxRetain");
    *(void **)&current = symbol("cuCtxSetCurrent");
    *(void **)&load = symbol("cuModuleLoadData");
    *(void **)&function = symbol("cuModuleGetFunction");
    *(void **)&launch = symbol("cuLaunchKernel");
    *(void **)&synchronize = symbol("cuCtxSynchronize");
    if (!get || !retain || !current || !load || !function || !launch || !synchronize)
        return;
    int err = get(&device, number);
    err = err ? err : retain(&context, device);
    err = err ? err : current(context);
    err = err ? err : load(&module, program);
    err = err ? err : function(&kernel, module, "broken");
    err = err ? err : launch(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    const double launched = now_ms();
    const int then = err ? 0 : synchronize();
    fprintf(stderr, "break: device %d: launched %d, then %d after %.0f ms\n", number, err, then, now_ms() - launched);
}

static void *break_watch(void *arg)
{
    const char *file = arg;
    for (;;) {
        for (int i = 0; i < MOST_DEVICES; i++) {
            char path[256];
            snprintf(path, sizeof path, "%s%d", file, i);
            if (access(path, F_OK) == 0) {
                break_device(i);
                return NULL;
            }
        }
        usleep(POLL_US); /* poll interval */
    }
}

__attribute__((constructor)) static void break_start(void)
{
    pthread_t thread;
    char *file = getenv("BREAK_DEVICE");
    sigset_t all, before; /* signals are for the daemon's own threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (file && pthread_create(&thread, NULL, break_watch, file) == 0)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
