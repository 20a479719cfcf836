#include "daemon/telemetry/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"

enum {
    RING = 16384, /* records, 2 MiB: a second of a disk's delay at 16,000 requests per second */
    BATCH = 256   /* records taken and written at once */
};

struct rd_trace {
    pthread_mutex_t lock; /* of the ring and the counts */
    pthread_cond_t filled;
    rd_record *ring;
    size_t first, used;
    rd_trace_counts counts;
    bool closing;
    pthread_t thread;
    /* the thread's */
    int fd;
    uint64_t end; /* where the closing brackets are, which the next events overwrite */
    uint64_t max_bytes, zero_ns;
    bool failed;
};

static const char HEAD[] = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
                           "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":{\"name\":\"clients by tcp\"}}";
static const char TAIL[] = "\n]}\n";

/* ---- events ---- */

/* Microseconds, to the nanosecond. */
static void put_us(FILE *f, const char *key, uint64_t ns)
{
    fprintf(f, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

/* All events of a request are on the line of its exchange, which has one request at a time: so they nest. */
static void put_place(FILE *f, const rd_trace *t, const rd_record *a, uint64_t from_ns, uint64_t to_ns)
{
    put_us(f, "ts", from_ns - t->zero_ns);
    put_us(f, "dur", to_ns - from_ns);
    fprintf(f, ",\"pid\":%" PRIu64 ",\"tid\":%u", a->pid, a->exchange);
}

static void put_stage(FILE *f, const rd_trace *t, const rd_record *a, const char *name, uint64_t from_ns, uint64_t to_ns,
                      uint64_t ns)
{
    fprintf(f, ",\n{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\"", name, name);
    put_place(f, t, a, from_ns, to_ns);
    fprintf(f, ",\"args\":{\"ns\":%" PRIu64 ",\"backend\":\"%s\"", ns, rp_backend_name(a->backend));
    if (a->device_label && a->device_label[0])
        fprintf(f, ",\"device\":\"%s\"", a->device_label);
    if (a->route)
        fprintf(f, ",\"route\":\"%s\"", a->route);
    fputs("}}", f);
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* The engine reports when it began and how long it copied and computed; on a device both go on at once, and on workers several
 * at a time. They are drawn one after the other up to the end of the request; "ns" says how long they were. */
static void put_stages(FILE *f, const rd_trace *t, const rd_record *a)
{
    uint64_t end = a->received_ns + a->stage_ns[RD_TOTAL];
    uint64_t start = least(a->received_ns + a->stage_ns[RD_QUEUE], end);
    uint64_t copied = least(start + a->stage_ns[RD_COPY], end);
    uint64_t computed = least(copied + a->stage_ns[RD_KERNEL], end);
    put_stage(f, t, a, "queue", a->received_ns, start, a->stage_ns[RD_QUEUE]);
    if (a->stage_ns[RD_COPY])
        put_stage(f, t, a, "copy", start, copied, a->stage_ns[RD_COPY]);
    put_stage(f, t, a, "kernel", copied, computed, a->stage_ns[RD_KERNEL]);
}

static void put_request(FILE *f, const rd_trace *t, const rd_record *a)
{
    if (a->op)
        fprintf(f, ",\n{\"name\":\"%s %s\"", rp_op_name(a->op), rp_dtype_name(a->dtype));
    else
        fprintf(f, ",\n{\"name\":\"%s\"", rp_msg_name(a->msg));
    fputs(",\"cat\":\"request\",\"ph\":\"X\"", f);
    put_place(f, t, a, a->received_ns, a->received_ns + a->stage_ns[RD_TOTAL]);
    fprintf(f, ",\"args\":{\"message\":\"%s\",\"result\":\"%s\"", rp_msg_name(a->msg), rp_err_name((int)a->err));
    if (a->path)
        fprintf(f, ",\"path\":\"%s\",\"bytes\":%" PRIu64, rp_path_name(a->path), a->data_bytes);
    if (a->name)
        fprintf(f, ",\"user\":\"%s\"", a->name);
    fprintf(f, ",\"id\":\"%" PRIx64 "\"}}", a->id); /* numbers of JSON have 53 bits */
    if (a->start_ns)
        put_stages(f, t, a);
}

/* ---- the thread ---- */
static bool write_at(int fd, const char *bytes, size_t n, uint64_t at)
{
    while (n) {
        ssize_t done = pwrite(fd, bytes, n, (off_t)at);
        if (done < 0 && errno != EINTR)
            return false;
        if (done > 0) {
            bytes += done;
            at += (uint64_t)done;
            n -= (size_t)done;
        }
    }
    return true;
}

/* The file system takes no more: back to the last whole file, which it had room for. */
static void give_up(rd_trace *t)
{
    const char *why = strerror(errno);
    bool whole = write_at(t->fd, TAIL, sizeof TAIL - 1, t->end) && ftruncate(t->fd, (off_t)(t->end + sizeof TAIL - 1)) == 0;
    t->failed = true;
    rd_log(RD_LOG_WARN, "the trace ends here: %s%s", why, whole ? "" : "; its closing brackets are missing");
}

/* The events and the tail in one piece, over the last tail. */
static bool append(rd_trace *t, const char *events, size_t n)
{
    if (t->failed || t->end + n > t->max_bytes)
        return false;
    if (!write_at(t->fd, events, n, t->end)) {
        give_up(t);
        return false;
    }
    t->end += n - (sizeof TAIL - 1);
    return true;
}

static bool write_batch(rd_trace *t, const rd_record *batch, size_t n)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    if (!f)
        return false;
    for (size_t i = 0; i < n; i++)
        put_request(f, t, &batch[i]);
    fputs(TAIL, f);
    bool done = fclose(f) == 0 && append(t, text, len);
    free(text);
    return done;
}

/* Up to BATCH records; waits for the first. 0: the trace is closed. */
static size_t take(rd_trace *t, rd_record *batch)
{
    pthread_mutex_lock(&t->lock);
    while (!t->used && !t->closing)
        pthread_cond_wait(&t->filled, &t->lock);
    size_t n = t->used < BATCH ? t->used : BATCH;
    for (size_t i = 0; i < n; i++)
        batch[i] = t->ring[(t->first + i) % RING];
    t->first = (t->first + n) % RING;
    t->used -= n;
    pthread_mutex_unlock(&t->lock);
    return n;
}

static void count(rd_trace *t, size_t n, bool written)
{
    pthread_mutex_lock(&t->lock);
    *(written ? &t->counts.written : &t->counts.dropped) += n;
    pthread_mutex_unlock(&t->lock);
}

static void *trace_run(void *arg)
{
    rd_trace *t = arg;
    rd_record batch[BATCH];
    for (size_t n; (n = take(t, batch));)
        count(t, n, write_batch(t, batch, n));
    return NULL;
}

/* ---- any thread ---- */
void rd_trace_put(rd_trace *t, const rd_record *a)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    if (t->used < RING)
        t->ring[(t->first + t->used++) % RING] = *a;
    else
        t->counts.dropped++;
    if (t->used == 1)
        pthread_cond_signal(&t->filled);
    pthread_mutex_unlock(&t->lock);
}

rd_trace_counts rd_trace_counted(rd_trace *t)
{
    pthread_mutex_lock(&t->lock);
    rd_trace_counts c = t->counts;
    pthread_mutex_unlock(&t->lock);
    return c;
}

/* ---- open and close ---- */

/* A new regular file, without waiting for anything else that has the name. -1: see errno. */
static int open_file(const char *path)
{
    struct stat st;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)))
        return fd;
    close(fd);
    errno = EINVAL;
    return -1;
}

static bool begin(rd_trace *t, const char *path)
{
    t->fd = open_file(path);
    if (t->fd < 0)
        return false;
    t->end = sizeof HEAD - 1;
    return write_at(t->fd, HEAD, sizeof HEAD - 1, 0) && write_at(t->fd, TAIL, sizeof TAIL - 1, t->end);
}

static void destroy(rd_trace *t)
{
    pthread_cond_destroy(&t->filled);
    pthread_mutex_destroy(&t->lock);
    if (t->fd >= 0)
        close(t->fd);
    free(t->ring);
    free(t);
}

rd_trace *rd_trace_open(const char *path, uint64_t zero_ns, uint64_t max_bytes, char *why, size_t cap)
{
    rd_trace *t = calloc(1, sizeof *t);
    if (!t) {
        snprintf(why, cap, "no memory");
        return NULL;
    }
    *t = (rd_trace){.fd = -1, .zero_ns = zero_ns, .max_bytes = max_bytes, .ring = calloc(RING, sizeof *t->ring)};
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->filled, NULL);
    if (t->ring && begin(t, path) && (errno = pthread_create(&t->thread, NULL, trace_run, t)) == 0)
        return t;
    snprintf(why, cap, "%s: %s", path, strerror(errno));
    destroy(t);
    return NULL;
}

void rd_trace_close(rd_trace *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->closing = true;
    pthread_cond_signal(&t->filled);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    rd_log(RD_LOG_INFO, "the trace has %" PRIu64 " requests and lacks %" PRIu64, t->counts.written, t->counts.dropped);
    destroy(t);
}
