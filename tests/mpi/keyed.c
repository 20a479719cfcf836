/* Reductions by key of the elements of all ranks. "fine" from rank 0: every operation has the bits of one call of all elements,
 * however they are dealt out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduce_mpi.h"

enum { N = 3000, GROUPS = 50 };

static double all[N], mine[N];
static int32_t all_keys[N], keys[N];

/* Values of many sizes; few keys are frequent, some are outside, and one group has no element. */
static void draw(void)
{
    unsigned s = 1;
    for (int i = 0; i < N; i++) {
        s = s * 1103515245 + 12345;
        all[i] = ((int)(s >> 8) % 2001 - 1000) * (i % 3 ? 1.0 : 1e18);
        all_keys[i] = (int32_t)(s >> 16) % (i % 2 ? 4 : GROUPS + 2) - 1;
        all_keys[i] = all_keys[i] == 7 ? 8 : all_keys[i];
    }
}

static int call(int op, const int32_t *k, const double *x, size_t n, MPI_Comm comm, double *out)
{
    reduce_spec s = REDUCE_SPEC_INIT;
    s.op = op;
    s.dtype = s.out = REDUCE_F64;
    s.rows = GROUPS;
    s.keys = k;
    s.keys_dtype = REDUCE_I32;
    s.flags = REDUCE_DROP_OUTSIDE;
    return reduce_mpi_allreduce(NULL, &s, x, n * sizeof *x, out, GROUPS * sizeof *out, comm);
}

int main(int argc, char **argv)
{
    static const int ops[] = {REDUCE_SUM, REDUCE_MEAN, REDUCE_VAR, REDUCE_NORM2};
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    draw();
    size_t n = 0;
    for (int i = 0; i < N; i++)
        if (i * 7 % 11 % ranks == rank) {
            mine[n] = all[i];
            keys[n++] = all_keys[i];
        }
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
        double together[GROUPS], alone[GROUPS];
        const int err = call(ops[o], keys, mine, n, MPI_COMM_WORLD, together),
                  wrong = call(ops[o], all_keys, all, N, MPI_COMM_SELF, alone);
        if (err || wrong || memcmp(together, alone, sizeof alone)) {
            printf("%d: %s: %s\n", rank, reduce_op_name(ops[o]), err || wrong ? reduce_errmsg() : "other bits");
            return MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    if (rank == 0)
        puts("fine");
    MPI_Finalize();
    return 0;
}
