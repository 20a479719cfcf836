/* reduce_run and reduce_submit: jobs, from their arguments to their result. */
#include "client/submit.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "client/alone.h"
#include "client/ask.h"
#include "client/device.h"
#include "client/error.h"
#include "client/local.h"
#include "client/only_here.h"
#include "client/sized.h"
#include "client/spec.h"
#include "kernels/cpu/threads/here.h"
#include "proto/clock.h"

/* ---- checks ---- */

/* Does the daemon know what several planes, devices and masks behind data on a device are, if it has to? */
static int check_version(reduce_client *c, const rc_level *l, bool apart, rp_fault *f)
{
    const bool planes = l->runs || (l->spec.flags & RP_COLUMNS && l->lines != l->width),
               masked = l->spec.flags & RP_MASK || apart;
    if (!planes && !l->spec.device && !masked)
        return 0;
    const int version = rc_version(c);
    if (version >= RP_PLANES_VERSION)
        return 0;
    const char *what = planes ? "planes" : masked ? "mask" : "device";
    return rc_fail(f, REDUCE_E_VERSION, what, "the daemon speaks version %d of the protocol, which has no %s", version, what);
}

static int check_fd(int fd) { return fd < 0 ? rc_error(REDUCE_E_ARGUMENT, "fd", "%d is not a descriptor", fd) : 0; }

int rc_check_file(const rc_input *in, uint64_t bytes)
{
    struct stat st;
    int err = check_fd(in->fd);
    if (err)
        return err;
    if (in->offset > INT64_MAX || bytes > INT64_MAX - in->offset)
        return rc_error(REDUCE_E_ARGUMENT, "offset", "offset plus bytes is beyond 2^63");
    if (fstat(in->fd, &st))
        return rc_error(REDUCE_E_IO, "file", "the descriptor: %s", strerror(errno));
    return S_ISREG(st.st_mode) ? 0 : rc_error(REDUCE_E_IO, "file", "not a regular file: use a stream");
}

static int check_file(const reduce_spec *spec, const rc_input *in, uint64_t bytes)
{
    if (spec->mask || spec->offsets || (spec->flags & REDUCE_STATES_IN))
        return rc_error(REDUCE_E_ARGUMENT, "spec", "a file holds elements alone: no mask, offsets or states are possible");
    return rc_check_file(in, bytes);
}

/* Results that one request has to give, of data that the daemon has; 0: any number of requests may. */
static uint64_t together(const rc_level *l)
{
    return l->runs || l->spec.flags & RP_KEYS ? l->lines : l->spec.flags & RP_COLUMNS ? l->width : 0;
}

/* Of data that the daemon has, on its device or resident. */
static int check_there(const reduce_spec *spec, const rc_level *l, int path, uint64_t most, rp_fault *f)
{
    size_t cell = rp_cell_size(&l->spec);
    if (spec->mask || spec->offsets || spec->weights || (spec->flags & REDUCE_STATES_IN))
        return rc_fail(f, REDUCE_E_ARGUMENT, "spec", "data that the daemon has take no mask, offsets, weights or states");
    if (l->stays && !rc_keys_fit(l, most)) {
        rc_fail(f, REDUCE_E_TOO_LARGE, "keys", "%" PRIu64 " keys for %" PRIu64 " groups: put them, and give their keys_name",
                l->len, l->lines);
        f->limit = most / rc_beside_size(l);
        return REDUCE_E_TOO_LARGE;
    }
    if (spec->path && spec->path != path)
        return rc_fail(f, REDUCE_E_ARGUMENT, "path", "data that the daemon has take no other path");
    if (l->spec.flags & RP_MASK && l->lines > RP_MAX_DATA / cell) {
        rc_fail(f, REDUCE_E_TOO_LARGE, "mask", "%" PRIu64 " results of data that their mask follows", l->lines);
        f->limit = RP_MAX_DATA / cell;
        return REDUCE_E_TOO_LARGE;
    }
    return 0;
}

/* If a reply has no room for the results: get memory for them, where the daemon writes to some. 0, or the error in `f`. */
static int open_results(reduce_job *j, rp_fault *f)
{
    const rc_level *l = &j->whole;
    const size_t cell = rp_cell_size(&l->spec);
    rc_engine engine;
    if (together(l) <= RP_MAX_DATA / cell)
        return 0;
    int err = j->path.device ? 0 : rc_engine_of(j->c, &engine);
    const bool keyed = l->spec.flags & RP_KEYS;
    if (!err && !j->path.device && (keyed || engine.cpu) && !engine.opening && rc_version(j->c) >= RP_PLANES_VERSION)
        err = rc_results_open(j->c, l->lines * cell, &j->results);
    if (err)
        return rc_fail_interrupted(f);
    if (j->results.bytes)
        return 0;
    const bool rows = l->runs || keyed;
    rc_fail(f, REDUCE_E_TOO_LARGE, rows ? "rows" : "columns", "%" PRIu64 " %s of data that the daemon has", together(l),
            keyed     ? "groups"
            : l->runs ? "rows in runs"
                      : "columns");
    f->limit = RP_MAX_DATA / cell;
    return REDUCE_E_TOO_LARGE;
}

/* ---- making ---- */

/* Choose the path of data that are to travel. */
static int open_path(reduce_job *j, const rc_input *in, size_t bytes, bool gathered, int path)
{
    reduce_client *c = j->c;
    int err = rc_datapath_open(c, &j->path, in->data, bytes, gathered, path);
    if (!err)
        return 0;
    rc_enter(c);
    rc_datapath_close(c, &j->path);
    if (err == REDUCE_E_INTERRUPTED)
        rc_report_interrupted();
    else
        rc_error(err, "path", "path %s is not available here%s%.90s", reduce_path_name(path), c->fdpass.why[0] ? ": " : "",
                 c->fdpass.why);
    rc_leave(c);
    return err;
}

/* Are tiles put together from several places, as those of rows in runs are? Those of columns of a file are not if its planes,
 * or rows of them, go whole, or if the daemon reads rows that lie apart. */
static bool is_gathered(reduce_client *c, const rc_level *l, const reduce_spec *spec, bool file)
{
    const bool beside = spec->mask || spec->offsets || l->beside;
    if (beside || !(l->spec.flags & RP_COLUMNS))
        return beside || l->runs;
    if (rp_is_ranked(spec->op))
        return false;
    return !file || (rc_version(c) < RP_PLANES_VERSION && l->width && l->len > RP_MAX_DATA / l->item / l->width &&
                     l->width > rc_panel_of_file(l, RP_MAX_DATA) / l->item);
}

/* *most: how many bytes of rows of a file that lie apart the daemon reads at once; 0: small files do not need to know. 0, or
 * REDUCE_E_INTERRUPTED, reported. */
static int strided_bytes(reduce_client *c, const rc_level *l, uint64_t bytes, uint64_t *most)
{
    enum { LARGE_FILE = 16 << 20 };
    rc_engine engine = {0};
    const bool columns = l->spec.flags & RP_COLUMNS && l->lines == l->width && l->spec.op != RP_OP_PROD &&
                         !rp_is_ranked(l->spec.op) && !l->beside;
    const int err = columns && bytes > LARGE_FILE ? rc_engine_of(c, &engine) : 0;
    *most = engine.strided;
    return err;
}

/* What the arguments ask for, or report why not. */
static int take_ask(reduce_client *c, rc_ask *a, const reduce_spec *given, const rc_input *in, size_t bytes, void *out,
                    size_t room)
{
    rp_fault f = {0};
    int err = rc_check_owner(c);
    if (err)
        return err;
    if (rc_check_pointers(in, bytes, out, room, &f) || rc_ask_for(a, given, in, bytes, room, &f))
        return rc_report(&f);
    a->out = out;
    return 0;
}

/* Get ready what the data of a job lie in. 0, or the error, reported. */
static int open_input(reduce_job *j, const rc_ask *a)
{
    const rc_input *in = &a->in;
    const bool file = in->fd >= 0, there = in->device || in->kept;
    rp_fault f = {0};
    rc_enter(j->c);
    const uint64_t most = rc_beside_most(j->c);
    rc_leave(j->c);
    j->whole.stays = in->kept && j->whole.beside;
    if (check_version(j->c, &a->whole, in->mask, &f) ||
        (there && check_there(&a->spec, &j->whole, in->kept ? REDUCE_PATH_RESIDENT : REDUCE_PATH_DEVICE, most, &f)) ||
        (there && open_results(j, &f)) || (in->device && rc_device_open(j->c, &j->path, &f)))
        return rc_report(&f);
    int err = file ? check_file(&a->spec, in, a->bytes) : 0;
    if (!err && !there)
        err = open_path(j, in, a->bytes, is_gathered(j->c, &a->whole, &a->spec, file), a->spec.path);
    if (!err && file && j->path.handle)
        err = strided_bytes(j->c, &a->whole, a->bytes, &j->strided);
    return err;
}

/* When a thread that waits for a job may sleep. One that slept wakes 20 to 100 us late. For data that the GPU has, that is more
 * than everything else beside the kernels. So it looks for LOOK_NS and the time of LOOK_BYTES a us, at most MOST_NS: twice the
 * time of an H100, which ends 4 GiB within that. What takes longer can bear it. */
static uint64_t watch_until(const rc_input *in, uint64_t bytes, uint64_t now)
{
    enum { LOOK_NS = 100000, LOOK_BYTES = 1500000, MOST_NS = 3000000, MANY_CORES = 8 };
    const bool there = in->device || in->kept;
    const uint64_t ns = LOOK_NS + bytes / LOOK_BYTES * 1000;
    return there && rk_cpu_cores() >= MANY_CORES ? now + (ns < MOST_NS ? ns : MOST_NS) : 0;
}

/* Make a job, or report why not. */
static int make(reduce_client *c, const rc_ask *a, reduce_job **made)
{
    int err = rc_check(c);
    if (err)
        return err;
    reduce_job *j = rc_job_new(c, &a->in);
    if (!j)
        return rc_error(REDUCE_E_NO_MEMORY, "", "no memory for a job");
    j->whole = a->whole;
    memcpy(j->q, a->q, sizeof j->q);
    j->whole.spec.q = j->q;
    j->result = a->result;
    j->out = a->out;
    j->bytes_total = a->bytes;
    j->deadline_ns = rp_deadline_after(a->spec.deadline_ms);
    j->watch_until_ns = watch_until(&a->in, a->bytes, j->start_ns);
    err = open_input(j, a);
    if (err)
        rc_job_free(j);
    else
        *made = j;
    return err;
}

/* ---- waiting ---- */

static bool own_callback(const reduce_job *j) { return j->in_callback && pthread_equal(j->callback_thread, pthread_self()); }

typedef enum { ENDED, LATE, INTERRUPTED } awaited;

/* With the mutex held: wait until `flag`, the job's `ended` or `settled`, is set, until `until` (0: no limit), or until the
 * program interrupts the call (`ask`: as of rc_ask_at). The deadline cancels. */
static awaited await(reduce_job *j, const bool *flag, uint64_t until, uint64_t ask)
{
    bool expired = false;
    while (!*flag) {
        const uint64_t deadline = expired || j->ended ? 0 : j->deadline_ns;
        const uint64_t next = rc_earlier(rc_earlier(until, deadline), ask);
        const bool awake = j->callback ? rc_cond_wait(&j->changed, j->c, next)
                                       : rc_reply_wait(&j->changed, j->c, next, j->watch_until_ns);
        if (*flag)
            break;
        if (rc_interrupted(j->c, &ask))
            return INTERRUPTED;
        if (awake || (next != until && next != deadline))
            continue;
        if (next == until)
            return LATE;
        expired = true;
        if (j->fault.code == RP_OK)
            rc_fail(&j->fault, REDUCE_E_DEADLINE, "deadline_ms", "not done before the deadline");
        rc_job_cancel(j);
    }
    return ENDED;
}

/* The same for the thread that runs the job. An interruption cancels it. */
static void await_own(reduce_job *j)
{
    if (await(j, &j->settled, 0, rc_ask_at(j->c)) == ENDED)
        return;
    if (j->fault.code == RP_OK)
        rc_fail_interrupted(&j->fault);
    if (!j->ended)
        rc_job_cancel(j);
    await(j, &j->settled, 0, 0);
}

/* Leave the mutex, and give what the job has ended with. It is reported after that, for leaving may run callbacks, which make
 * calls of their own. */
static int leave_with_outcome(reduce_job *j, reduce_result *result)
{
    const rp_fault fault = j->fault;
    const bool whole = rc_is_whole(&j->whole);
    if (fault.code == RP_OK && result)
        rc_give_sized(result, &j->result, sizeof j->result);
    rc_leave(j->c);
    return fault.code == RP_OK ? 0 : rc_report_of(&fault, whole);
}

static int check_result(const reduce_result *result)
{
    rp_fault f;
    return result && rc_check_sized(result, RC_RESULT_FIRST, "result", &f) ? rc_report(&f) : 0;
}

/* ---- public ---- */

/* Launch a job, wait for its end and free it. */
static int run_job(reduce_job *j, reduce_result *result)
{
    reduce_client *c = j->c;
    rc_enter(c);
    rc_job_start(j);
    await_own(j);
    c->refs--; /* not the last: the caller holds the client */
    int err = leave_with_outcome(j, result);
    rc_job_free(j);
    return err;
}

/* reduce_run of data that are not reduced here. */
static int run_there(reduce_client *c, const rc_ask *a, const char *why, reduce_result *result)
{
    reduce_job *j;
    if (a->spec.path == REDUCE_PATH_LOCAL)
        return rc_error(REDUCE_E_ARGUMENT, "path", "path local is not available here: %s", why);
    int err = make(c, a, &j);
    return err ? err : run_job(j, result);
}

int rc_run(reduce_client *c, const reduce_spec *spec, const rc_input *in, size_t bytes, void *out, size_t room,
           reduce_result *result)
{
    rc_ask a;
    int err = check_result(result);
    if (!err)
        err = take_ask(c, &a, spec, in, bytes, out, room);
    if (err)
        return err;
    const char *why;
    const bool only_here = rc_is_only_here(c, &a);
    if (!only_here && (err = rc_local_refusal(c, &a, &why)))
        return err;
    const bool here = only_here || !why;
    err = only_here ? rc_run_only_here(&a, result) : here ? rc_run_here(&a, result) : run_there(c, &a, why, result);
    if (!err && here)
        rc_local_count(c, a.bytes);
    if (!err && !only_here)
        rc_local_note(c, &a, here);
    return err;
}

int rc_run_write(reduce_client *c, const rc_target *to, const rc_input *in, uint64_t bytes, int path, uint64_t deadline_ns)
{
    reduce_job *j = rc_job_new(c, in);
    if (!j)
        return rc_error(REDUCE_E_NO_MEMORY, "", "no memory for a job");
    j->to = *to;
    /* cut as a count of the bytes would be */
    j->whole.spec = (rp_spec){.op = RP_OP_COUNT, .dtype = RP_U8, .out = RP_U64, .rows = 1};
    j->whole.item = 1;
    j->whole.lines = 1;
    j->whole.len = j->bytes_total = bytes;
    j->deadline_ns = deadline_ns;
    int err = open_path(j, in, (size_t)bytes, false, path);
    if (!err)
        return run_job(j, NULL);
    rc_job_free(j);
    return err;
}

int reduce_run(reduce_client *c, const reduce_spec *spec, const void *data, size_t bytes, void *out, size_t room,
               reduce_result *result)
{
    return rc_run(c, spec, &(rc_input){.data = data, .fd = -1}, bytes, out, room, result);
}

int reduce_is_local(reduce_client *c, const reduce_spec *spec, size_t bytes)
{
    rc_ask a;
    rp_fault f = {0};
    int err = rc_check_owner(c);
    if (err)
        return err;
    if (rc_ask_for(&a, spec, &(rc_input){.fd = -1}, bytes, SIZE_MAX, &f))
        return rc_report(&f);
    if (rc_is_only_here(c, &a))
        return 1;
    const char *why;
    err = rc_local_refusal(c, &a, &why);
    return err ? err : !why;
}

int reduce_file(reduce_client *c, const reduce_spec *spec, int fd, uint64_t offset, uint64_t bytes, void *out, size_t room,
                reduce_result *result)
{
    int err = check_fd(fd);
    return err ? err : rc_run(c, spec, &(rc_input){.fd = fd, .offset = offset}, (size_t)bytes, out, room, result);
}

static int run_on_device(reduce_client *c, const reduce_spec *spec, const rc_input *in, uint64_t bytes, void *out, size_t room,
                         reduce_result *result)
{
    if (!in->device)
        return rc_error(REDUCE_E_ARGUMENT, "handle", "the handle is NULL");
    int err = rc_run(c, spec, in, (size_t)bytes, out, room, result);
    if (err == REDUCE_E_BAD_HANDLE) { /* perhaps of a session that has ended: try once more */
        rc_device_forget(c, in->device);
        if (in->mask)
            rc_device_forget(c, in->mask);
        err = rc_run(c, spec, in, (size_t)bytes, out, room, result);
    }
    return err;
}

int reduce_device(reduce_client *c, const reduce_spec *spec, const void *handle, uint64_t offset, uint64_t bytes, void *out,
                  size_t room, reduce_result *result)
{
    const rc_input in = {.fd = -1, .offset = offset, .device = handle};
    return run_on_device(c, spec, &in, bytes, out, room, result);
}

int reduce_device_masked(reduce_client *c, const reduce_spec *spec, const void *handle, uint64_t offset, uint64_t bytes,
                         const void *mask_handle, uint64_t mask_offset, void *out, size_t room, reduce_result *result)
{
    const rc_input in = {.fd = -1, .offset = offset, .device = handle, .mask = mask_handle, .mask_offset = mask_offset};
    if (!mask_handle)
        return rc_error(REDUCE_E_ARGUMENT, "mask_handle", "the handle of the mask is NULL");
    return run_on_device(c, spec, &in, bytes, out, room, result);
}

static int submit(reduce_client *c, const reduce_spec *spec, const rc_input *in, size_t bytes, void *out, size_t room,
                  reduce_done done, void *arg, reduce_job **job)
{
    reduce_job *j;
    if (!job)
        return rc_error(REDUCE_E_ARGUMENT, "job", "the pointer for the job is NULL");
    *job = NULL;
    rc_ask a;
    int err = take_ask(c, &a, spec, in, bytes, out, room);
    if (!err && rc_is_only_here(c, &a))
        err = rc_error(REDUCE_E_TOO_LARGE, "bytes", "%s %s is not for jobs: use reduce_run, or data that the daemon has",
                       reduce_op_name(a.spec.op), a.spec.keys_dtype ? "by so many keys" : "of lines longer than a message");
    if (!err)
        err = make(c, &a, &j);
    if (err)
        return err;
    j->callback = done;
    j->arg = arg;
    *job = j;
    rc_enter(c);
    j->queues = !done && c->ended_fd >= 0;
    rc_job_start(j);
    rc_leave(c);
    return 0;
}

int reduce_submit(reduce_client *c, const reduce_spec *spec, const void *data, size_t bytes, void *out, size_t room,
                  reduce_done done, void *arg, reduce_job **job)
{
    return submit(c, spec, &(rc_input){.data = data, .fd = -1}, bytes, out, room, done, arg, job);
}

int reduce_submit_file(reduce_client *c, const reduce_spec *spec, int fd, uint64_t offset, uint64_t bytes, void *out,
                       size_t room, reduce_done done, void *arg, reduce_job **job)
{
    int err = check_fd(fd);
    return err ? err : submit(c, spec, &(rc_input){.fd = fd, .offset = offset}, (size_t)bytes, out, room, done, arg, job);
}

static int check_job(const reduce_job *j)
{
    if (!j)
        return rc_error(REDUCE_E_ARGUMENT, "job", "the job is NULL");
    return rc_check_owner(j->c);
}

int reduce_poll(reduce_job *j, reduce_result *result)
{
    int err = check_job(j);
    if (!err)
        err = check_result(result);
    if (err)
        return err;
    rc_enter(j->c);
    if (j->ended)
        return leave_with_outcome(j, result);
    rc_leave(j->c);
    return REDUCE_PENDING;
}

int reduce_wait(reduce_job *j, uint32_t wait_ms, reduce_result *result)
{
    int err = check_job(j);
    if (!err)
        err = check_result(result);
    if (err)
        return err;
    uint64_t until = wait_ms == UINT32_MAX ? 0 : rp_now_ns() + wait_ms * RP_NS_PER_MS;
    rc_enter(j->c);
    const awaited end = await(j, &j->ended, until, rc_ask_at(j->c));
    if (end == ENDED)
        return leave_with_outcome(j, result);
    rc_leave(j->c);
    return end == INTERRUPTED ? rc_report_interrupted() : (int)REDUCE_PENDING;
}

int reduce_job_progress(const reduce_job *j, uint64_t *done, uint64_t *total)
{
    int err = check_job(j);
    if (err)
        return err;
    rc_enter(j->c);
    if (done)
        *done = j->bytes_done;
    if (total)
        *total = j->bytes_total;
    rc_leave(j->c);
    return 0;
}

void reduce_cancel(reduce_job *j)
{
    if (check_job(j))
        return;
    rc_enter(j->c);
    if (!j->ended)
        rc_job_cancel(j);
    rc_leave(j->c);
}

void reduce_job_free(reduce_job *j)
{
    if (!j || check_job(j))
        return;
    reduce_client *c = j->c;
    rc_enter(c);
    if (own_callback(j)) {
        j->free_after = true;
        rc_leave(c);
        return;
    }
    if (!j->ended)
        rc_job_cancel(j);
    await(j, &j->settled, 0, 0);
    rc_ended_remove(c, j);
    rc_leave(c);
    rc_job_free(j);
    rc_unref(c);
}
