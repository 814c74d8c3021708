#!/usr/bin/env python3
"""A data-parallel training with steps of ten milliseconds and more; prints what a step takes.

  python3 -m torch.distributed.run --standalone --nproc-per-node 2 training.py [--steps 200] [--profile cupti]

Rank 0 prints a JSON object: milliseconds of every step, each waited for. --profile cupti keeps CUPTI's
callbacks and activities on, through torch.profiler.
"""

import argparse
import contextlib
import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--warm", type=int, default=20)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--profile", choices=["cupti"])
    args = parser.parse_args()
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank)
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(1)
    layers = []
    for _ in range(args.layers):
        layers += [nn.Linear(args.width, args.width), nn.GELU()]
    model = DistributedDataParallel(nn.Sequential(*layers).to(device, torch.bfloat16), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(args.batch, args.width, device=device, dtype=torch.bfloat16)

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(batch).square().mean().backward()
        optimizer.step()
        torch.cuda.synchronize()

    for _ in range(args.warm):
        step()
    profiler = contextlib.nullcontext()
    if args.profile:
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        profiler = torch.profiler.profile(activities=activities)
    times = []
    with profiler:
        for _ in range(args.steps):
            begin = time.perf_counter()
            step()
            times.append((time.perf_counter() - begin) * 1e3)
    if dist.get_rank() == 0:
        print(json.dumps({"ms": [round(t, 4) for t in times]}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
