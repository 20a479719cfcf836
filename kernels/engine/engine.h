/* Inside kernels/: the interface between the front (engine.c, one_device.c) and a backend. Others use kernels.h.
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
} rk_memory_kind; /* which rk_memory_... call made it */

struct rk_memory {
    rk_memory_kind kind;
    void *base; /* device pointer; CPU backend: host pointer */
    size_t bytes;
    struct rk_device *device; /* the device that it is on; NULL: in parts on several */
    struct rk_memory **part;  /* memory on several devices, in their order: `each` bytes a device, and the rest on the last
                                 one */
    unsigned parts;
    size_t each;
    /* for the front, of opened memory: its handle, and how often it is open */
    uint8_t handle[RP_DEVICE_HANDLE];
    unsigned uses;
    struct rk_memory *next;
};

/* A device that could be opened. */
typedef struct rk_device_info {
    int ordinal;        /* CUDA's number */
    uint8_t uuid[16];   /* of a GPU or MIG instance */
    char name[RK_UUID]; /* the same as text: "GPU-...", "CPU-0" */
} rk_device_info;

typedef struct rk_backend_ops {
    /* Could the backend open? Answers at once, without opening anything. NULL: yes. */
    bool (*present)(void);
    /* Lists the devices, *n of at most `cap`; `why` says why there are none. NULL: there is one, the machine itself. */
    rp_err (*list)(rk_device_info *out, unsigned cap, unsigned *n, char *why, size_t why_cap);
    /* Start on the device `ordinal`: set *impl, log through rk_log, explain in `why`. Tasks are handed back to `tasks`; both
     * pointers stay valid until `close`. On error nothing is left behind. */
    rp_err (*open)(rk_inflight *tasks, const rk_options *o, int ordinal, void **impl, char *why, size_t why_cap);
    void (*submit)(void *impl, rk_task *t); /* any thread; must not block for long: it queues the task */
    /* The task is the only one under way: begin it in the calling thread, if that takes no longer than a launch. False, and
     * nothing is done: submit it. NULL: the backend never begins tasks so. */
    bool (*begin)(void *impl, rk_task *t);
    /* Does the backend compute such a task where its data lie: rp_needs_all? NULL: none. */
    bool (*selects)(const rk_task *t);
    void (*trim)(void *impl);               /* rk_trim. NULL: nothing to trim */
    void (*stop)(void *impl);               /* joins threads; queued tasks are dropped, running ones completed. Once */
    void (*close)(void *impl);              /* after stop: frees the rest */
    void (*stats)(void *impl, rk_stats *s); /* fill the backend's own fields */
    /* NULL: pinning does not help. Several devices pin the same memory, one after the other. */
    bool (*pin)(void *impl, const void *base, size_t bytes);
    void (*unpin)(void *impl, const void *base);                 /* also for memory that is not pinned; NULL if `pin` is */
    rp_err (*memory_new)(void *impl, rk_memory *m, rp_fault *f); /* m->bytes of zeros: set m->base */
    rp_err (*memory_open)(void *impl, const uint8_t *handle, rk_memory *m, rp_fault *f); /* both; NULL: no device */
    rp_err (*memory_import)(void *impl, int fd, rk_memory *m, rp_fault *f); /* m->bytes of it: set m->base; NULL: no device */
    /* After a loss: wait until it is known which devices are affected. NULL: that is always known. */
    void (*settle)(void);
    /* All of m, of memory_new, to (`out`) or from the host. NULL: m->base is the host's. */
    rp_err (*memory_copy)(void *impl, const rk_memory *m, void *host, bool out, rp_fault *f);
    void (*memory_close)(void *impl, rk_memory *m);
    uint64_t (*memory_total)(void *impl); /* bytes of the device's or the machine's memory */
} rk_backend_ops;

extern const rk_backend_ops rk_cpu_backend;
extern const rk_backend_ops rk_cuda_backend; /* without nvcc, none.c provides one whose open fails with TYPE */

/* To the options' `log`. Any thread. */
void rk_log(const rk_options *o, rk_log_level level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The CPU begins a task: note the time and clear the fault. */
void rk_cpu_begin(rk_task *t);

/* Run a whole task here and now on one CPU thread: the small-task shortcut, the oracle of the GPU's tests, and what the
 * CPU backend's workers do with a piece. Any thread; touches only the task. Fills fault, backend and times. */
void rk_cpu_run(rk_task *t);

/* Fill t->fault for row `row` whose finish gave `code` (EMPTY, NAN, OVERFLOW); `s` is that row's final state. */
void rk_row_fault(rk_task *t, uint64_t row, int code, const void *s);

/* Fill t->fault: row or column `line` has no result. Its state `s` is complete except for the initial element. */
void rk_explain(rk_task *t, uint64_t line, void *s);

/* The name of the only route of tasks by key, of any device. */
extern const char rk_by_key_route[];

/* The fault of a key, sign-extended, that is not a group. `at`: its element. */
rp_err rk_by_key_wrong(rp_fault *f, const rp_spec *s, uint64_t key, uint64_t at);

/* The work of a task in bytes: its data, plus the size of a state for each result. So finishing many empty rows counts, too. */
size_t rk_task_size(const rk_task *t);

/* Is the task's deadline over, or was it stopped? Then *f says so. */
bool rk_task_late(const rk_task *t, rp_fault *f);

/* RP_STATES_IN: check every state, and that their counts stay below RP_MAX_COUNT in each row; the fault is filled. */
rp_err rk_check_states(rk_task *t);

#ifdef __cplusplus
}
#endif
#endif
