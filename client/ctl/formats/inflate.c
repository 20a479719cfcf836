/* gzip streams and deflated zip members, by zlib. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/formats/container.h"

#if CTL_WITH_ZLIB
#include <zlib.h>

enum {
    INFLATE_PIECE = 1 << 16,
    GZIP_FIRST = 0x1f /* the byte that a gzip stream begins with */
};

typedef struct inflater {
    ctl_pull pull;
    ctl_pull *from;
    z_stream z;
    bool member;   /* of a zip archive: one raw stream, whose size and CRC are known */
    bool over;     /* the last call reached the end of a stream */
    bool full;     /* the last call had no room for more, so there may be some without further input */
    uint64_t left; /* member: bytes that have to follow */
    uint32_t crc, want_crc;
    uint8_t piece[INFLATE_PIECE];
} inflater;

/* The next bytes to decode. 0: none are left, -1: an error. */
static long inflate_more(inflater *f, char why[CTL_WHY])
{
    long n = f->from->read(f->from, f->piece, sizeof f->piece, why);
    if (n < 0)
        f->pull.err = f->from->err;
    f->z.next_in = f->piece;
    f->z.avail_in = n > 0 ? (uInt)n : 0;
    return n;
}

/* gzip: begin the stream that follows the one that has ended. Zeros between streams and after the last are padding of tapes
 * and pipes, as for gzip and Python. 0: no stream follows, -1: an error. */
static long inflate_next(inflater *f, char why[CTL_WHY])
{
    for (;; f->z.next_in++, f->z.avail_in--) {
        long n = f->z.avail_in ? 1 : inflate_more(f, why);
        if (n <= 0)
            return n;
        if (*f->z.next_in != 0)
            break;
    }
    if (*f->z.next_in != GZIP_FIRST)
        return ctl_pull_fail(&f->pull, REDUCE_E_IO, why,
                             "bytes of another kind follow the gzip stream; zcat FILE | reducectl OP - ignores them");
    if (inflateReset(&f->z) != Z_OK)
        return ctl_pull_fail(&f->pull, REDUCE_E_INTERNAL, why, "zlib cannot start again");
    return 1;
}

/* Has the decoded zip member the size and the CRC that the directory states? */
static long inflate_check(inflater *f, const uint8_t *space, size_t n, char why[CTL_WHY])
{
    if (!f->member)
        return (long)n;
    f->crc = (uint32_t)crc32(f->crc, space, (uInt)n);
    f->left -= n;
    if (f->over && f->left)
        return ctl_pull_fail(&f->pull, REDUCE_E_IO, why, "the zip member ends too early");
    if (f->left == 0 && f->crc != f->want_crc)
        return ctl_pull_fail(&f->pull, REDUCE_E_IO, why, "the zip member is damaged: its CRC is another");
    return (long)n;
}

static long inflate_read(ctl_pull *p, void *space, size_t room, char why[CTL_WHY])
{
    inflater *f = (inflater *)p;
    if (f->member && room > f->left)
        room = (size_t)f->left;
    if (room > UINT32_MAX)
        room = UINT32_MAX;
    if (room == 0 || (f->member && f->over))
        return 0;
    f->z.next_out = space;
    f->z.avail_out = (uInt)room;
    while (f->z.avail_out == room) {
        if (f->over) {
            long n = inflate_next(f, why);
            if (n <= 0)
                return n;
        } else if (f->z.avail_in == 0 && !f->full) {
            long n = inflate_more(f, why);
            if (n < 0)
                return n;
            if (n == 0)
                return ctl_pull_fail(p, REDUCE_E_IO, why, "the compressed data are cut");
        }
        int err = inflate(&f->z, Z_NO_FLUSH);
        if (err != Z_OK && err != Z_STREAM_END && err != Z_BUF_ERROR)
            return ctl_pull_fail(p, err == Z_MEM_ERROR ? REDUCE_E_NO_MEMORY : REDUCE_E_IO, why,
                                 f->z.msg ? f->z.msg : "the compressed data are damaged");
        f->over = err == Z_STREAM_END;
        f->full = f->z.avail_out == 0;
        if (f->member && f->over)
            break;
    }
    return inflate_check(f, space, room - f->z.avail_out, why);
}

static void inflate_close(ctl_pull *p)
{
    inflater *f = (inflater *)p;
    inflateEnd(&f->z);
    ctl_pull_close(f->from);
    free(f);
}

static inflater *inflate_new(ctl_pull *from, int bits)
{
    inflater *f = from ? calloc(1, sizeof *f) : NULL;
    if (f && inflateInit2(&f->z, bits) == Z_OK) {
        f->pull = (ctl_pull){inflate_read, inflate_close, 0, NULL};
        f->from = from;
        return f;
    }
    free(f);
    ctl_pull_close(from);
    return NULL;
}

ctl_pull *ctl_gunzip(ctl_pull *from, int *err, char why[CTL_WHY])
{
    (void)err, (void)why;
    return (ctl_pull *)inflate_new(from, 15 + 16);
}

ctl_pull *ctl_inflate(ctl_pull *from, uint64_t bytes, uint32_t crc, int *err, char why[CTL_WHY])
{
    inflater *f = inflate_new(from, -15);
    (void)err, (void)why;
    if (!f)
        return NULL;
    f->member = true;
    f->left = bytes;
    f->want_crc = crc;
    return &f->pull;
}

int ctl_check_crc(int fd, uint64_t offset, uint64_t bytes, uint32_t want, char why[CTL_WHY])
{
    enum { PIECE = 1 << 18 };
    uint8_t *piece = malloc(PIECE);
    uLong crc = crc32(0, NULL, 0);
    int err = piece ? 0 : REDUCE_E_NO_MEMORY;
    for (size_t n; bytes && !err && !ctl_interrupted(); bytes -= n, offset += n) {
        n = bytes < PIECE ? (size_t)bytes : PIECE;
        err = ctl_read_at(fd, piece, n, offset, why);
        crc = err ? crc : crc32(crc, piece, (uInt)n);
    }
    free(piece);
    if (err == REDUCE_E_NO_MEMORY)
        snprintf(why, CTL_WHY, "no memory to verify it");
    if (err || (uint32_t)crc == want)
        return err;
    snprintf(why, CTL_WHY, ctl_interrupted() ? "interrupted" : "the zip member is damaged: its CRC is another");
    return REDUCE_E_IO;
}
#else
int ctl_check_crc(int fd, uint64_t offset, uint64_t bytes, uint32_t want, char why[CTL_WHY])
{
    (void)fd, (void)offset, (void)bytes, (void)want;
    snprintf(why, CTL_WHY, "this reducectl was built without zlib: it cannot verify");
    return REDUCE_E_TYPE;
}

static ctl_pull *without(ctl_pull *from, int *err, char why[CTL_WHY])
{
    ctl_pull_close(from);
    snprintf(why, CTL_WHY, "this reducectl was built without zlib: zcat FILE | reducectl OP -");
    *err = REDUCE_E_TYPE;
    return NULL;
}

ctl_pull *ctl_gunzip(ctl_pull *from, int *err, char why[CTL_WHY]) { return without(from, err, why); }

ctl_pull *ctl_inflate(ctl_pull *from, uint64_t bytes, uint32_t crc, int *err, char why[CTL_WHY])
{
    (void)bytes, (void)crc;
    return without(from, err, why);
}
#endif
