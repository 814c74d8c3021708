#!/usr/bin/env python3
"""Data parallel training with a metric of its own group: from step 3 on the last rank reduces the metric before
the gradients, the others after them, and the job hangs. Runs on CPUs (gloo), and on GPUs (nccl).

  gordian run -- torchrun --nproc-per-node 2 examples/torch-ddp/train.py
  torchrun --nproc-per-node 2 examples/torch-ddp/train.py --repaired      # ends
"""

import argparse
import os

import torch
import torch.distributed as dist


def reduce_gradients(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def reduce_metric(loss, group):
    metric = loss.detach().clone()
    dist.all_reduce(metric, group=group)
    return metric.item() / dist.get_world_size()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repaired", action="store_true")
    parser.add_argument("--steps", type=int, default=6)
    args = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    metrics = dist.new_group(list(range(world)))
    torch.manual_seed(1)
    model = torch.nn.Linear(64, 8).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(args.steps):
        optimizer.zero_grad()
        loss = model(torch.randn(32, 64, device=device)).square().mean()
        loss.backward()
        early = not args.repaired and rank == world - 1 and step >= 3
        if early:
            mean = reduce_metric(loss, metrics)
        reduce_gradients(model)
        if not early:
            mean = reduce_metric(loss, metrics)
        optimizer.step()
        if rank == 0:
            print(f"step {step}: loss {mean:.4f}", flush=True)
    dist.destroy_process_group()
    if rank == 0:
        print("done", flush=True)


if __name__ == "__main__":
    main()
