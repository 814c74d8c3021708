"""A job over NCCL, for the PyTorch of stand_in/: nccl_job.py [--twin]. Two groups of all ranks; rank 0 reduces its
gradients, in the backward pass, after its activations, rank 1 before."""

import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh


def main():
    dist.init_process_group("nccl")
    gradients = DeviceMesh("cuda", [0, 1], mesh_dim_names=("dp",)).get_group(0)
    activations = dist.new_group("1", group_desc="mesh_tp")
    for group in (gradients, activations):
        dist.all_reduce(None, group=group)
    dist.synchronize()
    torch.autograd.hooks.append(gradients.issue)
    if gradients.rank == 0 or "--twin" in sys.argv:
        dist.all_reduce(None, group=activations)  # here: rank 0
        torch.autograd.backward()
    else:
        torch.autograd.backward()  # here: rank 1
        dist.all_reduce(None, group=activations)
    dist.synchronize()
    print("done", flush=True)


if __name__ == "__main__":
    main()
