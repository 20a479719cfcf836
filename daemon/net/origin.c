#include "daemon/net/origin.h"

#include <stdlib.h>

#include "daemon/net/limits.h"

static rd_origin_use **use_of(rd_origins *all, rd_origin id)
{
    rd_origin_use **at = &all->buckets[(id.key ^ id.key >> 32 ^ id.local) % RD_ORIGIN_BUCKETS];
    while (*at && ((*at)->id.key != id.key || (*at)->id.local != id.local))
        at = &(*at)->next;
    return at;
}

rd_origin_use *rd_origin_join(rd_origins *all, rd_origin id)
{
    rd_origin_use **at = use_of(all, id);
    if (!*at && (*at = calloc(1, sizeof **at)))
        (*at)->id = id;
    if (*at) {
        (*at)->connections++;
        (*at)->unauthenticated++;
        all->unauthenticated[id.local]++;
    }
    return *at;
}

void rd_origin_leave(rd_origins *all, rd_origin_use *o)
{
    if (--o->connections)
        return;
    *use_of(all, o->id) = o->next;
    free(o);
}

void rd_origin_authenticated(rd_origins *all, rd_origin_use *o, uint64_t bytes)
{
    o->unauthenticated--;
    all->unauthenticated[o->id.local]--;
    all->unauthenticated_bytes -= bytes;
}

bool rd_origin_charge(rd_origins *all, rd_origin_use *o, bool unauthenticated, uint64_t bytes)
{
    const uint64_t theirs = all->unauthenticated_bytes + bytes;
    if (o->frame_bytes + bytes > RD_MAX_ORIGIN_FRAMES || (unauthenticated && theirs > RD_MAX_UNAUTHENTICATED_FRAMES))
        return false;
    o->frame_bytes += bytes;
    if (unauthenticated)
        all->unauthenticated_bytes += bytes;
    return true;
}

void rd_origin_release(rd_origins *all, rd_origin_use *o, bool unauthenticated, uint64_t bytes)
{
    o->frame_bytes -= bytes;
    if (unauthenticated)
        all->unauthenticated_bytes -= bytes;
}

uint64_t rd_origin_frame_bytes(rd_origins *all, rd_origin id)
{
    const rd_origin_use *o = *use_of(all, id);
    return o ? o->frame_bytes : 0;
}
