#include "daemon/base/passed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void free_names(char **names, int n)
{
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

#if RD_WITH_SYSTEMD
#include <systemd/sd-daemon.h>

bool rd_passed_get(rd_passed *p, char *why, size_t cap)
{
    *p = (rd_passed){0};
    char **names = NULL;
    int n = sd_listen_fds_with_names(1, &names);
    p->fds = n > 0 ? malloc((size_t)n * sizeof *p->fds) : NULL;
    if (n < 0 || (n > 0 && !p->fds)) {
        free_names(names, n);
        snprintf(why, cap, "descriptors of the service manager: %s", n < 0 ? strerror(-n) : "no memory");
        return false;
    }
    p->names = names;
    p->n = n;
    for (int i = 0; i < n; i++)
        p->fds[i] = SD_LISTEN_FDS_START + i;
    return true;
}

#else

bool rd_passed_get(rd_passed *p, char *why, size_t cap)
{
    (void)why, (void)cap;
    *p = (rd_passed){0};
    return true;
}

#endif

bool rd_passed_is_socket(const rd_passed *p, int i)
{
    struct stat st;
    return p->fds[i] >= 0 && fstat(p->fds[i], &st) == 0 && S_ISSOCK(st.st_mode);
}

int rd_passed_take(rd_passed *p, int i)
{
    int fd = p->fds[i];
    p->fds[i] = -1;
    return fd;
}

void rd_passed_close(rd_passed *p)
{
    for (int i = 0; i < p->n; i++)
        if (p->fds[i] >= 0)
            close(p->fds[i]);
    free_names(p->names, p->n);
    free(p->fds);
    *p = (rd_passed){0};
}
