/* Messages over the byte streams of peers (wire.h), framed as REQ/REP clients expect it (proto/frame.h): what all wires have in
 * common. Ids of connections count upwards.
 *
 * A fixed number of exchanges cycle  receive -> inbox -> loop -> reply -> receive. The wires' threads put events into the
 * inbox, and offer messages to the fast path first. The messages of a connection come in their order; while none is free,
 * connections wait in theirs. An exchange is free again when its reply is queued. A reply that a peer does not read is held by
 * its connection alone and charged to its user. A connection with several of them is not read. */
#ifndef RD_TRANSPORT_H
#define RD_TRANSPORT_H

#include "daemon/base/peer.h"
#include "daemon/base/workers.h"
#include "daemon/net/cert_dates.h"
#include "daemon/net/exchange.h"
#include "daemon/net/inbox.h"
#include "proto/pem.h"

typedef struct rd_transport rd_transport;

/* Makes `exchanges` exchanges of `exchange_size` bytes each: an rd_exchange first, then room for the layer that answers, all
 * zero. While bulk works of `workers` run, its threads do not linger. It receives nothing before rd_transport_start. NULL: no
 * memory. */
rd_transport *rd_transport_open(rd_inbox *inbox, unsigned exchanges, size_t exchange_size, const rd_workers *workers);

/* The PEM files of listeners on tls+tcp://. `ca` may be empty if `any` client is served. False: `why` has the reason. True: it
 * has a warning of their dates, or is "". */
bool rd_transport_tls(rd_transport *t, const rp_pem_files *files, bool any, char *why, size_t cap);
/* The same again while it serves. Connections whose certificates these files refuse end. *changed: which files differ. */
bool rd_transport_tls_renew(rd_transport *t, const rp_pem_files *files, unsigned *changed, char *why, size_t cap);
rd_cert_ends rd_transport_tls_ends(const rd_transport *t); /* all 0 without TLS */
/* Whether these files can be used, without a transport. */
bool rd_transport_tls_check(const rp_pem_files *files, bool any, char *why, size_t cap);

/* Serve one URL with the exchanges of `t`: an ipc URL by the socket `passed`, unless that is -1. A new socket has no mode for
 * others. False: `why` says why. `bound` gets the URL with the port that was taken if the URL asks for port 0. */
bool rd_transport_listen(rd_transport *t, const char *url, int passed, char *bound, size_t bound_cap, char *why, size_t cap);

/* The path of the ipc URL of this number (from 0, in the order of the listens) was removed: bind it anew, without a mode for
 * others. Streams go on. 0 or an errno. */
int rd_transport_bind_again(rd_transport *t, unsigned number);

/* Start receiving. The wires' threads offer each message to `fastpath`, several at once; a message that it does not take
 * (false) goes to the inbox. It answers a message that it took, in any thread and also later, by rd_exchange_send or
 * rd_exchange_pass. */
void rd_transport_start(rd_transport *t, bool (*fastpath)(void *arg, rd_exchange *e), void *arg);

/* Close new connections as they come; existing ones stay. rd_transport_close removes the sockets. At passed sockets peers wait
 * for the next daemon instead. */
void rd_transport_stop_listening(rd_transport *t);

/* About once a second: disconnect peers that are late with a greeting, a frame or the reading of replies, or that vanished
 * without closing. */
void rd_transport_tick(rd_transport *t);

/* Stop everything and wait for the wires' threads. Replies that the kernel has not taken are lost. */
void rd_transport_close(rd_transport *t);

/* Exchanges whose message is under way. */
unsigned rd_transport_busy(const rd_transport *t);

/* Are all exchanges idle, and has the kernel every reply? */
bool rd_transport_is_quiet(const rd_transport *t);

/* May a wire still hold bytes that it reported as sent? nng's TLS does not report when the kernel has the last ones. */
bool rd_transport_holds_back(const rd_transport *t);

/* The peer at the other end. False: the connection is gone. */
bool rd_transport_peer(rd_transport *t, uint32_t connection, rd_peer *peer);

void rd_transport_hang_up(rd_transport *t, uint32_t connection);

/* Memory of unfinished frames of a local user's connections. */
uint64_t rd_transport_frame_bytes(rd_transport *t, uint64_t uid);

#endif
