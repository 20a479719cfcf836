/* reducectl ladder: hand over to the program reducectl-ladder, on the GPU that the daemon has, if one runs. That program
 * needs CUDA and this one does not, so they are two. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/ctl.h"
#include "client/program.h"

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

/* It returns if reducectl-ladder cannot be run, and says why. */
static void become(char **argv)
{
    char path[RC_PROGRAM_PATH], why[RC_PROGRAM_WHY];
    if (rc_find_program("reducectl-ladder", path, why)) {
        fprintf(stderr, "reducectl: ladder: not started: %s\n", why);
        return;
    }
    execvp(path, argv);
    fprintf(stderr, "reducectl: ladder: reducectl-ladder: %s\n", strerror(errno));
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
    free(words);
    return CTL_FAILED;
}
