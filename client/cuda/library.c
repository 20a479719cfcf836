/* The calls of reduce_cuda.h. */
#include <stdlib.h>

#include "client/cuda/checked.h"
#include "client/error.h"
#include "kernels/stream.h"

struct reduce_cuda {
    rk_stream *kernels;
};

_Static_assert(sizeof(reduce_cuda_status) == sizeof(rk_stream_status) &&
                   offsetof(reduce_cuda_status, index) == offsetof(rk_stream_status, index),
               "what the kernels write is what the caller reads");
_Static_assert(sizeof(reduce_cuda_array) == sizeof(rk_array) && offsetof(reduce_cuda_array, count) == offsetof(rk_array, count),
               "the caller's list is what is launched");
_Static_assert((int)REDUCE_CUDA_ALIGN == (int)RK_STREAM_ALIGN, "of a workspace");

const char *reduce_cuda_errmsg(void) { return reduce_errmsg(); }

/* ---- checks ---- */

static int is_null(const char *argument) { return rc_error(REDUCE_E_ARGUMENT, argument, "`%s` is NULL", argument); }

static int of_cuda(int err)
{
    char text[RK_STREAM_TEXT];
    if (!err)
        return REDUCE_OK;
    const bool memory = rk_stream_error(err, text);
    return rc_error(memory ? REDUCE_E_NO_MEMORY : REDUCE_E_DEVICE_LOST, "cuda", "%s", text);
}

static int check_current(const reduce_cuda *h)
{
    bool current = false;
    if (!h)
        return is_null("handle");
    const int err = of_cuda(rk_stream_is_current(h->kernels, &current));
    return err || current ? err : rc_error(REDUCE_E_ARGUMENT, "handle", "another device is current");
}

static bool is_aligned(const void *p, size_t to) { return (uintptr_t)p % to == 0; }

static int check_workspace(const void *workspace, size_t bytes, size_t needed)
{
    if (!workspace || !is_aligned(workspace, REDUCE_CUDA_ALIGN))
        return rc_error(REDUCE_E_ARGUMENT, "workspace", "`workspace` is NULL, or not aligned to %d bytes", REDUCE_CUDA_ALIGN);
    if (bytes < needed)
        return rc_error(REDUCE_E_ARGUMENT, "bytes", "the workspace has %zu bytes of %zu", bytes, needed);
    return REDUCE_OK;
}

static size_t room_of(const rp_spec *s) { return rp_results(s) * rp_cell_size(s); } /* checked: at most 2^60 results */

static int check_data(const rp_spec *s, const void *data, uint64_t count)
{
    const size_t item = rp_item_size(s);
    if (!data && count)
        return is_null("data");
    if (!is_aligned(data, item < 8 ? item : 8))
        return rc_error(REDUCE_E_ARGUMENT, "data", "`data` is not aligned to its elements");
    return REDUCE_OK;
}

/* The second operand, and where segments begin */
static int check_beside(const rc_cuda_checked *a)
{
    if (!is_aligned(a->offsets, 8))
        return rc_error(REDUCE_E_ARGUMENT, "offsets", "`offsets` are not aligned to 8 bytes");
    if (a->weights && !is_aligned(a->weights, rp_dtype_size(a->spec.weights)))
        return rc_error(REDUCE_E_ARGUMENT, "weights", "`weights` are not aligned to their type");
    return REDUCE_OK;
}

static int check_out(const rp_spec *s, const void *out, size_t room, const void *status)
{
    if ((!out && rp_results(s)) || !is_aligned(out, 8))
        return rc_error(REDUCE_E_ARGUMENT, "out", "`out` is NULL, or not aligned to 8 bytes");
    if (room_of(s) > room)
        return rc_error(REDUCE_E_ARGUMENT, "room", "the results take %zu bytes, and there is room for %zu", room_of(s), room);
    if (!is_aligned(status, 8))
        return rc_error(REDUCE_E_ARGUMENT, "status", "`status` is not aligned to 8 bytes");
    return REDUCE_OK;
}

/* ---- handles ---- */

int reduce_cuda_create(reduce_cuda **handle, int device)
{
    if (!handle)
        return is_null("handle");
    reduce_cuda *h = malloc(sizeof *h);
    if (!h)
        return rc_error(REDUCE_E_NO_MEMORY, "handle", "out of memory");
    const int err = of_cuda(rk_stream_open(&h->kernels, device));
    if (err)
        free(h);
    else
        *handle = h;
    return err;
}

void reduce_cuda_destroy(reduce_cuda *h)
{
    if (h)
        rk_stream_close(h->kernels);
    free(h);
}

/* ---- sizes ---- */

int reduce_cuda_workspace(const reduce_cuda *h, const reduce_spec *spec, uint64_t count, size_t *bytes)
{
    rc_cuda_checked a;
    if (!h || !bytes)
        return is_null(h ? "bytes" : "handle");
    const int err = rc_cuda_check(spec, count, &a);
    if (!err)
        *bytes = rk_stream_bytes();
    return err;
}

int reduce_cuda_result_size(const reduce_spec *spec, uint64_t count, size_t *room)
{
    rc_cuda_checked a;
    if (!room)
        return is_null("room");
    const int err = rc_cuda_check(spec, count, &a);
    if (!err)
        *room = room_of(&a.spec);
    return err;
}

/* ---- streams ---- */

/* What every call checks that launches, or could. */
static int check_place(const reduce_cuda *h, const void *workspace, size_t bytes)
{
    const int err = check_current(h);
    return err ? err : check_workspace(workspace, bytes, rk_stream_bytes());
}

/* What every launch has beside its elements. */
static rk_launch launch_of(const rc_cuda_checked *a, void *out, void *status, void *workspace)
{
    return (rk_launch){.spec = a->spec,
                       .mask = a->mask,
                       .offsets = a->offsets,
                       .weights = a->weights,
                       .cells = out,
                       .status = status,
                       .failure = a->failure,
                       .workspace = workspace};
}

/* ... and for a rehearsal, in which nothing is read or written. */
static rk_launch rehearsal_of(rc_cuda_checked *a, void *workspace)
{
    a->mask = a->mask ? workspace : NULL;
    a->offsets = a->offsets ? workspace : NULL;
    a->weights = a->weights ? workspace : NULL;
    return launch_of(a, workspace, workspace, workspace);
}

int reduce_cuda_clear(reduce_cuda *h, void *workspace, size_t bytes, struct CUstream_st *stream)
{
    const int err = check_place(h, workspace, bytes);
    return err ? err : of_cuda(rk_stream_clear(workspace, stream));
}

int reduce_cuda_prepare(reduce_cuda *h, const reduce_spec *spec, uint64_t count, void *workspace, size_t bytes)
{
    rc_cuda_checked a;
    int err = check_place(h, workspace, bytes);
    if (!err)
        err = rc_cuda_check(spec, count, &a);
    if (err)
        return err;
    rk_launch l = rehearsal_of(&a, workspace);
    l.data = workspace;
    return of_cuda(rk_stream_rehearse(h->kernels, &l));
}

int reduce_cuda_prepare_list(reduce_cuda *h, const reduce_spec *spec, uint64_t n, void *workspace, size_t bytes)
{
    rc_cuda_checked a;
    int err = check_place(h, workspace, bytes);
    if (!err)
        err = rc_cuda_check_list(spec, n, 0, &a);
    if (err)
        return err;
    const rk_array none = {workspace, 0};
    rk_launch l = rehearsal_of(&a, workspace);
    l.arrays = &none;
    l.n_arrays = 1;
    err = of_cuda(rk_stream_rehearse(h->kernels, &l));
    if (err)
        return err;
    l.arrays = workspace;
    l.arrays_on_device = true;
    return of_cuda(rk_stream_rehearse(h->kernels, &l));
}

int reduce_cuda_enqueue(reduce_cuda *h, const reduce_spec *spec, const void *data, uint64_t count, void *out, size_t room,
                        reduce_cuda_status *status, void *workspace, size_t bytes, struct CUstream_st *stream)
{
    rc_cuda_checked a;
    int err = check_place(h, workspace, bytes);
    if (!err)
        err = rc_cuda_check(spec, count, &a);
    if (!err)
        err = check_data(&a.spec, data, rp_elements(&a.spec));
    if (!err)
        err = check_beside(&a);
    if (!err)
        err = check_out(&a.spec, out, room, status);
    if (err)
        return err;
    rk_launch l = launch_of(&a, out, status, workspace);
    l.data = data;
    return of_cuda(rk_stream_launch(h->kernels, &l, stream));
}

int reduce_cuda_again(const reduce_cuda_call *c, const void *data, void *out)
{
    return reduce_cuda_enqueue(c->handle, c->spec, data, c->count, out, c->room, c->status, c->workspace, c->bytes, c->stream);
}

static int check_list(const rp_spec *s, const reduce_cuda_array *arrays, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const int err = check_data(s, arrays[i].data, arrays[i].count);
        if (err)
            return rc_within("array", i, err);
    }
    return REDUCE_OK;
}

/* Of all arrays; what does not fit is too large. */
static uint64_t elements_of(const reduce_cuda_array *arrays, uint64_t n)
{
    uint64_t all = 0;
    for (uint64_t i = 0; i < n; i++)
        if (__builtin_add_overflow(all, arrays[i].count, &all))
            return UINT64_MAX;
    return all;
}

int reduce_cuda_enqueue_list(reduce_cuda *h, const reduce_spec *spec, const reduce_cuda_array *arrays, uint64_t n, void *out,
                             size_t room, reduce_cuda_status *status, void *workspace, size_t bytes, struct CUstream_st *stream)
{
    rc_cuda_checked a;
    int err = check_place(h, workspace, bytes);
    if (!err && !arrays)
        err = is_null("arrays");
    if (!err)
        err = rc_cuda_check_list(spec, n, elements_of(arrays, n), &a);
    if (!err)
        err = check_list(&a.spec, arrays, n);
    if (!err)
        err = check_out(&a.spec, out, room, status);
    if (err)
        return err;
    rk_launch l = launch_of(&a, out, status, workspace);
    l.arrays = (const rk_array *)arrays;
    l.n_arrays = n;
    return of_cuda(rk_stream_launch(h->kernels, &l, stream));
}

int reduce_cuda_enqueue_device_list(reduce_cuda *h, const reduce_spec *spec, const reduce_cuda_array *arrays, uint64_t n,
                                    uint64_t most, void *out, size_t room, reduce_cuda_status *status, void *workspace,
                                    size_t bytes, struct CUstream_st *stream)
{
    rc_cuda_checked a;
    int err = check_place(h, workspace, bytes);
    if (!err && (!arrays || !is_aligned(arrays, 8)))
        err = rc_error(REDUCE_E_ARGUMENT, "arrays", "`arrays` is NULL, or not aligned to 8");
    if (!err)
        err = rc_cuda_check_list(spec, n, most, &a);
    if (!err)
        err = check_out(&a.spec, out, room, status);
    if (err)
        return err;
    rk_launch l = launch_of(&a, out, status, workspace);
    l.arrays = (const rk_array *)arrays;
    l.n_arrays = n;
    l.arrays_on_device = true;
    l.most = most;
    l.too_many = REDUCE_E_TOO_LARGE;
    return of_cuda(rk_stream_launch(h->kernels, &l, stream));
}

/* ---- by key ---- */

static int check_keyed(const reduce_spec *spec, const reduce_cuda_keys *keys, uint64_t count, rc_cuda_checked *a)
{
    if (!keys)
        return is_null("keys");
    return rc_cuda_check_keyed(spec, keys, count, a);
}

int reduce_cuda_keyed_workspace(const reduce_spec *spec, const reduce_cuda_keys *keys, uint64_t count, size_t *bytes)
{
    rc_cuda_checked a;
    if (!bytes)
        return is_null("bytes");
    const int err = check_keyed(spec, keys, count, &a);
    if (!err)
        *bytes = rk_stream_keyed_bytes(&a.spec, keys->groups);
    return err;
}

static int check_keys(const reduce_cuda_keys *k, int dtype, uint64_t count)
{
    if ((!k->keys && count) || !is_aligned(k->keys, rp_dtype_size((uint8_t)k->dtype)))
        return rc_error(REDUCE_E_ARGUMENT, "keys", "`keys` is NULL, or not aligned to its type");
    if (!is_aligned(k->initial, rp_dtype_size((uint8_t)dtype)))
        return rc_error(REDUCE_E_ARGUMENT, "initial", "`initial` is not aligned to the elements");
    if (k->flags & ~(uint32_t)(REDUCE_DROP_OUTSIDE | REDUCE_DROP_NEGATIVE))
        return rc_error(REDUCE_E_ARGUMENT, "keys", "unknown flags 0x%x", k->flags);
    return REDUCE_OK;
}

/* What every call checks that launches, or could. */
static int check_keyed_place(const reduce_cuda *h, const reduce_spec *spec, const reduce_cuda_keys *keys, uint64_t count,
                             const void *workspace, size_t bytes, rc_cuda_checked *a)
{
    int err = check_current(h);
    if (!err)
        err = check_keyed(spec, keys, count, a);
    return err ? err : check_workspace(workspace, bytes, rk_stream_keyed_bytes(&a->spec, keys->groups));
}

static rk_keyed_launch keyed_of(const rc_cuda_checked *a, const reduce_cuda_keys *keys, uint64_t count, void *status,
                                void *workspace)
{
    return (rk_keyed_launch){.spec = a->spec,
                             .mask = a->mask,
                             .initial = keys->initial,
                             .count = count,
                             .groups = keys->groups,
                             .key_dtype = (uint8_t)keys->dtype,
                             .drop_outside = keys->flags & REDUCE_DROP_OUTSIDE,
                             .drop_negative = keys->flags & REDUCE_DROP_NEGATIVE,
                             .status = status,
                             .failure = a->failure,
                             .wrong = REDUCE_E_SHAPE,
                             .workspace = workspace};
}

int reduce_cuda_prepare_keyed(reduce_cuda *h, const reduce_spec *spec, const reduce_cuda_keys *keys, uint64_t count,
                              void *workspace, size_t bytes)
{
    rc_cuda_checked a;
    int err = check_keyed_place(h, spec, keys, count, workspace, bytes, &a);
    if (err)
        return err;
    rk_keyed_launch l = keyed_of(&a, keys, count, workspace, workspace);
    l.mask = l.mask ? workspace : NULL;
    l.initial = keys->initial ? workspace : NULL;
    l.data = l.keys = l.cells = workspace;
    return of_cuda(rk_stream_rehearse_keyed(h->kernels, &l));
}

int reduce_cuda_enqueue_keyed(reduce_cuda *h, const reduce_spec *spec, const reduce_cuda_keys *keys, const void *data,
                              uint64_t count, void *out, size_t room, reduce_cuda_status *status, void *workspace, size_t bytes,
                              struct CUstream_st *stream)
{
    rc_cuda_checked a;
    int err = check_keyed_place(h, spec, keys, count, workspace, bytes, &a);
    if (!err)
        err = check_keys(keys, a.spec.dtype, count);
    if (!err)
        err = check_data(&a.spec, data, count);
    if (!err)
        err = check_out(&a.spec, out, room, status);
    if (err)
        return err;
    rk_keyed_launch l = keyed_of(&a, keys, count, status, workspace);
    l.data = data;
    l.keys = keys->keys;
    l.cells = out;
    return of_cuda(rk_stream_keyed(h->kernels, &l, stream));
}

/* ---- words ---- */

/* The spec of states whose words are added. */
static int check_words(const reduce_spec *spec, rc_cuda_checked *a, size_t *each)
{
    const int err = rc_cuda_check(spec, 0, a);
    *each = err ? 0 : rk_stream_words(&a->spec);
    if (err || *each)
        return err;
    return rc_error(REDUCE_E_OP, "op", "states of %s have no words that are added", rp_op_name(a->spec.op));
}

static int check_both(const reduce_cuda *h, const void *states, const int64_t *words, const void *status)
{
    if (!states || !is_aligned(states, 8))
        return rc_error(REDUCE_E_ARGUMENT, "states", "`states` is NULL, or not aligned to 8 bytes");
    if (!words || !is_aligned(words, 8))
        return rc_error(REDUCE_E_ARGUMENT, "words", "`words` is NULL, or not aligned to 8 bytes");
    if (!is_aligned(status, 8))
        return rc_error(REDUCE_E_ARGUMENT, "status", "`status` is not aligned to 8 bytes");
    return check_current(h);
}

int reduce_cuda_words(const reduce_spec *spec, size_t *each)
{
    rc_cuda_checked a;
    return each ? check_words(spec, &a, each) : is_null("each");
}

int reduce_cuda_enqueue_words(reduce_cuda *h, const reduce_spec *spec, const void *states, uint64_t n, int64_t *words,
                              struct CUstream_st *stream)
{
    rc_cuda_checked a;
    size_t each;
    int err = check_words(spec, &a, &each);
    if (!err)
        err = check_both(h, states, words, NULL);
    return err || n == 0 ? err : of_cuda(rk_stream_to_words(&a.spec, states, n, words, stream));
}

int reduce_cuda_enqueue_states(reduce_cuda *h, const reduce_spec *spec, const int64_t *words, uint64_t n, void *states,
                               reduce_cuda_status *status, struct CUstream_st *stream)
{
    rc_cuda_checked a;
    size_t each;
    int err = check_words(spec, &a, &each);
    if (!err)
        err = check_both(h, states, words, status);
    return err ? err
               : of_cuda(
                     rk_stream_to_states(&a.spec, words, n, states, (rk_stream_status *)status, REDUCE_E_BAD_MESSAGE, stream));
}
