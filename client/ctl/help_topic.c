/* reducectl help WORD: about one operation, command, topic or option alone. */
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/help_rows.h"
#include "client/ctl/op_table.h"
#include "client/ctl/suggest.h"

/* What `help OP` says beyond the operation's help: the types of the value, the value of no elements, options of its own. It
 * follows from the columns of types.def. */
typedef struct note {
    const char *value, *empty, *options;
} note;

static const char FLOATS[] = "f64 of floats (or --out f32 f16 bf16); i64 or u64 of integers";

#define SAME FLOATS
#define END "as sum; of integers also, by --out, their own type"
#define REAL "f64, or by --out f32, f16, bf16"
#define NUMBER "u64"
#define BITS "i64 or u64; integers only"
#define CHOICE_OK "0"
#define CHOICE_EMPTY "an EMPTY error unless --initial is given"
#define NOTE_TOTAL(value, nothing) value, "0", ""
#define NOTE_CHOSEN(value, nothing) value, CHOICE_##nothing, ""
#define NOTE_ENDS(value, nothing) value, CHOICE_##nothing, ""
#define NOTE_RANGE(value, nothing) value, CHOICE_##nothing, ""
#define NOTE_INDEX(value, nothing) "u64, counted from 0", "an EMPTY error", "--index-base"
#define NOTE_COUNTED(value, nothing) value, "0", ""
#define NOTE_ELEMENTS(value, nothing) value, "0", ""
#define NOTE_SOME(value, nothing) "true or false", "false", ""
#define NOTE_EVERY(value, nothing) "true or false", "true", ""
#define NOTE_PRODUCT(value, nothing) value, "1", "--wrap"
#define NOTE_MEAN(value, nothing) value, "nan", ""
#define NOTE_SQUARES(value, nothing) value, "0", ""
#define NOTE_SPREAD(value, nothing) value, "nan, as of up to --ddof elements", "--ddof"
#define NOTE_WORD(value, nothing) value, "0", ""
#define NOTE_RANKED(value, nothing) value, "nan", ""
#define NOTE_DOT(value, nothing) value, "0", "--weights"
#define NOTE_WMEAN(value, nothing) value, "nan", "--weights"
#define NOTE_COV(value, nothing) value, "nan, as of up to --ddof pairs", "--weights --ddof"
#define NOTE_CORR(value, nothing) value, "nan, as of a constant", "--weights"
#define NOTE_SUMMARY(value, nothing) \
    "a line for each value, by name", "none for min, max and their places", "--ddof --index-base"

static const note notes[] = {
#define X(NAME, name, code, help, value, narrow, wide, integer, finish, nothing, takes) \
    [code] = {NOTE_##finish(value, nothing)},
    RP_OPS(X)
#undef X
};

/* Order statistics that need an option: which, and what an example has. */
typedef struct ranked {
    int op;
    const char *empty, *options, *example;
} ranked;

static const ranked ranks[] = {
    {REDUCE_QUANTILE, "nan, or an error of integers by a method that picks one", "--q --method ", " --q 0.25,0.5,0.75"},
    {REDUCE_KTH, "nan, or an error of integers", "--k ", " --k 0"},
    {REDUCE_LARGEST, "none", "--k ", " --k 10"},
    {REDUCE_SMALLEST, "none", "--k ", " --k 10"},
    {REDUCE_HISTOGRAM, "0 for each", "--bins --edges ", " --bins 10"},
};

static const ranked *ranked_of(int op)
{
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        if (ranks[i].op == op)
            return &ranks[i];
    return NULL;
}

/* Two of a kind whose others give 0, and order statistics */
static const char *empty_of(int op)
{
    const ranked *r = ranked_of(op);
    return r ? r->empty : op == REDUCE_RMS ? "nan" : op == REDUCE_AND ? "all bits set" : notes[op].empty;
}

static void op_examples(FILE *out, int op)
{
    static const char *const data[] = {"data.npy", "--dtype f32 data.raw", "--axis 0 matrix.npy"};
    const ranked *r = ranked_of(op);
    fputc('\n', out);
    for (size_t i = 0; i < sizeof data / sizeof *data; i++)
        fprintf(out, "  reducectl %s%s %s\n", reduce_op_name(op), r ? r->example : "", data[i]);
}

static void op_help(FILE *out, int op)
{
    const char *name = reduce_op_name(op);
    const ranked *r = ranked_of(op);
    const bool two = ctl_takes_two(op), no_initial = ctl_is_paired(op) || op == REDUCE_MEDIAN || r;
    fprintf(out, "reducectl %s [OPTION]... [FILE]...\n\n  %s\n", name, reduce_op_help(op));
    fprintf(out,
            "\n  value            %s\n  of no elements   %s\n  its options      %s%s%s--nan %s--mask --rows --axis\n"
            "                   --offsets\n",
            notes[op].value, empty_of(op), notes[op].options, notes[op].options[0] ? " " : "", r ? r->options : "",
            no_initial ? "" : "--initial ");
    if (ctl_is_paired(op))
        fprintf(out, "\n  reducectl %s --weights w.npy data.npy\n  reducectl %s --axis 0 --weights w.npy matrix.npy\n%s%s%s",
                name, name, two ? "  reducectl " : "", two ? name : "", two ? " x.npy y.npy\n" : "");
    else
        op_examples(out, op);
    fputs("\n'reducectl help values' and 'reducectl help axes' explain the options.\n", out);
}

static bool command_help(FILE *out, const char *word)
{
    static const char *const about[][2] = {
        {"ping", "reducectl ping [--json]\n\n  Does a daemon answer, where, and how fast?\n"},
        {"info", "reducectl info [--json]\n\n  What the daemon is: version, engine, device, caps.\n"},
        {"status",
         "reducectl status [--requests] [--json] [--watch]\n\n  What it does: sessions, requests, memory, times. --requests: "
         "those under\n  way. --watch: again each second. A terminal gets what is not 0; -v: all.\n"},
        {"metrics", "reducectl metrics\n\n  Counters and histograms of the daemon as Prometheus text.\n"},
        {"top",
         "reducectl top [--once] [--json]\n\n  What the daemon does now, refreshed each second. Keys: r, d, e, t, n sort by\n"
         "  requests, data, engine, total, name; h shows them; q quits. --json: an object\n  a line, each second.\n"},
        {"put",
         "reducectl put [OPTION]... NAME [FILE]\n\n  Leave an array with the daemon; it is reduced as @NAME. See 'reducectl "
         "help\n  resident'.\n\n  reducectl put temps data.npy && reducectl stats @temps\n"},
        {"ls", "reducectl ls [--json]\n\n  Your resident arrays.\n"},
        {"drop", "reducectl drop NAME...\n\n  Give the memory of resident arrays back.\n"},
        {"explain", "reducectl explain OP [OPTION]... FILE...\n\n  The ways that the reduction could take, how long each is "
                    "expected to take, "
                    "and\n  which is taken. It reduces nothing and starts no daemon.\n"},
        {"help", "reducectl help [OP|COMMAND|TOPIC|OPTION]\n\n  The first screen, or about one word.\n"}};
    for (size_t i = 0; i < sizeof about / sizeof *about; i++)
        if (!strcmp(word, about[i][0])) {
            fputs(about[i][1], out);
            return true;
        }
    return false;
}

/* The topic of that name, or that explains the option of that name. */
static const char *topic_of(const char *word)
{
    for (const help_topic *x = ctl_topics; x->name; x++)
        if (!strcmp(word, x->name))
            return x->name;
    return ctl_topic_of_option(word);
}

bool ctl_help_topic(FILE *out, const char *word, char why[CTL_WHY])
{
    double q;
    const int op = ctl_is_percentile(word, &q) ? REDUCE_QUANTILE : reduce_op_parse(word);
    if (op) {
        op_help(out, op);
        return true;
    }
    if (command_help(out, word))
        return true;
    const char *topic = topic_of(word);
    if (!topic)
        return ctl_parse_op(word, why) != 0;
    ctl_help_about(out, topic);
    return true;
}
