/* Integers in text, a block of text at a time: without a branch for each digit, or for each sign. Pure. */
#ifndef CTL_INTEGERS_H
#define CTL_INTEGERS_H

#include "client/ctl/ctl.h"

/* The range of a type of integers, `size` bytes each: the largest magnitudes without and with a minus. */
typedef struct ctl_integer_type {
    size_t size;
    uint64_t most[2];
} ctl_integer_type;

ctl_integer_type ctl_integer_type_of(int dtype);

/* Tokens of the text [first, end) from `p` on, which is between two, into elements at *out, which moves on. Returns where the
 * first token begins that is not a plain integer of the type, or is too near to an end. */
const char *ctl_feed_integers(const char *first, const char *p, const char *end, const ctl_integer_type *type, uint8_t **out);

/* The same, but the tokens are only examined. */
const char *ctl_look_at_integers(ctl_text_kind *k, const char *first, const char *p, const char *end);

/* Note what one integer says about the whole text. `fits`: its magnitude has 64 bits at most. */
void ctl_look_at_integer(ctl_text_kind *k, bool negative, bool fits, uint64_t magnitude);

#endif
