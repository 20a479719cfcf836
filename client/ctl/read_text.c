/* Files and pipes of numbers as text. Without a type from the user they are read ahead: integers stay integers, as i64 or u64,
 * if all numbers are, and are f64 otherwise. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/ctl.h"

enum {
    PIECE = 1 << 18,      /* bytes read at a time */
    LOOK_AHEAD = 64 << 20 /* bytes that are kept while all numbers are integers: all that decides about a pipe */
};

struct ctl_reader {
    int fd;
    ctl_text parser;
    ctl_text_kind kind; /* of what was looked at */
    bool guessed;       /* the type is not the user's */
    bool cut;           /* more came than was looked at */
    bool ended;
    char *bytes; /* read and not yet turned into elements: [at, n) of `room` */
    size_t at, n, room;
};

static int no_memory(char why[CTL_WHY])
{
    snprintf(why, CTL_WHY, "no memory to read it");
    return REDUCE_E_NO_MEMORY;
}

/* ---- looking ahead ---- */

/* A piece more behind the bytes that are there. 0, or a reduce_err. */
static int read_piece(ctl_reader *r, char why[CTL_WHY])
{
    if (r->room - r->n < PIECE) {
        size_t room = 2 * r->room + PIECE;
        char *more = realloc(r->bytes, room);
        if (!more)
            return no_memory(why);
        r->bytes = more;
        r->room = room;
    }
    long n = ctl_read_some(r->fd, r->bytes + r->n, PIECE, why);
    if (n < 0)
        return REDUCE_E_IO;
    r->ended = n == 0;
    r->n += (size_t)n;
    return 0;
}

/* The rest of a file, which is not kept. `looked` bytes of what is there are done. */
static int look_at_rest(ctl_reader *r, off_t start, size_t looked, char why[CTL_WHY])
{
    while (!r->ended && !r->kind.real) {
        memmove(r->bytes, r->bytes + looked, r->n - looked);
        r->n -= looked;
        int err = read_piece(r, why);
        if (err)
            return err;
        looked = ctl_text_look(&r->kind, r->bytes, r->n, r->ended);
    }
    r->n = 0;
    r->ended = false;
    if (lseek(r->fd, start, SEEK_SET) == start)
        return 0;
    snprintf(why, CTL_WHY, "cannot read it twice");
    return REDUCE_E_IO;
}

static int look_ahead(ctl_reader *r, bool regular, char why[CTL_WHY])
{
    off_t start = regular ? lseek(r->fd, 0, SEEK_CUR) : 0;
    for (size_t looked = 0; !r->ended && !r->kind.real;) {
        if (r->n >= LOOK_AHEAD && regular)
            return look_at_rest(r, start, looked, why);
        if (r->n >= LOOK_AHEAD) {
            r->cut = true;
            return 0;
        }
        int err = read_piece(r, why);
        if (err)
            return err;
        looked += ctl_text_look(&r->kind, r->bytes + looked, r->n - looked, r->ended);
    }
    return 0;
}

static int decide(ctl_reader *r, char why[CTL_WHY])
{
    r->parser.dtype = ctl_text_dtype(&r->kind);
    if (r->parser.dtype)
        return 0;
    snprintf(why, CTL_WHY, "integers that fit neither i64 nor u64; --dtype f64 reads them rounded");
    return REDUCE_E_TYPE;
}

ctl_reader *ctl_reader_open(int fd, bool regular, int *dtype, int *err, char why[CTL_WHY])
{
    ctl_reader *r = calloc(1, sizeof *r);
    if (!r) {
        *err = no_memory(why);
        return NULL;
    }
    r->fd = fd;
    r->guessed = *dtype == 0;
    r->parser.dtype = *dtype;
    *err = r->guessed ? look_ahead(r, regular, why) : 0;
    if (!*err && r->guessed)
        *err = decide(r, why);
    if (*err) {
        ctl_reader_free(r);
        return NULL;
    }
    *dtype = r->parser.dtype;
    return r;
}

void ctl_reader_free(ctl_reader *r)
{
    if (r)
        free(r->bytes);
    free(r);
}

void ctl_reader_rewind(ctl_reader *r)
{
    r->parser = (ctl_text){.dtype = r->parser.dtype};
    r->at = r->n = 0;
    r->ended = false;
}

bool ctl_reader_agree(ctl_reader *const *r, int n, int *dtype)
{
    ctl_text_kind all = {0};
    for (int i = 0; i < n; i++) {
        all.some |= r[i]->kind.some;
        all.real |= r[i]->kind.real;
        all.negative |= r[i]->kind.negative;
        all.above |= r[i]->kind.above;
    }
    *dtype = ctl_text_dtype(&all);
    for (int i = 0; i < n; i++)
        r[i]->parser.dtype = *dtype;
    return *dtype != 0;
}

/* ---- reading ---- */

/* At the beginning of a pipe all numbers were integers. */
static void tell_of_guess(const ctl_reader *r, char why[CTL_WHY])
{
    size_t n = strlen(why);
    if (r->cut)
        snprintf(why + n, CTL_WHY - n, " as at the pipe's beginning; --dtype f64 reads both");
}

long ctl_reader_read(ctl_reader *r, void *space, size_t room, int *err, char why[CTL_WHY])
{
    size_t size = reduce_dtype_size(r->parser.dtype), most = 2 * (room / size) - 1; /* bytes whose numbers fit */
    long made = 0;
    while (made == 0) {
        if (r->at == r->n && !r->ended) {
            r->at = r->n = 0;
            *err = read_piece(r, why);
            if (*err)
                return -1;
        }
        size_t n = r->n - r->at < most ? r->n - r->at : most;
        if (n == 0)
            break;
        made = ctl_text_feed(&r->parser, r->bytes + r->at, n, space, why);
        r->at += n;
    }
    if (made == 0 && (made = ctl_text_end(&r->parser, space, why)) == 0)
        return 0;
    if (made > 0)
        return made * (long)size;
    tell_of_guess(r, why);
    *err = REDUCE_E_TYPE;
    return -1;
}
