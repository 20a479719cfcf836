/* reducectl ladder: hand over to the program reducectl-ladder, on the GPU that the daemon has, if one runs. That program
 * needs CUDA and this one does not, so they are two. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/ctl.h"

enum { MAX_PATH = 4096 };

static int ladder_take_device(void *arg, const reduce_entry *e)
{
    int *device = arg;
    if (e->kind == REDUCE_KIND_TEXT && !strcmp(e->key, "device_note"))
        sscanf(e->text, "CUDA device %d:", device);
    return 0;
}

/* Number of the daemon's CUDA device; -1 without a daemon or a GPU. It starts no daemon. */
static int daemon_device(void)
{
    reduce_client *c;
    reduce_open_opts opts = REDUCE_OPEN_OPTS_INIT;
    int device = -1;
    opts.name = "reducectl ladder";
    if (reduce_open(&c, NULL, &opts))
        return -1;
    if (reduce_query(c, REDUCE_TOPIC_INFO, ladder_take_device, &device))
        device = -1;
    reduce_close(c);
    return device;
}

/* reducectl-ladder beside this program, else by $PATH. It returns if that cannot be run. */
static void become(char **argv)
{
    char path[MAX_PATH];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    char *slash = strrchr(path, '/');
    size_t room = slash ? sizeof path - (size_t)(slash + 1 - path) : 0;
    if (slash && (size_t)snprintf(slash + 1, room, "reducectl-ladder") < room)
        execv(path, argv);
    execvp("reducectl-ladder", argv);
}

int ctl_ladder(int argc, char **argv)
{
    static char name[] = "reducectl-ladder", option[] = "--device";
    char number[16];
    int device = daemon_device(), n = 0;
    char **words = calloc((size_t)argc + 3, sizeof *words);
    if (!words) {
        fputs("reducectl: ladder: no memory\n", stderr);
        return CTL_FAILED;
    }
    words[n++] = name;
    if (device >= 0) { /* first, so that a --device of the user's overrides it */
        snprintf(number, sizeof number, "%d", device);
        words[n++] = option;
        words[n++] = number;
    }
    for (int i = 2; i < argc; i++)
        words[n++] = argv[i];
    become(words);
    fprintf(stderr, "reducectl: ladder: reducectl-ladder: %s\n", strerror(errno));
    free(words);
    return CTL_FAILED;
}
