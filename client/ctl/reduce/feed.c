/* How elements of an input get to the daemon: read here, streamed, read by the daemon, or added to a state here. All reductions
 * of a command use it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"

enum {
    MASKED_BLOCK = 1 << 20, /* elements read at a time when their mask or weights have to be read, too */
    ADDED_BLOCK = 1 << 16   /* bytes of elements that are added to a state at a time: they stay in a core's cache */
};

/* ---- reading ---- */

static int take(ctl_input *in, void *to, uint64_t bytes, char why[CTL_WHY])
{
    long n = ctl_read_full(in, to, (size_t)bytes, why);
    if (n < 0)
        return in->err;
    if ((uint64_t)n == bytes)
        return 0;
    snprintf(why, CTL_WHY, "%s ends %" PRIu64 " bytes too early", in->name, bytes - (uint64_t)n);
    return REDUCE_E_IO;
}

int ctl_take(ctl_work *w, void *elements, uint8_t *mask, uint64_t n, char why[CTL_WHY])
{
    uint64_t bytes = n * reduce_dtype_size(w->spec.dtype);
    int err = take(&w->in[0], elements, bytes, why);
    ctl_progress_add(&w->progress, bytes);
    return err || !w->mask ? err : take(w->mask, mask, n, why);
}

void ctl_add_result(reduce_result *sum, const reduce_result *r)
{
    sum->dtype = r->dtype;
    sum->backend = r->backend;
    sum->path = r->path;
    sum->cells += r->cells;
    sum->count += r->count;
    sum->queue_ns += r->queue_ns;
    sum->copy_ns += r->copy_ns;
    sum->compute_ns += r->compute_ns;
    sum->wall_ns += r->wall_ns;
}

/* ---- streams ---- */

/* Up to `bytes` bytes of one input. 0, or an error as for ctl_stream; *got is how many came. */
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

/* Bytes of mask and weights for each element. */
static size_t mask_size(const ctl_work *w) { return w->mask ? 1 : 0; }
static size_t weight_size(const ctl_work *w) { return w->weights ? reduce_dtype_size(w->weights->dtype) : 0; }

/* n items of what is beside the elements. */
static int take_beside(ctl_input *in, const char *what, uint8_t *to, size_t n, size_t size, char why[CTL_WHY])
{
    const long bytes = in ? ctl_read_full(in, to, n * size, why) : 0;
    if (bytes < 0)
        return in->err;
    if ((size_t)bytes == n * size)
        return 0;
    snprintf(why, CTL_WHY, "the %s before the elements do", what);
    return REDUCE_E_SHAPE;
}

/* Up to n elements of one input, with their mask and weights. */
static int feed_beside(ctl_work *w, reduce_stream *s, ctl_input *in, uint64_t n, uint8_t *block, char why[CTL_WHY])
{
    const size_t size = reduce_dtype_size(in->dtype);
    uint8_t *mask = block + MASKED_BLOCK * size, *weights = mask + MASKED_BLOCK * mask_size(w);
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
        int err = take_beside(w->weights, "weights end", weights, have, weight_size(w), why);
        if (!err)
            err = take_beside(w->mask, "mask ends", mask, have, mask_size(w), why);
        if (!err)
            err = w->weights ? reduce_stream_append_pairs(s, block, weights, w->mask ? mask : NULL, have)
                             : reduce_stream_append_masked(s, block, mask, have);
        if (err || have < want)
            return err;
        n -= have;
        ctl_progress_add(&w->progress, (uint64_t)bytes);
    }
    return 0;
}

static int check_end(ctl_input *in, const char *what, char why[CTL_WHY])
{
    uint8_t more[8];
    const long n = in ? ctl_read_full(in, more, reduce_dtype_size(in->dtype), why) : 0;
    if (n <= 0)
        return n ? in->err : 0;
    snprintf(why, CTL_WHY, "the %s after the last element", what);
    return REDUCE_E_SHAPE;
}

static int feed_all_beside(ctl_work *w, reduce_stream *s, uint64_t n, char why[CTL_WHY])
{
    uint8_t *block = malloc(MASKED_BLOCK * (reduce_dtype_size(w->spec.dtype) + mask_size(w) + weight_size(w)));
    int err = 0;
    if (!block) {
        snprintf(why, CTL_WHY, "no memory for a block of elements");
        return REDUCE_E_NO_MEMORY;
    }
    for (int i = 0; i < w->n_in && !err; i++)
        err = feed_beside(w, s, &w->in[i], n, block, why);
    if (!err && n == UINT64_MAX)
        err = check_end(w->weights, "weights go on", why);
    if (!err && n == UINT64_MAX)
        err = check_end(w->mask, "mask goes on", why);
    free(block);
    return err;
}

int ctl_stream(ctl_work *w, const reduce_spec *given, uint64_t n, void *cell, size_t room, reduce_result *r, char why[CTL_WHY])
{
    reduce_stream *s;
    reduce_spec spec = *given;
    spec.rows = 1;
    spec.flags |= w->mask ? REDUCE_MASKED : 0;
    spec.weights_dtype = w->weights ? w->weights->dtype : 0;
    why[0] = 0;
    int err = reduce_stream_begin(w->c, &spec, &s);
    if (err)
        return err;
    err = w->mask || w->weights ? feed_all_beside(w, s, n, why) : feed_all(w, s, n, why);
    if (err) {
        reduce_stream_abort(s);
        return err;
    }
    return reduce_stream_finish(s, cell, room, r);
}

/* ---- text: added here ---- */

bool ctl_is_added_here(const ctl_work *w)
{
    bool text = !w->mask && !w->weights && w->spec.path == REDUCE_PATH_AUTO && !w->spec.deadline_ms;
    for (int i = 0; i < w->n_in && text; i++)
        text = w->in[i].text;
    return text;
}

size_t ctl_pass_holes(ctl_holes *h, uint64_t first, uint64_t *index, size_t n)
{
    for (; h->next < h->n && h->at[h->next] == *index - first; h->next++)
        ++*index;
    return h->next < h->n && h->at[h->next] - (*index - first) < n ? (size_t)(h->at[h->next] - (*index - first)) : n;
}

/* All elements of one input, of which the first has this index. */
static int add_input(ctl_work *w, ctl_input *in, void *state, uint64_t *index, char why[CTL_WHY])
{
    _Alignas(8) uint8_t block[ADDED_BLOCK];
    const size_t size = reduce_dtype_size(in->dtype);
    const uint64_t first = *index;
    for (long n; (n = ctl_read(in, block, sizeof block, why)) != 0;) {
        int err = n < 0 ? in->err : 0;
        for (size_t at = 0, some; at < (size_t)n / size && !err; at += some) {
            some = ctl_pass_holes(&in->holes, first, index, (size_t)n / size - at);
            err = reduce_state_add_at(state, REDUCE_MAX_STATE, block + at * size, some, w->spec.nan, *index);
            *index += some;
        }
        if (err)
            return err;
        ctl_progress_add(&w->progress, (uint64_t)n);
    }
    *index = first + in->done / size + in->holes.count;
    return 0;
}

int ctl_add_here(ctl_work *w, void *cell, size_t room, reduce_result *r, char why[CTL_WHY])
{
    uint8_t state[REDUCE_MAX_STATE];
    reduce_spec spec = w->spec;
    uint64_t index = spec.index_base;
    why[0] = 0;
    int err = reduce_state_init(state, sizeof state, spec.op, spec.dtype);
    uint64_t holes = 0;
    for (int i = 0; i < w->n_in && !err; i++) {
        err = add_input(w, &w->in[i], state, &index, why);
        holes += w->in[i].holes.count;
    }
    if (!err)
        err = reduce_state_add_missing(state, sizeof state, holes);
    if (err)
        return err;
    spec.flags |= REDUCE_STATES_IN;
    err = ctl_run(w->c, &spec, state, reduce_state_size(spec.op, spec.dtype), cell, room, r);
    r->count = index - spec.index_base;
    return err;
}

/* ---- files, passed to the daemon, and what it has ---- */

bool ctl_is_direct(const ctl_work *w)
{
    const ctl_input *in = &w->in[0];
    if (in->resident)
        return true;
    return w->n_in == 1 && ctl_in_file(in) && !w->mask && !w->weights && w->spec.path != REDUCE_PATH_STREAM;
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
