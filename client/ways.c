#include "client/ways.h"

#include <math.h>

#include "kernels/cpu/threads/here.h"
#include "kernels/engine/helper.h"
#include "proto/types.h"

/* GB/s, which are bytes a nanosecond. Of one core of a Xeon with AVX-512 (2026-11-28, 8 MiB, thread time), by kind of operation
 * and by type: f32 and f64; f16 and bf16; integers and bools of one or two bytes; of four or eight. */
enum { SCAN, MOMENTS, STATISTICS, PRODUCT, RANKS, OPS };
enum { FLOATS, HALVES, SMALL, INTEGERS, TYPES };
static const double core_rate[OPS][TYPES] = {[SCAN] = {15, 15, 15, 15},
                                             [MOMENTS] = {7, 4.5, 7, 4},
                                             [STATISTICS] = {5, 2.5, 5, 3},
                                             [PRODUCT] = {8, 5, 1.4, 6},
                                             [RANKS] = {4, 4, 4, 4}};

/* The same of products of floats that leave states, as tiles of large data in the daemon do. */
static const double product_state_rate = 0.5;

/* H200, 16 cores, 2026-11-29: all cores read an array of 64 MiB with 121 GB/s. On its way to the GPU it is copied into shared
 * memory, 10 GB/s a core and 24 with all, or read there over the bus, 48 GB/s. A file is read with 6 GB/s a core. */
static const double memory_rate = 120, copy_rate_core = 10, copy_rate = 24, file_rate_core = 6, bus_rate = 48, network_rate = 1;

/* ns: a call, the threads of one, a request to the daemon and a launch there, a request over a network. */
static const double call_ns = 3000, threads_ns = 60000, request_ns = 60000, distant_ns = 150000;

static const double STAY = 1.2; /* times the other way's time */

/* The other way is tried after FIRST_TRIAL times its last time, then after twice as many, ...: at last it costs 1 %. One that
 * lost by chance has its first trial after SOON times. One that never won is tried after RARER times as much, and MOST times
 * on a loaded machine: all processes that share it pay for the trials of each. The engine's trials (kernels/engine/share.h)
 * count pieces instead: one is 4 MiB, its wrong place costs no request much, and rates under load follow within some of them.
 * Here a trial is a whole request, of any size, so it is paid by time. */
enum { SOON = 2, FIRST_TRIAL = 6, TRIALS = 4, RARER = 2, MOST = 8 };

/* Times the time of the way that stays. A way that should take longer is not tried, a trial that does ends at once. */
static const double TRY_WITHIN = 4, TRY_AGAIN = 2;

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

static int kind_of(const rc_work *k) { return k->all ? RANKS : kind_of_op(k->op); }

static int size_of(const rc_work *k)
{
    return (k->bytes > UINT64_C(1) << 20) + (k->bytes > UINT64_C(16) << 20) + (k->bytes > UINT64_C(256) << 20) + 4 * k->file;
}

_Static_assert(OPS *TYPES == RC_WORK_KINDS, "a kind of work is a kind of operation and of type");

static struct rc_learned *learned(rc_ways *w, const rc_work *k)
{
    return &w->of[kind_of(k) * TYPES + kind_of_type(k->dtype)][size_of(k)];
}

static const struct rc_learned *known(const rc_ways *w, const rc_work *k) { return learned((rc_ways *)w, k); }

/* ---- expected times ---- */

static double cores(const rc_work *k, double n) { return fmin(n * core_rate[kind_of(k)][kind_of_type(k->dtype)], memory_rate); }

/* GB/s of n cores in the daemon. Bytes of a file are copied before they are read. */
static double cores_there(const rc_work *k, int n)
{
    const int op = kind_of(k), type = kind_of_type(k->dtype);
    const bool states = op == PRODUCT && (type == FLOATS || type == HALVES) && k->bytes > RP_MAX_DATA;
    const double rate = states ? product_state_rate : core_rate[op][type], read = 1 / (1 / rate + 1 / file_rate_core);
    return fmin(n * (k->file ? read : rate), memory_rate);
}

static double here_ns(const rc_work *k)
{
    const double most = (double)(k->bytes / RK_THREAD_BYTES), threads = fmax(1, fmin(k->threads, most));
    return call_ns + (threads > 1 ? threads_ns : 0) + (double)k->bytes / cores(k, threads);
}

/* GB/s at which an engine of the daemon reads memory of the host. */
static double rate_by(const rc_work *k, rc_by by)
{
    const double gpu = k->device_rate > 0 ? k->device_rate : bus_rate, cpu = cores_there(k, rk_helper_threads(k->threads, 1));
    switch (by) {
    case RC_BY_CPU:
        return k->cpu || (k->reads && kind_of(k) != PRODUCT) ? cores_there(k, k->threads) : 0;
    case RC_BY_GPU:
        return k->cpu ? 0 : gpu;
    case RC_BY_BOTH:
        return k->cpu || k->bytes < RK_SHARED_BYTES ? 0 : gpu + (k->cpu_rate > 0 ? k->cpu_rate : cpu);
    case RC_ENGINES:
        break;
    }
    return 0;
}

/* GB/s at which the data get to an engine. */
static double carried(const rc_work *k, rc_by by)
{
    const double copies = k->threads * (k->file ? file_rate_core : copy_rate_core);
    if (k->distant)
        return network_rate;
    if (k->shared || (k->file && by == RC_BY_CPU))
        return HUGE_VAL;
    return k->file ? copies : fmin(copies, copy_rate);
}

/* What is copied is read meanwhile. */
static double by_ns(const rc_work *k, rc_by by)
{
    return (k->distant ? distant_ns : request_ns) + (double)k->bytes / fmin(carried(k, by), rate_by(k, by));
}

static double there_ns(const rc_work *k) { return fmin(fmin(by_ns(k, RC_BY_CPU), by_ns(k, RC_BY_GPU)), by_ns(k, RC_BY_BOTH)); }

static double built_in(const rc_work *k, rc_way way) { return way == RC_HERE ? here_ns(k) : there_ns(k); }

static double of_one(float ratio) { return ratio > 0 ? (double)ratio : 1; }

/* By the faster one of the last two. The first request of the way that stays may be a cold one, that of the other one is
 * believed: else it would be tried again at once. */
static double corrected(const rc_ways *w, const rc_work *k, rc_way way, double ns)
{
    const struct rc_learned *l = known(w, k);
    const double now = of_one(l->ratio[way][0]), before = of_one(l->ratio[way][1]);
    const bool tried_once = l->last && l->last != way + 1 && !(l->ratio[way][1] > 0);
    return ns * (tried_once ? now : fmin(now, before));
}

double rc_ways_expected(const rc_ways *w, const rc_work *k, rc_way way) { return corrected(w, k, way, built_in(k, way)); }

double rc_ways_expected_by(const rc_ways *w, const rc_work *k, rc_by by) { return corrected(w, k, RC_THERE, by_ns(k, by)); }

/* ---- the choice ---- */

static rc_way other_than(rc_way way) { return way == RC_HERE ? RC_THERE : RC_HERE; }

/* Neither the built-in rates nor a request ever said that the other way is the faster one. */
static bool never_won(const rc_ways *w, const rc_work *k, rc_way last, rc_way other)
{
    const double best = (double)known(w, k)->best[other] * built_in(k, other);
    return best > STAY * rc_ways_expected(w, k, last) && built_in(k, other) > STAY * built_in(k, last);
}

/* How many times as late a way is tried that never won: by how much slower than its rate the other one is, which grows with the
 * number of processes. */
static int rarer(const rc_ways *w, const rc_work *k, rc_way last)
{
    return (int)fmin(MOST, fmax(RARER, rc_ways_expected(w, k, last) / built_in(k, last) / RARER));
}

/* The other way should be the faster one, and the one that stays takes as long as it should. So the machine is not loaded, and
 * the other one may have read cold memory, or had few threads after a load. */
static bool lost_by_chance(const rc_ways *w, const rc_work *k, rc_way last, rc_way other)
{
    return built_in(k, other) < built_in(k, last) && rc_ways_expected(w, k, last) < STAY * built_in(k, last);
}

/* How many of its last times the other way waits for a trial. */
static int wait_of(const rc_ways *w, const rc_work *k, rc_way last, rc_way other)
{
    const int trials = known(w, k)->trials;
    if (trials == 0 && lost_by_chance(w, k, last, other))
        return SOON;
    return (FIRST_TRIAL << trials) * (never_won(w, k, last, other) ? rarer(w, k, last) : 1);
}

/* Is the other way to be tried? Not after one request, which may have been a cold one. */
static bool tries(const rc_ways *w, const rc_work *k, rc_way last)
{
    const struct rc_learned *l = known(w, k);
    const rc_way other = other_than(last);
    return l->again ||
           (l->ratio[last][1] > 0 && (double)l->since >= wait_of(w, k, last, other) * rc_ways_expected(w, k, other) &&
            built_in(k, other) < TRY_WITHIN * rc_ways_expected(w, k, last));
}

/* Does it take so much less time that the way changes? */
static bool is_better(const rc_ways *w, const rc_work *k, rc_way way, rc_way last)
{
    return rc_ways_expected(w, k, way) * STAY < rc_ways_expected(w, k, last);
}

rc_way rc_ways_choose(const rc_ways *w, const rc_work *k)
{
    const struct rc_learned *l = known(w, k);
    if (!l->last)
        return rc_ways_expected(w, k, RC_HERE) <= rc_ways_expected(w, k, RC_THERE) ? RC_HERE : RC_THERE;
    const rc_way last = (rc_way)(l->last - 1), other = other_than(last);
    return tries(w, k, last) || is_better(w, k, other, last) ? other : last;
}

bool rc_ways_tries(const rc_ways *w, const rc_work *k, rc_way way)
{
    const uint8_t last = known(w, k)->last;
    return last && last != way + 1;
}

/* A trial has two requests: the first one has to fill the caches again. */
void rc_ways_note(rc_ways *w, const rc_work *k, rc_way way, uint64_t ns)
{
    struct rc_learned *l = learned(w, k);
    const rc_way last = l->last ? (rc_way)(l->last - 1) : way;
    l->ratio[way][1] = l->ratio[way][0];
    l->ratio[way][0] = (float)((double)ns / built_in(k, way));
    l->best[way] = l->best[way] > 0 ? fminf(l->best[way], l->ratio[way][0]) : l->ratio[way][0];
    if (way == last) {
        l->last = (uint8_t)(way + 1);
        l->since += (float)ns;
        return;
    }
    const bool better = is_better(w, k, way, last);
    l->again = !l->again && !better && (double)ns < TRY_AGAIN * rc_ways_expected(w, k, last);
    if (l->again)
        return;
    l->trials = better ? 0 : (uint8_t)(l->trials + (l->trials < TRIALS && l->ratio[way][1] > 0)); /* not for a single request */
    l->last = (uint8_t)((better ? way : last) + 1);
    l->since = 0;
}
