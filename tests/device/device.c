/* A device made of ordinary memory: the backend of a daemon for tests of data on a device, on machines without one.
 *
 * It stands in for CUDA and computes on the CPU. What another process "exports" is a descriptor, and the 64 bytes of its
 * handle say which: "a device", u32 pid, u32 descriptor; the rest does not matter. "a parted" allocation is one in a block: u32
 * first byte, u32 bytes of it follow, whole pages. As with CUDA, parts of a block that overlap cannot be open at once. Or it is
 * passed as a descriptor, of a memfd of that size. What is pinned is only counted. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/engine/engine.h"
#include "tests/device/hold.h"

typedef struct handle {
    char magic[8];
    uint32_t pid, fd, ordinal;
    uint32_t from, bytes;
} handle;

/* As many as $DEVICES_OF_MEMORY says, or one; their numbers begin with $FIRST_DEVICE. */
static rp_err device_list(rk_device_info *out, unsigned cap, unsigned *n, char *why, size_t why_cap)
{
    const char *count = getenv("DEVICES_OF_MEMORY"), *first = getenv("FIRST_DEVICE");
    (void)why, (void)why_cap;
    *n = count ? (unsigned)atoi(count) : 1;
    for (unsigned i = 0; i < *n && i < cap; i++) {
        out[i] = (rk_device_info){.ordinal = (int)i + (first ? atoi(first) : 0), .uuid = {0xab, (uint8_t)i}};
        snprintf(out[i].name, sizeof out[i].name, "GPU-ab%02x0000-0000-0000-0000-000000000000", i);
    }
    return RP_OK;
}

typedef struct device {
    rk_inflight *tasks;
    void *cpu; /* what computes */
    int ordinal;
} device;

/* A device opens when the file $HOLD_OPEN is gone. Opening takes $OPEN_MS ms, as a context of CUDA takes some. */
static void wait_to_open(void)
{
    const char *ms = getenv("OPEN_MS");
    t_hold("HOLD_OPEN");
    if (ms)
        usleep((unsigned)atoi(ms) * 1000); /* the time of a context; not a poll interval */
}

static rp_err device_open(rk_inflight *tasks, const rk_options *o, int ordinal, void **impl, char *why, size_t why_cap)
{
    wait_to_open();
    const char *broken = getenv("BROKEN_DEVICE"); /* its number */
    device *d = malloc(sizeof *d);
    if (!d || (broken && atoi(broken) == ordinal)) {
        free(d);
        snprintf(why, why_cap, "device %d: broken on purpose", ordinal);
        return RP_DEVICE_LOST;
    }
    *d = (device){.tasks = tasks, .ordinal = ordinal};
    rp_err err = rk_cpu_backend.open(tasks, o, ordinal, &d->cpu, why, why_cap);
    if (err) {
        free(d);
        return err;
    }
    *impl = d;
    snprintf(why, why_cap, "a device made of memory");
    return RP_OK;
}

/* From when on there is a file $LOSE_DEVICE, followed by its number, the device fails like one whose context broke: every
 * call on it does. */
static bool is_lost(device *d)
{
    char path[256];
    const char *file = getenv("LOSE_DEVICE");
    if (file && !rk_inflight_lost(d->tasks)) {
        snprintf(path, sizeof path, "%s%d", file, d->ordinal);
        if (access(path, F_OK) == 0)
            rk_inflight_lose(d->tasks);
    }
    return rk_inflight_lost(d->tasks);
}

static rp_err lost(rp_fault *f)
{
    return rp_fail(f, RP_DEVICE_LOST, "device", 0, "the device failed on purpose; repeat the request");
}

static void device_submit(void *impl, rk_task *t)
{
    device *d = impl;
    t->backend = RP_BACKEND_CUDA;
    if (is_lost(d)) {
        lost(&t->fault);
        rk_complete(d->tasks, t);
        return;
    }
    if (t->memory && !t->fill)
        t->data = (const uint8_t *)t->memory->base + t->offset;
    rk_cpu_backend.submit(d->cpu, t);
}

/* As the CUDA backend: data of the host, which the CPU computes, order statistics, and some operations by key. */
static bool device_selects(const rk_task *t) { return !t->memory || !(t->spec.flags & RP_KEYS) || t->spec.op <= RP_OP_MAX; }

static void device_stop(void *impl) { rk_cpu_backend.stop(((device *)impl)->cpu); }

/* There is one pin for each base at a time, of the device that came first. Under a lock: several threads pin, and the one that
 * counts them does so once a second. */
enum { MAX_PINS = 1024 };
static struct {
    const void *base; /* NULL: a free entry */
    const device *by;
    size_t bytes;
} pins[MAX_PINS];
static pthread_mutex_t pins_lock = PTHREAD_MUTEX_INITIALIZER;

static int pin_of(const void *base)
{
    int i = 0;
    while (i < MAX_PINS && pins[i].base != base)
        i++;
    return i;
}

static size_t pinned_by(const device *d)
{
    size_t bytes = 0;
    pthread_mutex_lock(&pins_lock);
    for (int i = 0; i < MAX_PINS; i++)
        bytes += pins[i].base && pins[i].by == d ? pins[i].bytes : 0;
    pthread_mutex_unlock(&pins_lock);
    return bytes;
}

static void device_close(void *impl)
{
    device *d = impl;
    if (pinned_by(d))
        abort(); /* somebody forgot to unpin */
    rk_cpu_backend.close(d->cpu);
    free(d);
}

static void device_stats(void *impl, rk_stats *s)
{
    device *d = impl;
    rk_cpu_backend.stats(d->cpu, s);
    s->locked_bytes = pinned_by(d);
}

static bool device_pin(void *impl, const void *base, size_t bytes)
{
    if (is_lost(impl))
        return false;
    pthread_mutex_lock(&pins_lock);
    bool pinned = pin_of(base) < MAX_PINS; /* another device has */
    int room = pin_of(NULL);
    if (!pinned && room < MAX_PINS) {
        pins[room].base = base;
        pins[room].by = impl;
        pins[room].bytes = bytes;
        pinned = true;
    }
    pthread_mutex_unlock(&pins_lock);
    return pinned;
}

static void device_unpin(void *impl, const void *base)
{
    const device *d = impl;
    pthread_mutex_lock(&pins_lock);
    const int i = pin_of(base);
    if (i == MAX_PINS && !rk_inflight_lost(d->tasks))
        abort(); /* not pinned, or gone before the last one that knew of it */
    if (i < MAX_PINS && pins[i].by == d)
        pins[i].base = NULL;
    pthread_mutex_unlock(&pins_lock);
}

static rp_err device_memory_new(void *impl, rk_memory *m, rp_fault *f)
{
    return is_lost(impl) ? lost(f) : rk_cpu_backend.memory_new(((device *)impl)->cpu, m, f);
}

/* All of it for reading; MAP_FAILED: it cannot be had. */
static void *map(int fd, size_t *bytes)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return MAP_FAILED;
    *bytes = (size_t)st.st_size;
    return mmap(NULL, *bytes, PROT_READ, MAP_SHARED, fd, 0);
}

/* The parts of blocks that are open. The engine opens and closes under a lock of its own. */
enum { MAX_PARTS = 256 };
static struct {
    const void *base; /* NULL: a free entry */
    handle h;
} parts[MAX_PARTS];

/* The entry of a part; -1: another one overlaps it. */
static int find_room(const handle *h)
{
    int room = -1;
    for (int i = 0; i < MAX_PARTS; i++) {
        const handle *x = &parts[i].h;
        if (!parts[i].base)
            room = i;
        else if (x->pid == h->pid && x->fd == h->fd && x->from < h->from + h->bytes && h->from < x->from + x->bytes)
            return -1;
    }
    return room;
}

static rp_err open_part(const handle *h, int fd, rk_memory *m, rp_fault *f)
{
    int room = find_room(h);
    if (room < 0)
        return rp_fail(f, RP_BUSY, "handle", 0, "already mapped");
    m->bytes = h->bytes;
    m->base = mmap(NULL, m->bytes, PROT_READ, MAP_SHARED, fd, h->from);
    if (m->base == MAP_FAILED)
        return rp_fail(f, RP_BAD_HANDLE, "handle", 0, "no block of this device");
    parts[room].base = m->base;
    parts[room].h = *h;
    return RP_OK;
}

static rp_err open_whole(int fd, rk_memory *m, rp_fault *f)
{
    m->base = map(fd, &m->bytes);
    return m->base != MAP_FAILED ? RP_OK : rp_fail(f, RP_BAD_HANDLE, "handle", 0, "no allocation of this device");
}

static rp_err device_memory_open(void *impl, const uint8_t *bytes, rk_memory *m, rp_fault *f)
{
    device *d = impl;
    handle h;
    char path[64];
    if (is_lost(d))
        return lost(f);
    memcpy(&h, bytes, sizeof h);
    if (getenv("DEVICES_OF_MEMORY") && h.ordinal != (uint32_t)d->ordinal)
        return rp_fail(f, RP_BAD_HANDLE, "handle", 0, "no allocation of this device");
    snprintf(path, sizeof path, "/proc/%u/fd/%u", h.pid, h.fd);
    bool part = memcmp(h.magic, "a parted", sizeof h.magic) == 0, whole = memcmp(h.magic, "a device", sizeof h.magic) == 0;
    int fd = part || whole ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    rp_err err = part ? open_part(&h, fd, m, f) : open_whole(fd, m, f);
    if (fd >= 0)
        close(fd);
    return err;
}

static rp_err device_memory_import(void *impl, int fd, rk_memory *m, rp_fault *f)
{
    size_t bytes = 0;
    if (is_lost(impl))
        return lost(f);
    m->base = map(fd, &bytes);
    if (m->base != MAP_FAILED && bytes == m->bytes)
        return RP_OK;
    if (m->base != MAP_FAILED)
        munmap(m->base, bytes);
    return rp_fail(f, RP_BAD_HANDLE, "descriptor", 0, "no allocation of this device of %zu bytes", m->bytes);
}

static rp_err device_memory_copy(void *impl, const rk_memory *m, void *host, bool out, rp_fault *f)
{
    if (is_lost(impl))
        return lost(f);
    memcpy(out ? host : m->base, out ? m->base : host, m->bytes);
    return RP_OK;
}

static void device_memory_close(void *impl, rk_memory *m)
{
    for (int i = 0; i < MAX_PARTS && m->kind == RK_MEMORY_OPENED; i++)
        if (parts[i].base == m->base)
            parts[i].base = NULL;
    if (m->kind != RK_MEMORY_NEW)
        munmap(m->base, m->bytes);
    else
        rk_cpu_backend.memory_close(((device *)impl)->cpu, m);
}

static uint64_t device_memory_total(void *impl) { return rk_cpu_backend.memory_total(((device *)impl)->cpu); }

const rk_backend_ops rk_cuda_backend = {.list = device_list,
                                        .open = device_open,
                                        .submit = device_submit,
                                        .selects = device_selects,
                                        .stop = device_stop,
                                        .close = device_close,
                                        .stats = device_stats,
                                        .pin = device_pin,
                                        .unpin = device_unpin,
                                        .memory_new = device_memory_new,
                                        .memory_open = device_memory_open,
                                        .memory_import = device_memory_import,
                                        .memory_copy = device_memory_copy,
                                        .memory_close = device_memory_close,
                                        .memory_total = device_memory_total};
