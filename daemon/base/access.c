#include "daemon/base/access.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/cap_text.h"

#define MANY "at most " RD_CAP_TEXT(RD_MAX_IDS) " are allowed"

/* ---- lists of the config ---- */
static bool find_name(rd_id_kind kind, const char *name, uint32_t *id)
{
    const struct passwd *p = kind == RD_USER_ID ? getpwnam(name) : NULL;
    const struct group *g = kind == RD_GROUP_ID ? getgrnam(name) : NULL;
    if (p)
        *id = p->pw_uid;
    if (g)
        *id = g->gr_gid;
    return p || g;
}

const char *rd_ids_add(rd_ids *ids, rd_id_kind kind, const char *value)
{
    uint32_t id;
    char *end;
    errno = 0;
    if (isdigit((unsigned char)value[0])) {
        unsigned long long n = strtoull(value, &end, 10);
        if (*end || errno || n >= UINT32_MAX) /* the kernel uses UINT32_MAX for "no user" */
            return "an id is a number below 4294967295";
        id = (uint32_t)n;
    } else if (!find_name(kind, value, &id)) {
        return kind == RD_USER_ID ? "no such user" : "no such group";
    }
    if (ids->n == RD_MAX_IDS)
        return MANY;
    ids->id[ids->n++] = id;
    return NULL;
}

const char *rd_names_add(rd_names *names, const char *name)
{
    size_t n = strlen(name);
    const char *problem = rd_user_name_problem(name, n);
    for (uint32_t i = 0; i < names->n && !problem; i++)
        if (rd_user_names_look_alike(names->name[i], name) && strcmp(names->name[i], name) != 0)
            problem = "the list has this name in other letters";
    if (!problem && names->n == RD_MAX_IDS)
        problem = MANY;
    if (!problem)
        memcpy(names->name[names->n++], name, n + 1);
    return problem;
}

bool rd_names_have(const rd_names *names, const char *name)
{
    for (uint32_t i = 0; i < names->n; i++)
        if (strcmp(names->name[i], name) == 0)
            return true;
    return false;
}

static bool among(const uint32_t *ids, size_t n, uint32_t id)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

bool rd_ids_have(const rd_ids *ids, uint32_t id) { return among(ids->id, ids->n, id); }

/* ---- gates ---- */
static bool add_member(rd_gate *g, uint32_t uid)
{
    uint32_t *more = realloc(g->members, (g->n_members + 1) * sizeof *more);
    if (!more)
        return false;
    g->members = more;
    more[g->n_members++] = uid;
    return true;
}

static bool add_members(rd_gate *g, gid_t gid)
{
    const struct group *group = getgrgid(gid);
    for (char **name = group ? group->gr_mem : NULL; name && *name; name++) {
        const struct passwd *p = getpwnam(*name);
        if (p && !add_member(g, p->pw_uid))
            return false;
    }
    return true;
}

bool rd_gate_init(rd_gate *g, const rd_allow *allow)
{
    *g = (rd_gate){.allow = *allow};
    for (uint32_t i = 0; i < allow->groups.n; i++)
        if (!add_members(g, allow->groups.id[i]))
            return false;
    return true;
}

void rd_gate_fini(rd_gate *g)
{
    free(g->members);
    *g = (rd_gate){0};
}

bool rd_gate_open(const rd_gate *g) { return g->allow.users.n == 0 && g->allow.groups.n == 0; }

bool rd_gate_lets(const rd_gate *g, uint32_t uid, uint32_t gid)
{
    const rd_ids *users = &g->allow.users, *groups = &g->allow.groups;
    return rd_gate_open(g) || among(users->id, users->n, uid) || among(groups->id, groups->n, gid) ||
           among(g->members, g->n_members, uid);
}

bool rd_gate_lets_name(const rd_gate *g, const char *name)
{
    return g->allow.names.n == 0 || rd_names_have(&g->allow.names, name);
}
