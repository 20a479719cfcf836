/* The dates of TLS files, for a warning in time: nobody can connect once a certificate has expired. */
#ifndef RD_CERT_DATES_H
#define RD_CERT_DATES_H

#include <stddef.h>
#include <stdint.h>

#include "proto/pem.h"

enum { RD_EXPIRES_SOON_DAYS = 14 };

/* `told` says what keeps peers out at `now` (seconds since 1970) or soon will, or is "". Texts that cannot be parsed are not
 * mentioned. Of tls-cert each certificate counts: all are sent. Of tls-ca the one that is valid for longest counts: others may
 * be its predecessors. Revocation lists are often valid for a week, so of tls-crl only those count that have expired. */
void rd_cert_dates(const rp_pem *p, int64_t now, char *told, size_t cap);

#endif
