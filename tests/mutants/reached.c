/* Which code ran: linked into every program of a build with -fsanitize-coverage=trace-pc, for tests/mutants/run.
 *
 * The compiler calls __sanitizer_cov_trace_pc at the start of each basic block. One byte for each address of a module's code
 * is in a file of the module's name below $REDUCED_REACHED. It is mapped before main(), so that no sandbox is in the way and
 * nothing is lost when a process is killed. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE (8u << 20) /* more than any module's code */

static unsigned char *reached;
static uintptr_t base;

__attribute__((visibility("hidden"))) void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
    if (reached)
        reached[((uintptr_t)__builtin_return_address(0) - base) % SIZE] = 1;
}

__attribute__((constructor(101))) static void open_map(void)
{
    Dl_info module;
    char path[4096];
    const char *folder = getenv("REDUCED_REACHED");
    if (!folder || !dladdr((void *)(uintptr_t)open_map, &module))
        return;
    const char *slash = strrchr(module.dli_fname, '/');
    base = (uintptr_t)module.dli_fbase;
    snprintf(path, sizeof path, "%s/%s", folder, slash ? slash + 1 : module.dli_fname);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    fchmod(fd, 0666); /* tests run programs as other users */
    if (ftruncate(fd, SIZE) == 0) {
        void *map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        reached = map == MAP_FAILED ? NULL : map;
    }
    close(fd);
}
