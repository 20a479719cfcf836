/* Numbers that were found by measuring and differ from card to card, by compute capability and memory bandwidth an SM.
 *
 * A card takes the rows of the highest compute capability that is not above its own (if there are none, those of the
 * lowest), and of these the one with the nearest bandwidth an SM, as a ratio. So a card never seen behaves like the measured
 * one that it resembles most: a B200 (10.0, 54 GB/s an SM) like an H200, an RTX 5090 (12.0, 10.5) or T4 (7.5, 8) like an
 * H100. All of these numbers choose among right ways: a bad choice costs time alone. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t middle_f64_row; /* f64 sums of rows from this length on have larger blocks */
    uint64_t long_f64_row;   /* ... and from this one on more loads in flight; those of f32, too (measured on the H200 alone) */
    uint64_t long_rows;      /* float sums: mean bytes of lines from which a lane has more loads in flight */
    uint64_t walkers_per_sm; /* the general way: threads that keep an SM busy */
} rk_tuning;

typedef struct {
    int capability;   /* 10 * major + minor */
    double gbs_an_sm; /* memory bandwidth an SM, GB/s, by the clock and width of the memory */
    rk_tuning tuning;
} rk_tuning_row;

static const rk_tuning_row rk_tuning_table[] = {
    /* H100 SXM: 132 SMs, 3352 GB/s. 2 MiB: 1 to 4 % faster from there on, 1 to 2 % slower below; 128 MiB: 1 % faster from
     * there on, 3 % slower at 32 MiB (2026-11-21) */
    {90, 25.4, {1u << 18, 1u << 24, 4u << 10, 1024}},
    /* H200: 132 SMs, 4917 GB/s. Lines of 4 KiB with 8 vectors a lane: 898 instead of 962 us of 10^6 rows of 1024 f32; rows
     * of 32 elements 82, not 60 (2026-11-22) */
    {90, 37.2, {1u << 18, 1u << 24, 4u << 10, 1024}},
};

enum { RK_TUNING_ROWS = sizeof rk_tuning_table / sizeof rk_tuning_table[0] };

static inline double rk_tuning_distance(double a, double b) { return a > b ? a / b : b / a; }

/* The row for a card, out of `count` rows. */
static inline const rk_tuning *rk_tuning_choose(const rk_tuning_row *row, size_t count, int capability, double gbs_an_sm)
{
    int lowest = row[0].capability, best = -1;
    for (size_t i = 0; i < count; i++) {
        lowest = row[i].capability < lowest ? row[i].capability : lowest;
        if (row[i].capability <= capability && row[i].capability > best)
            best = row[i].capability;
    }
    if (best < 0)
        best = lowest;
    const rk_tuning_row *chosen = NULL;
    for (size_t i = 0; i < count; i++)
        if (row[i].capability == best && (chosen == NULL || rk_tuning_distance(row[i].gbs_an_sm, gbs_an_sm) <
                                                                rk_tuning_distance(chosen->gbs_an_sm, gbs_an_sm)))
            chosen = &row[i];
    return &chosen->tuning;
}

static inline const rk_tuning *rk_tuning_of(int capability, double gbs_an_sm)
{
    return rk_tuning_choose(rk_tuning_table, RK_TUNING_ROWS, capability, gbs_an_sm);
}
