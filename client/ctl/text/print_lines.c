/* Results as lines of text, a block of them at a time. Threads turn blocks into text and write them in their order. */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/text/decimal.h"

enum {
    NAME = 8,          /* of a value, with blanks */
    BLOCK = 128 << 10, /* bytes of text */
    MAX_THREADS = 8,
    BLOCKS_OF_THREAD = 2 /* that are worth another thread */
};

typedef struct printing {
    const ctl_lines *l;
    uint64_t each;         /* results of a block */
    pthread_mutex_t lock;  /* of what follows */
    pthread_cond_t change; /* of `written` */
    uint64_t taken, written;
} printing;

int ctl_threads(int most)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    return n < most ? n : most;
}

/* ---- text ---- */

/* Names are shorter than NAME; what is behind them may be overwritten. */
static char *put_name(char *out, const char *name)
{
    const size_t n = strlen(name);
    memset(out, ' ', NAME);
    memcpy(out, name, n);
    return out + NAME;
}

static char *put_named(char *out, const ctl_lines *l, uint64_t i)
{
    if (l->unit) {
        out = ctl_put_u64(put_name(out, l->unit), l->first + i);
        *out++ = '\n';
    }
    for (int k = 0; k < ctl_count_values(l->op, l->dtype, l->size); k++) {
        out = put_name(out, ctl_value_name(l->op, k));
        out = ctl_put_value(out, k, l->op, l->dtype, l->cells + i * l->size, l->hex);
        *out++ = '\n';
    }
    return out;
}

static char *put_plain(char *out, const ctl_lines *l, uint64_t i)
{
    const int n = ctl_count_values(l->op, l->dtype, l->size);
    for (int k = 0; k < n; k++) {
        out = ctl_put_value(out, k, l->op, l->dtype, l->cells + i * l->size, l->hex);
        *out++ = k < n - 1 ? ' ' : '\n';
    }
    return out;
}

/* The most bytes that a result takes. */
static size_t room_of_one(const ctl_lines *l)
{
    const size_t n = (size_t)ctl_count_values(l->op, l->dtype, l->size);
    return ctl_value_name(l->op, 0) ? (n + 1) * (NAME + CTL_MAX_NUMBER + 1) : n * (CTL_MAX_NUMBER + 1);
}

/* ---- threads ---- */

/* The next block; false: none is left. */
static bool take_block(printing *p, uint64_t *block)
{
    pthread_mutex_lock(&p->lock);
    *block = p->taken;
    const bool some = *block * p->each < p->l->n;
    p->taken += some;
    pthread_mutex_unlock(&p->lock);
    return some;
}

static void write_in_turn(printing *p, uint64_t block, const char *text, size_t bytes)
{
    pthread_mutex_lock(&p->lock);
    while (p->written != block)
        pthread_cond_wait(&p->change, &p->lock);
    pthread_mutex_unlock(&p->lock);
    fwrite(text, 1, bytes, stdout);
    pthread_mutex_lock(&p->lock);
    p->written++;
    pthread_cond_broadcast(&p->change);
    pthread_mutex_unlock(&p->lock);
}

static void *lines_print(void *arg)
{
    printing *p = arg;
    const ctl_lines *l = p->l;
    char text[BLOCK];
    const bool named = ctl_value_name(l->op, 0);
    for (uint64_t block; take_block(p, &block);) {
        const uint64_t from = block * p->each, to = l->n - from < p->each ? l->n : from + p->each;
        char *end = text;
        for (uint64_t i = from; i < to; i++)
            end = named ? put_named(end, l, i) : put_plain(end, l, i);
        write_in_turn(p, block, text, (size_t)(end - text));
    }
    return NULL;
}

void ctl_print_lines(const ctl_lines *l)
{
    printing p = {
        .l = l, .each = BLOCK / room_of_one(l), .lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
    pthread_t others[MAX_THREADS];
    const uint64_t worth = l->n / p.each / BLOCKS_OF_THREAD;
    const int wanted = worth > 1 ? ctl_threads(worth < MAX_THREADS ? (int)worth : MAX_THREADS) : 1;
    int n = 0;
    while (n < wanted - 1 && !pthread_create(&others[n], NULL, lines_print, &p))
        n++;
    lines_print(&p);
    while (n > 0)
        pthread_join(others[--n], NULL);
}
