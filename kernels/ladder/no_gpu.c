/* A build without CUDA: the GPU rungs say that they need one. */
#include "kernels/ladder/ladder.h"

ladder_gpu *ladder_gpu_open(int number, ladder_card *card, char why[LADDER_WHY])
{
    (void)number, (void)card;
    snprintf(why, LADDER_WHY, "this build has no CUDA");
    return NULL;
}

void ladder_gpu_close(ladder_gpu *g) { (void)g; }

bool ladder_gpu_load(ladder_gpu *g, ladder_dtype dtype, const void *data, size_t n, char why[LADDER_WHY])
{
    (void)g, (void)dtype, (void)data, (void)n, (void)why;
    return false;
}

bool ladder_gpu_run(ladder_gpu *g, const ladder_rung *rung, unsigned block, ladder_finish finish, ladder_run *out,
                    char why[LADDER_WHY])
{
    (void)g, (void)rung, (void)block, (void)finish, (void)out, (void)why;
    return false;
}
