/* The files of one side of a TLS connection, read whole: daemon and client hand them to their nng. */
#ifndef RP_PEM_H
#define RP_PEM_H

#include <stdbool.h>
#include <stddef.h>

enum { RP_MAX_PEM = 1 << 20 }; /* bytes of a file; a bundle of every public CA has a quarter of that */

/* Paths; NULL or "": none. */
typedef struct rp_pem_files {
    const char *cert, *key, *ca, *crl; /* crl: revocation lists, one for each CA that has one */
} rp_pem_files;

typedef struct rp_pem {
    char *cert, *key, *ca, *crl; /* texts; NULL where no file was named */
} rp_pem;

/* Read the files that are named. False: `why` names the file and what is wrong with it, never what is
 * in it. Either way rp_pem_wipe comes last. */
bool rp_pem_read(rp_pem *p, const rp_pem_files *files, char *why, size_t cap);

void rp_pem_wipe_key(rp_pem *p);

/* Overwrite and free: nng has a copy of its own. */
void rp_pem_wipe(rp_pem *p);

#endif
