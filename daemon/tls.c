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

static rp_pem_files files_of(const rd_config *c)
{
    return (rp_pem_files){.cert = c->tls_cert, .key = c->tls_key, .ca = c->tls_ca, .crl = c->tls_crl};
}

bool rd_tls_open(const rd_config *c, rd_transport *t, char why[RD_MAX_WHY])
{
    const rp_pem_files files = files_of(c);
    why[0] = '\0';
    if (!wants_tls(c))
        return true;
    if (!private_key(c->tls_key, why))
        return false;
    return t ? rd_transport_tls(t, &files, c->tls_clients, why, RD_MAX_WHY)
             : rd_transport_tls_check(&files, c->tls_clients, why, RD_MAX_WHY);
}

bool rd_tls_renew(const rd_config *now, const rd_config *fresh, rd_transport *t, unsigned *changed, char why[RD_MAX_WHY])
{
    const rp_pem_files files = files_of(fresh);
    why[0] = '\0';
    *changed = 0;
    if (!wants_tls(now))
        return true;
    if (!fresh->tls_cert[0] || !fresh->tls_key[0] || (!fresh->tls_ca[0] && !now->tls_clients)) {
        snprintf(why, RD_MAX_WHY, "the URL that is served needs tls-cert, tls-key and tls-ca");
        return false;
    }
    return private_key(fresh->tls_key, why) && rd_transport_tls_renew(t, &files, changed, why, RD_MAX_WHY);
}
