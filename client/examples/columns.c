/* The mean of each column of a matrix, without its NaNs:  cc columns.c $(pkg-config --cflags --libs libreduce) && ./a.out */
#include <math.h>
#include <reduce.h>
#include <stdio.h>

int main(void)
{
    const float matrix[3][4] = {{1, 2, 3, 4}, {5, NAN, 7, 8}, {9, 10, 11, 12}};
    double means[4];
    reduce_client *c;
    reduce_open_opts opts = REDUCE_OPEN_OPTS_INIT;
    reduce_spec spec = REDUCE_SPEC_INIT;
    opts.flags = REDUCE_AUTOSTART;
    spec.op = REDUCE_MEAN;
    spec.dtype = REDUCE_F32;
    spec.nan = REDUCE_NAN_OMIT;
    spec.rows = 3;
    spec.flags = REDUCE_COLUMNS;
    if (reduce_open(&c, NULL, &opts)) {
        fprintf(stderr, "%s\n", reduce_errmsg());
        return 1;
    }
    int err = reduce_run(c, &spec, matrix, sizeof matrix, means, sizeof means, NULL);
    if (err)
        fprintf(stderr, "%s\n", reduce_errmsg());
    for (int i = 0; i < 4 && !err; i++)
        printf("%g\n", means[i]);
    reduce_close(c);
    return err ? 1 : 0;
}
