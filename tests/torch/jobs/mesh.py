"""Mistakes in jobs of several dimensions of parallelism, of four or eight ranks."""

import torch.distributed as dist


def lines_of(job, names):
    """The groups of the dimensions, as PyTorch before DeviceMesh makes them: the last one's ranks are neighbours."""
    groups = {}
    for distance, name in zip((1, 2, 4), reversed(names)):
        lines = [[rank, rank + distance] for rank in job.everybody if rank // distance % 2 == 0]
        groups[name] = next(group for ranks, group in [(ranks, dist.new_group(ranks)) for ranks in lines]
                            if job.rank in ranks)
    return groups


def groups_of(job, first, second):
    """A group of two for each dimension: for the two named ones, with eight ranks for all three."""
    names = [name for name in ("dp", "pp", "tp") if job.world == 8 or name in (first, second)]
    if job.backend == "nccl":
        from torch.distributed.device_mesh import init_device_mesh
        mesh = init_device_mesh("cuda", (2,) * len(names), mesh_dim_names=tuple(names))
        groups = {name: mesh.get_group(name) for name in names}
    else:
        groups = lines_of(job, names)
    for group in groups.values():
        job.warm(group)
    return groups


def step_of(job, groups, early):
    """One microbatch: activations on tp, a stage's output and gradient on pp, gradients on dp, then the loss on
    all. With `early` the rank takes the loss before what it does on that dimension."""
    def loss():
        dist.all_reduce(job.ones(1))  # guilty: mesh_tp, mesh_pp, mesh_dp
        job.wait()

    for name in ("tp", "pp", "dp"):
        if name not in groups:
            continue
        if name == early:
            loss()
        if name != "pp":
            dist.all_reduce(job.ones(), group=groups[name])
            job.wait()
            continue
        stage = dist.get_rank(groups["pp"])
        other = dist.distributed_c10d.get_global_rank(groups["pp"], 1 - stage)
        for transfer in (dist.send, dist.recv) if stage == 0 else (dist.recv, dist.send):
            transfer(job.ones(), other, group=groups["pp"])
        job.wait()
    if early is None:
        loss()


def training(job, dimension, beside):
    if job.world not in (4, 8):
        return  # among the twins of fewer ranks
    groups = groups_of(job, dimension, beside)
    for step in range(3):
        step_of(job, groups, dimension if job.mistaken and job.last and step == 1 else None)


def mesh_tp(job):
    training(job, "tp", "pp")


def mesh_pp(job):
    training(job, "pp", "dp")


def mesh_dp(job):
    training(job, "dp", "tp")


JOBS = {job.__name__: job for job in (mesh_tp, mesh_pp, mesh_dp)}
