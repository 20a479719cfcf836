#!/usr/bin/env python3
"""Loss, gradient norm and accuracy of a batch that is spread over ranks, with torch.distributed: the same bits for any number of ranks,
any cut of the batch and any all-reduce algorithm of NCCL or Gloo.

    python3 training_torch.py --ranks 4 --store /tmp/store            ranks on the processor, by Gloo
    torchrun --nproc-per-node 2 training_torch.py --backend nccl      a GPU each

Each rank turns its numbers into words (int64), one all-reduce adds them, and each rank finishes the same sum."""
import argparse
import ctypes
import multiprocessing
import os

import torch
import torch.distributed as dist

SUM, MEAN, NORM2, F32, F64 = 1, 10, 13, 11, 12  # reduce_op, reduce_dtype
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
    """The words of this rank's elements, on the processor. (Large arrays: reduce_run with REDUCE_STATES_OUT.)"""
    x = x.detach().to("cpu").contiguous()
    dtype = F64 if x.dtype == torch.float64 else F32
    state, n = ctypes.create_string_buffer(872), ctypes.c_size_t(lib.reduce_state_words(op, dtype))
    words = torch.empty(n.value, dtype=torch.int64)
    check(lib.reduce_state_init(state, ctypes.c_size_t(872), op, dtype))
    check(lib.reduce_state_add(state, ctypes.c_size_t(872), ctypes.c_void_p(x.data_ptr()), ctypes.c_size_t(x.numel())))
    check(lib.reduce_state_to_words(state, ctypes.c_size_t(872), ctypes.c_void_p(words.data_ptr()), n))
    return words


def value_of(op, dtype, words):
    """The value of the words of all ranks together."""
    state, value = ctypes.create_string_buffer(872), ctypes.c_double()
    check(lib.reduce_state_from_words(state, ctypes.c_size_t(872), op, dtype, ctypes.c_void_p(words.data_ptr()), ctypes.c_size_t(len(words))))
    spec = Spec(ctypes.sizeof(Spec), op, dtype, rows=1)
    check(lib.reduce_state_finish(state, ctypes.c_size_t(872), ctypes.byref(spec), ctypes.byref(value), ctypes.c_size_t(8)))
    return value.value


def all_reduce(device, **reductions):
    """{name: value} of name = (op, this rank's tensor); all in one all-reduce."""
    parts = [words_of(op, x) for op, x in reductions.values()]
    joined = torch.cat(parts).to(device)
    dist.all_reduce(joined, dist.ReduceOp.SUM)
    split = torch.split(joined.cpu(), [len(p) for p in parts])
    return {name: value_of(op, F64 if x.dtype == torch.float64 else F32, part.contiguous())
            for (name, (op, x)), part in zip(reductions.items(), split)}


def batch(rank, ranks, size=1000, features=8):
    """This rank's samples of a batch that does not depend on the number of ranks."""
    at = torch.arange(size * rank // ranks, size * (rank + 1) // ranks, dtype=torch.float64)
    x = torch.stack([torch.sin(at * (k + 1) * 0.37) for k in range(features)], 1)
    return x, torch.sin(at * 0.11)


def step(rank, ranks, device):
    x, y = batch(rank, ranks)
    w = torch.linspace(-1, 1, x.shape[1], dtype=torch.float64)
    error = (x * w).sum(1) - y
    gradient = {f"g{k}": (SUM, error * x[:, k]) for k in range(x.shape[1])}
    close = (error.abs() < 0.5).to(torch.float64)
    values = all_reduce(device, loss=(MEAN, error * error), accuracy=(MEAN, close), **gradient)
    norm = sum(values[name] ** 2 for name in gradient) ** 0.5
    if rank == 0:
        print("loss", values["loss"].hex(), "accuracy", values["accuracy"].hex(), "gradient", norm.hex(), flush=True)


def run(rank, ranks, backend, store):
    where = {"init_method": f"file://{os.path.abspath(store)}", "rank": rank, "world_size": ranks} if store else {}
    dist.init_process_group(backend, **where)
    rank = dist.get_rank()
    device = torch.device("cuda", rank % torch.cuda.device_count()) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    step(rank, dist.get_world_size(), device)
    dist.destroy_process_group()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--ranks", type=int, default=0, help="the number of processes to start; 0: torchrun has started them")
    p.add_argument("--store", help="a file by which they find each other")
    p.add_argument("--backend", default="gloo")
    a = p.parse_args()
    if not a.ranks:
        return run(0, 0, a.backend, None)
    processes = [multiprocessing.get_context("fork").Process(target=run, args=(i, a.ranks, a.backend, a.store)) for i in range(a.ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return max(abs(process.exitcode) for process in processes)


if __name__ == "__main__":
    raise SystemExit(main())
