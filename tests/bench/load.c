/* Load for tests/bench/small.py: many processes with one small request after another, to a daemon or, for comparison,
 * to a bare nng echo with messages of the same sizes.
 *
 *     load server URL                                   an nng REP echo, until killed; says "ready"
 *     load echo|reduce URL PROCESSES REQUESTS ELEMENTS  prints: seconds, median and 99th percentile of the latency in us
 *
 * Processes connect first, then start together; seconds are from the first start to the last end. */
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/reduce.h"

enum {
    MAX_ELEMENTS = 1 << 20,
    REQUEST = 40 + 64,   /* header and spec, in front of the data: what the protocol sends */
    REPLY = 40 + 48 + 8, /* header, result, one f64 */
    CONTEXTS = 256       /* of the echo server: the daemon's default */
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "load: %s: %s\n", what, why);
    exit(1);
}

static void must(int err, const char *what)
{
    if (err)
        die(what, nng_strerror(err));
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- echo server ---- */
typedef struct {
    nng_ctx ctx;
    nng_aio *aio;
    int sending;
} echo_link;

static void on_event(void *arg)
{
    echo_link *l = arg;
    if (nng_aio_result(l->aio) && !l->sending)
        return;
    if (l->sending) {
        l->sending = 0;
        nng_ctx_recv(l->ctx, l->aio);
        return;
    }
    nng_msg *m = nng_aio_get_msg(l->aio);
    nng_msg_chop(m, nng_msg_len(m) - REPLY);
    l->sending = 1;
    nng_aio_set_msg(l->aio, m);
    nng_ctx_send(l->ctx, l->aio);
}

static void serve(const char *url)
{
    static echo_link links[CONTEXTS];
    nng_socket s;
    must(nng_rep0_open(&s), "rep");
    for (int i = 0; i < CONTEXTS; i++) {
        must(nng_ctx_open(&links[i].ctx, s), "context");
        must(nng_aio_alloc(&links[i].aio, on_event, &links[i]), "aio");
        nng_ctx_recv(links[i].ctx, links[i].aio);
    }
    must(nng_listen(s, url, NULL, 0), url);
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}

/* ---- clients ---- */
typedef struct {
    nng_socket echo;
    reduce_client *client;
} peer;

static int elements; /* f32 of a request: its number, 1, 2, 3, ... */
static float data[MAX_ELEMENTS];

static peer connect_to(int echo, const char *url)
{
    peer p = {.client = NULL};
    if (!echo) {
        if (reduce_open(&p.client, url, NULL))
            die(url, reduce_errmsg());
        return p;
    }
    must(nng_req0_open(&p.echo), "req");
    must(nng_socket_set_ms(p.echo, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE), "resend");
    must(nng_dial(p.echo, url, NULL, 0), url);
    return p;
}

static void ask_echo(peer *p)
{
    nng_msg *m;
    must(nng_msg_alloc(&m, REQUEST + (size_t)elements * sizeof *data), "message");
    must(nng_sendmsg(p->echo, m, 0), "send");
    must(nng_recvmsg(p->echo, &m, 0), "receive");
    if (nng_msg_len(m) != REPLY)
        die("echo", "wrong length");
    nng_msg_free(m);
}

static void ask_daemon(peer *p, int i)
{
    double sum;
    data[0] = (float)i; /* another sum each time */
    if (reduce_sum_f32(p->client, data, (size_t)elements, &sum))
        die("sum", reduce_errmsg());
    if (sum != i + (elements - 1.0) * elements / 2)
        die("sum", "wrong answer");
}

/* One client process: connect, tell `ready`, wait for `go` to close, ask. Writes start, end and latencies. */
static void client(int echo, const char *url, int n, int ready, int go, uint64_t *span, uint64_t *latency)
{
    peer p = connect_to(echo, url);
    char byte = 0;
    if (echo)
        ask_echo(&p);
    else
        ask_daemon(&p, 0);
    if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 0)
        die("start", "the parent is gone");
    span[0] = now_ns();
    for (int i = 0; i < n; i++) {
        uint64_t start = now_ns();
        if (echo)
            ask_echo(&p);
        else
            ask_daemon(&p, i);
        latency[i] = now_ns() - start;
    }
    span[1] = now_ns();
    if (echo)
        nng_close(p.echo);
    reduce_close(p.client);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void load(int echo, const char *url, int processes, int n)
{
    for (int k = 1; k < elements; k++)
        data[k] = (float)k;
    size_t count = (size_t)processes * (size_t)n, words = 2 * (size_t)processes + count;
    uint64_t *shared = mmap(NULL, words * 8, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t *latency = shared + 2 * processes, first = UINT64_MAX, last = 0;
    int ready[2], go[2], status;
    char byte;
    if (shared == MAP_FAILED || pipe(ready) || pipe(go))
        die("start", "no memory or descriptors");
    for (int i = 0; i < processes; i++)
        if (fork() == 0) {
            close(go[1]);
            client(echo, url, n, ready[1], go[0], shared + 2 * i, latency + (size_t)i * (size_t)n);
            exit(0);
        }
    close(ready[1]);
    for (int i = 0; i < processes; i++)
        if (read(ready[0], &byte, 1) != 1)
            die("start", "a client failed");
    close(go[1]);
    while (wait(&status) > 0)
        if (status)
            die("run", "a client failed");
    for (int i = 0; i < processes; i++) {
        first = shared[2 * i] < first ? shared[2 * i] : first;
        last = shared[2 * i + 1] > last ? shared[2 * i + 1] : last;
    }
    qsort(latency, count, 8, by_value);
    printf("%.6f %.1f %.1f\n", (double)(last - first) / 1e9, (double)latency[count / 2] / 1e3,
           (double)latency[count - 1 - count / 100] / 1e3);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "server") == 0)
        serve(argv[2]);
    else if (argc == 6 && atoi(argv[3]) > 0 && atoi(argv[4]) > 0 && (elements = atoi(argv[5])) > 0 && elements <= MAX_ELEMENTS)
        load(strcmp(argv[1], "echo") == 0, argv[2], atoi(argv[3]), atoi(argv[4]));
    else
        die("usage", "load server URL | load echo|reduce URL PROCESSES REQUESTS ELEMENTS");
    return 0;
}
