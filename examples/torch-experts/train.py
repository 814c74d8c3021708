#!/usr/bin/env python3
"""Experts whose parameters are sharded: a rank gathers its expert's at their first use, and an all-to-all brings the
tokens back. In step 3 the last rank's expert gets no tokens, so the rank gathers nothing, and the job hangs. Runs
on CPUs (gloo), and on GPUs (nccl).

  gordian run -- torchrun --nproc-per-node 2 examples/torch-experts/train.py
  torchrun --nproc-per-node 2 examples/torch-experts/train.py --repaired      # gathers all the same, and ends
"""

import argparse
import os

import torch
import torch.distributed as dist


def gather_parameters(shard):
    parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, shard)
    return torch.cat(parts).reshape(16, -1)


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
    experts = dist.new_group(list(range(world)))
    shard = torch.full((16 * 16,), 0.01, device=device)
    for step in range(args.steps):
        tokens = torch.ones(8 * world, 16, device=device)
        routed = torch.empty_like(tokens)
        dist.all_to_all_single(routed, tokens, group=experts)
        if step == 3 and rank == world - 1:
            routed = routed[:0]  # the router has sent this expert nothing
        if len(routed) > 0 or args.repaired:
            routed = routed @ gather_parameters(shard)[:, :16]
        back = torch.zeros_like(tokens)
        back[:len(routed)] = routed
        dist.all_to_all_single(tokens, back, group=experts)
        if rank == 0:
            print(f"step {step}: {tokens.mean().item():.4f}", flush=True)
    dist.destroy_process_group()
    if rank == 0:
        print("done", flush=True)


if __name__ == "__main__":
    main()
