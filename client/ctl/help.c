/* reducectl --help: one screen. `help TOPIC`: the rest. Both are made of the rows of help_rows.c, and fit 80 columns. */
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/help_rows.h"
#include "client/ctl/op_table.h"
#include "client/ctl/text/screen_text.h"

enum { WIDTH = 80, OP_TEXT = 17, OPTION_TEXT = 23, EXAMPLE_TEXT = 44, DASHES = 6 }; /* columns */

static void wrap(FILE *out, int at, int indent, const char *text) { ctl_put_wrapped(out, at, indent, WIDTH, text); }

/* "  sum min max ..." */
static void put_names(FILE *out, const char *before, const char *(*name)(int), int first)
{
    char all[WIDTH * 8];
    size_t n = (size_t)snprintf(all, sizeof all, "%s", before);
    for (int i = first; i < CTL_OP_END && n < sizeof all; i++) /* no list of names is longer than that of operations */
        if (name(i)[0] != '?')
            n += (size_t)snprintf(all + n, sizeof all - n, " %s", name(i));
    fputs("  ", out);
    wrap(out, 2, 2, all);
}

static void put_row(FILE *out, const help_row *r)
{
    if (!r->name) {
        wrap(out, 0, 0, r->text);
        return;
    }
    const bool example = r->name[0] != '-';
    const int text = example ? EXAMPLE_TEXT : OPTION_TEXT, indent = !example && r->name[1] == '-' ? DASHES : 2;
    int at = fprintf(out, "%*s%s", indent, "", r->name);
    if (!r->text[0]) {
        putc('\n', out);
        return;
    }
    if (at + 1 > text) {
        putc('\n', out);
        at = 0;
    }
    fprintf(out, "%*s", text - at, "");
    wrap(out, text, text, r->text);
}

static void put_first(FILE *out, bool examples)
{
    for (size_t i = 0; i < ctl_n_help_rows; i++)
        if (ctl_help_rows[i].first && !strcmp(ctl_help_rows[i].topic, "examples") == examples)
            put_row(out, &ctl_help_rows[i]);
}

void ctl_help(FILE *out)
{
    fputs("usage: reducectl OP[,OP]... [OPTION]... [FILE | FILE:MEMBER | @NAME | -]...\n"
          "Exact reductions of arrays in files and pipes, on a GPU or the CPU. OP:\n",
          out);
    put_names(out, "", reduce_op_name, REDUCE_SUM);
    fputs("\nFor example\n", out);
    put_first(out, true);
    fputs("\nThe options that are used most\n", out);
    put_first(out, false);
    fputs("\nOther commands\n"
          "  ping | info | status  does a daemon answer; what it is; what it does\n"
          "  top | metrics         the same live; as Prometheus text\n"
          "  put NAME [FILE]       keep an array with the daemon as @NAME; also ls, drop\n"
          "  ladder                reduction kernels side by side\n"
          "\nreducectl help OP, help COMMAND or help TOPIC says more. Topics:\n",
          out);
    for (const help_topic *t = ctl_topics; t->name; t++)
        fprintf(out, "  %-9s %s\n", t->name, t->about);
}

static void put_ops(FILE *out)
{
    for (int op = REDUCE_SUM; op < CTL_OP_END; op++)
        if (reduce_op_name(op)[0] != '?')
            wrap(out, fprintf(out, "  %-14s ", reduce_op_name(op)), OP_TEXT, reduce_op_help(op));
    fputs("\nSeveral with commas between (sum,mean,max) make a table.\n", out);
}

void ctl_help_about(FILE *out, const char *topic)
{
    if (!strcmp(topic, "ops"))
        put_ops(out);
    for (size_t i = 0; i < ctl_n_help_rows; i++)
        if (!strcmp(ctl_help_rows[i].topic, topic))
            put_row(out, &ctl_help_rows[i]);
    if (!strcmp(topic, "inputs"))
        put_names(out, "T:", reduce_dtype_name, REDUCE_I8);
}
