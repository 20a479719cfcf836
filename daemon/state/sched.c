#include "daemon/state/sched.h"

#include <stddef.h>

/* The credit of a turn: a quarter of the queue's largest item at 50 GB/s, which is a fast host path. So at any rate a session
 * pauses after each item; the turns of the three classes are as long as 4, 1 and 1/4 of these items. */
enum { SMALL_QUANTUM_NS = 400, LARGE_QUANTUM_NS = 20000, READ_QUANTUM = 1 << 20 /* bytes */ };

static const unsigned class_share[RP_PRIORITY_COUNT] = {
    [RP_PRIORITY_HIGH] = 16, [RP_PRIORITY_NORMAL] = 4, [RP_PRIORITY_BACKGROUND] = 1};

static int64_t quantum_of(rd_queue_kind queue)
{
    static const int64_t quantum[RD_QUEUES] = {
        [RD_QUEUE_SMALL] = SMALL_QUANTUM_NS, [RD_QUEUE_LARGE] = LARGE_QUANTUM_NS, [RD_QUEUE_READ] = READ_QUANTUM};
    return quantum[queue];
}

void rd_sched_windows(rd_sched *s, uint64_t small_window, uint64_t large_window, unsigned devices)
{
    const uint64_t window[RD_QUEUES] = {
        [RD_QUEUE_SMALL] = small_window * devices, [RD_QUEUE_LARGE] = large_window, [RD_QUEUE_READ] = UINT64_MAX};
    for (int k = 0; k < RD_QUEUES; k++) {
        s->queue[k].window = window[k];
        s->queue[k].price_window = k == RD_QUEUE_READ ? UINT64_MAX : (uint64_t)RD_WINDOW_NS * devices;
    }
}

void rd_sched_init(rd_sched *s, uint64_t small_window, uint64_t large_window)
{
    *s = (rd_sched){0};
    rd_sched_windows(s, small_window, large_window, 1);
    for (int k = 0; k < RD_QUEUES; k++) {
        for (int c = 0; c < RP_PRIORITY_COUNT; c++) {
            s->queue[k].class[c].parent = &s->queue[k].all;
            s->queue[k].class[c].quantum = class_share[c] * quantum_of((rd_queue_kind)k);
        }
    }
}

void rd_sched_join(rd_sched *s, rd_sched_session *x, rd_sched_user *user, int priority)
{
    for (int k = 0; k < RD_QUEUES; k++) {
        rd_taker *u = &user->taker[k][priority];
        u->parent = &s->queue[k].class[priority];
        x->taker[k].parent = u;
        u->quantum = x->taker[k].quantum = quantum_of((rd_queue_kind)k);
    }
}

/* ---- rings ---- */
static bool has_work(const rd_taker *t) { return t->first || t->turn; }

/* Append it to the round. */
static void enter_ring(rd_taker *t)
{
    rd_taker *p = t->parent;
    if (!p->turn) {
        p->turn = t->next = t->prev = t;
        return;
    }
    t->next = p->turn;
    t->prev = p->turn->prev;
    t->prev->next = t->next->prev = t;
}

static void leave_ring(rd_taker *t)
{
    rd_taker *p = t->parent;
    t->prev->next = t->next;
    t->next->prev = t->prev;
    if (p->turn == t)
        p->turn = t->next == t ? NULL : t->next;
    t->next = t->prev = NULL;
    if (t->credit > 0)
        t->credit = 0;
}

/* The number of rounds in which no taker below `t` gets out of debt. */
static int64_t idle_rounds(const rd_taker *t)
{
    const rd_taker *i = t->turn;
    int64_t least = INT64_MAX;
    do {
        int64_t rounds = i->credit > 0 ? 0 : -i->credit / i->quantum;
        least = rounds < least ? rounds : least;
        i = i->next;
    } while (i != t->turn);
    return least;
}

/* Skip these rounds in one step: an item may cost thousands of quanta. */
static void skip_rounds(rd_taker *t)
{
    int64_t rounds = idle_rounds(t);
    rd_taker *i = t->turn;
    do {
        i->credit += rounds * i->quantum;
        i = i->next;
    } while (i != t->turn);
}

/* The taker below `t` whose turn it is; `t` has work. */
static rd_taker *turn_of(rd_taker *t)
{
    if (t->turn->credit <= -t->turn->quantum)
        skip_rounds(t);
    while (t->turn->credit <= 0) {
        t->turn->credit += t->turn->quantum;
        t->turn = t->turn->next;
    }
    return t->turn;
}

/* ---- items ---- */
void rd_sched_put(rd_sched *s, rd_sched_session *x, rd_item *i, rd_queue_kind queue, uint64_t cost, uint64_t price)
{
    rd_taker *t = &x->taker[queue];
    if (!t->first)
        t->end = &t->first;
    *i = (rd_item){.taker = t, .payer = t, .link = t->end, .cost = cost, .price = price, .queue = queue};
    *t->end = i;
    t->end = &i->next;
    s->queue[queue].queued++;
    for (; t->parent && !t->next; t = t->parent)
        enter_ring(t);
}

static void take_off(rd_sched *s, rd_item *i)
{
    rd_taker *t = i->taker;
    *i->link = i->next;
    if (i->next)
        i->next->link = i->link;
    else
        t->end = i->link;
    i->taker = NULL;
    s->queue[i->queue].queued--;
    for (; t->parent && !has_work(t); t = t->parent)
        leave_ring(t);
}

rd_item *rd_sched_next(rd_sched *s, rd_queue_kind queue)
{
    struct rd_queue *l = &s->queue[queue];
    rd_taker *t = &l->all;
    if (!t->turn || l->running >= l->window || l->running_price >= l->price_window)
        return NULL;
    while (t->turn)
        t = turn_of(t);
    rd_item *i = t->first;
    for (; t->parent; t = t->parent)
        t->credit -= (int64_t)i->price;
    take_off(s, i);
    i->running = true;
    l->running += i->cost;
    l->running_price += i->price;
    return i;
}

/* A taker without queued items keeps its debts, but no credit. */
static void settle(rd_item *i, uint64_t spent)
{
    for (rd_taker *t = i->payer; t->parent; t = t->parent) {
        t->credit += (int64_t)i->price - (int64_t)spent;
        if (t->credit > 0 && !t->next)
            t->credit = 0;
    }
}

void rd_sched_end(rd_sched *s, rd_item *i, uint64_t spent)
{
    if (!i->running)
        return;
    s->queue[i->queue].running -= i->cost;
    s->queue[i->queue].running_price -= i->price;
    settle(i, spent);
    i->running = false;
}

bool rd_sched_remove(rd_sched *s, rd_item *i)
{
    if (!i->taker)
        return false;
    take_off(s, i);
    return true;
}
