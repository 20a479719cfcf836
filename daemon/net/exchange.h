/* One message and its reply, as the network knows them. The layer that answers keeps what it knows of the request behind it:
 * the transport makes each exchange with room for that, once, and uses it over and over.
 *
 * A message that was received belongs to the layer above until it calls one of rd_exchange_send, rd_exchange_drop,
 * rd_exchange_forget, once. */
#ifndef RD_EXCHANGE_H
#define RD_EXCHANGE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/codec.h"

typedef struct rd_exchange {
    unsigned number;      /* never changes; no other exchange has it */
    uint32_t connection;  /* its id */
    uint64_t received_ns; /* CLOCK_MONOTONIC */
    const uint8_t *bytes; /* the message: valid, with everything that points into it, until the reply is sent */
    size_t len;
} rd_exchange;

/* A reply with room for `body` bytes of body, which it returns; NULL: no memory. A second call drops the first one's. */
uint8_t *rd_exchange_reply(rd_exchange *e, size_t body);

/* Send the reply with the first h->body_len bytes of its body. `unsent`, which the caller has counted up, is counted down when
 * the kernel has the reply or the connection is gone; the message's bytes are no longer valid. */
void rd_exchange_send(rd_exchange *e, const rp_header *h, atomic_uint *unsent);

/* Leave a message that the fast path had taken to the loop after all. Any thread. */
void rd_exchange_pass(rd_exchange *e);

/* Disconnect the peer instead of answering: its framing is wrong, or there is no memory to say more. */
void rd_exchange_drop(rd_exchange *e);

/* Answer nothing: the peer is gone. */
void rd_exchange_forget(rd_exchange *e);

#endif
