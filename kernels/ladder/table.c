/* The table and the chart of a terminal. */
#include <inttypes.h>
#include <langinfo.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "kernels/ladder/ladder.h"

enum { BAR = 60 }; /* columns of the longest bar */

char *ladder_size_text(char out[24], uint64_t n)
{
    for (int k = 10; k < 40; k++) {
        uint64_t power = UINT64_C(1) << k;
        if (n == power)
            return snprintf(out, 24, "2^%d", k), out;
        if (n == power - 1 || n == power + 1)
            return snprintf(out, 24, "2^%d%s", k, n < power ? "-1" : "+1"), out;
    }
    return snprintf(out, 24, "%" PRIu64, n), out;
}

static bool is_wrong(const ladder_row *r) { return r->verdict == LADDER_WRONG || r->verdict == LADDER_BROKEN; }

/* Red on a terminal; the words say it everywhere. */
static void red(FILE *out, bool on)
{
    if (isatty(fileno(out)))
        fputs(on ? "\033[31m" : "\033[0m", out);
}

/* A number in `width` columns, or a dash. */
static void put_real(FILE *out, int width, int digits, double v, const char *unit)
{
    if (isfinite(v))
        fprintf(out, " %*.*f%s", width, digits, v, unit);
    else
        fprintf(out, " %*s%*s", width, "-", (int)strlen(unit), "");
}

static void put_count(FILE *out, int width, uint64_t v)
{
    if (v)
        fprintf(out, " %*" PRIu64, width, v);
    else
        fprintf(out, " %*s", width, "-");
}

static void put_row(FILE *out, const ladder_row *r)
{
    bool bad = is_wrong(r);
    if (bad)
        red(out, true);
    fprintf(out, "%-26s", r->rung);
    if (r->verdict == LADDER_NOT_RUN || r->verdict == LADDER_BROKEN) {
        fprintf(out, " %s%s", r->verdict == LADDER_BROKEN ? "FAILED: " : "", r->note);
    } else {
        put_count(out, 8, r->grid);
        put_count(out, 6, r->passes);
        put_real(out, 11, 4, r->ms, "");
        put_real(out, 8, 1, r->gbs, "");
        put_real(out, 6, 1, 100 * r->share, "%");
        put_real(out, 9, 2, r->over_cpu, "x");
        put_real(out, 8, 2, r->over_before, "x");
        fputs(r->verdict == LADDER_RIGHT ? "  right" : "  WRONG", out);
        if (r->published_ms > 0)
            fprintf(out, "  %.3f ms, %s", r->published_ms, r->published_on);
        if (r->verdict == LADDER_WRONG)
            fprintf(out, "  %.9g, not %.9g", r->value, r->exact);
    }
    if (bad)
        red(out, false);
    putc('\n', out);
}

static void put_bar(FILE *out, const ladder_row *r, double most)
{
    bool blocks = !strcmp(nl_langinfo(CODESET), "UTF-8");
    int length = (int)lround(r->gbs / most * BAR);
    fprintf(out, "%-26s %8.1f ", r->rung, r->gbs);
    for (int i = 0; i < length; i++)
        fputs(blocks ? "\u2588" : "#", out);
    putc('\n', out);
}

static void put_chart(FILE *out, const ladder_row *r, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = r[i].gbs > most ? r[i].gbs : most;
    if (most > 0)
        fputs("\nGB/s\n", out);
    for (size_t i = 0; i < count; i++)
        if (r[i].gbs > 0)
            put_bar(out, &r[i], most);
}

static bool same_table(const ladder_row *a, const ladder_row *b)
{
    return a->n == b->n && a->block == b->block && !strcmp(a->dtype, b->dtype) && !strcmp(a->finish, b->finish);
}

/* Where there is no GPU, most rungs say the same: that is said once. */
static bool lacks_gpu(const ladder_row *r) { return r->verdict == LADDER_NOT_RUN && !strncmp(r->note, "needs a GPU", 11); }

static void put_lacking(FILE *out, const ladder_rows *rows)
{
    const ladder_row *first = NULL;
    for (size_t i = 0; i < rows->count; i++) {
        const ladder_row *r = &rows->row[i];
        if (!lacks_gpu(r) || (first && !same_table(r, first)))
            continue;
        if (first)
            fprintf(out, ", %s", r->rung);
        else
            fprintf(out, "\nNot run, for it %s: %s", r->note, r->rung);
        first = first ? first : r;
    }
    if (first)
        putc('\n', out);
}

static void put_table(FILE *out, const ladder_row *r, size_t count)
{
    char n[24];
    bool published = false;
    fprintf(out, "%s, n = %s, block %" PRIu64 ", finish %s, %s\n", r->dtype, ladder_size_text(n, r->n), r->block, r->finish,
            r->date);
    if (r->gpu[0])
        fprintf(out, "%s%s", r->gpu, r->peak_gbs > 0 ? "" : "\n");
    if (r->gpu[0] && r->peak_gbs > 0)
        fprintf(out, ", memory peak %.0f GB/s\n", r->peak_gbs);
    fprintf(out, "%s\n\n", r->cpu);
    fprintf(out, "%-26s %8s %6s %11s %8s %7s %10s %9s  %-5s  %s\n", "rung", "grid", "passes", "median ms", "GB/s", "of peak",
            "over CPU", "before", "sum", "published");
    for (size_t i = 0; i < count; i++) {
        if (!lacks_gpu(&r[i]))
            put_row(out, &r[i]);
        published = published || r[i].published_ms > 0;
    }
    if (published)
        fputs(ladder_published_legend, out);
    put_chart(out, r, count);
}

void ladder_print_table(FILE *out, const ladder_rows *rows)
{
    for (size_t i = 0, end; i < rows->count; i = end) {
        for (end = i + 1; end < rows->count && same_table(&rows->row[i], &rows->row[end]);)
            end++;
        if (i)
            putc('\n', out);
        put_table(out, &rows->row[i], end - i);
    }
    put_lacking(out, rows);
}

void ladder_print_check(FILE *out, const ladder_rows *rows)
{
    uint64_t counts[LADDER_VERDICTS] = {0};
    char n[24];
    for (size_t i = 0; i < rows->count; i++) {
        const ladder_row *r = &rows->row[i];
        counts[r->verdict]++;
        if (!is_wrong(r))
            continue;
        red(out, true);
        fprintf(out, "WRONG %s %s n = %s block %" PRIu64 " finish %s: ", r->rung, r->dtype, ladder_size_text(n, r->n), r->block,
                r->finish);
        if (r->verdict == LADDER_BROKEN)
            fprintf(out, "%s", r->note);
        else
            fprintf(out, "%.9g, not %.9g", r->value, r->exact);
        red(out, false);
        putc('\n', out);
    }
    fprintf(out, "ladder: %" PRIu64 " right, %" PRIu64 " wrong, %" PRIu64 " failed, %" PRIu64 " not run\n",
            counts[LADDER_RIGHT], counts[LADDER_WRONG], counts[LADDER_BROKEN], counts[LADDER_NOT_RUN]);
}
