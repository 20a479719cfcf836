/* The daemon's GPUs, from its answer to a query: "gpu.0.uuid", "gpu.0.ordinal", "gpu.0.state", ... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/error.h"

typedef struct found {
    reduce_gpu gpu[RP_MAX_GPUS];
    unsigned n;
    bool opening; /* the daemon's GPUs: it cannot name them so far */
} found;

/* The 16 bytes of "GPU-2c7b8d4e-...". Another name has none. */
static void read_uuid(const char *name, uint8_t uuid[RP_UUID])
{
    unsigned n = 0, byte;
    const char *at = strncmp(name, "GPU-", 4) == 0 || strncmp(name, "MIG-", 4) == 0 ? name + 4 : "";
    for (; n < RP_UUID && sscanf(at, "%2x", &byte) == 1; at += strspn(at, "-"), n++) {
        uuid[n] = (uint8_t)byte;
        at += strnlen(at, 2);
    }
}

static int gpus_take(void *arg, const reduce_entry *e)
{
    found *all = arg;
    unsigned i;
    char what[16];
    if (strcmp(e->key, "devices_opening") == 0)
        all->opening = e->u64 != 0;
    if (sscanf(e->key, "gpu.%u.%15s", &i, what) != 2 || i >= RP_MAX_GPUS)
        return 0;
    reduce_gpu *g = &all->gpu[i];
    all->n = i >= all->n ? i + 1 : all->n;
    g->size = sizeof *g;
    g->device = i + 1;
    if (strcmp(what, "uuid") == 0) {
        snprintf(g->name, sizeof g->name, "%s", e->text);
        read_uuid(g->name, g->uuid);
    } else if (strcmp(what, "ordinal") == 0) {
        g->ordinal = (int32_t)e->u64;
    } else if (strcmp(what, "state") == 0) {
        g->lost = strcmp(e->text, "ok") != 0;
    }
    return 0;
}

/* A request for a device waits until devices are open, within the time limit of any request. Only an interruption matters. */
static int await_devices(reduce_client *c)
{
    reduce_spec spec = REDUCE_SPEC_INIT;
    const uint8_t zero = 0;
    uint64_t sum;
    spec.dtype = REDUCE_U8;
    spec.device = 1;
    const int err = reduce_run(c, &spec, &zero, 1, &sum, sizeof sum, NULL);
    return err == REDUCE_E_INTERRUPTED ? err : 0;
}

int reduce_gpus(reduce_client *c, int (*each)(void *arg, const reduce_gpu *gpu), void *arg)
{
    found all = {.n = 0};
    int err = rc_check(c);
    if (!err && !each)
        err = rc_error(REDUCE_E_ARGUMENT, "each", "the function is NULL");
    if (!err)
        err = reduce_query(c, REDUCE_TOPIC_INFO, gpus_take, &all);
    const bool again = !err && all.opening;
    if (again)
        err = await_devices(c);
    if (again && !err)
        err = reduce_query(c, REDUCE_TOPIC_INFO, gpus_take, &all);
    for (unsigned i = 0; !err && i < all.n; i++)
        err = each(arg, &all.gpu[i]);
    return err;
}
