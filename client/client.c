#include "client/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/error.h"
#include "client/under_way.h"

int rc_check(const reduce_client *c)
{
    if (!c)
        return rc_error(REDUCE_E_ARGUMENT, "client", "the client is NULL");
    if (c->pid != getpid())
        return rc_error(REDUCE_E_FORKED, "client",
                        "this client belongs to the process that opened it, not to its forked child");
    return 0;
}

reduce_client *rc_client_new(const reduce_open_opts *o)
{
    reduce_client *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    pthread_mutex_init(&c->lock, NULL);
    rc_cond_init(&c->changed);
    rc_fdpass_init(&c->fdpass);
    c->stage.parts = rc_large_under_way();
    c->pid = getpid();
    c->refs = 1;
    c->started = c->ended_fd = -1;
    c->opts = *o;
    const char *name = o->name ? o->name : program_invocation_short_name;
    memcpy(c->name, name, strnlen(name, RP_MAX_NAME));
    rc_hello_init(c);
    return c;
}

void rc_unref(reduce_client *c)
{
    rc_enter(c);
    bool last = --c->refs == 0;
    rc_leave(c);
    if (!last)
        return;
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    rc_fdpass_fini(&c->fdpass);
    free(c->daemon);
    if (c->started >= 0)
        close(c->started);
    free(c);
}
