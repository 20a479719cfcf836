/* The daemon's gauges and counters at one moment (gauges.def). The layers above measure them; status and metrics render
 * them. */
#ifndef RD_GAUGES_H
#define RD_GAUGES_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/telemetry/gauges.def"

typedef struct rd_gauges {
#define X(member, unit, key, family, value) uint64_t member;
    RD_GAUGES(X)
#undef X
} rd_gauges;

typedef enum { RD_COUNT, RD_SECONDS } rd_unit;

typedef enum {
#define X(FAMILY, name, type, label, help) RD_FAMILY_##FAMILY,
    RD_FAMILIES(X)
#undef X
        RD_FAMILY_NONE
} rd_family;

typedef struct rd_gauge {
    rd_unit unit;
    const char *key; /* in the status; NULL: not there */
    rd_family family;
    const char *value; /* of the family's label */
} rd_gauge;

/* Row i is member i of rd_gauges. */
static const rd_gauge rd_gauge_table[] = {
#define X(member, unit, key, family, value) {RD_##unit, key, RD_FAMILY_##family, value},
    RD_GAUGES(X)
#undef X
};

enum { RD_N_GAUGES = sizeof rd_gauge_table / sizeof rd_gauge_table[0] };
_Static_assert(sizeof(rd_gauges) == RD_N_GAUGES * sizeof(uint64_t), "a member for each row");

static inline uint64_t rd_gauge_of(const rd_gauges *g, unsigned i) { return ((const uint64_t *)g)[i]; }

#endif
