/* zstd streams, by libzstd. */
#include <stdlib.h>

#include "client/ctl/formats/container.h"

#if CTL_WITH_ZSTD
#include <zstd.h>

enum {
    ZSTD_PIECE = 1 << 17,
    ZSTD_LOG_MEMORY = 27 /* window of a frame at most, log2 of bytes: what zstd takes without --long=28 and more */
};

typedef struct unzstd {
    ctl_pull pull;
    ctl_pull *from;
    ZSTD_DCtx *z;
    ZSTD_inBuffer in;
    size_t more; /* 0: a frame has just ended */
    bool full;   /* the last call had no room for more, so there may be some without further input */
    uint8_t piece[ZSTD_PIECE];
} unzstd;

static long unzstd_read(ctl_pull *p, void *space, size_t room, char why[CTL_WHY])
{
    unzstd *u = (unzstd *)p;
    ZSTD_outBuffer out = {space, room, 0};
    while (out.pos == 0) {
        if (u->in.pos == u->in.size && (!u->full || u->more == 0)) {
            long n = u->from->read(u->from, u->piece, sizeof u->piece, why);
            if (n < 0)
                p->err = u->from->err;
            if (n < 0 || (n == 0 && u->more == 0))
                return n;
            if (n == 0)
                return ctl_pull_fail(p, REDUCE_E_IO, why, "the compressed data are cut");
            u->in = (ZSTD_inBuffer){u->piece, (size_t)n, 0};
        }
        u->more = ZSTD_decompressStream(u->z, &out, &u->in);
        u->full = out.pos == room;
        if (ZSTD_isError(u->more))
            return ctl_pull_fail(p, REDUCE_E_IO, why, ZSTD_getErrorName(u->more));
    }
    return (long)out.pos;
}

static void unzstd_close(ctl_pull *p)
{
    unzstd *u = (unzstd *)p;
    ZSTD_freeDCtx(u->z);
    ctl_pull_close(u->from);
    free(u);
}

ctl_pull *ctl_unzstd(ctl_pull *from, int *err, char why[CTL_WHY])
{
    unzstd *u = from ? calloc(1, sizeof *u) : NULL;
    (void)err, (void)why;
    if (u && (u->z = ZSTD_createDCtx()) != NULL) {
        ZSTD_DCtx_setParameter(u->z, ZSTD_d_windowLogMax, ZSTD_LOG_MEMORY);
        u->pull = (ctl_pull){unzstd_read, unzstd_close, 0, NULL};
        u->from = from;
        return &u->pull;
    }
    free(u);
    ctl_pull_close(from);
    return NULL;
}
#else
ctl_pull *ctl_unzstd(ctl_pull *from, int *err, char why[CTL_WHY])
{
    ctl_pull_close(from);
    snprintf(why, CTL_WHY, "this reducectl was built without libzstd: zstdcat FILE | reducectl OP -");
    *err = REDUCE_E_TYPE;
    return NULL;
}
#endif
