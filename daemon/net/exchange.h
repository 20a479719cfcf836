/* One message and its reply, as the network knows them. The layer that answers keeps its knowledge of the request after it:
 * the transport makes each exchange with room for that, once, and uses it over and over.
 *
 * A message that was received belongs to the layer above until it calls one of rd_exchange_send, rd_exchange_drop,
 * rd_exchange_forget, once. */
#ifndef RD_EXCHANGE_H
#define RD_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/account.h"
#include "proto/codec.h"

typedef struct rd_exchange {
    unsigned number;      /* never changes; no other exchange has it */
    uint32_t connection;  /* its id */
    uint64_t received_ns; /* CLOCK_MONOTONIC */
    rp_header header;     /* of a request */
    const uint8_t *bytes; /* the message: valid, with everything that points into it, until the reply is sent */
    size_t len;           /* of header and body */
} rd_exchange;

/* A reply with room for `body` bytes of body, which it returns; NULL: no memory. A second call drops the first one's. */
uint8_t *rd_exchange_reply(rd_exchange *e, size_t body);

/* Bytes that a reply is charged with until the kernel has it. */
static inline size_t rd_exchange_size(const rp_header *h) { return RP_HEADER_SIZE + (size_t)h->body_len; }

/* Send the reply with the first h->body_len bytes of its body. The caller has charged `account` with rd_exchange_size(h); it
 * gets that back when the kernel has the reply or the connection is gone. The message's bytes are no longer valid, and the
 * exchange may have another one at once. */
void rd_exchange_send(rd_exchange *e, const rp_header *h, rd_account *account);

/* Before rd_exchange_send: after this reply the connection ends, and what its peer sends is thrown away. */
void rd_exchange_last(rd_exchange *e);

/* The peer has said HELLO and got this session: its connection is authenticated, and is not closed for being one of many. */
void rd_exchange_admit(rd_exchange *e, uint64_t session);

/* Let the thread that reads its connection run `next` soon, if that thread is the better place. False: it is not. */
bool rd_exchange_leave(rd_exchange *e, void (*next)(rd_exchange *e));

/* Leave a message that the fast path had taken to the loop after all. Any thread. */
void rd_exchange_pass(rd_exchange *e);

/* Disconnect the peer instead of answering: there is no memory for a reply. */
void rd_exchange_drop(rd_exchange *e);

/* Send no answer: its connection is closed. */
void rd_exchange_forget(rd_exchange *e);

#endif
