#include "daemon/net/activation.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/paths.h"
#include "proto/limits.h"

typedef struct found {
    union {
        struct sockaddr any;
        struct sockaddr_un local;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    int type;
    bool listens;
    char url[RD_MAX_URL]; /* in the form of the setting `listen` */
} found;

static int option(int fd, int name)
{
    int value = 0;
    socklen_t n = sizeof value;
    return getsockopt(fd, SOL_SOCKET, name, &value, &n) == 0 ? value : 0;
}

static void name_it(found *s, socklen_t len)
{
    char host[INET6_ADDRSTRLEN];
    size_t named = offsetof(struct sockaddr_un, sun_path);
    if (s->address.any.sa_family == AF_UNIX && len > named && s->address.local.sun_path[0])
        snprintf(s->url, sizeof s->url, "ipc://%.*s", (int)(len - named), s->address.local.sun_path);
    else if (s->address.any.sa_family == AF_INET)
        snprintf(s->url, sizeof s->url, "http://%s:%u", inet_ntop(AF_INET, &s->address.v4.sin_addr, host, sizeof host),
                 ntohs(s->address.v4.sin_port));
    else if (s->address.any.sa_family == AF_INET6)
        snprintf(s->url, sizeof s->url, "http://[%s]:%u", inet_ntop(AF_INET6, &s->address.v6.sin6_addr, host, sizeof host),
                 ntohs(s->address.v6.sin6_port));
    else
        snprintf(s->url, sizeof s->url, "a socket without a path");
}

static found look_at(int fd)
{
    found s = {.type = option(fd, SO_TYPE), .listens = option(fd, SO_ACCEPTCONN) != 0};
    socklen_t len = sizeof s.address;
    if (getsockname(fd, &s.address.any, &len) != 0)
        len = 0;
    name_it(&s, len);
    return s;
}

/* Where the socket's descriptor is stored; NULL: no setting asks for such a socket. */
static int *place_of(rd_activated *a, const rd_config *c, const found *s)
{
    char side[RD_MAX_URL + sizeof RP_SIDE_SUFFIX];
    if (s->type == SOCK_STREAM && c->metrics_url[0] && strcmp(s->url, c->metrics_url) == 0)
        return &a->metrics;
    for (uint64_t i = 0; i < c->listens && s->listens; i++) {
        snprintf(side, sizeof side, "%s" RP_SIDE_SUFFIX, c->listen[i]);
        if (s->type == SOCK_STREAM && strcmp(s->url, c->listen[i]) == 0 && rd_ipc_path(c->listen[i]))
            return &a->messages[i];
        if (s->type == SOCK_SEQPACKET && strcmp(s->url, side) == 0 && rd_ipc_path(c->listen[i]))
            return &a->fdpass[i];
    }
    return NULL;
}

static const char *kind_of(const found *s)
{
    if (!s->listens)
        return "a socket that does not listen";
    return s->type == SOCK_STREAM      ? "a stream socket"
           : s->type == SOCK_SEQPACKET ? "a sequential-packet socket"
                                       : "a datagram socket";
}

static bool sort_one(rd_activated *a, rd_passed *p, int i, const rd_config *c, char *why, size_t cap)
{
    found s = look_at(p->fds[i]);
    int *place = s.listens ? place_of(a, c, &s) : NULL;
    if (place && *place < 0) {
        *place = rd_passed_take(p, i);
        fcntl(*place, F_SETFL, O_NONBLOCK);
        return true;
    }
    snprintf(why, cap, "the socket unit passes %s at %.120s, which %s", kind_of(&s), s.url,
             place ? "is there twice"
                   : "no setting asks for: list it beside the other listen URLs or as metrics-url, or take it from the unit");
    return false;
}

static bool check_pairs(const rd_activated *a, const rd_config *c, char *why, size_t cap)
{
    for (uint64_t i = 0; i < c->listens; i++)
        if ((a->messages[i] < 0) != (a->fdpass[i] < 0)) {
            bool side = a->messages[i] >= 0;
            snprintf(why, cap, "the socket unit passes one of two sockets for %.120s: %s=%.120s%s is missing", c->listen[i],
                     side ? "ListenSequentialPacket" : "ListenStream", rd_ipc_path(c->listen[i]), side ? RP_SIDE_SUFFIX : "");
            return false;
        }
    return true;
}

void rd_activation_none(rd_activated *a) { memset(a, 0xff, sizeof *a); } /* -1 everywhere */

bool rd_activation_take(rd_activated *a, rd_passed *p, const rd_config *c, char *why, size_t cap)
{
    for (int i = 0; i < p->n; i++)
        if (rd_passed_is_socket(p, i) && !sort_one(a, p, i, c, why, cap))
            return false;
    return check_pairs(a, c, why, cap);
}

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void rd_activation_close(rd_activated *a)
{
    for (int i = 0; i < RD_MAX_LISTEN; i++) {
        close_one(&a->messages[i]);
        close_one(&a->fdpass[i]);
    }
    close_one(&a->metrics);
}
