"""Mistakes with more than one group."""

import datetime

import torch.distributed as dist


def opposite_groups(job):
    """Two groups of all ranks, which the last rank uses in the other order."""
    a, b = job.group(), job.group()
    for step in range(3):
        departs = job.mistaken and job.last and step == 1
        for group in (b, a) if departs else (a, b):
            dist.all_reduce(job.ones(), group=group)  # guilty: opposite_groups
            job.wait()


def set_order(job):
    """Buckets of dense and of expert parameters are kept in a set, whose order is each process's own. The
    reduce-scatters of the two go to two groups (Megatron-LM issue 2218)."""
    dense, expert = job.group(), job.group()
    names = ["dense", "expert"] if job.twin else {"dense", "expert"}
    for name in names:
        # gloo of this version has no reduce-scatter: one reduce for each owner of a part.
        for owner in job.everybody:
            dist.reduce(job.ones(), owner, group=expert if name == "expert" else dense)  # guilty: set_order
            job.wait()


def engines_join(job):
    """Two trainers each open a group with the engines; the last engine joins them in the other order (slime issue
    2331). Making the group waits for all its members."""
    names = ["actor", "critic"]
    if job.mistaken and job.last:
        names.reverse()
    joined = []
    for name in names:
        store = dist.PrefixStore(name, job.store)
        if job.backend == "nccl":
            group = dist.ProcessGroupNCCL(store, job.rank, job.world)
            group.allreduce([job.ones(1)]).wait()  # guilty: engines_join
            job.wait()
        else:
            group = dist.ProcessGroupGloo(store, job.rank, job.world,  # guilty: engines_join
                                          datetime.timedelta(minutes=30))
        joined.append(group)
    dist.barrier()


def gathers_behind_broadcasts(job):
    """Trainers 0 and 1 gather each parameter, and trainer 0 broadcasts it to an inference engine, which trainer 1
    tells when to expect it. Trainer 0 broadcasts before it gathers (trl issue 6798)."""
    trainers = job.group([0, 1])
    weights = job.group([0, 2])
    notes = job.group([1, 2])
    for step in range(3):
        early = job.mistaken and step == 1
        if job.rank == 0 and early:
            dist.broadcast(job.ones(), 0, group=weights)  # guilty: gathers_behind_broadcasts
            job.wait()
        if job.rank in (0, 1):
            parts = [job.ones(), job.ones()]
            dist.all_gather(parts, job.ones(), group=trainers)
            job.wait()
        if job.rank == 1:
            dist.send(job.ones(1), 2, group=notes)
            job.wait()
        if job.rank == 2:
            dist.recv(job.ones(1), 1, group=notes)
            job.wait()
        if job.rank == 2 or (job.rank == 0 and not early):
            dist.broadcast(job.ones(), 0, group=weights)
            job.wait()


JOBS = {job.__name__: job for job in (opposite_groups, set_order, engines_join, gathers_behind_broadcasts)}
