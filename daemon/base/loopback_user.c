#include "daemon/base/loopback_user.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "daemon/base/peer.h"

typedef struct question {
    struct nlmsghdr head;
    struct inet_diag_req_v2 about;
} question;

static bool put_v4(const struct sockaddr_in *a, __be32 *address, __be16 *port)
{
    address[0] = a->sin_addr.s_addr;
    *port = a->sin_port;
    return ntohl(a->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

static bool put_v6(const struct sockaddr_in6 *a, __be32 *address, __be16 *port)
{
    memcpy(address, &a->sin6_addr, sizeof a->sin6_addr);
    *port = a->sin6_port;
    return IN6_IS_ADDR_LOOPBACK(&a->sin6_addr);
}

static bool put_end(const struct sockaddr_storage *a, __be32 *address, __be16 *port)
{
    if (a->ss_family == AF_INET)
        return put_v4((const struct sockaddr_in *)a, address, port);
    return a->ss_family == AF_INET6 && put_v6((const struct sockaddr_in6 *)a, address, port);
}

bool rd_loopback_name(const struct sockaddr_storage *peer, const struct sockaddr_storage *own, struct inet_diag_sockid *id)
{
    memset(id, 0, sizeof *id);
    memset(id->idiag_cookie, 0xff, sizeof id->idiag_cookie); /* any */
    return peer->ss_family == own->ss_family && put_end(peer, id->idiag_src, &id->idiag_sport) &&
           put_end(own, id->idiag_dst, &id->idiag_dport);
}

static bool same_name(const struct inet_diag_sockid *a, const struct inet_diag_sockid *b)
{
    return a->idiag_sport == b->idiag_sport && a->idiag_dport == b->idiag_dport &&
           !memcmp(a->idiag_src, b->idiag_src, sizeof a->idiag_src) && !memcmp(a->idiag_dst, b->idiag_dst, sizeof a->idiag_dst);
}

bool rd_loopback_owner(const void *answer, size_t n, const struct inet_diag_sockid *id, uint64_t *uid)
{
    struct nlmsghdr head;
    struct inet_diag_msg found;
    if (n < NLMSG_LENGTH(sizeof found))
        return false;
    memcpy(&head, answer, sizeof head);
    memcpy(&found, (const char *)answer + NLMSG_HDRLEN, sizeof found);
    *uid = found.idiag_uid;
    return head.nlmsg_type == SOCK_DIAG_BY_FAMILY && head.nlmsg_len >= NLMSG_LENGTH(sizeof found) && head.nlmsg_len <= n &&
           found.idiag_state == TCP_ESTABLISHED && found.idiag_inode != 0 && same_name(&found.id, id) && rd_uid_is_known(*uid);
}

/* Waits a second at most: the kernel answers within the request. */
static bool ask(const question *q, uint64_t *uid)
{
    const struct timeval second = {1, 0};
    _Alignas(struct nlmsghdr) char answer[1024];
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0)
        return false;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
    bool sent = send(fd, q, sizeof *q, 0) == (ssize_t)sizeof *q;
    ssize_t n = sent ? recv(fd, answer, sizeof answer, 0) : -1;
    close(fd);
    return n > 0 && rd_loopback_owner(answer, (size_t)n, &q->about.id, uid);
}

bool rd_loopback_user(int fd, uint64_t *uid)
{
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC}, own = {.ss_family = AF_UNSPEC};
    socklen_t peer_n = sizeof peer, own_n = sizeof own;
    question q = {.head = {.nlmsg_len = sizeof q, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST}};
    if (getpeername(fd, (struct sockaddr *)&peer, &peer_n) || getsockname(fd, (struct sockaddr *)&own, &own_n) ||
        !rd_loopback_name(&peer, &own, &q.about.id))
        return false;
    q.about.sdiag_family = (unsigned char)peer.ss_family;
    q.about.sdiag_protocol = IPPROTO_TCP;
    q.about.idiag_states = 1u << TCP_ESTABLISHED;
    return ask(&q, uid);
}
