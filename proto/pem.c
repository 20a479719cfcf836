#include "proto/pem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool no_pem(char *text, const char *path, const char *problem, char *why, size_t cap)
{
    free(text);
    snprintf(why, cap, "%.120s: %s", path, problem);
    return false;
}

static bool read_file(char **out, const char *path, char *why, size_t cap)
{
    *out = NULL;
    if (!path || !path[0])
        return true;
    FILE *f = fopen(path, "rbe");
    if (!f)
        return no_pem(NULL, path, strerror(errno), why, cap);
    setvbuf(f, NULL, _IONBF, 0); /* no second copy of a key */
    char *text = malloc(RP_MAX_PEM + 1);
    size_t n = text ? fread(text, 1, RP_MAX_PEM + 1, f) : 0;
    bool broken = ferror(f);
    fclose(f);
    if (!text)
        return no_pem(text, path, "no memory to read it", why, cap);
    if (broken || n > RP_MAX_PEM)
        return no_pem(text, path, broken ? "cannot be read" : "has more than 1 MiB", why, cap);
    text[n] = '\0';
    *out = text;
    return true;
}

bool rp_pem_read(rp_pem *p, const rp_pem_files *files, char *why, size_t cap)
{
    *p = (rp_pem){NULL, NULL, NULL, NULL};
    return read_file(&p->cert, files->cert, why, cap) && read_file(&p->key, files->key, why, cap) &&
           read_file(&p->ca, files->ca, why, cap) && read_file(&p->crl, files->crl, why, cap);
}

static void wipe(char **text)
{
    for (volatile char *c = *text; c && *c; c++)
        *c = 0;
    free(*text);
    *text = NULL;
}

void rp_pem_wipe_key(rp_pem *p) { wipe(&p->key); }

void rp_pem_wipe(rp_pem *p)
{
    wipe(&p->cert);
    rp_pem_wipe_key(p);
    wipe(&p->ca);
    wipe(&p->crl);
}
