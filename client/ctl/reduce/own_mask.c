/* The mask that inputs bring along: which elements attributes of netCDF call missing. */
#include <stdlib.h>
#include <string.h>

#include "client/ctl/formats/container.h"

/* The masks of all inputs, one after the other. */
typedef struct joined {
    ctl_pull pull;
    ctl_input *in;
    int n;
    uint64_t left; /* bytes of the first of them */
} joined;

static uint64_t elements(const ctl_input *in) { return in->bytes / reduce_dtype_size(in->dtype); }

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
        n = j->in->keep->read(j->in->keep, space, room, why);
        p->err = j->in->keep->err;
        if (n <= 0)
            return n ? n : ctl_pull_fail(p, REDUCE_E_IO, why, "the elements end too early");
    } else {
        memset(space, 1, room);
    }
    j->left -= (uint64_t)n;
    return n;
}

static void joined_close(ctl_pull *p) { free(p); }

bool ctl_has_own_mask(const ctl_work *w)
{
    bool has = false;
    for (int i = 0; i < w->n_in; i++)
        has |= w->in[i].keep != NULL;
    return has;
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
    *j = (joined){{joined_read, joined_close, 0, NULL}, w->in, w->n_in, elements(&w->in[0])};
    mask->pull = &j->pull;
    for (int i = 0; i < w->n_in; i++)
        mask->bytes += elements(&w->in[i]);
    w->mask = mask;
    return 0;
}
