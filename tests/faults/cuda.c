/* The CUDA engine while calls of the runtime (cudart.c) and its own fail, one at a time, first as memory does, then as a
 * kernel that breaks the context: opening, tasks of every kind, closing. Each task comes back, with a result (of
 * kernels that do nothing) or with a fault that has a text; a broken context is reported as lost; copied data arrive; nothing
 * hangs, leaks or crashes. */
#include <driver_types.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/engine/engine.h"
#include "tests/faults/cudart.h"
#include "tests/faults/faults.h"

enum { ELEMENTS = 100000, LIMIT_S = 60 };

static float data[ELEMENTS];
static uint8_t bytes[RP_MAX_DATA];
static uint64_t cells[16 * 1024];

static void die(const char *what)
{
    t_faults *f = t_faults_page();
    fprintf(stderr, "%s, after a fault in %s (call %llu)\n", what, f->name, (unsigned long long)f->fail_at);
    exit(1);
}

static rp_spec spec_of(int op, uint64_t rows, uint64_t row_len, uint32_t flags)
{
    rp_spec s = {.op = (uint8_t)op, .dtype = RP_F32, .nan = RP_NAN_OMIT, .rows = rows, .row_len = row_len, .flags = flags};
    if (rp_spec_check(&s, NULL))
        die("a wrong spec");
    return s;
}

/* Submit, and wait, asking for counters as the daemon's loop does: a task that does not come back ends the program by its
 * alarm. */
static void run(rk_engine *e, rk_task *t)
{
    rk_stats s;
    if (rk_submit(e, t, RK_HERE | RK_QUEUED) != RK_FINISHED)
        while (rk_poll(e) != t) {
            rk_get_stats(e, &s);
            usleep(50); /* poll interval */
        }
    if (t->fault.code != RP_OK && !t->fault.text[0])
        die("a fault without a text");
}

static void reduce(rk_engine *e, rp_spec spec, rk_memory *m)
{
    rk_task t = {
        .spec = spec, .data = m ? NULL : data, .bytes = spec.rows * spec.row_len * sizeof *data, .memory = m, .cells = cells};
    run(e, &t);
}

static sem_t handed_back;

static void hand_back(rk_task *t)
{
    (void)t;
    sem_post(&handed_back);
}

/* In the thread that brings it. */
static void reduce_alone(rk_engine *e, rp_spec spec, rk_memory *m)
{
    rk_task t = {.spec = spec, .bytes = spec.row_len * sizeof *data, .memory = m, .cells = cells, .done = hand_back};
    sem_init(&handed_back, 0, 0);
    while (rk_submit(e, &t, RK_ALONE) == RK_REFUSED) /* the engine is not at rest yet */
        sched_yield();
    sem_wait(&handed_back);
}

/* To the host and back, as for data that outlive the daemon. */
static void copy_memory(rk_memory *m)
{
    static uint8_t copy[sizeof bytes];
    rp_fault f = {.index = RP_NO_INDEX};
    if (rk_memory_write(m, bytes, &f) || rk_memory_read(m, copy, &f)) {
        if (!f.text[0])
            die("a fault without a text");
    } else if (memcmp(copy, bytes, sizeof bytes) != 0) {
        die("other bytes came back than were sent");
    }
}

static void use_memory(rk_engine *e)
{
    rk_memory *m;
    rp_fault f = {.index = RP_NO_INDEX};
    if (rk_memory_new(e, RK_PLACE_ANY, sizeof bytes, &m, &f)) {
        if (!f.text[0])
            die("a fault without a text");
        return;
    }
    rk_task t = {.data = bytes, .bytes = sizeof bytes, .memory = m, .fill = true};
    run(e, &t);
    if (t.fault.code == RP_OK && memcmp(m->base, bytes, sizeof bytes) != 0)
        die("other bytes arrived than were sent");
    copy_memory(m);
    reduce(e, spec_of(RP_OP_SUM, 1, ELEMENTS, 0), m);
    reduce(e, spec_of(RP_OP_MAX, 10, ELEMENTS / 10, 0), m);
    reduce_alone(e, spec_of(RP_OP_MIN, 1, ELEMENTS, 0), m);
    rk_memory_close(e, m);
}

static void open_memory(rk_engine *e)
{
    static const uint8_t handle[RP_DEVICE_HANDLE] = {1};
    rk_memory *m;
    rp_fault f = {.index = RP_NO_INDEX};
    if (rk_memory_open(e, handle, NULL, &m, &f) == RP_OK)
        rk_memory_close(e, m);
    else if (!f.text[0])
        die("a fault without a text");
}

static void import_memory(rk_engine *e)
{
    rk_memory *m;
    rp_fault f = {.index = RP_NO_INDEX};
    if (rk_memory_import(e, STDIN_FILENO, sizeof data, &m, &f)) {
        if (!f.text[0])
            die("a fault without a text");
        return;
    }
    reduce(e, spec_of(RP_OP_SUM, 1, ELEMENTS, 0), m);
    rk_memory_close(e, m);
}

static void scenario(int broken)
{
    rk_engine *e = NULL;
    char why[160] = "";
    rk_options o = {.backend = RP_BACKEND_CUDA, .threads = 1, .slots = 2};
    rk_stats stats;
    if (rk_open(&e, &o, why, sizeof why)) {
        if (!why[0])
            die("an engine that does not open, without a reason");
        return;
    }
    static const int ops[] = {RP_OP_SUM, RP_OP_MIN, RP_OP_ARGMAX, RP_OP_VAR, RP_OP_STATS, RP_OP_COUNT_NONZERO};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        reduce(e, spec_of(ops[i], 1, ELEMENTS, 0), NULL);
        reduce(e, spec_of(ops[i], 100, ELEMENTS / 100, 0), NULL);
        reduce(e, spec_of(ops[i], ELEMENTS / 100, 100, RP_COLUMNS), NULL);
    }
    if (rk_pin(e, data, sizeof data))
        rk_unpin(e, data);
    use_memory(e);
    open_memory(e);
    import_memory(e);
    rk_get_stats(e, &stats);
    if (broken && strncmp(t_faults_page()->name, "cu", 2) == 0 && t_faults_page()->fired && !stats.lost)
        die("a broken context is not told as lost");
    if (!broken && stats.lost)
        die("a passing error is reported as a lost device");
    rk_close(e);
}

static unsigned walk(int failure)
{
    t_faults *f = t_faults_page();
    t_cuda_failure = failure;
    for (unsigned walked = 0;; walked++) {
        alarm(LIMIT_S);
        atomic_store(&f->fired, 0);
        atomic_store(&f->fail_at, atomic_load(&f->calls) + walked + 1);
        scenario(failure != cudaErrorMemoryAllocation);
        t_cuda_mend();
        if (!atomic_load(&f->fired))
            return walked;
    }
}

int main(void)
{
    for (int i = 0; i < ELEMENTS; i++)
        data[i] = 1;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i ^ i >> 8 ^ i >> 16);
    const unsigned passing = walk(cudaErrorMemoryAllocation), breaking = walk(cudaErrorIllegalAddress);
    printf("%u calls failed for want of memory, %u broke the context\n", passing, breaking);
    return passing && breaking ? 0 : 1;
}
