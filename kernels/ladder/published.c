/* The figures that the notes publish, in milliseconds, on their machines. */
#include <string.h>

#include "kernels/ladder/ladder.h"

#define N20 (UINT64_C(1) << 20)
#define N22 (UINT64_C(1) << 22)
#define N26 (UINT64_C(1) << 26)
#define SERVER_CPU "i9-10920X"
#define SERVER_GPU "RTX 3090"
#define LAPTOP_GPU "RTX 3050 laptop"
#define NOT_GIVEN "not given"

static const struct {
    const char *rung;
    ladder_dtype dtype;
    uint64_t n; /* 0: the notes do not say; shown from 2^20 on */
    ladder_figure figure;
} FIGURES[] = {
    {"cpu-recursive-interleaved", LADDER_I32, N26, {130.888, SERVER_CPU}},
    {"neighbored", LADDER_I32, N26, {2.332, SERVER_GPU}},
    {"neighbored-compact", LADDER_I32, N26, {1.325, SERVER_GPU}},
    {"interleaved", LADDER_I32, N26, {1.175, SERVER_GPU}},
    {"unroll2", LADDER_I32, N26, {0.683, SERVER_GPU}},
    {"unroll4", LADDER_I32, N26, {0.484, SERVER_GPU}},
    {"unroll8", LADDER_I32, N26, {0.423, SERVER_GPU}},
    {"unroll8-warp", LADDER_I32, N26, {0.414, SERVER_GPU}},
    {"unroll8-complete", LADDER_I32, N26, {0.412, SERVER_GPU}},
    {"unroll8-template", LADDER_I32, N26, {0.411, SERVER_GPU}},
    {"unroll8-template-shared", LADDER_I32, N26, {0.360, SERVER_GPU}},
    {"cpu-recursive-interleaved", LADDER_I32, N22, {8.448, SERVER_CPU}},
    {"neighbored", LADDER_I32, N22, {0.514, SERVER_GPU}},
    {"nested", LADDER_I32, N22, {109.319, SERVER_GPU}},
    {"nested-nosync", LADDER_I32, N22, {42.94, SERVER_GPU}},
    {"nested-fixed", LADDER_I32, N22, {0.734, SERVER_GPU}},
    {"neighbored-shared", LADDER_I32, N22, {0.5519, LAPTOP_GPU}},
    {"neighbored-compact-shared", LADDER_I32, N22, {0.493769, LAPTOP_GPU}},
    {"interleaved-shared", LADDER_I32, N22, {0.473715, LAPTOP_GPU}},
    {"cpu-sequential", LADDER_F32, 0, {21.241, NOT_GIVEN}},
    {"neighbored", LADDER_F32, 0, {3.796, NOT_GIVEN}},
    {"interleaved", LADDER_F32, 0, {2.752, NOT_GIVEN}},
    {"first-add-shared", LADDER_F32, 0, {2.15, NOT_GIVEN}},
    {"coarsened", LADDER_F32, 0, {0.677, NOT_GIVEN}},
};

const char ladder_published_legend[] =
    "published: the notes' ms and their machine. RTX 3090 (936 GB/s): block 512, the host's final sum included.\n"
    "RTX 3050 laptop (192 GB/s): block 128. \"not given\": neither n nor the machine is, nor which CPU loop; coarsened has\n"
    "block 1024 there.\n";

const ladder_figure *ladder_published(const char *rung, ladder_dtype dtype, uint64_t n)
{
    for (size_t i = 0; i < sizeof FIGURES / sizeof *FIGURES; i++) {
        bool fits = FIGURES[i].n ? FIGURES[i].n == n : n >= N20;
        if (fits && FIGURES[i].dtype == dtype && !strcmp(FIGURES[i].rung, rung))
            return &FIGURES[i].figure;
    }
    return NULL;
}
