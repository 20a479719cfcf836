#include "daemon/net/metrics_http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/loopback_user.h"
#include "daemon/net/http_request.h"
#include "daemon/net/limits.h"
#include "proto/clock.h"

enum {
    MAX_PEERS = 64,
    BACKLOG = 128,
    ASK_MS = 10000,      /* until the end of a head, from its first byte or from the connection's start */
    TAKE_MS = 10000,     /* until the peer has taken a reply, of some 10 KB */
    READ_LAST = 1 << 20, /* bytes that are read and dropped before a connection is closed */
    REST_MS = 120000     /* between requests: Prometheus asks once a minute, or more often */
};

/* The page runs nothing but its own script, and no other page may frame it. */
#define HEADERS                                                                                            \
    "Content-Security-Policy: default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors "   \
    "'none'\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-cache" \
    "\r\n"

typedef struct peer {
    int fd;
    uint64_t until_ns;  /* its connection ends then */
    uint64_t silent_ns; /* since when nothing came or went */
    char in[RD_HTTP_MAX_HEAD];
    size_t n;
    char *out; /* NULL: none */
    size_t out_size, sent;
    bool last; /* the connection ends with `out` */
} peer;

struct rd_http {
    const rd_http_page *pages;
    size_t n_pages;
    void *arg;
    int listener, stop; /* stop: an eventfd */
    pthread_t thread;
    bool running;
    uint64_t accept_at_ns; /* accept no peer before: there was no descriptor */
    peer *peers[MAX_PEERS];
    unsigned n_peers;
};

/* ---- replies ---- */
static const char *status_text(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 413:
        return "Content Too Large";
    case 431:
        return "Request Header Fields Too Large";
    case 503:
        return "Service Unavailable";
    default:
        return "Bad Request";
    }
}

/* A page in two encodings says which one this is, and that the choice is the request's. */
static const char *encoding_fields(const rd_http_request *r, const rd_http_page *page)
{
    if (!page || !page->small)
        return "";
    return r->gzip ? "Vary: Accept-Encoding\r\nContent-Encoding: gzip\r\n" : "Vary: Accept-Encoding\r\n";
}

/* False: no memory. */
static bool put_reply(peer *p, const rd_http_request *r, int status, const rd_http_page *page, const void *body, size_t size)
{
    char head[768];
    int n = snprintf(head, sizeof head, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s%s%s" HEADERS "\r\n",
                     status, status_text(status), page ? page->type : "text/plain; charset=utf-8", size,
                     encoding_fields(r, page), status == 405 ? "Allow: GET, HEAD\r\n" : "",
                     r->keep ? "" : "Connection: close\r\n");
    p->out_size = (size_t)n + (r->head_only ? 0 : size);
    p->out = malloc(p->out_size);
    if (!p->out)
        return false;
    memcpy(p->out, head, (size_t)n);
    if (!r->head_only && size)
        memcpy(p->out + n, body, size);
    p->sent = 0;
    p->last = !r->keep;
    p->until_ns = rp_after_ms(TAKE_MS);
    return true;
}

static bool put_status(peer *p, const rd_http_request *r, int status)
{
    const char *text = status_text(status);
    return put_reply(p, r, status, NULL, text, strlen(text));
}

static const rd_http_page *find_page(const rd_http *h, const char *path)
{
    for (size_t i = 0; i < h->n_pages; i++)
        if (!strcmp(h->pages[i].path, path))
            return &h->pages[i];
    return NULL;
}

/* Another site may give this machine a name of its own (DNS rebinding). A browser that asks by that name asks for the site, not
 * for its user. */
static char *own_text(const rd_http *h, const rd_http_page *page, const peer *p, const rd_http_request *r, size_t *size)
{
    uint64_t uid;
    bool known = r->host_is_local && rd_loopback_user(p->fd, &uid);
    return page->own(h->arg, known ? &uid : NULL, size);
}

static bool answer(const rd_http *h, peer *p, const rd_http_request *r)
{
    const rd_http_page *page = r->status == 200 ? find_page(h, r->path) : NULL;
    if (r->status != 200)
        return put_status(p, r, r->status);
    if (!page)
        return put_status(p, r, 404);
    if (page->bytes && r->gzip)
        return put_reply(p, r, 200, page, page->small, page->small_size);
    if (page->bytes)
        return put_reply(p, r, 200, page, page->bytes, page->size);
    size_t size = 0;
    char *text = page->own ? own_text(h, page, p, r, &size) : page->text(h->arg, &size);
    bool put = text ? put_reply(p, r, 200, page, text, size) : put_status(p, r, 503);
    free(text);
    return put;
}

/* ---- one peer; false: its connection is over ---- */
static bool send_out(peer *p)
{
    while (p->sent < p->out_size) {
        ssize_t n = send(p->fd, p->out + p->sent, p->out_size - p->sent, MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        p->sent += (size_t)n;
        p->silent_ns = rp_now_ns();
    }
    free(p->out);
    p->out = NULL;
    p->until_ns = rp_after_ms(p->n ? ASK_MS : REST_MS);
    return !p->last;
}

/* Answer the requests that have arrived, in order. */
static bool answer_all(const rd_http *h, peer *p)
{
    rd_http_request r;
    while (!p->out && p->n && rd_http_parse(&r, p->in, p->n)) {
        p->n -= r.size < p->n ? r.size : p->n;
        memmove(p->in, p->in + r.size, p->n);
        if (!answer(h, p, &r) || !send_out(p))
            return false;
    }
    return true;
}

static bool receive(const rd_http *h, peer *p)
{
    ssize_t n = recv(p->fd, p->in + p->n, sizeof p->in - p->n, 0);
    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    if (p->n == 0)
        p->until_ns = rp_after_ms(ASK_MS);
    p->n += (size_t)n;
    p->silent_ns = rp_now_ns();
    return answer_all(h, p);
}

static bool serve_peer(const rd_http *h, peer *p, short events, uint64_t now)
{
    if (now >= p->until_ns || (events & (POLLERR | POLLNVAL)))
        return false;
    if (p->out && (events & (POLLOUT | POLLHUP)))
        return send_out(p) && answer_all(h, p);
    return p->out || !(events & (POLLIN | POLLHUP)) || receive(h, p);
}

/* ---- all peers ---- */

/* Closing with unread input would reset the connection and lose a reply that is still being sent. A peer that sends on and on
 * must not occupy the thread. */
static void read_last(peer *p)
{
    ssize_t n = 1;
    for (size_t read = 0; n > 0 && p->last && read < READ_LAST; read += (size_t)n)
        n = recv(p->fd, p->in, sizeof p->in, MSG_DONTWAIT);
}

static void drop_peer(rd_http *h, unsigned i)
{
    peer *p = h->peers[i];
    h->peers[i] = h->peers[--h->n_peers];
    shutdown(p->fd, SHUT_WR);
    read_last(p);
    close(p->fd);
    free(p->out);
    free(p);
}

static void drop_silent(rd_http *h)
{
    unsigned most = 0;
    for (unsigned i = 1; i < h->n_peers; i++)
        if (h->peers[i]->silent_ns < h->peers[most]->silent_ns)
            most = i;
    drop_peer(h, most);
}

static void accept_peer(rd_http *h)
{
    int fd = accept4(h->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            h->accept_at_ns = rp_after_ms(RD_ACCEPT_REST_MS);
        return;
    }
    peer *p = malloc(sizeof *p);
    if (!p) {
        close(fd);
        return;
    }
    if (h->n_peers == MAX_PEERS)
        drop_silent(h);
    p->fd = fd;
    p->silent_ns = rp_now_ns();
    p->until_ns = rp_after_ms(ASK_MS);
    p->n = p->out_size = p->sent = 0;
    p->out = NULL;
    p->last = false;
    h->peers[h->n_peers++] = p;
}

/* Milliseconds until something is due. */
static int next_due(const rd_http *h, uint64_t now)
{
    uint64_t due = h->accept_at_ns > now ? h->accept_at_ns : UINT64_MAX;
    for (unsigned i = 0; i < h->n_peers; i++)
        due = h->peers[i]->until_ns < due ? h->peers[i]->until_ns : due;
    return due == UINT64_MAX ? -1 : due <= now ? 0 : (int)((due - now) / RP_NS_PER_MS) + 1;
}

static void serve_peers(rd_http *h, const struct pollfd *p, uint64_t now)
{
    for (unsigned i = h->n_peers; i-- > 0;) /* backwards: drop_peer moves the last peer, already served, into the freed place */
        if (!serve_peer(h, h->peers[i], p[i].revents, now))
            drop_peer(h, i);
}

static void *metrics_http_run(void *arg)
{
    rd_http *h = arg;
    struct pollfd all[2 + MAX_PEERS];
    while (true) {
        uint64_t now = rp_now_ns();
        all[0] = (struct pollfd){h->stop, POLLIN, 0};
        all[1] = (struct pollfd){h->accept_at_ns > now ? -1 : h->listener, POLLIN, 0};
        for (unsigned i = 0; i < h->n_peers; i++)
            all[2 + i] = (struct pollfd){h->peers[i]->fd, h->peers[i]->out ? POLLOUT : POLLIN, 0};
        if (poll(all, 2 + h->n_peers, next_due(h, now)) < 0 && errno != EINTR)
            break;
        if (all[0].revents)
            break;
        serve_peers(h, all + 2, rp_now_ns());
        if (all[1].revents)
            accept_peer(h);
    }
    while (h->n_peers)
        drop_peer(h, h->n_peers - 1);
    return NULL;
}

/* ---- open and close ---- */

/* "http://ADDRESS:PORT", ADDRESS in brackets or not, into its parts. */
static bool cut_url(const char *url, char host[64], const char **port)
{
    const char *from = url + strlen("http://"), *colon = strrchr(from, ':');
    bool brackets = *from == '[';
    long n = colon ? colon - from - 2 * brackets : 0;
    if (n <= 0 || n >= 64)
        return false;
    memcpy(host, from + brackets, (size_t)n);
    host[n] = '\0';
    *port = colon + 1;
    return true;
}

static int listen_at(const struct addrinfo *a)
{
    int one = 1, fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) && !bind(fd, a->ai_addr, a->ai_addrlen) &&
        !listen(fd, BACKLOG))
        return fd;
    int err = errno;
    if (fd >= 0)
        close(fd);
    errno = err;
    return -1;
}

static bool open_listener(rd_http *h, const char *url, char *why, size_t cap)
{
    char host[64];
    const char *port;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *all;
    int err = cut_url(url, host, &port) ? getaddrinfo(host, port, &hints, &all) : EAI_NONAME;
    if (err) {
        snprintf(why, cap, "%s: %s", url, gai_strerror(err));
        return false;
    }
    h->listener = listen_at(all);
    if (h->listener < 0)
        snprintf(why, cap, "%s: %s", url, strerror(errno));
    freeaddrinfo(all);
    return h->listener >= 0;
}

static void name_bound(const rd_http *h, const char *url, char *bound, size_t cap)
{
    struct sockaddr_storage a = {.ss_family = AF_UNSPEC};
    socklen_t n = sizeof a;
    int host = (int)(strrchr(url, ':') - url);
    getsockname(h->listener, (struct sockaddr *)&a, &n);
    in_port_t port = a.ss_family == AF_INET ? ((struct sockaddr_in *)&a)->sin_port : ((struct sockaddr_in6 *)&a)->sin6_port;
    snprintf(bound, cap, "%.*s:%u%s", host, url, ntohs(port), h->pages[0].path);
}

rd_http *rd_http_open(const char *url, int passed, const rd_http_page *pages, size_t n, void *arg, char *bound,
                      size_t bound_cap, char *why, size_t cap)
{
    rd_http *h = calloc(1, sizeof *h);
    if (!h) {
        snprintf(why, cap, "%s: no memory", url);
        return NULL;
    }
    *h = (rd_http){.pages = pages, .n_pages = n, .arg = arg, .listener = passed};
    h->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->stop < 0)
        snprintf(why, cap, "%s: %s", url, strerror(errno));
    else if (passed >= 0 || open_listener(h, url, why, cap)) {
        name_bound(h, url, bound, bound_cap);
        int err = pthread_create(&h->thread, NULL, metrics_http_run, h);
        h->running = err == 0;
        if (h->running)
            return h;
        snprintf(why, cap, "%s: %s", url, strerror(err));
    }
    rd_http_close(h);
    return NULL;
}

void rd_http_close(rd_http *h)
{
    if (!h)
        return;
    uint64_t one = 1;
    if (h->running && write(h->stop, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(h->thread, NULL);
    if (h->listener >= 0)
        close(h->listener);
    if (h->stop >= 0)
        close(h->stop);
    free(h);
}
