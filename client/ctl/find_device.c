/* --device GPU-2c7b...: which number that GPU has in the daemon. */
#include <string.h>
#include <strings.h>

#include "client/ctl/ctl.h"

enum { SHORT_NAME = 12 }; /* letters of a UUID that tell GPUs apart: "GPU-2c7b8d4e" */

typedef struct search {
    const char *name;
    uint32_t device; /* 0: none so far */
    unsigned found;  /* GPUs whose names begin so */
    char all[CTL_WHY];
    size_t used;
} search;

static int find_device_each(void *arg, const reduce_gpu *g)
{
    search *s = arg;
    if (s->used < sizeof s->all)
        s->used += (size_t)snprintf(s->all + s->used, sizeof s->all - s->used, "%s%u (%.*s)", s->used ? ", " : "",
                                    g->device - 1, SHORT_NAME, g->name);
    if (strncasecmp(g->name, s->name, strlen(s->name)) == 0) {
        s->found++;
        s->device = g->device;
    }
    return 0;
}

bool ctl_is_device_name(const char *text) { return strncasecmp(text, "GPU-", 4) == 0 || strncasecmp(text, "MIG-", 4) == 0; }

int ctl_find_device(reduce_client *c, ctl_options *o)
{
    search s = {.name = o->device};
    char why[CTL_WHY];
    const ctl_where where = {.name = "--device"};
    int err = reduce_gpus(c, find_device_each, &s);
    if (err)
        return ctl_print_error(o, &where, err, NULL);
    o->spec.device = s.device;
    if (s.found == 1)
        return CTL_OK;
    snprintf(why, sizeof why, "'%.48s' %s; the daemon has %.150s", s.name,
             s.found ? "is not enough to tell GPUs apart" : "is not one of its GPUs", s.used ? s.all : "none");
    return ctl_print_error(o, &where, REDUCE_E_BAD_HANDLE, why);
}
