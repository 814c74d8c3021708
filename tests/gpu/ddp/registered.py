#!/usr/bin/env python3
"""PyTorch's collectives in a pool of NCCL's memory that is registered with the communicator, one process a GPU (torchrun):
results are compared, before the registration, with it and after its end. Prints the time of an all-reduce of 64 MiB.
Ends with 1 where a result is wrong."""

import os
import sys
import time

import torch
import torch.distributed as dist

TIMES = 100


def main():
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    backend = dist.group.WORLD._get_backend(torch.device("cuda"))
    n = 16 << 20
    pool = torch.cuda.MemPool(backend.mem_allocator)
    with torch.cuda.use_mem_pool(pool):
        x = torch.empty(n, device="cuda")
        gathered = torch.empty(ranks * n, device="cuda")
    ramp = torch.arange(n, device="cuda") % 61
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")

    def check(turn):
        x.copy_(ramp + turn * (rank + 1))
        dist.all_reduce(x)
        want = (ramp * ranks + turn * (ranks * (ranks + 1) // 2)).float()
        wrong.add_((x != want).sum())
        dist.all_gather_into_tensor(gathered, x)
        wrong.add_((gathered.view(ranks, n) != want).sum())

    def timed():
        x.zero_()
        for _ in range(5):
            dist.all_reduce(x)
        torch.cuda.synchronize()
        begin = time.monotonic()
        for _ in range(TIMES):
            dist.all_reduce(x)
        torch.cuda.synchronize()
        return (time.monotonic() - begin) / TIMES * 1e6

    check(1)
    staged = timed()
    backend.register_mem_pool(pool)
    for turn in range(2, 12):
        check(turn)
    registered = timed()
    backend.deregister_mem_pool(pool)
    check(12)
    torch.cuda.synchronize()
    bad = int(wrong.item())
    if rank == 0:
        print(f"registered: all_reduce of 64 MiB in {staged:.0f} us, {registered:.0f} us when registered, {bad} wrong", flush=True)
    dist.destroy_process_group()
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
