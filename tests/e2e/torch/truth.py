#!/usr/bin/env python3
"""Which members of an operation of gloo end before a late one has called it: what rule W20 rests on.

One rank of four is late in each; the others note when they are through. Run by torch_front_end.py,
with PyTorch alone.
"""

import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SIZE = 4


def tensors():
    return [torch.ones(1) for _ in range(SIZE)]


# Name: (what each rank calls, the late rank, those that must end after it has begun, and before).
OPERATIONS = {
    "send": (lambda r, t: dist.send(t, 1) if r == 0 else dist.recv(t, 0) if r == 1 else None, 1, {0}, {2, 3}),
    "broadcast, leaf late": (lambda r, t: dist.broadcast(t, 0), 3, {1}, {0, 2}),
    "broadcast, child late": (lambda r, t: dist.broadcast(t, 0), 1, {0, 3}, {2}),
    "gather": (lambda r, t: dist.gather(t, tensors() if r == 0 else None, 0), 1, {0}, {2, 3}),
    "gather, root late": (lambda r, t: dist.gather(t, tensors() if r == 0 else None, 0), 0, {1, 2, 3}, set()),
    "scatter": (lambda r, t: dist.scatter(t, tensors() if r == 0 else None, 0), 1, {0}, {2, 3}),
    "scatter, root late": (lambda r, t: dist.scatter(t, tensors() if r == 0 else None, 0), 0, {1, 2, 3}, set()),
    "reduce": (lambda r, t: dist.reduce(t, 0), 1, {0}, set()),
    "all_reduce": (lambda r, t: dist.all_reduce(t), 2, {0, 1, 3}, set()),
    "all_gather": (lambda r, t: dist.all_gather(tensors(), t), 2, {0, 1, 3}, set()),
    "barrier": (lambda r, t: dist.barrier(), 3, {0, 1, 2}, set()),
}


def rank_main(rank, port):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=SIZE)
    store = dist.distributed_c10d._get_default_store()
    wrong = []
    for name, (call, late, after, before) in OPERATIONS.items():
        dist.barrier()
        if rank == late:
            # Those that need nothing of this rank say so, however busy the processors are. The others have
            # this time to end too early.
            if before:
                store.wait([f"{name}/{r}" for r in before], timedelta(seconds=60))
            time.sleep(0.5)
        begun = time.monotonic()
        call(rank, torch.ones(1))
        ended = time.monotonic()
        store.set(f"{name}/{rank}", "through")
        times = [None] * SIZE
        dist.all_gather_object(times, (begun, ended))
        early = {r for r in range(SIZE) if r != late and times[r][1] < times[late][0]}
        if early & after or before - early:
            wrong.append(f"{name}: {sorted(early)} ended before rank {late} began")
    if rank == 0:
        print("\n".join(wrong) or "as W20 says")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    mp.spawn(rank_main, (sys.argv[1],), SIZE)
