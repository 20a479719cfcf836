#include "daemon/state/session.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/base/brief_lock.h"

bool rd_sessions_init(rd_sessions *s, rd_users *users, size_t expected)
{
    size_t n = 16;
    while (n < expected)
        n *= 2;
    *s = (rd_sessions){.users = users, .mask = n - 1, .bucket = calloc(n, sizeof *s->bucket)};
    return s->bucket != NULL && rd_brief_lock_init(&s->lock);
}

/* connection ids count upwards: the low bits spread them */
static rd_session **slot(const rd_sessions *s, uint32_t connection)
{
    rd_session **at = &s->bucket[connection & s->mask];
    while (*at && (*at)->connection != connection)
        at = &(*at)->next;
    return at;
}

rd_session *rd_session_find(const rd_sessions *s, uint32_t connection) { return *slot(s, connection); }

rd_session *rd_session_open(rd_sessions *s, uint32_t connection)
{
    rd_session **at = slot(s, connection), *x = *at ? NULL : calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->connection = connection;
    pthread_mutex_lock(&s->lock);
    *at = x;
    pthread_mutex_unlock(&s->lock);
    s->connections++;
    return x;
}

static rd_user *owner_of(rd_users *u, const rd_peer *p)
{
    return p->name[0] ? rd_user_get_named(u, p->name) : rd_user_get(u, p->local ? p->uid : RD_NETWORK);
}

bool rd_session_own(rd_sessions *s, rd_session *x)
{
    x->owner = owner_of(s->users, &x->peer);
    if (x->owner) {
        if (x->peer.name[0])
            x->peer.uid = x->owner->uid;
        rd_charge_anyway(s->users, x->owner, RD_HELD_CONNECTIONS, 1);
        x->unsent.of = &x->owner->charges.unsent;
        x->streams.users = s->users;
        x->streams.user = x->owner;
    }
    return x->owner != NULL;
}

void rd_session_bar(rd_sessions *s, rd_session *x)
{
    x->barred = true;
    s->barred++;
}

rd_session *rd_session_by_id(const rd_sessions *s, uint64_t id)
{
    for (size_t i = 0; id && i <= s->mask; i++)
        for (rd_session *x = s->bucket[i]; x; x = x->next)
            if (x->id == id)
                return x;
    return NULL;
}

bool rd_session_greet(rd_sessions *s, rd_session *x, const char *name, size_t name_len, bool side)
{
    uint64_t id = 0;
    if (side && getrandom(x->token, sizeof x->token, 0) != sizeof x->token)
        return false;
    while (id == 0)
        if (getrandom(&id, sizeof id, 0) != sizeof id)
            return false;
    pthread_mutex_lock(&s->lock);
    x->id = id;
    pthread_mutex_unlock(&s->lock);
    memcpy(x->name, name, name_len);
    x->name[name_len] = '\0';
    s->greeted++;
    rd_charge_anyway(s->users, x->owner, RD_HELD_SESSIONS, 1);
    return true;
}

rd_session *rd_session_hold(rd_sessions *s, uint32_t connection, uint64_t id, unsigned max_held, unsigned max_unsent)
{
    pthread_mutex_lock(&s->lock);
    rd_session *x = rd_session_find(s, connection);
    if (x && (x->id == 0 || x->id != id || atomic_load_explicit(&x->held, memory_order_relaxed) >= max_held ||
              rd_account_things(&x->unsent) > max_unsent))
        x = NULL;
    if (x)
        atomic_fetch_add_explicit(&x->held, 1, memory_order_relaxed);
    pthread_mutex_unlock(&s->lock);
    return x;
}

void rd_session_release(rd_session *x) { atomic_fetch_sub_explicit(&x->held, 1, memory_order_release); }

void rd_session_close(rd_sessions *s, rd_session *x)
{
    if (!x)
        return;
    rd_session **at = slot(s, x->connection);
    pthread_mutex_lock(&s->lock);
    *at = x->next;
    pthread_mutex_unlock(&s->lock);
    s->connections--;
    s->greeted -= x->id != 0;
    s->barred -= x->barred;
    if (x->owner) {
        rd_discharge(s->users, x->owner, RD_HELD_CONNECTIONS, 1);
        rd_discharge(s->users, x->owner, RD_HELD_SESSIONS, x->id != 0);
    }
    x->dead = true;
    rd_streams_end(&x->streams);
    x->next_dead = s->dead;
    s->dead = x;
}

static void free_session(rd_sessions *s, rd_session *x)
{
    rd_streams_free(&x->streams);
    if (x->owner)
        rd_user_put(s->users, x->owner);
    free(x);
}

void rd_sessions_reap(rd_sessions *s)
{
    for (rd_session **at = &s->dead; *at;) {
        rd_session *x = *at;
        /* `held` first: fastpath.c charges `unsent` before it releases `held` */
        if (x->inflight || atomic_load_explicit(&x->held, memory_order_acquire) || rd_account_things(&x->unsent) ||
            rd_streams_busy(&x->streams)) {
            at = &x->next_dead;
            continue;
        }
        *at = x->next_dead;
        free_session(s, x);
    }
}

bool rd_session_is_admin(const rd_session *x) { return x->peer.local && rd_uid_is_admin(x->peer.uid); }

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
        free_session(s, x);
    }
    if (s->bucket)
        pthread_mutex_destroy(&s->lock);
    free(s->bucket);
}
