"""Mistakes in jobs that PyTorch 2 parallelizes itself. They need GPUs: NCCL, and two ranks."""

import torch
import torch.distributed as dist
from torch import nn


def fsdp_branch(job):
    """The last rank leaves a layer out, whose parameters the others gather, and goes on to the metric."""
    from torch.distributed.fsdp import fully_shard
    metrics = job.group()
    layers = [nn.Linear(64, 64, device=job.device) for _ in range(2)]
    for layer in layers:
        fully_shard(layer, reshard_after_forward=True)  # a layer of its own keeps what it has gathered
    for step in range(3):
        taken = layers[:1] if job.mistaken and job.last and step == 1 else layers
        outputs = torch.ones(8, 64, device=job.device)
        with torch.no_grad():
            for layer in taken:
                outputs = layer(outputs)
        job.wait()
        dist.all_reduce(outputs.sum(), group=metrics)  # guilty: fsdp_branch
        job.wait()


def tensor_parallel(job):
    """The last rank averages over the data-parallel ranks before its layers, not after them."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    tp = init_device_mesh("cuda", (job.world,), mesh_dim_names=("tp",))
    dp = job.group()
    model = nn.Sequential(nn.Linear(96, 96), nn.Linear(96, 96)).to(job.device)
    model = parallelize_module(model, tp, {"0": ColwiseParallel(), "1": RowwiseParallel()})
    for step in range(3):
        early = job.mistaken and job.last and step == 1
        if early:
            dist.all_reduce(job.ones(), group=dp)  # guilty: tensor_parallel
            job.wait()
        with torch.no_grad():
            model(torch.ones(8, 96, device=job.device))  # also: tensor_parallel
        job.wait()
        if not early:
            dist.all_reduce(job.ones(), group=dp)
            job.wait()


def pipeline(job):
    """The first stage reduces its loss before it sends its microbatches, for which the last stage waits."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    losses = job.group()
    stage = PipelineStage(nn.Identity(), job.rank, job.world, job.device)
    schedule = ScheduleGPipe(stage, n_microbatches=4)
    batch = torch.ones(16, 256, device=job.device)
    for step in range(3):
        early = job.mistaken and job.rank == 0 and step == 1
        if early:
            dist.all_reduce(job.ones(), group=losses)  # guilty: pipeline
            job.wait()
        with torch.no_grad():
            schedule.step(*([batch] if job.rank == 0 else []))
        job.wait()
        if not early:
            dist.all_reduce(job.ones(), group=losses)
            job.wait()


def compiled(job):
    """Two compiled functions reduce, each on a group of its own; the last rank calls them in the other order."""
    import torch.distributed._functional_collectives as functional

    def reduction(group):
        def reduce(tensor):  # guilty: compiled
            return functional.all_reduce(tensor, "sum", group) + 1

        return torch.compile(reduce, backend="aot_eager")

    functions = [reduction(job.group()), reduction(job.group())]
    for step in range(3):
        for function in reversed(functions) if job.mistaken and job.last and step == 1 else functions:
            function(job.ones())
            job.wait()


def graph_replays(job):
    """Two CUDA graphs reduce, each on a group of its own; the last rank replays them in the other order."""
    graphs = []
    for group in (job.group(), job.group()):
        tensor = job.ones()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            dist.all_reduce(tensor, group=group)  # guilty: graph_replays
        graphs.append(graph)
    for step in range(3):
        for graph in reversed(graphs) if job.mistaken and job.last and step == 1 else graphs:
            graph.replay()
            job.wait()


JOBS = {job.__name__: job for job in (fsdp_branch, tensor_parallel, pipeline, compiled, graph_replays)}
