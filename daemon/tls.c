#include "daemon/tls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/base/paths.h"

static bool wants_tls(const rd_config *c)
{
    for (uint64_t i = 0; i < c->listens; i++)
        if (rd_is_tls(c->listen[i]))
            return true;
    return false;
}

/* A key that everyone may read is not secret. */
static bool private_key(const char *path, char why[RD_MAX_WHY])
{
    struct stat st;
    if (stat(path, &st) != 0)
        snprintf(why, RD_MAX_WHY, "%.120s: %s", path, strerror(errno));
    else if (st.st_mode & 07)
        snprintf(why, RD_MAX_WHY, "%.120s: others than owner and group have access to the key (mode %03o)", path,
                 st.st_mode & 0777);
    else
        return true;
    return false;
}

bool rd_tls_open(const rd_config *c, rd_transport *t, char why[RD_MAX_WHY])
{
    const rp_pem_files files = {.cert = c->tls_cert, .key = c->tls_key, .ca = c->tls_ca, .crl = c->tls_crl};
    why[0] = '\0';
    if (!wants_tls(c))
        return true;
    if (!private_key(c->tls_key, why))
        return false;
    return t ? rd_transport_tls(t, &files, c->tls_clients, why, RD_MAX_WHY)
             : rd_transport_tls_check(&files, c->tls_clients, why, RD_MAX_WHY);
}
