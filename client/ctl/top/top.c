/* reducectl top: the daemon's metrics once a second, as rates, on the whole screen or once as text. */
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/text/screen_text.h"
#include "client/ctl/top/top.h"

enum { EVERY_MS = 1000 };

enum { UNREADABLE = 1 }; /* no reduce_err */

static int top_keep(void *arg, const char *text) { return ctl_metrics_read(arg, text) ? 0 : UNREADABLE; }

static int top_keep_process(void *arg, const reduce_entry *e)
{
    ctl_moment *m = arg;
    if (e->kind != REDUCE_KIND_TEXT)
        return 0;
    ctl_process *more = realloc(m->process, (m->n_processes + 1) * sizeof *more);
    if (!more)
        return UNREADABLE;
    m->process = more;
    m->n_processes += ctl_process_read(&m->process[m->n_processes], e->key, e->text);
    return 0;
}

static void free_moment(ctl_moment *m)
{
    ctl_metrics_free(&m->metrics);
    free(m->process);
    *m = (ctl_moment){0};
}

/* 0, a reduce_err or UNREADABLE. A daemon of 0.1 lists no sessions: then there are no processes. */
static int take(reduce_client *c, ctl_moment *m)
{
    *m = (ctl_moment){0};
    int err = reduce_metrics(c, top_keep, &m->metrics);
    if (err)
        return err;
    err = reduce_query(c, REDUCE_TOPIC_SESSIONS, top_keep_process, m);
    return err == REDUCE_E_BAD_MESSAGE ? 0 : err;
}

static void top_text(void *arg, bool heading, const char *line)
{
    (void)heading;
    fprintf(arg, "%s\n", line);
}

static void print_frame(const ctl_view *v, bool json)
{
    if (json)
        ctl_frame_json(v, stdout);
    else
        ctl_frame(v, INT_MAX, ctl_screen_columns(), top_text, stdout);
}

/* One frame over a second, or one each second until the reader closes the pipe. */
static int print_frames(reduce_client *c, const ctl_options *o, ctl_view *v, ctl_moment *then)
{
    ctl_moment now = {0};
    int err = 0;
    do {
        poll(NULL, 0, EVERY_MS);
        err = take(c, &now);
        v->now = &now;
        if (!err)
            print_frame(v, o->format == CTL_JSON);
        free_moment(then);
        *then = now;
    } while (!err && !o->once && !fflush(stdout));
    return err;
}

static int next(reduce_client *c, ctl_moment *then, ctl_moment *now)
{
    if (now->metrics.n) {
        free_moment(then);
        *then = *now;
    }
    return take(c, now);
}

/* Until the user quits, or the daemon does not answer. *then is whatever it is by then. */
static int watch(reduce_client *c, ctl_view *v, ctl_moment *then)
{
    ctl_moment now = {0};
    ctl_history history = {.n = 0};
    int err = 0;
    ctl_event e = CTL_RESIZED;
    v->history = &history;
    while (!err && e != CTL_QUIT) {
        v->now = now.metrics.n ? &now : then;
        ctl_screen_show(v);
        e = ctl_screen_wait(EVERY_MS, &v->sort);
        v->help ^= e == CTL_HELP_KEY;
        if (e == CTL_TIMEOUT) {
            err = next(c, then, &now);
            v->now = &now;
            if (!err)
                ctl_history_add(&history, v);
        }
    }
    free_moment(&now);
    return err;
}

static bool is_here(reduce_client *c)
{
    reduce_info info = REDUCE_INFO_INIT;
    return reduce_get_info(c, &info) == 0 && !strncmp(info.url, "ipc://", 6);
}

int ctl_top(reduce_client *c, const ctl_options *o)
{
    const ctl_where where = {.name = "top"};
    char why[CTL_WHY];
    ctl_moment then;
    ctl_view v = {.then = &then, .names = is_here(c)};
    int err = take(c, &then);
    if (!err && (o->once || o->format == CTL_JSON)) {
        err = print_frames(c, o, &v, &then);
    } else if (!err) {
        if (!ctl_screen_open(why)) {
            free_moment(&then);
            fprintf(stderr, "reducectl: %s\n", why);
            return CTL_FAILED;
        }
        err = watch(c, &v, &then);
        ctl_screen_close();
    }
    free_moment(&then);
    if (err == UNREADABLE)
        return ctl_print_error(o, &where, REDUCE_E_PROTOCOL, "the daemon's metrics cannot be read");
    return err ? ctl_print_error(o, &where, 0, NULL) : CTL_OK;
}
