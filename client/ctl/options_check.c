/* Which options go together. */
#include <string.h>
#include <sys/stat.h>

#include "client/ctl/ctl.h"
#include "client/ctl/op_table.h"

static bool names_resident(const ctl_options *o)
{
    bool some = false;
    for (int i = 0; i < o->n_files && o->command == CTL_REDUCE; i++)
        some |= ctl_is_resident(o->files[i]);
    return some;
}

static bool is_shaped(const ctl_options *o) { return o->by_rows || o->offsets || o->n_axes; }

/* Do the options define a reduction: its shape, types or policy? */
static bool has_reduction(const ctl_options *o)
{
    const reduce_spec *s = &o->spec;
    return is_shaped(o) || o->mask || o->weights || o->initial || o->total || o->merge || o->shards || o->joined || s->flags ||
           s->out || s->nan || s->ddof || o->based;
}

/* Do two marks of a table mean the same character? */
static bool marks_clash(const ctl_dialect *d)
{
    const char marks[] = {d->delimiter ? d->delimiter : 1, d->decimal ? d->decimal : '.',
                          d->unquoted ? 2
                          : d->quote  ? d->quote
                                      : '"',
                          d->comment};
    bool clash = false;
    for (size_t i = 0; i < sizeof marks; i++)
        for (size_t k = 0; k < i; k++)
            clash |= marks[i] == marks[k];
    return clash;
}

/* The first file or option that the command does not accept, or NULL. */
static const char *misplaced(const ctl_options *o)
{
    bool reduce = o->command == CTL_REDUCE, put = o->command == CTL_PUT, named = put || o->command == CTL_DROP;
    if (named && (o->n_files == 0 || (put && o->n_files > 2)))
        return put ? "put takes a name and at most one file" : "drop takes one or more names";
    if (!reduce && !named && o->n_files)
        return "ping, info, status, metrics, top and ls take no files";
    if (!reduce && has_reduction(o))
        return "options about what to reduce, or how, need an operation";
    if (!reduce && !put && (o->spec.dtype || o->text || o->spec.deadline_ms || o->spec.path))
        return "--dtype, --text, --deadline and --path apply to operations and put only";
    if (!reduce && !put && (ctl_has_dialect(&o->dialect) || o->no_unpack || o->no_scale || o->verify))
        return "options about files apply to operations and put only";
    if (!put && (o->replace || o->ttl_ms || o->spread))
        return "--replace, --ttl and --spread apply to put only";
    if (!put && !reduce && (o->spec.device || o->device))
        return "--device applies to operations and put only";
    if (o->spread && (o->spec.device || o->device))
        return "--spread is all devices, --device one";
    if (o->watch && o->command != CTL_STATUS)
        return "--watch applies to status only";
    if (o->progress && !reduce)
        return "--progress applies to operations only";
    if (o->once && o->command != CTL_TOP)
        return "--once applies to top only";
    if (o->requests && o->command != CTL_STATUS)
        return "--requests applies to status only";
    if (o->command == CTL_METRICS && o->format != CTL_DECIMAL)
        return "metrics takes no format option";
    if (!reduce && (o->format == CTL_HEX || o->format == CTL_RAW))
        return "ping, info, status, top and ls take --json only";
    return NULL;
}

static bool has_op(const ctl_options *o, int op)
{
    bool found = o->spec.op == op;
    for (int k = 0; k < o->n_ops; k++)
        found |= o->ops[k] == op;
    return found;
}

static bool has_ddof(const ctl_options *o)
{
    bool found = ctl_has_ddof(o->spec.op);
    for (int k = 0; k < o->n_ops; k++)
        found |= ctl_has_ddof(o->ops[k]);
    return found;
}

bool ctl_needs_indexes(const ctl_options *o)
{
    int op = o->spec.op;
    if ((op == REDUCE_STATS || o->by) && o->n_ops) /* a pass for several operations */
        return has_op(o, REDUCE_ARGMIN) || has_op(o, REDUCE_ARGMAX);
    return op == REDUCE_ARGMIN || op == REDUCE_ARGMAX || op == REDUCE_STATS || op == REDUCE_LARGEST || op == REDUCE_SMALLEST;
}

bool ctl_is_one_pass(const ctl_options *o)
{
    static const int within[] = {REDUCE_COUNT,  REDUCE_COUNT_NAN, REDUCE_MIN,  REDUCE_MAX, REDUCE_ARGMIN,
                                 REDUCE_ARGMAX, REDUCE_SUM,       REDUCE_MEAN, REDUCE_VAR, REDUCE_STD};
    for (int k = 0; k < o->n_ops; k++) {
        bool found = o->spec.nan == REDUCE_NAN_ERROR && (o->ops[k] == REDUCE_COUNT || o->ops[k] == REDUCE_COUNT_NAN);
        if (found)
            return false;
        for (size_t i = 0; i < sizeof within / sizeof *within; i++)
            found |= o->ops[k] == within[i];
        if (!found)
            return false;
    }
    return !o->spec.out && !o->initial && !o->spec.deadline_ms;
}

bool ctl_is_stdin(const char *name)
{
    struct stat own, st;
    if (!name)
        return false;
    if (!strcmp(name, "-"))
        return true;
    bool other = !strncmp(name, "/dev/", 5) || !strncmp(name, "/proc/", 6);
    return other && ctl_is_pipe("-", &own) && ctl_is_pipe(name, &st) && own.st_dev == st.st_dev && own.st_ino == st.st_ino;
}

static bool reads_once(const char *name)
{
    struct stat st;
    return name && (!strcmp(name, "-") || ctl_is_pipe(name, &st));
}

static bool reads_a_pipe(const ctl_options *o)
{
    bool found = o->n_files == 0 || reads_once(o->mask) || reads_once(o->weights) || reads_once(o->offsets);
    for (int i = 0; i < o->n_files && !found; i++)
        found = !ctl_is_resident(o->files[i]) && reads_once(o->files[i]);
    return found;
}

/* The same of weights. */
static const char *weights_clash(const ctl_options *o)
{
    const bool paired = ctl_is_paired(o->spec.op);
    for (int i = 0; i < o->n_ops; i++)
        if (ctl_is_paired(o->ops[i]))
            return "dot, wsum, wmean, cov and corr are not among several operations";
    if (o->weights && !paired)
        return "--weights applies to dot, wsum, wmean, cov and corr only";
    if (o->spec.flags & REDUCE_DROP_ZERO_WEIGHTS && (!paired || ctl_takes_two(o->spec.op)))
        return "--drop-zero-weights applies to wsum and wmean only";
    if (paired && !o->merge && !o->weights)
        return "dot, cov and corr need two files, or one and --weights; wsum and wmean need --weights";
    if (paired && (o->total || o->by || o->initial || o->shards || o->joined || names_resident(o)))
        return "operations with weights exclude @NAME, --total, --by, --initial, --shard and --joined";
    return o->merge && o->weights ? "--merge takes states, which have their weights in them" : NULL;
}

/* The first conflict between options, or NULL. */
static const char *clash(const ctl_options *o)
{
    if (ctl_has_dialect(&o->dialect) && (o->text || o->merge || o->joined))
        return "options about tables (--delimiter, --header ...) exclude --text, --merge and --joined";
    if (marks_clash(&o->dialect))
        return "--delimiter, --decimal, --quote and --comment need different characters";
    bool shaped = is_shaped(o), partial = o->spec.flags & REDUCE_STATES_OUT;
    if (names_resident(o) && (o->mask || o->offsets || o->text || o->total || o->merge))
        return "@NAME excludes --mask, --offsets, --text, --total and --merge";
    if (names_resident(o) && (ctl_has_dialect(&o->dialect) || o->no_unpack || o->no_scale || o->verify))
        return "@NAME excludes options about files";
    if (partial && (o->spec.ddof || o->spec.out || (o->spec.flags & REDUCE_WRAP)))
        return "--partial excludes --ddof, --out and --wrap, which apply when a value is finished: --merge takes them";
    if (o->merge && (o->spec.nan || o->swapped || o->no_unpack || o->no_scale || o->verify))
        return "--merge excludes --nan, byte orders, --no-unpack, --no-scale and --verify, which apply to elements: --partial "
               "takes them";
    if (o->total && shaped)
        return "--total excludes --rows, --axis and --offsets";
    if (o->top && !o->by)
        return "--top is for groups: --by says which";
    if (o->by &&
        (shaped || o->mask || o->text || o->merge || partial || o->total || o->shards || o->joined || o->initial || o->based ||
         o->spec.path || o->spec.deadline_ms || names_resident(o) || o->n_files > 1 || o->format == CTL_RAW))
        return "--by is for one column of one table, and its results are printed: it excludes --rows, --axis, --offsets, "
               "--mask, --text, "
               "--total, --partial, --merge, --raw, --initial and options about the daemon";
    if (o->by && (o->quantiles || o->spec.quantiles || o->ranked || has_op(o, REDUCE_MEDIAN) || has_op(o, REDUCE_QUANTILE) ||
                  o->bins || o->edges))
        return "order statistics have no groups so far";
    if (o->explain && (o->n_ops || o->by || o->merge || o->joined))
        return "explain is for one operation on elements: it excludes several, --by, --merge and --joined";
    if (o->offsets && (o->by_rows || o->n_axes))
        return "--offsets excludes --rows and --axis";
    if ((o->shards || o->joined) && (shaped || o->mask || o->text || o->merge || partial || o->based || o->n_ops))
        return "--shard and --joined exclude --rows, --axis, --offsets, --mask, --text, --merge, --partial, --index-base and "
               "several operations";
    if (o->shards && (o->joined || names_resident(o) || reads_a_pipe(o)))
        return "--shard excludes --joined, @NAME, standard input and pipes";
    if (o->n_ops && (o->merge || o->format == CTL_RAW))
        return "several operations exclude --raw, --partial and --merge";
    if (o->spec.ddof && !has_ddof(o))
        return "--ddof applies to these operations only:" CTL_DDOF_OPS;
    if (o->quantiles && (o->spec.op != REDUCE_STATS || o->n_ops || o->merge || partial || o->shards || o->joined ||
                         o->format == CTL_RAW || o->initial))
        return "--quantiles applies to stats alone, without --raw, --partial, --merge, --shard, --joined and --initial";
    if (o->spec.quantiles && o->n_ops)
        return "--q is for quantile alone: several operations have p25,p50 and the like";
    if (o->spec.quantiles && !has_op(o, REDUCE_QUANTILE))
        return "--q applies to quantile only";
    if (o->spec.op == REDUCE_QUANTILE && !o->n_ops && !o->spec.quantiles)
        return "quantile needs --q, such as --q 0.25,0.5,0.75";
    if (o->spec.method && !has_op(o, REDUCE_QUANTILE))
        return "--method applies to quantile and percentiles only";
    const bool top = has_op(o, REDUCE_LARGEST) || has_op(o, REDUCE_SMALLEST), bins = has_op(o, REDUCE_HISTOGRAM);
    if (o->n_ops && (top || bins))
        return "largest, smallest and histogram are not among several operations: their results are lists";
    if (top && (!o->ranked || o->spec.k < 1 || o->spec.k > REDUCE_MAX_TOP))
        return "largest and smallest need --k: how many elements, from 1 to 262144";
    if (!top && has_op(o, REDUCE_KTH) != o->ranked)
        return o->ranked ? "--k applies to kth, largest and smallest only"
                         : "kth needs --k: 0 is the smallest element, -1 the largest";
    if (bins != (o->bins || o->edges))
        return bins ? "histogram needs --bins, such as --bins 10, or --edges, such as --edges 0,1,10"
                    : "--bins and --edges apply to histogram only";
    if (o->bins && o->edges)
        return "--bins excludes --edges";
    if ((o->spec.flags & REDUCE_WRAP) && !has_op(o, REDUCE_PROD))
        return "--wrap applies to prod only";
    if (o->initial && partial)
        return "--partial excludes --initial, which is added when a value is finished";
    if (o->merge && o->spec.path > REDUCE_PATH_INLINE)
        return "--merge needs --path inline: states travel in messages";
    if (o->merge && (shaped || o->mask || o->text || o->total || o->based))
        return "--merge excludes --rows, --axis, --offsets, --mask, --text, --total and --index-base";
    if (partial && !o->merge && !o->based && ctl_needs_indexes(o))
        return "--partial of argmin, argmax and stats needs --index-base: where this part begins in the whole array, 0 for the "
               "first one";
    return weights_clash(o);
}

bool ctl_check_options(const ctl_options *o, char why[CTL_WHY])
{
    const char *text = misplaced(o);
    if (!text)
        text = clash(o);
    if (text)
        snprintf(why, CTL_WHY, "%s", text);
    return !text;
}

bool ctl_check_stdin(const ctl_options *o, char why[CTL_WHY])
{
    const char *const others[] = {o->mask, o->weights, o->offsets};
    const int n_files = o->command == CTL_REDUCE ? o->n_files : 0;
    int n = 0;
    bool columns = false; /* of a table, however many */
    for (int i = 0; i < n_files + 3; i++) {
        const char *name = i < n_files ? o->files[i] : others[i - n_files];
        const bool column = name && ctl_member_of(name), own = ctl_is_stdin(name);
        n += own && !(column && columns);
        columns |= own && column;
    }
    if (n > 1)
        snprintf(why, CTL_WHY, "standard input is named %d times: only columns of it may be several", n);
    return n <= 1;
}
