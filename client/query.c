/* What the daemon says about itself: ping, info, query, metrics. */
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/error.h"
#include "client/sized.h"
#include "proto/clock.h"

int reduce_ping(reduce_client *c, uint64_t *ns)
{
    int err = rc_check(c);
    if (err)
        return err;
    rc_call call = {.type = RP_MSG_PING};
    uint64_t start = rp_now_ns();
    if (rc_call_wait(c, &call, NULL, NULL))
        return rc_report(&call.fault);
    if (ns)
        *ns = rp_now_ns() - start;
    return 0;
}

int reduce_get_info(const reduce_client *client, reduce_info *info)
{
    int err = rc_check_owner(client);
    if (err)
        return err;
    reduce_client *c = (reduce_client *)client; /* the mutex is not part of what is const */
    reduce_info mine = REDUCE_INFO_INIT;
    rp_fault f;
    if (rc_check_sized(info, RC_UP_TO(reduce_info, side), "info", &f))
        return rc_report(&f);
    rc_enter(c);
    mine.wire_version = c->welcome.version;
    mine.max_data = c->welcome.max_data;
    mine.chunk_bytes = c->welcome.chunk_hint;
    mine.max_inflight = c->welcome.max_inflight;
    mine.reconnects = c->reconnects;
    mine.autostarted = c->autostarted;
    mine.priority = c->welcome.priority;
    memcpy(mine.url, c->url, sizeof c->url);
    memcpy(mine.server, c->server, sizeof c->server);
    memcpy(mine.side, c->fdpass.why, sizeof c->fdpass.why);
    rc_leave(c);
    rc_give_sized(info, &mine, sizeof mine);
    return 0;
}

/* Copy `n` bytes as a string. */
static void text_of(char *out, const char *from, size_t n)
{
    memcpy(out, from, n);
    out[n] = 0;
    rc_clean_text(out);
}

static int each_entry(const uint8_t *body, size_t len, int (*each)(void *, const reduce_entry *), void *arg)
{
    rp_reader r = {.body = body, .len = len};
    rp_entry e;
    rp_fault f;
    for (bool end;;) {
        if (rp_get_entry(&r, &e, &end, &f))
            return rc_error(REDUCE_E_PROTOCOL, f.field, "malformed reply to query: %s", f.text);
        if (end)
            return 0;
        char key[RP_MAX_KEY + 1], text[RP_MAX_VALUE + 1] = "";
        text_of(key, e.key, e.key_len);
        if (e.kind == RP_KIND_TEXT)
            text_of(text, e.text, e.text_len);
        reduce_entry entry = {key, e.kind, e.u64, e.f64, text};
        int stop = each(arg, &entry);
        if (stop)
            return stop;
    }
}

static int query(reduce_client *c, int topic, uint8_t **body, size_t *len)
{
    rc_call call = {.type = RP_MSG_QUERY, .head_len = RP_QUERY_SIZE};
    rp_put_query(call.head, (uint32_t)topic);
    return rc_call_wait(c, &call, body, len) ? rc_report(&call.fault) : 0;
}

int reduce_query(reduce_client *c, int topic, int (*each)(void *arg, const reduce_entry *e), void *arg)
{
    uint8_t *body;
    size_t len;
    int err = rc_check(c);
    if (err)
        return err;
    if (!each)
        return rc_error(REDUCE_E_ARGUMENT, "each", "the function is NULL");
    if (topic != REDUCE_TOPIC_INFO && topic != REDUCE_TOPIC_STATUS && topic != REDUCE_TOPIC_REQUESTS &&
        topic != REDUCE_TOPIC_SESSIONS) /* others have no entries */
        return rc_error(REDUCE_E_ARGUMENT, "topic", "unknown topic %d", topic);
    err = query(c, topic, &body, &len);
    if (err)
        return err;
    err = each_entry(body, len, each, arg);
    free(body);
    return err;
}

static int take_text(const uint8_t *body, size_t len, int (*take)(void *arg, const char *text), void *arg)
{
    if (len == 0 || memchr(body, 0, len))
        return rc_error(REDUCE_E_PROTOCOL, "metrics", "malformed reply to query: no text");
    char *text = malloc(len + 1);
    if (!text)
        return rc_error(REDUCE_E_NO_MEMORY, "metrics", "no memory for %zu bytes", len);
    memcpy(text, body, len);
    text[len] = 0;
    rc_clean_lines(text);
    int err = take(arg, text);
    free(text);
    return err;
}

int reduce_metrics(reduce_client *c, int (*take)(void *arg, const char *text), void *arg)
{
    uint8_t *body;
    size_t len;
    int err = rc_check(c);
    if (err)
        return err;
    if (!take)
        return rc_error(REDUCE_E_ARGUMENT, "take", "the function is NULL");
    err = query(c, RP_TOPIC_METRICS, &body, &len);
    if (err)
        return err;
    err = take_text(body, len, take, arg);
    free(body);
    return err;
}
