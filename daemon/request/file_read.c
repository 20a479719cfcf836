#include "daemon/request/file_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/request/request.h"
#include "proto/clock.h"

enum {
    HUGE_PAGE = 2 << 20,
    PART_BYTES = 256 << 10, /* it stays in the cache of a core until it is reduced */
    ROWS_BYTES = 2 << 20    /* the same for columns, whose states are taken up and put back for every part */
};

/* ---- buffers ---- */
bool rd_buffers_init(rd_buffers *b, rd_holdings *h, unsigned cap, uint64_t direct_bytes)
{
    *b = (rd_buffers){.holdings = h, .cap = cap, .direct_bytes = direct_bytes, .self = rd_user_get(h->users, geteuid())};
    return b->self != NULL;
}

/* Memory whose huge pages begin where it does. Of 4 MiB elsewhere half is in small ones, into which reading is slower. */
static uint8_t *map_aligned(void)
{
    uint8_t *all = mmap(NULL, RD_BUFFER_BYTES + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return all;
    const size_t before = -(uintptr_t)all % HUGE_PAGE;
    uint8_t *memory = all + before;
    if (before)
        munmap(all, before);
    munmap(memory + RD_BUFFER_BYTES, HUGE_PAGE - before);
    return memory;
}

static rd_buffer *new_buffer(rd_buffers *b)
{
    rd_buffer *x = malloc(sizeof *x);
    uint8_t *memory = x ? map_aligned() : MAP_FAILED;
    if (memory == MAP_FAILED) {
        free(x);
        return NULL;
    }
    madvise(memory, RD_BUFFER_BYTES, MADV_HUGEPAGE);
    *x = (rd_buffer){.all = b, .memory = memory};
    b->made++;
    return x;
}

rd_buffer *rd_buffer_take(rd_buffers *b)
{
    rd_buffer *x = b->idle;
    if (x)
        b->idle = x->next;
    else if (b->made < b->cap)
        x = new_buffer(b);
    return x;
}

void rd_buffer_charge(rd_buffer *x, rd_user *user)
{
    x->user = user;
    rd_charge_anyway(x->all->holdings->users, user, RD_HELD_BUFFERS, 1);
}

void rd_buffer_give(rd_buffer *x)
{
    if (x->user)
        rd_discharge(x->all->holdings->users, x->user, RD_HELD_BUFFERS, 1);
    x->user = NULL;
    x->next = x->all->idle;
    x->all->idle = x;
}

/* A worker's, for the device may have to come to rest first. */
static void file_read_free(rd_work *w)
{
    rd_buffer *x = (rd_buffer *)w;
    if (x->pinned)
        rk_unpin(x->all->holdings->engine, x->memory);
    munmap(x->memory, RD_BUFFER_BYTES);
}

static void file_read_freed(rd_work *w)
{
    rd_buffer *x = (rd_buffer *)w;
    x->all->made--;
    rd_user_put(x->all->holdings->users, x->all->self);
    free(x);
}

void rd_buffers_trim(rd_buffers *b)
{
    while (b->idle) {
        rd_buffer *x = b->idle;
        b->idle = x->next;
        b->self->refs++;
        x->work = (rd_work){.run = file_read_free, .done = file_read_freed, .running = &b->self->running};
        rd_workers_add(b->holdings->workers, &x->work);
    }
}

void rd_buffers_fini(rd_buffers *b)
{
    if (!b->self)
        return;
    rd_buffers_trim(b);
    rd_user_put(b->holdings->users, b->self);
}

/* ---- reading ---- */
static void pin_once(rd_buffer *b)
{
    if (!b->tried)
        b->pinned = rk_pin(b->all->holdings->engine, b->memory, RD_BUFFER_BYTES);
    b->tried = true;
}

/* Where byte `got` of the range is in the file, and how many of `wanted` bytes follow it there. */
static off_t place_of(const rd_read *x, size_t got, size_t *wanted)
{
    if (!x->stride)
        return (off_t)(x->offset + got);
    const uint64_t within = got % x->row, left = x->row - within;
    *wanted = left < *wanted ? left : *wanted;
    return (off_t)(x->offset + got / x->row * x->stride + within);
}

/* Up to the first `end` bytes of the range, to where they are at the start of `to`. */
static bool read_up_to(rd_read *x, uint8_t *to, size_t end)
{
    const size_t first = x->got;
    while (x->got < end) {
        size_t wanted = end - x->got;
        const off_t from = place_of(x, x->got, &wanted);
        ssize_t n = pread(x->fd, to + (x->got - first), wanted, from);
        if (n <= 0 && !(n < 0 && errno == EINTR)) {
            rp_fail(&x->fault, RP_IO, "file", x->got, n ? "reading failed: %s" : "the file ends before its data do%s",
                    n ? strerror(errno) : "");
            return false;
        }
        x->got += n > 0 ? (size_t)n : 0;
    }
    return true;
}

bool rd_read_rest(rd_read *r) { return read_up_to(r, r->data + r->got, r->bytes); }

uint64_t rd_read_rows(const rd_read *r) { return r->row < ROWS_BYTES ? ROWS_BYTES / r->row : 1; }

static size_t part_bytes(const rd_read *x) { return x->row ? (size_t)(rd_read_rows(x) * x->row) : PART_BYTES; }

/* Reduces parts as they come, one after the other in the same bytes of the buffer. False: the engine takes no parts. */
static bool reduce_parts(rd_read *x)
{
    rk_task *t = &x->request->job.task;
    rk_feed *feed = rk_feed_open(x->buffer->all->holdings->engine, t);
    const size_t size = rp_dtype_size(t->spec.dtype), part = part_bytes(x);
    bool all = true;
    if (!feed)
        return false;
    while (all && x->got < x->bytes) {
        const size_t from = x->got, left = x->bytes - from, end = from + (left < part ? left : part);
        const uint64_t start = rp_now_ns();
        all = read_up_to(x, x->data, end);
        t->copy_ns += rp_now_ns() - start;
        all = all && rk_feed_add(feed, x->data, from / size, (end - from) / size, &x->fault);
    }
    rk_feed_end(feed, all);
    return true;
}

static void file_read_whole(rd_read *x)
{
    const uint64_t start = rp_now_ns();
    if (x->direct)
        x->got = rd_uncached_read(x->fd, x->data, x->bytes, x->offset);
    rd_read_rest(x);
    x->ns = rp_now_ns() - start;
}

/* Once the GPUs are open, long ranges are no longer reduced part by part. */
static void read_whole_or_refuse(rd_read *x)
{
    if (x->bytes <= RP_MAX_DATA)
        file_read_whole(x);
    else
        rp_fail(&x->fault, RP_TOO_LARGE, "length", RP_MAX_DATA, "%zu bytes at once", x->bytes);
}

static void file_read_range(rd_work *w)
{
    rd_read *x = (rd_read *)w;
    rk_engine *engine = x->buffer->all->holdings->engine;
    x->start_ns = rp_now_ns();
    rk_work_begin(engine);
    pin_once(x->buffer);
    x->reduced = !x->direct && reduce_parts(x);
    if (!x->reduced)
        read_whole_or_refuse(x);
    rk_work_end(engine);
}

void rd_read_start(rd_read *r, rd_buffer *x, rd_user *user, void (*done)(rd_work *w))
{
    r->buffer = x;
    rd_buffer_charge(x, user);
    r->data = x->memory + r->offset % RD_DIRECT_BLOCK;
    r->request->job.task.data = r->data;
    r->work = (rd_work){.run = file_read_range, .done = done, .running = &user->running, .bulk = !r->direct};
    rd_workers_add(x->all->holdings->workers, &r->work);
}
