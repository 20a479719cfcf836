/* The dates of TLS files, for a warning in time: nobody can connect once a certificate has expired. */
#ifndef RD_CERT_DATES_H
#define RD_CERT_DATES_H

#include <stddef.h>
#include <stdint.h>

#include "proto/pem.h"

enum { RD_EXPIRES_SOON_DAYS = 14 };

/* Which files differ from those before. */
enum { RD_TLS_NEW_CERT = 1, RD_TLS_NEW_CA = 2, RD_TLS_NEW_CRL = 4 };

/* When the files end, in seconds since 1970; 0: there is no such file, or it has no end. */
typedef struct rd_cert_ends {
    int64_t cert; /* the first of tls-cert */
    int64_t ca;   /* the last of tls-ca */
    int64_t crl;  /* the first of tls-crl */
} rd_cert_ends;

/* When the files end. `told` says what keeps peers out at `now` (seconds since 1970) or soon will, or is "". Texts that cannot
 * be parsed are not mentioned. Of tls-cert each certificate counts: all are sent. Of tls-ca the one that is valid for longest
 * counts: others may be its predecessors. Revocation lists are often valid for a week, so of tls-crl only those count that have
 * expired. */
rd_cert_ends rd_cert_dates(const rp_pem *p, int64_t now, char *told, size_t cap);

#endif
