#include "daemon/net/cert_dates.h"

#include <mbedtls/x509_crl.h>
#include <mbedtls/x509_crt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const int64_t DAY = 24 * 60 * 60;

typedef struct warning {
    int64_t now;
    char *told;
    size_t cap, used;
    rd_cert_ends ends;
} warning;

static int64_t seconds_of(const mbedtls_x509_time *t)
{
    struct tm utc = {.tm_year = t->year - 1900,
                     .tm_mon = t->mon - 1,
                     .tm_mday = t->day,
                     .tm_hour = t->hour,
                     .tm_min = t->min,
                     .tm_sec = t->sec};
    return timegm(&utc);
}

/* `what` begins or ends to be valid on a day. */
static void warn(warning *w, const char *what, const mbedtls_x509_time *t)
{
    if (w->used >= w->cap)
        return;
    int n = snprintf(w->told + w->used, w->cap - w->used, "%s%s %04d-%02d-%02d", w->used ? "; " : "", what, t->year, t->mon,
                     t->day);
    w->used += n > 0 ? (size_t)n : 0;
}

/* The certificate of a chain that ends first. */
static const mbedtls_x509_crt *first_to_end(const mbedtls_x509_crt *chain)
{
    const mbedtls_x509_crt *ends = chain;
    for (const mbedtls_x509_crt *c = chain; c; c = c->next)
        if (seconds_of(&c->valid_to) < seconds_of(&ends->valid_to))
            ends = c;
    return ends;
}

static const mbedtls_x509_crt *last_to_end(const mbedtls_x509_crt *chain)
{
    const mbedtls_x509_crt *last = chain;
    for (const mbedtls_x509_crt *c = chain; c; c = c->next)
        if (seconds_of(&c->valid_to) > seconds_of(&last->valid_to))
            last = c;
    return last;
}

static void own_dates(warning *w, const mbedtls_x509_crt *first)
{
    const mbedtls_x509_crt *ends = first_to_end(first);
    for (const mbedtls_x509_crt *c = first; c; c = c->next)
        if (seconds_of(&c->valid_from) > w->now)
            warn(w, "a certificate in tls-cert is not valid before", &c->valid_from);
    w->ends.cert = seconds_of(&ends->valid_to);
    int64_t left = seconds_of(&ends->valid_to) - w->now;
    if (left < RD_EXPIRES_SOON_DAYS * DAY)
        warn(w, left < 0 ? "a certificate in tls-cert expired on" : "a certificate in tls-cert expires on", &ends->valid_to);
}

static void ca_dates(warning *w, const mbedtls_x509_crt *first)
{
    const mbedtls_x509_crt *last = last_to_end(first);
    w->ends.ca = seconds_of(&last->valid_to);
    int64_t left = seconds_of(&last->valid_to) - w->now;
    if (left < RD_EXPIRES_SOON_DAYS * DAY)
        warn(w, left < 0 ? "tls-ca has no CA that is valid after" : "tls-ca expires on", &last->valid_to);
}

static void crl_dates(warning *w, const mbedtls_x509_crl *first)
{
    for (const mbedtls_x509_crl *c = first; c; c = c->next) {
        const int64_t end = c->next_update.year ? seconds_of(&c->next_update) : 0;
        if (end && end < w->now)
            warn(w, "a list in tls-crl refuses all clients of its CA, because it expired on", &c->next_update);
        if (end && (!w->ends.crl || end < w->ends.crl))
            w->ends.crl = end;
    }
}

static void with_certs(warning *w, const char *pem, void (*look)(warning *w, const mbedtls_x509_crt *first))
{
    mbedtls_x509_crt certs;
    mbedtls_x509_crt_init(&certs);
    if (pem && mbedtls_x509_crt_parse(&certs, (const uint8_t *)pem, strlen(pem) + 1) == 0)
        look(w, &certs);
    mbedtls_x509_crt_free(&certs);
}

static void with_crls(warning *w, const char *pem)
{
    mbedtls_x509_crl lists;
    mbedtls_x509_crl_init(&lists);
    if (pem && mbedtls_x509_crl_parse(&lists, (const uint8_t *)pem, strlen(pem) + 1) == 0)
        crl_dates(w, &lists);
    mbedtls_x509_crl_free(&lists);
}

rd_cert_ends rd_cert_dates(const rp_pem *p, int64_t now, char *told, size_t cap)
{
    warning w = {.now = now, .told = told, .cap = cap};
    told[0] = '\0';
    with_certs(&w, p->cert, own_dates);
    with_certs(&w, p->ca, ca_dates);
    with_crls(&w, p->crl);
    return w.ends;
}
