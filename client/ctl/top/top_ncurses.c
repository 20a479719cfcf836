/* A terminal, by ncurses. */
#include <locale.h>
#include <ncurses.h>
#include <unistd.h>

#include "client/ctl/top/top.h"
#include "proto/clock.h"

static SCREEN *screen;

bool ctl_screen_open(char why[CTL_WHY])
{
    setlocale(LC_CTYPE, ""); /* names in UTF-8 */
    if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
        screen = newterm(NULL, stdout, stdin);
    if (!screen) {
        snprintf(why, CTL_WHY, "top needs a terminal, except as 'top --once'");
        return false;
    }
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);
    return true;
}

void ctl_screen_close(void)
{
    endwin();
    delscreen(screen);
}

static void top_line(void *arg, bool heading, const char *line)
{
    int *at = arg;
    if (heading)
        attron(A_REVERSE);
    mvaddstr((*at)++, 0, line);
    if (heading)
        attroff(A_REVERSE);
}

void ctl_screen_show(const ctl_view *v)
{
    int at = 0;
    erase();
    ctl_frame(v, LINES, COLS, top_line, &at);
    refresh();
}

/* Is it a key of a table's order? */
static bool takes_sort(int key, ctl_sort *sort)
{
    static const char keys[] = {
        [CTL_BY_REQUESTS] = 'r', [CTL_BY_DATA] = 'd', [CTL_BY_ENGINE] = 'e', [CTL_BY_TOTAL] = 't', [CTL_BY_NAME] = 'n'};
    for (size_t i = 0; i < sizeof keys; i++)
        if (key == keys[i]) {
            *sort = (ctl_sort)i;
            return true;
        }
    return false;
}

ctl_event ctl_screen_wait(int ms, ctl_sort *sort)
{
    uint64_t end = rp_after_ms((uint64_t)ms);
    for (uint64_t now; (now = rp_now_ns()) < end;) {
        timeout((int)((end - now) / RP_NS_PER_MS) + 1);
        int key = getch();
        if (takes_sort(key, sort))
            return CTL_RESORTED;
        switch (key) {
        case 'q':
            return CTL_QUIT;
        case 'h':
        case '?':
            return CTL_HELP_KEY;
        case KEY_RESIZE:
            return CTL_RESIZED;
        }
    }
    return CTL_TIMEOUT;
}
