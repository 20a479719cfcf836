#include "daemon/net/tls_engine.h"

#include <mbedtls/entropy.h>
#include <mbedtls/ssl.h>
#include <mbedtls/version.h>
#include <nng/supplemental/tls/engine.h>
#include <nng/supplemental/tls/tls.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "daemon/net/cert_name.h"

#if MBEDTLS_VERSION_MAJOR >= 3
#include <psa/crypto.h>
#endif

struct nng_tls_engine_config {
    mbedtls_ssl_config ssl;
    mbedtls_x509_crt cert, ca;
    mbedtls_x509_crl crl;
    mbedtls_pk_context key;
};

struct nng_tls_engine_conn {
    mbedtls_ssl_context ssl;
    bool shaken;       /* the handshake is over: the peer's certificate is verified */
    uint64_t spent_ns; /* processor time that the handshake took */
    int failure;       /* of the handshake, mbedTLS's code; 0: none */
};

/* nng's code for mbedTLS's result of an operation on the stream: try again, or the stream has ended. */
static int outcome(int err)
{
    if (err == MBEDTLS_ERR_SSL_WANT_READ || err == MBEDTLS_ERR_SSL_WANT_WRITE)
        return NNG_EAGAIN;
    return err < 0 ? NNG_ECRYPTO : 0;
}

/* ---- what differs between mbedTLS 2.28 and 3 ---- */
static int tls_random(void *arg, unsigned char *to, size_t n)
{
    (void)arg;
    while (n) {
        ssize_t got = getrandom(to, n, 0);
        if (got <= 0)
            return MBEDTLS_ERR_ENTROPY_SOURCE_FAILED;
        to += got;
        n -= (size_t)got;
    }
    return 0;
}

#if MBEDTLS_VERSION_MAJOR >= 3
static bool begin_crypto(void) { return psa_crypto_init() == PSA_SUCCESS; }

/* Sets up TLS 1.3, too, if the library has it. */
static void set_oldest_version(mbedtls_ssl_config *c) { mbedtls_ssl_conf_min_tls_version(c, MBEDTLS_SSL_VERSION_TLS1_2); }

static int parse_key(mbedtls_pk_context *key, const uint8_t *pem, size_t n)
{
    return mbedtls_pk_parse_key(key, pem, n, NULL, 0, tls_random, NULL);
}

static bool is_key_of(const mbedtls_pk_context *key, const mbedtls_x509_crt *cert)
{
    return mbedtls_pk_check_pair(&cert->pk, key, tls_random, NULL) == 0;
}
#else
static bool begin_crypto(void) { return true; }

static void set_oldest_version(mbedtls_ssl_config *c)
{
    mbedtls_ssl_conf_min_version(c, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3); /* 3.3 is TLS 1.2 */
}

static int parse_key(mbedtls_pk_context *key, const uint8_t *pem, size_t n)
{
    return mbedtls_pk_parse_key(key, pem, n, NULL, 0);
}

static bool is_key_of(const mbedtls_pk_context *key, const mbedtls_x509_crt *cert)
{
    return mbedtls_pk_check_pair(&cert->pk, key) == 0;
}
#endif

/* ---- a listener's config ---- */

/* Keys of each connection alone, and authenticated encryption: recorded bytes stay secret when a key is stolen later, and no
 * padding of CBC is left to be guessed. */
static const int suites[] = {
#if MBEDTLS_VERSION_MAJOR >= 3
    MBEDTLS_TLS1_3_AES_256_GCM_SHA384,
    MBEDTLS_TLS1_3_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS1_3_AES_128_GCM_SHA256,
#endif
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    MBEDTLS_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    MBEDTLS_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    0};

static void config_fini(nng_tls_engine_config *c)
{
    mbedtls_ssl_config_free(&c->ssl);
    mbedtls_x509_crt_free(&c->cert);
    mbedtls_x509_crt_free(&c->ca);
    mbedtls_x509_crl_free(&c->crl);
    mbedtls_pk_free(&c->key);
}

static int config_init(nng_tls_engine_config *c, nng_tls_mode mode)
{
    if (mode != NNG_TLS_MODE_SERVER)
        return NNG_ENOTSUP;
    mbedtls_ssl_config_init(&c->ssl);
    mbedtls_x509_crt_init(&c->cert);
    mbedtls_x509_crt_init(&c->ca);
    mbedtls_x509_crl_init(&c->crl);
    mbedtls_pk_init(&c->key);
    if (!begin_crypto() || mbedtls_ssl_config_defaults(&c->ssl, MBEDTLS_SSL_IS_SERVER, MBEDTLS_SSL_TRANSPORT_STREAM,
                                                       MBEDTLS_SSL_PRESET_DEFAULT) != 0) {
        config_fini(c);
        return NNG_ECRYPTO;
    }
    set_oldest_version(&c->ssl);
    mbedtls_ssl_conf_ciphersuites(&c->ssl, suites);
    mbedtls_ssl_conf_rng(&c->ssl, tls_random, NULL);
    return 0;
}

/* The name to expect in a server's certificate: only for dialers. */
static int config_server(nng_tls_engine_config *c, const char *name)
{
    (void)c;
    (void)name;
    return NNG_ENOTSUP;
}

static int config_auth(nng_tls_engine_config *c, nng_tls_auth_mode mode)
{
    mbedtls_ssl_conf_authmode(&c->ssl, mode == NNG_TLS_AUTH_MODE_NONE ? MBEDTLS_SSL_VERIFY_NONE : MBEDTLS_SSL_VERIFY_REQUIRED);
    return 0;
}

/* mbedTLS's PEM parsers count the terminator. */
static size_t pem_size(const char *pem) { return strlen(pem) + 1; }

static int config_ca_chain(nng_tls_engine_config *c, const char *certs, const char *crl)
{
    if (mbedtls_x509_crt_parse(&c->ca, (const uint8_t *)certs, pem_size(certs)) != 0)
        return RD_TLS_BAD_CA;
    if (crl && mbedtls_x509_crl_parse(&c->crl, (const uint8_t *)crl, pem_size(crl)) != 0)
        return RD_TLS_BAD_CRL;
    mbedtls_ssl_conf_ca_chain(&c->ssl, &c->ca, crl ? &c->crl : NULL);
    return 0;
}

static int config_own_cert(nng_tls_engine_config *c, const char *cert, const char *key, const char *pass)
{
    (void)pass; /* rp_pem_read takes no keys with a pass phrase */
    if (mbedtls_x509_crt_parse(&c->cert, (const uint8_t *)cert, pem_size(cert)) != 0)
        return RD_TLS_BAD_CERT;
    if (parse_key(&c->key, (const uint8_t *)key, pem_size(key)) != 0)
        return RD_TLS_BAD_KEY;
    if (!is_key_of(&c->key, &c->cert)) /* every handshake would fail */
        return RD_TLS_OTHER_KEY;
    return mbedtls_ssl_conf_own_cert(&c->ssl, &c->cert, &c->key) == 0 ? 0 : NNG_ENOMEM;
}

static int config_version(nng_tls_engine_config *c, nng_tls_version least, nng_tls_version most)
{
    (void)c;
    (void)least;
    (void)most;
    return NNG_ENOTSUP;
}

/* ---- a connection: nng calls these with its lock ---- */
static int conn_net_send(void *tls, const unsigned char *data, size_t n)
{
    int err = nng_tls_engine_send(tls, data, &n);
    if (err)
        return err == NNG_EAGAIN ? MBEDTLS_ERR_SSL_WANT_WRITE : MBEDTLS_ERR_SSL_INTERNAL_ERROR;
    return (int)n;
}

static int conn_net_receive(void *tls, unsigned char *to, size_t n)
{
    int err = nng_tls_engine_recv(tls, to, &n);
    if (err)
        return err == NNG_EAGAIN ? MBEDTLS_ERR_SSL_WANT_READ : MBEDTLS_ERR_SSL_INTERNAL_ERROR;
    return (int)n;
}

static int conn_init(nng_tls_engine_conn *x, void *tls, nng_tls_engine_config *c)
{
    mbedtls_ssl_init(&x->ssl);
    mbedtls_ssl_set_bio(&x->ssl, tls, conn_net_send, conn_net_receive, NULL);
    return mbedtls_ssl_setup(&x->ssl, &c->ssl) ? NNG_ENOMEM : 0;
}

static void conn_fini(nng_tls_engine_conn *x) { mbedtls_ssl_free(&x->ssl); }

static void conn_close(nng_tls_engine_conn *x) { mbedtls_ssl_close_notify(&x->ssl); }

static uint64_t thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Continue the handshake. Receiving and sending call it too, because nothing else begins it. 0: it is over. */
static int conn_handshake(nng_tls_engine_conn *x)
{
    if (x->shaken)
        return 0;
    uint64_t begun = thread_ns();
    const int code = mbedtls_ssl_handshake(&x->ssl);
    int err = outcome(code);
    x->spent_ns += thread_ns() - begun;
    if (err == NNG_ECRYPTO && !x->failure)
        x->failure = code;
    x->shaken = err == 0;
    return err;
}

static int conn_receive(nng_tls_engine_conn *x, uint8_t *to, size_t *n)
{
    int err = conn_handshake(x);
    int got = err ? 0 : mbedtls_ssl_read(&x->ssl, to, *n);
    err = err ? err : outcome(got);
    *n = err ? 0 : (size_t)got;
    return err;
}

static int conn_send(nng_tls_engine_conn *x, const uint8_t *data, size_t *n)
{
    int err = conn_handshake(x);
    int sent = err ? 0 : mbedtls_ssl_write(&x->ssl, data, *n);
    err = err ? err : outcome(sent);
    *n = err ? 0 : (size_t)sent;
    return err;
}

/* ---- the peer ---- */

/* nng_tls_engine has no operation for a peer's name. But nng calls `verified` for the connection in the thread that asks for
 * the option. So the answers for rd_tls_engine_peer and the others pass through a thread-local variable. */
static _Thread_local rd_peer *asked;
static _Thread_local uint64_t *asked_spent;
static _Thread_local struct {
    rd_away *reason; /* NULL: not asked */
    const char *answer;
} asked_failure;
static _Thread_local struct {
    rd_tls_trust *by; /* NULL: not asked */
    rd_trust answer;
} asked_trust;

/* What an administrator has to know about a certificate. */
static const char *certificate_problem(uint32_t flags)
{
    if (flags & MBEDTLS_X509_BADCERT_REVOKED)
        return "its certificate is revoked";
    if (flags & MBEDTLS_X509_BADCERT_EXPIRED)
        return "its certificate has expired";
    if (flags & (MBEDTLS_X509_BADCRL_EXPIRED | MBEDTLS_X509_BADCRL_NOT_TRUSTED | MBEDTLS_X509_BADCRL_FUTURE))
        return "the revocation list of its CA is not valid";
    return "its certificate is not of a CA in tls-ca";
}

static const char *failure_of(const nng_tls_engine_conn *x, rd_away *reason)
{
    *reason = RD_AWAY_HANDSHAKE;
    switch (x->failure) {
    case 0:
        return NULL;
    case MBEDTLS_ERR_X509_CERT_VERIFY_FAILED:
        *reason = RD_AWAY_CERTIFICATE;
        return certificate_problem(mbedtls_ssl_get_verify_result(&x->ssl));
    case MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE:
        *reason = RD_AWAY_CERTIFICATE;
        return "it has no certificate";
    case MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE:
        return "the peer ended the TLS handshake: it may not trust tls-cert";
    case MBEDTLS_ERR_SSL_INTERNAL_ERROR: /* conn_net_receive */
        return "the peer left during the TLS handshake";
    default:
        return "what the peer sent is not a TLS handshake that the daemon accepts";
    }
}

static bool conn_verified(nng_tls_engine_conn *x)
{
    bool verified = x->shaken && mbedtls_ssl_get_verify_result(&x->ssl) == 0;
    const mbedtls_x509_crt *cert = verified ? mbedtls_ssl_get_peer_cert(&x->ssl) : NULL;
    if (asked && cert)
        asked->refused = rd_cert_name(&cert->subject, asked->name);
    if (asked_spent)
        *asked_spent = x->spent_ns;
    if (asked_failure.reason)
        asked_failure.answer = failure_of(x, asked_failure.reason);
    if (asked_trust.by && x->shaken)
        asked_trust.answer = cert && rd_tls_trust_has(asked_trust.by, cert) ? RD_TRUSTED : RD_NOT_TRUSTED;
    return verified;
}

void rd_tls_engine_peer(nng_stream *stream, rd_peer *peer)
{
    bool verified;
    asked = peer;
    nng_stream_get_bool(stream, NNG_OPT_TLS_VERIFIED, &verified);
    asked = NULL;
}

rd_trust rd_tls_engine_trusts(nng_stream *stream, rd_tls_trust *trust)
{
    bool verified;
    asked_trust.by = trust;
    asked_trust.answer = RD_TRUST_UNKNOWN; /* also if the stream has ended */
    nng_stream_get_bool(stream, NNG_OPT_TLS_VERIFIED, &verified);
    asked_trust.by = NULL;
    return asked_trust.answer;
}

const char *rd_tls_engine_failure(nng_stream *stream, rd_away *reason)
{
    bool verified;
    asked_failure.reason = reason;
    asked_failure.answer = NULL;
    nng_stream_get_bool(stream, NNG_OPT_TLS_VERIFIED, &verified);
    asked_failure.reason = NULL;
    return asked_failure.answer;
}

uint64_t rd_tls_engine_spent(nng_stream *stream)
{
    bool verified;
    uint64_t spent = 0;
    asked_spent = &spent;
    nng_stream_get_bool(stream, NNG_OPT_TLS_VERIFIED, &verified);
    asked_spent = NULL;
    return spent;
}

/* ---- the engine ---- */
int rd_tls_engine_register(void)
{
    static nng_tls_engine_config_ops config_ops = {.size = sizeof(nng_tls_engine_config),
                                                   .init = config_init,
                                                   .fini = config_fini,
                                                   .server = config_server,
                                                   .auth = config_auth,
                                                   .ca_chain = config_ca_chain,
                                                   .own_cert = config_own_cert,
                                                   .version = config_version};
    static nng_tls_engine_conn_ops conn_ops = {.size = sizeof(nng_tls_engine_conn),
                                               .init = conn_init,
                                               .fini = conn_fini,
                                               .close = conn_close,
                                               .handshake = conn_handshake,
                                               .recv = conn_receive,
                                               .send = conn_send,
                                               .verified = conn_verified};
    static const nng_tls_engine engine = {.version = NNG_TLS_ENGINE_VERSION,
                                          .config_ops = &config_ops,
                                          .conn_ops = &conn_ops,
                                          .name = "reduced",
                                          .description = MBEDTLS_VERSION_STRING_FULL};
    nng_tls_engine_name(); /* starts nng, which registers its own engine first */
    return nng_tls_engine_register(&engine);
}
