/* The exact sum of numbers:  cc sum.c $(pkg-config --cflags --libs libreduce) -o sum && ./sum 0.1 0.2 0.3 */
#include <reduce.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    reduce_client *c;
    reduce_open_opts opts = REDUCE_OPEN_OPTS_INIT;
    double *data = malloc((size_t)argc * sizeof *data), sum;
    for (int i = 1; data && i < argc; i++)
        data[i - 1] = strtod(argv[i], NULL);
    opts.flags = REDUCE_AUTOSTART; /* a daemon of our own, if none runs */
    if (!data || reduce_open(&c, NULL, &opts)) {
        fprintf(stderr, "%s\n", data ? reduce_errmsg() : "no memory");
        return 1;
    }
    int err = reduce_sum_f64(c, data, (size_t)(argc - 1), &sum);
    if (err)
        fprintf(stderr, "%s\n", reduce_errmsg());
    else
        printf("%.17g\n", sum);
    reduce_close(c);
    free(data);
    return err ? 1 : 0;
}
