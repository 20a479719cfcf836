/* Inside kernels/: what the front (engine.c, one_device.c) and a backend owe each other. Others use kernels.h.
 *
 * The front owns the options, the queues of finished tasks and the small-task shortcut. A backend owns the threads and
 * the memory of one device; an engine with several devices opens it as often. A task belongs to the backend from
 * `submit` or `begin` until it calls rk_complete with it, exactly once, from any thread. */
#ifndef RK_ENGINE_H
#define RK_ENGINE_H

#include "kernels/engine/clock.h"
#include "kernels/engine/inflight.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    RK_MEMORY_NEW,
    RK_MEMORY_LENT,
    RK_MEMORY_OPENED,
    RK_MEMORY_IMPORTED
} rk_memory_kind; /* by which rk_memory_... */

struct rk_memory {
    rk_memory_kind kind;
    void *base; /* device pointer; CPU backend: host pointer */
    size_t bytes;
    struct rk_device *device; /* where it is; NULL: in parts on several */
    struct rk_memory **part;  /* of memory on several devices, in their order: `each` bytes, of the last one what is left */
    unsigned parts;
    size_t each;
    /* the front's, of what is opened: which, and how often */
    uint8_t handle[RP_DEVICE_HANDLE];
    unsigned uses;
    struct rk_memory *next;
};

enum { RK_BATCH_FLIGHTS = 2 }; /* batches under way at a time, at most */

/* Small tasks together (batch.c). One batch at a time in each flight: `launch`, then `landed` until it is true. Any thread, but
 * one at a time for each flight. */
typedef struct rk_batch_ops {
    bool (*fits)(const rk_task *t); /* beside its size */
    /* Begin the tasks, linked by `next`, at most RK_BATCH_TASKS. Faults are reported when they land. */
    void (*launch)(void *impl, unsigned flight, rk_task *tasks);
    /* Are they all finished? Then cells, fault, backend and times are set. `closely`: it takes long, so ask the device what is
     * wrong. */
    bool (*landed)(void *impl, unsigned flight, rk_task *tasks, bool closely);
    uint64_t linger_ns; /* after a batch: how long a thread looks for the next one before it sleeps */
    unsigned flights;   /* 1 to RK_BATCH_FLIGHTS */
} rk_batch_ops;

/* A device that could be opened. */
typedef struct rk_device_info {
    int ordinal;        /* CUDA's number */
    uint8_t uuid[16];   /* of a GPU or MIG instance */
    char name[RK_UUID]; /* the same as text: "GPU-...", "CPU-0" */
} rk_device_info;

typedef struct rk_backend_ops {
    /* Is it worth a try? At once, without opening anything. NULL: it is. */
    bool (*present)(void);
    /* The devices that there are, *n of at most `cap`; why there are none. NULL: one, of the machine's. */
    rp_err (*list)(rk_device_info *out, unsigned cap, unsigned *n, char *why, size_t why_cap);
    /* Start on the device `ordinal`: set *impl, log through rk_log, explain in `why`. Tasks are handed back to `tasks`; both
     * pointers stay valid until `close`. On error nothing is left behind. */
    rp_err (*open)(rk_inflight *tasks, const rk_options *o, int ordinal, void **impl, char *why, size_t why_cap);
    void (*submit)(void *impl, rk_task *t); /* any thread; never blocks for long: queue it */
    /* The only task under way, so begin it in this thread, whichever that is, if that takes no longer than a launch. False, and
     * nothing done: submit it. NULL: none is begun so. */
    bool (*begin)(void *impl, rk_task *t);
    void (*trim)(void *impl);               /* rk_trim. NULL: nothing grows */
    void (*stop)(void *impl);               /* joins threads; queued tasks are dropped, running ones completed. Once */
    void (*close)(void *impl);              /* after stop: frees the rest */
    void (*stats)(void *impl, rk_stats *s); /* fill the backend's own fields */
    /* NULL: memory is as good as it is. Several devices pin the same memory, one after the other. */
    bool (*pin)(void *impl, const void *base, size_t bytes);
    void (*unpin)(void *impl, const void *base);                 /* perhaps not pinned; NULL if pin is */
    rp_err (*memory_new)(void *impl, rk_memory *m, rp_fault *f); /* m->bytes of zeros: set m->base */
    rp_err (*memory_open)(void *impl, const uint8_t *handle, rk_memory *m, rp_fault *f); /* both; NULL: no device */
    rp_err (*memory_import)(void *impl, int fd, rk_memory *m, rp_fault *f); /* m->bytes of it: set m->base; NULL: no device */
    /* Of a loss that is looked into: wait until it is known which devices it takes. NULL: it is known. */
    void (*settle)(void);
    /* All of m, of memory_new, to (`out`) or from the host. NULL: m->base is the host's. */
    rp_err (*memory_copy)(void *impl, const rk_memory *m, void *host, bool out, rp_fault *f);
    void (*memory_close)(void *impl, rk_memory *m);
    uint64_t (*memory_total)(void *impl); /* bytes that device or machine have */
    const rk_batch_ops *batch;
} rk_backend_ops;

extern const rk_backend_ops rk_cpu_backend;
extern const rk_backend_ops rk_cuda_backend; /* none.c stands in when nvcc was absent: its open fails with TYPE */

/* To the options' `log`. Any thread. */
void rk_log(const rk_options *o, rk_log_level level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Run a whole task here and now on one CPU thread: the small-task shortcut, the oracle of the GPU's tests, and what the
 * CPU backend's workers do with a piece. Any thread; touches only the task. Fills fault, backend and times. */
void rk_cpu_run(rk_task *t);

/* The same for a task of one line, or of columns, whose elements come in parts (rk_run_parts). False: they ended too soon, so
 * cells and fault are as they were. */
bool rk_cpu_run_parts(rk_task *t, rk_next_fn *next, void *arg);

/* Fill t->fault for row `row` whose finish gave `code` (EMPTY, NAN, OVERFLOW); `s` is that row's final state. */
void rk_row_fault(rk_task *t, uint64_t row, int code, const void *s);

/* Row or column `line` of a task, whose state `s` is complete but for the initial element, has no result: fill t->fault. */
void rk_explain(rk_task *t, uint64_t line, void *s);

/* How much work a task is, in bytes: its data, and each result as a state, which is what it takes to finish it, so that many
 * empty rows count, too. */
size_t rk_task_size(const rk_task *t);

/* RP_STATES_IN: check every state, and that their counts stay below RP_MAX_COUNT in each row; the fault is filled. */
rp_err rk_check_states(rk_task *t);

#ifdef __cplusplus
}
#endif
#endif
