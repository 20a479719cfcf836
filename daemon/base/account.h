/* What is held on behalf of a session or user, within a cap: bytes, and things that must end before the account may be freed.
 * An account may be part of another one (a session's of its user's). Any thread. */
#ifndef RD_ACCOUNT_H
#define RD_ACCOUNT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct rd_account {
    struct rd_account *of; /* NULL: none. It outlives this one */
    atomic_uint things;    /* the owner may be freed when there are none */
    atomic_uint_least64_t bytes;
} rd_account;

static inline void rd_account_charge(rd_account *a, size_t bytes)
{
    for (; a; a = a->of) {
        atomic_fetch_add_explicit(&a->things, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&a->bytes, bytes, memory_order_relaxed);
    }
}

/* Release the whole (`of`) first: the part may be freed as soon as its `things` are 0. */
static inline void rd_account_release(rd_account *a, size_t bytes)
{
    if (a->of)
        rd_account_release(a->of, bytes);
    atomic_fetch_sub_explicit(&a->bytes, bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&a->things, 1, memory_order_release);
}

static inline unsigned rd_account_things(const rd_account *a)
{
    return atomic_load_explicit((atomic_uint *)&a->things, memory_order_acquire);
}

static inline uint64_t rd_account_bytes(const rd_account *a)
{
    return atomic_load_explicit((atomic_uint_least64_t *)&a->bytes, memory_order_relaxed);
}

#endif
