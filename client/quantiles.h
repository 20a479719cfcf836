/* Quantiles as decimals of the wire, and all parameters of order statistics as parts. */
#ifndef RC_QUANTILES_H
#define RC_QUANTILES_H

#include "proto/tagged.h"

enum { RC_DECIMAL_BYTES = 16 };

/* Write n of them, as parts have them, to 16 n bytes. */
void rc_put_decimals(uint8_t *to, const double *x, uint32_t n);

/* The parameters of an operation as parts: into t. `words`: 16 bytes of memory for their values. */
void rc_parameters(rp_tagged *t, const rp_spec *s, uint8_t words[16]);

/* Bytes of these parts at most. */
uint64_t rc_parameter_bytes(const rp_spec *s);

#endif
