"""Mistakes with sends and receives."""

import torch.distributed as dist


def swapped_transfers(job):
    """Neighbours exchange activations and gradients; in one step both receive first."""
    peer = job.rank ^ 1
    if peer >= job.world:
        return
    sends_first = job.rank % 2 == 0
    for step in range(3):
        first = False if job.mistaken and step == 1 else sends_first
        for send in (first, not first):
            if send:
                dist.send(job.ones(), peer)
            else:
                dist.recv(job.ones(), peer)  # guilty: swapped_transfers
            job.wait()


JOBS = {job.__name__: job for job in (swapped_transfers,)}
