#include "daemon/net/tls_trust.h"

#include <mbedtls/x509_crl.h>
#include <stdlib.h>
#include <string.h>

struct rd_tls_trust {
    mbedtls_x509_crt ca;
    mbedtls_x509_crl crl;
};

rd_tls_trust *rd_tls_trust_new(const char *ca, const char *crl)
{
    rd_tls_trust *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    mbedtls_x509_crt_init(&t->ca);
    mbedtls_x509_crl_init(&t->crl);
    if (mbedtls_x509_crt_parse(&t->ca, (const uint8_t *)ca, strlen(ca) + 1) == 0 &&
        (!crl || mbedtls_x509_crl_parse(&t->crl, (const uint8_t *)crl, strlen(crl) + 1) == 0))
        return t;
    rd_tls_trust_free(t);
    return NULL;
}

void rd_tls_trust_free(rd_tls_trust *t)
{
    if (!t)
        return;
    mbedtls_x509_crt_free(&t->ca);
    mbedtls_x509_crl_free(&t->crl);
    free(t);
}

bool rd_tls_trust_has(rd_tls_trust *t, const mbedtls_x509_crt *chain)
{
    uint32_t flags;
    return mbedtls_x509_crt_verify((mbedtls_x509_crt *)chain, &t->ca, &t->crl, NULL, &flags, NULL, NULL) == 0;
}
