/* The mask that inputs bring along: which elements, and weights, attributes of netCDF call missing. */
#include <stdlib.h>
#include <string.h>

#include "client/ctl/formats/container.h"

/* The masks of all inputs, one after the other. */
typedef struct joined {
    ctl_pull pull;
    ctl_input *in;
    int n;
    uint64_t left;        /* bytes of the first of them */
    ctl_pull *of_weights; /* a byte for each element, 0 if its weight is missing; NULL: none is */
} joined;

static uint64_t elements(const ctl_input *in) { return in->bytes / reduce_dtype_size(in->dtype); }

static long read_keep(ctl_pull *p, ctl_pull *keep, void *space, size_t room, char why[CTL_WHY])
{
    const long n = keep->read(keep, space, room, why);
    p->err = keep->err;
    return n == 0 ? ctl_pull_fail(p, REDUCE_E_IO, why, "the elements end too early") : n;
}

/* Takes from n bytes what the weights miss. */
static bool without_weights(joined *j, uint8_t *keep, size_t n, char why[CTL_WHY])
{
    uint8_t some[4096];
    long got;
    for (size_t done = 0; done < n; done += (size_t)got) {
        got = read_keep(&j->pull, j->of_weights, some, n - done < sizeof some ? n - done : sizeof some, why);
        if (got < 0)
            return false;
        for (long i = 0; i < got; i++)
            keep[done + (size_t)i] &= some[i];
    }
    return true;
}

static long joined_read(ctl_pull *p, void *space, size_t room, char why[CTL_WHY])
{
    joined *j = (joined *)p;
    for (; j->n && j->left == 0; j->left = j->n ? elements(j->in) : 0)
        j->in++, j->n--;
    if (j->n == 0)
        return 0;
    if (room > j->left)
        room = (size_t)j->left;
    long n = (long)room;
    if (j->in->keep) {
        n = read_keep(p, j->in->keep, space, room, why);
        if (n < 0)
            return n;
    } else {
        memset(space, 1, room);
    }
    j->left -= (uint64_t)n;
    return !j->of_weights || without_weights(j, space, (size_t)n, why) ? n : -1;
}

static void joined_close(ctl_pull *p) { free(p); }

bool ctl_has_own_mask(const ctl_work *w)
{
    bool has = false;
    for (int i = 0; i < w->n_in; i++)
        has |= w->in[i].keep != NULL;
    return has;
}

int ctl_all_there(const ctl_input *in, const char *what, char why[CTL_WHY])
{
    uint8_t some[4096];
    uint64_t left = in->keep ? elements(in) : 0;
    while (left) {
        const long n = in->keep->read(in->keep, some, left < sizeof some ? (size_t)left : sizeof some, why);
        if (n <= 0)
            return n ? in->keep->err : REDUCE_E_IO;
        if (memchr(some, 0, (size_t)n)) {
            snprintf(why, CTL_WHY, "%s is missing: --no-scale takes the number that is stored", what);
            return REDUCE_E_SHAPE;
        }
        left -= (uint64_t)n;
    }
    return 0;
}

/* A missing weight leaves out its pair. One for each place along an axis would leave out many. */
static int mask_of_weights(const ctl_work *w, joined *j, char why[CTL_WHY])
{
    const ctl_input *weights = w->weights;
    if (!weights || !weights->keep)
        return 0;
    if (!w->in[0].sized)
        j->left = elements(weights);
    if (elements(weights) == j->left) {
        j->of_weights = weights->keep;
        return 0;
    }
    return ctl_all_there(weights, "a weight for a place along an axis", why);
}

int ctl_own_mask(ctl_work *w, ctl_input *mask, char why[CTL_WHY])
{
    *mask = (ctl_input){.name = "the mask of attributes", .fd = -1, .dtype = REDUCE_U8, .sized = true};
    if (w->o->mask) {
        snprintf(why, CTL_WHY, "it says itself which elements are missing: --mask needs --no-scale");
        return REDUCE_E_SHAPE;
    }
    joined *j = malloc(sizeof *j);
    if (!j) {
        snprintf(why, CTL_WHY, "no memory for a mask");
        return REDUCE_E_NO_MEMORY;
    }
    *j = (joined){{joined_read, joined_close, 0, NULL}, w->in, w->n_in, elements(&w->in[0]), NULL};
    mask->pull = &j->pull;
    w->mask = mask;
    const int err = mask_of_weights(w, j, why);
    mask->bytes = j->left;
    for (int i = 1; i < w->n_in; i++)
        mask->bytes += elements(&w->in[i]);
    return err;
}
