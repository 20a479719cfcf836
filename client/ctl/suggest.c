/* Suggests a word for a mistyped one, by the number of wrong, missing, extra or swapped letters. */
#include "client/ctl/suggest.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "client/ctl/ctl.h"
#include "client/ctl/op_table.h"

enum { MAX_WORD = 24, MAX_WORDS = 64 };

/* The commands that are not operations, NULL behind the last. */
static const char *const commands[] = {"ping", "info", "status", "metrics", "top",     "put",
                                       "ls",   "drop", "ladder", "help",    "explain", NULL};

static int least(int a, int b) { return a < b ? a : b; }

static bool same(char a, char b) { return tolower((unsigned char)a) == tolower((unsigned char)b); }

/* Edits from a to b, where neighbours that changed places are one (restricted Damerau-Levenshtein). */
static int distance(const char *a, const char *b)
{
    int d[MAX_WORD + 1][MAX_WORD + 1], n = (int)strlen(a), m = (int)strlen(b);
    if (n > MAX_WORD || m > MAX_WORD)
        return MAX_WORD;
    for (int i = 0; i <= n; i++)
        for (int j = 0; j <= m; j++) {
            d[i][j] = i ? d[i - 1][0] + 1 : j;
            if (!i || !j)
                continue;
            d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + !same(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n][m];
}

const char *ctl_nearest(const char *word, const char *const *words, size_t n)
{
    int most = strlen(word) > 4 ? 2 : 1, best = most + 1;
    const char *found = NULL;
    for (size_t i = 0; i < n; i++) {
        int d = distance(word, words[i]);
        if (d < best && d < (int)strlen(words[i])) {
            best = d;
            found = words[i];
        }
    }
    return found;
}

const char *ctl_suggest_command(const char *word)
{
    static const char *const others[][2] = {{"avg", "mean"},         {"average", "mean"},      {"total", "sum"},
                                            {"add", "sum"},          {"product", "prod"},      {"variance", "var"},
                                            {"stdev", "std"},        {"stddev", "std"},        {"sd", "std"},
                                            {"minimum", "min"},      {"maximum", "max"},       {"amin", "min"},
                                            {"amax", "max"},         {"ptp", "range"},         {"nnz", "count_nonzero"},
                                            {"length", "count"},     {"len", "count"},         {"size", "count"},
                                            {"norm", "norm2"},       {"summary", "stats"},     {"describe", "stats"},
                                            {"list", "ls"},          {"delete", "drop"},       {"rm", "drop"},
                                            {"upload", "put"},       {"topk", "largest"},      {"nlargest", "largest"},
                                            {"bottomk", "smallest"}, {"nsmallest", "smallest"}};
    const char *words[MAX_WORDS];
    size_t n = 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcasecmp(word, others[i][0]))
            return others[i][1];
    for (int op = REDUCE_SUM; op < CTL_OP_END && n < MAX_WORDS; op++)
        words[n++] = reduce_op_name(op);
    for (size_t i = 0; commands[i] && n < MAX_WORDS; i++)
        words[n++] = commands[i];
    return ctl_nearest(word, words, n);
}

const char *ctl_instead(const char *word)
{
    static const char places[] = "median, quantile --q 0.25,0.75, p99 and kth --k 3 (reducectl help values)";
    static const char bins[] = "histogram --bins 10 (reducectl help values)";
    static const char groups[] = "--by COLUMN of a table (reducectl help csv), --rows, --axis and --offsets (help axes)";
    static const char lists[] =
        "no results as long as their input; it has one value for each array or part (reducectl help axes)";
    static const char *const words[][2] = {
        {"quantiles", places}, {"percentile", places}, {"percentiles", places}, {"nth", places},     {"mode", places},
        {"iqr", places},       {"mad", places},        {"hist", bins},          {"bincount", bins},  {"groupby", groups},
        {"group", groups},     {"by", groups},         {"unique", groups},      {"nunique", groups}, {"sort", lists},
        {"cumsum", lists},     {"cumprod", lists},     {"scan", lists},         {"diff", lists},     {"abs", lists},
        {"map", lists},        {"filter", lists}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(word, words[i][0]))
            return words[i][1];
    return NULL;
}
