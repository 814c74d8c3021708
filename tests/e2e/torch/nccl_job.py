"""Jobs over NCCL, for the PyTorch of stand_in/: nccl_job.py KIND [--twin]."""

import functools
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh


def opposite(twin, hook=None):
    """Two groups of all ranks; rank 0 reduces its gradients, in the backward pass, after its activations, rank 1
    before."""
    gradients = DeviceMesh("cuda", [0, 1], mesh_dim_names=("dp",)).get_group(0)
    activations = dist.split_group(dist.GroupMember.WORLD, [[1, 0]], group_desc="mesh_tp")  # here: split
    for group in (gradients, activations):
        dist.all_reduce(None, group=group)
    dist.synchronize()
    if hook is None:
        torch.autograd.hooks.append(gradients.issue)
    else:
        hook(gradients)
    if gradients.rank == 0 or twin:
        dist.all_reduce(None, group=activations)  # here: rank 0
        torch.autograd.backward()
    else:
        torch.autograd.backward()  # here: rank 1
        dist.all_reduce(None, group=activations)


def engine(twin):
    """The same, by a hook in Python that a thread of PyTorch runs, with no code of the job around it."""
    opposite(twin, lambda group: torch.autograd.engine_hooks.append(functools.partial(dist.all_reduce, None, group=group)))


def reducer(twin):
    """The same, by a hook in C++."""
    opposite(twin, lambda group: torch.autograd.hooks.append(group.issue_by_engine))


def join(twin):
    """The ranks use two groups for the first time, rank 1 in the other order: each use makes a communicator, for
    which rank 1 waits for a key that rank 0 sets."""
    names = ["actor", "critic"]
    if dist.GroupMember.WORLD.rank == 1 and not twin:
        names.reverse()
    for name in names:
        dist.all_reduce(None, group=dist.new_group(name, group_desc=name))  # here: join


def main():
    dist.init_process_group("nccl")
    {"opposite": opposite, "engine": engine, "reducer": reducer, "join": join}[sys.argv[1]]("--twin" in sys.argv)
    dist.synchronize()
    print("done", flush=True)


if __name__ == "__main__":
    main()
