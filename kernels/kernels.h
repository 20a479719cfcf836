/* The one interface to the reduction engines: CUDA or CPU behind the same calls, with the same bits out of both.
 *
 *     rk_open -> rk_submit ... rk_poll ... -> rk_stop -> rk_close
 *
 * With `early`, rk_open gives an engine that computes on the CPU while another thread opens the GPUs:
 *
 *     rk_open -> rk_open_devices (a thread) -> rk_join
 *
 * An engine has one or more devices: GPUs, or with the CPU one engine, which tests open several times. Their numbers begin
 * with 0. A task goes where its data lie, to the device that it names, or to the one with the least work; the bits do not
 * depend on it. A device that fails is left out: its tasks go to the others, and only tasks on its memory get DEVICE_LOST.
 *
 * A task names host memory with elements (or partial states), or memory of the engine (rk_memory), and host memory for the
 * cells of the reply. The engine allocates nothing per task; the caller keeps the task and its memories alive and untouched
 * from rk_submit until the task is given back. What each reduction means: proto/PROTOCOL.md, "Reductions".
 *
 * Threads: RK_QUEUED of rk_submit, rk_poll, rk_get_stats and rk_close are for one thread at a time (the owner), and never wait
 * for the device (rk_close does); the other ways of rk_submit, rk_feed_*, rk_pin, rk_unpin and rk_memory_*
 * are for any, also several at once, before rk_close. The engine's own threads call only `wake`, `log` and `done`, which must
 * not block; `wake` and `log` must not call back into the engine. */
#ifndef RK_KERNELS_H
#define RK_KERNELS_H

#include "proto/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rk_engine rk_engine;
typedef struct rk_memory rk_memory;

typedef enum { RK_LOG_DEBUG, RK_LOG_INFO, RK_LOG_WARN, RK_LOG_ERROR } rk_log_level;

typedef enum {
    RK_SUMS_AUTO,    /* what is fastest for the size and the device */
    RK_SUMS_LONG,    /* long accumulators for every size, as for large arrays */
    RK_SUMS_INTEGERS /* f16, bf16 and f32 by integers, as on devices with slow doubles */
} rk_sums;

/* The most devices of an engine, and the bytes of a device's name, "GPU-2c7b8d4e-....", with its terminator. */
enum { RK_MAX_DEVICES = RP_MAX_GPUS, RK_UUID = 48 };

/* Where rk_memory_new makes memory: on the device of this number, or ... */
enum {
    RK_PLACE_ANY = -1,   /* on the device with the most free memory; spread over all devices if it fits on none */
    RK_PLACE_SPREAD = -2 /* in equal parts over all devices */
};

typedef struct rk_options {
    int backend;             /* an rp_backend; or 0 = auto: CUDA if compiled in and a device answers, with the CPU, which takes
                                its share of large data of the host by measured rates; else the CPU */
    bool early;              /* where rk_may_be_early: the CPU computes at once, and the devices join (rk_join) */
    const char *devices;     /* CUDA: "all", or numbers and UUIDs, separated by commas; the start of a UUID is enough. CPU: how
                                many, for tests. NULL or "": all; one of the CPU. Valid as long as rk_open takes */
    int threads;             /* CPU workers, 0 = one per available core; several devices share the cores */
    int cut_for;             /* the CPU cuts tasks into pieces for this number of workers; 0 = all of them */
    size_t small_bytes;      /* tasks up to this size (data and a state for each result) run on the CPU in the
                                 submitter's thread, even with CUDA: they cost microseconds, less than a launch. 0 = never */
    rk_sums sums;            /* CUDA: how floats are summed, for tests and comparisons; the bits are the same */
    int slots;               /* CUDA: staging slots, each with stream, pinned and device memory. 0 = 8 */
    uint64_t pinned_bytes;   /* CUDA: the most that rk_pin locks in total. 0 = half of the machine's memory */
    uint64_t device_bytes;   /* CUDA: most memory of each device for slots and rk_memory_new together, without the driver's own
                                memory. With less memory there are fewer slots. 0 = no limit. Beside it tasks by key have
                                tables of a quarter of it, or of 1 GiB without a limit */
    uint64_t resident_bytes; /* the most that rk_memory_new gives in total. 0 = half of the devices', or the machine's,
                                memory */
    double device_rate;      /* bytes a nanosecond that the devices together had before; 0: not known */
    double cpu_rate;         /* the same of the CPU beside them */
    struct rk_busy *busy;    /* set by rk_open: the engine's own */
    void (*wake)(void *arg); /* called after a task became pollable; calls may coalesce */
    void *wake_arg;
    void (*log)(void *arg, rk_log_level level, const char *text);
    void *log_arg;
} rk_options;

/* Open an engine. On success *e is the caller's to close and `why` (may be NULL, else at least 160 bytes) says which
 * backend was taken and why, for the log. A device that does not open is left out, with a line in the log, unless it is the
 * last one. Errors (`why` has them in words): TYPE (backend not compiled in, no device when it was asked for by name, or wrong
 * `devices`), NO_MEMORY, DEVICE_LOST, INTERNAL (floating-point environment unusable, self-test failed). */
rp_err rk_open(rk_engine **e, const rk_options *o, char *why, size_t why_cap);

/* May an engine with these options compute before its devices are open? Not if CUDA or devices are asked for by name, which are
 * errors of rk_open then; not without CUDA or its driver. */
bool rk_may_be_early(const rk_options *o);

/* Are devices still to join? Until then rk_devices is 1 and stands for the CPU, and calls that need a device (memory_new, _open
 * and _import, tasks with `device`) must wait. Any thread. */
bool rk_opening(const rk_engine *e);

/* Open the devices of an `early` engine, and test that each computes correctly. Once, any thread; it takes as long as the
 * driver does. rk_stop may come meanwhile, rk_close may not. */
void rk_open_devices(rk_engine *e);

/* Have the devices opened, or failed to open? If open, they take tasks from now on; after an error the CPU stays the engine's
 * only device. `why`, as in rk_open, says which. Lent memory stays where it is. False: they are still opening. The owner. */
bool rk_join(rk_engine *e, rp_err *err, char *why, size_t why_cap);

/* Finish what is running, drop the other tasks (none is polled any more; that of RK_ALONE is handed back) and end the
 * engine's threads: nothing of the engine touches a task or its memory afterwards. Left are rk_get_stats, rk_pin, rk_unpin,
 * rk_memory_* and rk_close. May be repeated; NULL is allowed. */
void rk_stop(rk_engine *e);

/* Merge n canonical states into as many others, which lie one behind the other; aligned to 8. Any thread; some 60 ns each. */
void rk_states_join(void *into, const void *from, uint64_t n, size_t size);

/* There is no work at present: soon give back the memory that pools have grown to. The owner. */
void rk_trim(rk_engine *e);

/* rk_stop, and free everything. NULL is allowed. */
void rk_close(rk_engine *e);

typedef struct rk_task {
    /* in: set by the caller */
    rp_spec spec;     /* checked: rp_spec_check and rp_spec_match have passed; `device`: at most 1 + the last one's number */
    const void *data; /* as rp_spec_parts cuts it: offsets (checked), elements or canonical states, mask. Any alignment */
    const rp_parts *beside; /* companions that are elsewhere, where rk_memory_near allows; NULL: none */
    size_t bytes;
    rk_memory *memory; /* NULL: `data` has the elements. Else they are here, `bytes` from `offset` on, within the memory, any
                          number; `offset` a multiple of the element's size; no states, and offsets only `beside`, where the
                          CPU computes; spread no mask nor offsets; `data` NULL */
    uint64_t offset;
    bool fill;     /* no reduction: copy `bytes` of `data`, RP_MAX_DATA at most, to `memory`; spec and cells are not used. Tasks
                      have no order: submit a task that reads filled memory after the fill was polled */
    void *cells;   /* rp_results x rp_cell_size(&spec) bytes, any alignment */
    uint64_t base; /* index of the first element within its row: chunks of a stream; 0 otherwise */
    /* Order statistics and tasks by key begin no further pass or piece after `until_ns` (CLOCK_MONOTONIC; 0: no limit), and end
     * with DEADLINE; nor after rk_task_stop, and end with CANCELLED. On a device all passes begin together. */
    uint64_t until_ns;
    bool stopped;
    void *user;                      /* the caller's */
    void (*done)(struct rk_task *t); /* takes the finished task of RK_ALONE. Must not block, and may submit */
    /* out: valid after rk_poll */
    rp_fault fault;    /* .code RP_OK, or why there is no result; index = first row, segment or column concerned */
    uint8_t backend;   /* rp_backend that computed it */
    uint8_t device;    /* number of the device that computed it; for `memory` on several, the first */
    uint64_t start_ns; /* CLOCK_MONOTONIC when the engine began it */
    uint64_t copy_ns, compute_ns;
    const char *route; /* how it was reduced: a name from the table of kernels/cpu/lines.c, or of
                          kernels/cuda/launch/routes.cu; NULL: not known. Never freed */
    /* the engine's; the caller's are NULL */
    const struct rk_task *whole; /* what this is a part of, and stopped with */
    const uint64_t *bounds;      /* of a histogram: keys instead of spec.edges, ascending (kernels/cpu/order/sample.h) */
    struct rk_task *next;
    void *impl;
    uint64_t load;
} rk_task;

/* A task that the engine has: nobody wants its result any more. Any thread. */
static inline void rk_task_stop(rk_task *t) { __atomic_store_n(&t->stopped, true, __ATOMIC_RELAXED); }

/* Bytes of elements that a task keeps on the CPU while it searches for ranks, at most: if more are left, it passes over the
 * data again. Of lines that threads have each for itself, RK_ORDER_LINES together have as much. */
enum { RK_ORDER_KEPT = 128 << 20, RK_ORDER_LINES = 16 };

/* Ways to run a task. rk_submit takes the first one of those it is given that the task fits, in this order. */
enum {
    RK_HERE = 1,  /* a small task (small_bytes) runs in this call */
    RK_ALONE = 2, /* a task of any size begins at once if the engine is at rest: no task of RK_QUEUED that has not been
                     polled, and none of RK_ALONE, for the last 20 us. So it overtakes no other task. If the data are in
                     memory of the engine, this thread launches (H100, 2026-11-21: 20 to 33 us), else it only queues */
    RK_QUEUED = 4 /* any task waits for its device, and then for rk_poll. Never blocks and never refuses: errors come back in
                     `fault`. The caller bounds what is in flight. Only the owner */
};

typedef enum {
    RK_REFUSED,  /* the task fits none of these ways: nothing is done */
    RK_FINISHED, /* it ran here: it is not polled, and `done` is not called */
    RK_UNDER_WAY /* RK_QUEUED: rk_poll returns it. Else a thread of the engine, or this one before it returns, calls `done`
                    with the finished task, which is not polled */
} rk_submitted;

/* Hand a task to the engine in one of `ways`. Any thread, several at once, unless RK_QUEUED is among them. */
rk_submitted rk_submit(rk_engine *e, rk_task *t, unsigned ways);

/* The owner reads the data of a request by itself: the engine counts as busy, and knows how many threads read. Any thread. */
void rk_work_begin(rk_engine *e);
void rk_work_end(rk_engine *e);

/* A feed is a task whose elements come in parts, so that each is still in the cache when it is reduced:
 *
 *     rk_feed_open -> rk_feed_add ... -> rk_feed_end
 *
 * A task with several short rows, segments, planes, too many columns, a mask or states has no feed, nor one that takes long.
 * Beside GPUs one of at most RP_MAX_DATA has a feed if the threads that read now reduce faster than these; rk_takes_parts,
 * which says in advance, from the spec alone, whether one of any length has it, is false then. */
typedef struct rk_feed rk_feed;
bool rk_takes_parts(rk_engine *e, const rk_task *t);

/* Open a feed of `t`, which rk_feed_end gives back; `data` is not used. NULL, and nothing is done: it has none, or there
 * is no memory. */
rk_feed *rk_feed_open(rk_engine *e, rk_task *t);

/* Reduce `n` elements, from element `from` of the task on. Parts of columns are whole rows and come in any order, from any
 * number of threads at once. Other parts come in order, one at a time. False: no memory; `f` has the fault. */
bool rk_feed_add(rk_feed *x, const void *data, uint64_t from, uint64_t n, rp_fault *f);

/* This thread adds no more for now: it joins states that others have left, which the end would have to do. Any thread. */
void rk_feed_join(rk_feed *x);

/* `complete`: all elements were added; now the cells and the fault are. Else the task has no result, and the caller knows why.
 * compute_ns is the time in the calls of all threads. The caller sets copy_ns. */
void rk_feed_end(rk_feed *x, bool complete);

/* The next finished task, or NULL. */
rk_task *rk_poll(rk_engine *e);

/* Page-lock memory, so that the device copies from it directly. It is a hint: false if there is no device or the limit
 * (pinned_bytes) is reached; tasks work in any case. The memory need not be writable. rk_unpin before it is unmapped, with no
 * task under way there; only what was pinned. Any thread; may take long (H100, 2026-11-21: 36 ms for 1 GiB). */
bool rk_pin(rk_engine *e, const void *base, size_t bytes);
void rk_unpin(rk_engine *e, const void *base);

/* ---- memory of the engine ----
 * It is where the device reads it fastest: on the CUDA device, else plain memory. These calls may take long (they may wait for
 * the device to be idle), so a thread that must not wait must not make them. */

/* New memory, zeroed, at a place: a device's number or an RK_PLACE. Errors: QUOTA (resident_bytes), NO_MEMORY, DEVICE_LOST,
 * BAD_HANDLE (no device of this number). */
rp_err rk_memory_new(rk_engine *e, int place, size_t bytes, rk_memory **m, rp_fault *f);

/* The number of its device, or RK_PLACE_SPREAD; RK_PLACE_ANY: it is lent host memory. */
int rk_memory_place(const rk_memory *m);

/* The address of a byte, on its device; not of memory on several. */
const uint8_t *rk_memory_at(const rk_memory *m, uint64_t offset);

/* May a task whose elements are in `m` have companions `beside` them? NULL stands for memory of the host. A GPU takes a mask,
 * weights and keys on the same device. */
bool rk_memory_near(const rk_engine *e, const rk_memory *m, const rk_memory *beside, rp_role role);

/* May a task of this memory leave more cells than a reply has? Where the CPU computes, or by key; not over several devices. */
bool rk_takes_large(const rk_engine *e, const rk_memory *m, bool keyed);

/* Is its device, or one of its devices, lost? Any thread. */
bool rk_memory_lost(const rk_memory *m);

/* The whole device allocation that another process exported; the task's `offset` counts from its first byte. The other
 * process keeps it allocated until rk_memory_close, and has what it wrote there finished before a task is submitted. Opened
 * twice it is the same memory, which must be closed twice. `uuid`: its device's, 16 bytes; NULL: unknown, so all devices are
 * tried. Errors: TYPE (the engine has no device), BAD_HANDLE (no such allocation, another user's, another device's, this
 * process's own), BUSY (memory that was opened before overlaps it: when the process has freed that, close it and try again),
 * NO_MEMORY, DEVICE_LOST. */
rp_err rk_memory_open(rk_engine *e, const uint8_t handle[RP_DEVICE_HANDLE], const uint8_t *uuid, rk_memory **m, rp_fault *f);

/* The same for an allocation of `bytes` bytes that was exported as a descriptor, which stays the caller's. The memory exists
 * until rk_memory_close, even if the other process frees it. Errors: TYPE, BAD_HANDLE (no such descriptor, another size,
 * another device's), NO_MEMORY, DEVICE_LOST. */
rp_err rk_memory_import(rk_engine *e, int fd, size_t bytes, rk_memory **m, rp_fault *f);

/* Lend host memory to an engine that computes there, or was `early`: the caller keeps `base` readable until rk_memory_close. It
 * is placed and counted like rk_memory_new's. Errors: TYPE (the engine has a device), and those of rk_memory_new. */
rp_err rk_memory_lend(rk_engine *e, int place, void *base, size_t bytes, rk_memory **m, rp_fault *f);

/* Copy all of rk_memory_new's memory to the host, or from there; waits. No task that writes it is under way. Errors: those of
 * a device. */
rp_err rk_memory_read(const rk_memory *m, void *to, rp_fault *f);
rp_err rk_memory_write(rk_memory *m, const void *from, rp_fault *f);

size_t rk_memory_bytes(const rk_memory *m);

/* Free or unmap it, after every task that names it has been polled. NULL is allowed. All must be closed before rk_close. */
void rk_memory_close(rk_engine *e, rk_memory *m);

/* A health check: a real reduction with a known answer on a device of the engine. Fills *t, with its memory, as a task to
 * submit; after it was polled, rk_probe_ok says whether the answer was right. One probe of a device at a time. */
void rk_probe(rk_engine *e, unsigned device, rk_task *t);
bool rk_probe_ok(const rk_task *t);

/* Take a device out of service, as if it had failed, because its answers are wrong. The owner. */
void rk_retire(rk_engine *e, unsigned device);

typedef struct rk_stats {
    int backend;           /* rp_backend of the engine */
    unsigned devices;      /* number of devices that were opened */
    unsigned devices_lost; /* those of them that failed for good */
    char device[96];       /* "NVIDIA H100 80GB HBM3 (sm_90, 132 SMs)" or the CPU's name; of several, the first one's */
    char uuid[RK_UUID];    /* of a device: "GPU-...", "CPU-0"; of an engine with several "" */
    int ordinal;           /* of a device: CUDA's number */
    uint64_t memory_peak;  /* of a device: bytes a second that its memory can move at most; 0: unknown */
    char simd[16];         /* CPU code in use: avx512, avx2, baseline */
    int threads;           /* CPU workers */
    bool opening;          /* rk_opening */
    bool lost;             /* every device failed for good: answer the remaining requests and exit */
    uint64_t device_bytes; /* device memory in pools now */
    uint64_t pinned_bytes; /* pinned staging in pools now */
    uint64_t device_cap, pinned_cap;
    uint64_t locked_bytes, locked_cap;     /* of rk_pin */
    uint64_t resident_bytes, resident_cap; /* of rk_memory_new */
    uint64_t imports;                      /* memories of rk_memory_open and rk_memory_import */
    uint64_t slots, slots_busy;
    uint64_t tasks, small_tasks, device_tasks; /* finished so far: all, in the submitter's thread, on the device */
    uint64_t busy_ns;                          /* device or worker time, summed */
    uint64_t active_ns;             /* time with at least one task: at the device or the workers; of the engine, also in
                           other threads (rk_work_begin) */
    uint64_t device_rate, cpu_rate; /* bytes a second while at work, of the devices together and of the CPU; 0: not known */
} rk_stats;
void rk_get_stats(rk_engine *e, rk_stats *s);

/* The same of one device. */
void rk_get_device_stats(rk_engine *e, unsigned device, rk_stats *s);

/* Devices of the engine; "0 (GPU-...), 1 (...)", as many as there is room for. Any thread. */
unsigned rk_devices(const rk_engine *e);
void rk_device_names(const rk_engine *e, char *out, size_t cap);
bool rk_device_lost(const rk_engine *e, unsigned device);

/* The number of sharers of large host data: the devices, and the CPU beside them. */
unsigned rk_sharers(const rk_engine *e);

/* The number of devices in service. A failure of one may affect others: this waits until they were checked, which takes some
 * calls of the driver. Ask it before a task is answered with DEVICE_LOST. Any thread. */
unsigned rk_devices_left(const rk_engine *e);

#ifdef __cplusplus
}
#endif
#endif
