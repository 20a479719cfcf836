/* libreduce-cuda: the exact reductions of reduce.h on data of a GPU, in the caller's stream. For a program that has its data
 * there: no daemon, no copy, no wait. The bits are those of the daemon and of the CPU.
 *
 *     reduce_cuda_create -> reduce_cuda_workspace -> cudaMalloc -> reduce_cuda_clear
 *                        -> reduce_cuda_enqueue ... (also while the stream is captured into a graph)
 *                        -> reduce_cuda_destroy
 *
 * Pointers named `data`, `out`, `status`, `workspace`, and the spec's `mask`, `offsets` and `weights`, are of memory that the
 * GPU reads and writes, of any allocator; all others are of the host. A call that takes a stream enqueues work there and
 * returns: it allocates nothing, waits for nothing, and calls nobody back. What it enqueues uses the workspace until it is
 * done: two streams need one each.
 *
 * Threads: a handle may be used by several at once. The device of the handle must be the thread's current one, with its
 * primary context (that of the CUDA runtime, PyTorch, JAX and CuPy).
 *
 * Errors are those of reduce.h, negative, with a text of reduce_cuda_errmsg. All calls: REDUCE_E_ARGUMENT (a pointer is NULL
 * or misaligned; another device is current), REDUCE_E_DEVICE_LOST (CUDA failed; the text has its error). */
#ifndef REDUCE_CUDA_H
#define REDUCE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "reduce.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct CUstream_st; /* *cudaStream_t */

typedef struct reduce_cuda reduce_cuda;

/* In memory of the device, aligned to 8: how a call ended. */
typedef struct reduce_cuda_status {
    int32_t code;      /* REDUCE_OK, or REDUCE_E_EMPTY, _NAN, _OVERFLOW: a result could not be made */
    uint32_t reserved; /* 0 */
    uint64_t index;    /* of the first such result; REDUCE_NO_INDEX: all are there. From 2^32 - 2 on it may be a later one's */
} reduce_cuda_status;

enum { REDUCE_CUDA_ALIGN = 256 }; /* bytes: of a workspace */

/* Make a handle for device `device`, as cudaSetDevice counts them. Errors: REDUCE_E_NO_MEMORY; REDUCE_E_TYPE (the device is
 * older than the kernels that were compiled). */
int reduce_cuda_create(reduce_cuda **handle, int device);

/* What was enqueued may go on. NULL is allowed. */
void reduce_cuda_destroy(reduce_cuda *handle);

/* *bytes: of workspace that suffice for `count` elements. Any thread; nothing is launched. Errors: those of
 * reduce_cuda_enqueue about the spec and count. */
int reduce_cuda_workspace(const reduce_cuda *handle, const reduce_spec *spec, uint64_t count, size_t *bytes);

/* *room: bytes that `out` needs, results x the size of one. Any thread, without a device. Errors: the same. */
int reduce_cuda_result_size(const reduce_spec *spec, uint64_t count, size_t *room);

/* To be called once for a new workspace, before it is used. Each call leaves it clear. */
int reduce_cuda_clear(reduce_cuda *handle, void *workspace, size_t bytes, struct CUstream_st *stream);

/* Load what the call needs, which CUDA otherwise does at the first launch. For a program that is about to capture a graph, or
 * that cannot have its first call take longer. It may wait for the device. The workspace is not touched. */
int reduce_cuda_prepare(reduce_cuda *handle, const reduce_spec *spec, uint64_t count, void *workspace, size_t bytes);

/* Reduce `count` elements (or states) from `data`, aligned to its elements (states: to 8), into `out`, aligned to 8,
 * with room for `room` bytes: the cells that reduce_run would write. `data` must be there, and `out` not be read, until
 * the stream is past it. The spec is read at once, edges too; `mask`, `offsets` and `weights` by the device: offsets
 * aligned to 8, weights to their type. Offsets that are not ascending, or above `count`, read other memory. A segment has a
 * warp, so one of millions of elements takes long. `status` may be NULL. A result that cannot be
 * made is reported there and leaves its cell undefined; a sum of integers that does not fit leaves its low word. Errors:
 * those of reduce_run about the spec; REDUCE_E_OP (order statistics of segments, or of longer lines than fit into the
 * workspace; segments of 2^31 elements together; more than 4 MiB of results of rows in planes, or of order statistics of
 * columns: not possible here);
 * REDUCE_E_BAD_MESSAGE (`nan`: error together with a mask, for operations without a value of no elements). */
int reduce_cuda_enqueue(reduce_cuda *handle, const reduce_spec *spec, const void *data, uint64_t count, void *out, size_t room,
                        reduce_cuda_status *status, void *workspace, size_t bytes, struct CUstream_st *stream);

/* What does not change between calls of one kind on one stream */
typedef struct reduce_cuda_call {
    reduce_cuda *handle;
    const reduce_spec *spec;
    uint64_t count;
    size_t room;
    reduce_cuda_status *status;
    void *workspace;
    size_t bytes;
    struct CUstream_st *stream;
} reduce_cuda_call;

/* reduce_cuda_enqueue with these arguments: for bindings, whose calls take time by the argument (ctypes: 0.1 us each). */
int reduce_cuda_again(const reduce_cuda_call *call, const void *data, void *out);

/* An array of a list: the pointer is of the device. */
typedef struct reduce_cuda_array {
    const void *data; /* aligned to its elements */
    uint64_t count;
} reduce_cuda_array;

/* Reduce `n` arrays of any lengths in a few launches: with spec->rows 1 to one result, that of all their elements together,
 * which does not depend on how they are cut into arrays (the norm of all gradients); with spec->rows n to one of each. The list
 * is the host's, and read at once: a graph may be replayed after it is gone. Sums, means, variances, norms and their likes
 * (sum, sumsq, mean, var, std, sem, norm2, rms) of floats. All else as reduce_cuda_enqueue; status->index counts arrays.
 * Errors: the same; REDUCE_E_SHAPE (no arrays; other rows); REDUCE_E_TOO_LARGE (over 2^17 arrays); REDUCE_E_OP (others). */
int reduce_cuda_enqueue_list(reduce_cuda *handle, const reduce_spec *spec, const reduce_cuda_array *arrays, uint64_t n,
                             void *out, size_t room, reduce_cuda_status *status, void *workspace, size_t bytes,
                             struct CUstream_st *stream);

/* The same of a list of the device, aligned to 8, which is read there each time the call runs, also when a graph is replayed:
 * pointers and counts may have changed. `most`: of elements, those of all arrays together may be at most. Pointers that are
 * not aligned to their elements, or of the host, read other memory. status: REDUCE_E_TOO_LARGE and the first array that was too
 * much; then no result is to be used. Errors: those of reduce_cuda_enqueue_list about n, `most` and the spec. */
int reduce_cuda_enqueue_device_list(reduce_cuda *handle, const reduce_spec *spec, const reduce_cuda_array *arrays, uint64_t n,
                                    uint64_t most, void *out, size_t room, reduce_cuda_status *status, void *workspace,
                                    size_t bytes, struct CUstream_st *stream);

/* As reduce_cuda_prepare, for both kinds of lists. */
int reduce_cuda_prepare_list(reduce_cuda *handle, const reduce_spec *spec, uint64_t n, void *workspace, size_t bytes);

/* The group of each element, for reductions by key. */
typedef struct reduce_cuda_keys {
    const void *keys; /* of the device, aligned to their type: the group of each element, from 0 on */
    uint64_t groups;
    int32_t dtype;       /* of the keys: an integer type */
    uint32_t flags;      /* REDUCE_DROP_OUTSIDE, REDUCE_DROP_NEGATIVE (reduce.h); else a key that is not a group is an error */
    const void *initial; /* of the device, aligned to the elements: one more element of each group, in place of the spec's. It
                            may be `out`, if results have the elements' type. NULL: none */
} reduce_cuda_keys;

/* *bytes: of workspace for reduce_cuda_enqueue_keyed, 12 to 88 for each group and those of its whole accumulators (f64: 544, of
 * squares 1072; other floats: 96 and 160). It needs no clearing. Errors: those about the spec and the keys. */
int reduce_cuda_keyed_workspace(const reduce_spec *spec, const reduce_cuda_keys *keys, uint64_t count, size_t *bytes);

/* Reduce `count` elements of `data` into one result for each group: sum, mean, var, std, sem, sumsq, norm2, rms, count, min,
 * max, argmin or argmax, with any type, policy of NaNs, mask and initial element; also states, but of count. A group without
 * elements gets the value of none. All else as reduce_cuda_enqueue, but for the workspace, which may have any contents. status:
 * REDUCE_E_SHAPE and the first element whose key is not a group; then no result is to be used. Errors: the same;
 * REDUCE_E_TYPE (keys); REDUCE_E_SHAPE (the spec has rows, columns, planes or segments); REDUCE_E_TOO_LARGE (2^31 elements,
 * 2^32 groups); REDUCE_E_BAD_MESSAGE (`initial`: beside that of the spec, or states); REDUCE_E_OP (other operations). */
int reduce_cuda_enqueue_keyed(reduce_cuda *handle, const reduce_spec *spec, const reduce_cuda_keys *keys, const void *data,
                              uint64_t count, void *out, size_t room, reduce_cuda_status *status, void *workspace, size_t bytes,
                              struct CUstream_st *stream);

/* As reduce_cuda_prepare, for reduce_cuda_enqueue_keyed with that many elements. The workspace is of the call. */
int reduce_cuda_prepare_keyed(reduce_cuda *handle, const reduce_spec *spec, const reduce_cuda_keys *keys, uint64_t count,
                              void *workspace, size_t bytes);

/* States as words of int64 that plain sums join, over ranks: ncclAllReduce(words, words, n * each, ncclInt64, ncclSum, ...) on
 * the same stream. reduce_cuda_enqueue with REDUCE_STATES_OUT leaves states, these become words, the sums of all ranks' words
 * become states, and reduce_cuda_enqueue with REDUCE_STATES_IN makes values of them. The words are those of
 * reduce_state_to_words (reduce.h).
 *
 * *each: words of a state of the spec's operation and type. Errors: those about the spec; REDUCE_E_OP (there are none: min,
 * max and their likes, argmin, argmax, stats, products of integers, order statistics). */
int reduce_cuda_words(const reduce_spec *spec, size_t *each);

/* `n` states to n x each words; both on the device, aligned to 8. */
int reduce_cuda_enqueue_words(reduce_cuda *handle, const reduce_spec *spec, const void *states, uint64_t n, int64_t *words,
                              struct CUstream_st *stream);

/* ... and sums of words to n states, which lie elsewhere. `status`, which may be NULL, gets REDUCE_E_BAD_MESSAGE and the first
 * state whose words are not sums of words of states. */
int reduce_cuda_enqueue_states(reduce_cuda *handle, const reduce_spec *spec, const int64_t *words, uint64_t n, void *states,
                               reduce_cuda_status *status, struct CUstream_st *stream);

/* The text of this thread's last error. */
const char *reduce_cuda_errmsg(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
