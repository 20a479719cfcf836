#include "daemon/base/turned_away.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "daemon/base/log.h"
#include "proto/clock.h"

static const uint64_t SILENCE_NS = 10 * RP_NS_PER_S;

static struct {
    atomic_uint_least64_t n, next_ns, told; /* all; when a line may be written; `n` at the last line */
} away[RD_AWAY_N];

static const char *const labels[] = {
#define X(NAME, label) label,
    RD_AWAY_REASONS(X)
#undef X
};

/* The thread that moves the time on writes the line. */
static bool is_my_line(rd_away reason)
{
    const uint64_t now = rp_now_ns();
    uint64_t next = atomic_load(&away[reason].next_ns);
    return now >= next && atomic_compare_exchange_strong(&away[reason].next_ns, &next, now + SILENCE_NS);
}

void rd_turn_away(rd_away reason, const char *peer, const char *why)
{
    const uint64_t n = atomic_fetch_add(&away[reason].n, 1) + 1;
    if (!is_my_line(reason))
        return;
    const uint64_t others = n - atomic_exchange(&away[reason].told, n) - 1;
    char more[64] = "";
    if (others)
        snprintf(more, sizeof more, "; %" PRIu64 " others before it", others);
    rd_log(RD_LOG_WARN, "%s: turned away (%s): %s%s", peer, labels[reason], why, more);
}

uint64_t rd_turned_away(rd_away reason) { return atomic_load(&away[reason].n); }

const char *rd_away_label(rd_away reason) { return labels[reason]; }
