"""Mistakes around DistributedDataParallel and its kin."""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset


def wrapped(job, module):
    module = module.to(job.device)
    return DistributedDataParallel(module, device_ids=[job.device.index] if job.backend == "nccl" else None)


def uneven_inputs(job):
    """The last rank has one batch less, and goes on to the validation, whose metric has a group of its own."""
    validation = job.group()
    model = wrapped(job, nn.Linear(64, 64))
    batches = 2 if job.mistaken and job.last else 3
    for _ in range(batches):
        model(torch.ones(8, 64, device=job.device)).sum().backward()  # also, gloo: uneven_inputs
        job.wait()
    dist.all_reduce(job.ones(1), group=validation)  # guilty: uneven_inputs
    job.wait()


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.always, self.sometimes = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, inputs, branch):
        outputs = self.always(inputs)
        return self.sometimes(outputs) if branch else outputs


def unused_parameters(job):
    """The last rank takes the other branch, whose parameters get no gradient: it reduces one bucket less, and
    reduces its loss."""
    losses = job.group()
    model = wrapped(job, Branching())
    for step in range(3):
        branch = not (job.mistaken and job.last and step == 1)
        loss = model(torch.ones(8, 64, device=job.device), branch).mean()
        loss.backward()
        job.wait()
        dist.all_reduce(loss.detach().clone(), group=losses)  # guilty: unused_parameters
        job.wait()


def empty_expert(job):
    """The last rank's expert gets no tokens, so that the rank does not gather the expert's parameters, as ZeRO 3
    does at their first use, and goes on to send the tokens back."""
    experts = job.group()
    shard = job.ones(256)
    for step in range(3):
        tokens = 0 if job.mistaken and job.last and step == 1 else 16
        if tokens > 0:
            parts = [torch.empty_like(shard) for _ in job.everybody]
            dist.all_gather(parts, shard)
            job.wait()
        # gloo's all-to-all of this version is the single one.
        combined = job.ones(16 * job.world)
        dist.all_to_all_single(torch.empty_like(combined), combined, group=experts)  # guilty: empty_expert
        job.wait()


class Batches(Dataset):
    def __init__(self, crash_at):
        self.crash_at = crash_at

    def __len__(self):
        return 4

    def __getitem__(self, index):
        if index == self.crash_at:
            os._exit(1)
        return torch.ones(8) * index


def crashed_loader(job):
    """The worker of the last rank's DataLoader dies; the rank takes the error for the end of its data and waits for
    the others in a barrier, while they gather what each has seen, as objects."""
    control = job.group(backend="gloo")
    objects = job.group(backend="gloo")
    loader = DataLoader(Batches(2 if job.mistaken and job.last else -1), num_workers=1, batch_size=1)
    try:
        for batch in loader:
            seen = [None] * job.world
            dist.all_gather_object(seen, batch.sum().item(), group=objects)
    except (RuntimeError, OSError) as error:  # an earlier batch may still be on its way from the worker
        print(f"rank {job.rank}: {error}", flush=True)
    dist.barrier(group=control)  # guilty: crashed_loader


def autograd_hooks(job):
    """A hook reduces gradients as they come, on one group; the last rank's main thread reduces its activations
    before the backward pass, the others' after it."""
    gradients, activations = job.group(), job.group()
    weight = job.ones(256).requires_grad_(True)

    def reduce(gradient):
        dist.all_reduce(gradient, group=gradients)
        job.wait()
        return gradient

    weight.register_hook(reduce)
    for step in range(3):
        early = job.mistaken and job.last and step == 1
        outputs = weight * 2
        if early:
            dist.all_reduce(outputs.detach().clone(), group=activations)  # guilty: autograd_hooks
            job.wait()
        outputs.sum().backward()
        if not early:
            dist.all_reduce(outputs.detach().clone(), group=activations)
            job.wait()


def checkpoint_thread(job):
    """A thread saves the optimizer's state while the main thread trains. Both use one group, and the last rank's
    come to it in the other order."""
    import threading
    saving = job.group() if job.twin else dist.group.WORLD
    shard = job.ones(256)
    turn = [threading.Event(), threading.Event()]

    def save():
        if not job.last and job.mistaken:
            turn[0].wait()
        parts = [torch.empty_like(shard) for _ in job.everybody]
        if job.last:
            turn[1].set()
        with job.own_stream():
            dist.all_gather(parts, shard, group=saving)  # guilty: checkpoint_thread
        job.wait()

    thread = threading.Thread(target=save, name="checkpoint")
    thread.start()
    if job.last:
        turn[1].wait()
        time.sleep(0.2)  # so that the thread is inside
    work = dist.all_reduce(job.ones(4096), async_op=True)
    turn[0].set()
    work.wait()
    job.wait()
    thread.join()


JOBS = {job.__name__: job for job in (uneven_inputs, unused_parameters, empty_expert, crashed_loader, autograd_hooks,
                                      checkpoint_thread)}
