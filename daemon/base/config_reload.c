/* What a reload takes over, and what it says about it. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "daemon/base/config_options.h"
#include "daemon/base/paths.h"

typedef struct reload {
    rd_config *now;
    const rd_config *fresh;
    void (*tell)(const char *line);
} reload;

static void __attribute__((format(printf, 2, 3))) say(const reload *r, const char *fmt, ...)
{
    char line[RD_MAX_WHY + RD_MAX_URL];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    r->tell(line);
}

/* ---- lists of a URL ---- */
static void where(const rd_config *c, uint64_t list, char out[RD_MAX_URL + 8])
{
    if (list)
        snprintf(out, RD_MAX_URL + 8, " of %s", c->listen[list - 1]);
    else
        out[0] = '\0';
}

static void tell_ids(const reload *r, const char *name, uint64_t list, const rd_ids *from, const rd_ids *without,
                     const char *what)
{
    char of[RD_MAX_URL + 8];
    where(r->now, list, of);
    for (uint32_t i = 0; i < from->n; i++)
        if (!rd_ids_have(without, from->id[i]))
            say(r, "%s%s: %" PRIu32 " is %s", name, of, from->id[i], what);
}

static void tell_names(const reload *r, const char *name, uint64_t list, const rd_names *from, const rd_names *without,
                       const char *what)
{
    char of[RD_MAX_URL + 8];
    where(r->now, list, of);
    for (uint32_t i = 0; i < from->n; i++)
        if (!rd_names_have(without, from->name[i]))
            say(r, "%s%s: %s is %s", name, of, from->name[i], what);
}

static const rd_ids *ids_of(const rd_allow *a, const rd_option *o)
{
    return o->kind == RD_OPTION_USERS ? &a->users : &a->groups;
}

static void tell_list(const reload *r, const rd_option *o, uint64_t list, const rd_allow *was, const rd_allow *is)
{
    if (o->kind == RD_OPTION_NAMES) {
        tell_names(r, o->name, list, &is->names, &was->names, "added");
        tell_names(r, o->name, list, &was->names, &is->names, "removed");
    } else {
        tell_ids(r, o->name, list, ids_of(is, o), ids_of(was, o), "added");
        tell_ids(r, o->name, list, ids_of(was, o), ids_of(is, o), "removed");
    }
}

/* The lists that the fresh file gives to the n-th current URL. Port 0 may be listed twice, so the k-th is looked for. NULL: the
 * fresh file does not list it; it is served with its old lists until the restart. */
static const rd_allow *fresh_lists(const reload *r, uint64_t n)
{
    const char *url = r->now->listen[n];
    unsigned k = 0;
    for (uint64_t i = 0; i < n; i++)
        k += strcmp(r->now->listen[i], url) == 0;
    for (uint64_t i = 0; i < r->fresh->listens; i++)
        if (strcmp(r->fresh->listen[i], url) == 0 && k-- == 0)
            return &r->fresh->allow[i + 1];
    return NULL;
}

static void take_list(const reload *r, uint64_t list, const rd_allow *fresh)
{
    for (int i = 0; i < RD_OPTIONS; i++) {
        const rd_option *o = &rd_options[i];
        if (o->kind == RD_OPTION_USERS || o->kind == RD_OPTION_GROUPS || o->kind == RD_OPTION_NAMES)
            tell_list(r, o, list, &r->now->allow[list], fresh);
    }
    r->now->allow[list] = *fresh;
}

static void take_lists(const reload *r)
{
    take_list(r, 0, &r->fresh->allow[0]);
    for (uint64_t i = 0; i < r->now->listens; i++) {
        const rd_allow *fresh = fresh_lists(r, i);
        if (fresh)
            take_list(r, i + 1, fresh);
    }
}

/* ---- the other options ---- */
static bool same_urls(const rd_config *a, const rd_config *b)
{
    for (uint64_t i = 0; i < a->listens && i < b->listens; i++)
        if (strcmp(a->listen[i], b->listen[i]) != 0)
            return false;
    return a->listens == b->listens;
}

static bool same(const rd_config *a, const rd_config *b, const rd_option *o)
{
    switch (o->kind) {
    case RD_OPTION_URLS:
        return same_urls(a, b);
    case RD_OPTION_USERS:
    case RD_OPTION_GROUPS:
    case RD_OPTION_NAMES:
        return true; /* take_lists */
    case RD_OPTION_GROUP:
    case RD_OPTION_ACCOUNTS:
        return memcmp(rd_option_ids(a, o), rd_option_ids(b, o), sizeof(rd_ids)) == 0;
    case RD_OPTION_PATH:
    case RD_OPTION_HTTP:
    case RD_OPTION_DEVICES:
        return strcmp(rd_option_text(a, o), rd_option_text(b, o)) == 0;
    default:
        return rd_option_value(a, o) == rd_option_value(b, o);
    }
}

static void take_option(const reload *r, const rd_option *o)
{
    char was[RD_MAX_FILE], is[RD_MAX_FILE];
    rd_option_print(r->now, o, was, sizeof was);
    rd_option_print(r->fresh, o, is, sizeof is);
    say(r, "%s: %s instead of %s", o->name, is[0] ? is : "none", was[0] ? was : "none");
    if (rd_option_is_number(o))
        *rd_option_number(r->now, o) = rd_option_value(r->fresh, o);
    else
        memcpy((char *)r->now + o->at, rd_option_text(r->fresh, o), RD_MAX_FILE); /* a path */
}

unsigned rd_config_reload(rd_config *now, const rd_config *fresh, void (*tell)(const char *line), char *names, size_t cap)
{
    const reload r = {now, fresh, tell};
    unsigned stuck = 0;
    size_t used = 0;
    names[0] = '\0';
    take_lists(&r);
    for (int i = 0; i < RD_OPTIONS; i++) {
        const rd_option *o = &rd_options[i];
        if (same(now, fresh, o))
            continue;
        if (o->live) {
            take_option(&r, o);
            continue;
        }
        int n = snprintf(names + used, cap - used, "%s%s", stuck++ ? " " : "", o->name);
        used = used + (size_t)n < cap ? used + (size_t)n : cap - 1;
    }
    return stuck;
}
