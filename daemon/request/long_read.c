#include "daemon/request/long_read.h"

#include <stdlib.h>

#include "daemon/request/request.h"
#include "proto/clock.h"

/* The turn of a reader. After it other work may have the thread, and small requests the processor. */
static const uint64_t TURN_NS = 5 * RP_NS_PER_MS;

/* A worker that reads some of the rows. */
typedef struct reader {
    rd_work work; /* first */
    rd_long *all;
    rd_buffer *buffer;
    bool inside;  /* it has read rows, and not left */
    bool goes_on; /* its turn is over, but rows are left */
    bool last;    /* it was the last one to leave */
    uint64_t copy_ns;
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
static bool take_rows(reader *x, uint64_t *from, uint64_t *n)
{
    rd_long *l = x->all;
    pthread_mutex_lock(&l->lock);
    *from = l->row;
    *n = l->rows - l->row < l->each ? l->rows - l->row : l->each;
    l->row += *n;
    l->inside += *n && !x->inside;
    pthread_mutex_unlock(&l->lock);
    x->inside |= *n > 0;
    return *n > 0;
}

static bool read_rows(reader *x, uint64_t from, uint64_t n)
{
    rd_long *l = x->all;
    const rd_read *r = l->read;
    const uint64_t start = rp_now_ns(), columns = r->request->job.task.spec.row_len;
    rd_read part = {.fd = r->fd, .row = r->row, .stride = r->stride, .fault = {.index = RP_NO_INDEX}};
    part.offset = r->offset + from * (r->stride ? r->stride : r->row);
    part.bytes = (size_t)(n * r->row);
    part.data = x->buffer->memory + part.offset % RD_DIRECT_BLOCK;
    if (r->direct)
        part.got = rd_uncached_read(part.fd, part.data, part.bytes, part.offset);
    const bool got = rd_read_rest(&part);
    x->copy_ns += rp_now_ns() - start;
    part.fault.limit += got ? 0 : from * r->row;
    if (got && rk_feed_add(l->feed, part.data, from * columns, n * columns, &part.fault))
        return true;
    rd_long_stop(l, &part.fault);
    return false;
}

/* The last reader to leave ends the task. */
static void leave(reader *x)
{
    rd_long *l = x->all;
    rk_feed_join(l->feed);
    pthread_mutex_lock(&l->lock);
    const bool complete = !l->read->fault.code;
    x->last = --l->inside == 0;
    l->copy_ns += x->copy_ns;
    pthread_mutex_unlock(&l->lock);
    x->inside = false;
    if (!x->last)
        return;
    l->read->request->job.task.copy_ns = l->copy_ns;
    l->read->reduced = complete;
    rk_feed_end(l->feed, complete);
    l->feed = NULL;
}

static void read_on(reader *x)
{
    const uint64_t until = rp_now_ns() + TURN_NS;
    x->goes_on = false;
    for (uint64_t from, n; take_rows(x, &from, &n) && read_rows(x, from, n);) {
        x->goes_on = rp_now_ns() >= until;
        if (x->goes_on)
            return;
    }
    if (x->inside)
        leave(x);
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
        if (l->feed)
            rk_feed_end(l->feed, false);
        l->feed = NULL;
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

static rd_long *new_long(rd_read *r, rd_user *user, void (*done)(rd_work *w), rd_buffers *b)
{
    rk_task *t = &r->request->job.task;
    rd_long *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    *l = (rd_long){.read = r, .user = user, .done = done, .rows = t->spec.rows, .each = rd_read_rows(r), .next = b->reading};
    l->feed = rk_feed_open(b->holdings->engine, t);
    l->link = &b->reading;
    if (l->next)
        l->next->link = &l->next;
    b->reading = l;
    pthread_mutex_init(&l->lock, NULL);
    user->refs++;
    r->start_ns = rp_now_ns();
    return l;
}

bool rd_long_start(rd_read *r, rd_buffer *b, rd_user *user, void (*done)(rd_work *w))
{
    const bool is_long = r->bytes > RP_MAX_DATA && r->request->job.task.spec.flags & RP_COLUMNS;
    rd_long *l = is_long ? new_long(r, user, done, b->all) : NULL;
    if (!l)
        return false;
    if (l->feed && rd_long_help(l, b))
        return true;
    if (l->feed)
        rk_feed_end(l->feed, false);
    unlist(l);
    free_long(l, b->all->holdings->users);
    return false;
}

uint64_t rd_long_left(rd_long *l)
{
    pthread_mutex_lock(&l->lock);
    const uint64_t rows = l->rows - l->row;
    pthread_mutex_unlock(&l->lock);
    return rows / l->each / (l->readers + 1);
}
