#include "daemon/net/metrics_http.h"

#include <arpa/inet.h>
#include <nng/nng.h>
#include <nng/supplemental/http/http.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH "/metrics"
#define CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* What requests need. nng ends its server some time after the last call, so this is freed with its last handler. */
typedef struct {
    pthread_mutex_t lock;
    rd_http_text *text; /* NULL: closed */
    void *arg;
} source;

struct rd_http {
    nng_http_server *server;
    source *source; /* the handler's; NULL before there is one */
};

/* ---- nng's threads ---- */
static char *text_of(source *s, size_t *len)
{
    pthread_mutex_lock(&s->lock);
    char *text = s->text ? s->text(s->arg, len) : NULL;
    pthread_mutex_unlock(&s->lock);
    return text;
}

static int fill(nng_http_res *res, source *s)
{
    size_t len;
    char *text = text_of(s, &len);
    int err = text ? nng_http_res_copy_data(res, text, len) : nng_http_res_set_status(res, NNG_HTTP_STATUS_SERVICE_UNAVAILABLE);
    free(text);
    if (!err && text)
        err = nng_http_res_set_header(res, "Content-Type", CONTENT_TYPE);
    return err;
}

static void on_request(nng_aio *aio)
{
    nng_http_handler *handler = nng_aio_get_input(aio, 1);
    nng_http_res *res = NULL;
    int err = nng_http_res_alloc(&res);
    if (!err)
        err = fill(res, nng_http_handler_get_data(handler));
    if (err)
        nng_http_res_free(res);
    else
        nng_aio_set_output(aio, 0, res);
    nng_aio_finish(aio, err);
}

static void free_source(void *arg)
{
    source *s = arg;
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* ---- open and close ---- */
static source *new_source(rd_http_text *text, void *arg)
{
    source *s = calloc(1, sizeof *s);
    if (!s || pthread_mutex_init(&s->lock, NULL) != 0) {
        free(s);
        return NULL;
    }
    s->text = text;
    s->arg = arg;
    return s;
}

/* The source is the handler's from here on, whatever comes. */
static int add_handler(nng_http_server *server, source *s)
{
    nng_http_handler *handler;
    int err = nng_http_handler_alloc(&handler, PATH, on_request);
    if (err) {
        free_source(s);
        return err;
    }
    nng_http_handler_set_data(handler, s, free_source);
    err = nng_http_server_add_handler(server, handler);
    if (err)
        nng_http_handler_free(handler);
    return err;
}

static void tell_bound(nng_http_server *server, const char *url, char *bound, size_t cap)
{
    nng_sockaddr a;
    int host = (int)(strrchr(url, ':') - url);
    bool told = nng_http_server_get_addr(server, &a) == 0 && (a.s_family == NNG_AF_INET || a.s_family == NNG_AF_INET6);
    if (told)
        snprintf(bound, cap, "%.*s:%u" PATH, host, url, ntohs(a.s_family == NNG_AF_INET ? a.s_in.sa_port : a.s_in6.sa_port));
    else
        snprintf(bound, cap, "%s" PATH, url);
}

static int hold(nng_http_server **server, const char *url)
{
    nng_url *parsed;
    int err = nng_url_parse(&parsed, url);
    if (err)
        return err;
    err = nng_http_server_hold(server, parsed);
    nng_url_free(parsed);
    return err;
}

static int start(rd_http *h, rd_http_text *text, void *arg, const char *url)
{
    int err = hold(&h->server, url);
    source *s = err ? NULL : new_source(text, arg);
    if (!err)
        err = s ? add_handler(h->server, s) : NNG_ENOMEM;
    if (err)
        return err;
    h->source = s;
    return nng_http_server_start(h->server);
}

rd_http *rd_http_open(const char *url, rd_http_text *text, void *arg, char *bound, size_t bound_cap, char *why, size_t cap)
{
    rd_http *h = calloc(1, sizeof *h);
    int err = h ? start(h, text, arg, url) : NNG_ENOMEM;
    if (!err) {
        tell_bound(h->server, url, bound, bound_cap);
        return h;
    }
    snprintf(why, cap, "%s: %s", url, nng_strerror(err));
    rd_http_close(h);
    return NULL;
}

void rd_http_close(rd_http *h)
{
    if (!h)
        return;
    if (h->source) {
        pthread_mutex_lock(&h->source->lock);
        h->source->text = NULL;
        pthread_mutex_unlock(&h->source->lock);
    }
    if (h->server) {
        nng_http_server_stop(h->server);
        nng_http_server_release(h->server);
    }
    free(h);
}
