/* reducectl help WORD: about one operation or command alone. */
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/suggest.h"

/* What the types of the value are, and what there is of no elements */
typedef struct note {
    int op;
    const char *value, *empty, *options;
} note;

static const char FLOATS[] = "f64, or by --out f32, f16, bf16, of floats; i64 or u64 of integers, OVERFLOW if it does not fit";
static const char REALS[] = "f64, or by --out f32, f16, bf16";

static const note notes[] = {
    {REDUCE_SUM, FLOATS, "0", ""},
    {REDUCE_PROD, FLOATS, "1", "--wrap"},
    {REDUCE_MIN, FLOATS, "an EMPTY error unless --initial is given", ""},
    {REDUCE_MAX, FLOATS, "an EMPTY error unless --initial is given", ""},
    {REDUCE_MINMAX, FLOATS, "an EMPTY error unless --initial is given", ""},
    {REDUCE_RANGE, FLOATS, "an EMPTY error unless --initial is given", ""},
    {REDUCE_ARGMIN, "u64, counted from 0", "an EMPTY error", "--index-base"},
    {REDUCE_ARGMAX, "u64, counted from 0", "an EMPTY error", "--index-base"},
    {REDUCE_MEAN, REALS, "nan", ""},
    {REDUCE_VAR, REALS, "nan, as of up to --ddof elements", "--ddof"},
    {REDUCE_STD, REALS, "nan, as of up to --ddof elements", "--ddof"},
    {REDUCE_SEM, REALS, "nan, as of up to --ddof elements", "--ddof"},
    {REDUCE_RMS, REALS, "nan", ""},
    {REDUCE_NORM2, REALS, "0", ""},
    {REDUCE_SUMSQ, FLOATS, "0", ""},
    {REDUCE_NORM1, FLOATS, "0", ""},
    {REDUCE_NORMINF, FLOATS, "0", ""},
    {REDUCE_COUNT, "u64", "0", ""},
    {REDUCE_COUNT_NONZERO, "u64", "0", ""},
    {REDUCE_COUNT_NAN, "u64", "0", ""},
    {REDUCE_ANY, "true or false", "false", ""},
    {REDUCE_ALL, "true or false", "true", ""},
    {REDUCE_AND, "i64 or u64; integers only", "all bits set", ""},
    {REDUCE_OR, "i64 or u64; integers only", "0", ""},
    {REDUCE_XOR, "i64 or u64; integers only", "0", ""},
    {REDUCE_STATS, "a line for each value, by name", "none for min, max and their places", "--ddof --index-base"}};

static void op_help(FILE *out, int op)
{
    const char *name = reduce_op_name(op);
    fprintf(out, "reducectl %s [OPTION]... [FILE]...\n\n  %s\n", name, reduce_op_help(op));
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (notes[i].op == op)
            fprintf(out,
                    "\n  value            %s\n  of no elements   %s\n  its options      %s%s--nan --initial --mask --rows "
                    "--axis --offsets\n",
                    notes[i].value, notes[i].empty, notes[i].options, notes[i].options[0] ? " " : "");
    fprintf(out,
            "\n  reducectl %s data.npy\n  reducectl %s --dtype f32 data.raw\n  reducectl %s --axis 0 matrix.npy\n"
            "\n'reducectl --help' explains the options.\n",
            name, name, name);
}

static bool command_help(FILE *out, const char *word)
{
    static const char *const about[][2] = {
        {"ping", "reducectl ping [--json]\n\n  Does a daemon answer, and how fast?\n"},
        {"info", "reducectl info [--json]\n\n  What the daemon is: version, backend, device, caps.\n"},
        {"status", "reducectl status [--json] [--watch]\n\n  What it does: sessions, requests, memory, times. --watch: again "
                   "each second.\n"},
        {"metrics", "reducectl metrics\n\n  Counters and histograms of the daemon as Prometheus text.\n"},
        {"top", "reducectl top [--once] [--json]\n\n  What the daemon does now, refreshed each second. Keys: r, d, e, t, n "
                "sort by requests, "
                "data,\n  engine, total, name; h shows them; q quits. --json: an object a line, each second.\n"},
        {"put",
         "reducectl put [--replace] [--ttl S] [--dtype T] [--text] NAME [FILE]\n\n  Leave an array with the daemon; it is "
         "reduced as @NAME.\n\n  reducectl put temps data.npy && reducectl stats @temps\n"},
        {"ls", "reducectl ls [--json]\n\n  Your resident arrays.\n"},
        {"drop", "reducectl drop NAME...\n\n  Give the memory of resident arrays back.\n"}};
    for (size_t i = 0; i < sizeof about / sizeof *about; i++)
        if (!strcmp(word, about[i][0])) {
            fputs(about[i][1], out);
            return true;
        }
    return false;
}

bool ctl_help_topic(FILE *out, const char *word, char why[CTL_WHY])
{
    int op = reduce_op_parse(word);
    if (!op)
        return command_help(out, word) || (ctl_parse_op(word, why) != 0);
    op_help(out, op);
    return true;
}
