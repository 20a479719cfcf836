/* Files and pipes of numbers as text. Without a type from the user they are read ahead: integers stay integers, as i64 or u64,
 * if all numbers are, and are f64 otherwise. */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/containers/container.h"
#include "client/ctl/integers.h"

enum {
    PIECE = 1 << 20, /* bytes read at a time */
    PART = 1 << 17,  /* bytes for which another thread pays */
    MAX_PARTS = PIECE / PART,
    LOOK_AHEAD = 64 << 20 /* bytes of a pipe that are kept while all numbers are integers: all that decides about it */
};

struct ctl_reader {
    ctl_pull *from;
    int fd; /* of a file that can be read twice, else -1 */
    ctl_text parser;
    ctl_text_kind kind; /* of what was looked at */
    bool guessed;       /* the type is not the user's */
    bool cut;           /* more came than was looked at */
    bool ended;
    int threads;
    char *bytes; /* read, still to be turned into elements: [at, n) of `room` */
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
    long n = r->from->read(r->from, r->bytes + r->n, PIECE, why);
    if (n < 0)
        return r->from->err;
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

static int look_ahead(ctl_reader *r, char why[CTL_WHY])
{
    bool again = r->fd >= 0;
    off_t start = again ? lseek(r->fd, 0, SEEK_CUR) : 0;
    for (size_t looked = 0; !r->ended && !r->kind.real;) {
        if (again && r->n >= PIECE)
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

static int count_threads(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    return n < MAX_PARTS ? n : MAX_PARTS;
}

ctl_reader *ctl_reader_open(ctl_pull *from, int fd, int *dtype, int *err, char why[CTL_WHY])
{
    ctl_reader *r = from ? calloc(1, sizeof *r) : NULL;
    if (!r) {
        ctl_pull_close(from);
        *err = no_memory(why);
        return NULL;
    }
    r->from = from;
    r->fd = fd;
    r->guessed = *dtype == 0;
    r->parser.dtype = *dtype;
    r->threads = count_threads();
    *err = r->guessed ? look_ahead(r, why) : 0;
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
    if (!r)
        return;
    ctl_pull_close(r->from);
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

/* ---- several threads on one piece ---- */

/* Text that ends in a blank, unless it is the last one, and its elements. */
typedef struct part {
    ctl_text parser;
    const char *bytes;
    size_t n, tokens;
    uint8_t *out;
    long made;
    char why[CTL_WHY];
    pthread_t thread;
    bool started;
} part;

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
    return n < all ? n : all;
}

/* What each part gets of n bytes, as far as there is room for so many elements. Returns how many parts there are. */
static int share(const ctl_reader *r, part *all, const char *bytes, size_t n, uint8_t *out, size_t room)
{
    int parts = (int)(n / PART) < r->threads ? (int)(n / PART) : r->threads, i = 0;
    size_t size = reduce_dtype_size(r->parser.dtype);
    do {
        part *p = &all[i];
        size_t mine = parts > i ? cut(bytes, n / (size_t)(parts - i), n) : n;
        *p = (part){.parser = {.dtype = r->parser.dtype}, .bytes = bytes, .out = out};
        p->n = ctl_count_tokens(bytes, bytes + mine, i == 0 && r->parser.len > 0, room, &p->tokens);
        out += p->tokens * size;
        room -= p->tokens;
        bytes += p->n;
        n -= p->n;
        if (p->n < mine)
            n = 0; /* there is no room for the others */
        i++;
    } while (i < parts && n);
    return i;
}

/* The lines of a part are counted from those before it. -1 with `why`. */
static long join_part(ctl_reader *r, part *p, char why[CTL_WHY])
{
    if (p->made < 0) { /* again, so that the message has the right line */
        p->parser = (ctl_text){.dtype = r->parser.dtype, .line = r->parser.line};
        p->made = ctl_text_feed(&p->parser, p->bytes, p->n, p->out, why);
        return -1;
    }
    p->parser.line += r->parser.line;
    r->parser = p->parser;
    return p->made;
}

/* ctl_text_feed by several threads. */
static long feed_parts(ctl_reader *r, part *all, int parts, char why[CTL_WHY])
{
    for (int i = 1; i < parts; i++)
        all[i].started = !pthread_create(&all[i].thread, NULL, reader_parse, &all[i]);
    long made = ctl_text_feed(&r->parser, all[0].bytes, all[0].n, all[0].out, why), more;
    for (int i = 1; i < parts; i++) {
        if (all[i].started)
            pthread_join(all[i].thread, NULL);
        else if (made >= 0)
            reader_parse(&all[i]); /* no thread for it */
        more = made < 0 ? made : join_part(r, &all[i], why);
        made = more < 0 ? more : made + more;
    }
    return made;
}

/* ---- reading ---- */

/* At the beginning of a pipe all numbers were integers. */
static void tell_of_guess(const ctl_reader *r, char why[CTL_WHY])
{
    size_t n = strlen(why);
    if (r->cut)
        snprintf(why + n, CTL_WHY - n, " as at the pipe's beginning; --dtype f64 reads both");
}

/* Elements of the bytes that are there, as far as there is room. */
static long feed(ctl_reader *r, void *space, size_t room, char why[CTL_WHY])
{
    part all[MAX_PARTS];
    size_t n = r->n - r->at < PIECE ? r->n - r->at : PIECE;
    int parts = share(r, all, r->bytes + r->at, n, space, room / reduce_dtype_size(r->parser.dtype));
    r->at = (size_t)(all[parts - 1].bytes + all[parts - 1].n - r->bytes);
    return feed_parts(r, all, parts, why);
}

long ctl_reader_read(ctl_reader *r, void *space, size_t room, int *err, char why[CTL_WHY])
{
    long made = 0;
    while (made == 0) {
        if (r->at == r->n && !r->ended) {
            r->at = r->n = 0;
            *err = read_piece(r, why);
            if (*err)
                return -1;
        }
        if (r->at == r->n)
            break;
        made = feed(r, space, room, why);
    }
    if (made == 0 && (made = ctl_text_end(&r->parser, space, why)) == 0)
        return 0;
    if (made > 0)
        return made * (long)reduce_dtype_size(r->parser.dtype);
    tell_of_guess(r, why);
    *err = REDUCE_E_TYPE;
    return -1;
}
