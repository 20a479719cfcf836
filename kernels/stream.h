/* The kernels in a stream of the caller's, without an engine: one launch of the pass chain for a whole array. For
 * client/cuda; nothing here allocates, waits or is called back, but for opening and rehearsing. Errors are those of CUDA. Any
 * thread. */
#ifndef RK_STREAM_H
#define RK_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A device as launches are planned for it. */
typedef struct rk_stream rk_stream;

/* On the device, aligned to 8. */
typedef struct rk_stream_status {
    int32_t code;
    uint32_t reserved;
    uint64_t index;
} rk_stream_status;

typedef struct rk_array {
    const uint8_t *data; /* on the device, aligned to its elements */
    uint64_t count;
} rk_array;

enum { RK_MOST_ARRAYS = 1 << 17 };

typedef struct rk_launch {
    rp_spec spec;             /* checked, of the whole array */
    const uint8_t *data;      /* on the device, as all others: aligned to its elements, states to 8 */
    const uint8_t *mask;      /* NULL: none */
    const uint8_t *offsets;   /* with RP_OFFSETS: rows + 1 of them, aligned to 8 */
    const uint8_t *weights;   /* with RP_WEIGHTS: aligned to their type */
    uint8_t *cells;           /* of all results, aligned to 8 */
    rk_stream_status *status; /* set to the first result that cannot be made; NULL: nobody asks */
    int failure;              /* its code then; 0: all results can be made */
    const rk_array *arrays;   /* instead of data: one result of all if the spec has a row, or as many as rows */
    uint64_t n_arrays;        /* at most RK_MOST_ARRAYS */
    bool arrays_on_device;    /* the list is read there, each time the launch runs; else it is of the host, and read at once */
    uint64_t most;            /* ... elements that they have together, at most */
    int too_many;             /* ... the status' code if they have more */
    uint8_t *workspace;       /* rk_stream_bytes of them, aligned to RK_STREAM_ALIGN, clear before and after */
} rk_launch;

enum { RK_STREAM_ALIGN = 256, RK_STREAM_TEXT = 160 };

int rk_stream_open(rk_stream **out, int device);
void rk_stream_close(rk_stream *s);

/* Is the device the current one? */
int rk_stream_is_current(const rk_stream *s, bool *current);

size_t rk_stream_bytes(void);

/* Enqueue the clearing of a new workspace. `stream`: a cudaStream_t. */
int rk_stream_clear(uint8_t *workspace, void *stream);

/* Why there is no kernel for this spec; NULL: there is. */
const char *rk_stream_refusal(const rp_spec *s);
/* ... for a list of arrays */
const char *rk_stream_list_refusal(const rp_spec *s);

int rk_stream_launch(rk_stream *s, const rk_launch *l, void *stream);

/* Load what such a launch needs. Nothing is read or written, but the pointers must be of the device. */
int rk_stream_rehearse(rk_stream *s, const rk_launch *l);

/* Words of a state of this spec's operation and type that are added alone; 0: there are none. */
size_t rk_stream_words(const rp_spec *s);

/* n states to their words, and sums of such words to states: all on the device, aligned to 8. `failure`: the code in *status,
 * which may be NULL, if they are no such sums. */
int rk_stream_to_words(const rp_spec *s, const uint8_t *states, uint64_t n, int64_t *words, void *stream);
int rk_stream_to_states(const rp_spec *s, const int64_t *words, uint64_t n, uint8_t *states, rk_stream_status *status,
                        int failure, void *stream);

/* A reduction by key: groups are 0 to groups - 1, and each gets a result. */
typedef struct rk_keyed_launch {
    rp_spec spec;               /* checked, with a row for each group */
    const uint8_t *data, *keys; /* count elements, and as many keys: on the device, aligned to their types */
    const uint8_t *mask;        /* NULL: none */
    const uint8_t *initial;     /* one more element of each group; NULL: none, or the spec's */
    uint64_t count, groups;
    uint8_t key_dtype;                /* an integer type */
    bool drop_outside, drop_negative; /* leave out elements whose key is not a group; whose key is below 0 */
    uint8_t *cells;                   /* of all groups, aligned to 8 */
    rk_stream_status *status;         /* as above; NULL: nobody asks */
    int failure, wrong;               /* its code for a group without a result, and for the first element with a wrong key */
    uint8_t *workspace;               /* rk_stream_keyed_bytes of them, aligned to RK_STREAM_ALIGN, of any contents */
} rk_keyed_launch;

enum { RK_MOST_KEYED = INT32_MAX }; /* elements of a launch */

/* Is there a kernel for this spec? */
bool rk_stream_has_keyed(const rp_spec *s);
size_t rk_stream_keyed_bytes(const rp_spec *s, uint64_t groups);
int rk_stream_keyed(rk_stream *s, const rk_keyed_launch *l, void *stream);
int rk_stream_rehearse_keyed(rk_stream *s, const rk_keyed_launch *l); /* as rk_stream_rehearse */

/* The text of an error, and whether memory was lacking. */
bool rk_stream_error(int err, char text[RK_STREAM_TEXT]);

#ifdef __cplusplus
}
#endif
#endif
