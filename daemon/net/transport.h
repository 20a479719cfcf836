/* Messages over byte streams of nng's, ipc://, tls+tcp:// and tcp://, framed as REQ/REP clients expect it (proto/frame.h). With
 * metrics_http.c the only file of the daemon with nng in it. Pipes are connections; their ids count upwards.
 *
 * A fixed number of contexts cycle  receive -> inbox -> loop -> reply -> receive.  The request of a context belongs to the
 * loop from its RD_REQUEST event until it calls one of rd_reply_send, rd_request_drop, rd_request_forget, once. nng's
 * threads do nothing but put events into the inbox, and offer requests to the quick way first. The requests of a
 * connection come in their order; while no context is free, connections wait in theirs. */
#ifndef RD_TRANSPORT_H
#define RD_TRANSPORT_H

#include <stdatomic.h>

#include "daemon/net/inbox.h"
#include "daemon/net/peer.h"
#include "daemon/request/request.h"

typedef struct rd_transport rd_transport;

/* Contexts, not receiving yet. NULL: no memory. */
rd_transport *rd_transport_open(rd_inbox *inbox, unsigned contexts);

/* What listeners on tls+tcp:// show and ask for: PEM files. `ca` may be empty if `any` client is served. False: `why` tells. */
bool rd_transport_tls(rd_transport *t, const char *cert, const char *key, const char *ca, bool any, char *why, size_t cap);

/* Serve one URL with the contexts of `t`. False: `why` tells. `bound` gets the URL with the port that was taken if the URL
 * asks for port 0. */
bool rd_transport_listen(rd_transport *t, const char *url, unsigned socket_mode, char *bound, size_t bound_cap, char *why,
                         size_t cap);

/* Start receiving. Each request is offered to `quick` in nng's threads, several at once; what it does not take (false)
 * goes to the inbox. What it takes it answers, in any thread and also later, with rd_reply_send or rd_request_pass. */
void rd_transport_start(rd_transport *t, bool (*quick)(void *arg, rd_request *r), void *arg);

/* Close further connections as they come; those that are there stay. The sockets go with rd_transport_close. */
void rd_transport_stop_listening(rd_transport *t);

/* About once a second: disconnect who does not greet within 10 s, takes no reply for 10 s, or is gone without a word. */
void rd_transport_tick(rd_transport *t);

/* Stop everything and wait for nng's callbacks. Replies that the kernel has not taken are lost. */
void rd_transport_close(rd_transport *t);

/* Contexts whose request or reply is under way. */
unsigned rd_transport_busy(const rd_transport *t);

/* Who is at the other end. False: the pipe is gone. */
bool rd_transport_peer(rd_transport *t, uint32_t pipe, rd_peer *peer);

void rd_transport_close_pipe(rd_transport *t, uint32_t pipe);

/* A reply with room for `body` bytes of body, which it returns; NULL: no memory. A second call drops the first one's. */
uint8_t *rd_reply_alloc(rd_request *r, size_t body);

/* Send it with the first h->body_len bytes of its body. `unsent`, which the caller has counted up, is counted down when the
 * kernel has the reply or the pipe is gone; the request's bytes are no longer valid. */
void rd_reply_send(rd_request *r, const rp_header *h, atomic_uint *unsent);

/* Leave a request that `quick` had taken to the loop after all. Any thread. */
void rd_request_pass(rd_request *r);

/* Disconnect the peer instead of answering: its framing is wrong, or there is no memory to say more. */
void rd_request_drop(rd_request *r);

/* Answer nothing: the peer is gone. */
void rd_request_forget(rd_request *r);

#endif
