/* Files and pipes of numbers as text. Without a type from the user they are read ahead: if all numbers are integers, the type
 * is i64 or u64, otherwise f64. If a file's reduction can begin again, the type of its beginning is assumed, so that a right
 * guess reads it only once. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/formats/container.h"
#include "client/ctl/text/text_block.h"

enum {
    PART = 1 << 18, /* bytes of text that are worth another thread; they and their elements stay in a core's cache */
    MAX_PARTS = 8,
    LOOK_AHEAD = 64 << 20 /* bytes of a pipe that are read ahead while all numbers are integers; only these decide about the
                             type */
};

/* Text that ends in a blank, unless it is the last one, and its elements. */
typedef struct part {
    ctl_text parser;
    const char *bytes;
    size_t n;
    uint8_t *out; /* room for n / 2 + 1 elements */
    long made;
    char why[CTL_WHY];
    pthread_t thread;
    bool started;
} part;

struct ctl_reader {
    ctl_pull *from;
    ctl_text parser;
    ctl_text_kind kind; /* of the examined text */
    bool guessed;       /* the type was not given by the user */
    bool exact;         /* integers are not rounded */
    bool brief;         /* the first piece of a file decides about it */
    bool cut;           /* there was more text than was examined */
    bool mistaken;      /* the file's type is not that of its beginning */
    bool ended;
    int threads;
    size_t piece; /* bytes that are read and turned into elements at a time: a part for each thread */
    char *bytes;  /* read, still to be turned into elements: [at, n) of `room` */
    size_t at, n, room;
    part parts[MAX_PARTS]; /* whose elements are still to be given out: n_parts from `part` on, of that one from `given` on */
    int part, n_parts;
    long given;
    uint8_t *elements; /* of a piece */
};

static int no_memory(char why[CTL_WHY])
{
    snprintf(why, CTL_WHY, "no memory to read it");
    return REDUCE_E_NO_MEMORY;
}

/* ---- looking ahead ---- */

/* Append a piece to the bytes that are there. 0, or a reduce_err. */
static int read_piece(ctl_reader *r, char why[CTL_WHY])
{
    if (r->room - r->n < r->piece) {
        size_t room = 2 * r->room + r->piece + CTL_MAX_TOKEN; /* which a piece may leave over */
        char *more = realloc(r->bytes, room);
        if (!more)
            return no_memory(why);
        r->bytes = more;
        r->room = room;
    }
    long n = r->from->read(r->from, r->bytes + r->n, r->piece, why);
    if (n < 0)
        return r->from->err;
    r->ended = n == 0;
    r->n += (size_t)n;
    return 0;
}

/* Examines the rest of a file without keeping it. `looked` bytes of the buffer are done. */
static int look_at_rest(ctl_reader *r, size_t looked, char why[CTL_WHY])
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
    if (ctl_pull_rewind(r->from))
        return 0;
    snprintf(why, CTL_WHY, "cannot read it twice");
    return REDUCE_E_IO;
}

static int look_ahead(ctl_reader *r, char why[CTL_WHY])
{
    bool again = r->from->rewind;
    for (size_t looked = 0; !r->ended && !r->kind.real;) {
        bool whole = r->kind.some && ctl_text_dtype(&r->kind); /* integers, of one type */
        bool enough = r->n >= (again ? r->piece : LOOK_AHEAD);
        if (enough && again && !(r->brief && whole))
            return look_at_rest(r, looked, why);
        if (enough) {
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

/* A parser for what follows line `line`. One -0 anywhere in a file makes all of its numbers floats. */
static ctl_text parser_after(const ctl_reader *r, uint64_t line)
{
    return (ctl_text){.dtype = r->parser.dtype, .line = line, .no_negative_zero = r->brief && r->cut, .exact = r->exact};
}

ctl_reader *ctl_reader_open(ctl_pull *from, bool brief, bool exact, int *dtype, int *err, char why[CTL_WHY])
{
    ctl_reader *r = from ? calloc(1, sizeof *r) : NULL;
    if (!r) {
        ctl_pull_close(from);
        *err = no_memory(why);
        return NULL;
    }
    r->from = from;
    r->guessed = *dtype == 0;
    r->brief = brief && from->rewind;
    r->exact = exact;
    r->parser.dtype = *dtype;
    r->threads = ctl_threads(MAX_PARTS);
    r->piece = (size_t)r->threads * PART;
    *err = r->guessed ? look_ahead(r, why) : 0;
    if (*err) {
        ctl_reader_free(r);
        return NULL;
    }
    if (r->guessed)
        r->parser.dtype = ctl_text_dtype(&r->kind);
    *dtype = r->parser.dtype;
    r->parser = parser_after(r, 0);
    return r;
}

bool ctl_reader_mistaken(const ctl_reader *r) { return r->mistaken; }

void ctl_reader_free(ctl_reader *r)
{
    if (!r)
        return;
    ctl_pull_close(r->from);
    free(r->bytes);
    free(r->elements);
    free(r);
}

bool ctl_reader_rewind(ctl_reader *r)
{
    if (!ctl_pull_rewind(r->from))
        return false;
    r->parser = parser_after(r, 0);
    r->at = r->n = 0;
    r->part = r->n_parts = 0;
    r->ended = false;
    return true;
}

void ctl_reader_agree(ctl_reader *const *r, int n, int *dtype)
{
    ctl_text_kind all = {0};
    for (int i = 0; i < n; i++) {
        all.some |= r[i]->kind.some;
        all.real |= r[i]->kind.real;
        all.negative |= r[i]->kind.negative;
        all.above |= r[i]->kind.above;
        all.wide |= r[i]->kind.wide;
    }
    *dtype = ctl_text_dtype(&all);
    for (int i = 0; i < n; i++)
        r[i]->parser.dtype = *dtype;
}

/* ---- several threads on one piece ---- */

static void *reader_parse(void *arg)
{
    part *p = arg;
    p->made = ctl_text_feed(&p->parser, p->bytes, p->n, p->out, p->why);
    return NULL;
}

/* The bytes of a part: `n` of the `all`, or some more, so that a blank is the last. */
static size_t cut(const char *bytes, size_t n, size_t all)
{
    static const char blanks[] = {' ', '\t', '\n', '\v', '\f', '\r'};
    while (n < all && !memchr(blanks, bytes[n - 1], sizeof blanks))
        n++;
    return n;
}

/* Divide n bytes into as many parts as are worth a thread. */
static void share(ctl_reader *r, const char *bytes, size_t n)
{
    size_t size = reduce_dtype_size(r->parser.dtype), parts = n / PART ? n / PART : 1;
    uint8_t *out = r->elements;
    r->n_parts = 0;
    for (size_t left = parts < (size_t)r->threads ? parts : (size_t)r->threads; n; left--) {
        part *p = &r->parts[r->n_parts++];
        *p = (part){.parser = parser_after(r, 0), .bytes = bytes, .n = cut(bytes, (n + left - 1) / left, n), .out = out};
        out += (p->n / 2 + 1) * size;
        bytes += p->n;
        n -= p->n;
    }
}

/* A part that another thread has turned into elements: its lines are counted from those before it. False: `why`. */
static bool join_part(ctl_reader *r, part *p, char why[CTL_WHY])
{
    if (p->made < 0) { /* again, so that the message has the right line */
        p->parser = parser_after(r, r->parser.line);
        ctl_text_feed(&p->parser, p->bytes, p->n, p->out, why);
        return false;
    }
    p->parser.line += r->parser.line;
    r->parser = p->parser;
    return true;
}

/* The elements of all parts, by several threads. False: `why`. */
static bool parse_parts(ctl_reader *r, char why[CTL_WHY])
{
    part *first = r->parts, *end = first + r->n_parts;
    for (part *p = first + 1; p < end; p++)
        p->started = !pthread_create(&p->thread, NULL, reader_parse, p);
    first->made = ctl_text_feed(&r->parser, first->bytes, first->n, first->out, why);
    bool good = first->made >= 0;
    for (part *p = first + 1; p < end; p++) {
        if (p->started)
            pthread_join(p->thread, NULL);
        else if (good)
            reader_parse(p); /* no thread could be started for it */
        good = good && join_part(r, p, why);
    }
    return good;
}

/* ---- reading ---- */

/* A token does not fit the type. If the type was guessed, the numbers at the beginning were all integers. */
static int wrong_type(ctl_reader *r, char why[CTL_WHY])
{
    size_t n = strlen(why);
    r->mistaken = r->cut && r->brief;
    if (r->cut && !r->brief)
        snprintf(why + n, CTL_WHY - n, " as at the pipe's beginning; --dtype f64 reads both");
    return REDUCE_E_TYPE;
}

/* The elements of the next piece. 0, or a reduce_err. */
static int parse_piece(ctl_reader *r, char why[CTL_WHY])
{
    size_t n = r->n - r->at < r->piece ? r->n - r->at : r->piece;
    if (!r->elements && !(r->elements = malloc((r->piece / 2 + MAX_PARTS) * reduce_dtype_size(r->parser.dtype))))
        return no_memory(why);
    share(r, r->bytes + r->at, n);
    r->at += n;
    r->part = 0;
    r->given = 0;
    return parse_parts(r, why) ? 0 : wrong_type(r, why);
}

/* Copies elements that are ready, as far as there is room. */
static size_t give(ctl_reader *r, uint8_t *space, size_t room)
{
    size_t size = reduce_dtype_size(r->parser.dtype), bytes = 0;
    while (r->part < r->n_parts && room - bytes >= size) {
        const part *p = &r->parts[r->part];
        size_t left = (size_t)(p->made - r->given), most = (room - bytes) / size, n = left < most ? left : most;
        memcpy(space + bytes, p->out + (size_t)r->given * size, n * size);
        bytes += n * size;
        r->given += (long)n;
        if (r->given == p->made) {
            r->part++;
            r->given = 0;
        }
    }
    return bytes;
}

/* The element that the text ends with, which no blank follows. Returns as ctl_reader_read. */
static long give_last(ctl_reader *r, void *space, int *err, char why[CTL_WHY])
{
    long made = ctl_text_end(&r->parser, space, why);
    if (made >= 0)
        return made * (long)reduce_dtype_size(r->parser.dtype);
    *err = wrong_type(r, why);
    return -1;
}

long ctl_reader_read(ctl_reader *r, void *space, size_t room, int *err, char why[CTL_WHY])
{
    size_t bytes;
    while ((bytes = give(r, space, room)) == 0) {
        if (r->at == r->n && !r->ended) {
            r->at = r->n = 0;
            *err = read_piece(r, why);
        } else if (r->at < r->n) {
            *err = parse_piece(r, why);
        } else {
            return give_last(r, space, err, why);
        }
        if (*err)
            return -1;
    }
    return (long)bytes;
}

long ctl_reader_bytes(ctl_reader *r, const char **bytes, int *err, char why[CTL_WHY])
{
    if (r->at == r->n) {
        r->at = r->n = 0;
        *err = r->ended ? 0 : read_piece(r, why);
        if (*err)
            return -1;
    }
    long n = (long)(r->n - r->at);
    *bytes = r->bytes + r->at;
    r->at = r->n;
    return n;
}
