/* The ways that a reduction could take: for `reducectl explain`, and what was expected of the one that it took. */
#include <inttypes.h>

#include "client/ctl/ctl.h"

/* Does the daemon have a choice? Elements of pipes, texts and packed files are read here. */
static bool has_ways(const ctl_work *w) { return ctl_is_direct(w) && !w->in[0].resident; }

/* Quartiles of stats need all elements, too. */
static bool needs_all(const ctl_work *w) { return ctl_needs_all(w->spec.op) || w->o->quantiles; }

static int each_way(const ctl_work *w, int (*each)(void *arg, const reduce_way *way), void *arg)
{
    reduce_spec spec = w->spec;
    spec.rows = 1; /* the shape makes no difference */
    return reduce_explain(w->c, &spec, w->in[0].fd, w->in[0].bytes, each, arg);
}

static int explain_keep(void *arg, const reduce_way *way)
{
    ctl_expected *e = arg;
    if (way->taken)
        *e = (ctl_expected){way->name, way->expected_ns};
    return 0;
}

void ctl_expect(ctl_work *w)
{
    const bool told = w->o->verbose || w->o->format == CTL_JSON;
    w->expected.way = NULL;
    if (told && has_ways(w) && !needs_all(w))
        each_way(w, explain_keep, &w->expected);
}

static int explain_text(void *arg, const reduce_way *way)
{
    (void)arg;
    if (way->why)
        printf("%-8s %10s     %s\n", way->name, "-", way->why);
    else
        printf("%-8s %10.3f ms%s\n", way->name, (double)way->expected_ns * 1e-6, way->taken ? "  taken" : "");
    return 0;
}

static int explain_json(void *arg, const reduce_way *way)
{
    const ctl_work *w = arg;
    fputs("{\"file\":", stdout);
    ctl_json_string(stdout, w->name);
    printf(",\"way\":\"%s\",\"taken\":%s,", way->name, way->taken ? "true" : "false");
    if (way->why)
        printf("\"why\":\"%s\"}\n", way->why);
    else
        printf("\"expected_ns\":%" PRIu64 "}\n", way->expected_ns);
    return 0;
}

int ctl_explain(ctl_work *w)
{
    const bool json = w->o->format == CTL_JSON;
    if (needs_all(w))
        return ctl_print_error(w->o, &(ctl_where){.name = w->name}, REDUCE_E_OP,
                               "the times of order statistics and of operations with weights are not known so far");
    if (!has_ways(w)) {
        const reduce_way only = {.taken = 1, .name = w->in[0].resident ? "resident" : "stream"};
        return json ? explain_json(w, &only) : (printf("%-8s the only way of such data\n", only.name), CTL_OK);
    }
    const int err = each_way(w, json ? explain_json : explain_text, w);
    return err ? ctl_print_error(w->o, &(ctl_where){.name = w->name}, err, NULL) : CTL_OK;
}
