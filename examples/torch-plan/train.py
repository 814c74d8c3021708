#!/usr/bin/env python3
"""Data parallel training whose all-reduces hide behind computation, by a plan of `gordian plan`. Runs on CPUs (gloo),
and on GPUs (nccl). PYTHONPATH holds the package gordian.torch (docs/planning.md says where it is).

  torchrun --nproc-per-node 2 examples/torch-plan/train.py --measure buckets.json
  gordian plan buckets.json --ranks 2 --baselines -o plan.json
  torchrun --nproc-per-node 2 examples/torch-plan/train.py --plan plan.json
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from gordian.torch import measure, plan


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", metavar="FILE", help="write the times of the buckets")
    parser.add_argument("--plan", metavar="FILE", help="train by this plan")
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    layers = [layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.ReLU())]
    model = DistributedDataParallel(nn.Sequential(*layers, nn.Linear(256, 8)).to(device), bucket_cap_mb=0.25)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if args.measure:
        times = measure.Times(model)
    if args.plan:
        optimizer = plan.follow(model, optimizer, args.plan)
    torch.manual_seed(2 + rank)
    for step in range(args.steps):
        inputs = torch.randn(16, 256, device=device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), inputs[:, :8].argmax(1))
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 9:
            print(f"step {step}: loss {loss.item():.4f}", flush=True)
    if args.measure:
        times.write(args.measure)
    if args.plan:
        optimizer.flush()
        if rank == 0:
            print(f"{optimizer.updates} updates in {args.steps} steps", flush=True)
    dist.destroy_process_group()
    if rank == 0:
        print("done", flush=True)


if __name__ == "__main__":
    main()
