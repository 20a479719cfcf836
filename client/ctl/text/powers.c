/* Powers of ten in 128 bits, rounded up. They are computed once, with big integers. */
#include "client/ctl/text/powers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

enum { WORDS = 20 /* 1280 bits: 10^342 takes 1137, and 2^(1137 + 128) is divided for the negative powers */ };

typedef struct whole {
    uint64_t word[WORDS]; /* the lowest first */
} whole;

static ctl_power powers[CTL_POWER_MAX - CTL_POWER_MIN + 1];
static atomic_bool made;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void times_ten(whole *x)
{
    uint64_t carry = 0;
    for (int i = 0; i < WORDS; i++) {
        unsigned __int128 product = (unsigned __int128)x->word[i] * 10 + carry;
        x->word[i] = (uint64_t)product;
        carry = (uint64_t)(product >> 64);
    }
}

/* Returns whether something was left over. */
static bool over_ten(whole *x)
{
    uint64_t rest = 0;
    for (int i = WORDS - 1; i >= 0; i--) {
        unsigned __int128 part = (unsigned __int128)rest << 64 | x->word[i];
        x->word[i] = (uint64_t)(part / 10);
        rest = (uint64_t)(part % 10);
    }
    return rest != 0;
}

/* The 128 bits from the highest set one on, and one more in the last if any bit below or what was cut off earlier (`inexact`)
 * is not 0. */
static ctl_power top(const whole *x, bool inexact)
{
    int i = WORDS - 1;
    while (!x->word[i])
        i--;
    int shift = __builtin_clzll(x->word[i]);
    uint64_t below[4] = {0}; /* x's words i, i - 1, i - 2 and whether there is more */
    for (int k = 0; k <= i; k++)
        below[k < 3 ? k : 3] |= x->word[i - k];
    ctl_power p = {below[0], below[1]};
    uint64_t rest = below[2];
    if (shift) {
        p.high = below[0] << shift | below[1] >> (64 - shift);
        p.low = below[1] << shift | below[2] >> (64 - shift);
        rest = below[2] << shift;
    }
    if (rest || below[3] || inexact) {
        p.low++;
        p.high += p.low == 0;
    }
    return p;
}

static void make(void)
{
    whole x = {{1}}, y = {{0}};
    bool inexact = false;
    for (int k = 0; k <= CTL_POWER_MAX; k++, times_ten(&x))
        powers[k - CTL_POWER_MIN] = top(&x, false);
    y.word[WORDS - 1] = UINT64_C(1) << 63;
    for (int k = -1; k >= CTL_POWER_MIN; k--) {
        inexact |= over_ten(&y);
        powers[k - CTL_POWER_MIN] = top(&y, inexact);
    }
    atomic_store_explicit(&made, true, memory_order_release);
}

const ctl_power *ctl_powers(void)
{
    if (!atomic_load_explicit(&made, memory_order_acquire)) /* pthread_once alone would take longer */
        pthread_once(&once, make);
    return powers;
}
