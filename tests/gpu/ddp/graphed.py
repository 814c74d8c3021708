#!/usr/bin/env python3
"""PyTorch's collectives in a CUDA graph, one process a GPU (torchrun): the graph is launched again and again, calls that
are not captured between, and every result is compared. Prints the time of a launch. Ends with 1 where a result is wrong."""

import os
import sys
import time

import torch
import torch.distributed as dist

LAUNCHES = 1000


def main():
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    n = 100_000
    x = torch.zeros(n, device="cuda")
    gathered = torch.zeros(ranks * n, device="cuda")
    outside = torch.zeros(1234, device="cuda")
    turn = torch.zeros((), device="cuda")
    wrong = torch.zeros((), device="cuda")
    ramp = torch.arange(n, device="cuda") % 7

    def step():
        turn.add_(1)
        x.copy_(ramp + turn * (rank + 1))
        dist.all_reduce(x)
        want = ramp * ranks + turn * (ranks * (ranks + 1) // 2)
        wrong.add_((x != want).sum())
        dist.all_gather_into_tensor(gathered, x)
        wrong.add_((gathered.view(ranks, n) != want).sum())

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    torch.cuda.synchronize()
    begin = time.monotonic()
    for i in range(LAUNCHES):
        graph.replay()
        if i % 50 == 0:
            outside.fill_(float(rank + i))
            dist.all_reduce(outside)
            wrong.add_((outside != sum(r + i for r in range(ranks))).sum())
    torch.cuda.synchronize()
    took = (time.monotonic() - begin) / LAUNCHES
    bad = int(wrong.item()) + (int(turn.item()) != LAUNCHES + 3)
    if rank == 0:
        print(f"graphed: {LAUNCHES} launches, {took * 1e6:.0f} us each, {bad} wrong", flush=True)
    graph.reset()  # NCCL's communicators wait for the graphs that hold their operations
    dist.destroy_process_group()
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
