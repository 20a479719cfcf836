/* The exact sum of raw f64 from a pipe, whatever its length:  ./stream <data.f64 */
#include <reduce.h>
#include <stdio.h>

/* From standard input into the chunk that is being filled, until it ends. */
static int feed(reduce_stream *s)
{
    for (;;) {
        void *space;
        size_t room;
        int err = reduce_stream_space(s, &space, &room);
        if (err)
            return err;
        size_t n = fread(space, sizeof(double), room / sizeof(double), stdin);
        if (n == 0)
            return 0;
        err = reduce_stream_commit(s, n * sizeof(double));
        if (err)
            return err;
    }
}

static int sum(reduce_client *c, double *out)
{
    reduce_stream *s;
    reduce_spec spec = REDUCE_SPEC_INIT;
    spec.op = REDUCE_SUM;
    spec.dtype = REDUCE_F64;
    int err = reduce_stream_begin(c, &spec, &s);
    if (err)
        return err;
    err = feed(s);
    if (err) {
        reduce_stream_abort(s);
        return err;
    }
    return reduce_stream_finish(s, out, sizeof *out, NULL);
}

int main(void)
{
    double total;
    reduce_client *c;
    reduce_open_opts opts = REDUCE_OPEN_OPTS_INIT;
    opts.flags = REDUCE_AUTOSTART;
    int err = reduce_open(&c, NULL, &opts);
    if (!err) {
        err = sum(c, &total);
        if (!err)
            printf("%.17g\n", total);
        else
            fprintf(stderr, "%s\n", reduce_errmsg());
        reduce_close(c);
    } else {
        fprintf(stderr, "%s\n", reduce_errmsg());
    }
    return err ? 1 : 0;
}
