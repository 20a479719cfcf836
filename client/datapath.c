#include "client/datapath.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/client.h"
#include "client/error.h"

/* ---- the stage ---- */

/* Bytes of the tiles of a job. */
static size_t tile_of(size_t bytes)
{
    size_t tile = RC_LEAST_TILE;
    while (tile < RC_MOST_TILE && tile < bytes / RC_TILES)
        tile *= 2;
    return tile;
}

/* How much of such a tile its parts take; 0: it is not of the current session. With the mutex held. */
static size_t stage_takes(const reduce_client *c, size_t tile)
{
    const rc_stage *s = &c->stage;
    if (!s->arena.bytes || s->arena.session != c->session)
        return 0;
    return tile < s->part_bytes ? tile : s->part_bytes;
}

/* Get a stage for tiles of that size, or one for smaller ones: gives their size, 0 if there is none. 0, or
 * REDUCE_E_INTERRUPTED. */
static int open_stage(reduce_client *c, size_t tile, size_t *takes)
{
    rc_stage *s = &c->stage;
    rc_arena fresh;
    rc_enter(c);
    *takes = stage_takes(c, tile);
    bool in_use = s->busy;
    rc_leave(c);
    if (*takes == tile || in_use) /* use the present stage, or messages, until the calls that use its parts end */
        return 0;
    const int err = rc_fdpass_arena(c, (size_t)c->stage.parts * tile, &fresh);
    if (err)
        return err == REDUCE_E_INTERRUPTED ? err : 0;
    rc_enter(c);
    rc_arena spare = fresh; /* another thread may have replaced it meanwhile */
    if (!s->busy && stage_takes(c, tile) < tile) {
        spare = s->arena;
        s->arena = fresh;
        s->part_bytes = tile;
    }
    if (spare.bytes)
        munmap(spare.base, spare.bytes); /* before its quota can be given back */
    rc_fdpass_drop(c, spare.session, spare.handle);
    *takes = stage_takes(c, tile);
    rc_leave(c);
    return 0;
}

static int take_part(reduce_client *c)
{
    uint32_t idle = ~c->stage.busy & ((1u << c->stage.parts) - 1);
    int part = idle ? __builtin_ctz(idle) : -1;
    if (part >= 0)
        c->stage.busy |= 1u << part;
    return part;
}

void rc_datapath_free_part(reduce_client *c, int part) { c->stage.busy &= ~(1u << part); }

uint64_t rc_datapath_part_at(const reduce_client *c, int part) { return (uint64_t)part * c->stage.part_bytes; }

uint8_t *rc_datapath_part(const reduce_client *c, int part) { return c->stage.arena.base + rc_datapath_part_at(c, part); }

/* ---- choosing ---- */

/* The memory of reduce_alloc that has the data, and that the current daemon has mapped; NULL: none. With the mutex held. */
static const rc_arena *arena_of(const reduce_client *c, const uint8_t *data, size_t bytes)
{
    const rc_arena *a = c->arenas;
    while (a && !(data >= a->base && data < a->base + a->bytes))
        a = a->next;
    return a && a->handle && a->session == c->session && bytes <= (size_t)(a->base + a->bytes - data) ? a : NULL;
}

bool rc_is_shared(reduce_client *c, const void *data, size_t bytes)
{
    rc_enter(c);
    const bool shared = arena_of(c, data, bytes) != NULL;
    rc_leave(c);
    return shared;
}

/* Do the data lie there? */
static bool find_arena(reduce_client *c, rc_datapath *d, const uint8_t *data, size_t bytes)
{
    rc_enter(c);
    const rc_arena *a = arena_of(c, data, bytes);
    if (a) {
        d->handle = a->handle;
        d->session = a->session;
        d->at = (uint64_t)(data - a->base);
    }
    rc_leave(c);
    return a != NULL;
}

int rc_datapath_open(reduce_client *c, rc_datapath *d, const void *data, size_t bytes, bool gathered, int path)
{
    bool large = bytes >= RC_LARGE_BYTES;
    int err = 0;
    if (path == REDUCE_PATH_INLINE || (path == REDUCE_PATH_AUTO && !large))
        return 0;
    if (path == REDUCE_PATH_STREAM || path > REDUCE_PATH_FILE || (path == REDUCE_PATH_FILE && d->fd < 0))
        return REDUCE_E_ARGUMENT;
    if (path != REDUCE_PATH_SHM && d->fd >= 0) {
        err = rc_fdpass_file(c, d->fd, &d->handle, &d->session);
        d->at = d->offset;
    }
    if (err == REDUCE_E_INTERRUPTED)
        return err;
    if (path == REDUCE_PATH_FILE || (d->handle && !gathered))
        return d->handle ? 0 : REDUCE_E_ARGUMENT;
    if (d->fd >= 0 || !find_arena(c, d, data, bytes) || gathered)
        err = open_stage(c, tile_of(bytes), &d->stage);
    if (err == REDUCE_E_INTERRUPTED)
        return err;
    return path != REDUCE_PATH_SHM || d->handle || d->stage ? 0 : REDUCE_E_ARGUMENT;
}

rc_carrier rc_datapath_choose(reduce_client *c, const rc_datapath *d, const rc_tile *t, int *part)
{
    const bool mine = d->handle && d->session == c->session,
               elements = !(t->spec.flags & (RP_MASK | RP_OFFSETS | RP_WEIGHTS | RP_KEYS));
    const bool apart = d->fd >= 0 && t->spec.flags & RP_COLUMNS && rc_version(c) >= RP_PLANES_VERSION;
    const bool plain = elements && (rc_is_contiguous(t) || apart);
    if (d->there)
        return RC_SHARED; /* a handle of a session that has ended is refused */
    if (d->lost || (t->spec.flags & (RP_STATES_IN | RP_OFFSETS)))
        return RC_INLINE;
    if (mine && plain)
        return d->fd >= 0 ? RC_FILE : RC_SHARED;
    if (d->stage && c->stage.arena.session == c->session && t->bytes <= c->stage.part_bytes && (*part = take_part(c)) >= 0)
        return RC_STAGE;
    return RC_INLINE;
}

void rc_datapath_close(reduce_client *c, rc_datapath *d)
{
    if (d->fd >= 0 && d->handle)
        rc_fdpass_drop(c, d->session, d->handle);
    d->handle = 0;
}

/* The daemon writes there as long as the session lasts in which it gave the memory. */
int rc_results_open(reduce_client *c, uint64_t bytes, rc_arena *a)
{
    const int err = bytes <= SIZE_MAX ? rc_fdpass_arena(c, (size_t)bytes, a) : 0;
    return err == REDUCE_E_INTERRUPTED ? err : 0;
}

void rc_results_close(reduce_client *c, rc_arena *a)
{
    if (!a->bytes)
        return;
    munmap(a->base, a->bytes); /* before its quota can be given back */
    rc_fdpass_drop(c, a->session, a->handle);
    a->bytes = 0;
}

/* Bytes [from, from + n) of the file. */
static bool read_piece(int fd, uint64_t from, uint8_t *to, uint64_t n, rp_fault *f)
{
    for (uint64_t got = 0; got < n;) {
        ssize_t some = pread(fd, to + got, (size_t)(n - got), (off_t)(from + got));
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            rc_fail(f, REDUCE_E_IO, "file", "reading failed: %s", strerror(errno));
        else if (some == 0)
            rc_fail(f, REDUCE_E_IO, "file", "the file ends before its data do");
        if (some <= 0)
            return false;
        got += (uint64_t)some;
    }
    return true;
}

bool rc_datapath_read(const rc_datapath *d, const rc_tile *t, uint64_t item, uint8_t *to, rp_fault *f)
{
    const uint64_t rows = rc_is_contiguous(t) ? 1 : t->height, n = t->height * t->width * item / rows;
    for (uint64_t i = 0; i < rows; i++)
        if (!read_piece(d->fd, d->offset + (t->at + i * t->stride) * item, to + i * n, n, f)) {
            memset(to, 0, (size_t)(n * rows)); /* zeros, because the message is sent in any case */
            return false;
        }
    return true;
}

/* ---- reduce_alloc ---- */

int reduce_alloc(reduce_client *c, size_t bytes, void **memory)
{
    int err = rc_check(c);
    if (err)
        return err;
    if (!memory)
        return rc_error(REDUCE_E_ARGUMENT, "memory", "the pointer for the memory is NULL");
    *memory = NULL;
    rc_arena *a = bytes ? calloc(1, sizeof *a) : NULL;
    if (!bytes)
        return rc_error(REDUCE_E_ARGUMENT, "bytes", "no memory of 0 bytes");
    if (a)
        err = rc_fdpass_arena(c, bytes, a);
    if (a && err == REDUCE_E_INTERRUPTED) {
        free(a);
        return rc_report_interrupted();
    }
    if (a && err) {
        void *plain = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        *a = (rc_arena){.base = plain == MAP_FAILED ? NULL : plain, .bytes = bytes};
    }
    if (!a || !a->base) {
        free(a);
        return rc_error(REDUCE_E_NO_MEMORY, "", "no memory of %zu bytes", bytes);
    }
    rc_enter(c);
    a->next = c->arenas;
    c->arenas = a;
    rc_leave(c);
    *memory = a->base;
    return 0;
}

void reduce_free(reduce_client *c, void *memory)
{
    if (!memory || rc_check(c))
        return;
    rc_enter(c);
    rc_arena **at = &c->arenas;
    while (*at && (*at)->base != memory)
        at = &(*at)->next;
    rc_arena *a = *at;
    if (a) {
        *at = a->next;
        munmap(a->base, a->bytes); /* before its quota can be given back */
        rc_fdpass_drop(c, a->session, a->handle);
    }
    rc_leave(c);
    free(a);
}

void rc_datapath_fini(reduce_client *c)
{
    while (c->arenas) {
        rc_arena *a = c->arenas;
        c->arenas = a->next;
        munmap(a->base, a->bytes);
        free(a);
    }
    if (c->stage.arena.bytes)
        munmap(c->stage.arena.base, c->stage.arena.bytes);
}
