#!/usr/bin/env python3
"""Heat in a rod on any number of ranks, with mpi4py: the residual's norm after each step has the same bits for any number of ranks.

    mpirun -n 4 python3 heat_mpi.py [STEPS]

States travel as words, so that MPI's own MPI_SUM joins them: no operation of ours runs inside MPI."""
import ctypes
import sys

import numpy as np
from mpi4py import MPI

SUM, NORM2, F64 = 1, 13, 12  # reduce_op, reduce_dtype
lib = ctypes.CDLL("libreduce.so.0")
lib.reduce_state_words.restype = ctypes.c_size_t
lib.reduce_errmsg.restype = ctypes.c_char_p


class Spec(ctypes.Structure):
    """The head of reduce_spec; the rest is 0."""
    _fields_ = [("size", ctypes.c_uint32), ("op", ctypes.c_int32), ("dtype", ctypes.c_int32), ("zeros", ctypes.c_uint32 * 7),
                ("rows", ctypes.c_uint64), ("more", ctypes.c_uint64 * 4)]


def check(code):
    if code:
        raise RuntimeError(lib.reduce_errmsg().decode())


def words_of(op, x):
    """The words of this rank's elements."""
    state, n = ctypes.create_string_buffer(872), ctypes.c_size_t(lib.reduce_state_words(op, F64))
    words = np.empty(n.value, np.int64)
    check(lib.reduce_state_init(state, ctypes.c_size_t(872), op, F64))
    check(lib.reduce_state_add(state, ctypes.c_size_t(872), x.ctypes, ctypes.c_size_t(len(x))))
    check(lib.reduce_state_to_words(state, ctypes.c_size_t(872), words.ctypes, n))
    return words


def value_of(op, words):
    """The value of the words of all ranks together."""
    state, value = ctypes.create_string_buffer(872), ctypes.c_double()
    check(lib.reduce_state_from_words(state, ctypes.c_size_t(872), op, F64, words.ctypes, ctypes.c_size_t(len(words))))
    spec = Spec(ctypes.sizeof(Spec), op, F64, rows=1)
    check(lib.reduce_state_finish(state, ctypes.c_size_t(872), ctypes.byref(spec), ctypes.byref(value), ctypes.c_size_t(8)))
    return value.value


def allreduce(comm, *reductions):
    """[value, ...] of (op, this rank's array), ...; all in one message."""
    words = [words_of(op, x) for op, x in reductions]
    joined = np.concatenate(words)
    comm.Allreduce(MPI.IN_PLACE, joined, MPI.SUM)
    ends = np.cumsum([len(w) for w in words])
    return [value_of(op, part) for (op, _), part in zip(reductions, np.split(joined, ends[:-1]))]


def main():
    comm, cells, steps = MPI.COMM_WORLD, 1000, int(sys.argv[1]) if len(sys.argv) > 1 else 400
    first = cells * comm.rank // comm.size
    n = cells * (comm.rank + 1) // comm.size - first
    left = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
    right = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
    at = first + np.arange(1, n + 1)
    u = np.concatenate([[0.0], np.sin(0.37 * at) * np.exp(-0.01 * at), [0.0]])
    residual = heat = 0.0
    for _ in range(steps):
        comm.Sendrecv(u[1:2].copy(), left, 0, u[n + 1:], right, 0)
        comm.Sendrecv(u[n:n + 1].copy(), right, 1, u[:1], left, 1)
        change = 0.25 * (u[:-2] - 2 * u[1:-1] + u[2:])
        u[1:-1] += change
        residual, heat = allreduce(comm, (NORM2, change), (SUM, u[1:-1]))
    if comm.rank == 0:
        print("residual", residual.hex(), "heat", heat.hex())


if __name__ == "__main__":
    main()
