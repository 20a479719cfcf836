/* Which way a reduction takes: in this process, or through the daemon, and there by the CPU, a GPU, or both. The way with the
 * least expected time.
 *
 * The built-in rates are a start. What requests of the same kind and size really took corrects them, each way for itself: a
 * slow request counts when it is repeated. A way stays unless the other one takes 20 % less. That one is tried again whenever
 * its last time is a small part of the time since its last trial: the first time sooner, if it lost by chance, and more rarely
 * if it never won, above all on a loaded machine. */
#ifndef RC_WAYS_H
#define RC_WAYS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum { RC_HERE, RC_THERE, RC_WAYS } rc_way;

/* Kinds of work by their cost a byte, and sizes in memory and in files that have corrections of their own. */
enum { RC_WORK_KINDS = 20, RC_WORK_SIZES = 8 };

typedef struct rc_work {
    uint8_t op, dtype; /* rp_op, rp_dtype */
    uint64_t bytes;
    int threads;                  /* that may reduce it here */
    bool shared;                  /* it lies in memory that the daemon has mapped, and is not copied */
    bool all;                     /* a result needs all elements at once: ranks, and keys */
    bool file;                    /* it lies in a file, which the daemon reads */
    bool distant;                 /* the daemon is on another machine */
    bool cpu;                     /* the daemon has no GPU, or none so far */
    bool reads;                   /* its CPU may reduce what it reads of a file, although it has a GPU */
    double device_rate, cpu_rate; /* GB/s that the daemon measured of its GPUs, and of its CPU beside them; 0: not so far */
} rc_work;

/* What the daemon may do it with. Both: the CPU takes its share of what a GPU would have to wait for. */
typedef enum { RC_BY_CPU, RC_BY_GPU, RC_BY_BOTH, RC_ENGINES } rc_by;

/* What was learned; all 0 at first. The caller locks it. */
typedef struct rc_ways {
    struct rc_learned {
        float ratio[RC_WAYS][2]; /* real time by expected time of the last two requests; 0: none */
        float best[RC_WAYS];     /* the least of these since the start; 0: none */
        float since;             /* ns of requests since the other way was tried */
        uint8_t last;            /* rc_way + 1 of the way that stays; 0: none */
        uint8_t trials;          /* of the other way, since this one stays */
        bool again;              /* the trial has a second request */
    } of[RC_WORK_KINDS][RC_WORK_SIZES];
} rc_ways;

/* ns that a way is expected to take. */
double rc_ways_expected(const rc_ways *w, const rc_work *work, rc_way way);

/* The same of the daemon by one engine. Infinity: it does not have it. */
double rc_ways_expected_by(const rc_ways *w, const rc_work *work, rc_by by);

rc_way rc_ways_choose(const rc_ways *w, const rc_work *work);

/* Is this not the way that stays, but one that is tried? */
bool rc_ways_tries(const rc_ways *w, const rc_work *work, rc_way way);

/* It went this way, and took so long. */
void rc_ways_note(rc_ways *w, const rc_work *work, rc_way way, uint64_t ns);

#endif
