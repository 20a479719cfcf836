/* Replaces top_ncurses.c in builds without ncurses. */
#include "client/ctl/top/top.h"

bool ctl_screen_open(char why[CTL_WHY])
{
    snprintf(why, CTL_WHY, "this reducectl was built without ncurses, so only 'top --once' is possible");
    return false;
}

void ctl_screen_close(void) {}

void ctl_screen_show(const ctl_view *v) { (void)v; }

ctl_event ctl_screen_wait(int ms, ctl_sort *sort)
{
    (void)ms;
    (void)sort;
    return CTL_QUIT;
}
