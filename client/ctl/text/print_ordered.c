/* Results with many values: the largest elements with their places, and the bins of a histogram. */
#include <inttypes.h>
#include <string.h>

#include "client/ctl/ctl.h"

bool ctl_is_listed(int op) { return op == REDUCE_LARGEST || op == REDUCE_SMALLEST || op == REDUCE_HISTOGRAM; }

static uint64_t count_at(const uint8_t *cell, uint64_t i)
{
    uint64_t v;
    memcpy(&v, cell + 8 * i, sizeof v);
    return v;
}

static void put_edge(const ctl_listed *l, uint64_t i, const char *before)
{
    char text[CTL_MAX_NUMBER];
    printf("%s%s", before, ctl_number(text, REDUCE_F64, &l->edges[i], l->o->format == CTL_HEX));
}

/* ---- text ---- */

static void ordered_end(const ctl_listed *l)
{
    if (l->name)
        fputs("  ", stdout), ctl_put_text(stdout, l->name, 0);
    putchar('\n');
}

static void put_bins(const ctl_listed *l, const uint8_t *cell)
{
    static const char *const apart[] = {"below", "above", "nan"};
    const uint64_t bins = l->n_edges - 1;
    for (uint64_t i = 0; i < bins; i++) {
        put_edge(l, i, "");
        put_edge(l, i + 1, " ");
        printf(" %" PRIu64, count_at(cell, i));
        ordered_end(l);
    }
    for (uint64_t i = 0; i < 3; i++)
        if (count_at(cell, bins + i)) {
            printf("%s %" PRIu64, apart[i], count_at(cell, bins + i));
            ordered_end(l);
        }
}

static void put_top(const ctl_listed *l, const uint8_t *cell)
{
    const uint8_t *index = cell + l->size - 8 * l->k;
    char text[CTL_MAX_NUMBER];
    for (uint64_t i = 0; i < l->k && count_at(index, i) != REDUCE_NO_INDEX; i++) {
        fputs(ctl_number(text, l->dtype, cell + i * reduce_dtype_size(l->dtype), l->o->format == CTL_HEX), stdout);
        printf(" %" PRIu64, count_at(index, i));
        ordered_end(l);
    }
}

/* ---- JSON ---- */

static void json_counts(const char *name, const uint8_t *cell, uint64_t n)
{
    printf("%s[", name);
    for (uint64_t i = 0; i < n; i++)
        printf("%s%" PRIu64, i ? "," : "", count_at(cell, i));
    putchar(']');
}

static void json_bins(const ctl_listed *l, const uint8_t *cell)
{
    const uint64_t bins = l->n_edges - 1;
    char text[CTL_MAX_NUMBER];
    json_counts("", cell, bins);
    fputs(",\"edges\":[", stdout);
    for (uint64_t i = 0; i <= bins; i++) {
        fputs(i ? "," : "", stdout);
        ctl_json_value(l->o, ctl_number(text, REDUCE_F64, &l->edges[i], l->o->format == CTL_HEX));
    }
    printf("],\"below\":%" PRIu64 ",\"above\":%" PRIu64 ",\"nans\":%" PRIu64, count_at(cell, bins), count_at(cell, bins + 1),
           count_at(cell, bins + 2));
}

static void json_top(const ctl_listed *l, const uint8_t *cell)
{
    const uint8_t *index = cell + l->size - 8 * l->k;
    char text[CTL_MAX_NUMBER];
    uint64_t n = 0;
    putchar('[');
    for (; n < l->k && count_at(index, n) != REDUCE_NO_INDEX; n++) {
        fputs(n ? "," : "", stdout);
        ctl_json_value(l->o, ctl_number(text, l->dtype, cell + n * reduce_dtype_size(l->dtype), l->o->format == CTL_HEX));
    }
    putchar(']');
    json_counts(",\"index\":", index, n);
}

/* ---- public ---- */

void ctl_json_listed(const ctl_listed *l, const uint8_t *cell) { (l->edges ? json_bins : json_top)(l, cell); }

void ctl_print_listed(const ctl_listed *l, const ctl_where *w, const uint8_t *cells, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (w->unit)
            printf("%s %" PRIu64 "\n", w->unit, w->first + i);
        (l->edges ? put_bins : put_top)(l, cells + i * l->size);
    }
}
