#!/usr/bin/env python3
"""Words over NCCL, one process for each GPU (or over Gloo, on processors, to try this script).

    make PORTABLE=1 CUDA=no            libreduce.so with what it needs beside it
    python3 tests/gpu/nccl.py [--library build/cpu-portable/lib/libreduce.so] [--backend gloo --ranks 2]

1. The example client/examples/training_torch.py gives the same bits for 1 rank, for all ranks, and for NCCL's rings and trees.
2. The time of an all-reduce of one f64 and of the 77 int64 words of a sum, in turns; the words may take 1.2 times as long (--most)."""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "client" / "examples" / "training_torch.py"
TURNS, CALLS = 40, 50


def environment(library, **more):
    path = f"{pathlib.Path(library).resolve().parent}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    return {**os.environ, "LD_LIBRARY_PATH": path, **more}  # what is set about NVLink multicast stays


def ranks_of(program, ranks, env, *args):
    """Standard outputs of that many processes of `program`."""
    processes = [subprocess.Popen([sys.executable, *program, *args], stdout=subprocess.PIPE, text=True, env={
        **env, "RANK": str(i), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517"}) for i in range(ranks)]
    outs = [p.communicate(timeout=300)[0] for p in processes]
    if any(p.returncode for p in processes):
        sys.exit(f"a process of {program} failed")
    return outs


def check_bits(a):
    """One line of output, whatever the number of ranks and the algorithm."""
    seen = {}
    ways = [{}] if a.backend == "gloo" else [{}, {"NCCL_ALGO": "Ring"}, {"NCCL_ALGO": "Tree"}]
    for ranks in sorted({1, 2, a.ranks}):
        for way in ways:
            out = ranks_of([EXAMPLE], ranks, environment(a.library, **way), "--backend", a.backend)[0].strip()
            seen.setdefault(out, []).append((ranks, *way.values()))
    for out, how in seen.items():
        print(out, how)
    return len(seen) == 1


def measure(a):
    """One process of the measurement."""
    import torch
    import torch.distributed as dist
    dist.init_process_group(a.backend)
    rank = dist.get_rank()
    device = torch.device("cuda", rank) if a.backend == "nccl" else torch.device("cpu")
    wait = (lambda: torch.cuda.synchronize(device)) if a.backend == "nccl" else (lambda: None)
    if a.backend == "nccl":
        torch.cuda.set_device(device)
    tensors = {"1 f64": torch.ones(1, dtype=torch.float64, device=device), "77 i64": torch.zeros(77, dtype=torch.int64, device=device)}
    us = {name: [] for name in tensors}
    for _ in range(TURNS):
        for name, tensor in tensors.items():
            dist.barrier()
            wait()
            begin = time.perf_counter()
            for _ in range(CALLS):
                dist.all_reduce(tensor)
                wait()
            us[name].append((time.perf_counter() - begin) / CALLS * 1e6)
    if rank == 0:
        print(" ".join(f"{statistics.median(v):.2f}" for v in us.values()))
    dist.destroy_process_group()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--library", default=ROOT / "build" / "cpu-portable" / "lib" / "libreduce.so")
    p.add_argument("--backend", default="nccl")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--most", type=float, default=1.2)
    p.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.measure:
        return measure(a)
    same = check_bits(a)
    print("the same bits everywhere" if same else "THE BITS DIFFER")
    one, words = map(float, ranks_of([__file__], a.ranks, environment(a.library), "--measure", "--backend", a.backend)[0].split())
    print(f"{a.backend}, {a.ranks} ranks: 1 f64 {one:.1f} us, 77 i64 {words:.1f} us, {words / one:.2f} times")
    return 0 if same and (words <= a.most * one or a.backend != "nccl") else 1


if __name__ == "__main__":
    sys.exit(main())
