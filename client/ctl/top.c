/* reducectl top: the daemon's metrics once a second, as rates, on the whole screen or once as text. */
#include <limits.h>
#include <poll.h>

#include "client/ctl/top.h"

enum { EVERY_MS = 1000 };

enum { UNREADABLE = 1 }; /* no reduce_err */

static int top_keep(void *arg, const char *text) { return ctl_metrics_read(arg, text) ? 0 : UNREADABLE; }

/* 0, a reduce_err or UNREADABLE. */
static int take(reduce_client *c, ctl_metrics *m)
{
    *m = (ctl_metrics){0};
    return reduce_metrics(c, top_keep, m);
}

static void top_text(void *arg, bool heading, const char *line)
{
    (void)heading;
    fprintf(arg, "%s\n", line);
}

static int once(reduce_client *c, ctl_metrics *then)
{
    ctl_metrics now;
    poll(NULL, 0, EVERY_MS);
    int err = take(c, &now);
    if (!err)
        ctl_frame(then, &now, INT_MAX, top_text, stdout);
    ctl_metrics_free(&now);
    return err;
}

static int next(reduce_client *c, ctl_metrics *then, ctl_metrics *now)
{
    if (now->n) {
        ctl_metrics_free(then);
        *then = *now;
    }
    return take(c, now);
}

/* Until the user quits, or the daemon does not answer. *then is whatever it is by then. */
static int watch(reduce_client *c, ctl_metrics *then)
{
    ctl_metrics now = {0};
    int err = 0;
    ctl_event e = CTL_RESIZED;
    while (!err && e != CTL_QUIT) {
        ctl_screen_show(then, now.n ? &now : then);
        e = ctl_screen_wait(EVERY_MS);
        if (e == CTL_TIMEOUT)
            err = next(c, then, &now);
    }
    ctl_metrics_free(&now);
    return err;
}

int ctl_top(reduce_client *c, const ctl_options *o)
{
    const ctl_where where = {.name = "top"};
    char why[CTL_WHY];
    ctl_metrics then;
    int err = take(c, &then);
    if (!err && o->once) {
        err = once(c, &then);
    } else if (!err) {
        if (!ctl_screen_open(why)) {
            ctl_metrics_free(&then);
            fprintf(stderr, "reducectl: %s\n", why);
            return CTL_FAILED;
        }
        err = watch(c, &then);
        ctl_screen_close();
    }
    ctl_metrics_free(&then);
    if (err == UNREADABLE)
        return ctl_print_error(o, &where, REDUCE_E_PROTOCOL, "the daemon's metrics cannot be read");
    return err ? ctl_print_error(o, &where, 0, NULL) : CTL_OK;
}
