#include "daemon/request/long_read.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/request/request.h"

/* The turn of a reader. After it other work may have the thread, and small requests the processor. */
static const uint64_t TURN_NS = 5 * RD_NS_PER_MS;

/* A worker that reads some of the rows. */
typedef struct reader {
    rd_work work; /* first */
    rd_long *all;
    rd_buffer *buffer;
    void *states;  /* NULL: it has no rows so far */
    bool goes_on;  /* its turn is over, but rows are left */
    bool last;     /* it was the last one to leave */
    bool complete; /* ... and no row is missing */
    uint64_t copy_ns, compute_ns;
} reader;

/* ---- in workers ---- */

void rd_long_stop(rd_long *l, const rp_fault *f)
{
    pthread_mutex_lock(&l->lock);
    if (!l->read->fault.code)
        l->read->fault = *f;
    l->row = l->rows;
    pthread_mutex_unlock(&l->lock);
}

/* Take the next `n` rows, from row `from` on. False: none is left. A reader that was not inside is from now on. */
static bool take_rows(reader *x, bool inside, uint64_t *from, uint64_t *n)
{
    rd_long *l = x->all;
    pthread_mutex_lock(&l->lock);
    *from = l->row;
    *n = l->rows - l->row < l->each ? l->rows - l->row : l->each;
    l->row += *n;
    l->inside += *n && !inside;
    pthread_mutex_unlock(&l->lock);
    return *n > 0;
}

static bool get_states(reader *x)
{
    const rk_task *t = &x->all->read->request->job.task;
    rp_fault f;
    x->states = malloc(rk_rows_bytes(t));
    if (x->states) {
        rk_rows_begin(t, x->states);
        return true;
    }
    rp_fail(&f, RP_NO_MEMORY, "columns", 0, "no memory for the states of columns");
    rd_long_stop(x->all, &f);
    return false;
}

static bool read_rows(reader *x, uint64_t from, uint64_t n)
{
    const rd_read *r = x->all->read;
    rd_read part = {.fd = r->fd, .row = r->row, .stride = r->stride, .fault = {.index = RP_NO_INDEX}};
    part.offset = r->offset + from * (r->stride ? r->stride : r->row);
    part.bytes = (size_t)(n * r->row);
    part.data = x->buffer->memory + part.offset % RD_DIRECT_BLOCK;
    if (r->direct)
        part.got = rd_uncached_read(part.fd, part.data, part.bytes, part.offset);
    if (!rd_read_rest(&part)) {
        part.fault.limit += from * r->row;
        rd_long_stop(x->all, &part.fault);
        return false;
    }
    const uint64_t start = rd_now_ns();
    rk_rows_add(&r->request->job.task, part.data, from, n, x->states);
    x->compute_ns += rd_now_ns() - start;
    return true;
}

/* Join this reader's states to those that earlier readers left. True: it is the last one, and x->states are of all rows. */
static bool leave(reader *x)
{
    rd_long *l = x->all;
    for (;;) {
        pthread_mutex_lock(&l->lock);
        void *theirs = l->states;
        l->states = NULL;
        bool last = false;
        if (!theirs || !x->states) {
            last = --l->inside == 0;
            l->states = last ? NULL : theirs ? theirs : x->states;
            if (last && theirs)
                x->states = theirs;
            x->complete = last && !l->read->fault.code;
            l->copy_ns += x->copy_ns;
            l->compute_ns += x->compute_ns;
            pthread_mutex_unlock(&l->lock);
            return last;
        }
        pthread_mutex_unlock(&l->lock);
        const uint64_t start = rd_now_ns();
        rk_rows_join(&l->read->request->job.task, theirs, x->states);
        free(theirs);
        x->compute_ns += rd_now_ns() - start;
    }
}

static void end(reader *x)
{
    rd_long *l = x->all;
    rk_task *t = &l->read->request->job.task;
    const uint64_t start = rd_now_ns();
    t->copy_ns = l->copy_ns;
    t->compute_ns = l->compute_ns;
    if (x->complete) {
        rk_rows_end(t, x->states);
        l->read->reduced = true;
    }
    t->compute_ns += rd_now_ns() - start;
    free(x->states);
    x->last = true;
}

static void read_on(reader *x)
{
    const uint64_t until = rd_now_ns() + TURN_NS;
    bool inside = x->states;
    x->goes_on = false;
    for (uint64_t from, n; take_rows(x, inside, &from, &n);) {
        inside = true;
        const uint64_t start = rd_now_ns(), reduced = x->compute_ns;
        if ((!x->states && !get_states(x)) || !read_rows(x, from, n))
            break;
        const uint64_t now = rd_now_ns();
        x->copy_ns += now - start - (x->compute_ns - reduced);
        x->goes_on = now >= until;
        if (x->goes_on)
            return;
    }
    if (inside && leave(x))
        end(x);
}

static void reader_run(rd_work *w)
{
    reader *x = (reader *)w;
    rk_engine *engine = x->buffer->all->holdings->engine;
    rk_work_begin(engine);
    read_on(x);
    rk_work_end(engine);
}

/* ---- in the loop ---- */

static void unlist(rd_long *l)
{
    *l->link = l->next;
    if (l->next)
        l->next->link = l->link;
}

static void free_long(rd_long *l, rd_users *users)
{
    rd_user_put(users, l->user);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static void reader_done(rd_work *w)
{
    reader *x = (reader *)w;
    rd_long *l = x->all;
    rd_buffers *b = x->buffer->all;
    if (x->goes_on) {
        rd_workers_add(b->holdings->workers, w);
        return;
    }
    const bool ended = x->last || l->readers == 1; /* a range that was stopped before any row was read has no last reader */
    rd_buffer_give(x->buffer);
    free(x);
    if (ended && l->read) {
        rd_read *r = l->read;
        unlist(l);
        l->read = NULL;
        l->done(&r->work);
    }
    if (--l->readers == 0)
        free_long(l, b->holdings->users);
}

bool rd_long_help(rd_long *l, rd_buffer *b)
{
    reader *x = calloc(1, sizeof *x);
    if (!x)
        return false;
    x->all = l;
    x->buffer = b;
    rd_buffer_charge(b, l->user);
    x->work = (rd_work){.run = reader_run, .done = reader_done, .running = &l->user->running, .bulk = !l->read->direct};
    l->readers++;
    rd_workers_add(b->all->holdings->workers, &x->work);
    return true;
}

bool rd_long_start(rd_read *r, rd_buffer *b, rd_user *user, void (*done)(rd_work *w))
{
    rk_task *t = &r->request->job.task;
    rd_holdings *h = b->all->holdings;
    rd_long *l = r->bytes > RP_MAX_DATA && rk_rows_open(h->engine, t) ? calloc(1, sizeof *l) : NULL;
    if (!l)
        return false;
    *l = (rd_long){.read = r, .user = user, .done = done, .rows = t->spec.rows, .next = b->all->reading};
    l->each = rd_read_rows(r);
    l->link = &b->all->reading;
    if (l->next)
        l->next->link = &l->next;
    b->all->reading = l;
    pthread_mutex_init(&l->lock, NULL);
    user->refs++;
    r->start_ns = rd_now_ns();
    if (rd_long_help(l, b))
        return true;
    unlist(l);
    free_long(l, h->users);
    return false;
}

uint64_t rd_long_left(rd_long *l)
{
    pthread_mutex_lock(&l->lock);
    const uint64_t rows = l->rows - l->row;
    pthread_mutex_unlock(&l->lock);
    return rows / l->each / (l->readers + 1);
}
