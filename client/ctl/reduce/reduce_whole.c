/* One result of all elements: in pieces, so that memory stays small whatever the size. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"

enum { MAX_REPEATS = 3 }; /* of a file whose stream the daemon lost */

/* ---- Fortran order ---- */

/* Do indexes matter, and are the elements stored in another order than that of their indexes? */
static bool needs_order(const ctl_work *w) { return ctl_shuffled(&w->in[0]) && ctl_needs_indexes(w->o); }

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
        snprintf(why, CTL_WHY, "no memory for twice the file, which indexes of a .npy in Fortran order need");
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
    return (!w->mask || ctl_rewind(w->mask)) && (!w->weights || ctl_rewind(w->weights));
}

int ctl_reduce_whole(ctl_work *w)
{
    _Alignas(8) uint8_t cell[REDUCE_LARGEST_STATE];
    uint64_t total = 0;
    bool sized = true;
    char why[CTL_WHY];
    reduce_result r = REDUCE_RESULT_INIT;
    ctl_where where = {.name = w->name, .expected = w->expected};
    for (int i = 0; i < w->n_in; i++) {
        total += w->in[i].bytes;
        sized &= w->in[i].sized;
    }
    int err;
    for (int repeats = 0;; repeats++) {
        ctl_progress_start(&w->progress, w->name, sized ? total : 0, true, w->o->progress);
        if (needs_order(w))
            err = ordered(w, cell, sizeof cell, &r, why);
        else if (ctl_is_direct(w))
            err = ctl_direct(w, &w->spec, 0, w->in[0].bytes, cell, sizeof cell, &r), why[0] = 0;
        else if (ctl_is_added_here(w))
            err = ctl_add_here(w, cell, sizeof cell, &r, why);
        else
            err = ctl_stream(w, &w->spec, UINT64_MAX, cell, sizeof cell, &r, why);
        ctl_progress_end(&w->progress);
        if (err != REDUCE_E_STREAM_LOST || repeats == MAX_REPEATS || !rewind_all(w))
            break;
    }
    w->mistaken = err && w->in[0].reader && ctl_reader_mistaken(w->in[0].reader);
    if (w->mistaken)
        return CTL_FAILED;
    if (err == REDUCE_E_OVERFLOW && (w->in[0].guessed || w->o->sink) && !w->o->spec.out && ctl_print_exact(w->o, &where))
        return CTL_OK; /* the user did not ask for a 64-bit type */
    if (err)
        return ctl_print_error(w->o, &where, err, why[0] ? why : NULL);
    ctl_print_cells(w->o, &where, &r, cell);
    if (w->o->verbose)
        ctl_print_details(&w->in[0], &r, &w->expected);
    return CTL_OK;
}
