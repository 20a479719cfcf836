/* A state, and a collective call of one process, without a client. Prints "1 2". */
#include <reduce.h>
#include <stdio.h>

static int alone(void *arg, void *buffer, size_t bytes)
{
    (void)arg, (void)buffer, (void)bytes;
    return 0;
}

int main(void)
{
    static const double x[3] = {1e100, 1, -1e100}, w[3] = {2, 2, 2};
    unsigned char state[REDUCE_MAX_STATE];
    double sum, dot;
    reduce_spec s = REDUCE_SPEC_INIT;
    reduce_item item = REDUCE_ITEM_INIT;
    s.dtype = REDUCE_F64;
    if (reduce_state_init(state, sizeof state, REDUCE_SUM, REDUCE_F64) || reduce_state_add(state, sizeof state, x, 3) ||
        reduce_state_finish(state, sizeof state, &s, &sum, sizeof sum))
        return 1;
    s.op = REDUCE_DOT;
    s.weights = w;
    item.spec = &s;
    item.data = x;
    item.bytes = sizeof x;
    item.out = &dot;
    item.room = sizeof dot;
    if (reduce_collective(NULL, &item, 1, 0, alone, NULL))
        return 1;
    printf("%g %g\n", sum, dot);
    return 0;
}
