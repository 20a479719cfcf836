/* A client of nng's own REQ socket, which knows nothing of this project's framing: HELLO, and REDUCE of 16 and 4 Mi elements.
 * It says "served", and does so again for each line of its input.
 *
 *     req0 URL */
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/codec.h"

enum { FEW = 16, MANY = RP_MAX_DATA };

static void die(const char *what)
{
    fprintf(stderr, "req0: %s\n", what);
    exit(1);
}

static void must(int err, const char *what)
{
    if (err) {
        fprintf(stderr, "req0: %s: %s\n", what, nng_strerror(err));
        exit(1);
    }
}

/* The reply's body, in *reply. */
static const uint8_t *ask(nng_socket s, uint8_t type, uint64_t session, const void *body, size_t len, nng_msg **reply,
                          rp_header *h)
{
    static uint64_t id;
    uint8_t head[RP_HEADER_SIZE];
    rp_header ask = {.version = RP_WIRE_VERSION, .type = type, .session = session, .id = ++id, .body_len = len};
    rp_fault f;
    nng_msg *m;
    rp_put_header(head, &ask);
    must(nng_msg_alloc(&m, 0), "message");
    must(nng_msg_append(m, head, sizeof head), "message");
    must(nng_msg_append(m, body, len), "message");
    must(nng_sendmsg(s, m, 0), "send");
    must(nng_recvmsg(s, reply, 0), "receive");
    if (rp_get_header(nng_msg_body(*reply), nng_msg_len(*reply), h, &f) || !h->reply || h->type != type || h->id != id)
        die("a malformed reply");
    return (const uint8_t *)nng_msg_body(*reply) + RP_HEADER_SIZE;
}

static uint64_t hello(nng_socket s)
{
    uint8_t body[RP_HELLO_SIZE + 4];
    rp_hello hello = {.min_version = RP_WIRE_VERSION, .max_version = RP_WIRE_VERSION, .name_len = 4, .name = "req0"};
    rp_header h;
    nng_msg *reply;
    ask(s, RP_MSG_HELLO, 0, body, rp_put_hello(body, &hello), &reply, &h);
    if (h.status)
        die("HELLO refused");
    nng_msg_free(reply);
    return h.session;
}

/* False: the session is gone, with its daemon. */
static bool sums(nng_socket s, uint64_t session, size_t n)
{
    uint8_t *body = calloc(1, RP_SPEC_SIZE + n);
    rp_spec spec = {.op = RP_OP_SUM, .dtype = RP_U8, .rows = 1, .row_len = n};
    rp_header h;
    rp_fault f;
    rp_result result;
    nng_msg *reply;
    if (!body)
        die("memory");
    rp_put_spec(body, &spec);
    memset(body + RP_SPEC_SIZE, 3, n);
    const uint8_t *cells, *answer = ask(s, RP_MSG_REDUCE, session, body, RP_SPEC_SIZE + n, &reply, &h);
    bool served = h.status == RP_OK;
    uint64_t sum = 0;
    if (served && (rp_get_result(answer, h.body_len, &result, &cells, &f) || !cells || result.cells != 1))
        die("a malformed result");
    if (served)
        memcpy(&sum, cells, sizeof sum);
    if (served && sum != 3 * n)
        die("a wrong sum");
    if (!served && h.status != RP_NO_SESSION)
        die("REDUCE refused");
    nng_msg_free(reply);
    free(body);
    return served;
}

int main(int argc, char **argv)
{
    char line[16];
    nng_socket s;
    if (argc != 2)
        die("URL?");
    must(nng_req0_open(&s), "socket");
    must(nng_socket_set_ms(s, NNG_OPT_RECVTIMEO, 30000), "timeout");
    must(nng_socket_set_ms(s, NNG_OPT_RECONNMINT, 10), "timeout");
    must(nng_socket_set_ms(s, NNG_OPT_REQ_RESENDTIME, 1000), "timeout");
    must(nng_dial(s, argv[1], NULL, 0), argv[1]);
    uint64_t session = hello(s);
    do {
        while (!sums(s, session, FEW) || !sums(s, session, MANY))
            session = hello(s);
        puts("served");
        fflush(stdout);
    } while (fgets(line, sizeof line, stdin));
    nng_close(s);
    return 0;
}
