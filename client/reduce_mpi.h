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
#include <stdlib.h>

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

/* One element of `bytes` bytes at every rank. Making the type takes 0.1 us. */
static inline int reduce_mpi_join_all(void *buffer, int bytes, MPI_Comm comm)
{
    MPI_Datatype type;
    MPI_Op op = reduce_mpi_op();
    int err = op == MPI_OP_NULL ? MPI_ERR_OP : MPI_Type_contiguous(bytes, MPI_BYTE, &type);
    if (err != MPI_SUCCESS)
        return err;
    err = MPI_Type_commit(&type);
    if (err == MPI_SUCCESS)
        err = MPI_Allreduce(MPI_IN_PLACE, buffer, 1, type, op, comm);
    MPI_Type_free(&type);
    return err;
}

/* A reduce_exchange; `arg` is the communicator. */
static inline int reduce_mpi_exchange(void *arg, void *buffer, size_t bytes)
{
    return bytes > INT_MAX ? MPI_ERR_COUNT : reduce_mpi_join_all(buffer, (int)bytes, *(MPI_Comm *)arg);
}

/* Several reductions together: `out` of each item gets its result at every rank. */
static inline int reduce_mpi_allreduce_items(reduce_client *c, const reduce_item *items, size_t n, MPI_Comm comm)
{
    int rank = 0;
    if (MPI_Comm_rank(comm, &rank) != MPI_SUCCESS)
        return REDUCE_E_IO;
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

/* reduce_run of the elements of all ranks. */
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
    int rank = 0;
    reduce_item item = reduce_mpi_item(spec, data, bytes, out, room);
    if (MPI_Comm_rank(comm, &rank) != MPI_SUCCESS)
        return REDUCE_E_IO;
    if (rank != root)
        item.out = NULL;
    return reduce_mpi_allreduce_items(c, &item, 1, comm);
}

/* median, quantile or kth of the elements of all ranks, which stay where they are: 1 to 6 passes with an MPI_Allreduce of the
 * counts of some 2048 digits each. The value is that of reduce_run for all elements together. Of the spec, only `mask` may
 * differ between ranks. An error of one rank is returned by all, and errmsg names the lowest such rank. */
static inline int reduce_mpi_quantile(const reduce_spec *spec, const void *data, size_t bytes, void *out, size_t room,
                                      MPI_Comm comm)
{
    reduce_selection *s = NULL;
    reduce_spec mine = *spec;
    const void *mask = spec->mask;
    int rank = 0, err, again = 1;
    if (MPI_Comm_rank(comm, &rank) != MPI_SUCCESS)
        return REDUCE_E_IO;
    mine.mask = NULL;
    err = reduce_selection_new(&s, &mine);
    for (;;) { /* every rank hears of an error before it goes on */
        size_t n = 0;
        if (!err && again)
            err = reduce_selection_count(s, data, mask, bytes);
        int worst = err;
        if (MPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_INT, MPI_MIN, comm) != MPI_SUCCESS)
            worst = REDUCE_E_IO;
        else if (worst)
            worst = reduce_collective_error(err, (uint32_t)rank, reduce_mpi_exchange, &comm);
        err = worst;
        if (err || !again)
            break;
        uint64_t *counts = reduce_selection_counts(s, &n);
        if (n > INT_MAX || MPI_Allreduce(MPI_IN_PLACE, counts, (int)n, MPI_UINT64_T, MPI_SUM, comm) != MPI_SUCCESS)
            err = REDUCE_E_IO;
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
        return REDUCE_E_NO_MEMORY;
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

/* largest or smallest of the elements of all ranks, whose numbers go from their own index_base on: that of reduce_run for all
 * elements together, at every rank, by an MPI_Allgather of `k` elements and their indexes. Of the spec, `mask` and
 * `index_base` may differ between ranks; it has one row. The client is not NULL; `out` is aligned to 8 bytes. An error of one
 * rank is returned by all; its message is there alone. */
static inline int reduce_mpi_top(reduce_client *c, const reduce_spec *spec, const void *data, size_t bytes, void *out,
                                 size_t room, MPI_Comm comm)
{
    int ranks = 0, err = 0;
    reduce_spec mine = *spec;
    if (MPI_Comm_size(comm, &ranks) != MPI_SUCCESS)
        return REDUCE_E_IO;
    const size_t k = spec->k > 0 && spec->k <= REDUCE_MAX_TOP ? (size_t)spec->k : 1, n = k * (size_t)ranks;
    uint64_t *cells = (uint64_t *)malloc(2 * (n + k) * sizeof *cells), *cell = cells ? cells + 2 * n : NULL;
    reduce_mpi_best *best = (reduce_mpi_best *)malloc(n * sizeof *best);
    mine.out = 0; /* of 8 bytes: nothing is rounded so far */
    if (!cells || !best)
        err = REDUCE_E_NO_MEMORY;
    else if (spec->rows != 1 || spec->planes > 1 || spec->offsets)
        err = REDUCE_E_SHAPE;
    else
        err = reduce_run(c, &mine, data, bytes, cell, 2 * k * sizeof *cell, NULL);
    int same[] = {err, spec->op, -spec->op, spec->dtype, -spec->dtype, (int)k, -(int)k};
    if (MPI_Allreduce(MPI_IN_PLACE, same, 7, MPI_INT, MPI_MIN, comm) != MPI_SUCCESS)
        err = REDUCE_E_IO;
    else
        err = same[0] ? same[0] : same[1] != -same[2] || same[3] != -same[4] || same[5] != -same[6] ? REDUCE_E_BAD_MESSAGE : 0;
    if (!err && MPI_Allgather(cell, (int)(2 * k), MPI_UINT64_T, cells, (int)(2 * k), MPI_UINT64_T, comm) != MPI_SUCCESS)
        err = REDUCE_E_IO;
    for (size_t i = 0; i < n && !err; i++) {
        best[i].value = cells[i / k * 2 * k + i % k];
        best[i].index = cells[i / k * 2 * k + k + i % k];
    }
    if (!err)
        err = reduce_mpi_best_of(c, spec, best, n, out, room);
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

#endif
