/* The first message of a collective reduction: the same number of bytes for every reduction, so that ranks that disagree still
 * exchange whole messages and learn it. It carries an error of any rank, what is reduced, and the states as far as they fit,
 * packed: the first ones, as many as fit with what all ranks have in them.
 * reduce_states_merge joins messages, and never fails: an error is what the joined message says. Pure. */
#ifndef RC_MESSAGE_H
#define RC_MESSAGE_H

#include "client/reduce.h"

enum { RC_MESSAGE_HEAD = 48, RC_MESSAGE_ROOM = REDUCE_MESSAGE - RC_MESSAGE_HEAD };

typedef struct rc_message {
    uint32_t magic;
    uint32_t form;
    int32_t err;                   /* reduce_err of the lowest rank that failed */
    uint32_t rank;                 /* which one; RC_NO_RANK: the ranks disagree */
    uint64_t key;                  /* of the specs */
    uint64_t total;                /* bytes of the states of all items */
    uint32_t held;                 /* states that the message has */
    uint32_t first;                /* the lowest rank that is joined in this message, whose key and total it has */
    uint32_t other;                /* the lowest one that asks for something else; RC_NO_RANK: none */
    uint32_t reserved;             /* 0 */
    uint8_t room[RC_MESSAGE_ROOM]; /* the packed states, or the text of the error */
} rc_message;

#define RC_NO_RANK UINT32_MAX

void rc_message_init(rc_message *m, uint32_t rank);

/* Append the `bytes` bytes of states of one item, `size` bytes each, aligned as rk_state is. Those after the first that does
 * not fit are for a second message. `used`: the bytes of the room so far, of the caller: 0 at first. */
void rc_message_add(rc_message *m, size_t *used, const reduce_spec *spec, const uint8_t *states, uint64_t size, uint64_t bytes);

/* This rank has failed with `err`, for the reason of reduce_errmsg. */
void rc_message_fail(rc_message *m, int err, uint32_t rank);

/* Is `m`, which may be any bytes, the join of all ranks' messages, among them this rank's `mine`? 0, or the reported error: of
 * some rank, or of the exchange. */
int rc_message_end(const rc_message *m, const rc_message *mine);

/* Replace the states at `states`, `bytes` bytes and aligned as rk_state is, by those that the message holds: the first ones.
 * *held: their bytes. 0, or the reported error, after which they are of no use. */
int rc_message_states(const rc_message *m, uint8_t *states, size_t bytes, size_t *held);

#endif
