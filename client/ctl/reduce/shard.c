/* --shard I/N: the I-th of N equal parts of all elements of the files, as one array. --joined: the result of all parts
 * together. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"

/* ---- which part -------------------------------------------------------------------------------------------------- */

/* Environment variables of launchers: the process's rank and the number of processes. */
static const struct {
    const char *index, *count;
} launchers[] = {{"SLURM_PROCID", "SLURM_NTASKS"}, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}};

static bool parse(const char *text, char end, uint64_t *v)
{
    char *rest;
    *v = strtoull(text, &rest, 10);
    return text[0] >= '0' && text[0] <= '9' && *rest == end && *v < CTL_MAX_COUNT;
}

static bool by_launcher(uint64_t *index, uint64_t *count)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const char *a = getenv(launchers[i].index), *b = getenv(launchers[i].count);
        if (a && b && parse(a, 0, index) && parse(b, 0, count))
            return true;
    }
    return false;
}

bool ctl_parse_shard(ctl_options *o, const char *text, char why[CTL_WHY])
{
    const char *slash = strchr(text, '/');
    bool automatic = !strcmp(text, "auto");
    bool known = automatic ? by_launcher(&o->shard, &o->shards)
                           : slash && parse(text, '/', &o->shard) && parse(slash + 1, 0, &o->shards);
    if (known && o->shard < o->shards)
        return true;
    if (automatic)
        snprintf(why, CTL_WHY, "--shard auto: the environment has no process number of Slurm, Open MPI or MPICH");
    else
        snprintf(why, CTL_WHY, "--shard '%.40s' is not I/N with I below N, for example 0/8", text);
    return false;
}

void ctl_apply_shard(ctl_options *o)
{
    if (o->shards) { /* options for finishing and printing belong to --joined */
        o->spec.flags |= REDUCE_STATES_OUT;
        o->format = CTL_RAW;
        o->initial = NULL;
        o->total = true;
    }
    if (o->joined) {
        o->merge = true;
        o->files = (char **)&o->joined;
        o->n_files = 1;
        o->text = o->total = false;
    }
}

/* ---- cutting ----------------------------------------------------------------------------------------------------- */

/* The first element of part i of n of `total` elements. */
static uint64_t bound(uint64_t total, uint64_t i, uint64_t n) { return (uint64_t)((unsigned __int128)total * i / n); }

/* Only elements from `from` up to `to`, of `count`. */
static void narrow(ctl_input *in, uint64_t from, uint64_t to)
{
    const uint64_t size = reduce_dtype_size(in->dtype);
    in->start += from * size;
    in->bytes = (to - from) * size;
    in->dims = 1; /* its shape is the whole file's */
    in->shape[0] = to - from;
    in->fortran = false;
    ctl_rewind(in);
}

int ctl_cut_shard(const ctl_options *o, ctl_input *in, int *n, uint64_t *first, char why[CTL_WHY])
{
    uint64_t total = 0, at = 0;
    int kept = 0;
    for (int i = 0; i < *n; i++) {
        if (!ctl_in_file(&in[i])) {
            snprintf(why, CTL_WHY, "%.100s cannot be cut: its elements do not lie in a file as they are", in[i].name);
            return REDUCE_E_TYPE;
        }
        total += in[i].bytes / reduce_dtype_size(in[i].dtype);
    }
    const uint64_t begin = bound(total, o->shard, o->shards), end = bound(total, o->shard + 1, o->shards);
    for (int i = 0; i < *n; i++) {
        const uint64_t count = in[i].bytes / reduce_dtype_size(in[i].dtype);
        const uint64_t from = begin > at ? begin - at : 0, to = end > at ? end - at : 0;
        narrow(&in[i], from < count ? from : count, to < count ? to : count);
        at += count;
    }
    for (int i = 0; i < *n; i++) { /* those without a part go, but for the last one */
        if (in[i].bytes || (i == *n - 1 && kept == 0))
            in[kept++] = in[i];
        else
            ctl_close(&in[i]);
    }
    *n = kept;
    *first = begin;
    return 0;
}
