/* The CAs and revocation lists that clients' certificates must agree with, for connections that were made before these
 * changed. */
#ifndef RD_TLS_TRUST_H
#define RD_TLS_TRUST_H

#include <mbedtls/x509_crt.h>
#include <stdbool.h>

typedef struct rd_tls_trust rd_tls_trust;

/* Of PEM texts that were used before; `crl` may be NULL. NULL: no memory. */
rd_tls_trust *rd_tls_trust_new(const char *ca, const char *crl);
void rd_tls_trust_free(rd_tls_trust *t); /* NULL is fine */

/* Would a handshake accept this chain today? Any thread. */
bool rd_tls_trust_has(rd_tls_trust *t, const mbedtls_x509_crt *chain);

#endif
