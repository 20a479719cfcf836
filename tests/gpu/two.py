#!/usr/bin/python3
"""reduced.cuda over the GPUs of one host, by torch.distributed on NCCL: sums and norms of all ranks, for two shardings, beside those
of all elements on one GPU; a model trained 50 steps with its gradients in shards.

    B=build/cuda-portable tests/gpu/two.py [--times]
"""
import os
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / os.environ.get("B", "build/cuda")
os.environ.setdefault("REDUCED_LIBRARY", str(BUILD / "lib/libreduce.so.0"))
os.environ.setdefault("REDUCED_CUDA_LIBRARY", str(BUILD / "lib/libreduce-cuda.so"))
sys.path.insert(0, str(ROOT / "client/python"))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import reduced.cuda  # noqa: E402


def shard(whole, rank, ranks, blocks):
    """Of the rows of `whole`, those of this rank: in one piece, or in blocks by turns."""
    return torch.cat(whole.chunk(blocks * ranks)[rank::ranks]) if blocks > 1 else whole.chunk(ranks)[rank]


def train(rank, ranks, blocks, steps=50):
    torch.manual_seed(1)
    whole = torch.randn(512, 64, device="cuda")
    w = torch.nn.Parameter(shard(whole, rank, ranks, blocks).clone()) if ranks > 1 else torch.nn.Parameter(whole.clone())
    for _ in range(steps):
        w.grad = torch.sin(w.detach() * 3)
        reduced.cuda.clip_grad_norm_([w], 1.0, group=dist.group.WORLD if ranks > 1 else None)
        with torch.no_grad():
            w -= 0.1 * w.grad
    return w.detach()


def microseconds(call, repeats):
    """Of one call in a graph of several: the median of nine replays."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        for _ in range(repeats):
            call()
    taken = []
    for _ in range(10):
        dist.barrier()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - begin) / repeats * 1e6)
    return statistics.median(taken[1:])


def times(rank):
    """all_reduce beside NCCL's, which is in place."""
    for dtype in (torch.bfloat16, torch.float32):
        for size in (4 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20, 256 << 20):
            x = torch.randn(size // dtype.itemsize, device="cuda").to(dtype)
            y, repeats = x.clone(), 20 if size < 4 << 20 else 5
            ours, nccl = microseconds(lambda: reduced.cuda.all_reduce(x), repeats), microseconds(lambda: dist.all_reduce(y), repeats)
            if rank == 0:
                print(f"all_reduce {str(dtype)[6:]:8} {size >> 10:6} KiB: {ours:8.1f}, NCCL {nccl:8.1f}, {ours / nccl:.2f}", flush=True)


def each(rank, ranks, found):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=ranks)
    failed = []

    def check(right, what):
        if not right:
            failed.append(what)

    alone = train(0, 1, 1)
    for blocks in (1, 4):
        mine = train(rank, ranks, blocks)
        check(torch.equal(mine, shard(alone, rank, ranks, blocks)), f"a model in shards of {blocks} blocks")
    torch.manual_seed(7)
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        for n in (1, 300, 70_001, 2_000_003, 8_000_000):  # in one exchange; in two, with and without a rest
            rows = (torch.randn(ranks, n, device="cuda", dtype=torch.float64) * 1e4).to(dtype)
            for op in ("sum", "mean"):
                got, want = reduced.cuda.all_reduce(rows[rank], op), getattr(reduced.cuda, op)(rows, 0)
                check(torch.equal(got, want), f"all_reduce {op} of {n} {dtype}")
        norm = reduced.cuda.total_norm([rows[rank]], group=dist.group.WORLD)
        check(torch.equal(norm, reduced.cuda.norm(rows)), f"norm of {dtype}")
    if "--times" in sys.argv:
        times(rank)
    found[rank] = failed
    dist.destroy_process_group()


if __name__ == "__main__":
    count = torch.cuda.device_count()
    if count < 2:
        print(f"two: {count} GPUs")
        sys.exit(77)
    with torch.multiprocessing.Manager() as manager:
        answers = manager.dict()
        torch.multiprocessing.spawn(each, args=(count, answers), nprocs=count)
        wrong = [f"rank {rank}: {what}" for rank, failed in answers.items() for what in failed]
        print("\n".join([f"FAIL {w}" for w in wrong] + [f"two: {count} GPUs, {len(answers)} ranks, {len(wrong)} failed"]))
        sys.exit(bool(wrong) or len(answers) != count)
