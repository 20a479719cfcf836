/* One result of all elements: streamed, so that memory stays small whatever the size. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"

enum {
    MAX_REPEATS = 3,       /* of a file whose stream the daemon lost */
    MASKED_BLOCK = 1 << 20 /* elements read at a time when their mask has to be read, too */
};

/* ---- streams ---- */

/* Up to `bytes` bytes of one input. 0, or an error as for ctl_stream; *got tells how many came. */
static int feed(ctl_work *w, reduce_stream *s, ctl_input *in, uint64_t bytes, uint64_t *got, char why[CTL_WHY])
{
    for (*got = 0; *got < bytes;) {
        void *space;
        size_t room;
        int err = reduce_stream_space(s, &space, &room);
        if (err)
            return err;
        long n = ctl_read(in, space, room < bytes - *got ? room : (size_t)(bytes - *got), why);
        if (n < 0)
            return in->err;
        if (n == 0)
            return 0;
        if ((err = reduce_stream_commit(s, (size_t)n)))
            return err;
        *got += (uint64_t)n;
        ctl_progress_add(&w->progress, (uint64_t)n);
    }
    return 0;
}

static int feed_all(ctl_work *w, reduce_stream *s, uint64_t n, char why[CTL_WHY])
{
    uint64_t size = reduce_dtype_size(w->spec.dtype), left = n == UINT64_MAX ? n : n * size, got;
    for (int i = 0; i < w->n_in; i++) {
        int err = feed(w, s, &w->in[i], left, &got, why);
        if (err)
            return err;
        left -= n == UINT64_MAX ? 0 : got;
    }
    return 0;
}

/* Up to n elements of one input and their mask. */
static int feed_masked(ctl_work *w, reduce_stream *s, ctl_input *in, uint64_t n, uint8_t *block, char why[CTL_WHY])
{
    size_t size = reduce_dtype_size(in->dtype);
    while (n) {
        size_t want = (size_t)(n < MASKED_BLOCK ? n : MASKED_BLOCK);
        long bytes = ctl_read_full(in, block, want * size, why);
        if (bytes < 0)
            return in->err;
        size_t have = (size_t)bytes / size;
        if ((size_t)bytes % size) {
            snprintf(why, CTL_WHY, "the last element is cut");
            return REDUCE_E_SHAPE;
        }
        long keep = ctl_read_full(w->mask, block + MASKED_BLOCK * size, have, why);
        if (keep < 0)
            return w->mask->err;
        if ((size_t)keep < have) {
            snprintf(why, CTL_WHY, "the mask ends before the elements do");
            return REDUCE_E_SHAPE;
        }
        int err = reduce_stream_append_masked(s, block, block + MASKED_BLOCK * size, have);
        if (err || have < want)
            return err;
        n -= have;
        ctl_progress_add(&w->progress, (uint64_t)bytes);
    }
    return 0;
}

static int feed_all_masked(ctl_work *w, reduce_stream *s, uint64_t n, char why[CTL_WHY])
{
    uint8_t *block = malloc(MASKED_BLOCK * (reduce_dtype_size(w->spec.dtype) + 1)), more;
    int err = 0;
    if (!block) {
        snprintf(why, CTL_WHY, "no memory for a block of elements");
        return REDUCE_E_NO_MEMORY;
    }
    for (int i = 0; i < w->n_in && !err; i++)
        err = feed_masked(w, s, &w->in[i], n, block, why);
    if (!err && n == UINT64_MAX && ctl_read_full(w->mask, &more, 1, why) > 0) {
        snprintf(why, CTL_WHY, "the mask goes on behind the last element");
        err = REDUCE_E_SHAPE;
    }
    free(block);
    return err;
}

int ctl_stream(ctl_work *w, const reduce_spec *given, uint64_t n, void *cell, size_t room, reduce_result *r, char why[CTL_WHY])
{
    reduce_stream *s;
    reduce_spec spec = *given;
    spec.rows = 1;
    spec.flags |= w->mask ? REDUCE_MASKED : 0;
    why[0] = 0;
    int err = reduce_stream_begin(w->c, &spec, &s);
    if (err)
        return err;
    err = w->mask ? feed_all_masked(w, s, n, why) : feed_all(w, s, n, why);
    if (err) {
        reduce_stream_abort(s);
        return err;
    }
    return reduce_stream_finish(s, cell, room, r);
}

/* ---- files, passed to the daemon, and what it has ---- */

bool ctl_is_direct(const ctl_work *w)
{
    const ctl_input *in = &w->in[0];
    if (in->resident)
        return true;
    return w->n_in == 1 && in->regular && in->sized && !in->text && !w->mask && w->spec.path != REDUCE_PATH_STREAM;
}

int ctl_direct(ctl_work *w, const reduce_spec *spec, uint64_t at, uint64_t bytes, void *cells, size_t room, reduce_result *r)
{
    const ctl_input *in = &w->in[0];
    reduce_job *job;
    if (in->resident)
        return reduce_named(w->c, spec, in->resident, at, bytes, cells, room, r);
    int err = reduce_submit_file(w->c, spec, in->fd, in->start + at, bytes, cells, room, NULL, NULL, &job);
    return err ? err : ctl_wait(job, &w->progress, r);
}

/* ---- Fortran order ---- */

/* Do indexes matter, and lie the elements in another order than theirs? */
static bool needs_order(const ctl_work *w)
{
    int op = w->o->spec.op;
    return ctl_shuffled(&w->in[0]) && (op == REDUCE_ARGMIN || op == REDUCE_ARGMAX || op == REDUCE_STATS);
}

/* Read the array and its mask to `from` and reduce them in the order of their indexes, from `to`. */
static int run_ordered(ctl_work *w, uint8_t *from, uint8_t *to, void *cell, size_t room, reduce_result *r, char why[CTL_WHY])
{
    const ctl_input *in = &w->in[0];
    size_t size = reduce_dtype_size(in->dtype);
    uint64_t n = in->bytes / size;
    reduce_spec spec = w->spec;
    int err = ctl_take(w, from, from + in->bytes, n, why);
    if (err)
        return err;
    ctl_c_order(to, from, size, in->dims, in->shape);
    if (w->mask) {
        ctl_c_order(to + in->bytes, from + in->bytes, 1, in->dims, in->shape);
        spec.mask = to + in->bytes;
    }
    return ctl_run(w->c, &spec, to, (size_t)in->bytes, cell, room, r);
}

static int ordered(ctl_work *w, void *cell, size_t room, reduce_result *r, char why[CTL_WHY])
{
    const ctl_input *in = &w->in[0];
    size_t bytes = (size_t)(in->bytes + (w->mask ? in->bytes / reduce_dtype_size(in->dtype) : 0));
    uint8_t *from = malloc(bytes), *to = malloc(bytes);
    int err = REDUCE_E_NO_MEMORY;
    why[0] = 0;
    if (from && to)
        err = run_ordered(w, from, to, cell, room, r, why);
    else
        snprintf(why, CTL_WHY, "no memory for twice the file: indexes of a .npy in Fortran order need that");
    free(from);
    free(to);
    return err;
}

/* ---- with repeats ---- */

static bool rewind_all(ctl_work *w)
{
    for (int i = 0; i < w->n_in; i++)
        if (!ctl_rewind(&w->in[i]))
            return false;
    return !w->mask || ctl_rewind(w->mask);
}

int ctl_whole(ctl_work *w)
{
    _Alignas(8) uint8_t cell[1024]; /* the largest: a state of 872 bytes */
    uint64_t total = 0;
    bool sized = true;
    char why[CTL_WHY];
    reduce_result r = REDUCE_RESULT_INIT;
    ctl_where where = {.name = w->name};
    for (int i = 0; i < w->n_in; i++) {
        total += w->in[i].bytes;
        sized &= w->in[i].sized;
    }
    int err;
    for (int repeats = 0;; repeats++) {
        ctl_progress_start(&w->progress, w->name, sized ? total : 0, true);
        if (needs_order(w))
            err = ordered(w, cell, sizeof cell, &r, why);
        else if (ctl_is_direct(w))
            err = ctl_direct(w, &w->spec, 0, w->in[0].bytes, cell, sizeof cell, &r), why[0] = 0;
        else
            err = ctl_stream(w, &w->spec, UINT64_MAX, cell, sizeof cell, &r, why);
        ctl_progress_end(&w->progress);
        if (err != REDUCE_E_STREAM_LOST || repeats == MAX_REPEATS || !rewind_all(w))
            break;
    }
    if (err)
        return ctl_print_error(w->o, &where, err, why[0] ? why : NULL);
    ctl_print_cells(w->o, &where, &r, cell);
    if (w->o->verbose)
        ctl_print_details(&w->in[0], &r);
    return CTL_OK;
}
