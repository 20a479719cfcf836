#include "daemon/net/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/net/exchange_pool.h"
#include "daemon/net/frame_room.h"
#include "daemon/net/sending.h"

/* At any time it is free, or `working`: a message that the fast path, then the loop, owns. */
typedef struct pooled {
    rd_exchange_pool *pool;
    rd_connection *from; /* held; NULL: free */
    bool working;
    bool last;      /* its reply is the connection's last one */
    uint8_t *frame; /* the message's, as it was received */
    size_t frame_size;
    uint8_t route[RP_ROUTE];
    size_t route_size;
    rd_reply_buffer *reply;
    rd_posted posted; /* rd_exchange_leave */
    void (*after)(rd_exchange *e);
    struct pooled *next;                        /* of the free ones */
    _Alignas(max_align_t) rd_exchange exchange; /* last: the room of the layer that answers follows */
} pooled;

struct rd_exchange_pool {
    rd_connections *all; /* their lock is that of what waits and is idle */
    bool (*fastpath)(void *arg, rd_exchange *e);
    void *fastpath_arg;
    unsigned exchanges;
    size_t size; /* bytes of an exchange, with the room that the layer above asked for */
    uint8_t *memory;
    atomic_uint busy;
    pooled *idle;
    rd_connection *waiting; /* oldest first */
};

static pooled *pooled_of(rd_exchange *e) { return (pooled *)((char *)e - offsetof(pooled, exchange)); }

static pooled *pooled_at(const rd_exchange_pool *p, unsigned i) { return (pooled *)(p->memory + i * p->size); }

/* ---- a message comes ---- */

/* A request goes its way. From here on it may be answered at any moment. */
static void hand_over(rd_connection *c, pooled *x, bool quickly)
{
    rd_exchange_pool *p = x->pool;
    rd_exchange *e = &x->exchange;
    rd_connection_hold(c);
    x->from = c;
    x->working = true;
    x->last = false;
    x->frame_size = c->in.size;
    x->frame = rd_frame_room_take(c); /* from here on the layer above charges it */
    x->route_size = c->check.route;
    memcpy(x->route, x->frame + RD_MESSAGE_AT, x->route_size);
    e->connection = c->id;
    e->header = c->check.header;
    e->bytes = x->frame + RD_MESSAGE_AT + x->route_size;
    e->len = c->in.size - x->route_size;
    e->received_ns = c->received_ns;
    atomic_fetch_add_explicit(&p->busy, 1, memory_order_relaxed);
    if (!quickly || !p->fastpath(p->fastpath_arg, e))
        rd_exchange_pass(e);
}

/* A free exchange. NULL: there is none, and `c` waits for one, or is closed. The time is taken under the lock: so the last
 * request of the exchange has ended before, and the two do not overlap in the trace. */
static pooled *take_free(rd_exchange_pool *p, rd_connection *c, rd_step *otherwise)
{
    pthread_mutex_lock(&p->all->lock);
    c->received_ns = rp_now_ns();
    pooled *x = p->idle;
    if (x) {
        p->idle = x->next;
    } else {
        *otherwise = rd_connection_pause(c, RD_FOR_EXCHANGE);
        if (*otherwise == RD_PAUSED)
            rd_waiting_append(&p->waiting, c);
    }
    pthread_mutex_unlock(&p->all->lock);
    return x;
}

rd_step rd_exchange_pool_take(rd_exchange_pool *p, rd_connection *c)
{
    rd_step otherwise = RD_GO_ON;
    pooled *x = take_free(p, c, &otherwise);
    if (!x)
        return otherwise;
    hand_over(c, x, true);
    return rd_sending_look(c);
}

void rd_exchange_pool_forget(rd_exchange_pool *p, const rd_connection *c) { rd_waiting_remove(&p->waiting, c); }

/* ---- an exchange is free ---- */

/* The freed exchange goes to the connection that has waited longest. */
static void give_back(rd_exchange_pool *p, pooled *x)
{
    rd_connection *c;
    bool mine = false;
    do {
        pthread_mutex_lock(&p->all->lock);
        c = p->waiting;
        if (c) {
            p->waiting = c->waits;
            rd_connection_hold(c);
        } else {
            x->next = p->idle;
            p->idle = x;
        }
        pthread_mutex_unlock(&p->all->lock);
        mine = c && rd_connection_claim(c); /* otherwise the connection is being hung up */
        if (mine) {
            /* without the fast path: this may be the loop's thread, or the start of a long row of waiting connections */
            hand_over(c, x, false);
            rd_connection_turn(c);
        }
        if (c)
            rd_connection_let_go(c);
    } while (c && !mine);
}

static void release(pooled *x)
{
    rd_exchange_pool *p = x->pool;
    rd_connection *from = x->from;
    rd_frame_room_free(x->frame, x->frame_size);
    rd_reply_buffer_free(x->reply);
    x->frame = NULL;
    x->reply = NULL;
    x->from = NULL;
    x->working = false;
    atomic_fetch_sub_explicit(&p->busy, 1, memory_order_relaxed);
    give_back(p, x);
    rd_connection_let_go(from);
}

/* ---- the pool ---- */
static size_t aligned(size_t n) { return (n + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t); }

rd_exchange_pool *rd_exchange_pool_new(rd_connections *all, unsigned exchanges, size_t exchange_size)
{
    rd_exchange_pool *p = calloc(1, sizeof *p);
    size_t size = aligned(offsetof(pooled, exchange) + exchange_size);
    uint8_t *memory = calloc(exchanges, size);
    if (!p || !memory) {
        free(p);
        free(memory);
        return NULL;
    }
    *p = (rd_exchange_pool){.all = all, .memory = memory, .size = size, .exchanges = exchanges};
    for (unsigned i = exchanges; i-- > 0;) {
        pooled *x = pooled_at(p, i);
        x->pool = p;
        x->exchange.number = i;
        x->next = p->idle;
        p->idle = x;
    }
    return p;
}

void rd_exchange_pool_start(rd_exchange_pool *p, bool (*fastpath)(void *arg, rd_exchange *e), void *arg)
{
    p->fastpath = fastpath;
    p->fastpath_arg = arg;
}

unsigned rd_exchange_pool_busy(const rd_exchange_pool *p)
{
    return atomic_load_explicit(&((rd_exchange_pool *)p)->busy, memory_order_relaxed);
}

void rd_exchange_pool_release(rd_exchange_pool *p)
{
    for (unsigned i = 0; i < p->exchanges; i++)
        if (pooled_at(p, i)->working)
            release(pooled_at(p, i));
}

void rd_exchange_pool_free(rd_exchange_pool *p)
{
    free(p->memory);
    free(p);
}

/* ---- what the layer above does with one ---- */
uint8_t *rd_exchange_reply(rd_exchange *e, size_t body)
{
    pooled *x = pooled_of(e);
    rd_reply_buffer_free(x->reply);
    x->reply = rd_reply_buffer_new(&x->pool->all->unsent, RP_HEADER_SIZE + body);
    return x->reply ? rd_reply_buffer_message(x->reply) + RP_HEADER_SIZE : NULL;
}

void rd_exchange_admit(rd_exchange *e, uint64_t session) { rd_connection_admit(pooled_of(e)->from, session); }

void rd_exchange_last(rd_exchange *e) { pooled_of(e)->last = true; }

void rd_exchange_send(rd_exchange *e, const rp_header *h, rd_account *account)
{
    pooled *x = pooled_of(e);
    rd_reply_buffer *r = x->reply;
    rp_put_header(rd_reply_buffer_message(r), h);
    rd_reply_buffer_frame(r, x->from->wire->ipc, x->route, x->route_size, RP_HEADER_SIZE + h->body_len);
    r->account = account;
    r->charged = rd_exchange_size(h);
    r->last = x->last;
    x->reply = NULL;
    e->bytes = NULL;
    rd_send(x->from, r, 1);
    release(x);
}

static void exchange_go_on(rd_posted *x)
{
    pooled *p = (pooled *)((char *)x - offsetof(pooled, posted));
    p->after(&p->exchange);
}

bool rd_exchange_leave(rd_exchange *e, void (*next)(rd_exchange *e))
{
    pooled *x = pooled_of(e);
    rd_wire *w = x->from->wire;
    x->after = next;
    x->posted.run = exchange_go_on;
    return w->ops->leave_to_reader && w->ops->leave_to_reader(w, &x->posted);
}

void rd_exchange_pass(rd_exchange *e)
{
    rd_inbox_put(pooled_of(e)->pool->all->inbox, (rd_event){.kind = RD_MESSAGE, .exchange = e});
}

void rd_exchange_forget(rd_exchange *e) { release(pooled_of(e)); }

void rd_exchange_drop(rd_exchange *e)
{
    rd_connection_hang_up(pooled_of(e)->from);
    rd_exchange_forget(e);
}
