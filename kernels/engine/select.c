#include "kernels/engine/select.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- names ---- */
void rk_uuid_text(const uint8_t uuid[16], const char *prefix, char out[RK_UUID])
{
    int at = snprintf(out, RK_UUID, "%.4s", prefix);
    for (int i = 0; i < 16; i++)
        at += snprintf(out + at, (size_t)(RK_UUID - at), i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
}

void rk_device_list(const rk_device_info *there, unsigned n, char *out, size_t cap)
{
    size_t used = 0;
    out[0] = 0;
    for (unsigned i = 0; i < n && used < cap; i++)
        used += (size_t)snprintf(out + used, cap - used, "%s%d (%s)", i ? ", " : "", there[i].ordinal, there[i].name);
}

static bool is_number(const char *name)
{
    size_t n = strspn(name, "0123456789");
    return n > 0 && n < 5 && name[n] == 0;
}

/* The index of the only device whose UUID begins so; -1: none; -2: several. */
static int by_uuid(const rk_device_info *there, unsigned n, const char *name)
{
    int found = -1;
    for (unsigned i = 0; i < n; i++)
        if (strncasecmp(there[i].name, name, strlen(name)) == 0)
            found = found == -1 ? (int)i : -2;
    return found;
}

static int by_number(const rk_device_info *there, unsigned n, int ordinal)
{
    for (unsigned i = 0; i < n; i++)
        if (there[i].ordinal == ordinal)
            return (int)i;
    return -1;
}

/* The place of the device that `name` names: a number of CUDA's, or the start of a UUID that no other one has. -1: none. */
static int device_named(const rk_device_info *there, unsigned n, const char *name)
{
    if (is_number(name))
        return by_number(there, n, atoi(name));
    return strlen(name) > 4 ? by_uuid(there, n, name) : -1; /* "GPU-" names all */
}

/* ---- lists ---- */
typedef struct {
    const rk_device_info *there;
    unsigned n;
    unsigned *chosen, *count;
    unsigned plain, mig; /* entries of each kind */
    char *why;
    size_t why_cap;
} selection;

static rp_err refuse(const selection *s, const char *name, const char *problem)
{
    char list[RK_MAX_DEVICES * (RK_UUID + 8)];
    rk_device_list(s->there, s->n, list, sizeof list);
    snprintf(s->why, s->why_cap, "devices: '%.48s' %s; there %s %s", name, problem, s->n == 1 ? "is" : "are", list);
    return RP_TYPE;
}

static bool is_taken(const selection *s, unsigned place)
{
    for (unsigned i = 0; i < *s->count; i++)
        if (s->chosen[i] == place)
            return true;
    return false;
}

static rp_err take(selection *s, const char *name)
{
    const bool mig = strncasecmp(name, "MIG-", 4) == 0;
    const int place = device_named(s->there, s->n, name);
    s->mig += mig;
    s->plain += !mig;
    if (s->mig && s->plain)
        return refuse(s, name, "mixes MIG instances and whole GPUs");
    if (s->mig > 1)
        return refuse(s, name, "is a second MIG instance: CUDA gives a process one, so each needs a daemon of its own");
    if (place < 0)
        return refuse(s, name, by_uuid(s->there, s->n, name) == -2 ? "is not enough to tell devices apart" : "is not a device");
    if (is_taken(s, (unsigned)place))
        return refuse(s, name, "is listed twice");
    if (*s->count == RK_MAX_DEVICES)
        return refuse(s, name, "is one too many");
    s->chosen[(*s->count)++] = (unsigned)place;
    return RP_OK;
}

/* The next entry of a list with commas; false: it ends. Blanks around entries do not count. */
static bool next_entry(const char **text, char *entry, size_t cap)
{
    *text += strspn(*text, ", ");
    size_t n = strcspn(*text, ",");
    if (n == 0)
        return false;
    snprintf(entry, cap, "%.*s", (int)n, *text);
    *text += n;
    for (n = strlen(entry); n && isspace((unsigned char)entry[n - 1]); n--)
        entry[n - 1] = 0;
    return true;
}

static bool is_all(const char *text) { return !text || !text[0] || strcmp(text, "all") == 0; }

rp_err rk_select(const rk_device_info *there, unsigned n, const char *text, unsigned *chosen, unsigned *count, char *why,
                 size_t why_cap)
{
    selection s = {there, n, chosen, count, 0, 0, why, why_cap};
    char entry[64];
    rp_err err = RP_OK;
    *count = 0;
    if (is_all(text)) {
        for (; *count < n && *count < RK_MAX_DEVICES; ++*count)
            chosen[*count] = *count;
        return RP_OK;
    }
    while (!err && next_entry(&text, entry, sizeof entry))
        err = take(&s, entry);
    return err || *count ? err : refuse(&s, "", "names no device");
}

rp_err rk_select_cpus(const char *text, unsigned *count, char *why, size_t why_cap)
{
    *count = is_all(text) ? 1 : is_number(text) ? (unsigned)atoi(text) : 0;
    if (*count >= 1 && *count <= RK_MAX_DEVICES)
        return RP_OK;
    snprintf(why, why_cap, "devices: '%.48s': of the CPU, the number of engines, 1 to %d", text, RK_MAX_DEVICES);
    return RP_TYPE;
}
