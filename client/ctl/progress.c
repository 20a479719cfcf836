/* A bar on standard error for work that takes over a second, if that is a terminal; else a line each second, if asked for. */
#include <inttypes.h>
#include <unistd.h>

#include "client/ctl/ctl.h"
#include "client/ctl/text/screen_text.h"
#include "proto/clock.h"

static const uint64_t FIRST_NS = RP_NS_PER_S, EVERY_NS = RP_NS_PER_S / 10, LINE_NS = RP_NS_PER_S;
enum { WIDTH = 24, NAME = 40 }; /* columns */

void ctl_progress_start(ctl_progress *p, const char *name, uint64_t total, bool allowed, bool asked)
{
    bool terminal = isatty(STDERR_FILENO);
    *p = (ctl_progress){.on = terminal ? allowed : asked, .lines = !terminal, .total = total};
    ctl_clean(p->name, sizeof p->name, name);
    if (p->on)
        p->start_ns = p->last_ns = rp_now_ns();
}

/* For a log: plain lines without terminal codes. */
static void tell(const ctl_progress *p, uint64_t now)
{
    double seconds = (double)(now - p->start_ns) / 1e9;
    fprintf(stderr, "reducectl: %s: %.2f GB", p->name, (double)p->done / 1e9);
    if (p->total)
        fprintf(stderr, " of %.2f GB, %.0f %%", (double)p->total / 1e9, 100 * (double)p->done / (double)p->total);
    fprintf(stderr, ", %.2f GB/s, %.0f s\n", (double)p->done / seconds / 1e9, seconds);
}

static void draw(const ctl_progress *p, uint64_t now)
{
    double seconds = (double)(now - p->start_ns) / 1e9, rate = (double)p->done / seconds;
    fprintf(stderr, "\r\033[K%.*s ", (int)ctl_fit(p->name, NAME), p->name);
    if (p->total) {
        double part = (double)p->done / (double)p->total;
        int full = (int)(part * WIDTH);
        fputc('[', stderr);
        for (int i = 0; i < WIDTH; i++)
            fputc(i < full ? '=' : i == full ? '>' : ' ', stderr);
        fprintf(stderr, "] %3.0f %%  %.2f GB/s  %.0f s left", 100 * part, rate / 1e9, (1 - part) * seconds / part);
    } else {
        fprintf(stderr, "%.2f GB  %.2f GB/s", (double)p->done / 1e9, rate / 1e9);
    }
    fflush(stderr);
}

void ctl_progress_add(ctl_progress *p, uint64_t bytes)
{
    p->done += bytes;
    if (!p->on || p->done == 0)
        return;
    uint64_t now = rp_now_ns();
    if (now - p->start_ns < FIRST_NS || now - p->last_ns < (p->lines ? LINE_NS : EVERY_NS))
        return;
    p->last_ns = now;
    if (p->lines) {
        tell(p, now);
        return;
    }
    p->shown = true;
    draw(p, now);
}

void ctl_progress_end(ctl_progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
}
