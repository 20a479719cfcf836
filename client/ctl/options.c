/* The command line. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/ctl.h"
#include "client/ctl/help_rows.h"
#include "client/ctl/suggest.h"

enum { MAX_LIST = 256 /* bytes of "sum,mean,..." */, MAX_NAMES = 32 };

/* ---- values ---- */

/* "f32, f64, ..." of the codes that have a name */
static void list_names(char *out, size_t cap, const char *(*name)(int), int first)
{
    size_t n = 0;
    out[0] = 0;
    for (int i = first; name(i)[0] != '?' && n < cap; i++)
        n += (size_t)snprintf(out + n, cap - n, "%s%s", i > first ? ", " : "", name(i));
}

/* The one that is meant, or NULL */
static const char *nearest_name(const char *value, const char *(*name)(int), int first)
{
    const char *names[MAX_NAMES];
    size_t n = 0;
    for (int i = first; name(i)[0] != '?' && n < MAX_NAMES; i++)
        names[n++] = name(i);
    return ctl_nearest(value, names, n);
}

static bool unknown(char why[CTL_WHY], const char *what, const char *value, const char *(*name)(int), int first)
{
    char all[176];
    const char *meant = nearest_name(value, name, first);
    list_names(all, sizeof all, name, first);
    if (meant)
        snprintf(why, CTL_WHY, "%s '%.40s' is unknown; did you mean '%s'?", what, value, meant);
    else
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
                 {"bfloat16", "", REDUCE_BF16}, {"float32", "f4", REDUCE_F32}, {"float64", "f8", REDUCE_F64},
                 {"bool", "b1", REDUCE_BOOL}};
    bool marked = *word && word[1] && strchr(marks, *word);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(word + marked, marked ? types[i].code : types[i].name))
            return types[i].dtype;
    return 0;
}

/* NumPy's f4 is meant as f32, whatever is spelt like it, and >f64 with its byte order. */
static bool unknown_dtype(char why[CTL_WHY], const char *what, const char *value, const char *marks)
{
    char marked[8];
    snprintf(marked, sizeof marked, "<%.6s", value);
    const int meant = numpy_dtype(marked, "<");
    if (meant)
        snprintf(why, CTL_WHY, "%s '%.40s' is unknown; did you mean '%s'?", what, value, reduce_dtype_name(meant));
    else if (*value && strchr("<>=|", *value))
        snprintf(why, CTL_WHY, "%s '%.40s' is not one of NumPy's, such as <i4, %cf8", what, value,
                 strchr(marks, '>') ? '>' : '<');
    else
        return unknown(why, what, value, reduce_dtype_name, REDUCE_I8);
    return false;
}

/* `marks`: of NumPy's, for the byte orders that there may be. */
static bool parse_dtype(int32_t *out, const char *what, const char *value, const char *marks, char why[CTL_WHY])
{
    *out = reduce_dtype_parse(value);
    *out = *out ? *out : numpy_dtype(value, marks);
    return *out != 0 || unknown_dtype(why, what, value, marks);
}

static bool option_nan(ctl_options *o, const char *value, char why[CTL_WHY])
{
    o->spec.nan = reduce_nan_parse(value);
    return o->spec.nan >= 0 || unknown(why, "--nan", value, reduce_nan_name, 0);
}

static bool option_priority(ctl_options *o, const char *value, char why[CTL_WHY])
{
    o->priority = reduce_priority_parse(value);
    return o->priority >= 0 || unknown(why, "--priority", value, reduce_priority_name, REDUCE_PRIORITY_NORMAL);
}

static bool option_path(ctl_options *o, const char *value, char why[CTL_WHY])
{
    o->spec.path = reduce_path_parse(value);
    return o->spec.path != 0 || unknown(why, "--path", value, reduce_path_name, REDUCE_PATH_INLINE);
}

static bool take_number(uint64_t *out, const char *option, const char *value, uint64_t min, uint64_t max, char why[CTL_WHY])
{
    char *end;
    errno = 0;
    *out = strtoull(value, &end, 10);
    if (value[0] >= '0' && value[0] <= '9' && *end == 0 && errno == 0 && *out >= min && *out <= max)
        return true;
    snprintf(why, CTL_WHY, "--%s '%.40s' is not a whole number from %d to %llu", option, value, (int)min,
             (unsigned long long)max);
    return false;
}

/* "0,-1": which axes, as numpy counts them; from the last one if negative. */
static bool option_axis(ctl_options *o, const char *list, char why[CTL_WHY])
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

static bool option_dtype(ctl_options *o, const char *value, char why[CTL_WHY])
{
    o->swapped = value[0] == '>';
    return parse_dtype(&o->spec.dtype, "--dtype", value, "<=|>", why);
}

static bool option_out(ctl_options *o, const char *value, char why[CTL_WHY])
{
    return parse_dtype(&o->spec.out, "--out", value, "<=|", why);
}

static bool option_rows(ctl_options *o, const char *value, char why[CTL_WHY])
{
    o->by_rows = true;
    return take_number(&o->spec.rows, "rows", value, 1, CTL_MAX_COUNT, why);
}

static bool option_index_base(ctl_options *o, const char *value, char why[CTL_WHY])
{
    o->based = true;
    return take_number(&o->spec.index_base, "index-base", value, 0, CTL_MAX_COUNT, why);
}

static bool option_partial(ctl_options *o, const char *value, char why[CTL_WHY])
{
    (void)value;
    o->spec.flags |= REDUCE_STATES_OUT;
    return take_format(o, CTL_RAW, why);
}

static bool option_json_strings(ctl_options *o, const char *value, char why[CTL_WHY])
{
    (void)value;
    o->json_strings = true;
    return take_format(o, CTL_JSON, why);
}

static bool option_device(ctl_options *o, const char *value, char why[CTL_WHY])
{
    uint64_t n = 0;
    const bool named = ctl_is_device_name(value);
    if (!named && !take_number(&n, "device", value, 0, UINT16_MAX - 1, why)) {
        snprintf(why, CTL_WHY, "--device '%.40s' is neither a number from 0 to %d nor GPU-<UUID>", value, UINT16_MAX - 1);
        return false;
    }
    o->device = named ? value : NULL;
    o->spec.device = named ? o->spec.device : (uint32_t)n + 1;
    return true;
}

/* ---- order statistics ---- */

static bool option_q(ctl_options *o, const char *list, char why[CTL_WHY])
{
    o->spec.quantiles = 0;
    o->spec.q = o->q;
    for (const char *at = list;; at++) {
        char *end;
        const double q = strtod(at, &end);
        const bool right = end != at && (!*end || *end == ',') && q >= 0 && q <= 1;
        if (!right || o->spec.quantiles == REDUCE_MAX_QUANTILES) {
            snprintf(why, CTL_WHY, "--q '%.60s' is not a list of 1 to %d numbers from 0 to 1", list, REDUCE_MAX_QUANTILES);
            return false;
        }
        o->q[o->spec.quantiles++] = q;
        if (!*end)
            return true;
        at = end;
    }
}

static bool option_method(ctl_options *o, const char *value, char why[CTL_WHY])
{
    o->spec.method = reduce_method_parse(value);
    return o->spec.method >= 0 || unknown(why, "--method", value, reduce_method_name, REDUCE_LINEAR);
}

static bool option_k(ctl_options *o, const char *value, char why[CTL_WHY])
{
    char *end;
    errno = 0;
    o->spec.k = strtoll(value, &end, 10);
    o->ranked = true;
    const char first = value[value[0] == '-'];
    if (first >= '0' && first <= '9' && !*end && !errno)
        return true;
    snprintf(why, CTL_WHY, "--k '%.40s' is not a whole number: 0 is the smallest element, -1 the largest", value);
    return false;
}

/* Is it a whole number within 64 bits between two doubles? An edge beside it would count other integers. */
static bool is_between_doubles(const char *number, double edge)
{
    const char *at = number + strspn(number, " \t\n\v\f\r"), *digits = at + (*at == '-' || *at == '+'); /* as strtod */
    char *end;
    errno = 0;
    const unsigned long long v = *digits >= '0' && *digits <= '9' ? strtoull(digits, &end, 10) : 0;
    return v && (!*end || *end == ',') && !errno && (unsigned __int128)(edge < 0 ? -edge : edge) != v;
}

uint64_t ctl_parse_edges(double *edges, const char *list, char why[CTL_WHY])
{
    double before = 0;
    uint64_t n = 0;
    for (const char *at = list;; at++) {
        char *end;
        const double edge = strtod(at, &end);
        const bool right = end != at && (!*end || *end == ',') && (n ? edge >= before : edge == edge) && n < REDUCE_MAX_EDGES;
        if (!right || (!*end && !n)) {
            snprintf(why, CTL_WHY, "--edges '%.60s' is not a list of 2 to %d ascending numbers", list, REDUCE_MAX_EDGES);
            return 0;
        }
        if (is_between_doubles(at, edge)) {
            snprintf(why, CTL_WHY, "--edges: edges are doubles, and %.*s is not one; %.0f is", (int)(end - at), at, edge);
            return 0;
        }
        if (edges)
            edges[n] = edge;
        before = edge;
        n++;
        if (!*end)
            return n;
        at = end;
    }
}

static bool option_edges(ctl_options *o, const char *list, char why[CTL_WHY])
{
    o->edges = list;
    return ctl_parse_edges(NULL, list, why);
}

bool ctl_is_percentile(const char *word, double *q)
{
    char text[40], *end;
    if (word[0] != 'p' || word[1] < '0' || word[1] > '9' || strlen(word) > 30)
        return false;
    snprintf(text, sizeof text, "%se-2", word + 1); /* the decimal, not a quotient of doubles */
    *q = strtod(text, &end);
    return !*end && !strpbrk(word + 1, "eExX") && *q <= 1;
}

/* ---- tables as text ---- */

/* One character, or a word for it. Those of numbers, lines and names cannot be meant. */
static bool take_mark(char *out, const char *option, const char *value, char why[CTL_WHY])
{
    bool tab = !strcmp(value, "tab") || !strcmp(value, "\\t"), space = !strcmp(value, "space");
    *out = tab ? '\t' : space ? ' ' : value[0];
    bool one = tab || space || (value[0] && !value[1]), letter = (*out | 32) >= 'a' && (*out | 32) <= 'z';
    if (one && (unsigned char)*out < 127 && (*out >= ' ' || *out == '\t') && !letter && !strchr("0123456789+-", *out))
        return true;
    snprintf(why, CTL_WHY, "--%s '%.40s' is not one character that numbers do not have, nor tab or space", option, value);
    return false;
}

static bool option_delimiter(ctl_options *o, const char *value, char why[CTL_WHY])
{
    return take_mark(&o->dialect.delimiter, "delimiter", value, why);
}

static bool option_decimal(ctl_options *o, const char *value, char why[CTL_WHY])
{
    return take_mark(&o->dialect.decimal, "decimal", value, why);
}

static bool option_comment(ctl_options *o, const char *value, char why[CTL_WHY])
{
    return take_mark(&o->dialect.comment, "comment", value, why);
}

static bool option_quote(ctl_options *o, const char *value, char why[CTL_WHY])
{
    o->dialect.unquoted = !strcmp(value, "none");
    return o->dialect.unquoted || take_mark(&o->dialect.quote, "quote", value, why);
}

static bool take_header(ctl_options *o, int header, char why[CTL_WHY])
{
    bool same = !o->dialect.header || o->dialect.header == header;
    o->dialect.header = header;
    if (!same)
        snprintf(why, CTL_WHY, "--header and --no-header exclude each other");
    return same;
}

static bool option_header(ctl_options *o, const char *value, char why[CTL_WHY])
{
    (void)value;
    return take_header(o, 1, why);
}

static bool option_no_header(ctl_options *o, const char *value, char why[CTL_WHY])
{
    (void)value;
    return take_header(o, -1, why);
}

/* ---- the table ---- */

typedef enum {
    FLAG,    /* sets the bool at `at` */
    BIT,     /* sets the bit `most` of the spec's flags */
    TEXT,    /* keeps its value in the const char * at `at` */
    COUNT,   /* a number from `least` to `most`, in the uint64_t at `at` */
    COUNT32, /* ... in the uint32_t at `at` */
    SECONDS, /* ... in milliseconds */
    FORMAT,  /* `most` is the ctl_format */
    COMMAND, /* `most` is the ctl_command */
    VALUE,   /* `take` gets its value */
    ACT      /* ... without one */
} option_kind;

typedef struct cli_option {
    const char *name;
    char letter; /* 0: it has none */
    option_kind kind;
    size_t at; /* offset in ctl_options */
    uint64_t least, most;
    bool (*take)(ctl_options *o, const char *value, char why[CTL_WHY]);
} cli_option;

#define ROW(n, k) .name = n, .kind = k
#define AT(member) .at = offsetof(ctl_options, member)
#define FROM(low, high) .least = low, .most = high
static const cli_option OPTIONS[] = {
    {ROW("dtype", VALUE), .letter = 't', .take = option_dtype},
    {ROW("out", VALUE), .letter = 'o', .take = option_out},
    {ROW("nan", VALUE), .take = option_nan},
    {ROW("ddof", COUNT32), AT(spec.ddof), FROM(0, UINT32_MAX)},
    {ROW("q", VALUE), .take = option_q},
    {ROW("method", VALUE), .take = option_method},
    {ROW("k", VALUE), .take = option_k},
    {ROW("quantiles", FLAG), AT(quantiles)},
    {ROW("bins", COUNT), AT(bins), FROM(1, REDUCE_MAX_EDGES - 1)},
    {ROW("edges", VALUE), .take = option_edges},
    {ROW("spool", COUNT), AT(spool), FROM(1, CTL_MAX_COUNT)},
    {ROW("initial", TEXT), AT(initial)},
    {ROW("wrap", BIT), .most = REDUCE_WRAP},
    {ROW("rows", VALUE), .take = option_rows},
    {ROW("axis", VALUE), .take = option_axis},
    {ROW("offsets", TEXT), AT(offsets)},
    {ROW("mask", TEXT), AT(mask)},
    {ROW("weights", TEXT), AT(weights)},
    {ROW("drop-zero-weights", BIT), .most = REDUCE_DROP_ZERO_WEIGHTS},
    {ROW("by", TEXT), AT(by)},
    {ROW("top", COUNT), AT(top), FROM(1, UINT32_MAX)},
    {ROW("partial", ACT), .take = option_partial},
    {ROW("merge", FLAG), AT(merge)},
    {ROW("index-base", VALUE), .take = option_index_base},
    {ROW("shard", VALUE), .take = ctl_parse_shard},
    {ROW("joined", TEXT), AT(joined)},
    {ROW("path", VALUE), .take = option_path},
    {ROW("priority", VALUE), .take = option_priority},
    {ROW("connect", TEXT), AT(url)},
    {ROW("tls-ca", TEXT), AT(tls_ca)},
    {ROW("tls-cert", TEXT), AT(tls_cert)},
    {ROW("tls-key", TEXT), AT(tls_key)},
    {ROW("deadline", COUNT32), AT(spec.deadline_ms), FROM(1, INT32_MAX)},
    {ROW("json", FORMAT), .most = CTL_JSON},
    {ROW("json-strings", ACT), .take = option_json_strings},
    {ROW("watch", FLAG), AT(watch)},
    {ROW("progress", FLAG), AT(progress)},
    {ROW("requests", FLAG), AT(requests)},
    {ROW("hex", FORMAT), .most = CTL_HEX},
    {ROW("raw", FORMAT), .most = CTL_RAW},
    {ROW("text", FLAG), AT(text)},
    {ROW("delimiter", VALUE), .take = option_delimiter},
    {ROW("decimal", VALUE), .take = option_decimal},
    {ROW("quote", VALUE), .take = option_quote},
    {ROW("comment", VALUE), .take = option_comment},
    {ROW("header", ACT), .take = option_header},
    {ROW("no-header", ACT), .take = option_no_header},
    {ROW("skip-lines", COUNT), AT(dialect.skip_lines), FROM(0, CTL_MAX_COUNT)},
    {ROW("missing", TEXT), AT(dialect.missing)},
    {ROW("no-unpack", FLAG), AT(no_unpack)},
    {ROW("no-scale", FLAG), AT(no_scale)},
    {ROW("verify", FLAG), AT(verify)},
    {ROW("total", FLAG), AT(total)},
    {ROW("replace", FLAG), AT(replace)},
    {ROW("device", VALUE), .take = option_device},
    {ROW("spread", FLAG), AT(spread)},
    {ROW("ttl", SECONDS), AT(ttl_ms), FROM(1, INT32_MAX / 1000)},
    {ROW("no-autostart", FLAG), AT(no_autostart)},
    {ROW("wait", SECONDS), AT(wait_ms), FROM(1, INT32_MAX / 1000)},
    {ROW("once", FLAG), AT(once)},
    {ROW("verbose", FLAG), .letter = 'v', AT(verbose)},
    {ROW("help", COMMAND), .letter = 'h', .most = CTL_HELP},
    {ROW("version", COMMAND), .letter = 'V', .most = CTL_VERSION},
};
#undef FROM
#undef ROW
#undef AT
enum { N_OPTIONS = sizeof OPTIONS / sizeof *OPTIONS, FIRST_LONG = 256 /* getopt's codes of options without a letter */ };

static const char SHORT[] = ":t:o:vhV";

static bool has_value(const cli_option *x)
{
    return x->kind == TEXT || x->kind == COUNT || x->kind == COUNT32 || x->kind == SECONDS || x->kind == VALUE;
}

/* What getopt returns for row i. */
static int code_of(size_t i) { return OPTIONS[i].letter ? OPTIONS[i].letter : FIRST_LONG + (int)i; }

static void list_for_getopt(struct option list[N_OPTIONS + 1])
{
    for (size_t i = 0; i < N_OPTIONS; i++)
        list[i] = (struct option){OPTIONS[i].name, has_value(&OPTIONS[i]) ? required_argument : no_argument, NULL, code_of(i)};
    list[N_OPTIONS] = (struct option){NULL, 0, NULL, 0};
}

static bool take_count(ctl_options *o, const cli_option *x, const char *value, char why[CTL_WHY])
{
    void *field = (char *)o + x->at;
    uint64_t n;
    if (!take_number(&n, x->name, value, x->least, x->most, why))
        return false;
    if (x->kind == COUNT)
        *(uint64_t *)field = n;
    else
        *(uint32_t *)field = (uint32_t)n * (x->kind == SECONDS ? 1000 : 1);
    return true;
}

/* One option; false: wrong. */
static bool take(ctl_options *o, int code, char why[CTL_WHY])
{
    size_t i = 0;
    while (i < N_OPTIONS && code_of(i) != code)
        i++;
    if (i == N_OPTIONS)
        return false;
    const cli_option *x = &OPTIONS[i];
    void *field = (char *)o + x->at;
    switch (x->kind) {
    case FLAG:
        return *(bool *)field = true;
    case BIT:
        o->spec.flags |= (uint32_t)x->most;
        return true;
    case TEXT:
        *(const char **)field = optarg;
        return true;
    case COUNT:
    case COUNT32:
    case SECONDS:
        return take_count(o, x, optarg, why);
    case FORMAT:
        return take_format(o, (ctl_format)x->most, why);
    case COMMAND:
        o->command = (ctl_command)x->most;
        return true;
    case VALUE:
    case ACT:
        return x->take(o, optarg, why);
    }
    return false;
}

int ctl_parse_op(const char *word, char why[CTL_WHY])
{
    int op = reduce_op_parse(word);
    const char *meant = op ? NULL : ctl_suggest_command(word), *instead = op ? NULL : ctl_instead(word);
    if (instead)
        snprintf(why, CTL_WHY, "'%.40s': reducectl has %s", word, instead);
    else if (meant && !strcmp(meant, word))
        snprintf(why, CTL_WHY, "'%.40s' is a command, not an operation; 'reducectl help ops' lists these", word);
    else if (meant)
        snprintf(why, CTL_WHY, "the operation '%.40s' is unknown; did you mean '%s'?", word, meant);
    else if (!op)
        snprintf(why, CTL_WHY, "the operation '%.40s' is unknown; 'reducectl help ops' lists all", word);
    return op;
}

/* An operation of a list. 0: `why`. */
static int parse_one(const char *word, double *q, char why[CTL_WHY])
{
    double share;
    if (q && ctl_is_percentile(word, &share)) {
        *q = share;
        return REDUCE_QUANTILE;
    }
    const int op = ctl_parse_op(word, why);
    if (op != REDUCE_QUANTILE)
        return op;
    snprintf(why, CTL_WHY, "several operations have percentiles as p99, not as quantile");
    return 0;
}

/* "sum,mean,p99": writes the codes to `ops`, of percentiles the quantiles to `q` (NULL: there may be none), and returns how
 * many; minmax is min and max. 0: `why`. */
static int parse_ops(int ops[CTL_MAX_OPS], double *q, const char *list, char why[CTL_WHY])
{
    char copy[MAX_LIST], *save = NULL;
    const size_t len = strlen(list);
    int n = 0;
    if (len == 0 || len >= sizeof copy) {
        snprintf(why, CTL_WHY, len ? "too many operations" : "no operation given");
        return 0;
    }
    memcpy(copy, list, len + 1);
    if (list[0] == ',' || strstr(list, ",,") || list[len - 1] == ',') {
        snprintf(why, CTL_WHY, "'%.60s' has a comma without an operation beside it", list);
        return 0;
    }
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        int op = parse_one(word, q ? &q[n < CTL_MAX_OPS ? n : 0] : NULL, why), twice = op == REDUCE_MINMAX;
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
    return n;
}

/* The option that "--jsn" might have meant, or NULL. */
static const char *option_meant(const char *word)
{
    const char *names[N_OPTIONS];
    char name[40];
    for (size_t i = 0; i < N_OPTIONS; i++)
        names[i] = OPTIONS[i].name;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    return ctl_nearest(name + strspn(name, "-"), names, N_OPTIONS);
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
        o->n_ops = parse_ops(o->ops, o->ops_q, word, why);
        o->spec.op = o->ops[0];
        return o->n_ops > 0;
    }
    if (ctl_is_percentile(word, &o->ops_q[0])) {
        if (o->spec.quantiles)
            snprintf(why, CTL_WHY, "%.40s is a quantile by itself: without --q", word);
        o->q[0] = o->ops_q[0];
        o->spec.q = o->q;
        o->spec.quantiles = 1;
        o->spec.op = REDUCE_QUANTILE;
        return !why[0];
    }
    o->spec.op = ctl_parse_op(word, why);
    return o->spec.op != 0;
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

static void unknown_option(const char *word, char why[CTL_WHY])
{
    const char *meant = option_meant(word);
    size_t n = meant ? strcspn(word, "=") : 0;
    bool misused = meant && n == strlen(meant) + 2 && !strncmp(word + 2, meant, n - 2);
    const char *topic = meant ? ctl_topic_of_option(meant) : NULL;
    n = (size_t)snprintf(why, CTL_WHY, "unknown or misused option %.60s", word);
    if (meant && !misused)
        n += (size_t)snprintf(why + n, CTL_WHY - n, "; did you mean --%s?", meant);
    if (topic)
        snprintf(why + n, CTL_WHY - n, " ('reducectl help %s' explains it)", topic);
}

/* "-:price" is a column of standard input: its name as that of a file, malloc'ed. NULL: `why`. */
static char *column_of_stdin(const char *word, char why[CTL_WHY])
{
    char *name;
    if (asprintf(&name, "/dev/stdin%s", word + 1) >= 0)
        return name;
    snprintf(why, CTL_WHY, "no memory for a name");
    return NULL;
}

static bool is_column_of_stdin(const char *word) { return word && !strncmp(word, "-:", 2); }

/* It is not an option, unless it is the value of one. */
static bool name_columns_of_stdin(int argc, char **argv, char why[CTL_WHY])
{
    for (int i = 2; i < argc; i++) {
        bool value = false;
        for (size_t k = 0; k < N_OPTIONS && !strncmp(argv[i - 1], "--", 2); k++)
            value |= has_value(&OPTIONS[k]) && !strcmp(argv[i - 1] + 2, OPTIONS[k].name);
        if (is_column_of_stdin(argv[i]) && !value && !(argv[i] = column_of_stdin(argv[i], why)))
            return false;
    }
    return true;
}

bool ctl_parse(ctl_options *o, int argc, char **argv, char why[CTL_WHY])
{
    struct option list[N_OPTIONS + 1];
    list_for_getopt(list);
    *o = (ctl_options){.command = CTL_REDUCE, .spec = REDUCE_SPEC_INIT};
    o->spec.dtype = 0;
    why[0] = 0;
    if (!name_columns_of_stdin(argc, argv, why))
        return false;
    optind = 0; /* glibc: start anew */
    opterr = 0;
    for (int opt; (opt = getopt_long(argc, argv, SHORT, list, NULL)) != -1;) {
        bool swallowed = opt != '?' && opt != ':' && optarg && optarg == argv[optind - 1] && !strncmp(optarg, "--", 2);
        if (swallowed)
            opt = ':';
        if (opt == ':')
            snprintf(why, CTL_WHY, "%.60s needs a value", argv[optind - 1 - swallowed]);
        else if (opt == '?' && optopt && optopt < FIRST_LONG &&
                 (optopt == ':' || !strchr(SHORT, optopt))) /* else a long one, given a value */
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
    o->explain = !strcmp(argv[optind], "explain");
    optind += o->explain;
    if (optind == argc) {
        snprintf(why, CTL_WHY, "explain is for an operation, as in: reducectl explain sum data.npy");
        return false;
    }
    if (!take_command(o, argv[optind++], why))
        return false;
    if (o->explain && o->command != CTL_REDUCE) {
        snprintf(why, CTL_WHY, "explain is for operations");
        return false;
    }
    o->files = argv + optind;
    o->n_files = argc - optind;
    if (o->command == CTL_REDUCE && ctl_takes_two(o->spec.op) && !o->weights && !o->merge && o->n_files == 2)
        o->weights = o->files[--o->n_files];
    if (o->command == CTL_HELP)
        return true;
    if (is_column_of_stdin(o->weights) && !(o->weights = column_of_stdin(o->weights, why)))
        return false;
    bool good = ctl_check_options(o, why) && default_file(o, why) && ctl_check_stdin(o, why) && ctl_list_columns(o, why);
    ctl_apply_shard(o);
    return good;
}
