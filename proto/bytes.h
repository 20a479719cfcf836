/* What the encoders and decoders of messages share: fields of little-endian bytes, and checks. */
#ifndef RP_BYTES_H
#define RP_BYTES_H

#include <inttypes.h>

#include "proto/types.h"

/* ---- little-endian fields ---- */
static inline void put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}
static inline void put32(uint8_t *p, uint32_t v)
{
    put16(p, (uint16_t)v);
    put16(p + 2, (uint16_t)(v >> 16));
}
static inline void put64(uint8_t *p, uint64_t v)
{
    put32(p, (uint32_t)v);
    put32(p + 4, (uint32_t)(v >> 32));
}
static inline uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static inline uint32_t get32(const uint8_t *p) { return get16(p) | (uint32_t)get16(p + 2) << 16; }
static inline uint64_t get64(const uint8_t *p) { return get32(p) | (uint64_t)get32(p + 4) << 32; }

/* ---- checks that every decoder shares ---- */
static inline rp_err need(size_t len, size_t want, const char *what, rp_fault *f)
{
    if (len >= want)
        return RP_OK;
    return rp_fail(f, RP_BAD_MESSAGE, what, want, "%s has %zu bytes, %zu are needed", what, len, want);
}

static inline rp_err exact(size_t len, size_t want, const char *what, rp_fault *f)
{
    if (len == want)
        return RP_OK;
    return rp_fail(f, RP_BAD_MESSAGE, what, want, "%s has %zu bytes instead of %zu", what, len, want);
}

static inline rp_err zeros(const uint8_t *p, size_t n, const char *what, rp_fault *f)
{
    for (size_t i = 0; i < n; i++)
        if (p[i])
            return rp_fail(f, RP_BAD_MESSAGE, what, 0, "reserved bytes of %s are not zero", what);
    return RP_OK;
}

static inline rp_err at_most(uint64_t v, uint64_t cap, const char *what, rp_fault *f)
{
    if (v <= cap)
        return RP_OK;
    return rp_fail(f, RP_TOO_LARGE, what, cap, "%s is %" PRIu64 ", the limit is %" PRIu64, what, v, cap);
}

/* Propagate a failed check. */
#define TRY(call)             \
    do {                      \
        rp_err err_ = (call); \
        if (err_)             \
            return err_;      \
    } while (0)

#endif
