/* FILE:#1,#3-#5,=name: lists of columns of tables, each of which becomes an argument of its own. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/formats/container.h"
#include "client/ctl/formats/grow.h"

enum { MOST = 1 << 16 /* columns */ };

typedef struct arguments {
    char **all;
    int n;
    size_t room;
} arguments;

static bool add(arguments *a, char *name)
{
    if (name && !ctl_grow(&a->all, &a->room, (size_t)a->n, 2, sizeof *a->all)) {
        free(name);
        return false;
    }
    if (name)
        a->all[a->n++] = name;
    return name;
}

/* The end of an item: a comma in front of a next one. */
static const char *end_of_item(const char *p)
{
    while (*p && !(p[0] == ',' && (p[1] == '#' || p[1] == '=')))
        p++;
    return p;
}

/* "#3" or "#3-#5": the columns. False: neither. */
static bool parse_range(const char *p, const char *end, uint64_t *first, uint64_t *last)
{
    char *rest;
    if (p[0] != '#' || p[1] < '1' || p[1] > '9')
        return false;
    *first = *last = strtoull(p + 1, &rest, 10);
    if (*rest == '-') {
        rest += 1 + (rest[1] == '#');
        if (*rest < '1' || *rest > '9')
            return false;
        *last = strtoull(rest, &rest, 10);
    }
    return rest == end && *first <= *last;
}

static bool add_item(arguments *a, const char *file, size_t file_len, const char *p, const char *end, char why[CTL_WHY])
{
    uint64_t first, last;
    char *name = NULL;
    if (*p == '=')
        return add(a, asprintf(&name, "%.*s:%.*s", (int)file_len, file, (int)(end - p), p) < 0 ? NULL : name);
    if (!parse_range(p, end, &first, &last) || last - first >= (uint64_t)(MOST - a->n)) {
        snprintf(why, CTL_WHY, "'%.*s' is not a column or a range of columns, such as #3 or #3-#5",
                 end - p > 40 ? 40 : (int)(end - p), p);
        return false;
    }
    for (; first <= last; first++)
        if (!add(a, asprintf(&name, "%.*s:#%" PRIu64, (int)file_len, file, first) < 0 ? NULL : name))
            return false;
    return true;
}

static bool is_list(const char *columns)
{
    const char *end = end_of_item(columns);
    bool item = columns[0] == '=' || (columns[0] == '#' && columns[1] >= '0' && columns[1] <= '9');
    return item && (*end || (columns[0] == '#' && strchr(columns, '-')));
}

static bool add_list(arguments *a, const char *name, const char *columns, char why[CTL_WHY])
{
    for (const char *p = columns, *end;; p = end + 1) {
        end = end_of_item(p);
        if (!add_item(a, name, (size_t)(columns - 1 - name), p, end, why))
            return false;
        if (!*end)
            return true;
    }
}

bool ctl_list_columns(ctl_options *o, char why[CTL_WHY])
{
    static arguments a; /* until the end, as argv */
    const char *columns;
    int lists = 0;
    for (int i = 0; i < o->n_files; i++)
        lists += o->command == CTL_REDUCE && (columns = ctl_member_of(o->files[i])) && is_list(columns);
    for (int i = 0; i < o->n_files && lists; i++) {
        columns = ctl_member_of(o->files[i]);
        why[0] = 0;
        bool good = columns && is_list(columns) ? add_list(&a, o->files[i], columns, why) : add(&a, strdup(o->files[i]));
        if (!good && !why[0])
            snprintf(why, CTL_WHY, "no memory for the list of columns");
        if (!good)
            return false;
    }
    if (lists) {
        o->files = a.all;
        o->n_files = a.n;
    }
    return true;
}
