/* TLS for the daemon's listeners: an engine for nng (its public nng_tls_engine) on mbedTLS, from which the name in a peer's
 * certificate can be read. nng's own engine does not expose it. Server's side only. */
#ifndef RD_TLS_ENGINE_H
#define RD_TLS_ENGINE_H

#include <nng/nng.h>

#include "daemon/base/peer.h"
#include "daemon/base/turned_away.h"
#include "daemon/net/tls_trust.h"

/* From here on every TLS config of the process uses this engine. Returns 0, or nng's error. */
int rd_tls_engine_register(void);

/* What setting a listener's files returns, through nng: which of them cannot be used. nng's own codes are other numbers. */
enum {
    RD_TLS_BAD_CERT = 0x10000,
    RD_TLS_BAD_KEY,
    RD_TLS_OTHER_KEY, /* not the one of the first certificate */
    RD_TLS_BAD_CA,
    RD_TLS_BAD_CRL
};

/* Who is at the other end of a TLS stream whose handshake is over: sets `name` or `refused`, or neither if no certificate was
 * asked for. */
void rd_tls_engine_peer(nng_stream *stream, rd_peer *peer);

/* Does the certificate of this peer agree with the CAs and lists of today? It is not known while the handshake is under way. */
typedef enum { RD_TRUST_UNKNOWN, RD_TRUSTED, RD_NOT_TRUSTED } rd_trust;
rd_trust rd_tls_engine_trusts(nng_stream *stream, rd_tls_trust *trust);

/* Why the stream's handshake has failed; NULL: it has not. */
const char *rd_tls_engine_failure(nng_stream *stream, rd_away *reason);

/* Processor time that the stream's handshake has taken so far, in ns. */
uint64_t rd_tls_engine_spent(nng_stream *stream);

#endif
