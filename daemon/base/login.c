#include "daemon/base/login.h"

#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* '+' and '-' refer to other directories of users (NIS). */
static bool is_name(const char *name) { return name[0] != '+' && name[0] != '-'; }

void rd_login_of(const char *path, const char *uid, char out[RD_LOGIN])
{
    char *end, line[1024];
    struct passwd entry, *p;
    unsigned long number = strtoul(uid, &end, 10);
    out[0] = '\0';
    FILE *f = end > uid && !*end ? fopen(path, "re") : NULL;
    if (!f)
        return;
    while (!out[0] && fgetpwent_r(f, &entry, line, sizeof line, &p) == 0)
        if (p->pw_uid == number && is_name(p->pw_name))
            snprintf(out, RD_LOGIN, "%s", p->pw_name);
    fclose(f);
}
