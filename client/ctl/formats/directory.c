/* The list of the arrays of a file. */
#include <stdlib.h>
#include <string.h>

#include "client/ctl/formats/container.h"

/* `len` bytes that need not end in 0. */
static char *text_of(const char *from, size_t len)
{
    char *copy = malloc(len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, from, len);
    copy[len] = 0;
    return copy;
}

ctl_array *ctl_directory_add(ctl_directory *d, const char *name, size_t len)
{
    if ((d->n & (d->n - 1)) == 0) { /* full: at powers of two */
        ctl_array *more = realloc(d->arrays, (d->n ? 2 * d->n : 1) * sizeof *more);
        if (!more)
            return NULL;
        d->arrays = more;
    }
    char *copy = text_of(name, len);
    if (!copy)
        return NULL;
    d->arrays[d->n] = (ctl_array){.name = copy, .kind = d->kind};
    return &d->arrays[d->n++];
}

void ctl_directory_free(ctl_directory *d)
{
    for (size_t i = 0; i < d->n; i++)
        free(d->arrays[i].name);
    free(d->arrays);
    *d = (ctl_directory){0};
}

/* netCDF-4's prefix of a variable that has a dimension's name but is not its coordinate. */
static const char NETCDF_PREFIX[] = "_nc4_non_coord_";

/* In HDF5 names, the first slash and netCDF's prefix may be left out. */
static bool is_called(const ctl_array *a, const char *name)
{
    if (!strcmp(a->name, name) || (a->name[0] == '/' && !strcmp(a->name + 1, name)))
        return true;
    const char *last = strrchr(a->name, '/'), *asked = strrchr(name, '/');
    size_t group = last ? (size_t)(last + 1 - a->name) : 0;
    if (!last || strncmp(last + 1, NETCDF_PREFIX, sizeof NETCDF_PREFIX - 1))
        return false;
    name += name[0] == '/';
    asked = asked && asked >= name ? asked + 1 : name;
    return (size_t)(asked - name) == group - 1 && !strncmp(a->name + 1, name, group - 1) &&
           !strcmp(last + sizeof NETCDF_PREFIX, asked);
}

/* How many arrays have this array's name? Those of a zip archive may. */
static size_t namesakes(const ctl_directory *d, const ctl_array *a)
{
    size_t n = 0;
    for (size_t i = 0; i < d->n; i++)
        n += !strcmp(d->arrays[i].name, a->name);
    return n;
}

const ctl_array *ctl_directory_find(const ctl_directory *d, const char *name, char why[CTL_WHY])
{
    char clean[64];
    if (!name && d->n == 1)
        return d->arrays;
    const ctl_array *found = NULL;
    for (size_t i = 0; i < d->n && name && !found; i++)
        found = is_called(&d->arrays[i], name) ? &d->arrays[i] : NULL;
    const size_t same = found ? namesakes(d, found) : 0;
    if (same == 1)
        return found;
    ctl_clean(clean, sizeof clean, name ? name : "");
    if (same) {
        snprintf(why, CTL_WHY, "%zu members are called '%s'", same, clean);
        return NULL;
    }
    int n = name ? snprintf(why, CTL_WHY, "it has no member '%s'; it has", clean)
                 : snprintf(why, CTL_WHY, "it holds %zu arrays (FILE:MEMBER is one):", d->n);
    for (size_t i = 0; i < d->n && n < CTL_WHY - 1; i++) {
        ctl_clean(clean, sizeof clean, d->arrays[i].name);
        if (n + strlen(clean) + 8 > CTL_WHY) {
            snprintf(why + n, CTL_WHY - (size_t)n, " ...");
            break;
        }
        n += snprintf(why + n, CTL_WHY - (size_t)n, "%s %s", i ? "," : "", clean);
    }
    return NULL;
}

bool ctl_array_shape(ctl_array *a, size_t dims, const uint64_t *shape)
{
    bool zero = false, huge = false;
    if (dims > CTL_MAX_DIMS)
        return false;
    a->dims = (int)dims;
    a->count = 1;
    for (size_t i = 0; i < dims; i++) {
        a->shape[i] = shape[i];
        zero |= shape[i] == 0;
        huge |= shape[i] && __builtin_mul_overflow(a->count, shape[i], &a->count);
    }
    if (zero)
        a->count = 0;
    return (zero || !huge) && a->count <= CTL_MAX_COUNT;
}
