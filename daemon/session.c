#include "daemon/session.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

bool rd_sessions_init(rd_sessions *s, size_t expected)
{
    size_t n = 16;
    while (n < expected)
        n *= 2;
    *s = (rd_sessions){.mask = n - 1, .bucket = calloc(n, sizeof *s->bucket)};
    return s->bucket != NULL;
}

/* pipe ids count upwards: the low bits spread them */
static rd_session **slot(const rd_sessions *s, uint32_t pipe)
{
    rd_session **at = &s->bucket[pipe & s->mask];
    while (*at && (*at)->pipe != pipe)
        at = &(*at)->next;
    return at;
}

rd_session *rd_session_find(const rd_sessions *s, uint32_t pipe) { return *slot(s, pipe); }

rd_session *rd_session_open(rd_sessions *s, uint32_t pipe)
{
    rd_session **at = slot(s, pipe), *x = *at ? NULL : calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->pipe = pipe;
    *at = x;
    s->pipes++;
    return x;
}

bool rd_session_greet(rd_sessions *s, rd_session *x, const char *name, size_t name_len)
{
    uint64_t id = 0;
    while (id == 0)
        if (getrandom(&id, sizeof id, 0) != sizeof id)
            return false;
    x->id = id;
    memcpy(x->name, name, name_len);
    x->name[name_len] = '\0';
    s->greeted++;
    return true;
}

void rd_session_close(rd_sessions *s, rd_session *x)
{
    if (!x)
        return;
    rd_session **at = slot(s, x->pipe);
    *at = x->next;
    s->pipes--;
    s->greeted -= x->id != 0;
    x->dead = true;
    rd_streams_end(&x->streams);
    x->next_dead = s->dead;
    s->dead = x;
}

static void free_session(rd_session *x)
{
    rd_streams_free(&x->streams);
    free(x);
}

void rd_sessions_reap(rd_sessions *s)
{
    for (rd_session **at = &s->dead; *at;) {
        rd_session *x = *at;
        if (x->inflight || atomic_load_explicit(&x->unsent, memory_order_acquire) || rd_streams_busy(&x->streams)) {
            at = &x->next_dead;
            continue;
        }
        *at = x->next_dead;
        free_session(x);
    }
}

uint64_t rd_sessions_streams(const rd_sessions *s)
{
    uint64_t n = 0;
    for (size_t i = 0; i <= s->mask; i++)
        for (const rd_session *x = s->bucket[i]; x; x = x->next)
            n += x->streams.open;
    return n;
}

void rd_sessions_fini(rd_sessions *s)
{
    for (size_t i = 0; s->bucket && i <= s->mask; i++)
        while (s->bucket[i])
            rd_session_close(s, s->bucket[i]);
    while (s->dead) {
        rd_session *x = s->dead;
        s->dead = x->next_dead;
        free_session(x);
    }
    free(s->bucket);
}
