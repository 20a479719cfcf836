/* Where a quantile lies between sorted elements, or the rank of kth: exact, for hosts and devices. Pure, thread-safe. */
#ifndef RK_ORDER_PLACE_H
#define RK_ORDER_PLACE_H

#include "kernels/exact/format.h"

typedef __int128 rk_wide;

/* How a place follows from the index of a method (RP_METHODS); or a rank, for kth. */
typedef enum { RK_BETWEEN, RK_HALF, RK_STEP, RK_DOWN, RK_UP, RK_EVEN, RK_ODD, RK_RANK } rk_order_how;

/* One value that is asked for: the quantile digits / 10^tens by a method, or rank `digits`, from the end if negative. */
typedef struct rk_order_rule {
    int64_t digits;
    int32_t tens;
    int8_t times, more, plus;
    int8_t how; /* rk_order_how */
} rk_order_rule;

/* x[at] + g (x[at + 1] - x[at]) with g = part / (times x 10^tens), 0 <= g < 1. */
typedef struct rk_place {
    unsigned __int128 part;
    uint64_t at;
    int32_t times, tens;
} rk_place;

enum { RK_NARROW_TENS = 37 }; /* 8 x 10^37 < 2^127; 10^38 is above 2^63 x 2^63, digits times elements */

RK_FN rk_wide rk_power_of_ten(int e)
{
    rk_wide p = 1;
    while (e-- > 0)
        p *= 10;
    return p;
}

/* The element `at` itself, or the middle between it and the next one. */
RK_FN rk_place rk_place_at(uint64_t at, int halves)
{
    rk_place p;
    p.part = (unsigned __int128)halves;
    p.at = at;
    p.times = 1 + halves;
    p.tens = 0;
    return p;
}

/* The numerator of the index, without `plus`: below 2^126. */
RK_FN rk_wide rk_index_top(rk_order_rule r, uint64_t n) { return (rk_wide)r.digits * ((rk_wide)r.times * (rk_wide)n + r.more); }

/* The virtual index of a method, within 0 .. n - 1. */
RK_FN rk_place rk_order_index(rk_order_rule r, uint64_t n)
{
    const rk_wide top = rk_index_top(r, n);
    rk_place p = rk_place_at(0, 0);
    p.times = r.times;
    p.tens = r.tens;
    if (r.tens > RK_NARROW_TENS) { /* below 1, and below 0 with any `plus` */
        p.part = r.plus || top < 0 ? 0 : (unsigned __int128)top;
        return p;
    }
    const rk_wide tens = rk_power_of_ten(r.tens), h = top + r.plus * tens, whole = r.times * tens;
    if (h <= 0)
        return p;
    p.at = (uint64_t)(h / whole);
    p.part = (unsigned __int128)(h % whole);
    if (p.at >= n - 1) {
        p.at = n - 1;
        p.part = 0;
    }
    return p;
}

/* -1, 0, 1: g is below, at, above 1/2. */
RK_FN int rk_beside_half(rk_place p)
{
    if (p.tens > RK_NARROW_TENS)
        return -1;
    const unsigned __int128 whole = (unsigned __int128)(p.times * rk_power_of_ten(p.tens)), rest = whole - p.part;
    return (p.part > rest) - (p.part < rest);
}

RK_FN rk_place rk_nearest_of(rk_place p)
{
    const int side = rk_beside_half(p);
    return rk_place_at(p.at + (side > 0 || (side == 0 && p.at & 1)), 0);
}

/* Is the index of the method above 0, or exactly 0, so that g and j are those of the formula? */
RK_FN bool rk_index_inside(rk_order_rule r, uint64_t n)
{
    if (r.tens > RK_NARROW_TENS)
        return !r.plus;
    return rk_index_top(r, n) + r.plus * rk_power_of_ten(r.tens) >= 0;
}

/* The rank of kth. False: there is none. */
RK_FN bool rk_order_rank(rk_order_rule r, uint64_t n, uint64_t *rank)
{
    const uint64_t k = (uint64_t)r.digits;
    *rank = r.digits < 0 ? n + k : k;
    return r.digits < 0 ? 0 - k <= n : k < n;
}

/* The place among n elements, of which there is at least one. A rank that does not exist is that of the last one. */
RK_FN rk_place rk_order_place(rk_order_rule r, uint64_t n)
{
    uint64_t rank;
    if (r.how == RK_RANK)
        return rk_place_at(rk_order_rank(r, n, &rank) ? rank : n - 1, 0);
    const rk_place p = rk_order_index(r, n);
    switch ((rk_order_how)r.how) {
    case RK_DOWN:
        return rk_place_at(p.at, 0);
    case RK_UP:
        return rk_place_at(p.at + (p.part != 0), 0);
    case RK_EVEN:
        return rk_nearest_of(p);
    case RK_ODD:
        return rk_place_at(p.at + !(!rk_index_inside(r, n) || (!p.part && p.at & 1) || p.at + 1 >= n), 0);
    case RK_HALF:
        return rk_place_at(p.at, p.part != 0);
    case RK_STEP:
        return !rk_index_inside(r, n) || p.at + 1 >= n ? rk_place_at(p.at, 0)
               : p.part                                ? rk_place_at(p.at + 1, 0)
                                                       : rk_place_at(p.at, 1);
    case RK_BETWEEN:
    case RK_RANK:
        break;
    }
    return p;
}

#endif
