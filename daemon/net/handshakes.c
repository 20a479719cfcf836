#include "daemon/net/handshakes.h"

#include "daemon/net/limits.h"

void rd_handshakes_init(rd_handshakes *h, uint64_t seed)
{
    *h = (rd_handshakes){.seed = seed};
    pthread_mutex_init(&h->lock, NULL);
}

void rd_handshakes_fini(rd_handshakes *h) { pthread_mutex_destroy(&h->lock); }

/* ---- with the lock ---- */
enum { BUCKET_BITS = 8 };
_Static_assert(RD_HANDSHAKE_BUCKETS == 1 << BUCKET_BITS, "the top bits of a mixed key choose the bucket");

static uint64_t *paid_by(rd_handshakes *h, const rd_handshake *x)
{
    uint64_t mixed = (x->key ^ h->seed) * UINT64_C(0x9e3779b97f4a7c15);
    return &h->paid_ns[mixed >> (64 - BUCKET_BITS)];
}

static void pay(uint64_t *paid, uint64_t burst_ns, uint64_t share, uint64_t spent_ns, uint64_t now_ns)
{
    uint64_t least = now_ns > burst_ns ? now_ns - burst_ns : 0; /* unused time is saved up to the burst */
    *paid = (*paid > least ? *paid : least) + spent_ns * share;
}

/* Charges the usual price of a handshake, if there is time for it. */
static bool begin(rd_handshakes *h, const rd_handshake *x, uint64_t now_ns)
{
    uint64_t *own = paid_by(h, x);
    if (*own > now_ns || h->all_paid_ns > now_ns)
        return false;
    pay(own, RD_HANDSHAKE_BURST_NS, RD_HANDSHAKE_SHARE, RD_HANDSHAKE_NS, now_ns);
    pay(&h->all_paid_ns, RD_HANDSHAKE_BURST_NS, 1, RD_HANDSHAKE_NS, now_ns);
    return true;
}

static void append(rd_handshakes *h, rd_handshake *x)
{
    rd_handshake **at = &h->waiting;
    while (*at)
        at = &(*at)->next;
    x->next = NULL;
    x->waits = true;
    *at = x;
}

static rd_handshake *take(rd_handshake **at)
{
    rd_handshake *x = *at;
    *at = x->next;
    x->waits = false;
    return x;
}

/* Does a handshake of this address wait already? A later one must not overtake it. */
static bool one_waits(rd_handshakes *h, const uint64_t *own)
{
    for (const rd_handshake *x = h->waiting; x; x = x->next)
        if (paid_by(h, x) == own)
            return true;
    return false;
}

/* ---- any thread ---- */
bool rd_handshakes_ask(rd_handshakes *h, rd_handshake *x, uint64_t now_ns)
{
    pthread_mutex_lock(&h->lock);
    bool begins = !one_waits(h, paid_by(h, x)) && begin(h, x, now_ns);
    if (!begins)
        append(h, x);
    pthread_mutex_unlock(&h->lock);
    return begins;
}

rd_handshake *rd_handshakes_next(rd_handshakes *h, uint64_t now_ns)
{
    rd_handshake **at = &h->waiting;
    pthread_mutex_lock(&h->lock);
    while (*at && !begin(h, *at, now_ns))
        at = &(*at)->next;
    rd_handshake *x = *at ? take(at) : NULL;
    pthread_mutex_unlock(&h->lock);
    return x;
}

bool rd_handshakes_wait(rd_handshakes *h)
{
    pthread_mutex_lock(&h->lock);
    bool some = h->waiting != NULL;
    pthread_mutex_unlock(&h->lock);
    return some;
}

bool rd_handshakes_leave(rd_handshakes *h, rd_handshake *x)
{
    pthread_mutex_lock(&h->lock);
    rd_handshake **at = &h->waiting;
    bool waits = x->waits;
    while (waits && *at != x)
        at = &(*at)->next;
    if (waits)
        take(at);
    pthread_mutex_unlock(&h->lock);
    return waits;
}

/* What was paid too much is given back. Only the address pays what exceeds the usual price: one costly handshake must not stop
 * all others. */
void rd_handshakes_end(rd_handshakes *h, const rd_handshake *x, uint64_t spent_ns)
{
    pthread_mutex_lock(&h->lock);
    uint64_t *own = paid_by(h, x), less = spent_ns < RD_HANDSHAKE_NS ? RD_HANDSHAKE_NS - spent_ns : 0;
    *own = *own + spent_ns * RD_HANDSHAKE_SHARE - RD_HANDSHAKE_NS * RD_HANDSHAKE_SHARE;
    h->all_paid_ns -= less;
    pthread_mutex_unlock(&h->lock);
}
