/* Whose is the other end: the kernel's answers, right and wrong, and its own about a connection of this process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/loopback_user.h"

typedef struct answer {
    struct nlmsghdr head;
    struct inet_diag_msg found;
} answer;

static struct sockaddr_storage at(const char *address, uint16_t port)
{
    struct sockaddr_storage a;
    struct sockaddr_in *v4 = (struct sockaddr_in *)&a;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a;
    memset(&a, 0, sizeof a);
    a.ss_family = strchr(address, ':') ? AF_INET6 : AF_INET;
    assert_int_equal(inet_pton(a.ss_family, address, a.ss_family == AF_INET ? (void *)&v4->sin_addr : (void *)&v6->sin6_addr),
                     1);
    *(a.ss_family == AF_INET ? &v4->sin_port : &v6->sin6_port) = htons(port);
    return a;
}

static bool named(const char *peer, const char *own, struct inet_diag_sockid *id)
{
    struct sockaddr_storage a = at(peer, 40000), b = at(own, 80);
    return rd_loopback_name(&a, &b, id);
}

static answer good(struct inet_diag_sockid *id)
{
    answer a = {.head = {.nlmsg_len = sizeof a, .nlmsg_type = SOCK_DIAG_BY_FAMILY}};
    assert_true(named("127.0.0.1", "127.0.0.1", id));
    a.found.id = *id;
    a.found.idiag_state = TCP_ESTABLISHED;
    a.found.idiag_uid = 1000;
    a.found.idiag_inode = 7;
    return a;
}

/* In memory of its own size, so that a sanitizer sees a byte too many. */
static bool owned(const answer *a, size_t n, const struct inet_diag_sockid *id, uint64_t *uid)
{
    void *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, a, n);
    bool known = rd_loopback_owner(copy, n, id, uid);
    free(copy);
    return known;
}

static void only_loopback_addresses_have_a_name(void **state)
{
    (void)state;
    struct inet_diag_sockid id;
    assert_true(named("127.0.0.1", "127.255.0.1", &id) && named("::1", "::1", &id));
    assert_true(id.idiag_sport == htons(40000) && id.idiag_dport == htons(80));
    assert_false(named("10.0.0.1", "127.0.0.1", &id) || named("127.0.0.1", "10.0.0.1", &id) ||
                 named("128.0.0.1", "127.0.0.1", &id));
    assert_false(named("::2", "::1", &id) || named("::1", "::2", &id) || named("::1", "127.0.0.1", &id));
    assert_false(named("::ffff:127.0.0.1", "::ffff:127.0.0.1", &id));
}

static void an_answer_about_an_open_connection_has_its_user(void **state)
{
    (void)state;
    struct inet_diag_sockid id;
    uint64_t uid;
    answer a = good(&id);
    assert_true(owned(&a, sizeof a, &id, &uid));
    assert_int_equal(uid, 1000);
    for (size_t n = 0; n < sizeof a; n++)
        assert_false(owned(&a, n, &id, &uid));
}

static void a_socket_that_no_process_has_is_nobodys(void **state)
{
    (void)state;
    struct inet_diag_sockid id;
    uint64_t uid;
    answer a = good(&id);
    a.found.idiag_uid = 0; /* as the kernel has it then */
    a.found.idiag_inode = 0;
    assert_false(owned(&a, sizeof a, &id, &uid));
    for (unsigned char s = 0; s < 16; s++) { /* among them that of a listener, which the kernel names if it finds no other */
        a = good(&id);
        a.found.idiag_state = s;
        assert_int_equal(owned(&a, sizeof a, &id, &uid), s == TCP_ESTABLISHED);
    }
}

static void an_answer_about_something_else_is_none(void **state)
{
    (void)state;
    struct inet_diag_sockid id;
    uint64_t uid;
    answer a = good(&id);
    a.head.nlmsg_type = NLMSG_ERROR;
    assert_false(owned(&a, sizeof a, &id, &uid));
    a = good(&id);
    a.head.nlmsg_len = sizeof a + 1;
    assert_false(owned(&a, sizeof a, &id, &uid));
    a = good(&id);
    a.found.id.idiag_sport ^= 1;
    assert_false(owned(&a, sizeof a, &id, &uid));
    a = good(&id);
    a.found.id.idiag_dport ^= 1;
    assert_false(owned(&a, sizeof a, &id, &uid));
    a = good(&id);
    a.found.id.idiag_src[0] ^= 1;
    assert_false(owned(&a, sizeof a, &id, &uid));
    a = good(&id);
    a.found.id.idiag_dst[3] ^= 1;
    assert_false(owned(&a, sizeof a, &id, &uid));
}

/* A connection of this process to itself; ends[0] is the side that connected. */
static void connect_to_myself(const char *address, int ends[2])
{
    struct sockaddr_storage a = at(address, 0);
    socklen_t n = sizeof a;
    int listener = socket(a.ss_family, SOCK_STREAM, 0);
    assert_true(listener >= 0 && !bind(listener, (struct sockaddr *)&a, sizeof a) && !listen(listener, 1));
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &n), 0);
    ends[0] = socket(a.ss_family, SOCK_STREAM, 0);
    assert_true(ends[0] >= 0 && !connect(ends[0], (struct sockaddr *)&a, n));
    ends[1] = accept(listener, NULL, NULL);
    assert_true(ends[1] >= 0);
    close(listener);
}

static void the_kernel_says_whose_it_is_while_it_is_open(void **state)
{
    (void)state;
    int ends[2];
    uint64_t uid = 1;
    char byte;
    connect_to_myself("127.0.0.1", ends);
    if (!rd_loopback_user(ends[1], &uid)) {
        close(ends[0]);
        close(ends[1]);
        skip(); /* a kernel without sock_diag */
    }
    assert_int_equal(uid, getuid());
    close(ends[0]);
    assert_int_equal(recv(ends[1], &byte, 1, 0), 0);
    assert_false(rd_loopback_user(ends[1], &uid));
    close(ends[1]);
    assert_false(rd_loopback_user(STDIN_FILENO, &uid) || rd_loopback_user(-1, &uid));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_loopback_addresses_have_a_name),
        cmocka_unit_test(an_answer_about_an_open_connection_has_its_user),
        cmocka_unit_test(a_socket_that_no_process_has_is_nobodys),
        cmocka_unit_test(an_answer_about_something_else_is_none),
        cmocka_unit_test(the_kernel_says_whose_it_is_while_it_is_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
