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


def crossed_tags(job):
    """Rank 0 tags what it sends with the number of the micro batch; for one, its neighbour expects the next."""
    peer = job.rank ^ 1
    if peer >= job.world:
        return
    for batch in range(1, 4):
        if job.rank % 2 == 0:
            dist.send(job.ones(), peer, tag=batch)
            dist.recv(job.ones(), peer)
        else:
            tag = batch + 1 if job.mistaken and batch == 2 else batch
            dist.recv(job.ones(), peer, tag=tag)  # guilty: crossed_tags
            dist.send(job.ones(), peer)
        job.wait()


JOBS = {job.__name__: job for job in (swapped_transfers, crossed_tags)}
