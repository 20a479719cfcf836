/* Pipes, sockets and terminals that a command opens several times: all of what each brings is kept in memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/ctl/formats/container.h"

/* ---- which pipes are opened several times ---- */

/* False: no memory. */
static bool count(const char *name, uint64_t openings)
{
    struct stat st;
    if (!name || ctl_is_resident(name) || !ctl_is_pipe(name, &st))
        return true;
    ctl_pipe *p = ctl_pipe_of(&st, name);
    if (p)
        p->openings += openings;
    return p;
}

/* Several operations have a pass each, over each file, and with --total one over all of them. */
static bool count_all(const ctl_options *o)
{
    const bool several = o->n_ops && !o->by, alone = several || !o->total;
    const uint64_t passes = several && !ctl_is_one_pass(o) ? (uint64_t)o->n_ops : 1,
                   each = passes * (1 + (several && o->total)), runs = passes * ((alone ? (uint64_t)o->n_files : 0) + o->total);
    const bool in_file = o->weights && o->weights[0] == ':'; /* weights are a column of the same file */
    bool good = count(o->mask, runs) && count(o->offsets, runs) && (in_file || count(o->weights, runs));
    for (int i = 0; i < o->n_files && good; i++)
        good = count(o->files[i], in_file ? 2 * each : each);
    return good;
}

/* ---- keeping ---- */

static const char *shown_name(const ctl_pipe *k) { return strcmp(k->name, "-") ? k->name : "stdin"; }

static int keep(ctl_pipe *k, uint64_t *all, const ctl_options *o, char why[CTL_WHY])
{
    char *path = ctl_path_of(k->name, ctl_member_of(k->name));
    const int from = path ? ctl_open_path(path) : -1;
    int err = from >= 0 ? 0 : REDUCE_E_IO;
    if (err)
        snprintf(why, CTL_WHY, "cannot open: %s", strerror(errno));
    else
        err = ctl_keep_pipe(shown_name(k), ctl_pull_fd(from, UINT64_MAX), all, o, &k->fd, why);
    if (from > STDIN_FILENO)
        close(from);
    free(path);
    return err;
}

int ctl_keep_pipes(const ctl_options *o)
{
    char why[CTL_WHY] = "no memory for the list of pipes";
    int err = count_all(o) ? 0 : REDUCE_E_NO_MEMORY;
    const char *name = NULL;
    uint64_t all = 0;
    for (ctl_pipe *k = ctl_pipes(); k && !err; k = k->next) {
        ctl_start_deadline(o->spec.deadline_ms);
        name = shown_name(k);
        err = k->openings > 1 ? keep(k, &all, o, why) : 0;
        if (ctl_interrupted())
            return CTL_INTERRUPTED;
    }
    return err ? ctl_print_error(o, &(ctl_where){.name = name}, err, why) : CTL_OK;
}
