#include "client/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/error.h"
#include "client/process.h"
#include "client/under_way.h"

int rc_check_owner(const reduce_client *c)
{
    if (!c)
        return rc_error(REDUCE_E_ARGUMENT, "client", "the client is NULL");
    if (c->pid != rc_process())
        return rc_error(REDUCE_E_FORKED, "client",
                        "this client belongs to the process that opened it, not to its forked child");
    return 0;
}

int rc_check(const reduce_client *c)
{
    const int err = rc_check_owner(c);
    return err || atomic_load(&c->connected) ? err : c->connect((reduce_client *)c, true); /* what is const is its meaning */
}

/* The program's strings may be gone when a lazy client connects, or a lost daemon is started again. False: no memory. */
static bool keep_strings(reduce_client *c, const char *url)
{
    const char **each[] = {&c->opts.name, &c->opts.daemon, &c->opts.tls_ca, &c->opts.tls_cert, &c->opts.tls_key};
    bool kept = !url || (c->given = strdup(url));
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        kept &= !*each[i] || (*each[i] = strdup(*each[i]));
    return kept;
}

static void free_strings(reduce_client *c)
{
    const char *each[] = {c->given, c->opts.name, c->opts.daemon, c->opts.tls_ca, c->opts.tls_cert, c->opts.tls_key};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        free((char *)each[i]);
}

reduce_client *rc_client_new(const char *url, const reduce_open_opts *o)
{
    reduce_client *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->opening, NULL);
    rp_cond_init(&c->changed);
    rc_fdpass_init(&c->fdpass);
    c->stage.parts = rc_large_under_way();
    c->pid = rc_process();
    c->refs = 1;
    c->started = c->ended_fd = -1;
    c->opts = *o;
    const char *name = o->name ? o->name : program_invocation_short_name;
    memcpy(c->name, name, strnlen(name, RP_MAX_NAME));
    rc_hello_init(c);
    if (keep_strings(c, url))
        return c;
    rc_unref(c);
    return NULL;
}

void rc_unref(reduce_client *c)
{
    rc_enter(c);
    bool last = --c->refs == 0;
    rc_leave(c);
    if (!last)
        return;
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->opening);
    pthread_mutex_destroy(&c->lock);
    rc_fdpass_fini(&c->fdpass);
    free_strings(c);
    if (c->started >= 0)
        close(c->started);
    free(c);
}
