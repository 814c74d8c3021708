"""One rank makes another call than the others, on the same group."""

import torch
import torch.distributed as dist


def rank_conditional(job):
    """Rank 0 alone reduces its loss, to log it, on the metrics' group; the others go on to the next step."""
    metrics = job.group()
    for step in range(3):
        if not job.mistaken or job.rank == 0 and step == 1:
            dist.all_reduce(job.ones(1), group=metrics)  # guilty: rank_conditional
            job.wait()
        dist.all_reduce(job.ones())
        job.wait()


def checkpoint_barrier(job):
    """Rank 0 writes the checkpoint, with a barrier inside its branch; the others reduce gradients."""
    for step in range(3):
        if step == 1:
            if job.rank == 0 or job.twin:
                dist.barrier()  # guilty: checkpoint_barrier
        dist.all_reduce(job.ones())
        job.wait()


def reduce_for_all_reduce(job):
    """The last rank reduces to rank 0 where the others reduce to all."""
    for step in range(3):
        tensor = job.ones()
        if job.mistaken and job.last and step == 1:
            dist.reduce(tensor, 0)  # guilty: reduce_for_all_reduce
        else:
            dist.all_reduce(tensor)
        job.wait()
    dist.broadcast(torch.zeros(8, device=job.device), job.world - 1)
    job.wait()


def members_alone(job):
    """Rank 0 makes a group of its own; PyTorch has all ranks call new_group, also those that are no members."""
    dist.all_reduce(job.ones())
    if job.rank == 0 or not job.mistaken:
        dist.new_group([0])  # guilty: members_alone
    dist.all_reduce(job.ones())
    job.wait()


JOBS = {job.__name__: job
        for job in (rank_conditional, checkpoint_barrier, reduce_for_all_reduce, members_alone)}
