/* The command line. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/ctl/ctl.h"
#include "client/ctl/op_table.h"
#include "client/ctl/suggest.h"

enum {
    OPT_NAN = 256,
    OPT_DDOF,
    OPT_INITIAL,
    OPT_WRAP,
    OPT_ROWS,
    OPT_AXIS,
    OPT_OFFSETS,
    OPT_MASK,
    OPT_PARTIAL,
    OPT_MERGE,
    OPT_INDEX_BASE,
    OPT_SHARD,
    OPT_JOINED,
    OPT_PATH,
    OPT_PRIORITY,
    OPT_CONNECT,
    OPT_TLS_CA,
    OPT_TLS_CERT,
    OPT_TLS_KEY,
    OPT_DEADLINE,
    OPT_JSON,
    OPT_JSON_STRINGS,
    OPT_WATCH,
    OPT_PROGRESS,
    OPT_HEX,
    OPT_RAW,
    OPT_TEXT,
    OPT_TOTAL,
    OPT_REPLACE,
    OPT_DEVICE,
    OPT_SPREAD,
    OPT_TTL,
    OPT_NO_AUTOSTART,
    OPT_WAIT,
    OPT_ONCE,
    OPT_REQUESTS
};

enum { MAX_LIST = 256 /* bytes of "sum,mean,..." */ };

static const char SHORT[] = ":t:o:vhV";
static const struct option LONG[] = {{"dtype", required_argument, NULL, 't'},
                                     {"out", required_argument, NULL, 'o'},
                                     {"nan", required_argument, NULL, OPT_NAN},
                                     {"ddof", required_argument, NULL, OPT_DDOF},
                                     {"initial", required_argument, NULL, OPT_INITIAL},
                                     {"wrap", no_argument, NULL, OPT_WRAP},
                                     {"rows", required_argument, NULL, OPT_ROWS},
                                     {"axis", required_argument, NULL, OPT_AXIS},
                                     {"offsets", required_argument, NULL, OPT_OFFSETS},
                                     {"mask", required_argument, NULL, OPT_MASK},
                                     {"partial", no_argument, NULL, OPT_PARTIAL},
                                     {"merge", no_argument, NULL, OPT_MERGE},
                                     {"index-base", required_argument, NULL, OPT_INDEX_BASE},
                                     {"shard", required_argument, NULL, OPT_SHARD},
                                     {"joined", required_argument, NULL, OPT_JOINED},
                                     {"path", required_argument, NULL, OPT_PATH},
                                     {"priority", required_argument, NULL, OPT_PRIORITY},
                                     {"connect", required_argument, NULL, OPT_CONNECT},
                                     {"tls-ca", required_argument, NULL, OPT_TLS_CA},
                                     {"tls-cert", required_argument, NULL, OPT_TLS_CERT},
                                     {"tls-key", required_argument, NULL, OPT_TLS_KEY},
                                     {"deadline", required_argument, NULL, OPT_DEADLINE},
                                     {"json", no_argument, NULL, OPT_JSON},
                                     {"json-strings", no_argument, NULL, OPT_JSON_STRINGS},
                                     {"watch", no_argument, NULL, OPT_WATCH},
                                     {"progress", no_argument, NULL, OPT_PROGRESS},
                                     {"requests", no_argument, NULL, OPT_REQUESTS},
                                     {"hex", no_argument, NULL, OPT_HEX},
                                     {"raw", no_argument, NULL, OPT_RAW},
                                     {"text", no_argument, NULL, OPT_TEXT},
                                     {"total", no_argument, NULL, OPT_TOTAL},
                                     {"replace", no_argument, NULL, OPT_REPLACE},
                                     {"device", required_argument, NULL, OPT_DEVICE},
                                     {"spread", no_argument, NULL, OPT_SPREAD},
                                     {"ttl", required_argument, NULL, OPT_TTL},
                                     {"no-autostart", no_argument, NULL, OPT_NO_AUTOSTART},
                                     {"wait", required_argument, NULL, OPT_WAIT},
                                     {"once", no_argument, NULL, OPT_ONCE},
                                     {"verbose", no_argument, NULL, 'v'},
                                     {"help", no_argument, NULL, 'h'},
                                     {"version", no_argument, NULL, 'V'},
                                     {NULL, 0, NULL, 0}};

/* "f32, f64, ..." of the codes that have a name */
static void list(char *out, size_t cap, const char *(*name)(int), int first)
{
    size_t n = 0;
    out[0] = 0;
    for (int i = first; name(i)[0] != '?' && n < cap; i++)
        n += (size_t)snprintf(out + n, cap - n, "%s%s", i > first ? ", " : "", name(i));
}

static bool unknown(char why[CTL_WHY], const char *what, const char *value, const char *(*name)(int), int first)
{
    char all[176];
    list(all, sizeof all, name, first);
    snprintf(why, CTL_WHY, "%s '%.40s' is not one of %s", what, value, all);
    return false;
}

/* NumPy's names of types: "float32", or "<f4" with one of `marks`. 0: none. Without a mark, i8 is this protocol's type of 8
 * bits. */
static int numpy_dtype(const char *word, const char *marks)
{
    static const struct {
        const char *name, *code;
        int dtype;
    } types[] = {{"int8", "i1", REDUCE_I8},     {"uint8", "u1", REDUCE_U8},    {"int16", "i2", REDUCE_I16},
                 {"uint16", "u2", REDUCE_U16},  {"int32", "i4", REDUCE_I32},   {"uint32", "u4", REDUCE_U32},
                 {"int64", "i8", REDUCE_I64},   {"uint64", "u8", REDUCE_U64},  {"float16", "f2", REDUCE_F16},
                 {"bfloat16", "", REDUCE_BF16}, {"float32", "f4", REDUCE_F32}, {"float64", "f8", REDUCE_F64}};
    bool marked = *word && strchr(marks, *word);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(word + marked, marked ? types[i].code : types[i].name))
            return types[i].dtype;
    return 0;
}

/* `marks`: of NumPy's, for the byte orders that there may be. */
static bool take_dtype(int32_t *out, const char *what, const char *value, const char *marks, char why[CTL_WHY])
{
    *out = reduce_dtype_parse(value);
    *out = *out ? *out : numpy_dtype(value, marks);
    return *out != 0 || unknown(why, what, value, reduce_dtype_name, REDUCE_I8);
}

static bool take_nan(int32_t *out, const char *value, char why[CTL_WHY])
{
    *out = reduce_nan_parse(value);
    return *out >= 0 || unknown(why, "--nan", value, reduce_nan_name, 0);
}

static bool take_priority(int *out, const char *value, char why[CTL_WHY])
{
    *out = reduce_priority_parse(value);
    return *out >= 0 || unknown(why, "--priority", value, reduce_priority_name, REDUCE_PRIORITY_NORMAL);
}

static bool take_path(int32_t *out, const char *value, char why[CTL_WHY])
{
    *out = reduce_path_parse(value);
    return *out != 0 || unknown(why, "--path", value, reduce_path_name, REDUCE_PATH_INLINE);
}

static bool take_number(uint64_t *out, const char *what, const char *value, uint64_t min, uint64_t max, char why[CTL_WHY])
{
    char *end;
    errno = 0;
    *out = strtoull(value, &end, 10);
    if (value[0] >= '0' && value[0] <= '9' && *end == 0 && errno == 0 && *out >= min && *out <= max)
        return true;
    snprintf(why, CTL_WHY, "%s '%.40s' is not a whole number from %d to %llu", what, value, (int)min, (unsigned long long)max);
    return false;
}

/* "0,-1": which axes, as numpy counts them; from the last one if negative. */
static bool take_axes(ctl_options *o, const char *list, char why[CTL_WHY])
{
    o->n_axes = 0;
    for (const char *at = list;; at++) {
        char *end;
        const bool number = (*at >= '0' && *at <= '9') || (*at == '-' && at[1] >= '0' && at[1] <= '9');
        const long axis = strtol(at, &end, 10);
        if (!number || (*end && *end != ',') || axis < -CTL_MAX_DIMS || axis >= CTL_MAX_DIMS || o->n_axes == CTL_MAX_DIMS) {
            snprintf(why, CTL_WHY, "--axis '%.40s' is not a list of axes, such as 0 or -1 or 0,2", list);
            return false;
        }
        o->axes[o->n_axes++] = (int)axis;
        if (!*end)
            return true;
        at = end;
    }
}

static bool take_format(ctl_options *o, ctl_format f, char why[CTL_WHY])
{
    bool first = o->format == CTL_DECIMAL || o->format == f;
    o->format = f;
    if (!first)
        snprintf(why, CTL_WHY, "--hex, --json and --raw exclude each other (--partial implies --raw)");
    return first;
}

/* One option; false: wrong. */
static bool take(ctl_options *o, int opt, char why[CTL_WHY])
{
    uint64_t n;
    switch (opt) {
    case 't':
        o->swapped = optarg[0] == '>';
        return take_dtype(&o->spec.dtype, "--dtype", optarg, "<=|>", why);
    case 'o':
        return take_dtype(&o->spec.out, "--out", optarg, "<=|", why);
    case OPT_NAN:
        return take_nan(&o->spec.nan, optarg, why);
    case OPT_DDOF:
        if (!take_number(&n, "--ddof", optarg, 0, UINT32_MAX, why))
            return false;
        o->spec.ddof = (uint32_t)n;
        return true;
    case OPT_INITIAL:
        o->initial = optarg;
        return true;
    case OPT_WRAP:
        o->spec.flags |= REDUCE_WRAP;
        return true;
    case OPT_ROWS:
        o->by_rows = true;
        return take_number(&o->spec.rows, "--rows", optarg, 1, CTL_MAX_COUNT, why);
    case OPT_AXIS:
        return take_axes(o, optarg, why);
    case OPT_OFFSETS:
        o->offsets = optarg;
        return true;
    case OPT_MASK:
        o->mask = optarg;
        return true;
    case OPT_PARTIAL:
        o->spec.flags |= REDUCE_STATES_OUT;
        return take_format(o, CTL_RAW, why);
    case OPT_MERGE:
        return o->merge = true;
    case OPT_INDEX_BASE:
        return take_number(&o->spec.index_base, "--index-base", optarg, 0, CTL_MAX_COUNT, why);
    case OPT_SHARD:
        return ctl_parse_shard(o, optarg, why);
    case OPT_JOINED:
        o->joined = optarg;
        return true;
    case OPT_DEADLINE:
        if (!take_number(&n, "--deadline", optarg, 1, INT32_MAX, why))
            return false;
        o->spec.deadline_ms = (uint32_t)n;
        return true;
    case OPT_PATH:
        return take_path(&o->spec.path, optarg, why);
    case OPT_PRIORITY:
        return take_priority(&o->priority, optarg, why);
    case OPT_CONNECT:
        o->url = optarg;
        return true;
    case OPT_TLS_CA:
        o->tls_ca = optarg;
        return true;
    case OPT_TLS_CERT:
        o->tls_cert = optarg;
        return true;
    case OPT_TLS_KEY:
        o->tls_key = optarg;
        return true;
    case OPT_JSON:
        return take_format(o, CTL_JSON, why);
    case OPT_WATCH:
        return o->watch = true;
    case OPT_PROGRESS:
        return o->progress = true;
    case OPT_JSON_STRINGS:
        o->json_strings = true;
        return take_format(o, CTL_JSON, why);
    case OPT_HEX:
        return take_format(o, CTL_HEX, why);
    case OPT_RAW:
        return take_format(o, CTL_RAW, why);
    case OPT_TEXT:
        return o->text = true;
    case OPT_TOTAL:
        return o->total = true;
    case OPT_REPLACE:
        return o->replace = true;
    case OPT_DEVICE:
        if (ctl_is_device_name(optarg)) {
            o->device = optarg;
            return true;
        }
        if (!take_number(&n, "--device", optarg, 0, UINT16_MAX - 1, why)) {
            snprintf(why, CTL_WHY, "--device '%.40s' is neither a number from 0 to %d nor GPU-<UUID>", optarg, UINT16_MAX - 1);
            return false;
        }
        o->device = NULL;
        o->spec.device = (uint32_t)n + 1;
        return true;
    case OPT_SPREAD:
        return o->spread = true;
    case OPT_TTL:
        if (!take_number(&n, "--ttl", optarg, 1, INT32_MAX / 1000, why))
            return false;
        o->ttl_ms = (uint32_t)n * 1000;
        return true;
    case OPT_NO_AUTOSTART:
        return o->no_autostart = true;
    case OPT_WAIT:
        if (!take_number(&n, "--wait", optarg, 1, INT32_MAX / 1000, why))
            return false;
        o->wait_ms = (uint32_t)n * 1000;
        return true;
    case OPT_ONCE:
        return o->once = true;
    case OPT_REQUESTS:
        return o->requests = true;
    case 'v':
        return o->verbose = true;
    case 'h':
        o->command = CTL_HELP;
        return true;
    case 'V':
        o->command = CTL_VERSION;
        return true;
    default:
        return false;
    }
}

int ctl_parse_op(const char *word, char why[CTL_WHY])
{
    int op = reduce_op_parse(word);
    const char *meant = op ? NULL : ctl_suggest_command(word);
    if (meant && strcmp(meant, word)) /* a command is known, but not an operation */
        snprintf(why, CTL_WHY, "the operation '%.40s' is unknown; did you mean '%s'?", word, meant);
    else if (!op)
        unknown(why, "the operation", word, reduce_op_name, REDUCE_SUM);
    return op;
}

int ctl_parse_ops(int ops[CTL_MAX_OPS], const char *list, char why[CTL_WHY])
{
    char copy[MAX_LIST], *save = NULL;
    int n = 0;
    snprintf(copy, sizeof copy, "%s", list);
    if (list[0] == ',' || strstr(list, ",,") || (list[0] && list[strlen(list) - 1] == ',')) {
        snprintf(why, CTL_WHY, "'%.60s' has a comma without an operation beside it", list);
        return 0;
    }
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        int op = ctl_parse_op(word, why), twice = op == REDUCE_MINMAX;
        if (!op)
            return 0;
        if (op == REDUCE_STATS || n + 1 + twice > CTL_MAX_OPS) {
            snprintf(why, CTL_WHY, op == REDUCE_STATS ? "stats is several operations by itself" : "too many operations");
            return 0;
        }
        ops[n++] = twice ? REDUCE_MIN : op;
        if (twice)
            ops[n++] = REDUCE_MAX;
    }
    if (n == 0 || strlen(list) >= sizeof copy)
        snprintf(why, CTL_WHY, n ? "too many operations" : "no operation given");
    return strlen(list) < sizeof copy ? n : 0;
}

/* The option that "--jsn" might have meant, or NULL. */
static const char *option_meant(const char *word)
{
    const char *names[sizeof LONG / sizeof *LONG];
    char name[40];
    size_t n = 0;
    for (; LONG[n].name; n++)
        names[n] = LONG[n].name;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    return ctl_nearest(name + strspn(name, "-"), names, n);
}

static bool take_command(ctl_options *o, const char *word, char why[CTL_WHY])
{
    static const struct {
        const char *word;
        ctl_command command;
    } others[] = {{"ping", CTL_PING}, {"info", CTL_INFO}, {"status", CTL_STATUS}, {"metrics", CTL_METRICS}, {"top", CTL_TOP},
                  {"put", CTL_PUT},   {"ls", CTL_LS},     {"drop", CTL_DROP},     {"help", CTL_HELP}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(word, others[i].word)) {
            o->command = others[i].command;
            return true;
        }
    o->command = CTL_REDUCE;
    if (strchr(word, ',')) {
        o->n_ops = ctl_parse_ops(o->ops, word, why);
        o->spec.op = o->ops[0];
        return o->n_ops > 0;
    }
    o->spec.op = ctl_parse_op(word, why);
    return o->spec.op != 0;
}

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
    return is_shaped(o) || o->mask || o->initial || o->total || o->merge || o->shards || o->joined || s->flags || s->out ||
           s->nan || s->ddof || s->index_base;
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
    if (op == REDUCE_STATS && o->n_ops) /* a pass for several operations */
        return has_op(o, REDUCE_ARGMIN) || has_op(o, REDUCE_ARGMAX);
    return op == REDUCE_ARGMIN || op == REDUCE_ARGMAX || op == REDUCE_STATS;
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

static bool reads_once(const char *name)
{
    struct stat st;
    return name && (!strcmp(name, "-") || ctl_is_pipe(name, &st));
}

static bool reads_a_pipe(const ctl_options *o)
{
    bool found = o->n_files == 0 || reads_once(o->mask) || reads_once(o->offsets);
    for (int i = 0; i < o->n_files && !found; i++)
        found = !ctl_is_resident(o->files[i]) && reads_once(o->files[i]);
    return found;
}

/* The first conflict between options, or NULL. */
static const char *clash(const ctl_options *o)
{
    bool shaped = is_shaped(o), partial = o->spec.flags & REDUCE_STATES_OUT;
    if (names_resident(o) && (o->mask || o->offsets || o->text || o->total || o->merge))
        return "@NAME excludes --mask, --offsets, --text, --total and --merge";
    if (o->total && shaped)
        return "--total excludes --rows, --axis and --offsets";
    if (o->offsets && (o->by_rows || o->n_axes))
        return "--offsets excludes --rows and --axis";
    if ((o->shards || o->joined) && (shaped || o->mask || o->text || o->merge || partial || o->spec.index_base || o->n_ops))
        return "--shard and --joined exclude --rows, --axis, --offsets, --mask, --text, --merge, --partial, --index-base and "
               "several "
               "operations";
    if (o->shards && (o->joined || names_resident(o) || reads_a_pipe(o)))
        return "--shard excludes --joined, @NAME, standard input and pipes";
    if (o->n_ops && (o->merge || o->format == CTL_RAW))
        return "several operations exclude --raw, --partial and --merge";
    if (o->n_ops && !ctl_is_one_pass(o) && reads_a_pipe(o))
        return "a pipe (and '-') is read once: several operations on it are those of stats, without --out and --initial";
    if (o->n_ops && o->total && reads_a_pipe(o))
        return "a pipe (and '-') is read once: not for a line of its own and for --total";
    if (o->spec.ddof && !has_ddof(o))
        return "--ddof applies to these operations only:" CTL_DDOF_OPS;
    if ((o->spec.flags & REDUCE_WRAP) && !has_op(o, REDUCE_PROD))
        return "--wrap applies to prod only";
    if (o->initial && partial)
        return "--partial excludes --initial, which is added when a value is finished";
    if (o->merge && o->spec.path > REDUCE_PATH_INLINE)
        return "--merge needs --path inline: states travel in messages";
    if (o->merge && (shaped || o->mask || o->text || o->total))
        return "--merge excludes --rows, --axis, --offsets, --mask, --text and --total";
    return NULL;
}

static bool consistent(const ctl_options *o, char why[CTL_WHY])
{
    const char *text = misplaced(o);
    if (!text)
        text = clash(o);
    if (text)
        snprintf(why, CTL_WHY, "%s", text);
    return !text;
}

/* Without a file, a pipe is meant; a terminal is not. */
static bool default_file(ctl_options *o, char why[CTL_WHY])
{
    static char stdin_name[] = "-";
    static char *only[] = {stdin_name, NULL};
    bool piped = (o->command == CTL_REDUCE && !o->n_files) || (o->command == CTL_PUT && o->n_files == 1);
    if (!piped)
        return true;
    if (isatty(STDIN_FILENO)) {
        snprintf(why, CTL_WHY, "no file given (use '-' for standard input)");
        return false;
    }
    if (o->command == CTL_REDUCE) {
        o->files = only;
        o->n_files = 1;
    }
    return true;
}

/* Is it standard input? Where that is a pipe, it may have other names, as /dev/stdin. */
static bool is_stdin(const char *name)
{
    struct stat own, st;
    if (!name || !strcmp(name, "-"))
        return name != NULL;
    bool other = !strncmp(name, "/dev/", 5) || !strncmp(name, "/proc/", 6);
    return other && ctl_is_pipe("-", &own) && ctl_is_pipe(name, &st) && own.st_dev == st.st_dev && own.st_ino == st.st_ino;
}

/* Standard input may be named only once: two readers would each get a part of it. */
static bool one_stdin(const ctl_options *o, char why[CTL_WHY])
{
    int n = is_stdin(o->mask) + is_stdin(o->offsets);
    for (int i = 0; i < o->n_files && o->command == CTL_REDUCE; i++)
        n += is_stdin(o->files[i]);
    if (n > 1)
        snprintf(why, CTL_WHY, "standard input can be read once, not %d times", n);
    return n <= 1;
}

static void unknown_option(const char *word, char why[CTL_WHY])
{
    const char *meant = option_meant(word);
    size_t n = meant ? strcspn(word, "=") : 0;
    bool misused = meant && n == strlen(meant) + 2 && !strncmp(word + 2, meant, n - 2);
    n = (size_t)snprintf(why, CTL_WHY, "unknown or misused option %.60s", word);
    if (meant && !misused)
        snprintf(why + n, CTL_WHY - n, "; did you mean --%s?", meant);
}

bool ctl_parse(ctl_options *o, int argc, char **argv, char why[CTL_WHY])
{
    *o = (ctl_options){.command = CTL_REDUCE, .spec = REDUCE_SPEC_INIT};
    o->spec.dtype = 0;
    why[0] = 0;
    optind = 0; /* glibc: start anew */
    opterr = 0;
    for (int opt; (opt = getopt_long(argc, argv, SHORT, LONG, NULL)) != -1;) {
        bool swallowed = opt != '?' && opt != ':' && optarg && optarg == argv[optind - 1] && !strncmp(optarg, "--", 2);
        if (swallowed)
            opt = ':';
        if (opt == ':')
            snprintf(why, CTL_WHY, "%.60s needs a value", argv[optind - 1 - swallowed]);
        else if (opt == '?' && optopt && optopt < 256 && !strchr(SHORT, optopt)) /* else a long one, given a value */
            snprintf(why, CTL_WHY, "unknown option -%c", optopt > ' ' && optopt < 127 ? optopt : '?');
        else if (opt == '?')
            unknown_option(argv[optind - 1], why);
        if (!take(o, opt, why))
            return false;
    }
    if (o->command == CTL_HELP || o->command == CTL_VERSION)
        return true;
    if (optind == argc) {
        snprintf(why, CTL_WHY, "no operation given");
        return false;
    }
    if (!take_command(o, argv[optind++], why))
        return false;
    o->files = argv + optind;
    o->n_files = argc - optind;
    if (o->command == CTL_HELP)
        return true;
    bool good = consistent(o, why) && default_file(o, why) && one_stdin(o, why);
    ctl_apply_shard(o);
    return good;
}
