#include "daemon/state/handle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* ---- making ---- */
static void handle_look_at_file(rd_work *c)
{
    rd_handle *x = (rd_handle *)c;
    struct stat st;
    struct statfs fs;
    int flags = fcntl(x->fd, F_GETFL);
    if (flags < 0 || (flags & O_PATH) || (flags & O_ACCMODE) == O_WRONLY)
        rp_fail(&x->fault, RP_IO, "file", 0, "the descriptor is not open for reading");
    else if (fstatfs(x->fd, &fs) != 0)
        rp_fail(&x->fault, RP_IO, "file", 0, "the file system cannot be looked at: %s", strerror(errno));
    else if (rd_file_system_check((uint64_t)fs.f_type & UINT32_MAX, x->holdings->files_from, &x->fault))
        return;
    else if (fstat(x->fd, &st) != 0)
        rp_fail(&x->fault, RP_IO, "file", 0, "the file cannot be examined: %s", strerror(errno));
    else if (!S_ISREG(st.st_mode))
        rp_fail(&x->fault, RP_IO, "file", 0, "not a regular file");
    else
        x->size = (uint64_t)st.st_size;
}

/* Open the memory once more, as an open file that the kernel counts: `in_use_elsewhere` asks whether there are others. */
static int open_again(int fd, int flags)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, flags | O_CLOEXEC);
}

/* The kernel grants a write lease only if no other process has the file open or mapped. The lease is a test and is not kept. */
static bool in_use_elsewhere(int fd)
{
    if (fcntl(fd, F_SETLEASE, F_WRLCK) != 0)
        return errno == EAGAIN;
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return false;
}

static void handle_make_arena(rd_work *c)
{
    rd_handle *x = (rd_handle *)c;
    void *base = MAP_FAILED;
    int memory = memfd_create("reduced", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory >= 0 && ftruncate(memory, (off_t)x->size) == 0 &&
        fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0 &&
        (x->fd = open_again(memory, O_RDWR)) >= 0 && (x->kept = open_again(memory, O_RDONLY)) >= 0)
        base = mmap(NULL, x->size, PROT_READ, MAP_SHARED, x->kept, 0);
    int err = errno;
    if (memory >= 0)
        close(memory);
    if (base == MAP_FAILED) {
        rp_fail(&x->fault, RP_NO_MEMORY, "arena", 0, "no memory for an arena: %s", strerror(err));
        return;
    }
    x->base = base;
    if (!rk_pin(x->engine, base, x->size))
        x->engine = NULL; /* works without pinning, too, only slower */
}

static void handle_open_device(rd_work *c)
{
    rd_handle *x = (rd_handle *)c;
    static const uint8_t unknown[RP_UUID];
    const uint8_t *uuid = memcmp(x->uuid, unknown, sizeof unknown) ? x->uuid : NULL;
    if (rk_memory_open(x->engine, x->device, uuid, &x->memory, &x->fault) == RP_OK)
        x->size = rk_memory_bytes(x->memory);
}

/* Close what a client passed, without waiting for a socket to send its data. (A socket in the queue of a passed socket may
 * still wait.) */
static void close_passed(int fd)
{
    struct linger none = {0, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    close(fd);
}

static void handle_import_device(rd_work *c)
{
    rd_handle *x = (rd_handle *)c;
    rk_memory_import(x->engine, x->fd, x->size, &x->memory, &x->fault);
    close_passed(x->fd);
    x->fd = -1;
}

/* The pages are freed at once if the client dropped them; the rest when no process has the arena. */
static void leave_arena(rd_handle *x)
{
    int fd = x->given_back ? open_again(x->kept, O_RDWR) : -1;
    if (fd >= 0) {
        fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)x->size);
        close(fd);
    }
    x->in_use = in_use_elsewhere(x->kept);
    if (x->in_use)
        return;
    close(x->kept);
    x->kept = -1;
}

static void handle_close(rd_work *c)
{
    rd_handle *x = (rd_handle *)c;
    if (x->kind == RD_HANDLE_DEVICE)
        rk_memory_close(x->engine, x->memory);
    if (x->base && x->engine)
        rk_unpin(x->engine, x->base);
    if (x->base)
        munmap(x->base, x->size);
    if (x->writable) /* before the lease is tried */
        munmap(x->writable, x->size);
    x->base = x->writable = NULL;
    if (x->fd >= 0)
        close_passed(x->fd);
    x->fd = -1;
    if (x->kept >= 0)
        leave_arena(x);
}

uint8_t *rd_handle_writable(rd_handle *x)
{
    const int fd = x->writable ? -1 : open_again(x->kept, O_RDWR);
    if (fd < 0)
        return x->writable;
    void *base = mmap(NULL, x->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    x->writable = base == MAP_FAILED ? NULL : base;
    return x->writable;
}

static void give_arena(rd_handle *x)
{
    rd_users *users = x->holdings->users;
    x->charged = false;
    rd_discharge(users, x->user, RD_HELD_ARENA_BYTES, x->size);
    rd_discharge(users, x->user, RD_HELD_ARENAS, 1);
}

static rp_err take_arena(rd_users *users, rd_user *user, uint64_t size, rp_fault *f)
{
    if (size == 0)
        return rp_fail(f, RP_TOO_LARGE, "bytes", users->cap[RD_HELD_ARENA_BYTES], "an arena of 0 bytes");
    rp_err err = rd_charge(users, user, RD_HELD_ARENA_BYTES, size, f);
    if (!err && (err = rd_charge(users, user, RD_HELD_ARENAS, 1, f)))
        rd_discharge(users, user, RD_HELD_ARENA_BYTES, size);
    return err;
}

/* An allocation by handle was closed: another one may be opened now. */
static void open_refused(rd_holdings *h)
{
    h->open_devices--;
    while (h->refused) {
        rd_handle *x = h->refused;
        h->refused = x->next;
        x->fault.code = RP_OK;
        rd_workers_add(h->workers, &x->work);
    }
}

static void handle_closed(rd_work *c)
{
    rd_handle *x = (rd_handle *)c;
    rd_users *users = x->holdings->users;
    if (x->in_use) {
        x->next = x->holdings->in_use;
        x->holdings->in_use = x;
        return;
    }
    if (x->kind == RD_HANDLE_FILE)
        rd_discharge(users, x->user, RD_HELD_FILES, 1);
    else if (x->kind == RD_HANDLE_ARENA && x->charged)
        give_arena(x);
    else if (x->kind == RD_HANDLE_DEVICE)
        rd_discharge(users, x->user, RD_HELD_DEVICES, 1);
    if (x->by_handle && x->memory)
        open_refused(x->holdings);
    rd_user_put(users, x->user);
    free(x);
}

void rd_handle_release(rd_handle *x)
{
    if (atomic_fetch_sub_explicit(&x->uses, 1, memory_order_acq_rel) != 1)
        return;
    x->work.run = handle_close;
    x->work.done = handle_closed;
    rd_workers_add(x->holdings->workers, &x->work);
}

/* Take an arena out of the list of those in use; a worker frees its memory and descriptor. */
static void look_again(rd_handle **at)
{
    rd_handle *x = *at;
    *at = x->next;
    x->in_use = false;
    rd_workers_add(x->holdings->workers, &x->work);
}

void rd_handles_watch(rd_holdings *h)
{
    rd_handle *all = h->in_use;
    h->in_use = NULL; /* rebuilt below from those still in use */
    while (all)
        look_again(&all);
}

void rd_handles_forget(rd_holdings *h)
{
    while (h->in_use) {
        rd_handle *x = h->in_use;
        h->in_use = x->next;
        close(x->kept);
        x->in_use = false;
        handle_closed(&x->work);
    }
}

/* Arenas of the user that no process has any more stop counting now, instead of within a second. */
static void stop_charging(rd_holdings *h, const rd_user *user)
{
    for (rd_handle **at = &h->in_use; *at;) {
        rd_handle *x = *at;
        if (x->user != user || in_use_elsewhere(x->kept)) {
            at = &x->next;
            continue;
        }
        *at = x->next;
        give_arena(x);
        rd_workers_add(h->workers, &x->work);
    }
}

/* Close all allocations by handle, and let `x` wait until one of them is closed. False: there are none. */
static bool wait_for_others(rd_handle *x)
{
    rd_holdings *h = x->holdings;
    while (h->devices)
        rd_handles_drop(h->devices->list, h->devices);
    if (h->open_devices == 0)
        return false;
    x->next = h->refused;
    h->refused = x;
    return true;
}

static void handle_made(rd_work *c)
{
    rd_handle *x = (rd_handle *)c;
    if (x->by_handle && x->fault.code == RP_BUSY) {
        if (wait_for_others(x))
            return;
        x->fault.code = RP_BAD_HANDLE;
    }
    if (x->by_handle && x->memory)
        x->holdings->open_devices++;
    x->made(x);
}

static rp_err begin(rd_holdings *h, rd_handle *given, rd_user *user, void (*run)(rd_work *), rd_handle **out, rp_fault *f)
{
    rd_handle *x = malloc(sizeof *x);
    bool random = x && getrandom(&given->id, sizeof given->id, 0) == sizeof given->id;
    if (!random) {
        free(x);
        return rp_fail(f, RP_NO_MEMORY, "handle", 0, "no memory for a handle");
    }
    *x = *given;
    x->id |= x->id == 0;
    atomic_init(&x->uses, 1);
    x->kept = -1;
    x->charged = true;
    x->holdings = h;
    x->user = user;
    x->work = (rd_work){.run = run, .done = handle_made, .running = &user->running};
    user->refs++;
    *out = x;
    if (x->kind == RD_HANDLE_DEVICE && rk_opening(h->engine)) {
        x->next = h->late;
        h->late = x;
    } else {
        rd_workers_add(h->workers, &x->work);
    }
    return RP_OK;
}

void rd_handles_open_late(rd_holdings *h)
{
    while (h->late) {
        rd_handle *x = h->late;
        h->late = x->next;
        rd_workers_add(h->workers, &x->work);
    }
}

rp_err rd_handle_file(rd_holdings *h, rd_user *user, int fd, rd_handle_made *tell, void *maker, rd_handle **out, rp_fault *f)
{
    rd_handle x = {.kind = RD_HANDLE_FILE, .fd = fd, .made = tell, .maker = maker};
    rp_err err = rd_charge(h->users, user, RD_HELD_FILES, 1, f);
    if (!err && (err = begin(h, &x, user, handle_look_at_file, out, f)))
        rd_discharge(h->users, user, RD_HELD_FILES, 1);
    if (err)
        rd_handle_reject(h, user, fd);
    return err;
}

rp_err rd_handle_arena(rd_holdings *h, rd_user *user, uint64_t bytes, rd_handle_made *tell, void *maker, rd_handle **out,
                       rp_fault *f)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t size = bytes <= INT64_MAX - page ? (bytes + page - 1) / page * page : bytes; /* the latter is refused */
    rd_handle x = {.kind = RD_HANDLE_ARENA,
                   .holdings = h,
                   .user = user,
                   .fd = -1,
                   .size = size,
                   .engine = h->engine,
                   .made = tell,
                   .maker = maker};
    stop_charging(h, user);
    rp_err err = take_arena(h->users, user, size, f);
    if (!err && (err = begin(h, &x, user, handle_make_arena, out, f)))
        give_arena(&x);
    return err;
}

static rp_err begin_device(rd_holdings *h, rd_handle *x, rd_user *user, void (*run)(rd_work *), rd_handle **out, rp_fault *f)
{
    rp_err err = rd_charge(h->users, user, RD_HELD_DEVICES, 1, f);
    if (!err && (err = begin(h, x, user, run, out, f)))
        rd_discharge(h->users, user, RD_HELD_DEVICES, 1);
    return err;
}

rp_err rd_handle_device(rd_holdings *h, rd_user *user, const rp_side *p, rd_handle_made *tell, void *maker, rd_handle **out,
                        rp_fault *f)
{
    rd_handle x = {.kind = RD_HANDLE_DEVICE, .by_handle = true, .fd = -1, .engine = h->engine, .made = tell, .maker = maker};
    memcpy(x.device, p->device, sizeof x.device);
    memcpy(x.uuid, p->uuid, sizeof x.uuid);
    if (user->uid != geteuid())
        return rp_fail(f, RP_AUTH, "device", 0, "the daemon takes device memory from processes of its own user only");
    return begin_device(h, &x, user, handle_open_device, out, f);
}

rp_err rd_handle_device_fd(rd_holdings *h, rd_user *user, int fd, uint64_t bytes, rd_handle_made *tell, void *maker,
                           rd_handle **out, rp_fault *f)
{
    rd_handle x = {.kind = RD_HANDLE_DEVICE, .fd = fd, .size = bytes, .engine = h->engine, .made = tell, .maker = maker};
    rp_err err = begin_device(h, &x, user, handle_import_device, out, f);
    if (err)
        rd_handle_reject(h, user, fd);
    return err;
}

/* ---- unwanted descriptors ---- */
typedef struct {
    rd_work work;
    rd_users *users;
    rd_user *user;
    int fd;
} reject;

static void handle_close_rejected(rd_work *w) { close_passed(((reject *)w)->fd); }

static void handle_rejected_closed(rd_work *w)
{
    reject *x = (reject *)w;
    rd_discharge(x->users, x->user, RD_HELD_CLOSING, 1);
    rd_user_put(x->users, x->user);
    free(x);
}

void rd_handle_reject(rd_holdings *h, rd_user *user, int fd)
{
    reject *x = malloc(sizeof *x);
    if (!x) {
        close(fd);
        return;
    }
    user->refs++;
    rd_charge_anyway(h->users, user, RD_HELD_CLOSING, 1);
    *x = (reject){
        {.run = handle_close_rejected, .done = handle_rejected_closed, .running = &user->running}, h->users, user, fd};
    rd_workers_add(h->workers, &x->work);
}

/* ---- lists ---- */
static void leave_devices(rd_handle *x)
{
    rd_handle **at = &x->holdings->devices;
    while (*at != x)
        at = &(*at)->next_device;
    *at = x->next_device;
}

void rd_handles_add(rd_handle_list *l, rd_handle *x)
{
    x->list = l;
    if (x->by_handle) {
        x->next_device = x->holdings->devices;
        x->holdings->devices = x;
    }
    pthread_mutex_lock(&x->holdings->lock);
    x->next = l->first;
    l->first = x;
    l->n++;
    pthread_mutex_unlock(&x->holdings->lock);
}

rd_handle *rd_handles_find(const rd_handle_list *l, uint64_t id)
{
    rd_handle *x = l->first;
    while (x && x->id != id)
        x = x->next;
    return x;
}

void rd_handles_drop(rd_handle_list *l, rd_handle *x)
{
    rd_handle **at = &l->first;
    while (*at != x)
        at = &(*at)->next;
    pthread_mutex_lock(&x->holdings->lock);
    *at = x->next;
    l->n--;
    pthread_mutex_unlock(&x->holdings->lock);
    if (x->by_handle)
        leave_devices(x);
    rd_handle_release(x);
}

void rd_handles_drop_all(rd_handle_list *l)
{
    while (l->first)
        rd_handles_drop(l, l->first);
}
