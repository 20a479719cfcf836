/* A bar on standard error for work that takes over a second, if that is a terminal. */
#include <inttypes.h>
#include <unistd.h>

#include "client/clock.h"
#include "client/ctl/ctl.h"

static const uint64_t FIRST_NS = 1000000000, EVERY_NS = 100000000;
enum { WIDTH = 24 };

void ctl_progress_start(ctl_progress *p, const char *name, uint64_t total, bool allowed)
{
    *p = (ctl_progress){.on = allowed && isatty(STDERR_FILENO), .name = name, .total = total};
    if (p->on)
        p->start_ns = p->last_ns = rc_now_ns();
}

static void draw(const ctl_progress *p, uint64_t now)
{
    double seconds = (double)(now - p->start_ns) / 1e9, rate = (double)p->done / seconds;
    fprintf(stderr, "\r\033[K%.40s ", p->name);
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
    uint64_t now = rc_now_ns();
    if (now - p->start_ns < FIRST_NS || now - p->last_ns < EVERY_NS)
        return;
    p->last_ns = now;
    p->shown = true;
    draw(p, now);
}

void ctl_progress_end(ctl_progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
}
