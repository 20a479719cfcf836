#include "client/ways.h"

#include <math.h>

#include "proto/types.h"

/* GB/s, which are bytes a nanosecond. Of one core of a Xeon with AVX-512 (2026-11-28, 8 MiB, thread time), by kind of operation
 * and by type: f32 and f64; f16 and bf16; integers and bools of one or two bytes; of four or eight. */
enum { SCAN, MOMENTS, STATISTICS, PRODUCT, OPS };
enum { FLOATS, HALVES, SMALL, INTEGERS, TYPES };
static const double core_rate[OPS][TYPES] = {
    [SCAN] = {15, 15, 15, 15}, [MOMENTS] = {7, 4.5, 7, 4}, [STATISTICS] = {5, 2.5, 5, 3}, [PRODUCT] = {8, 0.5, 1.4, 6}};

/* H200, 16 cores, 2026-11-27: all cores read an array of 64 MiB with 67 GB/s. On its way to the GPU it is copied into shared
 * memory, 10 GB/s a core and 24 with all, or read there over the bus, 48 GB/s. */
static const double memory_rate = 70, copy_rate_core = 10, copy_rate = 24, bus_rate = 48, network_rate = 1;

/* ns: a call, the threads of one, a request to the daemon and a launch there, a request over a network. */
static const double call_ns = 3000, threads_ns = 60000, request_ns = 60000, distant_ns = 150000;

enum {
    STAY_PERCENT = 120,
    TRY_AGAIN = 256,       /* requests: a trial that takes four times as long costs 1 % */
    TRY_WITHIN = 4,        /* times the best way's time */
    THREAD_BYTES = 2 << 20 /* as in kernels/cpu/threads/here.c */
};

/* ---- kinds ---- */

/* An operation that the table lacks reads at the speed of memory. */
static int kind_of_op(int op)
{
    static const uint8_t kinds[] = {
        [RP_OP_PROD] = PRODUCT, [RP_OP_STATS] = STATISTICS, [RP_OP_VAR] = MOMENTS,   [RP_OP_STD] = MOMENTS,
        [RP_OP_SEM] = MOMENTS,  [RP_OP_RMS] = MOMENTS,      [RP_OP_SUMSQ] = MOMENTS, [RP_OP_NORM2] = MOMENTS};
    return (size_t)op < sizeof kinds ? kinds[op] : SCAN;
}

static int kind_of_type(int dtype)
{
    switch (dtype) {
    case RP_F32:
    case RP_F64:
        return FLOATS;
    case RP_F16:
    case RP_BF16:
        return HALVES;
    default:
        return rp_dtype_size((uint8_t)dtype) <= 2 ? SMALL : INTEGERS;
    }
}

static int size_of(uint64_t bytes)
{
    return (bytes > UINT64_C(1) << 20) + (bytes > UINT64_C(16) << 20) + (bytes > UINT64_C(256) << 20);
}

_Static_assert(OPS *TYPES == RC_WORK_KINDS, "a kind of work is a kind of operation and of type");

static struct rc_learned *learned(rc_ways *w, const rc_work *k)
{
    return &w->of[kind_of_op(k->op) * TYPES + kind_of_type(k->dtype)][size_of(k->bytes)];
}

static const struct rc_learned *known(const rc_ways *w, const rc_work *k) { return learned((rc_ways *)w, k); }

/* ---- expected times ---- */

static double here_ns(const rc_work *k)
{
    const double most = (double)(k->bytes / THREAD_BYTES), threads = fmax(1, fmin(k->threads, most));
    const double rate = threads * core_rate[kind_of_op(k->op)][kind_of_type(k->dtype)];
    return call_ns + (threads > 1 ? threads_ns : 0) + (double)k->bytes / fmin(rate, memory_rate);
}

static double there_ns(const rc_work *k)
{
    if (k->distant)
        return distant_ns + (double)k->bytes / network_rate;
    return request_ns + (double)k->bytes / (k->shared ? bus_rate : fmin(k->threads * copy_rate_core, copy_rate));
}

static double built_in(const rc_work *k, rc_way way) { return way == RC_HERE ? here_ns(k) : there_ns(k); }

double rc_ways_expected(const rc_ways *w, const rc_work *k, rc_way way)
{
    const float ratio = known(w, k)->ratio[way];
    return built_in(k, way) * (ratio > 0 ? (double)ratio : 1);
}

/* ---- the choice ---- */

rc_way rc_ways_choose(const rc_ways *w, const rc_work *k)
{
    const double here = rc_ways_expected(w, k, RC_HERE), there = rc_ways_expected(w, k, RC_THERE);
    const struct rc_learned *l = known(w, k);
    const rc_way best = here <= there ? RC_HERE : RC_THERE;
    if (!l->last)
        return best;
    const rc_way last = (rc_way)(l->last - 1), other = last == RC_HERE ? RC_THERE : RC_HERE;
    const double of_last = last == RC_HERE ? here : there, of_other = last == RC_HERE ? there : here;
    /* What was learned of the other may be long past, and then only the built-in time says what it may be worth. */
    if (l->others >= TRY_AGAIN && fmin(of_other, built_in(k, other)) < TRY_WITHIN * of_last)
        return other;
    return of_last * 100 <= of_other * STAY_PERCENT ? last : other;
}

void rc_ways_note(rc_ways *w, const rc_work *k, rc_way way, uint64_t ns)
{
    struct rc_learned *l = learned(w, k);
    const float ratio = (float)((double)ns / built_in(k, way));
    l->ratio[way] += l->ratio[way] > 0 ? (ratio - l->ratio[way]) / 4 : ratio;
    l->others = l->last == way + 1 ? l->others + (l->others < TRY_AGAIN) : 0;
    l->last = (uint8_t)(way + 1);
}
