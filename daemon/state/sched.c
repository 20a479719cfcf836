#include "daemon/state/sched.h"

#include <stddef.h>

/* Bytes of cost for a turn. In a round of the large lane a session moves a quarter of the largest item, so it pauses after
 * each one; the classes' turns are as long as a round of four, one and a quarter of these items. */
enum { SMALL_QUANTUM = 16 << 10, LARGE_QUANTUM = 1 << 20 };

static const unsigned class_share[RP_PRIORITY_COUNT] = {
    [RP_PRIORITY_HIGH] = 16, [RP_PRIORITY_NORMAL] = 4, [RP_PRIORITY_BACKGROUND] = 1};

static int64_t quantum_of(rd_lane_kind lane) { return lane == RD_LANE_SMALL ? SMALL_QUANTUM : LARGE_QUANTUM; }

void rd_sched_init(rd_sched *s, uint64_t small_window, uint64_t large_window)
{
    const uint64_t window[RD_LANES] = {
        [RD_LANE_SMALL] = small_window, [RD_LANE_LARGE] = large_window, [RD_LANE_READ] = UINT64_MAX};
    *s = (rd_sched){0};
    for (int k = 0; k < RD_LANES; k++) {
        s->lane[k].window = window[k];
        for (int c = 0; c < RP_PRIORITY_COUNT; c++) {
            s->lane[k].class[c].parent = &s->lane[k].all;
            s->lane[k].class[c].quantum = class_share[c] * quantum_of((rd_lane_kind)k);
        }
    }
}

void rd_sched_join(rd_sched *s, rd_sched_session *x, rd_sched_user *user, int priority)
{
    for (int k = 0; k < RD_LANES; k++) {
        rd_taker *u = &user->taker[k][priority];
        u->parent = &s->lane[k].class[priority];
        x->taker[k].parent = u;
        u->quantum = x->taker[k].quantum = quantum_of((rd_lane_kind)k);
    }
}

/* ---- rings ---- */
static bool has_work(const rd_taker *t) { return t->first || t->turn; }

/* As the last of the round. */
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

/* Whose turn it is below `t`, which has work there. */
static rd_taker *turn_of(rd_taker *t)
{
    while (t->turn->credit <= 0) {
        t->turn->credit += t->turn->quantum;
        t->turn = t->turn->next;
    }
    return t->turn;
}

/* ---- items ---- */
void rd_sched_put(rd_sched *s, rd_sched_session *x, rd_item *i, rd_lane_kind lane, uint64_t cost)
{
    rd_taker *t = &x->taker[lane];
    if (!t->first)
        t->end = &t->first;
    *i = (rd_item){.taker = t, .link = t->end, .cost = cost, .lane = lane};
    *t->end = i;
    t->end = &i->next;
    s->lane[lane].queued++;
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
    s->lane[i->lane].queued--;
    for (; t->parent && !has_work(t); t = t->parent)
        leave_ring(t);
}

rd_item *rd_sched_next(rd_sched *s, rd_lane_kind lane)
{
    struct rd_lane *l = &s->lane[lane];
    rd_taker *t = &l->all;
    if (!t->turn || l->running >= l->window)
        return NULL;
    while (t->turn)
        t = turn_of(t);
    rd_item *i = t->first;
    for (; t->parent; t = t->parent)
        t->credit -= (int64_t)i->cost;
    take_off(s, i);
    i->running = true;
    l->running += i->cost;
    return i;
}

void rd_sched_end(rd_sched *s, rd_item *i)
{
    if (i->running)
        s->lane[i->lane].running -= i->cost;
    i->running = false;
}

bool rd_sched_remove(rd_sched *s, rd_item *i)
{
    if (!i->taker)
        return false;
    take_off(s, i);
    return true;
}
