/* Messages over byte streams of nng's, ipc://, tls+tcp:// and tcp://, framed as REQ/REP clients expect it (proto/frame.h). With
 * metrics_http.c the only file of the daemon with nng in it. The ids of connections count upwards.
 *
 * A fixed number of exchanges cycle  receive -> inbox -> loop -> reply -> receive. nng's threads do nothing but put events into
 * the inbox, and offer messages to the fast path first. The messages of a connection come in their order; while no exchange is
 * free, connections wait in theirs. */
#ifndef RD_TRANSPORT_H
#define RD_TRANSPORT_H

#include "daemon/base/peer.h"
#include "daemon/net/exchange.h"
#include "daemon/net/inbox.h"

typedef struct rd_transport rd_transport;

/* `exchanges` of them, of `exchange_size` bytes each: an rd_exchange first, then the room for the layer that answers, all zero.
 * Not receiving yet. NULL: no memory. */
rd_transport *rd_transport_open(rd_inbox *inbox, unsigned exchanges, size_t exchange_size);

/* What listeners on tls+tcp:// show and ask for: PEM files. `ca` may be empty if `any` client is served. False: `why` tells. */
bool rd_transport_tls(rd_transport *t, const char *cert, const char *key, const char *ca, bool any, char *why, size_t cap);

/* Serve one URL with the exchanges of `t`. False: `why` tells. `bound` gets the URL with the port that was taken if the URL
 * asks for port 0. */
bool rd_transport_listen(rd_transport *t, const char *url, unsigned socket_mode, char *bound, size_t bound_cap, char *why,
                         size_t cap);

/* Start receiving. Each message is offered to `fastpath` in nng's threads, several at once; what it does not take (false)
 * goes to the inbox. What it takes it answers, in any thread and also later, with rd_exchange_send or rd_exchange_pass. */
void rd_transport_start(rd_transport *t, bool (*fastpath)(void *arg, rd_exchange *e), void *arg);

/* Close further connections as they come; those that are there stay. The sockets go with rd_transport_close. */
void rd_transport_stop_listening(rd_transport *t);

/* About once a second: disconnect who does not greet within 10 s, takes no reply for 10 s, or is gone without a word. */
void rd_transport_tick(rd_transport *t);

/* Stop everything and wait for nng's callbacks. Replies that the kernel has not taken are lost. */
void rd_transport_close(rd_transport *t);

/* Exchanges whose message or reply is under way. */
unsigned rd_transport_busy(const rd_transport *t);

/* Who is at the other end. False: the connection is gone. */
bool rd_transport_peer(rd_transport *t, uint32_t connection, rd_peer *peer);

void rd_transport_hang_up(rd_transport *t, uint32_t connection);

#endif
