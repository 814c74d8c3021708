#!/usr/bin/env python3
"""Two process groups over the same ranks; in one step one rank takes their all-reduces the other way
round, and the job hangs.

  python3 -m torch.distributed.run --standalone --nproc-per-node 2 swapped.py [--step 5 | --never]

--never is the innocent twin: it ends and prints `done`.
"""

import argparse
import os

import torch
import torch.distributed as dist


def all_reduce_gradients(group, gradients):
    dist.all_reduce(gradients, group=group)


def all_reduce_activations(group, activations):
    dist.all_reduce(activations, group=group)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--step", type=int, default=5, help="the step in which the last rank departs")
    parser.add_argument("--never", action="store_true")
    args = parser.parse_args()

    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank)
    dist.init_process_group("nccl", device_id=device)
    rank, world = dist.get_rank(), dist.get_world_size()
    everybody = list(range(world))
    dp = dist.new_group(everybody, group_desc="dp")
    tp = dist.new_group(everybody, group_desc="tp")
    gradients = torch.ones(1 << 16, device=device)
    activations = torch.ones(1 << 14, device=device)
    for step in range(args.steps):
        departs = not args.never and rank == world - 1 and step == args.step
        gradients.fill_(rank + 1)
        activations.fill_(2 * (rank + 1))
        if departs:
            all_reduce_activations(tp, activations)
            all_reduce_gradients(dp, gradients)
        else:
            all_reduce_gradients(dp, gradients)
            all_reduce_activations(tp, activations)
        torch.cuda.synchronize()
        total = world * (world + 1) // 2
        if gradients[0].item() != total or activations[-1].item() != 2 * total:
            raise SystemExit(f"rank {rank}, step {step}: wrong sums")
        if rank == 0:
            print(f"step {step}", flush=True)
    dist.destroy_process_group()
    if rank == 0:
        print("done", flush=True)


if __name__ == "__main__":
    main()
