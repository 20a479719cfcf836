/* The record behind kept resident data (kept.h): owner, name, type, shape and checksum. It comes back from outside the process,
 * so every byte of it is checked. It never leaves the machine, so it has native byte order. */
#ifndef RD_KEPT_RECORD_H
#define RD_KEPT_RECORD_H

#include "proto/codec.h"

enum { RD_KEPT_RECORD = 320, RD_KEPT_VERSION = 1 };

typedef struct rd_kept_record {
    uint64_t uid, id;            /* owner; handle */
    uint64_t since_ns, until_ns; /* CLOCK_MONOTONIC; UINT64_MAX: no end */
    uint64_t checksum;           /* of the data */
    rp_store store;              /* what STORE asked for; read: its name lies in the bytes that were read */
} rd_kept_record;

/* A change of a single word always changes the checksum; any other change almost always does. It is not a defence against
 * attacks: the memory is sealed, and only the service manager has it. */
uint64_t rd_checksum(const void *data, size_t n);

void rd_kept_put(uint8_t out[RD_KEPT_RECORD], const rd_kept_record *r);

/* NULL, or what is wrong with it. */
const char *rd_kept_get(const uint8_t in[RD_KEPT_RECORD], rd_kept_record *r);

/* Write the record's own checksum into it. */
void rd_kept_sum(uint8_t record[RD_KEPT_RECORD]);

#endif
