#include "daemon/state/extents.h"

#include <inttypes.h>
#include <string.h>

/* The first piece that ends at or after `from`; e->n if there is none. */
static unsigned place(const rd_extents *e, uint64_t from)
{
    unsigned low = 0, high = e->n;
    while (low < high) {
        unsigned mid = (low + high) / 2;
        if (e->at[mid].to < from)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void insert_at(rd_extents *e, unsigned i, rd_extent x)
{
    memmove(&e->at[i + 1], &e->at[i], (e->n - i) * sizeof x);
    e->at[i] = x;
    e->n++;
}

static void erase_at(rd_extents *e, unsigned i)
{
    e->n--;
    memmove(&e->at[i], &e->at[i + 1], (e->n - i) * sizeof e->at[0]);
}

rd_extent_result rd_extents_add(rd_extents *e, uint64_t from, uint64_t to, uint64_t *first)
{
    unsigned i = place(e, from);
    bool joins_left = i < e->n && e->at[i].to == from;
    unsigned right = i + joins_left; /* the first piece that ends after `from` */
    if (right < e->n && e->at[right].from < to) {
        *first = e->at[right].from > from ? e->at[right].from : from;
        return RD_EXTENT_OVERLAP;
    }
    bool joins_right = right < e->n && e->at[right].from == to;
    if (!joins_left && !joins_right) {
        if (e->n >= RP_MAX_EXTENTS)
            return RD_EXTENT_MANY;
        insert_at(e, i, (rd_extent){from, to});
    } else if (joins_left) {
        e->at[i].to = joins_right ? e->at[right].to : to;
        if (joins_right)
            erase_at(e, right);
    } else {
        e->at[right].from = from;
    }
    e->total += to - from;
    return RD_EXTENT_OK;
}

rp_err rd_extents_claim(rd_extents *e, uint64_t from, uint64_t to, const char *what, rp_fault *f)
{
    uint64_t first = 0;
    switch (rd_extents_add(e, from, to, &first)) {
    case RD_EXTENT_OVERLAP:
        rp_fail(f, RP_SHAPE, "offset", 0, "%s %" PRIu64 " came already", what, first);
        f->index = first;
        return RP_SHAPE;
    case RD_EXTENT_MANY:
        return rp_fail(f, RP_QUOTA, "extents", RP_MAX_EXTENTS, "more than %u separate pieces: fill gaps first", RP_MAX_EXTENTS);
    default:
        return RP_OK;
    }
}

bool rd_extents_remove(rd_extents *e, uint64_t from, uint64_t to)
{
    unsigned i = place(e, from);
    i += i < e->n && e->at[i].to == from;
    rd_extent *x = &e->at[i];
    if (x->from < from && to < x->to) {
        if (e->n == sizeof e->at / sizeof e->at[0])
            return false;
        insert_at(e, i + 1, (rd_extent){to, x->to});
        x->to = from;
    } else if (x->from < from) {
        x->to = from;
    } else if (to < x->to) {
        x->from = to;
    } else {
        erase_at(e, i);
    }
    e->total -= to - from;
    return true;
}

bool rd_extents_cover(const rd_extents *e, uint64_t count, uint64_t *first)
{
    uint64_t have = e->n && e->at[0].from == 0 ? e->at[0].to : 0; /* 0 .. have-1 have come, `have` has not */
    unsigned next = have > 0;
    if (have == count && e->n == next)
        return true;
    *first = have < count ? have : have > count ? count : e->at[next].from;
    return false;
}
