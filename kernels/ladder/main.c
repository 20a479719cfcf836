/* reducectl-ladder: wiring and exit codes. */
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ladder/ladder.h"

static int fail(int code, const char *why)
{
    fprintf(stderr, "reducectl: ladder: %s\n", why);
    if (code == LADDER_USAGE)
        fputs("reducectl: try 'reducectl ladder --help'\n", stderr);
    return code;
}

static void list(FILE *out)
{
    for (int i = 0; i < ladder_rung_count; i++)
        fprintf(out, "%-26s %s\n", ladder_rungs[i].name, ladder_rungs[i].what);
}

static void print(const ladder_options *o, const ladder_rows *rows)
{
    if (o->check)
        ladder_print_check(stdout, rows);
    else if (o->json)
        ladder_print_json(stdout, rows);
    else if (o->csv)
        ladder_print_csv(stdout, rows);
    else
        ladder_print_table(stdout, rows);
}

static int climb(const ladder_options *o)
{
    ladder_rows rows = {0};
    char why[LADDER_WHY];
    bool good = o->from ? ladder_read_json(o->from, &rows, why) : ladder_measure(o, &rows, why);
    int code = good ? LADDER_OK : fail(LADDER_FAILED, why);
    if (good || !o->from) /* what was measured before the failure is still worth showing */
        print(o, &rows);
    if (good && o->plot && !ladder_plot(o->plot, &rows, why))
        code = fail(LADDER_FAILED, why);
    if (!ladder_all_right(&rows))
        code = LADDER_FAILED;
    free(rows.row);
    return code;
}

/* The page of the longest name that the rung's begins with: unroll.cu is that of unroll2, unroll4 and unroll8. */
static int explain(const char *rung)
{
    const ladder_page *found = NULL;
    char name[64];
    bool known = false;
    for (int i = 0; i < ladder_rung_count; i++)
        known |= !strcmp(rung, ladder_rungs[i].name);
    snprintf(name, sizeof name, "%s", rung);
    for (char *p = name; *p; p++)
        *p = *p == '-' ? '_' : *p;
    for (const ladder_page *p = ladder_pages; p->name; p++)
        if (!strncmp(name, p->name, strlen(p->name)) && (!found || strlen(p->name) > strlen(found->name)))
            found = p;
    if (!known || !found)
        return fail(LADDER_USAGE, "--explain names no rung; --list shows them");
    fputs(found->text, stdout);
    return LADDER_OK;
}

int main(int argc, char **argv)
{
    ladder_options o;
    char why[LADDER_WHY];
    setlocale(LC_CTYPE, ""); /* can the terminal show blocks? Numbers stay with the point. */
    if (!ladder_parse(&o, argc, argv, why))
        return fail(LADDER_USAGE, why);
    int code = LADDER_OK;
    if (o.help)
        ladder_help(stdout);
    else if (o.version)
        printf("reducectl-ladder %s\n", REDUCED_VERSION);
    else if (o.list)
        list(stdout);
    else if (o.explain)
        code = explain(o.explain);
    else
        code = climb(&o);
    if (fflush(stdout) || ferror(stdout))
        return fail(LADDER_FAILED, "cannot write the output");
    return code;
}
