/* Exact reductions of all ranks of an MPI communicator: the same bits for any number of ranks, any distribution of the
 * elements, any algorithm of MPI and any MPI.
 *
 *     #include <reduce_mpi.h>                      mpicc prog.c $(pkg-config --cflags --libs libreduce)
 *
 *     reduce_spec spec = REDUCE_SPEC_INIT;
 *     spec.dtype = REDUCE_F64;
 *     if (reduce_mpi_allreduce(NULL, &spec, mine, bytes, &sum, sizeof sum, MPI_COMM_WORLD))
 *         die(reduce_errmsg());                    every rank has the same sum, or the same error
 *
 * It stands for MPI_Allreduce and MPI_Reduce of values. reduce.h ("collectives") states arguments and errors. The client may be
 * NULL: then each rank reduces its memory itself. With a client, arrays above 64 KiB go the way that reduce_run takes. The
 * functions are static inline, so that the program's own MPI compiles them. A failing MPI function ends the job, as MPI does by
 * default; if the communicator's error handler returns instead, the error is REDUCE_E_IO. Threads: as the MPI library allows,
 * one collective at a time on a communicator. */
#ifndef REDUCE_MPI_H
#define REDUCE_MPI_H

#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <reduce.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- merging inside MPI ------------------------------------------------------------------------------------------ */

/* The function of the MPI_Op: elements are states, or messages of reduce_collective. */
static inline void reduce_mpi_join(void *from, void *into, int *count, MPI_Datatype *type)
{
    int bytes = 0;
    MPI_Type_size(*type, &bytes);
    for (size_t i = 0; i < (size_t)*count; i++)
        reduce_states_merge((char *)into + (size_t)i * (size_t)bytes, (const char *)from + (size_t)i * (size_t)bytes,
                            (size_t)bytes);
}

/* An MPI_Op that merges states: for programs that carry states themselves (MPI_Reduce, MPI_Scan, MPI_Iallreduce, ...), with
 * elements of reduce_mpi_type. MPI_OP_NULL if MPI has no more. It lives until MPI_Finalize. Any thread may call this that may
 * call MPI. */
static inline MPI_Op reduce_mpi_op(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static MPI_Op op;
    static int made;
    pthread_mutex_lock(&lock);
    if (!made)
        made = MPI_Op_create(reduce_mpi_join, 1, &op) == MPI_SUCCESS;
    MPI_Op mine = made ? op : MPI_OP_NULL;
    pthread_mutex_unlock(&lock);
    return mine;
}

/* The MPI type of one state of (op, dtype), to be freed with MPI_Type_free. MPI_DATATYPE_NULL if there is none. Plain bytes
 * will not do: MPI may cut an array of elements anywhere between them. */
static inline MPI_Datatype reduce_mpi_type(int op, int dtype)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    size_t size = reduce_state_size(op, dtype);
    if (size == 0 || MPI_Type_contiguous((int)size, MPI_BYTE, &type) != MPI_SUCCESS)
        return MPI_DATATYPE_NULL;
    MPI_Type_commit(&type);
    return type;
}

/* ---- the collective calls ---------------------------------------------------------------------------------------- */

/* The MPI type of one element of `bytes` bytes, to be freed; making it takes 0.1 us. */
static inline int reduce_mpi_element(size_t bytes, MPI_Datatype *type)
{
    int err = bytes > INT_MAX ? MPI_ERR_COUNT : MPI_Type_contiguous((int)bytes, MPI_BYTE, type);
    return err == MPI_SUCCESS ? MPI_Type_commit(type) : err;
}

/* A reduce_exchange; `arg` is the communicator. */
static inline int reduce_mpi_exchange(void *arg, void *buffer, size_t bytes)
{
    MPI_Datatype type;
    MPI_Op op = reduce_mpi_op();
    int err = op == MPI_OP_NULL ? MPI_ERR_OP : reduce_mpi_element(bytes, &type);
    if (err != MPI_SUCCESS)
        return err;
    err = MPI_Allreduce(MPI_IN_PLACE, buffer, 1, type, op, *(MPI_Comm *)arg);
    MPI_Type_free(&type);
    return err;
}

/* Several reductions together: `out` of each item gets its result at every rank. */
static inline int reduce_mpi_allreduce_items(reduce_client *c, const reduce_item *items, size_t n, MPI_Comm comm)
{
    int rank = 0;
    if (MPI_Comm_rank(comm, &rank) != MPI_SUCCESS)
        return reduce_error(REDUCE_E_IO, "comm", "the communicator has no rank");
    return reduce_collective(c, items, n, (uint32_t)rank, reduce_mpi_exchange, &comm);
}

/* One item of memory. `data` MPI_IN_PLACE: the elements are at `out`. */
static inline reduce_item reduce_mpi_item(const reduce_spec *spec, const void *data, size_t bytes, void *out, size_t room)
{
    reduce_item item = REDUCE_ITEM_INIT;
    item.spec = spec;
    item.data = data == MPI_IN_PLACE ? out : data;
    item.bytes = bytes;
    item.out = out;
    item.room = room;
    return item;
}

/* reduce_run of the elements of all ranks. A block of a larger array, as of a field with halos, is an item's `block`. */
static inline int reduce_mpi_allreduce(reduce_client *c, const reduce_spec *spec, const void *data, size_t bytes, void *out,
                                       size_t room, MPI_Comm comm)
{
    reduce_item item = reduce_mpi_item(spec, data, bytes, out, room);
    return reduce_mpi_allreduce_items(c, &item, 1, comm);
}

/* The same with the result at `root` only; the others may pass NULL for `out`. Errors are returned by all. */
static inline int reduce_mpi_reduce(reduce_client *c, const reduce_spec *spec, const void *data, size_t bytes, void *out,
                                    size_t room, int root, MPI_Comm comm)
{
    int rank = 0, ranks = 0;
    reduce_item item = reduce_mpi_item(spec, data, bytes, out, room);
    if (MPI_Comm_rank(comm, &rank) != MPI_SUCCESS || MPI_Comm_size(comm, &ranks) != MPI_SUCCESS)
        return reduce_error(REDUCE_E_IO, "comm", "the communicator has no size and rank");
    if (root < 0 || root >= ranks)
        return reduce_collective_error(reduce_error(REDUCE_E_ARGUMENT, "root", "the communicator has no such rank"),
                                       (uint32_t)rank, reduce_mpi_exchange, &comm);
    if (rank != root)
        item.out = NULL;
    return reduce_mpi_allreduce_items(c, &item, 1, comm);
}

/* A number that the ranks compare: specs that differ in more than mask and index_base have different ones. */
static inline int reduce_mpi_mark(const reduce_spec *s)
{
    const int64_t asked[] = {s->op, s->dtype, s->out, s->nan, s->k, s->method, s->quantiles};
    const uint64_t prime = INT_MAX;
    uint64_t mark = 1, bits;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        mark = (mark * 131 + (uint64_t)asked[i] % prime) % prime;
    for (size_t i = 0; i < s->quantiles; i++) {
        memcpy(&bits, s->q + i, sizeof bits);
        mark = (mark * 131 + bits % prime) % prime;
    }
    return (int)mark;
}

/* Every rank gets 0, if none has an error and all ask for the same. `err` is this rank's; without one its spec is valid. */
static inline int reduce_mpi_agree(int err, const reduce_spec *spec, MPI_Comm comm)
{
    const int mark = err ? 0 : reduce_mpi_mark(spec);
    int rank = 0, all[] = {err, mark, -mark};
    if (MPI_Comm_rank(comm, &rank) != MPI_SUCCESS || MPI_Allreduce(MPI_IN_PLACE, all, 3, MPI_INT, MPI_MIN, comm) != MPI_SUCCESS)
        return reduce_error(REDUCE_E_IO, "exchange", "MPI_Allreduce failed");
    if (all[0])
        return reduce_collective_error(err, (uint32_t)rank, reduce_mpi_exchange, &comm);
    return all[1] == -all[2] ? 0 : reduce_error(REDUCE_E_BAD_MESSAGE, "spec", "the ranks do not ask for the same reduction");
}

/* The selection, if there is room for its value. */
static inline int reduce_mpi_select(reduce_selection **s, const reduce_spec *spec, const void *out, size_t room)
{
    size_t need = 0;
    reduce_spec whole = REDUCE_SPEC_INIT;
    if (!spec)
        return reduce_error(REDUCE_E_ARGUMENT, "spec", "the spec is NULL");
    whole = *spec;
    whole.mask = NULL;
    int err = reduce_selection_new(s, &whole);
    if (!err)
        err = reduce_result_size(&whole, 0, &need);
    if (!err && !out)
        return reduce_error(REDUCE_E_ARGUMENT, "out", "the pointer to the results is NULL");
    return !err && room < need ? reduce_error(REDUCE_E_ARGUMENT, "room", "the results do not fit the bytes given") : err;
}

/* median, quantile or kth of the elements of all ranks, which stay where they are: 1 to 6 passes with an MPI_Allreduce of the
 * counts of some 2048 digits each. The value is that of reduce_run for all elements together. Of the spec, only `mask` may
 * differ between ranks, else the error is REDUCE_E_BAD_MESSAGE. An error of one rank is returned by all, and errmsg names the
 * lowest such rank. */
static inline int reduce_mpi_quantile(const reduce_spec *spec, const void *data, size_t bytes, void *out, size_t room,
                                      MPI_Comm comm)
{
    reduce_selection *s = NULL;
    int err = reduce_mpi_select(&s, spec, out, room), again = 1;
    for (;;) { /* every rank hears of an error before it goes on */
        size_t n = 0;
        if (!err && again)
            err = reduce_selection_count(s, data, spec->mask, bytes);
        err = reduce_mpi_agree(err, spec, comm);
        if (err || !again)
            break;
        uint64_t *counts = reduce_selection_counts(s, &n);
        if (n > INT_MAX || MPI_Allreduce(MPI_IN_PLACE, counts, (int)n, MPI_UINT64_T, MPI_SUM, comm) != MPI_SUCCESS)
            err = reduce_error(REDUCE_E_IO, "exchange", "MPI_Allreduce failed");
        again = err ? 0 : reduce_selection_next(s);
        err = again < 0 ? again : err;
        again = again == 1;
    }
    if (!err)
        err = reduce_selection_finish(s, out, room);
    reduce_selection_free(s);
    return err;
}

typedef struct reduce_mpi_best {
    uint64_t value, index;
} reduce_mpi_best;

static inline int reduce_mpi_earlier(const void *a, const void *b)
{
    const uint64_t x = ((const reduce_mpi_best *)a)->index, y = ((const reduce_mpi_best *)b)->index;
    return (x > y) - (x < y);
}

/* The best of `n` elements, by reduce_run of their values in the order of their indexes. */
static inline int reduce_mpi_best_of(reduce_client *c, const reduce_spec *spec, reduce_mpi_best *best, size_t n, void *out,
                                     size_t room)
{
    const int is_float = spec->dtype >= REDUCE_F16 && spec->dtype <= REDUCE_F64, is_signed = spec->dtype % 2 == 1;
    size_t found = 0, cell = 0, k = (size_t)spec->k;
    reduce_spec s = *spec;
    uint64_t *values = (uint64_t *)malloc(n * sizeof *values);
    if (!values)
        return reduce_error(REDUCE_E_NO_MEMORY, "k", "no memory for the elements of all ranks");
    qsort(best, n, sizeof *best, reduce_mpi_earlier);
    for (; found < n && best[found].index != REDUCE_NO_INDEX; found++)
        values[found] = best[found].value;
    s.mask = NULL;
    s.index_base = 0;
    s.dtype = is_float ? REDUCE_F64 : is_signed && spec->dtype != REDUCE_BOOL ? REDUCE_I64 : REDUCE_U64;
    int err = reduce_result_size(&s, found * sizeof *values, &cell);
    if (!err)
        err = reduce_run(c, &s, values, found * sizeof *values, out, room, NULL);
    uint64_t *index = (uint64_t *)((char *)out + cell) - k;
    for (size_t i = 0; i < k && !err; i++)
        if (index[i] != REDUCE_NO_INDEX)
            index[i] = best[index[i]].index;
    free(values);
    return err;
}

/* This rank's best elements, at `cell`; the spec has one row. */
static inline int reduce_mpi_own_best(reduce_client *c, const reduce_spec *spec, const void *data, size_t bytes, uint64_t *cell,
                                      size_t room)
{
    reduce_spec mine = REDUCE_SPEC_INIT;
    if (!cell)
        return reduce_error(REDUCE_E_NO_MEMORY, "k", "no memory for the elements of all ranks");
    if (!spec)
        return reduce_error(REDUCE_E_ARGUMENT, "spec", "the spec is NULL");
    if (spec->op != REDUCE_LARGEST && spec->op != REDUCE_SMALLEST)
        return reduce_error(REDUCE_E_OP, "op", "only largest and smallest have elements of all ranks");
    mine = *spec;
    mine.out = 0; /* of 8 bytes: nothing is rounded so far */
    if (spec->rows != 1 || spec->planes > 1 || spec->offsets)
        return reduce_error(REDUCE_E_SHAPE, "rows", "the elements of all ranks are one row, without planes or offsets");
    return reduce_run(c, &mine, data, bytes, cell, room, NULL);
}

/* If all ranks ask for the same, and none has an error, the elements are gathered: 2 k words of each rank. */
static inline int reduce_mpi_gather_best(const reduce_spec *spec, int err, const uint64_t *cell, uint64_t *cells, int words,
                                         MPI_Comm comm)
{
    err = reduce_mpi_agree(err, spec, comm);
    if (!err && MPI_Allgather((void *)cell, words, MPI_UINT64_T, cells, words, MPI_UINT64_T, comm) != MPI_SUCCESS)
        err = reduce_error(REDUCE_E_IO, "exchange", "MPI_Allgather failed");
    return err;
}

/* largest or smallest of the elements of all ranks, whose numbers go from their own index_base on: that of reduce_run for all
 * elements together, at every rank, by an MPI_Allgather of `k` elements and their indexes. Of the spec, `mask` and
 * `index_base` may differ between ranks, else the error is REDUCE_E_BAD_MESSAGE; it has one row. The client is not NULL; `out`
 * is aligned to 8 bytes. An error of one rank is returned by all, and errmsg names the lowest such rank. */
static inline int reduce_mpi_top(reduce_client *c, const reduce_spec *spec, const void *data, size_t bytes, void *out,
                                 size_t room, MPI_Comm comm)
{
    int ranks = 0, rank = 0;
    if (MPI_Comm_size(comm, &ranks) != MPI_SUCCESS || MPI_Comm_rank(comm, &rank) != MPI_SUCCESS)
        return reduce_error(REDUCE_E_IO, "comm", "the communicator has no size and rank");
    const size_t k = spec && spec->k > 0 && spec->k <= REDUCE_MAX_TOP ? (size_t)spec->k : 1, n = k * (size_t)ranks;
    uint64_t *cells = (uint64_t *)malloc((2 * (n + k)) * sizeof *cells);
    reduce_mpi_best *best = (reduce_mpi_best *)malloc(n * sizeof *best);
    uint64_t *cell = cells && best ? cells + 2 * n : NULL;
    int err = reduce_mpi_own_best(c, spec, data, bytes, cell, 2 * k * sizeof *cell);
    err = reduce_mpi_gather_best(spec, err, cell, cells, (int)(2 * k), comm);
    if (!err) {
        for (size_t i = 0; i < n; i++) {
            best[i].value = cells[i / k * 2 * k + i % k];
            best[i].index = cells[i / k * 2 * k + k + i % k];
        }
        err = reduce_mpi_best_of(c, spec, best, n, out, room);
        err = reduce_collective_error(err, (uint32_t)rank, reduce_mpi_exchange, &comm);
    }
    free(cells);
    free(best);
    return err;
}

/* reduce_file of the parts of all ranks. */
static inline int reduce_mpi_file(reduce_client *c, const reduce_spec *spec, int fd, uint64_t offset, uint64_t bytes, void *out,
                                  size_t room, MPI_Comm comm)
{
    reduce_item item = reduce_mpi_item(spec, NULL, 0, out, room);
    item.fd = fd;
    item.offset = offset;
    item.bytes = bytes;
    return reduce_mpi_allreduce_items(c, &item, 1, comm);
}

/* reduce_device of the parts of all ranks. */
static inline int reduce_mpi_device(reduce_client *c, const reduce_spec *spec, const void *handle, uint64_t offset,
                                    uint64_t bytes, void *out, size_t room, MPI_Comm comm)
{
    reduce_item item = reduce_mpi_item(spec, NULL, 0, out, room);
    item.device = handle;
    item.offset = offset;
    item.bytes = bytes;
    return reduce_mpi_allreduce_items(c, &item, 1, comm);
}

/* ---- without waiting ---------------------------------------------------------------------------------------------- */

#if MPI_VERSION >= 3

/* reduce_mpi_allreduce that goes on while the program computes. Begin, and test or wait until it has ended:
 *
 *     reduce_mpi_request r;
 *     reduce_mpi_iallreduce(NULL, &spec, mine, bytes, &sum, sizeof sum, MPI_COMM_WORLD, &r);
 *     ...
 *     if (reduce_mpi_wait(&r)) die(reduce_errmsg());
 *
 * Order: all ranks begin requests and other collectives of a communicator in the same order, as MPI says; they may end them in
 * any. The first request of a communicator makes a copy of it, and waits for all ranks as MPI_Comm_dup does.
 * Progress: the elements are reduced by begin. What follows goes on as MPI's own nonblocking calls: with most of them inside
 * calls of MPI alone, so test now and then. A test or wait also ends requests of the communicator that began earlier.
 * Ownership: specs, data, masks and weights are free after begin. `out` and the request, which keeps its place, are the
 * library's until a test or wait says that it has ended; the communicator must live until then.
 * Errors: those of reduce_collective, at all ranks, from the test or wait that ends the request. If begin returns an error,
 * which has nothing to end, test and wait return it too. */
typedef struct reduce_mpi_request {
    reduce_joint *joint; /* NULL: it has ended */
    MPI_Request exchange;
    struct reduce_mpi_line *line;
    struct reduce_mpi_request *next; /* the one that began after it */
    int err;                         /* how it ended, */
    char text[256];                  /* ... for reduce_errmsg */
} reduce_mpi_request;

/* Requests of one communicator that have not ended. Their second exchanges, of which the ranks learn at different times, are
 * made in the order of the requests, on a communicator of their own. */
typedef struct reduce_mpi_line {
    MPI_Comm second;
    reduce_mpi_request *first, *last;
} reduce_mpi_line;

static inline int reduce_mpi_forget_line(MPI_Comm comm, int key, void *line, void *extra)
{
    int over = 0;
    (void)comm, (void)key, (void)extra;
    MPI_Finalized(&over);
    if (!over)
        MPI_Comm_free(&((reduce_mpi_line *)line)->second);
    free(line);
    return MPI_SUCCESS;
}

/* MPI_KEYVAL_INVALID if MPI has no more. */
static inline int reduce_mpi_line_key(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int key = MPI_KEYVAL_INVALID;
    pthread_mutex_lock(&lock);
    if (key == MPI_KEYVAL_INVALID && MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, reduce_mpi_forget_line, &key, NULL))
        key = MPI_KEYVAL_INVALID;
    const int mine = key;
    pthread_mutex_unlock(&lock);
    return mine;
}

/* NULL: MPI failed, or memory is lacking. */
static inline reduce_mpi_line *reduce_mpi_line_of(MPI_Comm comm)
{
    reduce_mpi_line *line = NULL;
    int found = 0, key = reduce_mpi_line_key();
    if (key == MPI_KEYVAL_INVALID || MPI_Comm_get_attr(comm, key, &line, &found) != MPI_SUCCESS)
        return NULL;
    if (found)
        return line;
    line = (reduce_mpi_line *)calloc(1, sizeof *line);
    if (line && MPI_Comm_dup(comm, &line->second) == MPI_SUCCESS && MPI_Comm_set_attr(comm, key, line) == MPI_SUCCESS)
        return line;
    free(line);
    return NULL;
}

static inline int reduce_mpi_start(void *buffer, size_t bytes, MPI_Comm comm, MPI_Request *request)
{
    MPI_Datatype type;
    MPI_Op op = reduce_mpi_op();
    int err = op == MPI_OP_NULL ? MPI_ERR_OP : reduce_mpi_element(bytes, &type);
    if (err != MPI_SUCCESS)
        return err;
    err = MPI_Iallreduce(MPI_IN_PLACE, buffer, 1, type, op, comm, request);
    MPI_Type_free(&type); /* MPI keeps it while it needs it */
    return err;
}

/* A reduce_exchange that goes with those of requests. */
static inline int reduce_mpi_iexchange(void *arg, void *buffer, size_t bytes)
{
    MPI_Request request;
    int err = reduce_mpi_start(buffer, bytes, *(MPI_Comm *)arg, &request);
    return err == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : err;
}

static inline void reduce_mpi_end(reduce_mpi_request *r, int err)
{
    const char *text = err ? strstr(reduce_errmsg(), ": ") : NULL;
    r->joint = NULL;
    r->err = err;
    snprintf(r->text, sizeof r->text, "%s", text ? text + 2 : "");
}

/* An exchange of the first request has ended. */
static inline void reduce_mpi_advance(reduce_mpi_line *line, int failed)
{
    reduce_mpi_request *r = line->first;
    size_t bytes = 0;
    int more = reduce_joint_next(r->joint, failed);
    if (more == 1) {
        void *buffer = reduce_joint_buffer(r->joint, &bytes);
        failed = reduce_mpi_start(buffer, bytes, line->second, &r->exchange);
        if (failed == MPI_SUCCESS)
            return;
        more = reduce_joint_next(r->joint, failed);
    }
    line->first = r->next;
    reduce_mpi_end(r, more);
}

/* Begin several reductions together. */
static inline int reduce_mpi_iallreduce_items(reduce_client *c, const reduce_item *items, size_t n, MPI_Comm comm,
                                              reduce_mpi_request *r)
{
    int rank = 0, err = 0;
    size_t bytes = 0;
    memset(r, 0, sizeof *r);
    r->line = reduce_mpi_line_of(comm);
    if (!r->line || MPI_Comm_rank(comm, &rank) != MPI_SUCCESS)
        err = reduce_error(REDUCE_E_IO, "comm", "MPI has no copy of the communicator");
    else if (reduce_joint_begin(&r->joint, c, items, n, (uint32_t)rank))
        err = reduce_collective_error(REDUCE_E_NO_MEMORY, (uint32_t)rank, reduce_mpi_iexchange, &comm);
    if (!err && reduce_mpi_start(reduce_joint_buffer(r->joint, &bytes), REDUCE_MESSAGE, comm, &r->exchange) != MPI_SUCCESS)
        err = reduce_joint_next(r->joint, 1);
    if (err) {
        reduce_mpi_end(r, err);
        return err;
    }
    if (r->line->first)
        r->line->last->next = r;
    else
        r->line->first = r;
    r->line->last = r;
    return 0;
}

/* Begin one. */
static inline int reduce_mpi_iallreduce(reduce_client *c, const reduce_spec *spec, const void *data, size_t bytes, void *out,
                                        size_t room, MPI_Comm comm, reduce_mpi_request *r)
{
    reduce_item item = reduce_mpi_item(spec, data, bytes, out, room);
    return reduce_mpi_iallreduce_items(c, &item, 1, comm, r);
}

/* `done`: has it ended? Then the result is there: 0, or its error. */
static inline int reduce_mpi_test(reduce_mpi_request *r, int *done)
{
    int ended = 1;
    while (r->joint && ended) {
        int failed = MPI_Test(&r->line->first->exchange, &ended, MPI_STATUS_IGNORE);
        if (failed != MPI_SUCCESS || ended)
            reduce_mpi_advance(r->line, failed);
    }
    *done = !r->joint;
    return *done ? reduce_error(r->err, "", r->text) : 0;
}

/* Until it has ended. */
static inline int reduce_mpi_wait(reduce_mpi_request *r)
{
    while (r->joint)
        reduce_mpi_advance(r->line, MPI_Wait(&r->line->first->exchange, MPI_STATUS_IGNORE));
    return reduce_error(r->err, "", r->text);
}

#endif

#endif
