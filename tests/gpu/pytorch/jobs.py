#!/usr/bin/env python3
"""PyTorch jobs as people write them; with --hang each has one mistake and never ends.

  python3 -m torch.distributed.run --standalone --nproc-per-node 2 jobs.py JOB [--hang] [--digest FOLDER] [--steps 8]

fsdp      parameters sharded by fully_shard, and a metric that is reduced in a group of its own. The mistake:
          the last rank reduces the metric and waits for it before the step, the others after it.
pipeline  two stages a pair of ranks, activations sent forth and gradients back. The mistake: the first stage
          posts its receive before its send, in one step.
graph     two groups' all-reduces captured in a CUDA graph and replayed. The mistake: the last rank replays
          once less, and goes on to something else.
compile   a module compiled by torch.compile under DDP, and two more groups. The mistake: the last rank takes
          their all-reduces the other way round.

mesh_tp, mesh_pp, mesh_dp
          of four or eight ranks: tensor, pipeline and data parallelism, with four ranks the named one and one
          more. The mistake: the last rank averages the loss over all ranks before its communication in the
          named dimension, the others after it.

Every rank writes FOLDER/digest.RANK: what its results are, bit for bit. Rank 0 prints `done`.
"""

import argparse
import functools
import hashlib
import os
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402


def digest_of(tensors):
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()


def reduce_metric(group, metric):
    dist.all_reduce(metric, group=group)
    torch.cuda.synchronize()


def fsdp(args, device, last):
    from torch.distributed.fsdp import fully_shard

    metrics = dist.new_group(list(range(dist.get_world_size())), group_desc="metrics")
    metric = torch.ones(16, device=device)
    dist.all_reduce(metric, group=metrics)
    model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(4)]).to(device)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    batch = torch.randn(64, 512, device=device)
    for step in range(args.steps):
        early = args.hang and last and step == args.steps - 2
        if early:
            reduce_metric(metrics, metric)
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        if not early:
            reduce_metric(metrics, metric)
        metric.fill_(1)
    return [p.to_local() for p in model.parameters()] + [loss]


def pipeline(args, device, last):
    del last
    rank = dist.get_rank()
    first, peer = rank % 2 == 0, rank ^ 1
    layer = nn.Linear(256, 256).to(device)
    for step in range(args.steps):
        wrong = args.hang and step == args.steps - 2
        activations = torch.ones(32, 256, device=device, requires_grad=True)
        gradients = torch.empty(32, 256, device=device)
        if first:
            output = layer(activations)
            if wrong:
                dist.recv(gradients, src=peer)
            dist.send(output.detach(), dst=peer)
            if not wrong:
                dist.recv(gradients, src=peer)
            output.backward(gradients)
        else:
            received = torch.empty(32, 256, device=device)
            dist.recv(received, src=peer)
            received.requires_grad_(True)
            layer(received).square().mean().backward()
            dist.send(received.grad, dst=peer)
        torch.cuda.synchronize()
    return [p for p in layer.parameters()] + [p.grad for p in layer.parameters()]


def graph(args, device, last):
    everybody = list(range(dist.get_world_size()))
    dp = dist.new_group(everybody, group_desc="dp")
    tp = dist.new_group(everybody, group_desc="tp")
    a = torch.ones(1 << 14, device=device)
    b = torch.ones(1 << 12, device=device)
    for _ in range(3):
        dist.all_reduce(a, group=dp)
        dist.all_reduce(b, group=tp)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        a.mul_(0.5)
        dist.all_reduce(a, group=dp)
        b.mul_(0.5)
        dist.all_reduce(b, group=tp)
    replays = args.steps - 1 if args.hang and last else args.steps
    for _ in range(replays):
        captured.replay()
        torch.cuda.synchronize()
    if args.hang and last:
        time.sleep(3600)  # its own business
    del captured  # before its communicators
    return [a, b]


def compile_(args, device, last):
    from torch.nn.parallel import DistributedDataParallel

    everybody = list(range(dist.get_world_size()))
    dp = dist.new_group(everybody, group_desc="dp")
    tp = dist.new_group(everybody, group_desc="tp")
    gradients, activations = torch.ones(1 << 12, device=device), torch.ones(1 << 10, device=device)
    module = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 128)).to(device)
    model = torch.compile(DistributedDataParallel(module, device_ids=[device.index]))
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-2)
    batch = torch.randn(16, 128, device=device)
    for step in range(args.steps):
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        departs = args.hang and last and step == args.steps - 2
        for group, tensor in ([(tp, activations), (dp, gradients)] if departs else [(dp, gradients), (tp, activations)]):
            dist.all_reduce(tensor, group=group)
        torch.cuda.synchronize()
        gradients.fill_(1)
        activations.fill_(1)
    return list(module.parameters()) + [loss]


class SumOver(torch.autograd.Function):
    """The output of a layer whose columns are split over a group: each rank has a summand."""

    @staticmethod
    def forward(context, summand, group):
        total = summand.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(context, gradient):
        return gradient, None


def mesh(args, device, last, named, beside):
    from torch.distributed.device_mesh import init_device_mesh

    world = dist.get_world_size()
    if world not in (4, 8):
        raise SystemExit(f"{args.job} needs 4 or 8 ranks, not {world}")
    names = [name for name in ("dp", "pp", "tp") if world == 8 or name in (named, beside)]
    dimensions = init_device_mesh("cuda", (2,) * len(names), mesh_dim_names=tuple(names))
    groups = {name: dimensions.get_group(name) for name in names}
    stage, other = 0, None
    if "pp" in groups:
        stage = dist.get_rank(groups["pp"])
        other = dist.get_global_rank(groups["pp"], 1 - stage)
    first, second = nn.Linear(64, 32).to(device), nn.Linear(32, 64, bias=False).to(device)
    parameters = [*first.parameters(), *second.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=1e-2)

    def average(loss):
        dist.all_reduce(loss)
        return loss.item()

    def layers(batch):
        summand = second(torch.relu(first(batch)))
        return SumOver.apply(summand, groups["tp"]) if "tp" in groups else summand

    averaged, loss = 0.0, torch.zeros(1, device=device)
    for step in range(args.steps):
        early = named if args.hang and last and step == args.steps - 2 else None
        optimizer.zero_grad()
        if early == "tp":
            averaged = average(loss)
        batch = torch.full((8, 64), 0.1 * (step + 1), device=device)
        if "pp" in groups and stage == 1:
            if early == "pp":
                averaged = average(loss)
            dist.recv(batch, src=other, group=groups["pp"])
            batch.requires_grad_(True)
        output = layers(batch)
        if "pp" in groups and stage == 0:
            dist.send(output.detach(), dst=other, group=groups["pp"])
            gradient = torch.empty_like(output)
            dist.recv(gradient, src=other, group=groups["pp"])
            output.backward(gradient)
            loss = torch.zeros(1, device=device)
        else:
            error = output.square().mean()
            error.backward()
            loss = error.detach().reshape(1)
            if "pp" in groups:
                dist.send(batch.grad, dst=other, group=groups["pp"])
        if early == "dp":
            averaged = average(loss)
        if "dp" in groups:
            for parameter in parameters:
                dist.all_reduce(parameter.grad, group=groups["dp"])
        optimizer.step()
        if early is None:
            averaged = average(loss)
    return [*parameters, torch.tensor(averaged)]


JOBS = {"fsdp": fsdp, "pipeline": pipeline, "graph": graph, "compile": compile_,
        "mesh_tp": functools.partial(mesh, named="tp", beside="pp"),
        "mesh_pp": functools.partial(mesh, named="pp", beside="dp"),
        "mesh_dp": functools.partial(mesh, named="dp", beside="tp")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=sorted(JOBS))
    parser.add_argument("--hang", action="store_true")
    parser.add_argument("--digest", help="folder")
    parser.add_argument("--steps", type=int, default=8)
    args = parser.parse_args()
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank)
    torch.use_deterministic_algorithms(True)
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(7)
    rank = dist.get_rank()
    results = JOBS[args.job](args, device, rank == dist.get_world_size() - 1)
    torch.cuda.synchronize()
    if args.digest:
        os.makedirs(args.digest, exist_ok=True)
        with open(os.path.join(args.digest, f"digest.{rank}"), "w", encoding="utf-8") as f:
            f.write(digest_of(results) + "\n")
    dist.destroy_process_group()
    if rank == 0:
        print("done", flush=True)


if __name__ == "__main__":
    main()
