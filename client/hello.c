/* How a session begins: the HELLO of a client, and what its answer says. */
#include <string.h>

#include "client/client.h"
#include "client/error.h"
#include "client/tiling.h"

/* Without a session no call can be sent: waiting calls end with the same fault. */
static void fail_queue(reduce_client *c, const rp_fault *f)
{
    rc_call *call = c->queue;
    c->queue = c->queue_end = NULL;
    while (call) {
        rc_call *next = call->next;
        call->fault = *f;
        call->done(call, -(int)f->code, NULL, 0);
        call = next;
    }
}

static void hello_on_reply(rc_call *call, int err, const uint8_t *body, size_t len)
{
    reduce_client *c = call->owner;
    rp_welcome w;
    rp_fault bad;
    c->greeting = false;
    if (!err &&
        (rp_get_welcome(body, len, &w, &bad) || !rp_version_known(w.version) || w.session == 0 || w.max_data < RC_LEAST_DATA)) {
        err = rc_fail(&call->fault, REDUCE_E_PROTOCOL, "hello", "malformed reply to hello");
    }
    if (err) {
        rp_fault f = call->fault;
        fail_queue(c, &f);
        return;
    }
    memcpy(c->server, w.server, w.server_len);
    c->server[w.server_len] = 0;
    rc_clean_text(c->server);
    w.server = c->server;
    c->welcome = w;
    atomic_store(&c->version, w.version);
    c->session = w.session;
}

void rc_hello_init(reduce_client *c)
{
    size_t n = strlen(c->name);
    rp_hello hello = {RP_OLDEST_VERSION, RP_WIRE_VERSION, (uint8_t)c->opts.priority, (uint16_t)n, c->name};
    c->hello.type = RP_MSG_HELLO;
    c->hello.head_len = (uint8_t)rp_put_hello(c->hello.head, &hello);
    c->hello.done = hello_on_reply;
    c->hello.owner = c;
    c->hello_place.client = c;
}
