/* The files of one side of a TLS connection, read whole: daemon and client hand them to their nng. */
#ifndef RP_PEM_H
#define RP_PEM_H

#include <stdbool.h>
#include <stddef.h>

enum { RP_MAX_PEM = 1 << 20 }; /* bytes of a file; a bundle of every public CA has a quarter of that */

typedef struct rp_pem {
    char *cert, *key, *ca; /* texts; NULL where no file was named */
} rp_pem;

/* Read the files that are named (neither NULL nor ""). False: `why` names the file and what is wrong with it, never what is
 * in it. Either way rp_pem_wipe comes last. */
bool rp_pem_read(rp_pem *p, const char *cert, const char *key, const char *ca, char *why, size_t cap);

/* Overwrite and free: nng has a copy of its own. */
void rp_pem_wipe(rp_pem *p);

#endif
